"""Claims on what does not fold: VH-4 and VH-4b."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.attention.worlds import random_mix, sample_layer
from porism.theory.attention import fold_output_mix, fold_query_mix

__all__ = ["between_mix_and_output", "query_norm"]

SOURCE = "own derivation"


def _unit(z: NDArray) -> NDArray:
    """Heads (..., d_h) at root mean square 1."""
    return z / np.sqrt(np.square(z).mean(axis=-1, keepdims=True))


@claim(
    "VH-4",
    kind="refuted",
    source="a natural reading of 'virtual heads fold into the weights'",
    statement="The mix of query heads folds where queries are normalised head by head. (False after the "
    "norm: whatever is folded gives queries of one length, and mixed ones differ in length. Half of "
    "their range is the least error of any fold.)",
    control="the mix before the norm, which folds",
)
def query_norm(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, least, naive = 10 if scale == "smoke" else 100, np.inf, 0.0
    for _ in range(trials):
        W = sample_layer(24, 1, 3, 8, bias=False, rng=rng).W_q
        mix, x = random_mix(1, 4, 3, rng=rng), rng.standard_normal((40, 24))
        q = np.einsum("npdx,tx->tnpd", W, x)
        folded = _unit(np.einsum("ngdx,tx->tngd", fold_query_mix(W, mix).weight, x))
        if broken:
            mixed = _unit(np.einsum("ngp,tnpd->tngd", mix, q))
        else:
            mixed = np.einsum("ngp,tnpd->tngd", mix, _unit(q))
        lengths = np.linalg.norm(mixed, axis=-1)
        least = min(least, float((lengths.max(axis=0) - lengths.min(axis=0)).max() / 2))
        naive = max(naive, float(np.abs(mixed - folded).max()))
    return Evidence(
        bool(least > 1e-6),
        float(least),
        "0 by the wording",
        1e-6,
        "far above rounding, 1e-14; queries have length sqrt(8)",
        trials,
        {"largest difference from the fold before the norm": naive},
        quantity="least error that any fold must have",
    )


@claim(
    "VH-4b",
    kind="refuted",
    source="a natural reading of 'the output mix folds into the output projection'",
    statement="The mix of outputs folds wherever a gate or a norm of each head stands. (False between mix "
    "and output projection: a fold into the projection is blind to the length of a head before the "
    "norm, the mix is not. Half of the change is the least error of any fold.)",
    control="norm and gate between attention and mix, which fold",
)
def between_mix_and_output(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, least, naive = 10 if scale == "smoke" else 100, np.inf, 0.0
    for _ in range(trials):
        W = sample_layer(24, 1, 4, 8, rng=rng).W_o
        mix = np.eye(4) + np.outer(rng.standard_normal(4), rng.standard_normal(4))
        o, gate = rng.standard_normal((20, 4, 8)), rng.uniform(0, 1, (20, 4, 1))
        longer = o.copy()
        longer[:, 0] *= 4  # a norm right after attention gives the same
        folded = fold_output_mix(W, mix)

        def run(o: NDArray, W: NDArray = W, mix: NDArray = mix, gate: NDArray = gate) -> NDArray:
            if broken:
                kept = np.einsum("gh,thd->tgd", mix, gate * _unit(o))
            else:
                kept = gate * _unit(np.einsum("gh,thd->tgd", mix, o))
            return np.einsum("xhd,thd->tx", W, kept)

        least = min(least, float(np.linalg.norm(run(o) - run(longer), axis=1).max() / 2))
        naive = max(naive, float(np.abs(run(o) - np.einsum("xhd,thd->tx", folded, gate * _unit(o))).max()))
    return Evidence(
        bool(least > 1e-6),
        float(least),
        "0 by the wording",
        1e-6,
        "far above rounding, 1e-14; outputs have length 5",
        trials,
        {"largest difference from the fold past norm and gate": naive},
        quantity="least error that any fold must have",
    )
