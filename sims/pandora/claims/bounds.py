"""Claims on one refinement where parameters or laws are not known: PB-13, PB-14, PB-16."""

import math

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.pandora.claims._oracles import QUADRATURE, ROUNDING, density, voi_direct
from porism.theory.pandora import best_draws, certify_decision, pooled_sd, voi, voi_binary, voi_bounds

__all__ = ["any_law", "certificates", "several_draws"]

Floats = NDArray[np.float64]


@claim(
    "PB-13",
    kind="theorem",
    source="our reconstruction",
    statement="For gap, nu and cost known to lie in intervals, refining is certified iff it pays in the "
    "worst corner and stopping iff it does not pay in the best one; where neither holds, both kinds of "
    "parameters lie in the box.",
    control="ends of the gap made positive without noting that the interval holds 0",
)
def certificates(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.special import ndtr

    boxes, points = (3000, 60) if scale == "smoke" else (20_000, 200)

    def interval(low: float, high: float, width: float) -> Floats:
        start = rng.uniform(low, high, boxes)
        return np.stack([start, start + rng.uniform(0, width, boxes)])

    gap, nu, c = interval(-1.2, 1.0, 0.6), interval(0.1, 0.8, 0.3), interval(0.0, 0.25, 0.05)
    given = np.sort(np.abs(gap), axis=0) if broken else gap
    words = certify_decision((given[0], given[1]), (nu[0], nu[1]), (c[0], c[1]))
    t = rng.uniform(size=(3, points, boxes))
    t[:, :8] = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, 8, 1)  # the corners
    t[0, 8:12] = np.clip(-gap[0] / (gap[1] - gap[0]), 0, 1)  # the gap of least size, at the other corners
    t[1:, 8:12] = np.array(np.meshgrid([0, 1], [0, 1])).reshape(2, 4, 1)
    d, v, cost = (low + u * (high - low) for u, (low, high) in zip(t, (gap, nu, c), strict=True))
    z = np.abs(d) / v
    net = v * (density(z) - z * ndtr(-z)) - cost
    near = np.abs(net) <= QUADRATURE
    pays, fails = ((net > 0) & ~near).any(axis=0), ((net <= 0) & ~near).any(axis=0)
    wrong = (words == "refine") & fails | (words == "stop") & pays
    idle = (words == "undecided") & ~(pays & fails)
    counts = {word: int((words == word).sum()) for word in ("refine", "stop", "undecided")}
    return Evidence(
        not (wrong.any() or idle.any()),
        float((wrong | idle).sum()),
        0.0,
        0.0,
        "exact count; net gains within 1e-12 of 0 count for either side",
        boxes,
        {**counts, "parameters tried in each": points, "certified wrongly": int(wrong.sum())},
        quantity="boxes decided wrongly or left open without need",
    )


@claim(
    "PB-14",
    kind="theorem",
    source="Scarf (1958); Beta formula: our reconstruction",
    statement="For every law of the refined mean with mean m and sd nu the gain is at most "
    "(sqrt(nu^2+d^2)-d)/2, attained on two points; for a value in {0, 1} of mean p it is at most p(1-b) or "
    "b(1-p); the Beta formula equals its integral and obeys the cap.",
    control="the Gaussian gain for a value in {0, 1}",
)
def any_law(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, above, off, tight = (150 if scale == "smoke" else 5000), -math.inf, 0.0, 0.0
    for _ in range(trials):
        atoms, chance = rng.normal(size=5) * rng.choice([0.1, 1.0, 5.0], 5), rng.dirichlet(np.full(5, 0.4))
        m, b = float(atoms @ chance), float(rng.normal())
        nu = math.sqrt(float((atoms - m) ** 2 @ chance))
        gain = float(np.maximum(atoms, b) @ chance) - max(m, b)
        above = max(above, gain - float(voi_bounds(m - b, nu).scarf))
        r = math.hypot(nu, m - b)
        reached = (r + m - b) / 2 - max(m - b, 0.0)  # atoms b - r and b + r, mean m, sd nu
        tight = max(tight, abs(reached - float(voi_bounds(m - b, nu).scarf)))
    cases = [(0.97, 3.0, 0.99), (0.2, 8.0, 0.5)]
    cases += [
        (rng.uniform(0.05, 0.95), math.exp(rng.uniform(0.7, 4)), rng.uniform(0.05, 0.95))
        for _ in range(trials)
    ]
    gaussian_over = 0
    for p, k, b in cases:
        nu = math.sqrt(p * (1 - p) / (k + 1))
        cap = min(p * (1 - b), b * (1 - p))
        gain = float(voi(p - b, nu) if broken else voi_binary(p, nu, b))
        gaussian_over += bool(voi(p - b, nu) > cap)
        off = max(off, abs(gain - _beta(p, k, b)))
        above = max(above, gain - cap)
    return Evidence(
        above <= QUADRATURE and off <= 1e-11 and tight <= QUADRATURE,
        above,
        "<= 0",
        QUADRATURE,
        ROUNDING,
        trials + len(cases),
        {
            "error of the Beta formula": off,
            "distance of the two-point law": tight,
            "Gaussian gain at p=.97, k=3, b=.99 (cap .0097)": float(voi(0.02, math.sqrt(0.97 * 0.03 / 4))),
            "share of cases where the Gaussian gain exceeds the cap": gaussian_over / len(cases),
        },
        quantity="largest excess over a bound",
    )


def _beta(p: float, k: float, b: float) -> float:
    """E max(b, q) - max(b, p) for q ~ Beta(pk, (1-p)k), by Gauss-Jacobi on the nearer side of b."""
    from scipy.special import betaln, roots_jacobi

    a, c, end = (p * k, (1 - p) * k, b) if b <= 0.5 else ((1 - p) * k, p * k, 1 - b)
    x, weight = roots_jacobi(80, 1.0, a - 1)
    # int_0^end (end - q) q^(a-1) (1-q)^(c-1) dq, the first two factors in the weight
    rest = (1 - end * (x + 1) / 2) ** (c - 1)
    beyond = float(weight @ rest) * math.exp((a + 1) * math.log(end / 2) - betaln(a, c))
    return beyond + (p if b <= 0.5 else b) - max(b, p)


@claim(
    "PB-16",
    kind="theorem",
    source="nonconcavity of information: Radner and Stiglitz (1984); our reconstruction",
    statement="With n pooled draws of sd tau the gain is nu(n) psi(|d|/nu(n)), nu(n) = s/sqrt(1+tau^2/(n "
    "s^2)): for d > 0 convex first, then concave, so that buying draws while the next one pays can stop at "
    "none where many together pay.",
    control="no gap to the best alternative",
)
def several_draws(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, shaped, off, greedy = (30 if scale == "smoke" else 600), 0, 0.0, 0
    for _ in range(trials):
        s, tau = rng.uniform(0.5, 1.5), rng.uniform(1.0, 4.0)
        d = 0.0 if broken else s * rng.uniform(0.8, 2.5)
        n = np.geomspace(0.02, 400, 300) * (tau / s) ** 2
        gain = np.asarray(voi(d, pooled_sd(s, tau, n)))
        live = gain > 1e-8 * gain[-1]
        slope = np.diff(gain[live]) / np.diff(n[live])
        turns = np.sign(np.diff(slope))
        top = int(slope.argmax())
        shaped += bool(0 < top < len(slope) - 1 and (turns[:top] > 0).all() and (turns[top:] < 0).all())
        count = int(rng.integers(1, 12))
        C = np.full((count + 1, count + 1), s**2) + np.diag([0.0, *[tau**2] * count])  # V and its draws
        moved = math.sqrt(C[0, 1:] @ np.linalg.solve(C[1:, 1:], C[1:, 0]))
        off = max(off, abs(float(pooled_sd(s, tau, count)) - moved))
        off = max(off, abs(float(voi(d, pooled_sd(s, tau, count))) - voi_direct([d], 0, moved, 0.0)))
        limit = 60
        at = np.asarray(voi(d, pooled_sd(s, tau, np.arange(limit + 1))))
        cost = 0.9 * float((at[1:] / np.arange(1, limit + 1)).max())  # the best number together pays
        best = best_draws(d, s, tau, cost, max_draws=limit)
        off = max(off, abs(float((at - cost * np.arange(limit + 1)).max()) - float(best.net)))
        greedy += bool(at[1] <= cost and best.n > 0)
    return Evidence(
        shaped == trials and off <= QUADRATURE,
        shaped / trials,
        1.0,
        0.0,
        "all curves; differences far above rounding, as gains below 1e-8 of the last are left out",
        trials,
        {"largest error of gains": off, "share where one draw does not pay but more do": greedy / trials},
        quantity="share of curves that are convex, then concave",
    )
