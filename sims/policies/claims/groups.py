"""Claims on the advantages of one group: AG-1 to AG-4, AG-8 and AG-9."""

import math

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.policies._measures import ALONE, options_of
from porism.theory.policies import (
    SoftmaxPolicy,
    direction_scale,
    expected_mass,
    group_advantages,
    implied_utility,
    logit_gradient,
    unsampled_drift,
)

__all__ = [
    "balance",
    "common_factor",
    "difficulty",
    "logit_update",
    "mass",
    "no_exploration",
    "utility",
]

Floats = NDArray[np.float64]

SOURCE = "A-GRAE (abstract); our reconstruction"

TIGHT = 1e-14
"""A few dozen roundings of numbers up to one."""


def _group(rng: np.random.Generator) -> tuple[SoftmaxPolicy, NDArray[np.int64], Floats]:
    """A policy, a third of its actions right, and a group with both kinds and some actions unsampled."""
    while True:
        V, G = int(rng.integers(6, 16)), int(rng.choice([4, 8, 16]))
        policy = SoftmaxPolicy(1.5 * rng.normal(size=V))
        actions = rng.choice(V, G, p=policy.probabilities)
        right = np.arange(V) < max(1, V // 3)
        rewards = right[actions].astype(np.float64)
        if 0 < rewards.sum() < G and V - len(np.unique(actions)) >= 2:
            return policy, actions, rewards


def _unsampled(policy: SoftmaxPolicy, actions: NDArray[np.int64]) -> NDArray[np.bool_]:
    free = np.ones(len(policy.logits), dtype=bool)
    free[actions] = False
    return free


@claim(
    "AG-1",
    kind="theorem",
    source=SOURCE,
    statement="z-scored binary rewards sum to zero, and positive and negative mass are both G sqrt(p(1 - "
    "p)) at the share p of right samples; the unbiased std s1 and an eps only rescale, by sqrt((G"
    " - 1)/G) s1/(s1 + eps).",
    control="positives scaled by 1 - lambda",
)
def balance(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, total = (200 if scale == "smoke" else 2000), 0.0, 0.0
    for _ in range(trials):
        G = int(rng.integers(2, 65))
        k = int(rng.integers(1, G))
        rewards = rng.permutation(np.arange(G) < k).astype(np.float64)[None]
        lam, eps = float(rng.uniform(0.1, 0.9)), float(rng.choice([1e-6, 1e-2, 1.0]))
        rule, share = ("asymmetric", lam) if broken else ("zscore", 0.0)
        A = group_advantages(rewards, rule, suppress=share)[0]
        mass = math.sqrt(k * (G - k))
        total = max(total, abs(A.sum()) / G)
        parts = abs(A[A > 0].sum() - mass), abs(-A[A < 0].sum() - mass)
        s1 = math.sqrt(k * (G - k) / (G * (G - 1)))
        factor = math.sqrt((G - 1) / G) * s1 / (s1 + eps)
        scaled = group_advantages(rewards, ddof=1, eps=eps)[0]
        plain = group_advantages(rewards)[0]
        worst = max(worst, *(part / G for part in parts), float(np.abs(scaled - factor * plain).max()))
    return Evidence(
        max(worst, total) <= 1e-12,
        max(worst, total),
        0.0,
        1e-12,
        "rounding of sums of 64 numbers up to eight",
        trials,
        {"largest sum a sample": total},
        quantity="largest difference, a sample",
    )


@claim(
    "AG-2",
    kind="theorem",
    source=SOURCE,
    statement="On softmax logits g_j = (1/G) sum over samples of j of A_i, less pi_j sum(A)/G. So unsampled"
    " logits stay where they are under the z-score, and scaling positives by 1 - lambda moves "
    "them by +lambda pi_j sqrt(p(1 - p)).",
    control="unsampled logits under suppressed positives, said to stay",
)
def logit_update(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, rise = (150 if scale == "smoke" else 2000), 0.0, 0.0
    for _ in range(trials):
        policy, actions, rewards = _group(rng)
        pi, lam, share = policy.probabilities, float(rng.uniform(0.1, 0.9)), rewards.mean()
        free = _unsampled(policy, actions)
        plain = group_advantages(rewards[None])[0]
        less = group_advantages(rewards[None], "asymmetric", suppress=lam)[0]
        scores = np.eye(len(pi))[actions] - pi  # gradients of log pi, one by one
        for A in (plain, less):
            worst = max(worst, float(np.abs(logit_gradient(pi, actions, A) - A @ scores / len(A)).max()))
        stays = np.abs(logit_gradient(pi, actions, less if broken else plain)[free])
        up = lam * pi[free] * math.sqrt(share * (1 - share))
        rise = max(
            rise, float(np.abs(logit_gradient(pi, actions, less)[free] - up).max()), float(stays.max())
        )
    return Evidence(
        max(worst, rise) <= TIGHT,
        max(worst, rise),
        0.0,
        TIGHT,
        "a few dozen roundings",
        trials,
        {"on unsampled logits": rise},
        quantity="largest difference",
    )


@claim(
    "AG-3",
    kind="refuted",
    source="A-GRAE's motivation, as read from its abstract (inference)",
    statement="Unsampled logits do not change under the z-score, hence neither does what they stand for: no"
    " exploration. (False: the probability of every unsampled action changes, and rises in about "
    "half of the groups.)",
    control="no update at all",
)
def no_exploration(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, drifts, logits = (400 if scale == "smoke" else 4000), [], 0.0
    for _ in range(trials):
        policy, actions, rewards = _group(rng)
        A = group_advantages(rewards[None])[0] * (0.0 if broken else 1.0)
        g = logit_gradient(policy.probabilities, actions, A)
        logits = max(logits, float(np.abs(g[_unsampled(policy, actions)]).max()))
        drifts.append(unsampled_drift(policy.probabilities, actions, A))
    found = np.array(drifts)
    up, down = int((found > 1e-6).sum()), int((found < -1e-6).sum())
    return Evidence(
        min(up, down) > 0.2 * trials and logits <= TIGHT,
        up / trials,
        "0 if it were true",
        0.2,
        "a fifth of the groups either way, where one would do",
        trials,
        {
            "groups in which it rises": up,
            "groups in which it falls": down,
            "largest change of the log-probability, a unit step": float(np.abs(found).max()),
            "largest gradient on an unsampled logit": logits,
        },
        quantity="share of groups in which unsampled actions gain probability",
    )


@claim(
    "AG-3b",
    kind="theorem",
    source="our reconstruction",
    statement="With sum(A) = 0 one factor moves all unsampled probabilities: their logarithms change by "
    "-sum pi_m g_m = -(1/G) sum A_i pi(o_i) a unit step; under the z-score by sqrt(p(1 - p)) "
    "times the mean probability of the wrong samples less that of the right ones.",
    control="positives scaled by 1 - lambda, so that the sum is not zero",
)
def common_factor(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, apart, slope, exact = (150 if scale == "smoke" else 2000), 0.0, 0.0, 0.0
    step = 1e-4
    for _ in range(trials):
        policy, actions, rewards = _group(rng)
        pi, share, right = policy.probabilities, rewards.mean(), rewards > 0
        rule = ("asymmetric", 0.5) if broken else ("zscore", 0.0)
        A = group_advantages(rewards[None], rule[0], suppress=rule[1])[0]
        g = logit_gradient(pi, actions, A)
        drift = unsampled_drift(pi, actions, A)
        ends = [SoftmaxPolicy(policy.logits + t * g).log_prob for t in (step, -step)]
        free = _unsampled(policy, actions)
        moved = (ends[0] - ends[1])[free] / (2 * step)
        apart = max(apart, float(np.ptp(moved)))
        slope = max(slope, float(np.abs(moved - drift).max()))
        if not broken:
            sampled = pi[actions]
            law = math.sqrt(share * (1 - share)) * (sampled[~right].mean() - sampled[right].mean())
            exact = max(exact, abs(drift - law), abs(drift + float(A @ sampled) / len(A)))
    return Evidence(
        max(apart, slope) <= 1e-7 and exact <= TIGHT,
        max(apart, slope),
        0.0,
        1e-7,
        "central differences at 1e-4: the third derivative of a log-partition, below 6, times 1e-8/6",
        trials,
        {"between unsampled actions": apart, "from the z-score's law": exact},
        quantity="largest difference from the common factor",
    )


@claim(
    "AG-4",
    kind="theorem",
    source=SOURCE,
    statement="The expected mass of a prompt under the z-score, E 2 sqrt(p(1 - p)) over the group's share, "
    "is a Bernstein polynomial: concave, symmetric, largest at success rate 1/2 for every G. "
    "Without the std it is 2 p(1 - p)(G - 1)/G.",
    control="the hard focus A/(2 sqrt p), whose mass is largest at rare success",
)
def mass(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    sizes = (2, 3, 4, 8, 16) if scale == "smoke" else (2, 3, 4, 5, 8, 16, 32, 64)
    p = np.linspace(0, 1, 201)
    worst, bend, shift, tops = 0.0, -np.inf, 0.0, {}
    for G in sizes:
        found = expected_mass(p, G, "hard" if broken else "zscore")
        if not broken:
            direct = sum(
                math.comb(G, k) * p**k * (1 - p) ** (G - k) * 2 * math.sqrt(k * (G - k)) / G
                for k in range(G + 1)
            )
            plain = 2 * p * (1 - p) * (G - 1) / G
            worst = max(worst, float(np.abs(found - direct).max()))
            worst = max(worst, float(np.abs(expected_mass(p, G, "centred") - plain).max()))
        bend = max(bend, float(np.diff(found, 2).max()))
        shift = max(shift, float(np.abs(found - found[::-1]).max()))
        tops[f"mass at 1/2, G = {G}"] = float(expected_mass(0.5, G))
    return Evidence(
        worst <= 1e-10 and bend <= 1e-12 and shift <= 1e-10,
        max(worst, shift),
        0.0,
        1e-10,
        "rounding of binomial sums up to G = 64",
        len(sizes) * len(p),
        {"largest second difference": bend, "asymmetry": shift, **tops},
        quantity="largest difference from the sum over counts and between p and 1 - p",
    )


@claim(
    "AG-8",
    kind="theorem",
    source="A-GRAE's released advantage routine, in our words",
    statement="Difficulty weights at the share p of right samples: hard A/(2 sqrt p) has mass sqrt(1 - p); "
    "easy as released, A/(2(1 - sqrt p)), has sqrt(p(1 - p))/(1 - sqrt p), which grows like 2 "
    "sqrt G and is 5.12 at 7/8; with sqrt(1 - p) as divisor it would be sqrt p, never above one.",
    control="sqrt(1 - p) as divisor, said to be unbounded",
)
def difficulty(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    sizes = (2, 4, 8, 16, 256, 4096)
    worst, largest = 0.0, []
    easy = "easy_sqrt" if broken else "easy"
    for G in sizes:
        for k in {1, G // 2, G - 1}:
            rewards, p = (np.arange(G) < k).astype(np.float64)[None], k / G
            expected = {
                "hard": math.sqrt(1 - p),
                "easy": math.sqrt(p * (1 - p)) / (1 - math.sqrt(p)),
                "easy_sqrt": math.sqrt(p),
            }
            for rule, value in expected.items():
                found = float(np.abs(group_advantages(rewards, rule)).sum()) / G
                worst = max(worst, abs(found / value - 1))
        largest.append(float(np.abs(group_advantages(rewards, easy)).sum()) / G)
    ratio = largest[-1] / (2 * math.sqrt(sizes[-1]))
    return Evidence(
        worst <= 1e-10 and abs(ratio - 1) < 1e-2,
        largest[-1],
        2 * math.sqrt(sizes[-1]),
        1e-2 * 2 * math.sqrt(sizes[-1]),
        "2 sqrt G is the first term; the next is smaller by 1/(4 G) and rounding by far",
        3 * len(sizes),
        {
            "largest relative distance from the formulas": worst,
            **{f"at k = G - 1, G = {G}": value for G, value in zip(sizes, largest, strict=True)},
        },
        quantity="mass of the easy focus at k = G - 1, G = 4096",
    )


@claim(
    "AG-9",
    kind="theorem",
    source="our reconstruction",
    statement="In expectation a rule climbs E F(p) with F' = s, exact for every G. As G grows: z-score F = "
    "2 arcsin sqrt p; no std F = p; hard F = -artanh sqrt(1 - p); suppressed positives F' = (1 - "
    "lambda(1 - p))/sqrt(p(1 - p)).",
    control="the utility of one rule with the scale of another",
)
def utility(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    nodes, weights = np.polynomial.legendre.leggauss(60)
    worst, limit, far = 0.0, 0.0, {}
    for number, rule in enumerate(ALONE):
        other = ALONE[(number + 1) % len(ALONE)] if broken else rule
        for G in (4, 8, 16, math.inf):
            for top in (0.1, 0.35, 0.8, 0.95):
                p = 0.5 + (top - 0.5) * (nodes + 1) / 2
                s = direction_scale(p, G, other, **options_of(other))
                integral = float(weights @ s) * (top - 0.5) / 2
                worst = max(worst, abs(float(implied_utility(top, G, rule, **options_of(rule))) - integral))
        place = np.array([0.2, 0.5, 0.8])
        large = direction_scale(place, 4000, rule, **options_of(rule))
        ideal = direction_scale(place, math.inf, other, **options_of(other))
        far[rule] = float(np.abs(large / ideal - 1).max())
        limit = max(limit, far[rule])
    return Evidence(
        worst <= 1e-9 and limit <= 2e-3,
        worst,
        0.0,
        1e-9,
        "Gauss quadrature with 60 nodes on [.1, .95]",
        len(ALONE) * 16,
        {f"G = 4000 against the limit, {rule}": value for rule, value in far.items()},
        quantity="largest difference between F and the integral of s",
    )
