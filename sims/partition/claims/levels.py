"""Claims on level games and transforms: PR-3 to PR-9."""

import math
from fractions import Fraction

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.partition.claims._oracles import (
    Case,
    cases,
    level_differences,
    lp_minimum,
    pair_coefficients,
    share,
    values_by_definition,
)
from porism.theory.partition import (
    MonotoneClass,
    Semivalue,
    TopK,
    UtilityTable,
    certify_partition,
)

__all__ = [
    "level_games_decide",
    "score_radius",
    "shaped_classes",
    "slope_radius",
    "stochastic_dominance",
    "strict_everywhere",
    "strict_over_weak_transforms",
    "tie_kinds",
    "witness_reverses",
]

SOURCE = "abstract; our reconstruction"
EXACT = "exact rationals, no rounding"
LP = "linear programming, primal feasibility 1e-7"


def _trials(scale: str, smoke: int, paper: int) -> int:
    return smoke if scale == "smoke" else paper


def _worst_pair(case: Case, shape: str = "increasing", ratio: float | None = None) -> float:
    """Least difference over pairs and transforms, by one linear program a pair."""
    n = case.table.n_players
    return min(
        lp_minimum(case.table.scores, pair_coefficients(case.sv, n, i, j), shape, ratio)
        for i, j in case.pairs
    )


def _transformed(case: Case, steps: list[int]) -> list[Fraction]:
    """Exact values after the transform whose increments between levels are ``steps``."""
    levels = np.unique(case.table.scores)
    heights = np.concatenate(([0.0], np.cumsum(np.array(steps, float))))
    return values_by_definition(heights[np.searchsorted(levels, case.table.scores)], case.sv)


@claim(
    "PR-3",
    kind="theorem",
    source=SOURCE,
    statement="A selection is robust to every increasing transform iff every level game keeps it: the least "
    "level difference equals the least difference over all transforms normalised to the unit range.",
    control="level games weighted by the marginal weights p_s instead of the pair weights",
)
def level_games_decide(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst = _trials(scale, 30, 300), 0.0
    for case in cases(rng, trials):
        n, scores = case.table.n_players, case.table.scores
        margin = case.certify().level_margin
        if broken:
            p = [*case.sv.exact_weights(n), Fraction(0)]
            margin = min(
                sum(
                    (
                        p[m.bit_count()] * ((m >> i & 1) - (m >> j & 1))
                        for m in range(1 << n)
                        if scores[m] >= level
                    ),
                    Fraction(0),
                )
                for i, j in case.pairs
                for level in np.unique(scores)[1:]
            )
        worst = max(worst, abs(float(margin or 0) - _worst_pair(case)))
    return Evidence(
        worst <= 1e-6, worst, 0.0, 1e-6, LP, trials, quantity="largest difference of the two minima"
    )


@claim(
    "PR-4",
    kind="theorem",
    source=SOURCE,
    statement="A selection that is strict at the table and has no negative level difference stays strict "
    "under every strictly increasing transform.",
    control="selections with a negative level difference",
)
def strict_everywhere(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, used, kept = _trials(scale, 150, 1500), 0, 0
    for case in cases(rng, trials):
        certificate = case.certify()
        if certificate.strict == broken:
            continue
        used += 1
        count = np.unique(case.table.scores).size - 1
        transforms = [[10**6 if at == top else 1 for at in range(count)] for top in range(count)]
        transforms += [rng.integers(1, 10**6, count).tolist() for _ in range(5)]
        values = [_transformed(case, steps) for steps in transforms]
        kept += all(v[i] > v[j] for v in values for i, j in case.pairs)
    return share(kept, used, EXACT, "share that stay strict")


@claim(
    "PR-4b",
    kind="theorem",
    source=SOURCE,
    statement="Over nondecreasing transforms a selection is strict iff every level difference is positive, "
    "which few strictly robust selections satisfy.",
    control="strictness over strictly increasing transforms reported in its place",
)
def strict_over_weak_transforms(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, agree, strict, weak = _trials(scale, 80, 800), 0, 0, 0
    for case in cases(rng, trials):
        reported = case.certify(strict="increasing" if broken else "weakly-increasing").strict
        count = np.unique(case.table.scores).size - 1
        steps = [[int(at == top) for at in range(count)] for top in range(count)]
        truth = all(v[i] > v[j] for v in (_transformed(case, s) for s in steps) for i, j in case.pairs)
        agree += reported == truth
        weak += truth
        strict += case.certify().strict
    return share(
        agree,
        trials,
        EXACT,
        numbers={"strictly robust": strict, "of these strict over nondecreasing transforms": weak},
    )


@claim(
    "PR-5",
    kind="theorem",
    source=SOURCE,
    statement="A selection with a tie across its boundary is robust only if each tied pair is tied at every "
    "level, hence under every transform.",
    control="ties of symmetric players turned accidental by moving two scores against each other",
)
def tie_kinds(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, robust, permanent = _trials(scale, 40, 400), 0, 0
    for _ in range(trials):
        n = int(rng.integers(3, 6))
        member = np.arange(1 << n)[:, None] >> np.arange(n) & 1
        scores = 8.0 * member[:, :2].sum(axis=1) + rng.integers(0, 3, 1 << n)
        swapped = np.array([m & ~3 | (m & 1) << 1 | (m >> 1 & 1) for m in range(1 << n)])
        scores = np.maximum(scores, scores[swapped])  # players 0 and 1 are symmetric
        if broken:  # same value of both, but at different levels
            scores[0b001] += 0.5
            scores[0b010] += 0.25
            scores[1 | (1 << n) - 4] -= 0.25
        values = values_by_definition(scores, Semivalue.banzhaf())
        assert values[0] == values[1]
        certificate = certify_partition(
            UtilityTable.from_array(scores), Semivalue.banzhaf(), TopK(1), ties="weak", radii=()
        )
        robust += certificate.robust
        permanent += (
            not any(level_differences(scores, Semivalue.banzhaf(), 0, 1))
            and (0, 1) in certificate.permanent_ties
        )
    return Evidence(
        robust == permanent == trials,
        permanent / trials,
        1.0,
        0.0,
        EXACT,
        trials,
        quantity="share of ties that are permanent",
    )


@claim(
    "PR-6",
    kind="theorem",
    source=SOURCE,
    statement="Where a level difference D is negative, the transform 1[x >= level] + eps x with eps = |D| / "
    "2d is strictly increasing and moves the pair's difference from d to D / 2.",
    control="eps above |D| / d",
)
def witness_reverses(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    used, worst = 0, Fraction(0)
    for case in cases(rng, _trials(scale, 150, 1500)):
        certificate = case.certify()
        witness = certificate.witness
        if witness is None:
            continue
        used += 1
        i, j = witness.pair
        drop, d = certificate.level_margin or Fraction(0), case.values[i] - case.values[j]
        epsilon = witness.epsilon * (3 if broken else 1)
        levels = np.unique(case.table.scores)
        differences = dict(
            zip(levels[1:].tolist(), level_differences(case.table.scores, case.sv, i, j), strict=True)
        )
        worst = max(worst, abs(differences[witness.level] + epsilon * d - drop / 2))
        if not (np.diff(witness.transform(levels)) > 0).all():
            return Evidence(False, "not increasing", "increasing", 0.0, EXACT, used)
    return Evidence(
        used > 0 and worst == 0, float(worst), 0.0, 0.0, EXACT, used, quantity="largest distance from D / 2"
    )


@claim(
    "PR-7",
    kind="theorem",
    source=SOURCE,
    statement="A level difference is Pr[v(S+i) >= level] - Pr[v(S+j) >= level] for S without both, of mass "
    "q_{|S|+1}: robustness is first-order stochastic dominance.",
    control="S of mass q_{n-1-|S|}, the sizes reversed",
)
def stochastic_dominance(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, worst = _trials(scale, 40, 400), Fraction(0)
    for case in cases(rng, trials):
        n, scores = case.table.n_players, case.table.scores
        q = case.sv.exact_pair_weights(n)
        least = Fraction(1)
        for i, j in case.pairs:
            rest = [m for m in range(1 << n) if not m >> i & 1 and not m >> j & 1]
            for level in np.unique(scores)[1:]:
                mass = [q[n - 1 - m.bit_count()] if broken else q[m.bit_count() + 1] for m in rest]
                least = min(
                    least,
                    sum(
                        (
                            w * (int(scores[m | 1 << i] >= level) - int(scores[m | 1 << j] >= level))
                            for w, m in zip(mass, rest, strict=True)
                        ),
                        Fraction(0),
                    ),
                )
        margin = case.certify().level_margin
        worst = max(worst, abs(least - (margin or Fraction(0))))
    return Evidence(worst == 0, float(worst), 0.0, 0.0, EXACT, trials, quantity="largest difference")


@claim(
    "PR-7b",
    kind="theorem",
    source=SOURCE,
    statement="Robustness to concave (convex) increasing transforms is nonnegativity of all prefix (suffix) "
    "sums of gap times level difference.",
    control="prefix and suffix sums exchanged",
)
def shaped_classes(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, agree, total = _trials(scale, 30, 300), 0, 0
    exchanged = {"concave": "convex", "convex": "concave"}
    for case in cases(rng, trials):
        for shape in ("concave", "convex"):
            asked = exchanged[shape] if broken else shape
            verdict = case.certify(transforms=MonotoneClass(asked)).robust
            least = _worst_pair(case, shape)
            agree += verdict == (least >= -1e-9)
            total += 1
    return share(agree, total, f"{LP}; verdicts must agree at -1e-9")


@claim(
    "PR-8",
    kind="theorem",
    source=SOURCE,
    statement="With slopes of ratio at most kappa a selection is valid iff kappa <= kappa* = min P / M, the "
    "ratio of its positive to its negative sums of gap times level difference.",
    control="gaps between levels taken as equal",
)
def slope_radius(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    used, agree = 0, 0
    for case in cases(rng, _trials(scale, 60, 600)):
        table = case.table
        if broken:
            levels = np.unique(table.scores)
            table = UtilityTable.from_array(np.searchsorted(levels, table.scores).astype(float))
        certificate = case.certify(radii=("slope",))
        radius = (
            certificate.slope_radius
            if not broken
            else min(
                (_ratio(level_differences(table.scores, case.sv, i, j)) for i, j in case.pairs),
                default=math.inf,
            )
        )
        if certificate.robust or radius is None or not 1.001 < radius < 1e6:
            continue
        used += 1
        agree += _worst_pair(case, ratio=0.999 * radius) > 0 > _worst_pair(case, ratio=1.001 * radius)
    return share(agree, used, f"{LP}; sign at 0.999 and 1.001 kappa*", "share with the right signs")


def _ratio(differences: list[Fraction]) -> float:
    negative = -sum((d for d in differences if d < 0), Fraction(0))
    positive = sum((d for d in differences if d > 0), Fraction(0))
    return float(positive / negative) if negative else math.inf


@claim(
    "PR-9",
    kind="theorem",
    source=SOURCE,
    statement="A score margin of 2 eta means that the selection survives every error of the scores up to "
    "eta, and eta is the largest such number.",
    control="errors up to the whole margin 2 eta",
)
def score_radius(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    used, kept, tight = 0, 0, 0
    for case in cases(rng, _trials(scale, 200, 2000), levels=3):
        margin = case.certify(radii=("score",)).score_margin
        if margin is None or margin <= 0:
            continue
        used += 1
        eta = Fraction(margin) / 2
        reach = eta * (2 if broken else 1)
        survived = all(_least_under(case, pair, reach) >= 0 for pair in case.pairs)
        kept += survived
        tight += any(_least_under(case, pair, eta * Fraction(101, 100)) < 0 for pair in case.pairs)
    holds = used > 0 and kept == used and tight == used
    return Evidence(
        holds,
        kept / max(used, 1),
        1.0,
        0.0,
        EXACT,
        used,
        {"broken by 1.01 eta": tight},
        quantity="share that survive",
    )


def _least_under(case: Case, pair: tuple[int, int], eta: Fraction) -> Fraction:
    """Least level difference of a pair when each family of coalitions moves eta against it."""
    i, j = pair
    n = case.table.n_players
    exact = [Fraction(float(x)) for x in case.table.scores]
    q = case.sv.exact_pair_weights(n)
    mine = [(exact[m] - eta, q[m.bit_count()]) for m in range(1 << n) if m >> i & 1 and not m >> j & 1]
    other = [(exact[m] + eta, q[m.bit_count()]) for m in range(1 << n) if m >> j & 1 and not m >> i & 1]
    return min(
        sum((w for x, w in mine if x >= level), Fraction(0))
        - sum((w for x, w in other if x >= level), Fraction(0))
        for level in {x for x, _ in mine + other}
    )
