"""Claims on free, small and missing coalitions: PR-12 and PR-16."""

import math
from fractions import Fraction

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.partition.claims._oracles import (
    cases,
    level_differences,
    lp_with_free,
    pair_coefficients,
    share,
)
from porism.theory.partition import (
    MonotoneClass,
    OrderedPartition,
    Semivalue,
    SmallCoalitions,
    UtilityTable,
    certify_partition,
)

__all__ = ["interval_games", "no_free_lunch"]

SOURCE = "abstract; our reconstruction"


@claim(
    "PR-12",
    kind="theorem",
    source=SOURCE,
    statement="With small coalitions free in the range, at a fixed transform or with bounded slopes, or "
    "free but monotone in inclusion, a selection is valid for every completion and transform iff the level "
    "differences of the interval game are nonnegative (in the class's own sum).",
    control="the mass W of the small coalitions left out",
)
def interval_games(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, agree, total = 12 if scale == "smoke" else 120, 0, 0
    for case in cases(rng, trials, sizes=(3, 4)):
        n, below = case.table.n_players, 2 + int(rng.random() < 0.3)
        sizes = np.array([m.bit_count() for m in range(1 << n)])
        free = (sizes < below) & (sizes > 0)
        scores = np.array(case.table.scores)
        for size in range(below, n):  # monotone above the cut
            for mask in np.flatnonzero(sizes == size + 1):
                subsets = [mask ^ 1 << i for i in range(n) if mask >> i & 1]
                scores[mask] = max(scores[mask], *(scores[s] for s in subsets))
        known = scores[sizes >= below]
        scores[sizes < below] = known.min()
        if known.min() == known.max():
            continue
        table = UtilityTable.from_array(scores)
        for values, ratio in (("range", None), ("range", 1.0), ("range", 3.0), ("monotone", None)):
            kind = "size-only" if broken else values
            transforms = MonotoneClass(max_slope_ratio=ratio or math.inf)
            verdict = certify_partition(
                table,
                case.sv,
                case.blocks,
                small=SmallCoalitions(below, kind),
                ties="weak",
                transforms=transforms,
                radii=(),
            ).robust
            least = math.inf
            for i, j in case.pairs:
                c = pair_coefficients(case.sv, n, i, j)
                least = min(least, lp_with_free(scores, c, free, ratio=ratio, monotone=values == "monotone"))
            agree += verdict == (least >= -1e-9)
            total += 1
    return share(agree, total, "verdicts against linear programs, sign at -1e-9")


@claim(
    "PR-16",
    kind="theorem",
    source=SOURCE,
    statement="If a coalition with j and without i is unobserved and may score above all others, putting it "
    "on top makes the level difference of (i, j) there minus its weight, so no selection of i over j can be "
    "certified.",
    control="the unobserved score capped at the largest observed one, in a game that saturates",
)
def no_free_lunch(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, shown = 40 if scale == "smoke" else 400, 0
    for number in range(trials):
        n = 3 + number % 3
        scores = np.array([float(bool(m & 1)) for m in range(1 << n)])  # player 0 is all that counts
        j = int(rng.integers(1, n))
        others = [m for m in range(1 << n) if m >> j & 1 and not m & 1]
        hidden = int(rng.choice(others))
        scores[hidden] = 1.0 if broken else 2.0
        q = Semivalue.shapley().exact_pair_weights(n)[hidden.bit_count()]
        top = level_differences(scores, Semivalue.shapley(), 0, j)[-1]
        blocks = OrderedPartition([[0], range(1, n)])
        verdict = certify_partition(
            UtilityTable.from_array(scores), Semivalue.shapley(), blocks, ties="weak"
        ).verdict
        shown += top == -q and q > Fraction(0) and verdict == "not_robust"
    return share(shown, trials, "exact rationals, no rounding", "share with D = -q on top")
