"""Numbers behind the figures of the policies module."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.policies._measures import normalised, quiet_fit, unsampled_gradients, variation
from porism.sims.policies.bandit import BanditRun, mean_field, run_bandit
from porism.sims.policies.training import mirror_descent, policy_gradient
from porism.sims.policies.worlds import PrefixTree, tilt_world, token_world
from porism.theory.policies import (
    AGGREGATIONS,
    SoftmaxPolicy,
    combine,
    fit_coefficients,
    group_advantages,
    log_ratio_rank,
    tilt,
    token_mix_gap,
    unsampled_drift,
)

__all__: list[str] = []

Floats = NDArray[np.float64]


def span_sweep(
    rng: np.random.Generator, n_outcomes: int, count: int, steps: int, trained: int
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Rewards at growing distance from the span: what the prediction and trainers miss.

    Two tables: "oscillation" of the residual with "kl" of prediction and "moment" match; and, for `trained`
    of them, "oscillation", "policy gradient" and "mirror descent".
    """
    world = tilt_world(n_outcomes, 3, rng)
    noise = rng.normal(size=n_outcomes)
    everything = np.arange(n_outcomes)
    predicted: dict[str, list[float]] = {"oscillation": [], "kl": [], "moment": []}
    runs: dict[str, list[float]] = {"oscillation": [], "policy gradient": [], "mirror descent": []}
    sizes = np.geomspace(1e-6, 1.5, count)
    chosen = {round(float(place)) for place in np.linspace(0, count - 1, trained)}
    for place, size in enumerate(sizes):
        target = world.target + world.beta * size * noise
        optimum = SoftmaxPolicy(tilt(world.log_ref, target, world.beta))
        fits = [
            fit_coefficients(world.log_ref, world.log_experts, target, everything, world.beta, method)
            for method in ("least_squares", "moment")
        ]
        width = fits[0].residual_oscillation
        predicted["oscillation"].append(width)
        predicted["kl"].append(optimum.kl(SoftmaxPolicy(fits[0].predict())))
        predicted["moment"].append(optimum.kl(SoftmaxPolicy(fits[1].predict())))
        if place in chosen:
            runs["oscillation"].append(width)
            gradient = policy_gradient(world.log_ref, target, world.beta, steps)
            runs["policy gradient"].append(float(gradient.kl[-1]))
            mirror = mirror_descent(world.log_ref, target, world.beta, steps=200)
            runs["mirror descent"].append(float(mirror.kl[-1]))
    return _arrays(predicted), _arrays(runs)


def spectra(rng: np.random.Generator, rank: int = 3, count: int = 12) -> tuple[Floats, Floats]:
    """Singular values of log-ratios, relative to the first: one reference, and references off by 0.3."""
    world = tilt_world(300, rank, rng)
    rewards = rng.normal(size=(count, rank)) @ world.rewards
    found = []
    for off in (0.0, 0.3):
        refs = normalised(world.log_ref + off * rng.normal(size=(count, 300)))
        policies = np.array([tilt(a, r, 1.0) for a, r in zip(refs, rewards, strict=True)])
        s = log_ratio_rank(world.log_ref, policies).singular_values
        found.append(s / s[0])
    return found[0], found[1]


def sample_cliff(rng: np.random.Generator, worlds: int, redundant: int) -> dict[str, Floats]:
    """Median errors over worlds with four experts, by number of samples 1..10: coefficients, prediction."""
    counts = np.arange(1, 11)
    off, tv = np.empty((worlds, len(counts))), np.empty((worlds, len(counts)))
    for row in range(worlds):
        world = tilt_world(200, 4, rng, redundant)
        optimum = tilt(world.log_ref, world.target, world.beta)
        order = rng.permutation(200)
        for column, n in enumerate(counts):
            fit = quiet_fit(world, order[:n])
            found = combine(world.log_ref, world.log_experts, fit.coefficients)
            off[row, column] = np.abs(fit.coefficients - world.weights * world.betas / world.beta).max()
            tv[row, column] = variation(found, optimum)
    return {"n": counts.astype(float), "coefficients": np.median(off, 0), "prediction": np.median(tv, 0)}


TOKEN_WORLDS: dict[str, dict[str, bool]] = {
    "rewards on whole sequences": {},
    "rewards add up, positions depend": {"additive": True},
    "rewards add up, positions independent": {"additive": True, "independent": True},
}


def token_gaps(rng: np.random.Generator, worlds: int) -> dict[str, Floats]:
    """Total variation of the token mix in worlds of three tokens and three steps, by kind of world."""
    return {
        name: np.array(
            [token_mix_gap(*token_world(3, 3, 2, rng, **options), [1.0, 1.0]).tv for _ in range(worlds)]
        )
        for name, options in TOKEN_WORLDS.items()
    }


def bandits(
    rng: np.random.Generator, runs: int, steps: int, shares: tuple[float, ...], lr: float
) -> tuple[dict[float, BanditRun], BanditRun]:
    """Bandits of 40 arms, six right, from one start, by the share taken from positives; and the flow."""
    theta = rng.normal(size=40)
    right = np.arange(6)
    theta[right] = np.linspace(-1, 1, 6)
    options: dict[str, Any] = {"lr": lr, "steps": steps, "n_runs": runs, "rng": rng, "theta0": theta}
    found = {share: run_bandit(40, right, "asymmetric", suppress=share, **options) for share in shares}
    return found, mean_field(theta, right, lr=0.1, steps=400)


def drifts(rng: np.random.Generator, groups: int) -> dict[str, Floats]:
    """Of random z-scored groups of eight: how much likelier wrong samples are, the share right, the drift."""
    rows: list[tuple[float, float, float]] = []
    while len(rows) < groups:
        policy = SoftmaxPolicy(1.5 * rng.normal(size=12))
        pi = policy.probabilities
        actions = rng.choice(12, 8, p=pi)
        hit = actions < 4
        if not 0 < hit.sum() < 8:
            continue
        A = group_advantages(hit.astype(np.float64)[None])[0]
        ahead = float(pi[actions[~hit]].mean() - pi[actions[hit]].mean())
        rows.append((ahead, float(hit.mean()), unsampled_drift(pi, actions, A)))
    ahead_, share, drift = np.array(rows).T
    return {"ahead": ahead_, "share": share, "drift": drift}


def token_gradients(rng: np.random.Generator, groups: int) -> dict[str, tuple[Floats, Floats]]:
    """Largest gradients on unsampled logits of each group, by aggregation: first position, further down."""
    tree = PrefixTree(3, 3)
    found: dict[str, list[tuple[float, float]]] = {how: [] for how in AGGREGATIONS}
    for _ in range(groups):
        root, inside, *_ = unsampled_gradients(tree, rng)
        for how in AGGREGATIONS:
            found[how].append((float(np.abs(root[how]).max()), float(np.abs(inside[how]).max())))
    return {how: (np.array(rows)[:, 0], np.array(rows)[:, 1]) for how, rows in found.items()}


def _arrays(table: dict[str, list[float]]) -> dict[str, Floats]:
    return {name: np.array(values) for name, values in table.items()}
