"""Exact principal components of a few rows, by the smaller of the two square matrices."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_RANK = 1e-12  # eigenvalues below this share of n times the largest are rounding


def centred(rows: Floats) -> Floats:
    """Rows less their mean, shifted by the first row before any sum."""
    shifted = rows - rows[0]
    return np.asarray(shifted - shifted.mean(axis=0))


def has_no_variance(rows: Floats, eps: float) -> bool:
    """Whether the spread of the rows is no more than jitter of the last digit."""
    scale = float(np.abs(rows).max())
    if scale == 0:
        return True
    scaled = rows / scale
    spread = np.mean(np.sum(centred(scaled) ** 2, axis=1))
    return bool(spread <= eps**2 * np.mean(np.sum(scaled**2, axis=1)))


def top(z: Floats, r: int) -> tuple[Floats, Floats, int]:
    """At most r leading directions of centred rows, eigenvalues of z'z, and the numerical rank."""
    n, d = z.shape
    scale = float(np.abs(z).max())
    if scale == 0:
        return np.zeros((0, d)), np.zeros(0), 0
    z = z / scale  # squares neither overflow nor vanish
    w, u = np.linalg.eigh(z @ z.T if n <= d else z.T @ z)
    rank = int((w > _RANK * n * w[-1]).sum())
    k = min(rank, r)
    w, u = w[::-1][:k], u[:, ::-1][:, :k]
    if n <= d:
        # directions of small w carry a trace of the large ones, which the triangular factor takes off again
        q, triangle = np.linalg.qr(z.T @ (u / np.sqrt(w)))
        u = q * np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return u.T, w * scale * scale, rank


def leading(rows: Floats, r: int, center: bool, eps: float) -> tuple[Floats, Floats, int]:
    """As `top`, from raw rows and with a sign: the largest entry in size is positive."""
    if has_no_variance(rows, eps) if center else not rows.any():
        return np.zeros((0, rows.shape[1])), np.zeros(0), 0
    vectors, values, rank = top(centred(rows) if center else rows, r)
    peak = vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)]
    return vectors * np.where(peak < 0, -1.0, 1.0)[:, None], values, rank


def complete(vectors: Floats, r: int, d: int, rng: np.random.Generator) -> Floats:
    """Add random orthonormal rows to orthonormal rows until there are r."""
    more = rng.standard_normal((r - len(vectors), d))
    for _ in range(2):  # twice is enough: the second pass removes what rounding left
        more = more - (more @ vectors.T) @ vectors
        more = np.linalg.qr(more.T)[0].T
    return np.concatenate([vectors, more])
