"""Bounds on the angle between a true and an estimated principal subspace: certificates, not predictors."""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer
from porism.errors import AssumptionError
from porism.results import Result
from porism.theory.alignment._inputs import symmetric
from porism.theory.linalg import principal_angles

__all__ = ["SubspaceBounds", "WedinBound", "davis_kahan_bound", "wedin_bound"]


@dataclasses.dataclass(frozen=True, eq=False)
class SubspaceBounds(Result):
    """Angle between the top-r eigenspaces of two symmetric matrices, and what bounds it.

    Parameters
    ----------
    sin_op, sin_f : float
        Operator and Frobenius norm of the sines of the principal angles.
    err_op, err_f : float
        Operator and Frobenius norm of the difference of the matrices.
    davis_kahan : float
        Bound on `sin_op`; inf without a gap.
    yu_wang_samworth : float
        Bound on `sin_f`; inf without a gap.

    Examples
    --------
    >>> found = davis_kahan_bound([[4, 0], [0, 1]], [[4, 0.5], [0.5, 1]], 1)
    >>> found.sin_op <= found.davis_kahan
    True
    """

    sin_op: float
    sin_f: float
    err_op: float
    err_f: float
    davis_kahan: float
    yu_wang_samworth: float


@dataclasses.dataclass(frozen=True, eq=False)
class WedinBound(Result):
    """Angles between the top-r singular subspaces of two matrices, and Wedin's bound, in Frobenius norm.

    Parameters
    ----------
    sin_u, sin_v : float
        Norms of the sines for left and right singular subspaces.
    joint : float
        ``sqrt(sin_u^2 + sin_v^2)``.
    bound : float
        Bound on `joint`; inf where the observed matrix has rank below r.

    Examples
    --------
    >>> found = wedin_bound([[3, 0], [0, 0]], [[3, 0.3], [0, 0.2]], 1)
    >>> found.joint <= found.bound
    True
    """

    sin_u: float
    sin_v: float
    joint: float
    bound: float


def davis_kahan_bound(cov: ArrayLike, cov_hat: ArrayLike, r: int) -> SubspaceBounds:
    """Sine theorems for the top-r eigenspaces of a true and an estimated covariance (DK-1, DK-2).

    Davis and Kahan: ``|sin|_op <= |E|_op / (lambda_r(cov) - lambda_{r+1}(cov_hat))``. Yu, Wang and Samworth,
    with the true gap alone: ``|sin|_F <= 2 min(sqrt(r) |E|_op, |E|_F) / (lambda_r - lambda_{r+1})(cov)``.

    Parameters
    ----------
    cov : array_like of shape (d, d)
        True symmetric matrix.
    cov_hat : array_like of shape (d, d)
        Estimated symmetric matrix; E is their difference.
    r : int
        Dimension of the eigenspaces, 1..d.

    Returns
    -------
    SubspaceBounds
        Sines, errors and bounds; sines and bounds are 0 for r = d.

    Raises
    ------
    TypeError, ValueError
        If the matrices are not symmetric, finite and of one shape, or r is out of range.

    Notes
    -----
    A gap of 0 or less gives the bound inf. In few-shot settings both bounds exceed 1 far above the threshold
    at which the direction is found: see :func:`certificate_threshold`. Cost O(d^3).

    References
    ----------
    Davis and Kahan (1970), "The rotation of eigenvectors by a perturbation III", doi:10.1137/0707001, sin
    theta theorem. Yu, Wang and Samworth (2015), doi:10.1093/biomet/asv008, theorem 2.

    Examples
    --------
    >>> found = davis_kahan_bound(np.diag([4, 1, 1]), [[4, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], 1)
    >>> round(found.sin_op, 8), round(found.davis_kahan, 8), round(found.yu_wang_samworth, 8)
    (0.16018224, 0.16666667, 0.33333333)
    """
    true, seen = symmetric("cov", cov), symmetric("cov_hat", cov_hat)
    if true.shape != seen.shape:
        raise ValueError(f"cov and cov_hat must have one shape, got {true.shape} and {seen.shape}")
    d = len(true)
    r = integer("r", r, 1, d)
    error = np.abs(np.linalg.eigvalsh(true - seen))
    err_op, err_f = float(error.max()), _norm(error)
    if r == d:
        return SubspaceBounds(0.0, 0.0, err_op, err_f, 0.0, 0.0)
    w, v = np.linalg.eigh(true)
    w_hat, v_hat = np.linalg.eigh(seen)
    sines = np.sin(principal_angles(v[:, -r:], v_hat[:, -r:]).angles)
    return SubspaceBounds(
        float(sines.max()),
        float(np.linalg.norm(sines)),
        err_op,
        err_f,
        _ratio(err_op, float(w[-r] - w_hat[-r - 1])),
        _ratio(2 * min(math.sqrt(r) * err_op, err_f), float(w[-r] - w[-r - 1])),
    )


def wedin_bound(m: ArrayLike, x: ArrayLike, r: int) -> WedinBound:
    """Sine theorem for singular subspaces: signal m of rank r, observed as x = m + noise (DK-3).

    ``sqrt(|sin U|_F^2 + |sin V|_F^2) <= sqrt(|N V_hat|_F^2 + |N' U_hat|_F^2) / sigma_r(x)`` with N = x - m.

    Parameters
    ----------
    m : array_like of shape (p, q)
        Signal of rank r.
    x : array_like of shape (p, q)
        Observed matrix.
    r : int
        Rank, 1..min(p, q).

    Returns
    -------
    WedinBound
        Sines of both sides, their joint norm, and the bound.

    Raises
    ------
    AssumptionError
        If the rank of m is not r.
    TypeError, ValueError
        If the matrices are not finite and of one shape, or r is out of range.

    Notes
    -----
    Rank is counted above ``1e-10 sigma_1(m)``. Cost O(p q min(p, q)).

    References
    ----------
    Wedin (1972), "Perturbation bounds in connection with singular value decomposition",
    doi:10.1007/BF01932678.

    Examples
    --------
    >>> found = wedin_bound([[2, 0], [0, 0]], [[2, 1], [0, 0]], 1)
    >>> found.joint <= found.bound
    True
    """
    signal, seen = finite_array("m", m, ndim=2), finite_array("x", x, ndim=2)
    if signal.shape != seen.shape:
        raise ValueError(f"m and x must have one shape, got {signal.shape} and {seen.shape}")
    r = integer("r", r, 1, min(signal.shape))
    u, s, vt = np.linalg.svd(signal, full_matrices=False)
    rank = int((s > 1e-10 * s[0]).sum())
    if rank != r:
        raise AssumptionError(f"m must have rank r={r}, got rank {rank}; truncate m or change r")
    u_hat, s_hat, vt_hat = np.linalg.svd(seen, full_matrices=False)
    noise = seen - signal
    sides = (u[:, :r], u_hat[:, :r]), (vt[:r].T, vt_hat[:r].T)
    sin_u, sin_v = (float(np.linalg.norm(np.sin(principal_angles(*pair).angles))) for pair in sides)
    residual = math.hypot(_norm(noise @ sides[1][1]), _norm(noise.T @ sides[0][1]))
    return WedinBound(sin_u, sin_v, math.hypot(sin_u, sin_v), _ratio(residual, float(s_hat[r - 1])))


def _ratio(error: float, gap: float) -> float:
    return error / gap if gap > 0 else math.inf


def _norm(values: NDArray[np.float64]) -> float:
    """Root of the sum of squares; these neither overflow nor vanish."""
    largest = float(np.abs(values).max())
    return largest * float(np.linalg.norm(values / largest)) if largest else 0.0
