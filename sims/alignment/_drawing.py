"""What the figures of the alignment module share: panels, legends, bars, and looks of starts and rules."""

import functools
from typing import TYPE_CHECKING, Any

from porism.sims import drawing
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MOMENT_NAMES",
    "PREDICTOR_NAMES",
    "START_LOOKS",
    "bars",
    "panels",
]

panels = functools.partial(drawing.panels, gap=0.06)

START_LOOKS = {
    "kaiming": (GREY, "X", "Kaiming"),
    "orthonormal": (BLUE, "o", "random orthonormal"),
    "pissa": (RED, "v", "PiSSA"),
    "all": (SKY, "^", "PCA, all tokens"),
    "target": (ORANGE, "D", "PCA, target token"),
    "auto": (GREEN, "s", "PCA, measured"),
    "target_pivot": (ORANGE, "P", "PCA, target, pivot"),
    "auto_pivot": (PURPLE, "P", "PCA, measured, pivot"),
}
"""Colour, marker and name of each start: the same in every panel."""

PREDICTOR_NAMES = {
    "true_rho": "true ρ",
    "predicted_gain": "predicted gain",
    "plugin": "in sample",
    "crossfit": "cross-fitted",
    "crossfit_raw": "cross-fitted, raw",
}
"""Predictors in words."""

MOMENT_NAMES = {
    "transport": "moved along",
    "reset": "all reset",
    "keep": "not moved",
    "zero_second": "second moment zeroed",
}
"""What a pivot does with averages, in words."""


def bars(ax: "Axes", x: Any, y: Any, error: Any, color: str, marker: str, **options: Any) -> None:
    """Points with bars of two standard errors."""
    look: dict[str, Any] = {"linestyle": "none", "capsize": 3, "markersize": 5.5, "zorder": 4}
    ax.errorbar(x, y, 2 * error, color=color, marker=marker, **(look | options))
