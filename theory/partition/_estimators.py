"""Linear estimators of semivalues from sampled rows, as exact integer weights (PR-17).

``psi_i = sum_r W[i, r] v_r / scale`` with rows of W that sum to the same constant, so that adding a
constant to all scores leaves the ranking alone and the level criterion holds word for word.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array
from porism.theory.partition._exact import Grid
from porism.theory.partition.errors import ShiftVariantEstimatorError
from porism.theory.partition.samples import SampledTable
from porism.theory.partition.semivalue import Semivalue

__all__ = [
    "FITTING",
    "IntegerEstimator",
    "choose_estimator",
    "design_fits",
    "estimate_values",
    "integer_estimator",
    "member_counts",
    "permutation_moves",
    "size_factor",
]

NAMES = ("auto", "msr", "permutation", "stratified")
FITTING = (
    "'uniform' samples Banzhaf, 'msr' with inclusion=w weighted Banzhaf, 'shapley-size' and "
    "'permutation' Shapley"
)


@dataclass(frozen=True)
class IntegerEstimator:
    """Weights W (n, m) of int64 or Python integers on one denominator."""

    name: str
    weights: NDArray[Any]
    scale: int


def choose_estimator(rows: SampledTable, sv: Semivalue, estimator: str | NDArray[np.float64]) -> str:
    """The estimator's name; "auto" takes the one of the design."""
    if not isinstance(estimator, str):
        return "matrix"
    if estimator not in NAMES:
        raise ValueError(f"estimator must be one of {NAMES} or a matrix (n, m), got {estimator!r}")
    if estimator == "auto":
        if rows.design != "unknown" and not design_fits(rows, sv):
            raise ValueError(
                f"design={rows.design!r} does not fit {sv}: {FITTING}; or name what to certify, such as "
                "estimator='msr' for mean in minus mean out"
            )
        return "permutation" if rows.design == "permutation" else "msr"
    if estimator == "permutation" and rows.design != "permutation":
        raise ValueError(
            f"estimator 'permutation' needs design='permutation', got design={rows.design!r}; use 'msr'"
        )
    return estimator


def design_fits(rows: SampledTable, sv: Semivalue) -> bool:
    """Whether the design's law, given one of two players is in, is the one of the semivalue."""
    if rows.design in ("shapley-size", "permutation"):
        return sv.family == "shapley"
    w = sv.parameters[0] if sv.family == "wbanzhaf" else Fraction(1, 2)
    inclusion = rows.inclusion or 0.5 if rows.design == "msr" else 0.5
    return (
        rows.design in ("uniform", "msr") and sv.family in ("banzhaf", "wbanzhaf") and float(w) == inclusion
    )


def size_factor(rows: SampledTable) -> Fraction:
    """What mean in minus mean out must be multiplied by: ``H_{n-1} / 2`` under Shapley sizes, else 1.

    Exact up to 1000 players, where the fraction has hundreds of digits, and rounded to float64 beyond.
    """
    if rows.design != "shapley-size":
        return Fraction(1)
    terms = [Fraction(1, 2 * s) for s in range(1, rows.n_players)]
    return sum(terms, Fraction(0)) if rows.n_players <= 1000 else Fraction(math.fsum(terms))


def integer_estimator(
    rows: SampledTable, sv: Semivalue, estimator: str | NDArray[np.float64]
) -> IntegerEstimator:
    """The estimator as integers; O(n m) memory."""
    name = choose_estimator(rows, sv, estimator)
    if name == "matrix":
        return _from_matrix(finite_array("estimator", estimator), rows)
    if name == "permutation":
        gain, loss = permutation_moves(rows)
        weights = np.zeros((rows.n_players, rows.n_rows), np.int64)
        at = np.arange(rows.n_rows)
        weights[gain[gain >= 0], at[gain >= 0]] += 1
        weights[loss[loss >= 0], at[loss >= 0]] -= 1
        return IntegerEstimator(name, weights, rows.n_units)
    members = rows.dense()
    if name == "stratified":
        return _stratified(members, sv)
    inside = member_counts(rows)
    m = rows.n_rows
    scale = math.lcm(*(int(c) * (m - int(c)) for c in inside))
    kind: Any = np.int64 if scale * m < 1 << 31 else object
    weights = np.empty((rows.n_players, m), kind)
    for i, c in enumerate(map(int, inside)):
        weights[i] = -(scale // (m - c))
        weights[i, members[:, i]] = scale // c
    factor = size_factor(rows)
    if factor != 1:
        weights, scale = weights.astype(object) * factor.numerator, scale * factor.denominator
    return IntegerEstimator(name, weights, scale)


def member_counts(rows: SampledTable) -> NDArray[np.int64]:
    """Rows that hold each player; refuses a player that is in all rows or in none."""
    from porism.kernels.coalition import column_sums

    count, _ = column_sums(rows.members, rows.scores, rows.n_players)
    bad = np.flatnonzero((count == 0) | (count == rows.n_rows))
    if bad.size:
        word = "with" if count[bad[0]] == 0 else "without"
        raise ValueError(
            f"coalitions: player {bad[0]} has no rows {word} it, so mean in minus mean out is undefined; "
            "sample more rows or drop the player"
        )
    return count


def estimate_values(rows: SampledTable, name: str) -> NDArray[np.float64]:
    """Estimates by mean in minus mean out, or by permutation marginals, in float64 and O(n) memory."""
    from porism.kernels.coalition import column_sums

    n, m = rows.n_players, rows.n_rows
    if name == "permutation":
        gain, loss = permutation_moves(rows)
        up = np.bincount(gain[gain >= 0], rows.scores[gain >= 0], n)
        return np.asarray(up - np.bincount(loss[loss >= 0], rows.scores[loss >= 0], n)) / rows.n_units
    inside = member_counts(rows).astype(np.float64)
    _, total = column_sums(rows.members, rows.scores, n)
    difference = total * (m / (inside * (m - inside))) - math.fsum(rows.scores) / (m - inside)
    return difference * float(size_factor(rows))


def permutation_moves(rows: SampledTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per row of a permutation design: the player just added (-1: none) and the player added next."""
    unit, members = rows.unit, rows.members
    follows = np.concatenate(([False], unit[1:] == unit[:-1]))
    size = np.bitwise_count(members).sum(axis=1)
    step = np.where(follows, size - np.concatenate(([0], size[:-1])), 0)
    if (
        (step[follows] != 1).any()
        or (size[~follows] != 0).any()
        or (np.count_nonzero(~follows) != rows.n_units)
    ):
        raise ValueError(
            "design='permutation' needs every prefix of each permutation in order, from the empty coalition "
            "on, with one unit a permutation; use design='unknown' for other rows"
        )
    ends = np.concatenate((unit[1:] != unit[:-1], [True]))
    if (size[ends] != rows.n_players).any():
        raise ValueError(
            "design='permutation' needs prefixes up to all players; set truncated=True and design='unknown'"
        )
    new = members.copy()
    new[1:] ^= members[:-1]
    gain = np.full(rows.n_rows, -1, np.int64)
    at = np.flatnonzero(follows)
    byte = np.argmax(new[at] != 0, axis=1)
    gain[at] = 8 * byte + np.log2(new[at, byte]).astype(np.int64)
    loss = np.concatenate((np.where(ends[:-1], -1, gain[1:]), [-1]))
    return gain, loss


def _stratified(members: NDArray[np.bool_], sv: Semivalue) -> IntegerEstimator:
    """Mean by size with the player minus mean by size without it, weighted by the semivalue's masses."""
    m, n = members.shape
    sizes = members.sum(axis=1)
    mass = [math.comb(n - 1, s) * p for s, p in enumerate(sv.exact_weights(n))]
    exact: list[list[Fraction]] = []
    for i in range(n):
        row = [Fraction(0)] * m
        for s, share in enumerate(mass):
            for inside, size in ((True, s + 1), (False, s)):
                at = np.flatnonzero((members[:, i] == inside) & (sizes == size))
                if share and not at.size:
                    raise ValueError(
                        f"coalitions: player {i} has no rows {'with' if inside else 'without'} it of size "
                        f"{size}; sample more rows, or use estimator='msr'"
                    )
                for r in at:
                    row[r] += share / at.size * (1 if inside else -1)
        exact.append(row)
    scale = math.lcm(*(x.denominator for row in exact for x in row))
    return IntegerEstimator(
        "stratified", np.array([[int(x * scale) for x in row] for row in exact], object), scale
    )


def _from_matrix(matrix: NDArray[np.float64], rows: SampledTable) -> IntegerEstimator:
    if matrix.shape != (rows.n_players, rows.n_rows):
        raise ValueError(
            f"estimator must be a matrix of shape (n, m) = ({rows.n_players}, {rows.n_rows}), "
            f"got shape {matrix.shape}"
        )
    sums = np.array([math.fsum(row) for row in matrix])
    slack = 1e-12 * np.abs(matrix).sum(axis=1).max()
    if np.ptp(sums) > slack:
        raise ShiftVariantEstimatorError(
            f"estimator rows must sum to one constant, got sums from {sums.min():.6g} to "
            f"{sums.max():.6g}: adding a "
            "constant to all scores changes the ranking; normalise each player's weights (mean in "
            "minus mean out)"
        )
    grid = Grid(matrix.ravel())
    whole = grid.integers(matrix.ravel()).reshape(matrix.shape)
    if np.abs(whole).max() > (1 << 60) // max(rows.n_rows, 1):  # cumulated differences would leave int64
        whole = whole.astype(object)
    unit = grid.fraction([1])
    return IntegerEstimator(
        "matrix", whole * unit.numerator if unit.numerator > 1 else whole, unit.denominator
    )
