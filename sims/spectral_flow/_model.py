"""Loss, gradients, the smoothed polar factor of small matrices, and the exact reduction."""


import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array

__all__ = [
    "Problem",
    "check_problem",
    "gradients",
    "losses",
    "numerical_rank",
    "product_svd",
    "smoothed_polar",
    "span",
]

Array = NDArray[np.float64]
Problem = tuple[Array, Array, Array]

GRAM_LIMIT = 1e3
"""Largest size of a gradient, in units of the smoothing, for which its Gram matrix keeps 10 digits."""

SQUARABLE = (1e-140, 1e140)
"""Smoothings between these have squares, times the square of the limit as well, in the range of floats."""


def check_problem(Y: ArrayLike, B0: ArrayLike, A0: ArrayLike) -> Problem:
    """Accept a target and two factors whose product has its shape."""
    target, B, A = (finite_array(name, value, 2) for name, value in (("Y", Y), ("B0", B0), ("A0", A0)))
    if B.shape[0] != target.shape[0] or A.shape[1] != target.shape[1] or B.shape[1] != A.shape[0]:
        raise ValueError(
            f"shapes must be Y (m, n), B0 (m, r), A0 (r, n), got Y {target.shape}, B0 {B.shape}, "
            f"A0 {A.shape}; the product B0 @ A0 must have the shape of Y"
        )
    if 0 in target.shape or not B.shape[1]:
        raise ValueError(
            f"m, n and r must be >= 1, got Y {target.shape}, B0 {B.shape}, A0 {A.shape}; pass matrices "
            "with entries"
        )
    return target, B, A


def gradients(Y: Array, B: Array, A: Array, ridge: float) -> tuple[Array, Array]:
    """Gradients of the loss with respect to B and A."""
    R = Y - B @ A
    GB, GA = -(R @ A.T), -(B.T @ R)
    return (GB + ridge * B, GA + ridge * A) if ridge else (GB, GA)


def losses(Y: Array, B: Array, A: Array, ridge: float) -> Array:
    """``1/2 ||Y - BA||^2 + ridge/2 (||A||^2 + ||B||^2)`` for stacks of factors."""
    value = 0.5 * ((Y - B @ A) ** 2).sum(axis=(-2, -1))
    if ridge:
        value = value + 0.5 * ridge * ((A**2).sum(axis=(-2, -1)) + (B**2).sum(axis=(-2, -1)))
    return value


def numerical_rank(sigma: Array, shape: tuple[int, ...]) -> int:
    """Count singular values above the rounding of their decomposition."""
    if not sigma.size:
        return 0
    return int((sigma > max(shape) * np.finfo(np.float64).eps * sigma.max()).sum())


def product_svd(B: Array, A: Array, k: int) -> tuple[Array, Array]:
    """First k left singular vectors and singular values of BA for stacks of factors, without forming BA.

    Reduced coordinates may leave fewer than k; the others are zeros.
    """
    QB, RB = np.linalg.qr(B)
    RA = np.linalg.qr(np.swapaxes(A, -1, -2), mode="r")
    U, s, _ = np.linalg.svd(RB @ np.swapaxes(RA, -1, -2), full_matrices=False)
    U = QB @ U
    if (missing := k - s.shape[-1]) > 0:
        U, s = (np.pad(X, [(0, 0)] * (X.ndim - 1) + [(0, missing)]) for X in (U, s))
    return U, s


def smoothed_polar(G: Array, beta: float) -> Array:
    """``G (G'G + beta^2)^(-1/2)``; rows and columns of zeros stay exactly zero.

    They are set aside first: eigenvectors of a Gram matrix with a zero row need not be zero there after
    rounding, and a saddle of the flow would be left.
    """
    rows, columns = G.any(axis=1), G.any(axis=0)
    if rows.all() and columns.all():
        return _smoothed(G, beta)
    out = np.zeros_like(G)
    if rows.any():
        kept = np.ix_(rows, columns)
        out[kept] = _smoothed(G[kept], beta)
    return out


def _smoothed(G: Array, beta: float) -> Array:
    if SQUARABLE[0] < beta < SQUARABLE[1]:
        tall = G.shape[0] >= G.shape[1]
        M = G.T @ G if tall else G @ G.T
        if np.trace(M) <= (GRAM_LIMIT * beta) ** 2:  # beyond, M would blur singular values near beta
            w, vectors = np.linalg.eigh(M)
            P = (vectors / np.sqrt(np.maximum(w, 0) + beta**2)) @ vectors.T
            return G @ P if tall else P @ G
    U, s, V = np.linalg.svd(G, full_matrices=False)
    return (U * (s / np.hypot(s, beta))) @ V


def span(*blocks: Array) -> Array | None:
    """Orthonormal basis of the columns of several matrices; None where it would have as many as rows.

    Rows that are tied by no column are treated apart, so that a direction that is absent from one part stays
    exactly absent in the new coordinates.
    """
    from scipy.sparse import bmat, csr_array
    from scipy.sparse.csgraph import connected_components

    norms = [np.linalg.norm(block) for block in blocks]
    stacked = np.hstack(
        [block / norm for block, norm in zip(blocks, norms, strict=True) if norm] or [blocks[0]]
    )
    m, width = stacked.shape
    pattern = csr_array(stacked != 0)
    labels = connected_components(bmat([[None, pattern], [pattern.T, None]]), directed=False)[1]
    tolerance = max(m, width) * np.finfo(np.float64).eps
    parts = []
    for label in np.unique(labels[:m]):
        rows, columns = np.flatnonzero(labels[:m] == label), labels[m:] == label
        if not columns.any():
            continue  # a row of zeros
        part = np.eye(1)
        if len(rows) > 1:
            U, s, _ = np.linalg.svd(stacked[np.ix_(rows, columns)], full_matrices=False)
            part = U[:, s > tolerance]
        placed = np.zeros((m, part.shape[1]))
        placed[rows] = part
        parts.append(placed)
    basis = np.hstack(parts) if parts else np.zeros((m, 0))
    return basis if 0 < basis.shape[1] < m else None
