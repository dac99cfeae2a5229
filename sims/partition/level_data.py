"""Level differences and verdicts as numbers, exact and from samples, for figures and claims."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer
from porism.sims.partition.sampling import sample_table
from porism.theory.partition import (
    OrderedPartition,
    Semivalue,
    UtilityTable,
    certify_partition,
    pair_radius,
    semivalues,
)

__all__ = ["VerdictBounds", "level_differences", "sampled_differences", "verdict_bounds"]

Floats = NDArray[np.float64]
Pairs = Sequence[tuple[int, int]]


def level_differences(table: UtilityTable, sv: Semivalue, pairs: Pairs) -> tuple[Floats, Floats]:
    """Difference of two players in every level game.

    ``D_l(i, j) = psi_i(1[v >= s_l]) - psi_j(1[v >= s_l])``

    Parameters
    ----------
    table : UtilityTable
        Complete table of n players.
    sv : Semivalue
        Semivalue.
    pairs : sequence of (int, int), of length r
        Players i and j of each curve.

    Returns
    -------
    levels : float64 array, shape (L,)
        Distinct scores in increasing order, without the lowest.
    differences : float64 array, shape (r, L)
        D_l of each pair, in [-1, 1]; as a function of the score it is constant between levels and continuous
        from the left.

    Raises
    ------
    TypeError, ValueError
        If the table is not complete or there is no such player.

    Notes
    -----
    Integers are summed, and divided at the end. O(2^n) memory and time a pair after one sort.

    Examples
    --------
    >>> table = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
    >>> level_differences(table, Semivalue.shapley(), [(0, 1)])[1].tolist()
    [[0.5, 0.0, -0.5, 0.0]]
    """
    n, scores = table.n_players, table.scores
    q = sv.exact_pair_weights(n)
    scale = math.lcm(*(x.denominator for x in q))
    weights = np.array([int(x * scale) for x in q], dtype=object if scale >> 40 else np.int64)
    order = np.argsort(-scores, kind="stable")
    by_size = weights[np.bitwise_count(order)]
    last = np.flatnonzero(np.diff(scores[order]))  # of each level but the lowest
    curves = []
    for i, j in pairs:
        side = (order >> integer("i", i, 0, n - 1) & 1) - (order >> integer("j", j, 0, n - 1) & 1)
        curves.append((np.cumsum(side * by_size)[last][::-1] / scale).astype(np.float64))
    return scores[order[last]][::-1], np.array(curves).reshape(len(pairs), len(last))


def sampled_differences(
    table: UtilityTable, pairs: Pairs, delta: float = 0.05
) -> tuple[Floats, Floats, Floats]:
    """Estimated difference of two players in every level game, with its uniform band.

    ``D(i, j) = G_ij - G_ji`` with G_ij the empirical survival function of the scores among the rows with i
    and without j (PR-18).

    Parameters
    ----------
    table : UtilityTable
        Rows sampled from an i.i.d. design of n players.
    pairs : sequence of (int, int), of length r
        Players i and j of each curve.
    delta : float in (0, 1)
        Error probability of all bands of all n(n-1) pairs together.

    Returns
    -------
    levels : float64 array, shape (L,)
        Distinct scores seen, in increasing order.
    differences : float64 array, shape (r, L)
        Estimates in [-1, 1].
    radius : float64 array, shape (r,)
        Half-width of the band of each pair.

    Raises
    ------
    ValueError
        If the table holds no sampled rows, or its rows are permutations or of unknown design.

    Examples
    --------
    >>> from porism.sims.partition import block_game
    >>> rows = sample_table(block_game(4, 2, 0.0), 500, rng=0)
    >>> levels, d, radius = sampled_differences(rows, [(0, 3)])
    >>> levels.tolist(), bool(np.abs(d - [[0, 0.5, 0.5]]).max() < radius[0])
    ([0.0, 1.0, 2.0], True)
    """
    rows = table.sampled
    if rows is None or rows.design not in ("uniform", "msr", "shapley-size"):
        found = None if rows is None else rows.design
        raise ValueError(f"table must hold rows of an i.i.d. design, got design={found!r}; see sample_table")
    members = rows.dense()
    levels = np.unique(rows.scores)
    curves, radii = [], []
    for i, j in pairs:
        sides = [np.sort(rows.scores[members[:, a] & ~members[:, b]]) for a, b in ((i, j), (j, i))]
        counts = [side.size for side in sides]
        survival = [1.0 - np.searchsorted(side, levels) / max(side.size, 1) for side in sides]
        curves.append(survival[0] - survival[1])
        radii.append(pair_radius(rows.n_players, delta, *counts))
    return levels, np.array(curves), np.array(radii)


@dataclass(frozen=True, eq=False)
class VerdictBounds:
    """Three-valued verdicts on one population at several sample sizes.

    Parameters
    ----------
    sizes : tuple of int, length c
        Numbers of rows.
    lower, upper : float64 array, shape (c,)
        Confidence bounds of the least level difference.
    verdicts : tuple of str, length c
        "robust", "not_robust" or "undecided" at each size.
    truth : float
        Least level difference of the selection in the population, at most 0.

    Examples
    --------
    >>> VerdictBounds((100,), np.array([-0.2]), np.array([0.1]), ("undecided",), 0.0).verdicts[0]
    'undecided'
    """

    sizes: tuple[int, ...]
    lower: Floats
    upper: Floats
    verdicts: tuple[str, ...]
    truth: float


def verdict_bounds(
    table: UtilityTable,
    k: int,
    sizes: Sequence[int],
    epsilon: float,
    delta: float = 0.05,
    rng: np.random.Generator | int | None = None,
) -> VerdictBounds:
    """Certify the top k of a population under Banzhaf from samples of growing size.

    Parameters
    ----------
    table : UtilityTable
        Complete table: the population that coalitions are drawn from uniformly.
    k : int
        Number of players selected.
    sizes : sequence of int
        Numbers of rows, each a sample of its own.
    epsilon : float
        Tolerated level difference, >= 0.
    delta : float in (0, 1)
        Error probability of each verdict.
    rng : Generator, int or None
        Source of the samples.

    Returns
    -------
    VerdictBounds
        Bounds and verdicts, with the truth from the complete table.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    References
    ----------
    PR-18 and PR-19 (reconstruction).

    Examples
    --------
    >>> from porism.sims.partition import block_game
    >>> verdict_bounds(block_game(6, 3, 0.5, 0), 3, [200, 20_000], epsilon=0.1, rng=0).verdicts
    ('undecided', 'robust')
    """
    rng, sv = generator(rng), Semivalue.banzhaf()
    ranking = [int(i) for i in np.argsort(-semivalues(table, sv), kind="stable")]
    decision = OrderedPartition([ranking[:k], ranking[k:]])
    options: dict[str, Any] = {"target": "population", "ties": "weak", "epsilon": epsilon, "delta": delta}
    found = [certify_partition(sample_table(table, m, rng=rng), sv, decision, **options) for m in sizes]
    bounds = np.array([[c.statistics["lower"], c.statistics["upper"]] for c in found]).reshape(-1, 2)
    pairs = [(i, j) for i in ranking[:k] for j in ranking[k:]]
    truth = min(0.0, float(level_differences(table, sv, pairs)[1].min()))
    verdicts = tuple(c.verdict for c in found)
    return VerdictBounds(tuple(sizes), bounds[:, 0], bounds[:, 1], verdicts, truth)
