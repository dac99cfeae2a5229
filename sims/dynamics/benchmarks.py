"""Benchmarks of the dynamics module: area and border of a basin beside scripts that run starts forward."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.benchmark import compare
from porism.sims.dynamics.worlds import count_low, runge_kutta, vector_field
from porism.theory.dynamics import DelegationModel

__all__ = ["AREA", "BENCHMARKS"]

Floats = NDArray[np.float64]

AREA = 0.62734676408307697
"""Area of low skill at a = 1, b = .6, k = 1, q = .7: power series and Taylor steps, 30 digits."""

SIDE = 200
"""Starts a side of the grid."""


def _model() -> DelegationModel:
    """A new one each time, as a model keeps its border."""
    return DelegationModel(1, 0.6, 1, 0.7)


def _grid(side: Floats) -> Floats:
    return np.stack(np.meshgrid(side, side)).reshape(2, -1)


def area_of_a_basin() -> dict[str, Any]:
    """Area of the basin of low skill beside 40 000 starts of a grid run forward, 3 000 steps each.

    ``our_error`` and ``peer_error`` are distances from a run of 30 digits. ``midpoints_error`` is what a grid
    of midpoints would give in place of one with its edges, if it judged every start rightly.
    """
    starts = _grid(np.linspace(0, 1, SIDE))
    found: list[float] = []

    def script() -> float:
        low, total = count_low(_model(), starts, 60.0, 3000)
        return low / total

    def difference(ours: float, theirs: float) -> float:
        found.extend((ours, theirs))
        return abs(ours - theirs)

    row = compare(
        f"area of a basin; peer: {SIDE}^2 starts x 3000 steps",
        "numpy",
        lambda: _model().low_skill_area(),
        script,
        difference,
        5e-3,  # half a cell along the border, 1 / 400, on either side
        rounds=1,
    )
    s, d = _grid((np.arange(SIDE) + 0.5) / SIDE)
    midpoints = float((d > _model().separatrix()(s)).mean())
    errors = {"our_error": found[0], "peer_error": found[1], "midpoints_error": midpoints}
    return row | {name: abs(value - AREA) for name, value in errors.items()}


def border_of_a_basin() -> dict[str, Any]:
    """The border at 50 skills beside bisection by running starts forward, to 1e-6."""
    s = np.linspace(0.01, 0.99, 50)

    def bisect() -> Floats:
        model = _model()
        field = vector_field(model.learn, model.forget, model.speed, model.quality)
        low, high = np.zeros_like(s), np.ones_like(s)
        for _ in range(20):
            middle = (low + high) / 2
            lost = runge_kutta(field, np.stack([s, middle]), 120.0, 1200)[0] < 0.5
            low, high = np.where(lost, low, middle), np.where(lost, middle, high)
        return (low + high) / 2

    return compare(
        "border of a basin at 50 skills; peer: bisection by runs",
        "numpy",
        lambda: _model().separatrix()(s),
        bisect,
        lambda ours, theirs: float(np.abs(ours - theirs).max()),
        2e-5,  # bisection to 1e-6, and steps of 0.1 of fourth order
        rounds=3,
    )


BENCHMARKS = [area_of_a_basin, border_of_a_basin]
