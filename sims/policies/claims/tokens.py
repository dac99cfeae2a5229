"""Claims on gradients token by token: AG-7."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.policies._measures import unsampled_gradients
from porism.sims.policies.worlds import PrefixTree
from porism.theory.policies import AGGREGATIONS, root_drift

__all__ = ["first_position", "inside_the_tree"]

Floats = NDArray[np.float64]

TIGHT = 1e-14


@claim(
    "AG-7",
    kind="refuted",
    source="A-GRAE's motivation, as read from its abstract (inference)",
    statement="Advantages that sum to zero leave the logits of unsampled tokens unchanged. (False beyond "
    "the first divergence under every aggregation: only samples that pass a prefix count there.)",
    control="the first position, which all samples pass, with a plain sum",
)
def inside_the_tree(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, found = (60 if scale == "smoke" else 200), dict.fromkeys(AGGREGATIONS, 0.0)
    tree = PrefixTree(3, 3)
    for _ in range(trials):
        root, inside, *_ = unsampled_gradients(tree, rng)
        for how in AGGREGATIONS:
            # relative to the largest weight of a token, which is 1/G times as large under a mean
            g = root["sum"] if broken else inside[how]
            found[how] = max(found[how], float(np.abs(g).max()))
    least = min(found.values())
    return Evidence(
        least > 1e-3,
        least,
        "0 if it were true",
        1e-3,
        "far above rounding, 1e-16",
        trials,
        {f"largest gradient, {how}": value for how, value in found.items()},
        quantity="largest gradient on an unsampled token's logit, smallest over aggregations",
    )


@claim(
    "AG-7b",
    kind="theorem",
    source="our reconstruction",
    statement="At the first position, which the whole group shares, an unsampled token's logit gradient is "
    "-pi_u sum w_i with w_i the weight a token: zero for token mean and sum, and for the mean "
    "within each sequence where lengths are equal.",
    control="the mean within each sequence, of unequal lengths",
)
def first_position(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, zero, law, uneven = (60 if scale == "smoke" else 200), 0.0, 0.0, 0.0
    tree = PrefixTree(3, 3)
    for _ in range(trials):
        root, _, pi, A, lengths = unsampled_gradients(tree, rng)
        for how in AGGREGATIONS:
            law = max(law, float(np.abs(root[how] - root_drift(pi, A, lengths, how)).max()))
        uneven = max(uneven, float(np.abs(root["seq_mean"]).max()))
        for how in ("token_mean", "seq_mean" if broken else "sum"):
            zero = max(zero, float(np.abs(root[how]).max()))
        zero = max(zero, float(np.abs(root_drift(pi, A, np.full(len(A), 7), "seq_mean")).max()))
    return Evidence(
        max(zero, law) <= TIGHT,
        max(zero, law),
        0.0,
        TIGHT,
        "a few dozen roundings",
        trials,
        {"largest, mean within each sequence": uneven, "from the formula": law},
        quantity="largest gradient said to be zero, and largest distance from the formula",
    )
