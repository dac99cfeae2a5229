"""Claims on descent, step by step: SF-11, SF-11b."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.spectral_flow.claims._oracles import ROUNDING, STEPS, descend, exact, modes, quintic
from porism.sims.spectral_flow.starts import aligned_init, random_target
from porism.theory.spectral_flow import discrete_arrival_step, discrete_floor

__all__ = ["gain", "recursion"]

Floats = NDArray[np.float64]

SOURCE = "our derivation"


@claim(
    "SF-11",
    kind="theorem",
    source=SOURCE,
    statement="Spectral descent of aligned factors from a LoRA start has b_k = k lr and "
    "a_k = a0 + (k - 1) lr until the first arrival; a mode is at its level at the first k with "
    "k lr (a0 + (k - 1) lr) >= level, which is ceil(sqrt(level) / lr) or one more while 0 < a0 <= lr. With a "
    "fixed step it then cycles with period 2, within lr (|a| + |b|) + lr^2 of sigma.",
    control="five quintic Newton-Schulz steps in place of the polar factor",
)
def recursion(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, cases = (3, 200) if scale == "smoke" else (20, 5000)
    worst, off, lr = 0.0, 0, 0.01
    for _ in range(runs):
        sigma = np.sort(rng.uniform(0.8, 2.0, 3))[::-1]
        a0 = rng.uniform(0.1, 0.9, 3) * lr
        Y = random_target(8, 7, sigma, rng)
        first = int(discrete_arrival_step(sigma, lr, a0, 0.0).min())
        start = aligned_init(Y, a0, 0.0, rng)
        path = modes(Y, *descend(Y, *start, quintic if broken else exact, lr, first), 3)
        k = np.arange(1, first + 1)[:, None]
        worst = max(worst, float(np.abs(path[1:] - k * lr * (a0 + (k - 1) * lr)).max()))
    wide, shift, period = -np.inf, 0, 0.0
    for _ in range(cases):
        target, step = rng.uniform(0.3, 5.0), 10.0 ** rng.uniform(-2.5, -1)
        a = rng.uniform(0.01, 1.0) * step
        level = target * rng.uniform(0.5, 1.0)
        told = int(discrete_arrival_step(target, step, a, 0.0, level=level))
        track = _cycle(target, a, 0.0, step, int(3 / step) + 60)
        product = track.prod(axis=1)
        off += told != int((product >= level).argmax())
        shift = max(shift, abs(told - int(np.ceil(level**0.5 / step)) - 0.5) > 0.5)
        tail = slice(int(discrete_arrival_step(target, step, a, 0.0)), None)
        limit = step * track.sum(axis=1) + step * step
        wide = max(wide, float((np.abs(product - target) - limit)[tail].max()))
        period = max(period, float(np.abs(product[tail][2:] - product[tail][:-2]).max()))
    balanced = _cycle(2.0, 0.05, 0.05, 0.1, 40).prod(axis=1)
    inside = bool((np.abs(balanced[14:] - 2.0) <= discrete_floor(2.0, 0.1) + STEPS).all())
    return Evidence(
        worst <= STEPS and not off and not shift and wide <= STEPS and period <= STEPS and inside,
        worst,
        0.0,
        STEPS,
        ROUNDING,
        runs + cases,
        {
            "arrival steps that differ from a recursion": off,
            "largest excess over the floor (same tolerance)": wide,
            "largest change over two steps after arrival (same tolerance)": period,
        },
        quantity="largest distance of whole matrices from the closed form, before the first arrival",
    )


@claim(
    "SF-11b",
    kind="theorem",
    source=SOURCE,
    statement="With any odd map of gain in [l, u] in place of the polar factor, different from step to step "
    "and mode to mode, the arrival step of an aligned mode lies between those for u and for l, and modes "
    "come smaller first as soon as sigma_j / sigma_i < (l / u)^2, less what one or two steps are worth.",
    control="a ratio of the targets midway between (l / u)^2 and 1, with the worst gains",
)
def gain(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    cases, outside, disorder = 100 if scale == "smoke" else 2000, 0, 0
    for number in range(cases):
        low = rng.uniform(0.4, 0.95)
        high, step = low * rng.uniform(1.05, 2.0), 10.0 ** rng.uniform(-3, -2)
        bound = (low / high) ** 2
        large = rng.uniform(2.0, 5.0)
        # three steps of the smaller mode, at most u lr each, are granted
        small = large * bound * (1 - 6 * high * step / (bound * large) ** 0.5)
        small = large * (1 + bound) / 2 if broken else small * rng.uniform(0.8, 1.0)
        found = []
        for target, worst in ((large, high), (small, low)):
            a0 = rng.uniform(0.05, 1.0) * step
            told = discrete_arrival_step(target, step, a0, 0.0, gain=(low, high))
            steps = int(told[1]) + 2
            gains = np.full((steps, 2), worst) if number % 2 or broken else rng.uniform(low, high, (steps, 2))
            at = _first(target, a0, step * gains)
            outside += not told[0] <= at <= told[1]
            found.append(at)
        disorder += found[1] >= found[0]
    return Evidence(
        not outside and not disorder,
        disorder,
        0,
        0.0,
        "whole steps",
        cases,
        {"arrivals outside the bracket": outside},
        quantity="pairs that come larger first",
    )


def _cycle(sigma: float, a: float, b: float, lr: float, steps: int) -> Floats:
    """Factors of one mode at each step, by their signs: (steps + 1, 2)."""
    path = [(a, b)]
    for _ in range(steps):
        gap = np.sign(sigma - a * b)
        a, b = a + lr * gap * np.sign(b), b + lr * gap * np.sign(a)
        path.append((a, b))
    return np.array(path)


def _first(sigma: float, a: float, sizes: Floats) -> int:
    """First step at which a mode is at its target, with the step sizes given for A and B."""
    b = 0.0
    for k, (da, db) in enumerate(sizes):
        if a * b >= sigma:
            return k
        a, b = a + da * np.sign(b), b + db * np.sign(a)
    return len(sizes)
