"""Claims on decisions and dominance: PR-10, PR-11, PR-13, PR-14, PR-21."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.partition.claims._oracles import (
    SEMIVALUES,
    cases,
    level_differences,
    lp_minimum,
    marginal_coefficients,
    share,
)
from porism.sims.partition.games import noisy_symmetric_game
from porism.theory.partition import (
    DegenerateUtilityError,
    MonotoneClass,
    OrderedPartition,
    Sign,
    Threshold,
    TopK,
    UtilityTable,
    certify_partition,
    is_coalitionally_dominant,
    robust_ks,
    value_intervals,
)

__all__ = ["all_ks", "dominance_implies", "necessity", "rounding_scores", "thresholds"]

SOURCE = "abstract; our reconstruction"
EXACT = "exact rationals, no rounding"


@claim(
    "PR-10",
    kind="theorem",
    source=SOURCE,
    statement="The attainable values of a player under increasing transforms that keep the range fill the "
    "interval from R times its least to R times its largest level value; thresholds and signs are robust "
    "iff the interval stays on their side.",
    control="the threshold divided by two before it is compared, as if the transform might rescale the "
    "scores",
)
def thresholds(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst, agree, total = 25 if scale == "smoke" else 250, 0.0, 0, 0
    for case in cases(rng, trials, sizes=(3, 4)):
        n, scores = case.table.n_players, case.table.scores
        span, low = float(np.ptp(scores)), float(scores.min())
        ends = value_intervals(case.table, case.sv)
        for i in range(n):
            c = marginal_coefficients(case.sv, n, i)
            least, most = (span * lp_minimum(scores, c), -span * lp_minimum(scores, [-x for x in c]))
            worst = max(worst, abs(ends[i, 0] - least), abs(ends[i, 1] - most))
            # phi(s_0) = s_0 adds a constant to the utility, and a semivalue of a constant is zero
            worst = max(worst, abs(low * float(sum(c))))
        tau = Fraction(int(rng.integers(1, 60)), 16)
        asked = Threshold(tau / 2 if broken else tau)
        sign = certify_partition(case.table, case.sv, Sign())
        both = certify_partition(case.table, case.sv, asked, transforms=MonotoneClass(range_normalised=True))
        for certificate, level in ((sign, 0.0), (both, float(tau))):
            above = [float(v) > level for v in case.values]
            truth = all(ends[i, 0] >= level if above[i] else ends[i, 1] <= level for i in range(n))
            agree += certificate.robust == truth and certificate.members == tuple(
                i for i in range(n) if above[i]
            )
            total += 1
    return Evidence(
        worst <= 1e-6 and agree == total,
        agree / total,
        1.0,
        1e-6,
        "interval ends against linear programs, feasibility 1e-7",
        total,
        {"largest error of an end": worst},
        quantity="share of verdicts that agree",
    )


@claim(
    "PR-11",
    kind="theorem",
    source=SOURCE,
    statement="One sweep with prefix minima and suffix maxima gives the verdict for every k; ordered blocks "
    "are robust iff all adjacent blocks are.",
    control="players next to each other in the ranking compared instead of prefixes and suffixes",
)
def all_ks(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, agree, total = 80 if scale == "smoke" else 800, 0, 0
    for case in cases(rng, trials, sizes=(4, 5)):
        n = case.table.n_players
        ranking = sorted(range(n), key=lambda i: (-case.values[i], i))
        untied = [case.values[a] > case.values[b] for a, b in pairwise(ranking)]
        singles = [
            certify_partition(case.table, case.sv, TopK(k), ties="weak", radii=()).robust for k in range(1, n)
        ]
        swept = robust_ks(case.table, case.sv)
        if broken:
            least = [min(level_differences(case.table.scores, case.sv, a, b)) for a, b in pairwise(ranking)]
            swept = np.array([x >= 0 for x in least])
        agree += swept.tolist() == [a and b for a, b in zip(singles, untied, strict=True)]
        if all(untied):
            ordered = certify_partition(
                case.table, case.sv, OrderedPartition([[i] for i in ranking]), radii=()
            ).robust
            agree += ordered == all(singles)
            total += 1
        total += 1
    return share(agree, total, "exact verdicts")


@claim(
    "PR-13",
    kind="theorem",
    source=SOURCE + "; desirability relation of cooperative games",
    statement="A coalitionally dominant set is robust for every semivalue and maximises the utility among "
    "sets of its size; the converse is false.",
    control="dominance tested on the empty coalition only",
)
def dominance_implies(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    used, kept, converse = 0, 0, 0
    for number in range(150 if scale == "smoke" else 1500):
        n = int(rng.integers(3, 6))
        k = int(rng.integers(1, n))
        table = (
            noisy_symmetric_game(n, float(rng.choice([0.3, 1.0, 2.5])), rng)
            if number % 2
            else UtilityTable.from_array(
                np.array([(m & (1 << k) - 1).bit_count() for m in range(1 << n)])
                + rng.choice([1.0, 2.0]) * rng.random(1 << n)
            )
        )
        members = tuple(range(k))
        single = [table.scores[1 << i] for i in range(n)]
        dominant = (
            min(single[:k]) >= max(single[k:]) if broken else is_coalitionally_dominant(table, members)[0]
        )
        blocks = OrderedPartition([members, range(k, n)])
        robust = all(certify_partition(table, sv, blocks, ties="weak", radii=()).robust for sv in SEMIVALUES)
        converse += robust and not dominant
        if not dominant:
            continue
        used += 1
        size = [m for m in range(1 << n) if m.bit_count() == k]
        kept += robust and table.scores[(1 << k) - 1] == max(table.scores[m] for m in size)
    return share(
        kept,
        used,
        "exact verdicts",
        "share robust and optimal",
        numbers={"robust for all semivalues tried without dominance": converse},
    )


@claim(
    "PR-14",
    kind="theorem",
    source=SOURCE,
    statement="If the best coalition of size k is unique and the semivalue's top k is not robust, selection "
    "by the semivalue misses it at the table or at the witness; robustness alone does not make it optimal.",
    control="games with several best coalitions",
)
def necessity(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    used, missed, robust, suboptimal = 0, 0, 0, 0
    for case in cases(rng, 300 if scale == "smoke" else 3000):
        n, scores = case.table.n_players, case.table.scores
        size = [m for m in range(1 << n) if m.bit_count() == case.k]
        best = [m for m in size if scores[m] == max(scores[s] for s in size)]
        chosen = sum(1 << i for i in case.members)
        certificate = case.certify()
        if certificate.strict:
            robust += 1
            suboptimal += chosen not in best
        if certificate.witness is None or (len(best) > 1) != broken:
            continue
        used += 1
        after = certificate.witness.partition(case.table, case.sv)[0]
        missed += chosen not in best or sum(1 << i for i in after) not in best
    return share(
        missed,
        used,
        "exact verdicts",
        "share missed",
        numbers={"strictly robust": robust, "of these suboptimal": suboptimal},
    )


@claim(
    "PR-21",
    kind="theorem",
    source=SOURCE,
    statement="Merging levels by a monotone rounding keeps a robust selection robust.",
    control="levels split by noise of 1e-6 instead of merged",
)
def rounding_scores(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    used, kept = 0, 0
    for case in cases(rng, 200 if scale == "smoke" else 2000, levels=40):
        if not certify_partition(case.table, case.sv, case.blocks, radii=()).robust:
            continue
        scores = case.table.scores + 1e-6 * rng.random(case.table.scores.size)
        coarse = MonotoneClass(decimals=None if broken else -1)
        table = UtilityTable.from_array(scores) if broken else case.table
        try:
            found = certify_partition(table, case.sv, case.blocks, transforms=coarse, ties="weak", radii=())
            kept += found.robust
            used += 1
        except DegenerateUtilityError:  # everything merged into one level
            continue
    return share(kept, used, "exact verdicts", "share that stay robust")
