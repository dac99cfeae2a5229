"""What the figures of the pattern module share: axes, panels, legends, outlines of masks."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from porism.sims.drawing import GUIDE, canvas, is_paper, legend
from porism.sims.style import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GUIDE", "LOOKS", "Rng", "canvas", "is_paper", "legend", "outline", "panels"]

Rng = np.random.Generator | int | None

LOOKS = list(zip(COLORS, "osD^vPX", ("-", "--", "-.", ":", "--", "-.", ":"), strict=True))
"""Colour, marker and dash: three ways to tell lines apart."""


def panels(ax: "Axes", rows: int, columns: int) -> "list[Axes]":
    """Axes in a grid in the place that the first one had, row by row; the first is the one given."""
    place = ax.get_subplotspec()
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    if place is None:
        return [ax] + [ax.inset_axes((1.4 * column, -1.5 * row, 1.0, 1.0)) for row, column in cells[1:]]
    grid = place.subgridspec(rows, columns)
    ax.set_subplotspec(grid[0, 0])
    return [ax] + [ax.figure.add_subplot(grid[cell]) for cell in cells[1:]]


def outline(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Segments (k, 2, 2) of points (x, y) around the cells of weight above 0, in units of cells."""
    inside = np.pad(S > 0, 1)
    i, j = np.nonzero(inside[1:-1, 1:] != inside[1:-1, :-1])  # upright, left of column j
    upright = np.stack([np.stack([j, i], 1), np.stack([j, i + 1], 1)], 1)
    i, j = np.nonzero(inside[1:, 1:-1] != inside[:-1, 1:-1])
    level = np.stack([np.stack([j, i], 1), np.stack([j + 1, i], 1)], 1)
    return np.concatenate([upright, level]).astype(np.float64)
