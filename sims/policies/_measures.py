"""What claims and figures measure: distances, updates over all groups, gradients on unsampled tokens."""

import itertools
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.errors import NumericalWarning
from porism.sims.policies.worlds import PrefixTree, TiltWorld
from porism.theory.policies import AGGREGATIONS, RULES, TiltFit, fit_coefficients, group_advantages

__all__: list[str] = []

Floats = NDArray[np.float64]


ALONE = tuple(rule for rule in RULES if rule != "a_grae")
"""Rules that look at one prompt, not at the batch."""


def options_of(rule: str, share: float = 0.6) -> dict[str, float]:
    """Options of a rule: a share to suppress for the one that takes it."""
    return {"suppress": share} if rule == "asymmetric" else {}


def normalised(logits: Floats) -> Floats:
    """Log-probabilities, row by row."""
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)))


def quiet_fit(world: TiltWorld, samples: NDArray[np.int64]) -> TiltFit:
    """Fit of the world's new reward at these outcomes, without a warning where they are too few."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        return fit_coefficients(world.log_ref, world.log_experts, world.target[samples], samples, world.beta)


def variation(log_p: Floats, log_q: Floats) -> float:
    """Total variation between two policies."""
    return float(np.abs(np.exp(log_p) - np.exp(log_q)).sum() / 2)


def expected_update(pi: Floats, rewards: Floats, group_size: int, weigh: Any) -> Floats:
    """Mean over all groups of ``(1/G) sum_i A_i (e_(o_i) - pi)``; weigh maps rewards (N, G) to advantages."""
    V = len(pi)
    groups = np.array(list(itertools.product(range(V), repeat=group_size)))
    chance = pi[groups].prod(axis=1)
    A = weigh(rewards[groups]) / group_size
    hits = np.bincount(groups.ravel(), (chance[:, None] * A).ravel(), V)
    return np.asarray(hits - pi * float(chance @ A.sum(axis=1)))


def cosine(a: Floats, b: Floats) -> float:
    """Cosine of the angle between two arrays."""
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


def unsampled_gradients(
    tree: PrefixTree, rng: np.random.Generator, group_size: int = 6
) -> tuple[dict[str, Floats], dict[str, Floats], Floats, Floats, NDArray[np.int64]]:
    """Gradients by aggregation on logits that no sample takes: at the root, and at prefixes some pass.

    Gives root and inside gradients, root probabilities of those tokens, advantages and lengths.
    """
    while True:
        logits = rng.normal(size=(len(tree.prefixes), tree.stop + 1))
        pi, conditionals = tree.probabilities(logits), tree.conditionals(logits)
        group = rng.choice(len(pi), group_size, p=pi)
        rewards = (rng.random(len(pi)) < 0.4)[group].astype(np.float64)
        taken = tree.passes[group].sum(axis=0)
        visits = taken.sum(axis=1)
        root = taken[0] == 0
        inside = (taken == 0) & ((visits > 0) & (visits < group_size))[:, None]
        if 0 < rewards.sum() < group_size and root.any() and inside.any():
            break
    A = group_advantages(rewards[None])[0]
    gradients = {how: tree.group_gradient(logits, group, A, how) for how in AGGREGATIONS}
    return (
        {how: g[0][root] for how, g in gradients.items()},
        {how: g[inside] for how, g in gradients.items()},
        conditionals[0][root],
        A,
        tree.lengths[group],
    )
