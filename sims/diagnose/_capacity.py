"""Second moments for the capacity of every layer, and the curves that they give."""

import dataclasses
from collections.abc import Callable
from typing import Any

from porism._models import linear_maps
from porism.sims.diagnose.capacity import LayerCapacity
from porism.theory.token_capacity import HiddenStateMoments
from porism.theory.token_capacity.choose import choose_from_moments

__all__ = ["Capacity"]

MAX_BINS = 64


class Capacity(HiddenStateMoments):
    """Moments of all layers, of projected inputs where they would take more than `max_bytes`."""

    def __init__(self, model: Any, layers: Any, causal: bool, max_bytes: int) -> None:
        found = linear_maps(model, layers)
        sketch = _sketch([_width(module) for module in found.values()], max_bytes)
        align = "end" if causal else "start"
        super().__init__(model, list(found), align=align, max_bins=MAX_BINS, sketch=sketch)

    def judge(self, eps: float, ridge: float, tick: Callable[[], object]) -> LayerCapacity:
        """Curves of all layers, one layer's moments at a time."""
        choice, k, curves = choose_from_moments(self, eps=eps, ridge=ridge, tick=tick)
        if self.sketch:
            note = f"inputs were projected to {self.sketch} dimensions, for memory or for widths that differ"
            choice = dataclasses.replace(choice, warnings=(*choice.warnings, f"{note}: coverage is rough"))
        return LayerCapacity(choice, self.layers, k, curves, float(eps), float(ridge), self.sketch or 0)


def _sketch(widths: list[int], max_bytes: int) -> int | None:
    """Dimensions to project to so that all sums fit; None where they fit as they are."""
    room = int((max_bytes / (16 * MAX_BINS * len(widths))) ** 0.5)  # twice: they are copied as rows grow
    if len(set(widths)) == 1 and widths[0] <= room:
        return None
    return max(1, min(room, *widths))


def _width(module: Any) -> int:
    module = getattr(module, "base_layer", module)
    shape = module.weight.shape
    return int(shape[0] if type(module).__name__ == "Conv1D" else getattr(module, "in_features", shape[1]))
