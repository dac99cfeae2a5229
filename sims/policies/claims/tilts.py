"""Claims on tilted policies: PO-1 to PO-4, what is exact."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.policies._measures import normalised, quiet_fit, variation
from porism.sims.policies.worlds import TiltWorld, tilt_world
from porism.theory.policies import (
    SoftmaxPolicy,
    coefficients_for,
    combine,
    log_ratio_rank,
    objective,
    tilt,
)

__all__ = ["common_reference", "few_values", "gap_is_divergence", "mixtures"]

Floats = NDArray[np.float64]

SOURCE = "PoEM (abstract); our reconstruction"

TOLERANCE = 1e-12
"""Thousands of roundings of numbers of order ten."""

CONDITION = 1e3
"""Largest condition number of a sample, so that 1e-10 leaves a factor of 100 above rounding."""


@claim(
    "PO-1",
    kind="theorem",
    source=SOURCE,
    statement="The tilt pi_r ~ pi0 e^(r/beta) is the only maximiser of J(pi) = E r - beta KL(pi || pi0), "
    "and J(pi) = beta log Z - beta KL(pi || pi_r) for every pi: what is missing in J is the "
    "divergence, times beta.",
    control="the two policies of the divergence swapped",
)
def gap_is_divergence(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, errors, short = (200 if scale == "smoke" else 2000), [], np.inf
    for _ in range(trials):
        V, beta = int(rng.integers(2, 60)), float(rng.uniform(0.2, 3))
        ref, r = SoftmaxPolicy(rng.normal(size=V)), 2 * rng.normal(size=V)
        best, pi = ref.tilt(r, beta), SoftmaxPolicy(rng.normal(size=V))
        top = beta * float(np.log(np.exp(ref.log_prob + r / beta).sum()))
        gap = top - objective(pi.log_prob, ref.log_prob, r, beta)
        errors.append(abs(gap - beta * (best.kl(pi) if broken else pi.kl(best))) / (1 + abs(top)))
        short = min(short, gap)
    return Evidence(
        max(errors) <= TOLERANCE and short > 0,
        max(errors),
        0.0,
        TOLERANCE,
        "rounding of sums of 60 numbers",
        trials,
        {"median difference": float(np.median(errors)), "smallest gap of another policy": short},
        quantity="largest relative difference between gap and divergence",
    )


@claim(
    "PO-2",
    kind="theorem",
    source=SOURCE,
    statement="If r = sum w_k r_k + c and pi_k is the tilt by r_k at beta_k, then log pi_r = log pi0 + sum "
    "a_k (log pi_k - log pi0) - log Z with a_k = w_k beta_k / beta, of any signs and any sum.",
    control="the term of the reference left out",
)
def mixtures(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, forced = (100 if scale == "smoke" else 1000), 0.0, []
    for _ in range(trials):
        world = tilt_world(400, int(rng.integers(1, 6)), rng)
        a = coefficients_for(world.weights, world.betas, world.beta)
        optimum = tilt(world.log_ref, world.target, world.beta)
        found = combine(world.log_ref, world.log_experts, a, base=not broken)
        worst = max(worst, variation(found, optimum))
        forced.append(variation(combine(world.log_ref, world.log_experts, a / a.sum()), optimum))
    return Evidence(
        worst <= TOLERANCE,
        worst,
        0.0,
        TOLERANCE,
        "rounding of logarithms of order ten",
        trials,
        {"median with coefficients divided by their sum": float(np.median(forced))},
        quantity="largest total variation",
    )


@claim(
    "PO-3",
    kind="theorem",
    source=SOURCE,
    statement="From values of a reward in the span at n outcomes: the coefficients are unique iff [L_S, 1] "
    "has rank K + 1; with redundant experts they are not, yet the prediction is exact iff [L_S, "
    "1] has the rank of [L, 1]. So K + 1 values do, or fewer where experts are redundant.",
    control="one sample fewer",
)
def few_values(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, other, flags = (40 if scale == "smoke" else 400), 0.0, [], True
    for number in range(trials):
        K = int(rng.integers(2, 6))
        redundant = number % 2
        world = tilt_world(400, K, rng, redundant)
        needed = K + 1 - redundant
        samples = _drawn(world, needed, rng)[: needed - 1 if broken else needed]
        fit = quiet_fit(world, samples)
        optimum = tilt(world.log_ref, world.target, world.beta)
        found = combine(world.log_ref, world.log_experts, fit.coefficients)
        worst = max(worst, variation(found, optimum))
        off = float(np.abs(fit.coefficients - world.weights * world.betas / world.beta).max())
        if redundant:
            other.append(off)
        else:
            worst = max(worst, off)
        flags &= fit.prediction_identifiable != broken and fit.identifiable == (not broken and not redundant)
    return Evidence(
        worst <= 1e-10 and min(other) > 1e-6 and flags,
        worst,
        0.0,
        1e-10,
        "rounding times the condition number of the sample, at most 1e3",
        trials,
        {
            "flags as they should be": str(flags),
            "smallest difference of redundant coefficients": min(other),
        },
        quantity="largest error of unique coefficients and of predictions",
    )


def _drawn(world: TiltWorld, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Samples whose log-ratios are not close to dependent."""
    ratios = (world.log_experts - world.log_ref).T
    while True:
        samples = rng.choice(len(world.log_ref), n, replace=False)
        s = np.linalg.svd(np.column_stack([ratios[samples], np.ones(n)]), compute_uv=False)
        if s[0] <= CONDITION * s[n - 1]:
            return np.asarray(samples)


@claim(
    "PO-4",
    kind="theorem",
    source=SOURCE,
    statement="Policies tilted from one reference by rewards of a q-dimensional family have log-ratios to "
    "it, centred by rows, of rank at most q.",
    control="each trained from a reference of its own, off by 0.3",
)
def common_reference(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, least = (20 if scale == "smoke" else 200), 0.0, np.inf
    for number in range(trials):
        q = 2 + number % 3
        world = tilt_world(300, q, rng)
        rewards = rng.normal(size=(20, q)) @ world.rewards
        refs = normalised(world.log_ref + (0.3 if broken else 0.0) * rng.normal(size=(20, 300)))
        betas = rng.uniform(0.5, 2, 20)
        policies = np.array([tilt(a, r, b) for a, r, b in zip(refs, rewards, betas, strict=True)])
        s = log_ratio_rank(world.log_ref, policies).singular_values
        worst, least = max(worst, float(s[q] / s[0])), min(least, float(s[q - 1] / s[0]))
    return Evidence(
        worst <= 1e-9 < least,
        worst,
        0.0,
        1e-9,
        "rounding of logarithms, with room for rewards of unequal size",
        trials,
        {"smallest singular value within q, relative": least},
        quantity="largest singular value beyond q, relative to the first",
    )
