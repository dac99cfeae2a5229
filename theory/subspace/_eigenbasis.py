"""Error of a reused score in the eigenbasis of the target, where nothing cancels."""

import numpy as np
from numpy.typing import NDArray

from porism.theory.subspace._inputs import in_range

__all__ = ["denoiser_error", "in_eigenbasis"]

Floats = NDArray[np.float64]


def in_eigenbasis(latent: Floats, values: Floats, vectors: Floats) -> tuple[Floats, Floats, Floats]:
    """Variances of the target, those of its part in the latent, and the latent's axes, in the eigenbasis."""
    axes = vectors.T @ latent
    inside, turn = np.linalg.eigh((axes.T * values) @ axes)
    return values, np.maximum(inside, 0.0), axes @ turn


def denoiser_error(values: Floats, inside: Floats, axes: Floats, alpha2: float, h2: float) -> float:
    """Denoiser form in the eigenbasis of the target."""
    shrunk = alpha2 * inside / (alpha2 * inside + h2)
    total = alpha2 * values + h2
    apart = (axes * shrunk) @ axes.T
    apart[np.diag_indices(len(values))] -= alpha2 * values / total
    with np.errstate(over="ignore"):  # h^4 itself may be no float where the error is one
        return in_range(float((np.square(apart) @ (total / h2)).sum() / h2), h2)
