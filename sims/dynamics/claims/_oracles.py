"""What several claims share: parameters as arrays, known areas, the tolerances and where they come from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.dynamics import DelegationModel

__all__ = ["AREAS", "LOGISTIC_AREAS", "RUN", "SOURCE", "TRACED", "parameters", "perturbed"]

Floats = NDArray[np.float64]

SOURCE = "arXiv 2603.02950, of which a summary was seen; our reconstruction and derivation"

AREAS = {
    0.3: 0.17303027,
    0.5: 0.37647266,
    0.6: 0.49805453,
    0.7: 0.62734676,
    0.8: 0.75874908,
    0.85: 0.82318903,
}
"""Law A, a = 1, b = .6, k = 1: area of low skill by quality."""

LOGISTIC_AREAS = {0.35: 0.046, 0.45: 0.201, 0.55: 0.436, 0.65: 0.685, 0.75: 0.938}
"""Law B with gain 12, the same rates."""

TRACED = 1e-9
"""Error of an area or a border: 1e-11 a step, at most a hundred steps."""

RUN = "integrator: 1e-11 a step, at most a hundred steps, along a curve that attracts backward"


def parameters(models: Sequence[DelegationModel], each: int = 1) -> dict[str, Any]:
    """Rates of models as arrays for `vector_field`, every one repeated."""
    names = ("learn", "forget", "speed", "quality", "gain")
    values: dict[str, Any] = {
        name: np.repeat([getattr(model, name) or np.nan for model in models], each) for name in names
    }
    if np.isnan(values["gain"]).all():
        values["gain"] = None
    return values


def perturbed(model: DelegationModel, **changes: float) -> DelegationModel:
    """The same model with factors on some of its parameters, or sums where the name is quality."""
    values = {name: getattr(model, name) for name in ("learn", "forget", "speed", "quality", "law", "gain")}
    for name, change in changes.items():
        values[name] = values[name] + change if name == "quality" else values[name] * change
    return DelegationModel(**values)
