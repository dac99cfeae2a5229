"""Claims on values and weights: PR-1, PR-2, PR-15, PR-20."""

from fractions import Fraction

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.partition.claims._oracles import SEMIVALUES, cases, share, values_by_definition
from porism.theory.partition import (
    OrderedPartition,
    Semivalue,
    TopK,
    UtilityTable,
    certify_partition,
    semivalues,
)

__all__ = ["degenerate_semivalues", "exact_integers", "pair_identity", "size_only_terms"]

SOURCE = "reconstruction"
EXACT = "exact rationals, no rounding"


@claim(
    "PR-1",
    kind="theorem",
    source=SOURCE,
    statement="The difference of two players' semivalues is the difference of their sums of q_|S| v(S) over "
    "coalitions that hold one of them, with q_s = p_{s-1} + p_s; these weights have total mass one.",
    control="q_s = 2 p_s, the step to the next size dropped",
)
def pair_identity(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, trials = Fraction(0), 40 if scale == "smoke" else 400
    for case in cases(rng, trials):
        n, scores = case.table.n_players, case.table.scores
        p, q = case.sv.exact_weights(n), case.sv.exact_pair_weights(n)
        if broken:
            q = (Fraction(0), *(2 * p[s] for s in range(1, n)), Fraction(0))
        sums = [
            sum(q[m.bit_count()] * Fraction(float(scores[m])) for m in range(1 << n) if m >> i & 1)
            for i in range(n)
        ]
        worst = max(
            worst, *(abs((sums[i] - sums[j]) - (case.values[i] - case.values[j])) for i, j in case.pairs)
        )
    return Evidence(worst == 0, float(worst), 0.0, 0.0, EXACT, trials, quantity="largest difference")


@claim(
    "PR-2",
    kind="theorem",
    source=SOURCE,
    statement="Adding any function of |S| to the utility leaves every difference of two semivalues "
    "unchanged.",
    control="a function of |S| that is added only where player 0 is a member",
)
def size_only_terms(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, trials = Fraction(0), 40 if scale == "smoke" else 400
    for case in cases(rng, trials):
        n = case.table.n_players
        shift = rng.integers(-9, 10, n + 1).astype(float)
        added = np.array([shift[m.bit_count()] * (m & 1 if broken else 1) for m in range(1 << n)])
        other = values_by_definition(case.table.scores + added, case.sv)
        worst = max(
            worst, *(abs((other[i] - other[j]) - (case.values[i] - case.values[j])) for i, j in case.pairs)
        )
    return Evidence(worst == 0, float(worst), 0.0, 0.0, EXACT, trials, quantity="largest difference")


@claim(
    "PR-15",
    kind="theorem",
    source=SOURCE,
    statement="With two players, for leave-one-out and for singleton values, one coalition carries the "
    "whole pair mass, so every strict top-k selection is robust to all increasing transforms.",
    control="the Shapley value of three and more players",
)
def degenerate_semivalues(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, robust = 60 if scale == "smoke" else 600, 0
    for number in range(trials):
        n = 3 + number % 3 if broken or number % 3 else 2
        lone = [Fraction(1), *[Fraction(0)] * (n - 1)]
        pick = (
            Semivalue.shapley()
            if broken or n == 2
            else Semivalue.leave_one_out()
            if number % 2
            else Semivalue.from_weights(lone)
        )
        table = UtilityTable.from_array(rng.permutation(1 << n).astype(float))
        k = 1 + number % (n - 1)
        robust += certify_partition(table, pick, TopK(k), ties="weak", radii=()).robust
    return share(robust, trials, "exact verdicts", "share robust")


@claim(
    "PR-20",
    kind="theorem",
    source=SOURCE + "; float sweep as commonly written",
    statement="In games whose best half dominates coalition by coalition the level margin of a certificate "
    "is exactly 0, never negative.",
    control="the least level difference from a sweep with float64 pair weights",
)
def exact_integers(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    n, trials, negative = 12, 10 if scale == "smoke" else 200, 0
    sizes = np.array([m.bit_count() for m in range(1 << n)])
    member = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(bool)
    weights = np.array([float(x) for x in Semivalue.shapley().exact_pair_weights(n)])
    blocks = OrderedPartition([range(n // 2), range(n // 2, n)])
    exact_zero = 0
    for _ in range(trials):
        scores = member[:, : n // 2].sum(axis=1) + rng.random(1 << n)  # one good member outweighs all noise
        table = UtilityTable.from_array(scores)
        margin = float(certify_partition(table, SEMIVALUES[0], blocks, radii=()).level_margin or 0)
        exact_zero += margin == 0
        if broken:
            order = np.argsort(-scores)
            swept = np.cumsum(member[order] * weights[sizes[order]][:, None], axis=0)
            margin = float((swept[:, : n // 2].min(axis=1) - swept[:, n // 2 :].max(axis=1)).min())
        negative += margin < 0
    exact = [float(x) for x in semivalues(table, SEMIVALUES[0], exact=True)]
    error = float(np.abs(semivalues(table, SEMIVALUES[0]) - exact).max())
    return Evidence(
        negative == 0 and exact_zero == trials,
        negative / trials,
        0.0,
        0.0,
        "integers, no rounding",
        trials,
        {"float64 error of the values": error, "certificates with margin exactly 0": exact_zero},
        quantity="share of games with a negative margin",
    )
