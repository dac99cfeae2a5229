"""Value of information where one signal moves the means of several specialists."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.theory.pandora._gain import gain
from porism.theory.pandora._inputs import arrays, check_finite, check_shapes, unify

__all__ = ["signal_slopes", "voi_correlated"]


def voi_correlated(m: Any, slope: Any) -> Any:
    """Gain of a signal that moves the means of all specialists at once.

    ``E max_j (m_j + slope_j Z) - max_j m_j``, Z standard normal: the sum over breakpoints z of the upper
    envelope of the lines ``m_j + slope_j z`` of (jump of the slope) psi(|z|).

    Parameters
    ----------
    m : array_like or torch.Tensor, shape (..., K)
        Current means, finite.
    slope : array_like or torch.Tensor, shape (..., K)
        By how much each mean moves for one standard deviation of the signal, finite, either sign: for
        a signal on specialist i row i of `signal_slopes`. Broadcasts against m.

    Returns
    -------
    float, ndarray or torch.Tensor, shape (...)
        Gain >= 0. Tensors are computed by NumPy and carry no gradient.

    Raises
    ------
    ValueError
        If an argument is not finite, there is no specialist, or the shapes do not fit.

    Notes
    -----
    O(K log K) a row: one sort, then each line enters and leaves the envelope at most once, over all rows
    together. Every term is positive, so that tiny gains keep their relative accuracy. Equals `voi` of the
    one slope that is not zero where specialists are independent; 0 where all slopes are equal.

    References
    ----------
    P. Frazier, W. Powell and S. Dayanik (2009), The knowledge-gradient policy for correlated normal beliefs,
    INFORMS Journal on Computing 21, algorithm 1. PB-15 of the module's specification.

    Examples
    --------
    >>> print(f"{voi_correlated([0.3, 0.1, -0.2], [0.6, 0.4, -0.5]):.12f}")
    0.233406142662
    >>> voi_correlated([0.3, 0.1], [[0.6, 0.6], [0.6, 0.0]]).round(4)
    array([0.    , 0.1525])
    """
    xp, (m, slope), restore = unify(m=m, slope=slope)
    if min(m.ndim, slope.ndim) == 0 or 0 in (m.shape[-1], slope.shape[-1]):
        raise ValueError("need at least 1 specialist on the last axis of m and of slope; pass lists")
    check_finite("m", m)
    check_finite("slope", slope)
    shape = check_shapes(m=m, slope=slope)
    if xp is np:
        return _scalar_or_rows(_envelope(np.broadcast_to(m, shape), np.broadcast_to(slope, shape)))
    plain = (np.broadcast_to(x.detach().cpu().numpy(), shape) for x in (m, slope))
    return restore(xp.as_tensor(_envelope(*plain), device=m.device))


def signal_slopes(covariance: ArrayLike, tau: ArrayLike) -> np.ndarray:
    """How a signal on each specialist moves the means of all of them.

    Row i is ``Sigma e_i / sqrt(Sigma_ii + tau_i^2)``: after the signal on i the vector of means is
    ``m + row_i Z``.

    Parameters
    ----------
    covariance : array_like, shape (K, K)
        Covariance of the values, symmetric within 1e-8 and positive semidefinite.
    tau : array_like, shape (K,)
        Standard deviations of the signals' noise, >= 0; +inf for no signal.

    Returns
    -------
    ndarray, shape (K, K)
        Slopes, axis 0 the specialist that is refined, axis 1 the one whose mean moves.

    Raises
    ------
    ValueError
        If the covariance is not square, symmetric and positive semidefinite, or tau is out of range.

    References
    ----------
    PB-15 of the module's specification; Frazier, Powell and Dayanik (2009), equation (5).

    Examples
    --------
    >>> signal_slopes([[1.0, 0.5], [0.5, 1.0]], [0.0, np.inf])
    array([[1. , 0.5],
           [0. , 0. ]])
    """
    (sigma, noise), _, _ = arrays(covariance=covariance, tau=tau)
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1]:
        raise ValueError(f"covariance must be square, got shape {sigma.shape}; one row a specialist")
    if not len(sigma):
        raise ValueError("need at least 1 specialist; got a covariance of shape (0, 0)")
    if noise.shape not in ((), (len(sigma),)):
        raise ValueError(f"tau of shape {noise.shape} does not fit covariance of shape {sigma.shape}")
    if not (noise >= 0).all():
        raise ValueError(f"tau must be >= 0; got {noise[~(noise >= 0)].flat[0]}, it is a standard deviation")
    check_finite("covariance", sigma)
    scale = max(1.0, np.abs(sigma).max())
    if np.abs(sigma - sigma.T).max() > 1e-8 * scale:
        raise ValueError(
            f"covariance not symmetric (largest difference {np.abs(sigma - sigma.T).max():.3g}); "
            "pass (S + S.T)/2"
        )
    least = float(np.linalg.eigvalsh((sigma + sigma.T) / 2)[0])
    if least < -1e-8 * scale:
        raise ValueError(
            f"covariance not positive semidefinite (min eigenvalue {least:.3g}); project it first"
        )
    total = np.sqrt(np.clip(np.diag(sigma), 0, None) + noise**2)
    with np.errstate(all="ignore"):
        return np.where(total[:, None] > 0, sigma / total[:, None], 0.0)


def _scalar_or_rows(value: NDArray[np.float64]) -> Any:
    return float(value) if value.ndim == 0 else value


def _envelope(m: NDArray[np.float64], slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gain of each row: upper envelope by a stack, one line at a time, all rows together."""
    lead, size = m.shape[:-1], m.shape[-1]
    m, slope = m.reshape(-1, size), slope.reshape(-1, size)
    order = np.lexsort((m, slope), axis=-1)  # by slope, parallel lines by height
    m, slope = np.take_along_axis(m, order, 1), np.take_along_axis(slope, order, 1)
    rows = np.arange(len(m))
    lines = np.zeros(m.shape, np.intp)  # the envelope so far, from the left
    start = np.full(m.shape, -np.inf)  # where each of its lines begins
    last = np.zeros(len(m), np.intp)
    with np.errstate(all="ignore"):
        for k in range(1, size):
            begin = np.empty(len(m))
            live = rows
            while len(live):
                top = lines[live, last[live]]
                rise = slope[live, k] - slope[live, top]
                z = np.where(rise > 0, (m[live, top] - m[live, k]) / rise, -np.inf)  # parallel: k is higher
                begin[live] = z
                hidden = z <= start[live, last[live]]
                at_base = last[live] == 0
                begin[live[hidden & at_base]] = -np.inf
                last[live[hidden]] -= 1
                live = live[hidden & ~at_base]
            last += 1
            lines[rows, last] = k
            start[rows, last] = begin
        picked = np.take_along_axis(slope, lines, 1)
        jump = np.diff(picked, axis=1)
        terms = jump * gain(np, np.abs(start[:, 1:]))
        kept = np.arange(1, size) <= last[:, None]
        return np.where(kept, terms, 0.0).sum(axis=1).reshape(lead)
