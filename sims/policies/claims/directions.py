"""Claims on expected directions: AG-5 and AG-6."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.policies._measures import ALONE, cosine, expected_update, options_of
from porism.sims.policies.bandit import mean_field, run_bandit
from porism.sims.policies.worlds import PrefixTree
from porism.theory.policies import SoftmaxPolicy, direction_scale, group_advantages

__all__ = ["collapse", "direction_law", "every_aggregation", "suppression"]

Floats = NDArray[np.float64]

SOURCE = "our reconstruction"

LEVELS = (0.5, 0.7, 0.9)
"""Probabilities of a right arm at which diversity is compared."""

MOST = 6000
"""Steps after which a run that has not come to the last level counts as a failure of the claim."""


def _coupled(pis: list[Floats], right: list[NDArray[np.bool_]], G: int) -> tuple[Floats, float, float]:
    """A-GRAE on two prompts, enumerated: expected update of the first one's logits, s by theory, and p."""
    groups = [np.array(list(itertools.product(range(len(pi)), repeat=G))) for pi in pis]
    chances = [pi[group].prod(axis=1) for pi, group in zip(pis, groups, strict=True)]
    mean = np.zeros(len(pis[0]))
    for other, chance in zip(groups[1], chances[1], strict=True):
        # all groups of the first prompt at once, one by one against this group of the second
        A = np.array(
            [
                group_advantages([right[0][mine], right[1][other]], "a_grae", ddof=1, eps=1e-6)[0]
                for mine in groups[0]
            ]
        )
        weight = chance * chances[0][:, None] * A / G
        hits = np.bincount(groups[0].ravel(), weight.ravel(), len(pis[0]))
        mean += hits - pis[0] * weight.sum()
    p, q = (float(pi[ok].sum()) for pi, ok in zip(pis, right, strict=True))
    return mean, float(direction_scale(p, G, "a_grae", ddof=1, eps=1e-6, others=[q])), p


@claim(
    "AG-5",
    kind="theorem",
    source=SOURCE,
    statement="Direction law: for binary rewards and any group weighting E g = s(p) grad p with s(p) = E[c+"
    " - c-], in any parametrisation; suppressing positives multiplies s by 1 - lambda(1 - p). It "
    "holds for the released A-GRAE rule with its batch mean too, prompt by prompt.",
    control="graded rewards 0, .1, .3, .7, 1: directions differ between rules",
)
def direction_law(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, law, coupled, least = (4 if scale == "smoke" else 30), 0.0, 0.0, 0.0, 1.0
    G, V = 4, 5
    for _ in range(trials):
        pi = SoftmaxPolicy(rng.normal(size=V)).probabilities
        rewards = np.array([0.0, 0.1, 0.3, 0.7, 1.0]) if broken else (np.arange(V) < 2).astype(np.float64)
        p = float(pi @ rewards)
        gradient = pi * (rewards - p)
        scale_of = {}
        for rule in ALONE:
            options = options_of(rule)
            found = expected_update(pi, rewards, G, lambda r, n=rule, o=options: group_advantages(r, n, **o))
            s = float(found @ gradient / (gradient @ gradient))
            least = min(least, cosine(found, gradient))
            worst = max(worst, float(np.abs(found - s * gradient).max()))
            scale_of[rule] = s
            if not broken:
                worst = max(worst, abs(s - float(direction_scale(p, G, rule, **options))))
        law = max(law, abs(scale_of["asymmetric"] - scale_of["zscore"] * (1 - 0.6 * (1 - p))))
        if broken:
            continue
        tables = rng.normal(size=(2, G + 1))  # any weights whatever

        def weigh(r: Floats, tables: Floats = tables) -> Floats:
            k = r.sum(axis=1).astype(int)[:, None]
            return np.where(r > 0, tables[0][k], tables[1][k])

        found = expected_update(pi, rewards, G, weigh)
        worst = max(worst, float(np.abs(found - direction_scale(p, G, tuple(tables)) * gradient).max()))
    if not broken:
        pis = [SoftmaxPolicy(rng.normal(size=3)).probabilities for _ in range(2)]
        right = [np.array([True, False, False]), np.array([True, True, False])]
        mean, s, p = _coupled(pis, right, 3)
        coupled = float(np.abs(mean - s * pis[0] * (right[0] - p)).max())
    total = max(worst, law, coupled)
    return Evidence(
        total <= 1e-12,
        total,
        0.0,
        1e-12,
        "rounding of sums over 625 groups",
        trials,
        {
            "from s grad p": worst,
            "from s (1 - lambda (1 - p))": law,
            "two coupled prompts": coupled,
            "smallest cosine with the gradient": least,
        },
        quantity="largest difference",
    )


@claim(
    "AG-5b",
    kind="refuted",
    source="reading the direction law beyond its scope",
    statement="The direction law holds however a sample's tokens are averaged. (False: a mean over tokens "
    "makes the weight depend on the length as well as on correctness.)",
    control="the plain sum over tokens",
)
def every_aggregation(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials = 3 if scale == "smoke" else 20
    found: dict[str, list[float]] = {"sum": [], "seq_mean": [], "token_mean": []}
    tree, G = PrefixTree(3, 2), 3
    N = len(tree.sequences)
    groups = np.array(list(itertools.product(range(N), repeat=G)))
    for _ in range(trials):
        logits = rng.normal(size=(len(tree.prefixes), 3))
        pi, scores = tree.probabilities(logits), tree.scores(logits)
        right = rng.random(N) < 0.4
        right[:2] = True, False
        gradient = np.tensordot(pi * right, scores, 1)
        chance = pi[groups].prod(axis=1)[:, None]
        A, L = group_advantages(right[groups].astype(np.float64)), tree.lengths[groups]
        for how, divisor in (("sum", 1), ("seq_mean", L), ("token_mean", L.mean(axis=1, keepdims=True))):
            weights = np.bincount(groups.ravel(), (chance * A / G / divisor).ravel(), N)
            found[how].append(cosine(np.tensordot(weights, scores, 1), gradient))
    lost = {how: 1 - min(values) for how, values in found.items()}
    shown = ("sum",) if broken else ("seq_mean", "token_mean")
    return Evidence(
        min(lost[how] for how in shown) > 1e-9,
        1 - max(lost[how] for how in shown),
        "1 if it were true",
        1e-9,
        "rounding of cosines over 3375 groups, with much room",
        trials,
        {f"smallest cosine, {how}": min(values) for how, values in found.items()},
        quantity="smallest cosine between expected update and gradient of p",
    )


def _diversity(
    scale: str,
    rng: np.random.Generator,
    runs: dict[str, tuple[float, float, int]],
    until: float | None = None,
) -> dict[str, Any]:
    """Bandits from one start, by name: share taken from positives, step, steps; and the flow."""
    arms, right = (20, 4) if scale == "smoke" else (40, 6)
    theta = rng.normal(size=arms)
    theta[:right] = np.linspace(-1, 1, right)
    odds = np.exp(theta[:right]).sum() / np.exp(theta[right:]).sum()
    theta[:right] += math.log(1 / 3 / odds)  # a quarter of the samples are right at the start
    found: dict[str, Any] = {"flow": mean_field(theta, np.arange(right), lr=0.1, steps=600)}
    for name, (lam, lr, steps) in runs.items():
        options: dict[str, Any] = {"lr": lr, "steps": steps, "rng": rng, "theta0": theta, "until": until}
        found[name] = run_bandit(arms, np.arange(right), "asymmetric", suppress=lam, **options)
    return found


def _apart(one: Floats, other: Floats) -> tuple[float, float]:
    """Largest relative difference of means over runs, less three of its standard errors, and as it is."""
    means = one.mean(axis=1), other.mean(axis=1)
    error = np.sqrt(one.var(axis=1) / one.shape[1] + other.var(axis=1) / other.shape[1])
    raw = np.abs(means[0] - means[1]) / means[1]
    if np.isnan(raw).any():
        return math.inf, math.inf
    return float(np.max(raw - 3 * error / means[1])), float(raw.max())


@claim(
    "AG-6",
    kind="refuted",
    source="A-GRAE's motivation, as read from its abstract (inference)",
    statement="Suppressing positives keeps more right arms alive than smaller steps do. (False to first "
    "order: at equal probability of a right arm, lambda = .9 and lambda = 0 with a fifth of the "
    "step have the same effective number of right arms.)",
    control="lambda = 0 and .9 at one step size, compared when the former has come to P = .9",
)
def suppression(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    lr = 0.05
    if broken:
        found = _diversity(scale, rng, {"suppressed": (0.9, lr, 400), "plain": (0.0, lr, 400)})
        step = min(400, int(np.searchsorted(found["plain"].p_correct.mean(axis=1), LEVELS[-1])))
        pair = [found[name].effective_arms[[step]] for name in ("suppressed", "plain")]
        numbers = {
            f"P(right) after {step} steps, {name}": float(found[name].p_correct[step].mean())
            for name in ("suppressed", "plain")
        }
    else:
        runs = {"suppressed": (0.9, lr, MOST), "small steps": (0.0, lr / 5, MOST)}
        found = _diversity(scale, rng, runs, LEVELS[-1])
        pair = [found[name].at_level(LEVELS) for name in runs]
        numbers = {
            f"{name} at P = {level}": float(value)
            for name, table in zip(("lambda .9", "a fifth of the step"), pair, strict=True)
            for level, value in zip(LEVELS, table.mean(axis=1), strict=True)
        }
    left, raw = _apart(*pair)
    return Evidence(
        left <= 0.03,
        raw,
        0.0,
        0.03,
        "3 percent, and three standard errors of 64 runs",
        64,
        numbers,
        quantity="largest relative difference of the effective number of right arms",
    )


@claim(
    "AG-6b",
    kind="empirical",
    source=SOURCE,
    statement="With small steps the effective number of right arms is one function of P(right), that of the"
    " expected flow, for every lambda.",
    control="as a function of the step number",
)
def collapse(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs = {"lambda 0": (0.0, 0.01, MOST), "lambda .6": (0.6, 0.02, MOST), "lambda .9": (0.9, 0.05, MOST)}
    if broken:
        runs = {name: (lam, lr, 400) for name, (lam, lr, _) in runs.items()}
    found = _diversity(scale, rng, runs, None if broken else LEVELS[-1])
    flow, numbers, left, raw = found.pop("flow"), {}, -math.inf, 0.0
    for name, run in found.items():
        pair = (
            (run.effective_arms[[100, 400]], flow.effective_arms[[100, 400]])
            if broken
            else (run.at_level(LEVELS), flow.at_level(LEVELS))
        )
        off, plain = _apart(*pair)
        left, raw, numbers[name] = max(left, off), max(raw, plain), plain
    return Evidence(
        left <= 0.03,
        raw,
        0.0,
        0.03,
        "3 percent, and three standard errors of 64 runs",
        3 * 64,
        {f"largest relative difference, {name}": value for name, value in numbers.items()},
        quantity="largest relative difference from the flow",
    )
