"""Worlds of the representation module: random layers, scrambled copies of the same function, trained nets."""

import importlib
from typing import TYPE_CHECKING, Any

from porism._lazy import submodules

if TYPE_CHECKING:
    from porism.sims.representation.digits import DigitsNet, digits_images, trained_digits
    from porism.sims.representation.worlds import (
        PRIMITIVES,
        alive_layer,
        random_kernels,
        random_layer,
        reshuffled,
        scramble,
    )

__all__ = [
    "PRIMITIVES",
    "DigitsNet",
    "alive_layer",
    "digits_images",
    "random_kernels",
    "random_layer",
    "reshuffled",
    "scramble",
    "trained_digits",
]

_LATER = {
    "digits": ("DigitsNet", "digits_images", "trained_digits"),
    "worlds": ("PRIMITIVES", "alive_layer", "random_kernels", "random_layer", "reshuffled", "scramble"),
}
_HOME = {name: f"{__name__}.{module}" for module, names in _LATER.items() for name in names}
_submodule = submodules(__name__)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        return _submodule(name)
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
