"""Independent oracles for the claims: one mode walked event by event, a plain quadrature, a plain descent."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.kernels.polar import newton_schulz, polar_factor

__all__ = [
    "FIVE",
    "INTEGRATED",
    "INTEGRATOR",
    "ROUNDING",
    "STEPS",
    "TIGHT",
    "descend",
    "exact",
    "express",
    "modes",
    "plain",
    "quadrature",
    "quintic",
    "root_balance",
    "rotation",
    "singular_values",
    "walk",
]

Floats = NDArray[np.float64]
Turn = Callable[[Floats], Floats]

FIVE = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
"""Targets of the toy problem."""

TIGHT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-12}
"""Tolerances of the integrator, one step."""

INTEGRATED = 1e-6
"""What some hundred to a thousand steps of the integrator leave, with room for the stiffness."""

INTEGRATOR = "integrator: 1e-10 a step, at most some thousand steps, errors grown by at most 10"

STEPS = 1e-11
"""Rounding of a few hundred steps of operations on numbers of size 1 to 10, 1e-14 each at most."""

ROUNDING = "rounding: at most 1e-14 a step, some hundred steps"


def exact(G: Floats) -> Floats:
    """The partial isometry."""
    return np.asarray(polar_factor(G), np.float64)


def quintic(G: Floats) -> Floats:
    """Five quintic steps, as Muon takes them, in float64."""
    return np.asarray(newton_schulz(G), np.float64)


def express(G: Floats) -> Floats:
    """Five steps of Polar Express in float64."""
    return np.asarray(newton_schulz(G, "polar_express"), np.float64)


def plain(G: Floats) -> Floats:
    """No orthogonalisation."""
    return G


def descend(
    Y: Floats, B: Floats, A: Floats, turn: Turn, lr: float, steps: int, ridge: float = 0.0
) -> tuple[Floats, Floats]:
    """Both factors after each step of ``X <- X - lr turn(G_X)``: (steps + 1, m, r) and (steps + 1, r, n)."""
    Bs, As = [B], [A]
    for _ in range(steps):
        R = Y - B @ A
        GB, GA = ridge * B - R @ A.T, ridge * A - B.T @ R
        B, A = B - lr * turn(GB), A - lr * turn(GA)
        Bs.append(B)
        As.append(A)
    return np.array(Bs), np.array(As)


def modes(Y: Floats, Bs: Floats, As: Floats, k: int) -> Floats:
    """``u_i' B A v_i`` of the first k singular pairs of Y at each record, (T, k)."""
    U, _, Vt = np.linalg.svd(Y, full_matrices=False)
    return np.einsum("mk,tmr,trn,kn->tk", U[:, :k], Bs, As, Vt[:k], optimize=True)


def singular_values(Bs: Floats, As: Floats) -> Floats:
    """Singular values of B A at each record, descending, from triangular factors."""
    RB = np.linalg.qr(Bs)[1]
    RA = np.linalg.qr(np.swapaxes(As, -1, -2))[1]
    return np.linalg.svd(RB @ np.swapaxes(RA, -1, -2), compute_uv=False)


def root_balance(Bs: Floats, As: Floats) -> Floats:
    """``(A A')^(1/2) - (B' B)^(1/2)`` at each record, without squaring."""
    P, a, _ = np.linalg.svd(As, full_matrices=False)
    _, b, Qt = np.linalg.svd(Bs, full_matrices=False)
    Q = np.swapaxes(Qt, -1, -2)
    found: Floats = (P * a[..., None, :]) @ np.swapaxes(P, -1, -2) - (Q * b[..., None, :]) @ Qt
    return found


def rotation(n: int, rng: np.random.Generator) -> Floats:
    """A random orthogonal matrix."""
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def walk(sigma: float, a: float, b: float, level: float) -> float:
    """Time at which ``a b`` meets a level, by going from one event to the next at unit speeds.

    ``a' = sign((sigma - a b) b)`` and ``b' = sign((sigma - a b) a)``; a factor that is zero takes the sign
    that it is about to have. Events: a factor meets zero, the product meets the level (from above: sigma).
    """
    above = a * b > sigma
    goal = sigma if above else level
    if a * b == goal or (above and level < sigma) or (not above and a * b >= level):
        return 0.0
    time = 0.0
    for _ in range(4):
        if a == 0 and b == 0:
            return math.inf if level > 0 else time
        side = -1.0 if above else 1.0
        va = side * np.sign(b if b else a)
        vb = side * np.sign(a if a else b)
        zeros = [-x / v for x, v in ((a, va), (b, vb)) if x * v < 0]
        meets = [
            float(t.real)
            for t in np.roots([va * vb, a * vb + b * va, a * b - goal])
            if abs(t.imag) < 1e-12 and t.real > 0
        ]
        wait = min(zeros, default=math.inf)
        if meets and min(meets) <= wait:
            return time + min(meets)
        if not math.isfinite(wait):
            return math.inf
        a, b = (0.0 if x * v < 0 and -x / v == wait else x + v * wait for x, v in ((a, va), (b, vb)))
        time += wait
    return math.inf


def quadrature(gap: float, s0: float, fraction: float, beta: float) -> float:
    """Time of a balanced mode under smoothing, by an adaptive rule in ``log a``."""
    from scipy.integrate import quad

    def integrand(u: float) -> float:
        factor = math.exp(u)
        return math.hypot(factor, beta / (gap - factor * factor))

    ends = 0.5 * math.log(s0), 0.5 * math.log(fraction * gap)
    return float(quad(integrand, *ends, epsabs=1e-12, epsrel=1e-11, limit=400)[0])
