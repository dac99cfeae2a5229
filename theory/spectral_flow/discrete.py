"""Spectral descent with a fixed step, mode by mode: step of arrival, and what is left afterwards."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array
from porism.errors import AssumptionError
from porism.theory.spectral_flow._times import aligned, broadcast, not_negative

__all__ = ["discrete_arrival_step", "discrete_floor"]

LONGEST = 2**52
"""Steps beyond this cannot be told apart in double precision."""


def discrete_arrival_step(
    sigma: ArrayLike,
    lr: ArrayLike,
    a0: ArrayLike,
    b0: ArrayLike,
    gain: tuple[float, float] = (1.0, 1.0),
    level: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """First step at which an aligned mode is at or past its level under spectral descent (SF-11).

    ``b <- b + lr sign((sigma - a b) a)`` and ``a <- a + lr sign((sigma - a b) b)``, together. From a LoRA
    start, ``b0 = 0``, it is the smallest k with ``k lr (|a0| + (k - 1) lr) >= level``, as A does not move in
    the first step; from two factors of one sign ``(|a0| + k lr) (|b0| + k lr) >= level``.

    Parameters
    ----------
    sigma : array_like
        Target singular value, >= 0.
    lr : array_like
        Step size, > 0.
    a0, b0 : array_like
        Factors at step 0, any sign; all arguments but the gain broadcast.
    gain : (float, float), default (1, 1)
        Range [l, u], ``0 < l <= u``, of an odd map that stands in the place of the sign, such as that of a
        Newton-Schulz iteration; (g, g) is one gain and gives one step.
    level : array_like, optional
        Product singular value to be reached, in [0, sigma]; sigma by default.

    Returns
    -------
    int64 or ndarray
        Step of arrival, the discrete counterpart of
        :func:`~porism.theory.spectral_flow.ideal_arrival_time`, from below or from above; 0 where the level
        is reached at the start, -1 where it never is: at ``a0 = b0 = 0``, and in a cycle around the saddle,
        which opposite signs enter when both factors cross zero in one step. With ``l < u`` the earliest and
        the latest step, on a last axis of length 2.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If an argument is out of range, shapes do not broadcast, or lr is so small that steps cannot be
        counted.
    AssumptionError
        If ``l < u`` and the factors have opposite signs or start above sigma: a step of another size may
        then carry the mode to another side.

    Notes
    -----
    Closed form, elementwise. A level that a step meets exactly is decided by the rounding of ``a0 + k lr``.
    With gains in [l, u] the order of arrival is certain for targets with ``sigma_j / sigma_i < (l / u)^2``.
    After arrival a fixed step leaves a cycle of period 2, see :func:`discrete_floor`.

    References
    ----------
    Our derivation; see :func:`porism.theory.spectral_flow.symbolic.discrete_arrival`.

    Examples
    --------
    >>> int(discrete_arrival_step(2.0, 0.1, 0.05, 0.05))
    14
    >>> discrete_arrival_step(1.0, 0.01, 0.001, 0.0, gain=(0.6818, 1.203)).tolist()
    [84, 148]
    """
    target, a, b, c, step = aligned(sigma, a0, b0, level, lr=finite_array("lr", lr))
    if (step <= 0).any():
        raise ValueError(f"lr must be finite and > 0, got {float(step.min())}; pass a positive step size")
    pair = finite_array("gain", gain)
    if pair.shape != (2,) or not 0 < pair[0] <= pair[1]:
        raise ValueError(f"gain must be (l, u) with 0 < l <= u, got {gain!r}; pass (1.0, 1.0) for the sign")
    low, high = (float(g) for g in pair)
    if low == high:
        return _arrival(target, step * low, a, b, c)[()]
    if (np.sign(a) * np.sign(b) < 0).any() or (a * b > target).any():
        raise AssumptionError(
            "a0 and b0 must have one sign and start below sigma where the gain is a range; "
            "pass gain=(g, g) for one gain"
        )
    return np.stack([_arrival(target, step * g, a, b, c) for g in (high, low)], axis=-1)


def discrete_floor(sigma: ArrayLike, lr: ArrayLike) -> NDArray[np.float64]:
    """Bound the distance from the target that spectral descent with a fixed step keeps (SF-11).

    ``2 lr sqrt(sigma) + lr^2``, for balanced factors; in general ``lr (|a| + |b|) + lr^2``.

    Parameters
    ----------
    sigma : array_like
        Target singular value, >= 0.
    lr : array_like
        Step size, >= 0; broadcasts against sigma.

    Returns
    -------
    float64 or ndarray
        Largest ``|s - sigma|`` in the cycle after arrival.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If a value is negative or not finite, or shapes do not broadcast.

    Notes
    -----
    ``(sqrt(sigma) + lr)^2 - sigma``: the step that passes the target starts below it. Descent converges only
    if lr goes to zero.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> discrete_floor([1.0, 4.0], 0.1).round(12).tolist()
    [0.21, 0.41]
    """
    target, step = broadcast(sigma=not_negative("sigma", sigma), lr=not_negative("lr", lr))
    return (2 * step * np.sqrt(target) + step * step)[()]


def _arrival(target: Any, lr: Any, a: Any, b: Any, c: Any) -> NDArray[np.int64]:
    """Phases one after the other: to the axis if signs are opposite, then up; or down from above."""
    x, y = np.maximum(np.abs(a), np.abs(b)), np.minimum(np.abs(a), np.abs(b))
    opposite = np.sign(a) * np.sign(b) < 0
    start = np.where(opposite, -x * y, x * y)
    above = start > target
    there = ~opposite & np.where(above, c < target, start >= c)

    # opposite signs: the smaller factor walks to its axis or past it, the larger one walks beside it
    to_axis = np.where(opposite, _first(y / lr, lambda k: k * lr >= y), 0.0)
    past, left = to_axis * lr - y, x - to_axis * lr
    # beyond both axes the signs are opposite again, and the next step undoes this one
    cycles = opposite & (left < 0)
    x, y = np.where(opposite, np.abs(left), x), np.where(opposite, past, y)
    x, y = np.maximum(x, y), np.minimum(x, y)

    # the same sign: both grow, but x waits one step while y is zero
    wait = np.where((y == 0) & (x > 0), 1.0, 0.0)

    def guess(level: Any, way: Any) -> Any:
        """Steps from x y to the level, `way` off, as a real number; 0 where it lies behind."""
        span = x + y + np.hypot(x - y, 2 * np.sqrt(level))
        return 2 * np.maximum(way, 0.0) / np.where(span > 0, span, 1.0) / lr

    def reached(k: Any) -> Any:
        return (x + np.maximum(k - wait, 0.0) * lr) * (y + k * lr) >= c

    up = _first(guess(c, c - x * y), reached)
    stuck = (c > 0) & (x == 0)

    # from above: both shrink; a step across both axes comes out above again
    def fallen(k: Any) -> Any:
        return (y - k * lr <= 0) | ((x - k * lr) * (y - k * lr) <= target)

    down = _first(guess(target, x * y - target), fallen)
    far = (x - down * lr < 0) & ((x - down * lr) * (y - down * lr) > target)

    steps = np.where(above, down, to_axis + up)
    never = np.where(above, far, cycles | stuck)
    steps = np.where(there, 0.0, np.where(never, -1.0, steps))
    if (steps > LONGEST).any():
        raise ValueError(f"lr must be larger, got an arrival after {float(steps.max()):.3g} steps; raise lr")
    return steps.astype(np.int64)


def _first(guess: Any, reached: Callable[[Any], Any]) -> Any:
    """Smallest whole number from which `reached` holds, within rounding of the real solution."""
    base = np.maximum(np.ceil(guess) - 2, 0.0)
    found = base + 4
    for ahead in (3, 2, 1, 0):
        found = np.where(reached(base + ahead), base + ahead, found)
    return found
