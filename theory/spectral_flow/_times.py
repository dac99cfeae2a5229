"""Arrival times of balanced modes: checked input, the two closed forms, and the quadrature."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from porism.checks import finite_array

Array = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
PANEL = 2.0
"""Length of a panel in logit units: the integrand is analytic within pi/2 of the real axis, so sixteen nodes
leave an error of order (pi/2 + sqrt(1 + pi^2/4))^-32 = 1e-17."""
BLOCK = 2**20
"""Values of the integrand held at once."""


@dataclasses.dataclass(frozen=True)
class Modes:
    """Balanced modes of one shape; `gap` is sigma - ridge, and only where it is positive a mode arrives."""

    sigma: Array
    s0: Array
    fraction: Array
    smoothing: Array
    ridge: Array

    @property
    def gap(self) -> Array:
        return self.sigma - self.ridge

    @property
    def arrives(self) -> NDArray[np.bool_]:
        return self.gap > 0


def modes(sigma: Any, s0: Any, fraction: Any, smoothing: Any = 0.0, ridge: Any = 0.0) -> Modes:
    """Check the five and bring them to one shape."""
    given = {"sigma": sigma, "s0": s0, "fraction": fraction, "smoothing": smoothing, "ridge": ridge}
    signed = ("s0", "fraction")
    arrays = {
        name: finite_array(name, value) if name in signed else not_negative(name, value)
        for name, value in given.items()
    }
    inside = (arrays["fraction"] > 0) & (arrays["fraction"] < 1)
    if not inside.all():
        wrong = float(arrays["fraction"][~inside].flat[0])
        raise ValueError(f"fraction must lie strictly between 0 and 1, got {wrong}; the default is 0.99")
    found = Modes(**dict(zip(arrays, broadcast(**arrays), strict=True)))
    low, high = found.s0 <= 0, found.arrives & (found.s0 >= found.fraction * found.gap)
    if (low | high).any():
        where = np.flatnonzero((low | high).ravel())[0]
        s, f, g = (float(x.flat[where]) for x in (found.s0, found.fraction, found.gap))
        raise ValueError(
            f"s0 must lie strictly between 0 and fraction*(sigma-ridge), got {s} with "
            f"fraction*(sigma-ridge) = {f * g}; start lower, or leave out modes that are there already"
        )
    return found


def aligned(sigma: Any, a0: Any, b0: Any, level: Any, **more: Array) -> list[Array]:
    """Check target, factors and level (by default the target), and bring them and `more` to one shape."""
    arrays = broadcast(
        sigma=not_negative("sigma", sigma),
        a0=finite_array("a0", a0),
        b0=finite_array("b0", b0),
        level=finite_array("level", sigma if level is None else level),
        **more,
    )
    target, c = arrays[0], arrays[3]
    wrong = np.flatnonzero(((c < 0) | (c > target)).ravel())
    if wrong.size:
        raise ValueError(
            f"level must lie in [0, sigma], got {c.flat[wrong[0]]} with sigma = {target.flat[wrong[0]]}; "
            "a level above sigma is never reached"
        )
    return arrays


def not_negative(name: str, value: Any, ndim: int | None = None) -> Array:
    """Accept finite numbers >= 0, with one message for both rules."""
    floats = isinstance(value, (float, np.floating, np.ndarray)) and np.asarray(value).dtype.kind == "f"
    given = np.asarray(value) if floats else finite_array(name, value)
    wrong = given[~((given >= 0) & (given < np.inf))]
    if wrong.size:
        more = f" ({wrong.size} such values in all)" if wrong.size > 1 else ""
        raise ValueError(
            f"{name} must be a finite number >= 0, got {float(wrong[0])}{more}; pass zero or more"
        )
    return finite_array(name, given, ndim)


def broadcast(**arrays: Array) -> list[Array]:
    """Arrays of one shape, or an error that names all shapes."""
    try:
        return list(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"shapes must broadcast, got {shapes}; add axes of length 1") from None


def ideal(m: Modes) -> Array:
    """Time without smoothing, ``sqrt(f gap) - sqrt(s0)``; inf for modes that do not arrive."""
    target = m.fraction * np.where(m.arrives, m.gap, 1.0)
    # written so that nothing cancels when the start is close to the target
    time = (target - m.s0) / (np.sqrt(target) + np.sqrt(m.s0))
    return np.where(m.arrives, time, np.inf)


def logit_length(m: Modes) -> Array:
    """Difference of ``log(s / (gap - s))`` between target and start; 0 for modes that do not arrive."""
    gap, s0 = np.where(m.arrives, m.gap, 1.0), np.where(m.arrives, m.s0, m.fraction)
    with np.errstate(over="ignore"):
        growth = (m.fraction * gap - s0) / s0 / (1 - m.fraction)
    # log1p where the start is close to the target, the sum of logarithms where the ratio would overflow
    near = growth < 1e6
    far = np.log(m.fraction) - np.log1p(-m.fraction) + np.log(gap - s0) - np.log(s0)
    return np.where(near, np.log1p(np.where(near, growth, 0.0)), far)


def gradient_flow(m: Modes) -> Array:
    """Time of the gradient flow; inf for modes that do not arrive."""
    gap = np.where(m.arrives, m.gap, 1.0)
    return np.where(m.arrives, logit_length(m) / (2 * gap), np.inf)


def bracket(m: Modes) -> tuple[Array, Array]:
    """Lower and upper end for the time with smoothing."""
    short = ideal(m)
    delay = np.where(m.smoothing > 0, m.smoothing, 1.0) * gradient_flow(m)
    delay = np.where(m.smoothing > 0, delay, np.where(m.arrives, 0.0, np.inf))
    return np.hypot(short, delay), short + delay


def smoothed(m: Modes) -> Array:
    """Time with smoothing, kept inside its bracket against the last bit of rounding."""
    low, high = bracket(m)
    found = np.array(low)
    open_ = m.arrives & (m.smoothing > 0)
    if open_.any():
        found[open_] = quadrature(*(x[open_] for x in (m.gap, m.fraction, m.smoothing, logit_length(m))))
    return np.clip(found, low, high)


def quadrature(gap: Array, fraction: Array, smoothing: Array, length: Array) -> Array:
    """Integral of ``sqrt(1 + (beta/x)^2) da`` over the way, for 1-D arrays.

    With ``s = gap expit(z)`` the way is an interval in z, and ``da = sqrt(gap) h(z) dz / 2``,
    ``x = gap^(3/2) h(z)`` with ``h(z) = sqrt(expit(z)) expit(-z)``.
    """
    root = np.sqrt(gap)
    ratio = smoothing / gap / root
    end = np.log(fraction) - np.log1p(-fraction)
    panels = max(1, int(np.ceil(length.max() / PANEL)))
    # share of the way, from the target backwards, at every node
    back = ((np.arange(panels)[:, None] + (1 - NODES) / 2) / panels).ravel()
    weights = np.tile(WEIGHTS, panels) / panels
    found = np.empty_like(gap)
    step = max(1, BLOCK // len(back))
    for i in range(0, len(gap), step):
        part = slice(i, i + step)
        z = end[part, None] - length[part, None] * back
        found[part] = np.hypot(np.sqrt(expit(z)) * expit(-z), ratio[part, None]) @ weights
    return found * root * length / 4
