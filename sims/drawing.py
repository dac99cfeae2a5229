"""What figures of all modules share: axes in the house style, legends beside the data, a guide line."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from porism.checks import one_of
from porism.claims import SCALES
from porism.sims.style import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GUIDE", "canvas", "is_paper", "legend"]

GUIDE: dict[str, Any] = {"color": "0.25", "linewidth": 1.0, "linestyle": (0, (4, 3))}
"""Look of a line that marks a place and is no data."""


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
