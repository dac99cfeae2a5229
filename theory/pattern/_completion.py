"""Low-rank completion: a matrix of rank r close to A on the cells outside a mask."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["complete", "truncate"]

Array = NDArray[np.float64]

EM_STEPS, LEAST_SQUARES_STEPS = 8, 300
STALL = 1e-5
"""Relative gain of a step below which the rest is left to the next round."""
RUNAWAY = 1e5
"""Size of |u||v|, for A of norm 1, beyond which L cancels against the values inside the mask."""


def truncate(A: Array, r: int) -> tuple[Array, Array]:
    """Factors (m, r) and (r, n) of the best matrix of rank r."""
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    root = np.sqrt(s[:r])
    return u[:, :r] * root, root[:, None] * vt[:r]


def complete(A: Array, outside: NDArray[np.bool_], left: Array, right: Array, r: int) -> tuple[Array, Array]:
    """Lower ``||(A - L) outside||`` from the given L, never raising it.

    First ``L <- SVD_r(A outside the mask, L inside)``, which may take any L as its start, then alternating
    least squares on the same cells, which ends faster. A row with fewer than r cells outside takes the
    solution of least norm. The infimum need not be attained ([[*, 1], [1, 0]] has no completion of rank 1,
    yet growing ones come arbitrarily close), so factors that run away are not taken.
    """
    best, L = left, left @ right
    factors, error = (best, right), _error(A, outside, L)
    for _ in range(EM_STEPS):
        trial = truncate(np.where(outside, A, L), r)
        L = trial[0] @ trial[1]
        value = _error(A, outside, L)
        if value >= error or _runs_away(*trial):
            break
        gain, factors, error = error - value, trial, value
        if gain <= STALL * value:
            break
    for _ in range(LEAST_SQUARES_STEPS):
        if error <= 1e-30:
            break
        u, v = factors
        u = _rows(A, outside, v)
        v = _rows(A.T, outside.T, u.T).T
        value = _error(A, outside, u @ v)
        if not value < error or _runs_away(u, v):
            break
        gain, factors, error = error - value, (u, v), value
        if gain <= STALL * value:
            break
    return factors


def _rows(A: Array, outside: NDArray[np.bool_], basis: Array) -> Array:
    """For each row of A the coefficients (m, r) on the basis (r, n) by least squares over its cells."""
    q, triangle = np.linalg.qr(basis.T)  # an orthogonal basis keeps the normal equations well conditioned
    gram = np.einsum("ij,jk,jl->ikl", outside.astype(float), q, q, optimize=True)
    right = np.where(outside, A, 0.0) @ q
    found = np.einsum("ikl,il->ik", np.linalg.pinv(gram, rcond=1e-12, hermitian=True), right)
    # found q' is the row; in terms of the basis itself it is found triangle^-T
    return np.linalg.lstsq(triangle, found.T, rcond=1e-14)[0].T if triangle.size else found


def _runs_away(u: Array, v: Array) -> bool:
    return float((np.abs(u) @ np.abs(v)).max(initial=0.0)) > RUNAWAY


def _error(A: Array, outside: NDArray[np.bool_], L: Array) -> float:
    return float(((A - L)[outside] ** 2).sum())
