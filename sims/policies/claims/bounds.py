"""Claims on errors of tilted policies: PO-5 to PO-7."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.policies._measures import normalised
from porism.sims.policies.worlds import tilt_world
from porism.theory.policies import (
    SoftmaxPolicy,
    certificate,
    combine,
    expert_error,
    fit_coefficients,
    objective,
    tilt,
)

__all__ = ["certificates", "inexact_experts", "moments"]

Floats = NDArray[np.float64]

SOURCE = "our reconstruction"


def _errors(rng: np.random.Generator, count: int, V: int) -> tuple[Floats, Floats]:
    """Logits of policies and log-ratio errors, (count, V) each; with two outcomes close to the worst case."""
    shape, size = (count, V), rng.choice([0.05, 0.5, 2.0], (count, 1))
    e = size * np.where(rng.random((count, 1)) < 0.5, rng.uniform(-1, 1, shape), rng.normal(size=shape))
    logits = 2 * rng.normal(size=shape)
    if V == 2:
        width = np.ptp(e, axis=1)
        logits = np.stack([np.zeros(count), width / 2 + 0.05 * rng.normal(size=count)], axis=1)
        e = np.stack([-width, np.zeros(count)], axis=1)
    return logits, e


def _kl(log_p: Floats, log_q: Floats) -> Floats:
    d = log_q - log_p
    return np.asarray((np.exp(log_p) * (np.expm1(d) - d)).sum(axis=1))


@claim(
    "PO-5",
    kind="theorem",
    source="Hoeffding (1963), lemma 1; TV: " + SOURCE,
    statement="If pi' ~ pi e^(-e) and D = max e - min e, then |log pi - log pi'| <= D, KL <= D^2/8 in "
    "either order, TV <= tanh(D/4), and the loss in J is beta KL(pi' || pi) <= beta D^2/8.",
    control="the standard deviation of e in place of its range",
)
def certificates(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    count, rows, identity = (500 if scale == "smoke" else 5000), [], 0.0
    halved: list[bool] = []
    for V in (2, 3, 8, 30):
        logits, errors = _errors(rng, count, V)
        log_pi, log_other = normalised(logits), normalised(logits - errors)
        pi, other = np.exp(log_pi), np.exp(log_other)
        ratio, tv = np.abs(log_pi - log_other).max(axis=1), np.abs(pi - other).sum(axis=1) / 2
        one, two = _kl(log_pi, log_other), _kl(log_other, log_pi)
        centred = errors - (pi * errors).sum(axis=1, keepdims=True)
        width = np.sqrt((pi * centred**2).sum(axis=1))
        for row in range(count):
            beta = 0.3 + 2.7 * row / count
            bound = certificate([0.0, beta * width[row]] if broken else beta * errors[row], beta)
            kl, lost = max(one[row], two[row]), beta * two[row]
            halved.append(bool(tv[row] > certificate(beta * errors[row] / 2, beta).tv))
            rows.append(
                (ratio[row] / bound.log_ratio, kl / bound.kl, tv[row] / bound.tv, lost / bound.regret)
            )
            if row < 40:  # pi is the optimum of r from the reference that r undoes
                r = rng.normal(size=V)
                ref = SoftmaxPolicy(log_pi[row]).tilt(-r, beta).log_prob
                gap = objective(log_pi[row], ref, r, beta) - objective(log_other[row], ref, r, beta)
                identity = max(identity, abs(gap - lost))
    used, trials = np.array(rows), len(rows)
    # at the worst p the bound on TV is attained
    D = 2.0
    p = 1 / (1 + np.exp(D / 2))
    pair = SoftmaxPolicy(np.log([p, 1 - p]))
    tight = np.abs(pair.probabilities - pair.tilt([1.0, -1.0], 1.0).probabilities).sum() / 2
    attained = abs(float(tight) - certificate([-1.0, 1.0], 1.0).tv)
    top = used.max(axis=0)
    return Evidence(
        bool(top.max() <= 1 + 1e-9 and identity <= 1e-12 and attained <= 1e-12),
        float(top.max()),
        "<= 1",
        1e-9,
        "rounding, relative to bounds that may be 1e-6",
        trials,
        {
            "of the log-ratio bound": float(top[0]),
            "of the KL bound": float(top[1]),
            "of the TV bound": float(top[2]),
            "of the regret bound": float(top[3]),
            "share of draws above the KL bound": float((used[:, 1] > 1).mean()),
            "share of draws above the TV bound at half the range": float(np.mean(halved)),
            "regret less beta KL": identity,
            "distance from attainment, two outcomes": attained,
        },
        quantity="largest share of a bound that was used",
    )


@claim(
    "PO-6",
    kind="theorem",
    source="information projection on an exponential family; " + SOURCE,
    statement="Of all log-linear combinations the one closest to pi in KL(pi || .) matches the moments E "
    "log(pi_k / pi0) under pi, and KL(pi || pi_b) = KL(pi || pi_a) + KL(pi_a || pi_b) for every "
    "b.",
    control="the least-squares fit in place of the moment match",
)
def moments(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, match, better = (12 if scale == "smoke" else 100), 0.0, 0.0, np.inf
    for _ in range(trials):
        V = 60
        world = tilt_world(V, 3, rng)
        reward = world.target + rng.normal(size=V)  # outside the span
        pi = SoftmaxPolicy(world.log_ref).tilt(reward, world.beta)
        fits = [
            fit_coefficients(world.log_ref, world.log_experts, reward, np.arange(V), world.beta, method)
            for method in ("moment", "least_squares")
        ]
        centre, squares = (SoftmaxPolicy(fit.predict()) for fit in fits)
        better = min(better, pi.kl(squares) - pi.kl(centre))
        L = world.log_experts - world.log_ref
        chosen = squares if broken else centre
        match = max(match, float(np.abs(L @ (chosen.probabilities - pi.probabilities)).max()))
        for _ in range(8):
            b = SoftmaxPolicy(combine(world.log_ref, world.log_experts, rng.normal(size=3)))
            total = pi.kl(b)
            worst = max(worst, abs(total - pi.kl(chosen) - chosen.kl(b)) / (1 + total))
    return Evidence(
        max(worst, match) <= 1e-10 and better > 0,
        max(worst, match),
        0.0,
        1e-10,
        "Newton's stop at 1e-12, times the range of log-ratios",
        8 * trials,
        {"largest gap of the three divergences": worst, "what least squares loses, at least": better},
        quantity="largest gap, relative, or difference of moments",
    )


@claim(
    "PO-7",
    kind="theorem",
    source=SOURCE,
    statement="If expert k's log-policy is off by e_k, the log-policy of the combination is off by an error"
    " of oscillation at most sum |a_k| osc(e_k).",
    control="the signed sum of a_k osc(e_k)",
)
def inexact_experts(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, used = (400 if scale == "smoke" else 2000), []
    for number in range(trials):
        K, V = int(rng.integers(1, 5)), 30
        world = tilt_world(V, K, rng)
        a = rng.normal(size=K)
        error = 0.3 * rng.normal(size=(K, V))
        if number % 4 == 0:  # errors that add up
            error = np.sign(a)[:, None] * np.abs(error) * np.sign(rng.normal(size=V))
        exact = combine(world.log_ref, world.log_experts, a)
        off = combine(world.log_ref, tilt(world.log_ref, error + world.log_experts - world.log_ref, 1.0), a)
        osc = np.ptp(error, axis=1)
        bound = float(a @ osc) if broken else expert_error(a, osc)
        used.append((float(np.ptp(off - exact)), bound))
    found, bounds = np.array(used).T
    over = found - bounds
    return Evidence(
        bool(over.max() <= 1e-12),
        float(over.max()),
        "<= 0",
        1e-12,
        "rounding of logarithms of order ten",
        trials,
        {
            "share of draws above the bound": float((over > 1e-12).mean()),
            "largest share of a bound that was used": float((found / np.abs(bounds)).max()),
        },
        quantity="largest oscillation beyond its bound, nats",
    )
