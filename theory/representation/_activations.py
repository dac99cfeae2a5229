"""Values of activations, and samples that fit a layer."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array

__all__ = ["activate", "samples"]

Floats = NDArray[np.float64]


def activate(name: str, slope: float, z: Floats) -> Floats:
    """Value of an activation, entry by entry; slope is the negative one of "leaky_relu"."""
    from scipy.special import expit, ndtr

    if name == "relu":
        value = np.maximum(z, 0.0)
    elif name == "leaky_relu":
        value = np.where(z > 0, z, slope * z)
    elif name == "gelu":
        value = z * ndtr(z)
    elif name == "gelu_tanh":
        value = 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    elif name == "silu":
        value = z * expit(z)
    else:
        value = np.tanh(z)
    return np.asarray(value)


def samples(X: ArrayLike, d: int) -> Floats:
    """Accept samples of d inputs, in rows."""
    array = finite_array("X", X, ndim=2)
    if array.shape[1] != d:
        raise ValueError(
            f"X must have one column an input, {d}, got shape {array.shape}; pass samples in rows"
        )
    return array
