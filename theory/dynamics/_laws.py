"""The equations of skill and delegation, their points of rest, orbits, and the curve between the basins."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.dynamics import _flow

__all__ = ["Curve", "Equations", "Path", "trace"]

Floats = NDArray[np.float64]

PIECES = 8
"""Points on each step of the integrator from which Newton's method starts."""

APART = 1e10
"""Largest ratio of a rate to a or b for which the curve is traced; under law B times the gain."""

LATE = 1e300
"""Latest time that is integrated to, in units of the fastest rate."""


def _sigmoid(x: Any) -> Any:
    from scipy.special import expit

    return expit(x)


def _sig(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(max(x, -745.0)) / (1 + math.exp(max(x, -745.0)))


@dataclasses.dataclass(frozen=True)
class Equations:
    """Rates a, b, k, quality q; law A if gamma is None, else law B."""

    a: float
    b: float
    k: float
    q: float
    gamma: float | None

    def velocity(self, s: Any, d: Any) -> tuple[Any, Any]:
        """Both rates of change at (s, d), elementwise."""
        rise = self.a * (1 - d) * (1 - s) - self.b * d * s
        if self.gamma is None:
            return rise, self.k * d * (1 - d) * (self.q - s)
        return rise, self.k * (_sigmoid(self.gamma * (self.q - s)) - d)

    def jacobian(self, s: Any, d: Any, trust: Any = None) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Derivatives of both rates; law B's sigmoid may be given, as at rest it is d, to all its digits."""
        top = -(self.a * (1 - d) + self.b * d), -(self.a * (1 - s) + self.b * s)
        if self.gamma is None:
            return top, (-self.k * d * (1 - d), self.k * (1 - 2 * d) * (self.q - s))
        trust = _sigmoid(self.gamma * (self.q - s)) if trust is None else trust
        return top, (-self.k * self.gamma * trust * (1 - trust), np.full(np.shape(s), -self.k)[()])

    def eigenvalues(self, s: float, d: float) -> Floats:
        """At a point of rest: real, as the entries off the diagonal have one sign; smaller first."""
        (p, u), (v, w) = self.jacobian(s, d, d)
        if self.gamma is None and d in (0.0, 1.0):
            return np.sort([float(p), float(w)])
        half, root = (p + w) / 2, math.hypot((p - w) / 2, math.sqrt(float(u * v)))
        far = half - root if half <= 0 else half + root
        near = (p * w - u * v) / far if far else 0.0  # the product, without cancellation
        return np.sort([float(far), float(near)])

    def rest(self) -> list[tuple[float, float]]:
        """Points of rest by increasing skill."""
        if self.gamma is None:
            up, down = self.a * (1 - self.q), self.b * self.q
            inner = [(self.q, up / (up + down))] if 0 < self.q < 1 else []
            return [(0.0, 1.0), *inner, (1.0, 0.0)]
        from scipy.optimize import brentq

        gamma, shift = self.gamma, math.log(self.a) - math.log(self.b)
        # x - gamma sigmoid(x) = c for x = logit s, where logit d = shift - x; beyond 1e4 both are 0 or 1
        c = min(max(shift - gamma * self.q, -1e4 - gamma), 1e4)
        beyond = 1 + 1e-12 * (abs(c) + gamma)  # more than the rounding of c

        def excess(x: float) -> float:
            return x - gamma * _sig(x) - c

        fold = self.fold()
        turns = [] if fold is None else [math.log(fold) - math.log1p(-fold)]
        ends = [c - beyond, *turns, *(-x for x in turns), c + gamma + beyond]
        found = []
        for low, high in itertools.pairwise(ends):
            if low < high and excess(low) * excess(high) < 0:
                x = float(brentq(excess, low, high, xtol=1e-15, rtol=1e-15))
                found.append((_sig(x), _sig(shift - x)))
        return found

    def fold(self) -> float | None:
        """Lower of the two skills, f and 1 - f, at which two points of rest of law B meet."""
        if self.gamma is None or self.gamma <= 4:
            return None
        return 2 / self.gamma / (1 + math.sqrt(1 - 4 / self.gamma))

    def window(self) -> tuple[float, float] | None:
        """Qualities with two attracting points."""
        if self.gamma is None:
            return 0.0, 1.0
        fold = self.fold()
        if fold is None:
            return None
        shift, odds = math.log(self.a) - math.log(self.b), math.log1p(-fold) - math.log(fold)
        return fold + (shift + odds) / self.gamma, 1 - fold + (shift - odds) / self.gamma

    def fixed(self, s: float, d: float, t: Floats) -> Floats:
        """Skill under constant delegation."""
        rate = self.a * (1 - d) + self.b * d
        end = self.a * (1 - d) / rate
        return np.asarray(end + (s - end) * np.exp(-rate * t))

    def alone(self, s: float, t: Floats) -> Floats:
        """Skill without AI."""
        return np.asarray(1 - (1 - s) * np.exp(-self.a * t))

    def scaled(self) -> tuple["Equations", float]:
        """The same flow in a unit of time in which the largest rate is in [1, 2), and that unit's inverse."""
        unit = _flow.unit(max(self.a, self.b, self.k))
        return dataclasses.replace(self, a=self.a / unit, b=self.b / unit, k=self.k / unit), unit

    def orbit(self, s: float, d: float, end: float) -> "Path":
        """The orbit from (s, d) up to a time."""
        if end == 0 or (self.gamma is None and d in (0.0, 1.0)):
            return Path(
                lambda t: (self.fixed(s, d, t), np.full(t.shape, d), np.full(t.shape, 1 - d)), None, end
            )
        law, unit = self.scaled()
        last = min(end * unit, LATE)
        odds = math.log(d) - math.log1p(-d) if self.gamma is None else d
        slow = max(law.a, law.b)  # law A turns at the mean of both rates
        fast = max(slow, math.sqrt(law.k * slow) if self.gamma is None else law.k)
        run = _flow.follow(law.motion, np.array([s, odds]), last, fast)

        def at(t: Floats) -> tuple[Floats, Floats, Floats]:
            skill, given = run.sol(np.minimum(t, LATE / unit) * unit)
            return skill, *((given, 1 - given) if self.gamma else (_sigmoid(given), _sigmoid(-given)))

        return Path(at, run.t / unit, end)

    def motion(self, t: float, y: Floats) -> tuple[float, float]:
        """Law A in (s, logit d), where it is never stiff; law B in (s, d)."""
        s, d = y
        if self.gamma is None:
            return self.a * _sig(-d) * (1 - s) - self.b * _sig(d) * s, self.k * (self.q - s)
        return self.a * (1 - d) * (1 - s) - self.b * d * s, self.k * (_sig(self.gamma * (self.q - s)) - d)

    def given(self, y: Floats) -> Floats:
        """Delegation from the states of `motion`."""
        return np.asarray(_sigmoid(y[1]) if self.gamma is None else y[1])


@dataclasses.dataclass(frozen=True)
class Path:
    """Skill, delegation and 1 - delegation as functions of time, and the times of the steps."""

    at: Callable[[Floats], tuple[Floats, Floats, Floats]]
    steps: Floats | None
    end: float

    def __call__(self, t: Any) -> tuple[Floats, Floats, Floats]:
        """Evaluate at times within the path."""
        return self.at(np.asarray(t, float))

    def dense(self) -> Floats:
        """Times between which nothing is missed: 16 a step, 400 at least."""
        even = np.linspace(0.0, self.end, 401)
        return even if self.steps is None else np.union1d(even, _flow.along(self.steps, 16))


@dataclasses.dataclass(frozen=True)
class Curve:
    """The separatrix as two dense runs away from the saddle, by increasing time before it."""

    saddle: Floats
    halves: tuple[Any, Any]
    law: Equations
    points: Floats
    area: float

    def __call__(self, s: Floats) -> Floats:
        """Evaluate d_sep(s), s in [0, 1]."""
        wanted = np.asarray(s, float)
        flat = wanted.ravel()
        out = np.empty(flat.shape)
        for number, (run, sign) in enumerate(zip(self.halves, (-1.0, 1.0), strict=True)):
            mine = flat < self.saddle[0] if number == 0 else flat >= self.saddle[0]
            if mine.any():
                out[mine] = self._half(run, sign, flat[mine])
        return np.clip(out, 0.0, 1.0).reshape(wanted.shape)

    def _half(self, run: Any, sign: float, s: Floats) -> Floats:
        times = _flow.along(run.t, PIECES)
        seen = sign * run.sol(times)[0]  # increasing
        goal = np.where(np.abs(sign * s - seen[-1]) < 1e-12, seen[-1], sign * s)  # on the edge of the square
        at = np.clip(np.searchsorted(seen, goal), 1, len(times) - 1)
        low, high = times[at - 1], times[at]
        share = (goal - seen[at - 1]) / np.maximum(seen[at] - seen[at - 1], 1e-300)
        t = low + np.clip(share, 0, 1) * (high - low)
        for _ in range(3):  # each doubles the digits
            y = run.sol(t)
            speed = -sign * np.asarray(self.law.velocity(y[0], self.law.given(y))[0])
            t = np.clip(t + (goal - sign * y[0]) / np.where(speed > 0, speed, np.inf), low, high)
        found = self.law.given(run.sol(t))
        near = goal < seen[0]  # between the saddle and the start of the run: a straight line
        if near.any():
            first = self.law.given(run.y[:, :1])[0]
            width = seen[0] - sign * self.saddle[0]
            found[near] = first + (self.saddle[1] - first) * (seen[0] - goal[near]) / max(width, 1e-300)
        found[goal > seen[-1]] = 0.0 if sign < 0 else 1.0  # beyond the edge of the square
        return np.asarray(found)


def trace(law: Equations, saddle: Floats) -> Curve:
    """Follow the stable manifold of the saddle backward, with the area above it as a third state."""
    most = max(law.a, law.b, law.k)
    ratio, far = most / min(law.a, law.b), APART if law.gamma is None else min(APART / law.gamma, APART / 100)
    if ratio > far:
        raise ValueError(
            f"learn and forget must be at least {1 / far:.3g} of the largest rate for a border to be traced, "
            f"got {1 / ratio:.3g}; bring the rates closer together"
        )
    law, _ = law.scaled()
    s0, d0 = float(saddle[0]), float(saddle[1])
    (p, u), (v, w) = (tuple(float(x) for x in row) for row in law.jacobian(s0, d0, d0))
    rate, fast = (float(value) for value in law.eigenvalues(s0, d0))
    replicator = law.gamma is None
    if replicator:  # in (s, logit d)
        y0, slope = math.log(law.a * (1 - s0)) - math.log(law.b * s0), -law.k / rate
    else:  # eigenvector (1, y) from the better conditioned row: u < 0, v < 0, and rate <= p, w
        y0, slope = d0, (rate - p) / u if abs(rate - p) >= abs(rate - w) else v / (rate - w)

    def velocity(t: float, y: Floats) -> tuple[float, float, float]:
        rise, turn = law.motion(t, y[:2])
        return rise, turn, (_sig(-y[1]) if replicator else 1 - y[1]) * rise

    def slack(y: Floats) -> float:
        return float(min(y[0], 1 - y[0]) if replicator else min(y[0], 1 - y[0], y[1], 1 - y[1]))

    step = _flow.OFFSET * min(s0, 1 - s0, (1.0 if replicator else min(d0, 1 - d0)) / slope)
    runs, area = [], 0.0
    for sign in (-1.0, 1.0):
        start = np.array([s0 + sign * step, y0 + sign * step * slope, 0.0])
        run = _flow.branch(velocity, start, slack, 1e9 / abs(rate), fast=fast)
        runs.append(run)
        area += sign * float(run.y[2, -1]) + step * (1 - d0)
    left, right = (run.sol(_flow.along(run.t, PIECES)) for run in runs)
    points = np.hstack([np.stack([y[0], law.given(y)])[:, ::way] for y, way in ((left, -1), (right, 1))]).T
    area += max(float(left[0, -1]), 0.0)  # left of where it leaves through d = 0, all starts lose

    return Curve(saddle, (runs[0], runs[1]), law, np.clip(points, 0.0, 1.0), min(max(area, 0.0), 1.0))
