"""Rank-space rotations written out plainly in numpy; an oracle for the pivot of real adapters."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

__all__ = ["MOMENTS", "canonical", "move_second", "random_rotation", "rotate"]

MOMENTS = ("transport", "reset", "keep", "zero_second")
"""Rules for an optimiser's averages at a pivot; the last one is the forbidden one."""


def canonical(b: Floats) -> Floats:
    """Q of shape (..., r, r), rows the eigenvectors of B'B, largest first; the identity where B is 0."""
    values, vectors = np.linalg.eigh(b.mT @ b)
    q = vectors[..., ::-1].mT
    peak = np.take_along_axis(q, np.abs(q).argmax(axis=-1)[..., None], axis=-1)
    q = q * np.where(peak < 0, -1.0, 1.0)
    still = values[..., -1] == 0
    return np.where(still[..., None, None], np.eye(q.shape[-1]), q)


def random_rotation(rng: np.random.Generator, shape: tuple[int, ...], r: int) -> Floats:
    """Uniformly random orthogonal matrices of shape (*shape, r, r)."""
    q, triangle = np.linalg.qr(rng.standard_normal((*shape, r, r)))
    return q * np.where(np.diagonal(triangle, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[..., None, :]


def rotate(a: Floats, b: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Give QA and BQ'."""
    return q @ a, b @ q.mT


def move_second(va: Floats, vb: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Diagonal transport of second moments, ``v'_kj = sum_l Q_kl^2 v_lj``."""
    return q**2 @ va, vb @ (q**2).mT
