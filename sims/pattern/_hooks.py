"""Reading attention maps while a model runs: one layer at a time, and nothing left behind."""

import contextlib
from collections.abc import Callable
from typing import Any

from porism.checks import require
from porism.sims.hooks import call, evaluation, has_slot, is_map, maps_of_slot, token_mask

__all__ = ["run_with_maps", "token_mask"]

Visit = Callable[[int, Any], None]


def run_with_maps(model: Any, inputs: Any, visit: Visit) -> int:
    """Run a forward pass in evaluation mode and hand each layer's maps (B, H, T, T) to `visit` as it goes.

    Returns how many layers there were. Hooks, slots and train/eval modes are as before when it ends, also
    after an exception; neither weights nor configuration are touched.
    """
    torch = require("torch", "torch")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the model object")
    watch = _Watch(visit)
    with contextlib.ExitStack() as stack:
        stack.enter_context(evaluation(model))
        for module in [module for module in model.modules() if has_slot(module)]:
            stack.enter_context(maps_of_slot(module, watch.report))
        for module in model.modules():
            if "attention" in type(module).__name__.casefold():
                stack.callback(module.register_forward_pre_hook(watch.enter).remove)
                stack.callback(module.register_forward_hook(watch.leave).remove)
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


class _Watch:
    """Notices maps on the innermost module that returns them; wrappers that pass them on are skipped."""

    def __init__(self, visit: Visit) -> None:
        self.visit, self.layers, self.saw_none = visit, 0, False
        self._stack: list[bool] = []

    def enter(self, module: Any, args: Any) -> None:
        self._stack.append(False)

    def leave(self, module: Any, args: Any, output: Any) -> None:
        seen = self._stack.pop()
        if not seen and isinstance(output, tuple) and len(output) > 1:
            maps = output[1]
            if maps is None:
                self.saw_none = True
            elif is_map(maps):
                seen = True
                if maps.shape[2] == maps.shape[3]:  # cross-attention has no common order of rows and columns
                    self.report(maps)
        if seen and self._stack:
            self._stack[-1] = True

    def report(self, maps: Any) -> None:
        self.layers += 1
        self.visit(self.layers - 1, maps.detach())
