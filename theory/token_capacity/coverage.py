"""How much of the inputs' energy the selected positions can reach, and how many positions that takes."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array
from porism.theory.token_capacity._arrays import chosen, float64, is_tensor, library_of, not_empty

__all__ = ["coverage", "min_positions"]

SLACK = 1e-12
_CUT = 1e-9  # eigenvalues below this share of the largest one span no direction


def coverage(moments: Any, order: Any, *, ridge: float = 1e-2) -> Any:
    """Share of the inputs' energy within reach of the first 1, 2, ... positions of an order.

    ``cov(S) = tr(F F_S (F_S + lam I)^-1) / tr F`` with ``F_S`` the sum of the moments in S, F the sum of all,
    and ``lam = ridge tr(F) / m``; without a ridge the projector on the range of ``F_S`` stands in for the
    filter.

    Parameters
    ----------
    moments : array_like or tensor, shape (P, m, m)
        Second moments of one layer's inputs, one a position, such as ``PositionMoments.second[layer]``.
    order : sequence of int, length P
        All positions, the first one first.
    ridge : float, default 1e-2
        Ridge relative to the mean eigenvalue of F, >= 0.

    Returns
    -------
    float64 array or tensor, shape (P,)
        Coverage of the first k positions at index k - 1, in [0, 1], non-decreasing; all 1 where F is zero. A
        tensor gives a tensor on its device.

    Raises
    ------
    TypeError
        If the moments are not floats or the order holds no ints.
    ValueError
        If shapes do not fit, the order does not name each position once, the ridge is negative, or a moment
        is not positive semidefinite.

    Notes
    -----
    Gradients made from S lie in the range of F_S, and the part of the full gradient M out of reach obeys ``|M
    (I - P_S)|_F <= |G|_op sqrt(tr F (1 - cov(S)))``. So coverage is necessary, on the side of the inputs: it
    does not see the gradients G and promises no accuracy. With as many rows as dimensions the form without a
    ridge is 1 from the first position on; it drops eigenvalues below 1e-9 of the largest, which can cost
    monotonicity by as much as such a direction holds. Cost O(P m^3).

    References
    ----------
    TC-6 is a reconstruction; monotone since s / (s + lam) is operator monotone, see Bhatia (1997), "Matrix
    Analysis", chapter V.

    Examples
    --------
    >>> blocks = np.stack([np.diag([3.0, 0.0]), np.diag([0.0, 1.0])])
    >>> coverage(blocks, [1, 0], ridge=0.0)
    array([0.25, 1.  ])
    """
    C = float64("moments", moments, 3)
    not_empty("moments", C.shape, "P, m, m")
    if C.shape[1] != C.shape[2]:
        raise ValueError(
            f"moments must have shape (P, m, m), got {C.shape}; pass second moments of one layer"
        )
    path = chosen("order", order, len(C))
    if path.size != len(C):
        raise ValueError(
            f"order must list each of the {len(C)} positions once, got {path.size} of them; append the rest"
        )
    lam = _ridge(ridge) / C.shape[1]
    largest = float(abs(C).max())
    curve = _curve(C / largest, path, lam) if largest else np.ones(len(C))
    return moments.new_tensor(curve, dtype=library_of(moments).float64) if is_tensor(moments) else curve


def min_positions(coverage: Any, eps: float) -> int:
    """Smallest number of positions that keeps a share 1 - eps of the coverage of all.

    ``k* = min{k : cov(S_k) >= (1 - eps) cov(S_P)}``.

    Parameters
    ----------
    coverage : array_like or tensor, shape (P,)
        Curve from `coverage`, whose last entry is that of all positions.
    eps : float
        Share that may be lost, in [0, 1).

    Returns
    -------
    int
        Number of positions, in [1, P]; compared with a slack of 1e-12.

    Raises
    ------
    TypeError
        If the curve does not hold numbers or eps is no number.
    ValueError
        If the curve is empty or not finite, or eps is out of range.

    Notes
    -----
    A necessary count, not a promise of accuracy: see `coverage`. Do not put an effective rank in place of the
    curve, which is not monotone.

    References
    ----------
    TC-6 (d), a reconstruction.

    Examples
    --------
    >>> min_positions([0.68, 0.92, 0.98, 1.0], 0.1)
    2
    """
    curve = finite_array("coverage", coverage, 1)
    if not curve.size:
        raise ValueError("coverage must have at least one entry, got none; pass the curve of all positions")
    if isinstance(eps, bool) or not isinstance(eps, numbers.Real):
        raise TypeError(f"eps must be a real number, got {eps!r}; pass a float")
    if not 0 <= float(eps) < 1:
        raise ValueError(f"eps must be in [0, 1), got {eps!r}; pass the share of coverage that may be lost")
    return int(np.argmax(curve >= (1 - float(eps)) * curve[-1] - SLACK)) + 1


def _ridge(ridge: Any) -> float:
    if isinstance(ridge, bool) or not isinstance(ridge, numbers.Real):
        raise TypeError(f"ridge must be a real number, got {ridge!r}; pass a float")
    if not 0 <= float(ridge) < float("inf"):
        raise ValueError(f"ridge must be finite and >= 0, got {ridge!r}; pass 0 for the projector")
    return float(ridge)


def _curve(C: NDArray[np.float64], path: NDArray[np.int64], share: float) -> NDArray[np.float64]:
    from scipy.linalg import cho_factor, cho_solve

    C = (C + C.swapaxes(1, 2)) / 2
    trace = np.trace(C, axis1=1, axis2=2)
    if trace.min() < 0 or not trace.sum() > 0:
        raise ValueError(_negative(int(trace.argmin())))
    F = C.sum(0) / trace.sum()
    C = C / trace.sum()
    part, curve = np.zeros_like(F), np.empty(len(C))
    for k, t in enumerate(path):
        part += C[t]
        if share:
            shifted = part.copy()
            shifted[np.diag_indices_from(shifted)] += share
            try:
                curve[k] = (cho_solve(cho_factor(shifted, lower=True), part) * F).sum()
            except np.linalg.LinAlgError:
                raise ValueError(_negative(int(t))) from None
            continue
        values, vectors = np.linalg.eigh(part)
        if values[0] < -1e-6 * values[-1]:
            raise ValueError(_negative(int(t)))
        basis = vectors[:, values > _CUT * values[-1]]
        curve[k] = (basis * (F @ basis)).sum()
    return curve.clip(0, 1)


def _negative(t: int) -> str:
    return f"moments must be positive semidefinite, got another matrix at position {t}; pass X.T @ X"
