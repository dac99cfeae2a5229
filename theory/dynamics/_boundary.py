"""What a phase plane needs at the edge of its box, and its drawing."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["back", "gap", "nullclines", "portrait"]

Floats = NDArray[np.float64]

MARKS = {
    "stable": ("o", "black"),
    "unstable": ("o", "white"),
    "saddle": ("D", "white"),
    "centre": ("s", "white"),
    "degenerate": ("X", "white"),
}
"""Marker and filling by the first word of the kind."""


def gap(point: Floats, low: Floats, high: Floats) -> float:
    """Distance to the nearest side, as a share of the box."""
    unit = (point - low) / (high - low)
    return float(np.abs(np.minimum(unit, 1 - unit)).min())


def back(start: Floats, end: Floats, low: Floats, high: Floats) -> float:
    """Integral of y dx along the edge from start to end, clockwise."""
    size = high - low
    corners = np.array([low, [low[0], high[1]], high, [high[0], low[1]]])
    here, there = (_place((point - low) / size) for point in (start, end))
    if there < here:
        there += 4.0
    stops = [corners[k % 4] for k in range(int(here) + 1, int(np.ceil(there)))]
    path = np.array([start, *stops, end])
    return float(((path[1:, 1] + path[:-1, 1]) / 2 * np.diff(path[:, 0])).sum())


def _place(unit: Floats) -> float:
    """Where on the edge, clockwise from the lower left corner: 0 to 1 is the left side, 1 to 2 the top."""
    x, y = np.clip(unit, 0.0, 1.0)
    side = int(np.argmin([x, 1 - y, 1 - x, y]))
    return float(side + (y, x, 1 - y, 1 - x)[side])


def nullclines(plane: Any, n: int, low: Floats, high: Floats) -> tuple[list[Floats], list[Floats]]:
    """Contours at zero, moved onto the curve."""
    from contourpy import contour_generator

    size = high - low
    # a little beyond the box: a component may vanish on an edge, and then changes sign across it
    sides = [np.linspace(a - 2e-3 * w, b + 2e-3 * w, n + 1) for a, b, w in zip(low, high, size, strict=True)]
    x, y = np.meshgrid(*sides)
    with np.errstate(all="ignore"):
        values = np.ma.masked_invalid(plane.velocity(x, y))
    found: tuple[list[Floats], list[Floats]] = ([], [])
    for index in (0, 1):
        for line in contour_generator(x, y, values[index]).lines(0.0):
            curve = np.array(line).T
            for _ in range(3):
                slope = plane.jacobian(*curve)[index]
                square = (slope * slope).sum(axis=0)
                curve = curve - slope * (plane.velocity(*curve)[index] / np.where(square > 0, square, 1.0))
            points = curve.T
            inside = (points >= low - 1e-9 * size) & (points <= high + 1e-9 * size)
            for piece in _runs(np.clip(points, low, high), np.asarray(inside.all(axis=1))):
                found[index].append(piece)
    return found


def _runs(points: Floats, keep: NDArray[np.bool_]) -> list[Floats]:
    """Stretches of kept points, of two at least."""
    cuts = np.flatnonzero(np.diff(keep.astype(int))) + 1
    parts = zip(np.split(points, cuts), np.split(keep, cuts), strict=True)
    return [part for part, kept in parts if len(part) > 1 and kept[0]]


def portrait(plane: Any, ax: "Axes | None", n: int) -> "Axes":
    """Stream lines, nullclines, equilibria, separatrices."""
    from matplotlib import pyplot

    ax = pyplot.subplots()[1] if ax is None else ax
    (x0, x1), (y0, y1) = plane.box
    sides = np.linspace(x0, x1, 40), np.linspace(y0, y1, 40)
    vx, vy = plane.velocity(*np.meshgrid(*sides))
    ax.streamplot(*sides, vx, vy, color="0.75", linewidth=0.7, arrowsize=0.7, density=1.1)
    for curves, color, dash, name in zip(
        plane.nullclines(n), ("#0072B2", "#E69F00"), ("--", "-."), ("dx/dt = 0", "dy/dt = 0"), strict=True
    ):
        for number, curve in enumerate(curves):
            ax.plot(*curve.T, dash, color=color, linewidth=1.4, label=None if number else name)
    for number, rest in enumerate(found := plane.equilibria()):
        if rest.kind == "saddle":
            first = not any(other.kind == "saddle" for other in found[:number])
            ax.plot(
                *plane.separatrix(rest).T, color="#D55E00", linewidth=2, label="separatrix" if first else None
            )
    for rest in found:
        marker, fill = MARKS[rest.kind.split()[0]]
        ax.plot(*rest.point, marker, color="black", markerfacecolor=fill, zorder=4, clip_on=False)
    ax.set(xlim=(x0, x1), ylim=(y0, y1), xlabel="x", ylabel="y")
    return ax
