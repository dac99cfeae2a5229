"""Reading attention maps while a model runs: one layer at a time, and nothing left behind."""

from collections.abc import Callable
from typing import Any

from porism.checks import require
from porism.sims.hooks import MapWatch, call, evaluation

__all__ = ["run_with_maps"]


def run_with_maps(model: Any, inputs: Any, visit: Callable[[int, Any], None]) -> int:
    """Run a forward pass in evaluation mode and hand each layer's maps (B, H, T, T) to `visit` as it goes.

    Returns how many layers there were. Hooks, slots and train/eval modes are as before when it ends, also
    after an exception; neither weights nor configuration are touched.
    """
    torch = require("torch", "torch")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the model object")
    watch = MapWatch(visit)
    with evaluation(model), watch.watching(model):
        call(model, inputs)
    if watch.layers == 0:
        if watch.saw_none:
            raise ValueError(
                "attention weights are None: load the model with attn_implementation='eager'; got "
                f"{getattr(getattr(model, 'config', None), '_attn_implementation', 'another one')!r}"
            )
        raise ValueError(
            f"model must have attention modules that return maps of shape (B, H, T, T), got none in "
            f"{type(model).__name__}; pass a model whose modules named ...Attention return (output, maps)"
        )
    return watch.layers
