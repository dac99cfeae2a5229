"""Attention weights for the length of a block, without a lasting change of the model."""

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["eager"]

KEY = "_attn_implementation_internal"


@contextlib.contextmanager
def eager(model: Any) -> Iterator[None]:
    """Let transformers models compute attention weights; every configuration is as before afterwards.

    The implementation is looked up in the configuration at every call, so that the entry is all there is to
    change; the property's own setter would also write into configurations of parts.
    """
    found: dict[int, Any] = {}
    for module in model.modules():
        config = getattr(module, "config", None)
        if KEY in getattr(config, "__dict__", {}):
            found[id(config)] = config
    before = [(config, vars(config)[KEY]) for config in found.values()]
    try:
        for config, _ in before:
            vars(config)[KEY] = "eager"
        yield
    finally:
        for config, value in before:
            vars(config)[KEY] = value
