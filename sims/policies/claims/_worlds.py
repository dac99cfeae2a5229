"""What the claims of the policies module measure on: enumerated groups, distances, unsampled tokens."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.policies.worlds import PrefixTree
from porism.theory.policies import AGGREGATIONS, group_advantages

__all__: list[str] = []

Floats = NDArray[np.float64]


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
