"""Second moments for the capacity of every layer, and the curves that they give."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from porism.sims.diagnose.capacity import LayerCapacity
from porism.theory.token_capacity import (
    HiddenStateMoments,
    PositionChoice,
    PositionMoments,
    coverage,
    min_positions,
)
from porism.theory.token_capacity._bins import layout
from porism.theory.token_capacity.choose import _spread, _warnings

__all__ = ["Capacity"]

MAX_BINS = 64


class _Moments(HiddenStateMoments):
    """Moments that also see maps which read all tokens of a batch as rows, (B T, d)."""

    def _see(self, i: int, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = args[0] if args else next(iter(kwargs.values()))
        if self._pass is not None and x.ndim == 2 and len(x) == self._pass.mask.size:
            x = x.reshape(*self._pass.mask.shape, -1)
        super()._see(i, module, (x,), {})


class Capacity:
    """Collects the moments; runs the model itself, since a batch counts whole or not at all."""

    def __init__(self, model: Any, layers: Any, causal: bool, max_bytes: int) -> None:
        align = "end" if causal else "start"
        plain = _Moments(model, layers, align=align, max_bins=MAX_BINS)
        self.sketch = _sketch([plain._modules[name] for name in plain.layers], max_bytes)
        self.causal = causal
        self.watch = (
            plain
            if not self.sketch
            else _Moments(model, layers, align=align, max_bins=MAX_BINS, sketch=self.sketch)
        )

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Hooks on the linear maps."""
        with self.watch:
            yield

    def result(self, eps: float, ridge: float, tick: Callable[[], object]) -> LayerCapacity:
        """Curves of all layers, one layer's moments at a time; numbers as `choose_positions` has them."""
        watch = self.watch
        edges = layout(watch._longest, watch.max_bins)
        bins = np.stack([edges, np.append(edges[1:], watch._longest)], axis=1)
        order = np.arange(len(bins)) if self.causal else _spread(len(bins))
        curves = []
        for i in range(len(watch.layers)):
            curves.append(coverage(watch._second[i].cpu().numpy(), order, ridge=ridge))
            shape = (len(watch.layers), *watch._second[i].shape)
            watch._second[i] = None
            tick()
        needed = [min_positions(curve, eps) for curve in curves]
        decides = int(np.argmax(needed))
        taken = np.diff(bins, axis=1)[order, 0].cumsum()
        k = taken[np.array(needed) - 1]
        hollow = np.broadcast_to(np.zeros(()), shape)  # of the moments only the shape is asked for
        moments = PositionMoments(
            watch._count.copy(), hollow, None, bins, bool(self.sketch), watch.layers, watch.align
        )
        notes = _warnings(moments, int(k[decides]), needed, decides, self.causal, float(ridge))
        if self.sketch:
            notes += (f"inputs were projected to {self.sketch} dimensions to keep memory: coverage is rough",)
        choice = PositionChoice(
            int(k[decides]), order, curves[decides], watch.layers[decides], notes, bins, watch.align
        )
        return LayerCapacity(
            choice, watch.layers, k.astype(np.int64), np.stack(curves), float(eps), float(ridge), self.sketch
        )


def _sketch(modules: list[Any], max_bytes: int) -> int:
    """Dimensions to project to so that all sums fit; 0 where they fit as they are."""
    widths = [_width(module) for module in modules]
    room = int((max_bytes / (16 * MAX_BINS * len(modules))) ** 0.5)  # twice: they are copied as rows grow
    if len(set(widths)) == 1 and widths[0] <= room:
        return 0
    return max(1, min(room, *widths))


def _width(module: Any) -> int:
    module = getattr(module, "base_layer", module)
    shape = module.weight.shape
    return int(shape[0] if type(module).__name__ == "Conv1D" else getattr(module, "in_features", shape[1]))
