"""CKA of layers whose units are scaled at random, from inner products of the units' kernels."""

import numpy as np
from numpy.typing import NDArray

from porism.sims.representation.worlds import random_kernels

__all__ = ["drawn_similarities"]

Floats = NDArray[np.float64]


def drawn_similarities(
    H: Floats, fixed: Floats, draws: int, rng: np.random.Generator, signed: bool = False
) -> tuple[Floats, Floats, Floats, Floats]:
    """Weights s and t of unit columns of H, CKA of kernels by s and by t, and of s with `fixed`."""
    unit = H - H.mean(0)
    unit /= np.linalg.norm(unit, axis=0)
    other = fixed - fixed.mean(0)
    G = np.square(unit.T @ unit)
    L = np.square(other.T @ unit).sum(0) / np.linalg.norm(other.T @ other)
    s, t = (random_kernels(H, draws, rng, signed=signed) for _ in range(2))
    size_s, size_t = (np.sqrt(np.einsum("ti,ij,tj->t", w, G, w)) for w in (s, t))
    return s, t, np.einsum("ti,ij,tj->t", s, G, t) / (size_s * size_t), s @ L / size_s
