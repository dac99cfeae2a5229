"""Attention weights for the length of a block, without a lasting change of the model."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

__all__ = ["eager"]

KEY, ASKED = "_attn_implementation_internal", "output_attentions"
LOWEST = -3.4028234663852886e38
"""Of float32."""


@contextlib.contextmanager
def eager(model: Any) -> Iterator[None]:
    """Let transformers models compute attention weights; every configuration is as before afterwards.

    The implementation is looked up in the configuration at every call, so that the entry is all there is to
    change; the property's own setter would also write into configurations of parts.
    """
    found: dict[int, Any] = {}
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            config = getattr(module, "config", None)
            if KEY in getattr(config, "__dict__", {}):
                found[id(config)] = config
            if "attention" in type(module).__name__.casefold():
                stack.callback(module.register_forward_pre_hook(_finite, with_kwargs=True).remove)
                names = list(inspect.signature(module.forward).parameters)
                if ASKED in names:  # older modules give weights only where the call asks for them
                    hook = module.register_forward_pre_hook(_ask(names.index(ASKED)), with_kwargs=True)
                    stack.callback(hook.remove)
        for config in found.values():
            stack.callback(vars(config).__setitem__, KEY, vars(config)[KEY])
            vars(config)[KEY] = "eager"
        yield


def _finite(module: Any, args: Any, kwargs: Any) -> Any:
    """Masks of float64 that stay finite where eager attention takes its softmax in float32."""

    def low(value: Any) -> Any:
        wide = getattr(value, "ndim", 0) == 4 and str(value.dtype) == "torch.float64"
        return value.clamp(min=LOWEST) if wide else value

    return tuple(map(low, args)), {name: low(value) for name, value in kwargs.items()}


def _ask(place: int) -> Any:
    def ask(module: Any, args: Any, kwargs: Any) -> Any:
        if len(args) > place:
            return (*args[:place], True, *args[place + 1 :]), kwargs
        return args, {**kwargs, ASKED: True}

    return ask
