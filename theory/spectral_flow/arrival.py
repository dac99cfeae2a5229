"""When a mode of the factorisation reaches its target: ideal flow, gradient flow, smoothed spectral flow."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.theory.spectral_flow import _times
from porism.theory.spectral_flow._times import broadcast, not_negative

__all__ = [
    "gradient_flow_arrival_time",
    "gradient_flow_singular_value",
    "ideal_arrival_time",
    "spectral_flow_arrival_time",
]


def ideal_arrival_time(
    sigma: ArrayLike, a0: ArrayLike, b0: ArrayLike, level: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Time at which an aligned mode reaches a level, without smoothing or ridge (SF-1).

    Both factors move at unit speed, so with ``x = |a0|``, ``y = |b0|``, ``g = |x - y|`` and level c

    - from below, same sign: ``(-(x + y) + sqrt(g^2 + 4c)) / 2``; one factor may be zero, as in a LoRA start;
    - opposite signs: the smaller factor crosses zero first, ``min(x, y) + (-g + sqrt(g^2 + 4c)) / 2``;
    - from above, ``a0 b0 > sigma``: ``(x + y - sqrt(g^2 + 4 sigma)) / 2``.

    Parameters
    ----------
    sigma : array_like
        Target singular value, >= 0.
    a0, b0 : array_like
        Factors at time 0, any sign; all arguments broadcast.
    level : array_like, optional
        Product singular value to be reached, in [0, sigma]; sigma by default.

    Returns
    -------
    float64 or ndarray
        Arrival time, in units of a factor's singular value (one step of size lr is lr units). 0 where the
        level is reached at the start, which includes ``level < sigma`` with ``a0 b0 > sigma``. inf on the
        stable manifold of the saddle, ``a0 = -b0``, and at ``a0 = b0 = 0``, unless the level is 0.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If a value is not finite, sigma is negative, level is out of range, or shapes do not broadcast.

    Notes
    -----
    Balanced factors, ``a0 = b0 = sqrt(s0)``, arrive at ``sqrt(level) - sqrt(s0)``: smaller targets first. It
    is sqrt(s) that grows at unit rate. Cost: elementwise.

    References
    ----------
    arXiv:2602.06385, reconstruction of the equal-rate result (reported as Theorem 5.7); the closed forms are
    derived in :func:`porism.theory.spectral_flow.symbolic.ideal_arrival`.

    Examples
    --------
    >>> ideal_arrival_time([4.0, 0.25], 0.1, 0.1).round(9).tolist()
    [1.9, 0.4]
    >>> float(ideal_arrival_time(4.0, 0.3, -0.3))
    inf
    """
    target, a, b, c = _times.aligned(sigma, a0, b0, level)
    x, y = np.abs(a), np.abs(b)
    opposite = np.sign(a) * np.sign(b) < 0
    crossing = np.where(opposite, np.minimum(x, y), 0.0)
    x, y = x - crossing, y - crossing
    with np.errstate(over="ignore", under="ignore"):
        product = np.where((x > 0) & (y > 0), np.maximum(x * y, np.finfo(float).smallest_subnormal), 0.0)
    # roots beside the product, which leaves the range of floats where factors are tiny or huge
    start, end = np.sqrt(x) * np.sqrt(y), np.sqrt(c)
    width = x + y + np.hypot(x - y, 2 * end)
    # the differences above, multiplied out so that nothing cancels
    time = 2 * (np.abs(end - start) / np.where(width > 0, width, 1.0)) * (end + start)
    above = product > target
    there = ~opposite & np.where(above, c < target, product >= c)
    stuck = (x == 0) & (y == 0) & (c > 0)
    time = np.where(there, 0.0, np.where(stuck, np.inf, time))
    return (crossing + time)[()]


def gradient_flow_arrival_time(
    sigma: ArrayLike, s0: ArrayLike, fraction: ArrayLike = 0.99, ridge: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """Time at which a balanced mode reaches its fraction under the gradient flow (SF-2).

    ``log(f (g/s0 - 1) / (1 - f)) / (2 g)`` with ``g = sigma - ridge``.

    Parameters
    ----------
    sigma : array_like
        Target singular value, >= 0.
    s0 : array_like
        Product singular value at time 0, in (0, fraction * (sigma - ridge)); all arguments broadcast.
    fraction : array_like, default 0.99
        Share of ``sigma - ridge`` to be reached, in (0, 1).
    ridge : array_like, default 0
        Weight of ``(|A|^2 + |B|^2) / 2`` in the loss, >= 0.

    Returns
    -------
    float64 or ndarray
        Arrival time, in units of 1 / sigma; inf where ``sigma <= ridge``.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If an argument is out of range or shapes do not broadcast.

    Notes
    -----
    Largest first, with gaps that grow like ``log(1 / s0)``. Accurate to rounding also for s0 next to the
    target. Cost: elementwise.

    References
    ----------
    Saxe, McClelland and Ganguli (2014), "Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks", arXiv:1312.6120.

    Examples
    --------
    >>> gradient_flow_arrival_time([9, 4, 1], 1e-6).round(6).tolist()
    [1.144881, 2.474616, 9.205315]
    """
    return _times.gradient_flow(_times.modes(sigma, s0, fraction, 0.0, ridge))[()]


def gradient_flow_singular_value(
    t: ArrayLike, sigma: ArrayLike, s0: ArrayLike, ridge: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """Product singular value of a balanced mode under the gradient flow (SF-2), a logistic curve.

    ``s(t) = g / (1 + (g/s0 - 1) exp(-2 g t))`` with ``g = sigma - ridge``.

    Parameters
    ----------
    t : array_like
        Times, >= 0.
    sigma : array_like
        Target singular value, >= 0.
    s0 : array_like
        Product singular value at time 0, >= 0, on either side of the target; all arguments broadcast.
    ridge : array_like, default 0
        Weight of ``(|A|^2 + |B|^2) / 2`` in the loss, >= 0; from sigma on, the mode decays to 0.

    Returns
    -------
    float64 or ndarray
        s(t).

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If a value is negative or not finite, or shapes do not broadcast.

    Notes
    -----
    Solves ``ds/dt = 2 s (g - s)``. Cost: elementwise.

    References
    ----------
    Saxe, McClelland and Ganguli (2014), arXiv:1312.6120.

    Examples
    --------
    >>> round(float(gradient_flow_singular_value(1.0, 2.0, 1e-3)), 12)
    0.053173158568
    """
    given = {"t": t, "sigma": sigma, "s0": s0, "ridge": ridge}
    arrays = {name: not_negative(name, value) for name, value in given.items()}
    time, target, start, weight = broadcast(**arrays)
    gap = target - weight
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x = 2 * gap * time
        # (1 - exp(-x)) / gap, which is 2 t at gap = 0
        span = np.where(x == 0, 2 * time, -np.expm1(-x) / gap)
        rest = np.exp(-x)
        share = rest + start * span
        value = np.where(share < np.finfo(float).tiny, 1 / (rest / start + span), start / share)
    return np.where(start == 0, 0.0, value)[()]


def spectral_flow_arrival_time(
    sigma: ArrayLike,
    s0: ArrayLike,
    fraction: ArrayLike = 0.99,
    smoothing: ArrayLike = 0.0,
    ridge: ArrayLike = 0.0,
) -> NDArray[np.float64]:
    """Time at which a balanced mode reaches its fraction under the smoothed spectral flow (SF-3).

    ``integral of sqrt(1 + (smoothing / x)^2) da`` over the factor from ``sqrt(s0)`` to
    ``sqrt(fraction (sigma - ridge))``, with the gradient ``x = (sigma - ridge - a^2) a``.

    Parameters
    ----------
    sigma : array_like
        Target singular value, >= 0.
    s0 : array_like
        Product singular value at time 0, in (0, fraction * (sigma - ridge)); all arguments broadcast.
    fraction : array_like, default 0.99
        Share of ``sigma - ridge`` to be reached, in (0, 1).
    smoothing : array_like, default 0
        The beta in ``G (G'G + beta^2)^(-1/2)``, >= 0; 0 is the ideal flow.
    ridge : array_like, default 0
        Weight of ``(|A|^2 + |B|^2) / 2`` in the loss, >= 0.

    Returns
    -------
    float64 or ndarray
        Arrival time, in units of a factor's singular value; inf where ``sigma <= ridge``.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If an argument is out of range or shapes do not broadcast.

    Notes
    -----
    Integrated in ``z = log(s / (gap - s))``, where one panel of 16 Gauss nodes for every two units is exact
    to rounding; relative error against 30-digit arithmetic: at most 4e-16 in 60 random cases. Cost: 8 nodes
    for each unit of ``log(gap / s0) + log(1 / (1 - fraction))``, a mode; memory 8 MB a temporary.

    References
    ----------
    Our derivation; brackets in :func:`porism.theory.spectral_flow.spectral_flow_arrival_bounds`.

    Examples
    --------
    >>> spectral_flow_arrival_time([4, 1, 0.25], 1e-6, smoothing=0.1).round(5).tolist()
    [2.07033, 1.53825, 3.48018]
    """
    return _times.smoothed(_times.modes(sigma, s0, fraction, smoothing, ridge))[()]
