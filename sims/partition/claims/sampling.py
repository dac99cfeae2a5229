"""Claims on sampled tables: PR-17, PR-18, PR-19."""

import math

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.partition.claims._oracles import lp_minimum, share
from porism.sims.partition.games import block_game, modular_game, random_game, saturating_game
from porism.sims.partition.sampling import sample_table
from porism.theory.partition import (
    OrderedPartition,
    Semivalue,
    TopK,
    UtilityTable,
    certify_partition,
    pair_radius,
    permutation_radius,
    player_radius,
    semivalues,
)

__all__ = ["sample_conditional", "three_valued_verdict", "uniform_bands"]

SOURCE = "reconstruction; Dvoretzky-Kiefer-Wolfowitz-Massart inequality with a union bound"
DELTA = 0.1


@claim(
    "PR-17",
    kind="theorem",
    source="reconstruction",
    statement="For a linear estimator whose rows sum to one constant, the level criterion on the rows "
    "decides robustness of the estimated selection (mean in minus mean out, by linear programming).",
    control="plain Horvitz-Thompson weights with random counts, and the constant that a transform may add",
)
def sample_conditional(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, agree, shifted = 40 if scale == "smoke" else 400, 0, 0
    for _ in range(trials):
        n, m = 4, int(rng.integers(8, 14))
        members = rng.random((m, n)) < 0.5
        members[0], members[1] = False, True
        scores = rng.integers(0, 6, m).astype(float)
        scores[:2] = 0.0, 5.0
        count = members.sum(axis=0)
        ours = members / count - ~members / (m - count)
        weights: NDArray[np.float64] = np.asarray(members * (4.0 / m) if broken else ours, np.float64).T
        values = weights @ scores
        ranking = np.argsort(-values, kind="stable")
        k = int(rng.integers(1, n))
        verdict = _row_criterion(weights, scores, ranking, k)
        if not broken:
            table = UtilityTable.from_samples(members, scores, design="uniform")
            verdict = certify_partition(
                table, Semivalue.banzhaf(), TopK(k), target="estimate", ties="weak"
            ).robust
            ranking = np.array(sorted(range(n), key=lambda i: (-round(values[i], 12), i)))
        least = math.inf
        for i in ranking[:k]:
            for j in ranking[k:]:
                difference = weights[i] - weights[j]
                least = min(least, lp_minimum(scores, difference.tolist()))
                if abs(difference.sum()) > 1e-12:  # phi + c for large c of the wrong sign
                    least = -math.inf
        agree += verdict == (least >= -1e-9)
        shifted += math.isinf(least)
    return share(
        agree,
        trials,
        "verdicts against linear programs, sign at -1e-9",
        numbers={"rankings that a constant changes": shifted},
    )


def _row_criterion(
    weights: NDArray[np.float64], scores: NDArray[np.float64], ranking: NDArray[np.int64], k: int
) -> bool:
    """Level criterion of any linear weights, rows above each level summed."""
    for level in np.unique(scores)[1:]:
        value = weights[:, scores >= level].sum(axis=1)
        if value[ranking[:k]].min() < value[ranking[k:]].max() - 1e-12:
            return False
    return True


@claim(
    "PR-18",
    kind="statistical",
    source=SOURCE,
    statement="The pair, player and permutation bands hold at all levels and all players at once "
    "with probability "
    f"at least 1 - {DELTA}.",
    control="radii divided by four",
)
def uniform_bands(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, m, n = 120 if scale == "smoke" else 800, 200, 6
    shrink = 0.25 if broken else 1.0
    table = random_game(n, 20, rng)
    shapley, banzhaf = Semivalue.shapley(), Semivalue.banzhaf()
    failures = {"pair": 0, "player": 0, "permutation": 0}
    levels = np.unique(table.scores)[1:]
    games = [UtilityTable.from_array((table.scores >= level).astype(float)) for level in levels]
    truth = {sv.family: np.array([semivalues(g, sv) for g in games]) for sv in (shapley, banzhaf)}
    for _ in range(runs):
        rows = sample_table(table, m, design="uniform", rng=rng).sampled
        assert rows is not None
        members = rows.dense()
        above = rows.scores[None] >= levels[:, None]
        failures["pair"] += _pair_fails(members, above, truth["banzhaf"], shrink)
        sums = _member_sums(table, levels, n)
        estimate = 4.0 / m * (above.astype(float) @ members)
        failures["player"] += bool((np.abs(estimate - sums) > shrink * player_radius(n, DELTA, m, 4.0)).any())
        walk = sample_table(table, m, design="permutation", rng=rng).sampled
        assert walk is not None
        found = _permutation_values(walk.dense(), walk.scores[None] >= levels[:, None], m)
        wrong = np.abs(found - truth["shapley"]) > shrink * permutation_radius(n, DELTA, m)
        failures["permutation"] += bool(wrong.any())
    worst = max(failures.values())
    limit = _binomial_limit(runs, DELTA, 1e-6)
    return Evidence(
        worst <= limit,
        worst / runs,
        DELTA,
        limit / runs - DELTA,
        "one-sided exact binomial test at 1e-6",
        runs,
        {f"{k} failures": v for k, v in failures.items()},
        quantity="largest failure rate of the three bands",
    )


def _pair_fails(
    members: NDArray[np.bool_], above: NDArray[np.bool_], truth: NDArray[np.float64], shrink: float
) -> bool:
    n = members.shape[1]
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            with_i, with_j = members[:, i] & ~members[:, j], members[:, j] & ~members[:, i]
            radius = pair_radius(n, DELTA, int(with_i.sum()), int(with_j.sum()))
            if math.isinf(radius):
                continue
            d = above[:, with_i].mean(axis=1) - above[:, with_j].mean(axis=1)
            if (np.abs(d - (truth[:, i] - truth[:, j])) > shrink * radius).any():
                return True
    return False


def _member_sums(table: UtilityTable, levels: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """A_i of each level game with Banzhaf weights, the empty and the full coalition included as sampled."""
    masks = np.arange(1 << n)
    member = (masks[:, None] >> np.arange(n) & 1).astype(float)
    return np.array([(table.scores >= level) @ member for level in levels]) * 2.0 ** -(n - 2)


def _permutation_values(members: NDArray[np.bool_], above: NDArray[np.bool_], m: int) -> NDArray[np.float64]:
    n = members.shape[1]
    steps = members.reshape(m, n + 1, n)
    added = (steps[:, 1:] & ~steps[:, :-1]).argmax(axis=2)
    reached = above.reshape(len(above), m, n + 1).astype(float)
    gained = reached[:, :, 1:] - reached[:, :, :-1]
    return np.array([np.bincount(added.ravel(), g.ravel(), n) for g in gained]) / m


def _binomial_limit(runs: int, probability: float, error: float) -> int:
    """Largest count that a binomial exceeds with probability at most ``error``."""
    from scipy.stats import binom

    return int(binom.isf(error, runs, probability))


@claim(
    "PR-19",
    kind="statistical",
    source=SOURCE,
    statement="The three-valued verdict is wrong with probability at most delta, also where the truth is "
    "close to the boundary.",
    control="the point estimate taken as verdict, without its radius",
)
def three_valued_verdict(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    runs, m, n, k = (100 if scale == "smoke" else 400), 1500, 6, 3
    wrong, answered = 0, 0
    banzhaf = Semivalue.banzhaf()
    # equal players: no level difference at all, on which a point estimate is negative half the time
    games = [
        modular_game(np.ones(n)),
        saturating_game(np.ones(n)),
        block_game(n, k, 2.0, rng),
        random_game(n, 4, rng),
    ]
    for number in range(runs):
        table = games[number % len(games)]
        sampled = sample_table(table, m, design="uniform", rng=rng)
        found = certify_partition(sampled, banzhaf, TopK(k), target="population", delta=DELTA, ties="weak")
        truth = _true_margin(table, found.members)
        epsilon = max(0.0, -truth - 1e-6)  # the truth is 1e-6 on the wrong side of the boundary
        robust = certify_partition(
            sampled, banzhaf, TopK(k), target="population", delta=DELTA, epsilon=epsilon, ties="weak"
        ).robust
        fails = found.verdict == "not_robust"
        if broken:
            point = _point_margin(sampled, found.members)
            robust, fails = point >= -epsilon, point < 0
        answered += found.verdict != "undecided"
        wrong += (robust and truth < -epsilon) or (fails and truth >= 0)
    limit = _binomial_limit(runs, DELTA, 1e-6)
    return Evidence(
        wrong <= limit,
        wrong / runs,
        DELTA,
        limit / runs - DELTA,
        "one-sided exact binomial test at 1e-6",
        runs,
        {"decided without tolerance": answered},
        quantity="share of wrong verdicts",
    )


def _true_margin(table: UtilityTable, members: tuple[int, ...]) -> float:
    rest = [i for i in range(table.n_players) if i not in members]
    margin = certify_partition(
        table, Semivalue.banzhaf(), OrderedPartition([members, rest]), ties="weak", radii=()
    ).level_margin
    return float(margin or 0)


def _point_margin(table: UtilityTable, members: tuple[int, ...]) -> float:
    rows = table.sampled
    assert rows is not None
    held = rows.dense()
    found = []
    for level in np.unique(rows.scores)[1:]:
        above = rows.scores >= level
        for i in members:
            for j in range(rows.n_players):
                if j not in members:
                    a, b = held[:, i] & ~held[:, j], held[:, j] & ~held[:, i]
                    found.append(float(above[a].mean() - above[b].mean()))
    return min(found)
