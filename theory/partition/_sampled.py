"""Certificates from sampled rows: of the estimated partition, and of the population behind it."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition._boxes import Boxes
from porism.theory.partition._coalitions import round_scores
from porism.theory.partition._estimators import (
    IntegerEstimator,
    choose_estimator,
    estimate_values,
    integer_estimator,
    member_counts,
    permutation_moves,
    size_factor,
)
from porism.theory.partition._exact import exact_dot
from porism.theory.partition._judge import float_radius, judge
from porism.theory.partition._levels import Levels, Program, limbs_of
from porism.theory.partition._partitions import Partition, check_k, partition
from porism.theory.partition._population import certify_population
from porism.theory.partition._witnesses import make_witness
from porism.theory.partition.certificate import Certificate
from porism.theory.partition.classes import MonotoneClass, SmallCoalitions
from porism.theory.partition.decisions import Decision, OrderedPartition, Sign, Threshold, TopK
from porism.theory.partition.errors import DegenerateUtilityError
from porism.theory.partition.samples import SampledTable
from porism.theory.partition.semivalue import Semivalue
from porism.theory.partition.table import UtilityTable

__all__ = ["certify_sampled", "sampled_rows"]

DENSE_LIMIT = 20_000_000
Floats = NDArray[np.float64]


def sampled_rows(table: UtilityTable) -> SampledTable:
    """Rows of a table: as sampled, or all scored coalitions of a dense one."""
    if table.sampled is not None:
        return table.sampled
    masks = np.flatnonzero(~np.isnan(table.scores))
    rows = UtilityTable.from_pairs(masks, table.scores[masks], table.n_players).sampled
    assert rows is not None
    return rows


def certify_sampled(
    table: UtilityTable,
    sv: Semivalue,
    decision: Decision,
    transforms: MonotoneClass,
    small: SmallCoalitions | None,
    ties: str,
    target: str,
    delta: float,
    epsilon: float,
    estimator: str | NDArray[np.float64],
) -> Certificate:
    """Certify on sampled rows; :func:`certify_partition` is the public door."""
    rows = sampled_rows(table)
    if small is not None:
        raise ValueError(
            f"small must be left out with target={target!r}: rows of small coalitions are used as they are"
        )
    if not rows.n_rows or rows.scores.min() == rows.scores.max():
        raise DegenerateUtilityError(
            "table holds a constant utility: every partition is a tie; check the scorer"
        )
    if transforms.decimals is not None:
        scores, span = round_scores(rows.scores, transforms.decimals), rows.score_range
        if span is not None:
            low, high = round_scores(np.array(span), transforms.decimals)
            span = float(low), float(high)
        rows = replace(rows, scores=scores, score_range=span)
    assumptions = {
        "class": transforms.to_dict(),
        "small": None,
        "missing": "rows",
        "completion": None,
        "target": target,
        "ties": ties,
        "strict": "increasing",
        "decimals": transforms.decimals,
        "semivalue": str(sv),
        "design": rows.design,
        "estimator": choose_estimator(rows, sv, estimator),
    }
    if target == "population":
        return certify_population(
            rows, sv, decision, transforms, ties, delta, epsilon, assumptions, table.sha256
        )
    if rows.design == "shapley-size" and isinstance(decision, Sign | Threshold):
        raise ValueError(
            f"{type(decision).__name__} needs values, and design='shapley-size' gives them up to a constant "
            "only: it never draws nobody or everybody; use TopK, RelativeThreshold or permutations"
        )
    plain = transforms.shape == "increasing" and math.isinf(transforms.max_slope_ratio)
    compares = isinstance(decision, TopK | OrderedPartition)
    k = check_k(decision, rows.n_players) if isinstance(decision, TopK) else rows.n_players // 2
    large = k * (rows.n_players - k) * rows.n_rows > DENSE_LIMIT
    if large and plain and compares and assumptions["estimator"] in ("msr", "permutation"):
        return _certify_packed(rows, sv, decision, ties, assumptions, table.sha256)
    return _certify_dense(rows, sv, decision, transforms, ties, estimator, assumptions, table.sha256)


class SampledLevels(Levels):
    """Level games of an integer estimator: D_l is a cumulated row difference of its weights."""

    def __init__(
        self, scores: Floats, estimator: IntegerEstimator, part: Partition, shape: str, tau: Fraction
    ) -> None:
        self.shape, self.ascending = shape, shape == "concave"
        order = np.argsort(scores, kind="stable")
        self.order = (order if self.ascending else order[::-1]).astype(np.int32)
        self.values = scores[self.order]
        self.count = int(np.count_nonzero(self.values[1:] != self.values[:-1]))
        self._trace = (-1, None)
        n, scale = part.n, estimator.scale
        weights, boundary = estimator.weights, np.zeros((1, scores.size), estimator.weights.dtype)
        if part.kind == "mean":
            boundary, weights, scale = weights.sum(axis=0, keepdims=True), weights * n, scale * n
        self.offset = tau * scale
        if self.offset.denominator > 1:
            factor = self.offset.denominator
            weights, boundary, scale = (
                weights.astype(object) * factor,
                boundary.astype(object),
                scale * factor,
            )
            self.offset = self.offset * factor
        self.weights = np.concatenate([weights, boundary])
        empty = np.zeros((1, n + 1), np.int64)
        self.program = Program(empty, empty, empty, empty, empty, scale, part.rows)

    def trace(self, row: int) -> tuple[NDArray[np.int64], Floats, Floats]:
        """D of one row at every level in sweep order."""
        if self._trace[0] != row:
            a, b = self.program.rows[row]
            d = np.cumsum((self.weights[a] - self.weights[b])[self.order])
            d = -d if self.ascending else d
            n = len(self.weights) - 1
            if self.offset:
                d = d + int(self.offset) * ((a == n) - (b == n))
            where = np.flatnonzero(self.values[1:] != self.values[:-1])
            ends = self.values[where], self.values[where + 1]
            self._trace = (row, (limbs_of(d[where]), np.maximum(*ends), np.minimum(*ends)))
        return self._trace[1]

    @cached_property
    def sweep(self) -> tuple[Any, ...]:
        """As :meth:`Levels.sweep`, row by row from the traces."""
        columns, scale = [], self.program.scale
        where = np.flatnonzero(self.values[1:] != self.values[:-1])
        for row in range(len(self.program.rows)):
            _, high, low = self.trace(row)
            d = self.integers(row)
            at = np.flatnonzero(d == d.min())
            at = at[0] if self.ascending else at[-1]
            terms = (high - low) * np.asarray(
                (d if scale < 1 << 62 else d.astype(object)) / scale, np.float64
            )
            sums = np.cumsum(terms) if self.shape != "increasing" else np.minimum(terms, 0).sum(keepdims=True)
            slack = np.abs(terms).sum() * 4 * (self.count + 8) * 2.0**-53
            columns.append(
                (int(d[at]), where[at], sums.min() - slack, sums.min() + slack, terms.sum(), slack)
            )
        least, at_, low_, high_, total, error = zip(*columns, strict=True)
        wide = limbs_of(np.array(least, object)).T
        return (wide, np.array(at_), np.array(low_), np.array(high_), np.array(total), np.array(error))


def _estimates(rows: SampledTable, estimator: IntegerEstimator) -> list[Fraction]:
    return [exact_dot(limbs_of(w), rows.scores) / estimator.scale for w in estimator.weights]


def _certify_dense(
    rows: SampledTable,
    sv: Semivalue,
    decision: Decision,
    transforms: MonotoneClass,
    ties: str,
    estimator: str | Floats,
    assumptions: dict[str, Any],
    sha: str,
) -> Certificate:
    if rows.n_players * rows.n_rows > 10 * DENSE_LIMIT:
        raise ValueError(
            f"table: {rows.n_players} players by {rows.n_rows} rows are too many for this decision or class; "
            "TopK and OrderedPartition with the plain MonotoneClass() take them"
        )
    whole = integer_estimator(rows, sv, estimator)
    values = _estimates(rows, whole)
    part = partition(decision, values, ties)
    if len(part.rows) * rows.n_rows > 50 * DENSE_LIMIT:
        raise ValueError(
            f"table: {len(part.rows)} pairs of {rows.n_rows} rows are too many for shape or slope classes; "
            "use the plain MonotoneClass() with TopK, or fewer rows"
        )
    span = Fraction(float(rows.scores.max())) - Fraction(float(rows.scores.min()))
    levels = SampledLevels(rows.scores, whole, part, transforms.shape, part.tau / span)
    boxes = Boxes(rows.scores, rows.scores, rows.scores)
    found = judge(levels, part, boxes, transforms, "increasing")
    plain = transforms.shape == "increasing" and math.isinf(transforms.max_slope_ratio)
    row = found.row if plain or found.radius_row is None else found.radius_row
    witness = None if found.robust else make_witness(levels, part, boxes, transforms, decision, row)
    pairs = part.kind == "pairs"
    return Certificate(
        verdict="robust" if found.robust else "not_robust",
        strict=found.strict,
        decision=decision,
        members=part.blocks[0],
        blocks=part.blocks,
        semivalues=tuple(float(v) for v in values),
        base_gap=float(min(part.gaps)),
        level_margin=found.margin,
        level=found.level,
        pair=part.pair(found.row),
        slope_radius=float_radius(found.radius) if pairs else None,
        slope_pair=part.pair(found.radius_row) if pairs and found.radius_row is not None else None,
        score_margin=None,
        permanent_ties=tuple(
            p for p, g in zip(part.rows, part.gaps, strict=True) if pairs and g == 0 and found.robust
        ),
        witness=witness,
        assumptions=assumptions,
        statistics={"m": rows.n_units},
        table_sha256=sha,
    )


def _certify_packed(
    rows: SampledTable, sv: Semivalue, decision: Decision, ties: str, assumptions: dict[str, Any], sha: str
) -> Certificate:
    """Many players: one packed sweep for the margin; radii and witnesses need pairs and are left out."""
    from porism.kernels.coalition import packed_sweep

    n = rows.n_players
    gain = loss = np.zeros(0, np.int64)
    held = np.zeros(n, np.int64)
    values = estimate_values(rows, assumptions["estimator"])
    if assumptions["estimator"] == "permutation":
        gain, loss = permutation_moves(rows)
    else:
        held = member_counts(rows)
    part_values = [Fraction(float(v)) for v in values]
    ranking = partition_blocks(decision, part_values, ties)
    block = np.empty(n, np.int64)
    for number, players in enumerate(ranking):
        block[list(players)] = number
    order = np.argsort(rows.scores, kind="stable")[::-1]
    sweep = packed_sweep(order, rows.scores[order], rows.members, gain, loss, held, block)
    where, i, j = (int(x) for x in sweep[1:])
    margin = _pair_difference(rows, order[: where + 1], gain, loss, i, j)
    boundary = [min(values[list(a)]) - max(values[list(b)]) for a, b in pairwise(ranking)]
    return Certificate(
        verdict="robust" if margin >= 0 else "not_robust",
        strict=bool(margin >= 0 and min(boundary) > 0),
        decision=decision,
        members=ranking[0],
        blocks=ranking,
        semivalues=tuple(map(float, values)),
        base_gap=float(min(boundary)),
        level_margin=margin,
        level=float(rows.scores[order[where]]),
        pair=(i, j),
        slope_radius=math.inf if margin >= 0 else None,
        slope_pair=None,
        score_margin=None,
        permanent_ties=(),
        witness=None,
        assumptions=assumptions,
        statistics={"m": rows.n_units},
        table_sha256=sha,
    )


def partition_blocks(decision: Decision, values: list[Fraction], ties: str) -> tuple[tuple[int, ...], ...]:
    """Blocks of a comparison decision without the k(n-k) rows."""
    if isinstance(decision, TopK) and 1 <= decision.k < len(values):
        ranking = sorted(range(len(values)), key=lambda i: (-values[i], i))
        a, b = ranking[decision.k - 1], ranking[decision.k]
        if values[a] > values[b]:
            return tuple(sorted(ranking[: decision.k])), tuple(sorted(ranking[decision.k :]))
    return partition(decision, values, ties).blocks


def _pair_difference(
    rows: SampledTable,
    top: NDArray[np.int64],
    gain: NDArray[np.int64],
    loss: NDArray[np.int64],
    i: int,
    j: int,
) -> Fraction:
    """Exact level difference of one pair over the rows at or above a level."""
    if gain.size:
        return Fraction(
            int(
                (gain[top] == i).sum()
                - (loss[top] == i).sum()
                - (gain[top] == j).sum()
                + (loss[top] == j).sum()
            ),
            rows.n_units,
        )
    m, r, out = rows.n_rows, len(top), []
    for player in (i, j):
        bits = rows.members[:, player >> 3] >> (player & 7) & 1
        inside, count = int(bits.sum()), int(bits[top].sum())
        out.append(Fraction(count, inside) - Fraction(r - count, m - inside))
    return (out[0] - out[1]) * size_factor(rows)
