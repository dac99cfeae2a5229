"""Worlds of the representation module: random layers, scrambled copies of the same function, trained nets."""

from typing import TYPE_CHECKING

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
__getattr__ = submodules(__name__, _LATER)
