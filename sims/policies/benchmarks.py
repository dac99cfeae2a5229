"""Benchmarks of the policies module: prediction beside training and mixing, s(p) beside sampling.

Peers restate in NumPy what trainers and decoding-time mixers do; none of them estimates coefficients, gives a
certificate, or reports s(p). One thread, interleaved rounds. The trainer takes 500 steps of 7 % to a KL of
1e-29; a step of 100 % would be the closed form itself, which needs all rewards.
"""

import importlib.metadata
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.benchmark import compare
from porism.sims.policies._measures import variation
from porism.sims.policies.invariants import invariant_table
from porism.sims.policies.training import TrainingRun, mirror_descent, policy_gradient
from porism.sims.policies.worlds import TiltWorld, tilt_world
from porism.theory.policies import (
    SoftmaxPolicy,
    TiltedExperts,
    combine,
    direction_scale,
    fit_coefficients,
    group_advantages,
    tilt,
)

__all__ = ["BENCHMARKS", "monte_carlo_scale", "sum_one_mix"]

Floats = NDArray[np.float64]

V, SAMPLES = 10_000, 64

EQUAL_KL = 1e-15
"""Largest KL between the two answers at which they count as equal."""


def _divergence(ours: Floats, theirs: Floats) -> float:
    return SoftmaxPolicy(theirs).kl(SoftmaxPolicy(ours))


def _world() -> tuple[TiltWorld, NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    world = tilt_world(V, 4, rng)
    return world, rng.integers(0, V, SAMPLES)


def prepared() -> dict[str, Any]:
    """A hundred new rewards, experts checked once, seconds for each, beside 500 steps of mirror descent."""
    world, _ = _world()
    experts, rng = TiltedExperts(world.log_ref, world.log_experts), np.random.default_rng(3)
    tasks = []
    for _ in range(100):
        samples = rng.integers(0, V, SAMPLES)
        target = rng.normal(size=4) @ world.rewards
        tasks.append((target, samples, target[samples]))
    apart, ours, theirs = 0.0, [], []
    for target, samples, values in tasks[:3]:
        mine = experts.fit(values, samples, world.beta).predict()
        trained = mirror_descent(world.log_ref, target, world.beta, 500).log_policy
        apart = max(apart, _divergence(mine, trained))
    for round in range(9):
        start = time.process_time()  # one thread: what others do on the machine does not count
        for _, samples, values in tasks:
            experts.fit(values, samples, world.beta).predict()
        middle = time.process_time()
        mirror_descent(world.log_ref, tasks[round][0], world.beta, 500)
        ours.append((middle - start) / len(tasks))
        theirs.append(time.process_time() - middle)
    return {
        "task": f"policies of 100 new rewards, V = {V}, {SAMPLES} values each, time for one; peer: mirror "
        f"descent, 500 steps on all {V} values; agreement: KL",
        "peer": "numpy",
        "peer_version": importlib.metadata.version("numpy"),
        "ours_s": statistics.median(ours),
        "peer_s": statistics.median(theirs),
        "ratio": statistics.median(b / a for a, b in zip(ours, theirs, strict=True)),
        "agreement": apart,
    }


def one_call() -> dict[str, Any]:
    """The same from raw arrays, with all checks of the experts, beside mirror descent."""
    return _beside("mirror descent, 500 steps", mirror_descent, 500, EQUAL_KL, 9)


def gradient_training() -> dict[str, Any]:
    """The same beside 20 000 steps of exact policy gradient, which stop at a larger KL."""
    return _beside("policy gradient, 20000 steps, not done", policy_gradient, 20_000, 1e-2, 1)


def _beside(
    peer: str, train: Callable[..., TrainingRun], steps: int, most: float, rounds: int
) -> dict[str, Any]:
    world, samples = _world()
    target = world.target[samples]
    return compare(
        f"policy of a new reward from raw arrays, V = {V}, {SAMPLES} values; peer: {peer}",
        "numpy",
        lambda: fit_coefficients(world.log_ref, world.log_experts, target, samples, world.beta).predict(),
        lambda: train(world.log_ref, world.target, world.beta, steps).log_policy,
        _divergence,
        most,
        rounds=rounds,
    )


def sum_one_mix(world: TiltWorld, samples: NDArray[np.int64]) -> Floats:
    """Mix experts as decoding-time mixers do: the best weights that sum to one, no term of the reference.

    Least squares of the log-ratio over the sampled outcomes under the constraint, so that the peer gets the
    same values of the reward as we do.

    Parameters
    ----------
    world : TiltWorld
        Reference, experts, and the new reward.
    samples : int array, shape (n,)
        Outcomes whose reward is known.

    Returns
    -------
    float64 array, shape (V,)
        Log-probabilities.

    Examples
    --------
    >>> world = tilt_world(30, 2, rng=0)
    >>> mixed = sum_one_mix(world, np.arange(10))
    >>> float(np.exp(mixed).sum().round(12))
    1.0
    """
    last = world.log_experts[-1]
    rows = np.column_stack([(world.log_experts[:-1] - last)[:, samples].T, np.ones(len(samples))])
    goal = world.log_ref[samples] + world.target[samples] / world.beta - last[samples]
    free = np.linalg.lstsq(rows, goal, rcond=None)[0][:-1]
    return combine(world.log_ref, world.log_experts, np.append(free, 1 - free.sum()), base=False)


def mixes() -> dict[str, Any]:
    """Total variation on 50 random worlds: ours, at most, beside the median of mixes that sum to one."""
    rng = np.random.default_rng(1)
    ours: list[float] = []
    theirs: list[float] = []
    given: list[float] = []
    for _ in range(50):
        world = tilt_world(400, 4, rng)
        samples = rng.choice(400, 32, replace=False)
        optimum = tilt(world.log_ref, world.target, world.beta)
        fit = fit_coefficients(world.log_ref, world.log_experts, world.target[samples], samples, world.beta)
        share = world.weights / world.weights.sum()  # the user's own weights, made to sum to one
        user = combine(world.log_ref, world.log_experts, share, base=False)
        for found, log in ((ours, fit.predict()), (theirs, sum_one_mix(world, samples)), (given, user)):
            found.append(variation(log, optimum))
    return {
        "task": f"total variation, 50 worlds; theirs: median of the best mix that sums to one "
        f"(with the user's weights {statistics.median(given):.2f})",
        "peer": "numpy",
        "peer_version": importlib.metadata.version("numpy"),
        "ours": max(ours),
        "theirs": statistics.median(theirs),
        "agreement": max(ours),
    }


def monte_carlo_scale(
    p: float, group_size: int, groups: int, rng: np.random.Generator, rule: str = "zscore"
) -> tuple[float, float]:
    """Estimate s(p) from sampled groups on a two-armed bandit, as a framework without the law would.

    The gradient on the right arm's logit is ``s p (1 - p)``.

    Parameters
    ----------
    p : float
        Success rate, in (0, 1).
    group_size : int
        Samples G a group.
    groups : int
        Groups to sample.
    rng : Generator
        Source.
    rule : str, default "zscore"
        Rule of `group_advantages`.

    Returns
    -------
    (float, float)
        Estimate and its standard error.

    Examples
    --------
    >>> value, error = monte_carlo_scale(0.3, 4, 2000, np.random.default_rng(0))
    >>> abs(value - 1.6346) < 4 * error
    True
    """
    rewards = (rng.random((groups, group_size)) < p).astype(np.float64)
    A = group_advantages(rewards, rule)
    found = (A * (rewards - p)).mean(axis=1) / (p * (1 - p))
    return float(found.mean()), float(found.std() / np.sqrt(groups))


def scale_of_rules() -> dict[str, Any]:
    """Exact s(p) at G = 16 beside 10^6 sampled groups, five rules; agreement in standard errors."""
    rng, places = np.random.default_rng(2), np.linspace(0.1, 0.9, 9)
    rules = ("zscore", "centred", "hard", "easy", "easy_sqrt")
    ours, theirs, apart = [], [], []
    for rule in rules:
        p = float(rng.choice(places))
        start = time.perf_counter()
        value, error = monte_carlo_scale(p, 16, 1_000_000, rng, rule)
        theirs.append(time.perf_counter() - start)
        exact = float(direction_scale(p, 16, rule))
        for _ in range(50):
            start = time.perf_counter()
            direction_scale(p, 16, rule)
            ours.append(time.perf_counter() - start)
        apart.append(abs(value - exact) / error)
    mine, other = statistics.median(ours), statistics.median(theirs)
    return {
        "task": f"s(p) at G = 16, {len(rules)} rules; peer: 10^6 groups; agreement in standard errors",
        "peer": "numpy",
        "peer_version": importlib.metadata.version("numpy"),
        "ours_s": mine,
        "peer_s": other,
        "ratio": other / mine,
        "agreement": max(apart),
    }


def invariants() -> dict[str, Any]:
    """Rules and aggregations whose invariants are tabulated; TRL and verl implement them and report none."""
    table = invariant_table(rng=0, trials=1)
    law, stays = int((table.direction > 1 - 1e-12).sum()), int((table.first_token < 1e-12).sum())
    return {
        "task": f"invariants of {len(table.rule)} pairs (rule, aggregation): direction law in {law}, "
        f"unsampled first tokens stay in {stays}; theirs: pairs reported",
        "peer": "numpy",
        "peer_version": importlib.metadata.version("numpy"),
        "ours": len(table.rule),
        "theirs": 0,
    }


BENCHMARKS = [prepared, one_call, gradient_training, mixes, scale_of_rules, invariants]
