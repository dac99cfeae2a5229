"""Gains that do not assume a Gaussian: bounds for every law, and the Beta formula for binary values."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.theory.pandora._gain import one_step
from porism.theory.pandora._inputs import LOG_ROOT_2PI, arrays, check_not_nan, check_nu

__all__ = ["GainBounds", "voi_binary", "voi_bounds"]

LARGEST_K = 1e15  # concentration of the Beta law beyond which it is taken for Gaussian


class GainBounds(NamedTuple):
    """Bounds on the gain of one refinement that hold for every law of the refined mean.

    Parameters
    ----------
    lower : float or ndarray
        0: more information never lowers the value of the best choice.
    scarf : float or ndarray
        The largest gain of any law with this mean and standard deviation.
    binary_cap : float, ndarray or None
        The largest gain for a value in {0, 1}; None where p and b were not given.
    """

    lower: Any
    scarf: Any
    binary_cap: Any


def voi_bounds(
    gap: ArrayLike, nu: ArrayLike, p: ArrayLike | None = None, b: ArrayLike | None = None
) -> GainBounds:
    """Bounds on the gain of one refinement whatever the law of the refined mean.

    ``0 <= gain <= (sqrt(nu^2 + d^2) - d)/2`` with d = |gap|; for a value in {0, 1} of mean p also
    ``gain <= p (1 - b)`` if b >= p, ``<= b (1 - p)`` if b <= p, and 0 for b outside [0, 1].

    Parameters
    ----------
    gap : float or array_like
        Mean less the best alternative, either sign, in quality units.
    nu : float or array_like
        Standard deviation of the refined mean, >= 0 and finite.
    p : float or array_like, optional
        Gross mean of the binary value, in [0, 1]; given together with `b`.
    b : float or array_like, optional
        Best alternative on the gross scale of p: with prices, the best other net mean plus lam times the
        price of this specialist.

    Returns
    -------
    GainBounds
        The triple (lower, scarf, binary_cap); binary_cap is None without p and b.

    Raises
    ------
    ValueError
        If an argument is out of range, only one of p and b is given, or the shapes do not fit.

    Notes
    -----
    Both upper bounds are attained: Scarf's by a law on two points, the cap by full information. The Gaussian
    gain may exceed the cap, and may also understate the gain of a skewed law (PB-14).

    References
    ----------
    H. Scarf (1958), A min-max solution of an inventory problem. PB-14 of the module's specification.

    Examples
    --------
    >>> lower, scarf, cap = voi_bounds(-0.02, 0.085, p=0.97, b=0.99)
    >>> print(f"{lower} {scarf:.6f} {cap:.4f}")
    0.0 0.033661 0.0097
    """
    if (p is None) != (b is None):
        raise ValueError("p and b must be given together, got one of them; pass both or neither")
    (gap_, nu_), _, restore = arrays(gap=gap, nu=nu)
    check_not_nan("gap", gap_)
    check_nu(nu_)
    d = np.abs(gap_)
    with np.errstate(all="ignore"):
        scarf = np.where(nu_ > 0, 0.5 * nu_ * (nu_ / (np.hypot(nu_, d) + d)), 0.0)
    cap = None
    if p is not None and b is not None:
        (p_, b_), _, restore_cap = arrays(p=p, b=b)
        _check_binary(p_, b_)
        cap = restore_cap(_cap(p_, b_))
    return GainBounds(restore(np.zeros_like(scarf)), restore(scarf), cap)


def voi_binary(p: ArrayLike, nu: ArrayLike, b: ArrayLike) -> Any:
    """Gain of one refinement for a value in {0, 1}, the refined estimate being Beta distributed.

    ``E(b - q)^+ = b I_b(pk, (1-p)k) - p I_b(pk+1, (1-p)k)`` with q ~ Beta(pk, (1-p)k) and
    ``k = p(1-p)/nu^2 - 1``, so that q has mean p and standard deviation nu. The gain is that for b <= p and
    that plus p - b for b > p, clipped to the cap of `voi_bounds`.

    Parameters
    ----------
    p : float or array_like
        Gross mean of the value, in [0, 1].
    nu : float or array_like
        Standard deviation of the refined mean, >= 0; from ``sqrt(p (1-p))`` on the refined estimate is the
        value itself, and the gain is the cap.
    b : float or array_like
        Best alternative on the gross scale of p (see `voi_bounds`); the gain is 0 outside [0, 1].

    Returns
    -------
    float or ndarray
        Gain in [0, cap], of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.

    Notes
    -----
    One incomplete Beta function an entry, computed as ``b^{pk} (1-b)^{(1-p)k} / (k B(pk, (1-p)k))`` less
    ``|p - b|`` times the mass beyond b, which keeps its accuracy where nu is small. Past k = 1e15 the law is
    taken for Gaussian.

    References
    ----------
    PB-14 and section 2 of the module's specification; NIST Digital Library of Mathematical Functions, 8.17.

    Examples
    --------
    >>> print(f"{voi_binary(0.9, (0.09 / 6) ** 0.5, 0.8):.12f}")
    0.021360318076
    """
    (p_, nu_, b_), _, restore = arrays(p=p, nu=nu, b=b)
    _check_binary(p_, b_)
    check_nu(nu_)
    return restore(_beta_gain(*np.broadcast_arrays(p_, nu_, b_)))


def _beta_gain(p: NDArray[np.float64], nu: NDArray[np.float64], b: NDArray[np.float64]) -> Any:
    from scipy.special import betainc, betaincc

    cap, spread = _cap(p, b), p * (1 - p)
    with np.errstate(all="ignore"):
        k = spread / nu**2 - 1
        gain = one_step(np, p - b, nu)  # for k beyond all doubt Gaussian
        live = (k > 0) & (k < LARGEST_K) & (b > 0) & (b < 1)
        p_, k_, b_ = p[live], k[live], b[live]
        a, c = p_ * k_, (1 - p_) * k_
        # E(b - q)^+ = (b - p) I_b + b^a (1-b)^c / (k B(a, c)): no cancellation where b is near p
        crossed = np.where(b_ <= p_, betainc(a, c, b_), betaincc(a, c, b_))
        lean = (b_ - p_) / p_
        divergence = -(p_ * np.log1p(lean) + (1 - p_) * np.log1p((p_ - b_) / (1 - p_)))
        edge = np.exp(_stirling(k_) - _stirling(a) - _stirling(c) - k_ * divergence)
        gain[live] = np.sqrt(p_ * (1 - p_) / (2 * np.pi * k_)) * edge - abs(p_ - b_) * crossed
    return np.where(k > 0, np.clip(gain, 0.0, cap), cap)


def _stirling(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log Gamma(x) less ``(x - 1/2) log x - x + log(2 pi)/2``."""
    from scipy.special import gammaln

    y = 1 / (x * x)
    series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x
    return np.where(x > 12, series, gammaln(x) - (x - 0.5) * np.log(x) + x - LOG_ROOT_2PI)


def _cap(p: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    cap = np.where(b >= p, p * (1 - b), b * (1 - p))
    return np.where((b < 0) | (b > 1), 0.0, cap)


def _check_binary(p: NDArray[np.float64], b: NDArray[np.float64]) -> None:
    if not ((p >= 0) & (p <= 1)).all():
        bad = p[~((p >= 0) & (p <= 1))].flat[0]
        raise ValueError(f"p must be in [0, 1], got {bad}; it is the gross mean of a value in {{0, 1}}")
    check_not_nan("b", b)
