"""One look for every figure, used in a context and never set globally."""

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["BLUE", "COLORS", "GREEN", "GREY", "ORANGE", "PURPLE", "RED", "SKY", "YELLOW", "style"]

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, GREY = "#CC79A7", "#56B4E9", "#F0E442", "#6B6B6B"

COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
"""Colours of Okabe and Ito, which colour-blind readers tell apart; yellow is too pale for lines."""


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw inside this context to get the look of the toolkit.

    Returns
    -------
    context manager
        matplotlib's own settings are back when it ends, also after an exception.

    References
    ----------
    Okabe and Ito 2008, Color Universal Design: how to make figures and presentations that are friendly to
    colorblind people.

    Examples
    --------
    >>> import matplotlib
    >>> with style():
    ...     inside = matplotlib.rcParams["axes.spines.top"]
    >>> inside, matplotlib.rcParams["axes.spines.top"]
    (False, True)
    """
    import matplotlib
    from cycler import cycler
    from matplotlib import pyplot

    load: Any = pyplot.draw_if_interactive
    load()  # loads the backend, which sets rcParams: leaving would undo that
    settings: Any = {
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.prop_cycle": cycler(color=COLORS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 12,
        "axes.labelsize": 11,
        "figure.constrained_layout.use": True,
        "figure.dpi": 110,
        "figure.figsize": (6.4, 4.0),
        "font.size": 11,
        "grid.alpha": 0.3,
        "grid.linewidth": 0.6,
        "image.cmap": "cividis",
        "legend.fontsize": 9,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "savefig.dpi": 150,
        "svg.hashsalt": "porism",  # the same figure gives the same file
        "xtick.labelsize": 10,
        "ytick.labelsize": 10,
    }
    with matplotlib.rc_context(settings):
        yield
