"""Laws for whole matrices: how fast any run can be, where it ends with a ridge, how it settles."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, positive
from porism.errors import AssumptionError, NumericalWarning
from porism.theory.spectral_flow import _hessian
from porism.theory.spectral_flow._times import not_negative

__all__ = ["local_decay_rate", "soft_threshold_target", "speed_limit"]


def speed_limit(t: ArrayLike, A0: Any, B0: Any, gain: float = 1.0) -> NDArray[np.float64]:
    """Bound the singular values of B A at time t, whatever the target, smoothing and ridge (SF-5).

    ``s_i <= min((|B0| + g t) (s_i(A0) + g t), (s_i(B0) + g t) (|A0| + g t))`` with operator norms and gain g:
    an update of norm at most g per unit of time moves no singular value of a factor faster.

    Parameters
    ----------
    t : array_like
        Times, >= 0; for descent, the sum of the step sizes.
    A0 : array_like or tensor, shape (r, n)
        Second factor at time 0.
    B0 : array_like or tensor, shape (m, r)
        First factor at time 0.
    gain : float, default 1
        Largest operator norm of an orthogonalised update: 1 for the exact polar factor, 1.203 for five steps
        of the quintic Newton-Schulz map, 1.1412 for five steps of Polar Express.

    Returns
    -------
    ndarray, shape ``(*t.shape, r)``
        Bound for each singular value, descending; 0 beyond min(m, n, r).

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If a time is negative, the gain is not positive, a value is not finite, or the ranks differ.

    Notes
    -----
    Holds for any start and any target, with weight decay on top as well. A run that violates it has a broken
    orthogonaliser. Weyl's inequality for each factor, then ``s_i(BA) <= min(|B| s_i(A), s_i(B) |A|)``.
    Cost: two SVDs without vectors.

    References
    ----------
    Horn and Johnson (1991), "Topics in Matrix Analysis", theorems 3.3.16 and 3.3.18.

    Examples
    --------
    >>> speed_limit([0.0, 1.0], np.eye(2), np.zeros((3, 2)))
    array([[0., 0.],
           [2., 2.]])
    """
    times = not_negative("t", t)
    A, B = finite_array("A0", A0, ndim=2), finite_array("B0", B0, ndim=2)
    if A.shape[0] != B.shape[1]:
        raise ValueError(
            f"A0 must be (r, n) and B0 (m, r), got shapes {A.shape} and {B.shape}; the order is t, A0, B0"
        )
    rank, kept = A.shape[0], min(*A.shape, B.shape[0])
    step = positive("gain", gain) * times[..., None]
    a, b = (np.linalg.svd(X, compute_uv=False)[:kept] if kept else np.zeros(0) for X in (A, B))
    bound = np.zeros((*times.shape, rank))
    if kept:
        bound[..., :kept] = np.minimum((b[0] + step) * (a + step), (b + step) * (a[0] + step))
    return bound


def soft_threshold_target(Y: Any, ridge: float, rank: int | None = None) -> NDArray[np.float64]:
    """Global minimum over B A of the loss with a ridge (SF-9).

    ``W = U_r diag(max(sigma - ridge, 0)) V_r'`` minimises ``|Y - W|_F^2 / 2 + ridge |W|_*`` over matrices of
    rank r, and the ridge on the factors is that nuclear norm at best.

    Parameters
    ----------
    Y : array_like or tensor, shape (m, n)
        Target.
    ridge : float
        Weight of ``(|A|^2 + |B|^2) / 2``, >= 0; 0 gives the best approximation of rank r.
    rank : int, optional
        Inner size r of the factors, >= 0; no limit by default.

    Returns
    -------
    ndarray, shape (m, n)
        The minimiser W.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If Y is not a finite matrix, or ridge or rank is negative.

    Notes
    -----
    Not unique where ``sigma_r = sigma_{r+1} > ridge``. Cost: one SVD of Y.

    References
    ----------
    Cai, Candès and Shen (2010), "A singular value thresholding algorithm for matrix completion",
    doi:10.1137/080738970, theorem 2.1.

    Examples
    --------
    >>> soft_threshold_target(np.diag([3.0, 1.0]), 0.5).tolist()
    [[2.5, 0.0], [0.0, 0.5]]
    """
    target, weight = finite_array("Y", Y, ndim=2), not_negative("ridge", ridge, ndim=0)
    kept = min(target.shape) if rank is None else integer("rank", rank, low=0)
    if target.size == 0:
        return np.zeros(target.shape)
    U, s, Vt = np.linalg.svd(target, full_matrices=False)
    shrunk = np.maximum(s[:kept] - weight, 0.0)
    return np.asarray((U[:, :kept] * shrunk) @ Vt[:kept])


def local_decay_rate(Y: Any, B: Any, A: Any, smoothing: float, ridge: float = 0.0) -> float:
    """Rate at which the excess loss decays near a minimum of the smoothed spectral flow (SF-8d).

    ``2 mu / smoothing`` with mu the smallest nonzero eigenvalue of the Hessian of the loss at (B, A).

    Parameters
    ----------
    Y : array_like or tensor, shape (m, n)
        Target.
    B : array_like or tensor, shape (m, r)
        First factor at the minimum, or close to it.
    A : array_like or tensor, shape (r, n)
        Second factor.
    smoothing : float
        Smoothing beta, > 0. For the gradient flow pass 1.
    ridge : float, default 0
        Weight of ``(|A|^2 + |B|^2) / 2`` in the loss, >= 0.

    Returns
    -------
    float
        The rate, per unit of time; 0 where all directions are flat.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If shapes do not match, smoothing is not positive, or ridge is negative.
    AssumptionError
        If the gradient at (B, A) is not small, or the Hessian has a negative eigenvalue.

    Warns
    -----
    NumericalWarning
        "zero gap" where the first singular value left out equals the last one kept, "flat direction" where a
        spare mode has no restoring force: excess loss in that direction, if any, decays by a power of time,
        and the rate is that of the next eigenvalue.

    Notes
    -----
    Near the minimum the orthogonaliser is linear, ``T(G) = G / smoothing``. The start has to excite the
    slowest direction for the rate to show. With balanced factors, ``r < rank(Y)`` and no ridge, mu is
    ``sigma_r - sigma_{r+1}``.

    The Hessian, of order ``r (m + n)``, is never formed. At a critical point it falls apart: with no ridge,
    the directions inside the row and column space of B A have ``s_i(A)^2 + s_j(B)^2``, a ridge adds
    ``2 ridge``; each singular triple of the residual outside gives a block of order 2 r. Cost: one SVD of an
    m x n matrix, and eigenvalues of matrices of order 2 r, mostly of one. Eigenvalues count as zero below
    about ``3 |gradient|^(2/3)``, in units where the largest factor is 1, or 1e-9 if that is more.

    References
    ----------
    arXiv:2602.06385 (local rate, reported as Proposition 6.7, balanced case); the block form is ours.

    Examples
    --------
    >>> B, A = np.diag([2.0, 1.0, 0.0])[:, :1], np.diag([2.0, 1.0, 0.0])[:1]
    >>> round(local_decay_rate(np.diag([4.0, 1.0, 0.5]), B, A, smoothing=0.1), 9)
    60.0
    """
    target, left, right = (finite_array(name, x, ndim=2) for name, x in (("Y", Y), ("B", B), ("A", A)))
    shapes = (target.shape, left.shape, right.shape)
    if shapes[0] != (left.shape[0], right.shape[1]) or left.shape[1] != right.shape[0]:
        raise ValueError(
            "Y, B, A must have shapes (m, n), (m, r), (r, n), got {}, {}, {}; transpose or swap them".format(
                *shapes
            )
        )
    beta, weight = finite_array("smoothing", smoothing, ndim=0), not_negative("ridge", ridge, ndim=0)
    if beta <= 0:
        raise ValueError(
            f"smoothing must be a finite number > 0 for a decay rate, got {float(beta)}; without smoothing "
            "modes arrive in finite time"
        )
    if 0 in (*left.shape, *right.shape):
        return 0.0
    # in units of a power of four, and of two for the factors, so that no square leaves the range of floats
    sizes = (np.abs(left).max(), np.abs(right).max(), np.sqrt([np.abs(target).max(), weight]).max())
    unit = int(np.frexp(max(sizes))[1])
    target, weight = np.ldexp(target, -2 * unit), np.ldexp(weight, -2 * unit)
    left, right = np.ldexp(left, -unit), np.ldexp(right, -unit)
    found = _hessian.spectrum(target, left, right, float(weight))
    if found.gradient > _hessian.STEEP:
        raise AssumptionError(
            f"(B, A) must be close to a minimum, got a relative gradient of {found.gradient:.2g}; run longer"
        )
    if found.smallest < -found.zero:
        least = np.ldexp(found.smallest, 2 * unit)
        raise AssumptionError(
            f"(B, A) must be a minimum, got a Hessian with eigenvalue {least:.3g}; this is a saddle"
        )
    if found.gap_is_zero:
        _warn("zero gap: the first singular value left out equals the last one kept")
    elif found.flat:
        _warn("flat direction: a spare mode has no restoring force, its loss decays by a power of time")
    return float(np.ldexp(found.nonzero, 2 * unit)) * 2 / float(beta)


def _warn(text: str) -> None:
    warnings.warn(f"{text}; the rate is that of the next eigenvalue", NumericalWarning, stacklevel=3)
