"""What figures of all modules share: axes in the house style, legends beside the data, a guide line."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from porism.checks import generator, integer, one_of
from porism.claims import SCALES
from porism.sims.style import COLORS, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GUIDE", "LOOKS", "Rng", "canvas", "is_paper", "legend", "panels", "seed_of"]

Rng = np.random.Generator | int | None
"""What every figure takes as its source of random numbers."""

GUIDE: dict[str, Any] = {"color": "0.25", "linewidth": 1.0, "linestyle": (0, (4, 3))}
"""Look of a line that marks a place and is no data."""

LOOKS = list(zip(COLORS, "osD^vPX", ("-", "--", "-.", ":", "--", "-.", ":"), strict=True))
"""Colour, marker and dash: three ways to tell lines apart."""


def is_paper(scale: str) -> bool:
    """Whether a figure is drawn at the large scale.

    Parameters
    ----------
    scale : {"smoke", "paper"}
        Size of the worlds.

    Returns
    -------
    bool
        True for "paper".

    Examples
    --------
    >>> is_paper("smoke")
    False
    """
    return one_of("scale", scale, SCALES) == "paper"


@contextlib.contextmanager
def canvas(ax: "Axes | None", size: tuple[float, float] = (6.4, 4.2)) -> "Iterator[Axes]":
    """Draw in the house style, into the axes given or into a figure of its own.

    Parameters
    ----------
    ax : Axes or None
        Axes of the caller; None makes a figure.
    size : (float, float)
        Width and height of that figure, in inches.

    Returns
    -------
    context manager
        Gives the axes.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> with canvas(None) as ax:
    ...     ax.get_title()
    ''
    """
    from matplotlib import pyplot

    with style():
        yield pyplot.subplots(figsize=size)[1] if ax is None else ax


def legend(ax: "Axes", columns: int, below: float = 0.24, centre: float = 0.5, **options: Any) -> None:
    """Put the legend under the label of the horizontal axis, never over the data.

    Parameters
    ----------
    ax : Axes
        Axes with labelled artists.
    columns : int
        Entries in a row.
    below : float
        Distance under the axes, as a share of their height.
    centre : float
        Place along the axes, as a share of their width.
    **options
        Further arguments of matplotlib's legend.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> lines = ax.plot([0, 1], label="line")
    >>> legend(ax, 1)
    >>> ax.get_legend().get_texts()[0].get_text()
    'line'
    """
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(centre, -below),
        ncols=columns,
        columnspacing=1.2,
        handletextpad=0.5,
        **options,
    )


def panels(ax: "Axes", rows: int, columns: int, gap: float | None = None) -> "list[Axes]":
    """Make axes in a grid in the place that the first one had, row by row; the first is the one given.

    Parameters
    ----------
    ax : Axes
        Axes to divide; without a place in a grid the others are drawn beside and under it.
    rows, columns : int
        Size of the grid, >= 1.
    gap : float, optional
        Distance between columns, as a share of their width; matplotlib's own without it.

    Returns
    -------
    list of Axes, of length rows * columns
        In the order of reading.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> found = panels(ax, 2, 3)
    >>> len(found), found[0] is ax
    (6, True)
    """
    integer("rows", rows, 1)
    integer("columns", columns, 1)
    place = ax.get_subplotspec()
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    if place is None:
        return [ax] + [ax.inset_axes((1.4 * column, -1.5 * row, 1.0, 1.0)) for row, column in cells[1:]]
    grid = place.subgridspec(rows, columns, wspace=gap)
    ax.set_subplotspec(grid[0, 0])
    return [ax] + [ax.figure.add_subplot(grid[cell]) for cell in cells[1:]]


def seed_of(rng: Rng) -> int:
    """Give the seed of runs that are kept in memory: an int is one itself, a generator draws one.

    Parameters
    ----------
    rng : Generator, int or None
        Source.

    Returns
    -------
    int
        In 0..2^31 - 1 unless it was given.

    Examples
    --------
    >>> seed_of(7)
    7
    """
    return rng if isinstance(rng, int) else int(generator(rng).integers(2**31))
