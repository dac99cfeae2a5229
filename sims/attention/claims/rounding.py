"""Claims on bfloat16: VH-6 and VH-6b."""

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.attention._rounding import query_errors, summed_in_float32

__all__ = ["fold_first", "stored_weights"]

SOURCE = "own derivation and simulation"
TRIALS = 40


def _numbers(errors: np.ndarray) -> dict[str, float | int | str]:
    return {
        "relative error, folded, mean": float(errors[:, 0].mean()),
        "relative error, kept, mean": float(errors[:, 1].mean()),
        "ratio of the two, mean": float((errors[:, 0] / errors[:, 1]).mean()),
    }


@claim(
    "VH-6",
    kind="statistical",
    source=SOURCE,
    statement="Folded in float64 and rounded once, queries in bfloat16 are more accurate than with the mix "
    "kept and every step rounded: three roundings against five, a ratio of sqrt(3/5) = .775. "
    "Folding wins in each of 40 layers.",
    control="float32 with sums in float32, whose own rounding hides it",
)
def fold_first(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    errors = np.array([(summed_in_float32 if broken else query_errors)(rng) for _ in range(TRIALS)])
    wins = int((errors[:, 0] < errors[:, 1]).sum())
    return Evidence(
        wins == TRIALS,
        wins,
        TRIALS,
        0.0,
        "if either were as likely to win, all 40 would go one way once in 10^12",
        TRIALS,
        _numbers(errors),
        quantity="layers where the folded mix is more accurate",
    )


@claim(
    "VH-6b",
    kind="refuted",
    source="a natural reading of 'folded weights are more accurate in bfloat16'",
    statement="Folding is more accurate in bfloat16 whatever the weights. (False where they are stored in "
    "bfloat16 already and their exact product is the truth: two roundings on both sides, and either "
    "wins about as often.)",
    control="weights of full precision",
)
def stored_weights(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    errors = np.array([query_errors(rng, stored=not broken) for _ in range(TRIALS)])
    losses = int((errors[:, 0] >= errors[:, 1]).sum())
    return Evidence(
        losses >= 10,
        losses,
        "0 by the wording",
        0.0,
        "at even odds fewer than 10 of 40 come up three times in 10^4",
        TRIALS,
        _numbers(errors),
        quantity="layers where the folded mix is not more accurate",
    )
