"""What the figures of the pattern module share: axes, panels, legends, outlines of masks."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of
from porism.claims import SCALES
from porism.sims.style import COLORS, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GUIDE", "LOOKS", "Rng", "canvas", "legend", "outline", "panels", "paper"]

Rng = np.random.Generator | int | None

GUIDE: dict[str, Any] = {"color": "0.25", "linewidth": 1.0, "linestyle": (0, (4, 3))}

LOOKS = list(zip(COLORS, "osD^vPX", ("-", "--", "-.", ":", "--", "-.", ":"), strict=True))
"""Colour, marker and dash: three ways to tell lines apart."""


def paper(scale: str) -> bool:
    return one_of("scale", scale, SCALES) == "paper"


@contextlib.contextmanager
def canvas(ax: "Axes | None", size: tuple[float, float] = (6.4, 4.2)) -> "Iterator[Axes]":
    from matplotlib import pyplot

    with style():
        yield pyplot.subplots(figsize=size)[1] if ax is None else ax


def panels(ax: "Axes", rows: int, columns: int) -> "list[Axes]":
    """Axes in a grid in the place that the first one had, row by row; the first is the one given."""
    place = ax.get_subplotspec()
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    if place is None:
        return [ax] + [ax.inset_axes((1.4 * column, -1.5 * row, 1.0, 1.0)) for row, column in cells[1:]]
    grid = place.subgridspec(rows, columns)
    ax.set_subplotspec(grid[0, 0])
    return [ax] + [ax.figure.add_subplot(grid[cell]) for cell in cells[1:]]


def legend(ax: "Axes", columns: int, below: float = 0.24, **options: Any) -> None:
    place = (0.5, -below)  # under the label of the axis, never over the data
    ax.legend(
        loc="upper center",
        bbox_to_anchor=place,
        ncols=columns,
        columnspacing=1.2,
        handletextpad=0.5,
        **options,
    )


def outline(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Segments (k, 2, 2) of points (x, y) around the cells of weight above 0, in units of cells."""
    inside = np.pad(S > 0, 1)
    i, j = np.nonzero(inside[1:-1, 1:] != inside[1:-1, :-1])  # upright, left of column j
    upright = np.stack([np.stack([j, i], 1), np.stack([j, i + 1], 1)], 1)
    i, j = np.nonzero(inside[1:, 1:-1] != inside[:-1, 1:-1])
    level = np.stack([np.stack([j, i], 1), np.stack([j + 1, i], 1)], 1)
    return np.concatenate([upright, level]).astype(np.float64)
