"""The exact criterion: slope radius, verdict and strictness of all rows of a partition.

For a row with difference d at the table itself and worst extreme sum E <= 0 of the class, the least
value over slopes in [1, kappa] is ``d + (kappa - 1) E``; hence the radius ``kappa* = 1 + d / -E``, and
the class holds exactly if ``kappa <= kappa*`` (PR-3, PR-7b, PR-8, PR-12). Floats only choose which rows
are looked at; what is reported comes from rationals.
"""

import math
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from porism.theory.partition._boxes import Boxes
from porism.theory.partition._levels import Levels
from porism.theory.partition._partitions import Partition
from porism.theory.partition.classes import MonotoneClass

__all__ = ["Judgement", "float_radius", "judge"]

Radius = Fraction | float
TINY = 1e-280


@dataclass(frozen=True)
class Judgement:
    """Outcome of the criterion on one set of boxes."""

    robust: bool
    strict: bool
    margin: Fraction
    level: float
    row: int
    radius: Radius
    radius_row: int | None


def judge(levels: Levels, part: Partition, boxes: Boxes, transforms: MonotoneClass, strict: str) -> Judgement:
    """Decide all rows at once; exact, whatever the floats of the sweep say."""
    margin, level, row = levels.margin()
    _, _, worst_low, worst_high, total, error = levels.sweep
    rows = len(part.rows)

    def gap(r: int) -> Fraction:
        return part.gaps[r] if boxes.plain else levels.total(r)

    may_fail = np.ones(rows, bool)
    if transforms.shape == "increasing":
        least = [levels.program.integer(x) for x in levels.sweep[0]]
        may_fail = np.array([x < 0 for x in least])
        worst_low, worst_high = np.where(may_fail, worst_low, 0.0), np.where(may_fail, worst_high, 0.0)
    with np.errstate(over="ignore"):  # a radius beyond float64 is decided by the rationals below
        low = np.array([_radius(total[r] - error[r], worst_low[r], worst_high[r]) for r in range(rows)])
        high = np.array([_radius(total[r] + error[r], worst_high[r], worst_low[r]) for r in range(rows)])
    near_underflow = may_fail & (np.abs(worst_low) < TINY)
    low[near_underflow], high[near_underflow] = -math.inf, math.inf
    radius: Radius = math.inf
    radius_row: int | None = None
    for r in map(int, np.flatnonzero((low <= high.min()) & may_fail)):
        worst, d = levels.worst(r), gap(r)
        value: Radius = 1 + d / -worst if worst < 0 else math.inf
        if value < radius or (
            value == radius < math.inf and radius_row is not None and part.pair(r) < part.pair(radius_row)
        ):
            radius, radius_row = value, r
    ratio = transforms.exact_ratio
    if boxes.unbounded and margin < 0:
        radius, radius_row = Fraction(0), row
    robust = radius == math.inf if ratio is None else ratio <= radius
    must = [r for r in range(rows) if part.must_be_strict(r)]
    if strict == "weakly-increasing" and ratio is None:
        is_strict = robust and all(_all_positive(levels, r) for r in must)
    else:
        is_strict = robust and all(total[r] > error[r] or gap(r) > 0 for r in must)
        if ratio is not None and ratio > 1:  # at kappa = kappa* a row may reach 0
            edge = [r for r in must if low[r] <= float(ratio)]
            is_strict = is_strict and all(gap(r) + (ratio - 1) * levels.worst(r) > 0 for r in edge)
    return Judgement(robust, is_strict, margin, level, row, radius, radius_row)


def float_radius(radius: Radius) -> float:
    """A slope radius as float64; one beyond its range is still not infinite."""
    return float(radius if radius == math.inf else min(radius, Fraction(sys.float_info.max)))


def _radius(d: float, worst: float, other: float) -> float:
    """Bound of ``1 + d / -E`` for E between two bounds, taking the end that d's sign asks for."""
    end = worst if d >= 0 else other
    if end < 0:
        return 1 + d / -end
    return math.inf if d >= 0 else -math.inf


def _all_positive(levels: Levels, row: int) -> bool:
    """All level games, or all prefix (suffix) sums, of one row above zero."""
    if levels.shape == "increasing":
        return levels.program.integer(levels.sweep[0][row]) > 0
    return levels.least_partial(row)[0] > 0
