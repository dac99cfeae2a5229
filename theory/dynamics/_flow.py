"""Integration that both files share: one branch of a stable manifold, backward; one orbit, forward."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OFFSET", "PRECISE", "Velocity", "along", "boxed", "branch", "follow", "unit"]

Floats = NDArray[np.float64]
Velocity = Callable[[float, Floats], Any]

OFFSET = 1e-7
"""Step from a saddle along its eigenvector: the manifold bends away by the square of it."""

PRECISE: dict[str, float] = {"rtol": 1e-11, "atol": 1e-13}
"""Tolerances of one step."""

STIFF = 2e4
"""Product of the fastest rate and the time from which on an implicit method is cheaper."""


def unit(rate: float) -> float:
    """Power of two next below a rate: with rates over it, tolerances in time that are absolute do no harm."""
    return 2.0 ** (math.frexp(rate)[1] - 1)


def branch(
    velocity: Velocity,
    start: Floats,
    slack: Callable[[Floats], float],
    span: float,
    slow: float = 0.0,
    fast: float = 0.0,
) -> Any:
    """Integrate ``dy/dt = -velocity`` for `span`, or until `slack` < 0 or the speed is below `slow`.

    `fast` is the rate at which the flow leaves the manifold near the saddle. Backward it decays; beyond 6
    units of its time a step of this method would let rounding grow between its ends, unseen by its control.
    """

    def outside(t: float, y: Floats) -> float:
        return slack(y)

    def resting(t: float, y: Floats) -> float:
        vx, vy = velocity(t, y)[:2]
        return max(abs(vx), abs(vy)) - slow

    events: list[Any] = [outside, resting] if slow else [outside]
    for event in events:
        event.terminal, event.direction = True, -1

    def backward(t: float, y: Floats) -> Floats:
        return -np.asarray(velocity(t, y), float)

    longest = 4 / fast if fast else math.inf
    return _solve(backward, span, start, method="DOP853", events=events, max_step=longest)


def follow(velocity: Velocity, start: Floats, end: float, rate: float) -> Any:
    """Integrate ``dy/dt = velocity`` from 0 to `end`; `rate` is the fastest one there is."""
    return _solve(velocity, end, start, method="DOP853" if rate * end < STIFF else "Radau")


def _solve(velocity: Velocity, end: float, start: Floats, **options: Any) -> Any:
    from scipy.integrate import solve_ivp

    with np.errstate(over="ignore", invalid="ignore"):  # in trial steps, which are then rejected
        run = solve_ivp(velocity, (0.0, end), start, dense_output=True, **PRECISE, **options)
    if run.status < 0:
        raise ValueError(
            f"orbits must be smooth, but integration stopped at time {run.t[-1]:.6g} of {end:.6g}: "
            f"{run.message} Take a unit of time in which the rates are near 1"
        )
    return run


def along(t: Floats, parts: int) -> Floats:
    """Times of the steps with `parts` pieces a step."""
    inside = t[:-1, None] + np.diff(t)[:, None] * np.arange(parts) / parts
    return np.append(inside.ravel(), t[-1])


def boxed(low: Floats, high: Floats, room: float) -> Callable[[Floats], float]:
    """Slack of the first two coordinates in a box with `room` on every side."""
    x0, y0 = (low - room * (high - low)).tolist()
    x1, y1 = (high + room * (high - low)).tolist()
    return lambda y: min(y[0] - x0, x1 - y[0], y[1] - y0, y1 - y[1])
