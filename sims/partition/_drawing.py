"""What the figures of the partition module share: semivalues and their looks, axes, legends."""

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.sims import drawing
from porism.sims.drawing import GUIDE, canvas, is_paper
from porism.sims.style import COLORS
from porism.theory.partition import Semivalue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "GUIDE",
    "KINDS",
    "LOOKS",
    "Rng",
    "beside",
    "canvas",
    "infinity",
    "is_paper",
    "legend",
    "ratio_axis",
    "squash",
]

Rng = np.random.Generator | int | None

KINDS = {
    "Shapley": Semivalue.shapley(),
    "Banzhaf": Semivalue.banzhaf(),
    "Beta(4,1)": Semivalue.beta(4, 1),
    "Beta(1,4)": Semivalue.beta(1, 4),
}
LOOKS = dict(zip(KINDS, zip(COLORS, "osD^", ("-", "--", "-.", ":"), strict=False), strict=True))

legend = functools.partial(drawing.legend, below=0.17, centre=0.45)


def infinity(radii: list[NDArray[np.float64]]) -> float:
    """Where robust draws are put on a logarithmic axis: well above every finite radius."""
    finite = [float(r) for radius in radii for r in radius.ravel() if math.isfinite(r)]
    return 10.0 ** (math.ceil(math.log10(max([10.0, *finite]))) + 0.5)


def ratio_axis(ax: "Axes", which: str, top: float) -> None:
    getattr(ax, f"set_{which}scale")("log")
    getattr(ax, f"set_{which}lim")(0.85, top * 1.6)
    (ax.axvline if which == "x" else ax.axhline)(top / 10**0.35, **GUIDE)
    ticks = [10.0**e for e in range(math.floor(math.log10(top)) + 1)]
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_ticks([*ticks, top], [*(f"{tick:g}" for tick in ticks), "∞"])
    axis.set_ticks([], minor=True)


def beside(ax: "Axes") -> "Axes":
    """A second axes beside the first, in the place that the first had."""
    place = ax.get_subplotspec()
    if place is None:
        return ax.inset_axes((1.3, 0.0, 1.0, 1.0))
    halves = place.subgridspec(1, 2)
    ax.set_subplotspec(halves[0])
    return ax.figure.add_subplot(halves[1])


def squash(radius: Any) -> Any:
    """Radius in [0, inf] to [0, 1], order kept, with 1 in the middle."""
    with np.errstate(invalid="ignore"):
        power = np.asarray(radius, dtype=np.float64) ** 0.4
        return np.where(np.isinf(power), 1.0, power / (1.0 + power))
