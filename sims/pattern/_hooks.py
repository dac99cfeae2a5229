"""Reading attention maps while a model runs: one layer at a time, and nothing left behind."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from porism.checks import require

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
        stack.enter_context(_evaluation(model))
        stack.enter_context(torch.no_grad())
        slots = [module for module in model.modules() if _has_slot(module)]
        for module in slots:
            stack.enter_context(_slot(module, watch))
        for module in model.modules():
            if "attention" in type(module).__name__.casefold():
                stack.callback(module.register_forward_pre_hook(watch.enter).remove)
                stack.callback(module.register_forward_hook(watch.leave).remove)
        _call(model, inputs)
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


def token_mask(inputs: Any) -> Any:
    """Boolean array (B, T) of the tokens that are no padding, or None where the inputs do not say."""
    found = None
    if isinstance(inputs, Mapping) or hasattr(inputs, "keys"):
        for name in ("attention_mask", "key_mask"):
            if name in inputs and inputs[name] is not None:
                found = inputs[name]
    if found is None:
        return None
    mask = found.detach().cpu().numpy() if hasattr(found, "detach") else np.asarray(found)
    if mask.ndim != 2:
        raise ValueError(f"attention_mask must have shape (B, T), got {mask.shape}; pass the tokenizer's own")
    return mask.astype(bool)


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
            elif _is_map(maps):
                seen = True
                if maps.shape[2] == maps.shape[3]:  # cross-attention has no common order of rows and columns
                    self.report(maps)
        if seen and self._stack:
            self._stack[-1] = True

    def report(self, maps: Any) -> None:
        self.layers += 1
        self.visit(self.layers - 1, maps.detach())


def _is_map(value: Any) -> bool:
    return getattr(value, "ndim", 0) == 4 and value.is_floating_point()


def _has_slot(module: Any) -> bool:
    return hasattr(module, "attend") and all(hasattr(module, name) for name in "qkvo")


@contextlib.contextmanager
def _slot(module: Any, watch: _Watch) -> Iterator[None]:
    """Take the place of a tiny transformer's attention, which computes no maps of its own."""
    torch = require("torch", "torch")
    before = module.attend

    def attend(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> Any:
        share = q.shape[1] // k.shape[1]
        keys = k.repeat_interleave(share, dim=1)
        scores = q @ keys.transpose(2, 3) / q.shape[3] ** 0.5
        if causal:
            visible = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).tril()
            scores = scores.masked_fill(~visible, float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        maps = scores.softmax(-1)
        if maps.shape[2] == maps.shape[3]:
            watch.report(maps)
        return maps @ v.repeat_interleave(share, dim=1) if before is None else before(q, k, v, mask, causal)

    module.attend = attend
    try:
        yield
    finally:
        module.attend = before


@contextlib.contextmanager
def _evaluation(model: Any) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training


def _call(model: Any, inputs: Any) -> None:
    parameters = inspect.signature(model.forward).parameters
    keywords: dict[str, Any] = {}
    # a configuration that asks for all maps or a cache would hold every layer at once
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values()) and hasattr(model, "config")
    if "output_attentions" in parameters or (
        open_ended and getattr(model.config, "output_attentions", False)
    ):
        keywords["output_attentions"] = False
    if "use_cache" in parameters:
        keywords["use_cache"] = False
    if isinstance(inputs, Mapping) or hasattr(inputs, "keys"):
        model(**{**keywords, **{name: inputs[name] for name in inputs}})
    else:
        model(inputs, **keywords)
