"""Witnesses: an admissible transform, and scores of the free coalitions, under which a pair is reversed."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.theory.partition.boxes import Boxes
from porism.theory.partition.classes import MonotoneClass, exact_ratio
from porism.theory.partition.decisions import Decision, Partition, partition
from porism.theory.partition.levels import Levels
from porism.theory.partition.semivalue import Semivalue, exact_semivalues
from porism.theory.partition.table import UtilityTable

__all__ = ["WitnessUtility", "make_witness"]

Floats = NDArray[np.float64]
Points = list[tuple[float, Fraction]]
STEEPEST = 1 << 20


@dataclass(frozen=True)
class WitnessUtility:
    """A utility of the admissible class that breaks the decision.

    Parameters
    ----------
    level : float
        The level at which the transform jumps (or bends).
    epsilon : Fraction
        Slope of the transform away from the jump; any slope in (0, |D|/d) reverses the pair too.
    pair : tuple of int
        The two players whose order it reverses, or the one player it moves across a threshold.
    transform_points : tuple of (float, float)
        The transform, linear between the points and of slope epsilon beyond.
    decision : Decision
        The decision it breaks.
    completion : tuple of (int, float) or None
        Mask and score of every coalition that the class leaves free.
    decimals : int or None
        Scores are rounded to so many decimals before they are transformed, as the class says.

    References
    ----------
    PR-6 (reconstruction).

    Examples
    --------
    >>> from porism.theory.partition import TopK, certify_partition
    >>> t = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
    >>> w = certify_partition(t, Semivalue.shapley(), TopK(1)).witness
    >>> w.level, w.epsilon, w.check(t, Semivalue.shapley())[2]
    (10.0, Fraction(1, 4), -0.25)
    """

    level: float
    epsilon: Fraction
    pair: tuple[int, ...]
    transform_points: tuple[tuple[float, float], ...]
    decision: Decision
    completion: tuple[tuple[int, float], ...] | None = None
    decimals: int | None = None

    def transform(self, x: ArrayLike) -> Floats:
        """Transformed scores, of the shape of ``x``."""
        values = np.asarray(x, dtype=np.float64)
        px, py = (np.array(column) for column in zip(*self.transform_points, strict=True))
        at = np.clip(np.searchsorted(px, values, side="right") - 1, 0, px.size - 2)
        slope = (py[at + 1] - py[at]) / (px[at + 1] - px[at])
        inside = np.minimum(py[at] + slope * (values - px[at]), py[at + 1])
        steep = float(self.epsilon)
        out = np.where(values < px[0], py[0] + steep * (values - px[0]), inside)
        return np.where(values >= px[-1], py[-1] + steep * (values - px[-1]), out)

    def apply(self, table: UtilityTable) -> UtilityTable:
        """The table under this utility: rounded, free coalitions filled in, then all scores transformed."""
        scores = np.array(table.rounded(self.decimals).scores)
        if self.completion is not None:
            masks = [mask for mask, _ in self.completion]
            scores[masks] = [score for _, score in self.completion]
        return UtilityTable.from_array(self.transform(scores), max_players=table.n_players)

    def check(self, table: UtilityTable, sv: Semivalue) -> tuple[Floats, tuple[int, ...], float]:
        """Values under this utility, the pair, and its difference, rounded once.

        Below 0 the pair is reversed; for one player it is its value minus the threshold.
        """
        values = exact_semivalues(self.apply(table).scores, sv, table.n_players)
        part = partition(self.decision, values, "weak")
        if len(self.pair) == 2:
            gap = values[self.pair[0]] - values[self.pair[1]]
        else:
            (player,) = self.pair
            shift = sum(values) / len(values) if part.kind == "mean" else part.tau
            gap = values[player] - shift
        return np.array([float(v) for v in values]), self.pair, float(gap)

    def partition(self, table: UtilityTable, sv: Semivalue) -> tuple[tuple[int, ...], ...]:
        """The blocks that the decision would choose under this utility."""
        return partition(
            self.decision, exact_semivalues(self.apply(table).scores, sv, table.n_players), "weak"
        ).blocks

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the decision (the certificate holds it)."""
        return {
            "level": self.level,
            "epsilon": str(self.epsilon),
            "pair": list(self.pair),
            "transform_points": [list(point) for point in self.transform_points],
            "completion": None if self.completion is None else [list(item) for item in self.completion],
            "decimals": self.decimals,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], decision: Decision) -> "WitnessUtility":
        """The witness of :meth:`to_dict`."""
        completion = data["completion"]
        return cls(
            data["level"],
            Fraction(data["epsilon"]),
            tuple(data["pair"]),
            tuple((x, y) for x, y in data["transform_points"]),
            decision,
            None if completion is None else tuple((int(m), s) for m, s in completion),
            data["decimals"],
        )


def make_witness(
    levels: Levels, part: Partition, boxes: Boxes, transforms: MonotoneClass, decision: Decision, row: int
) -> WitnessUtility:
    """The witness for a failing row: a step, a bend, or slopes as steep as the class allows where D < 0."""
    completion = None
    if not boxes.plain:
        scores = boxes.completed(part.rows[row], part.n)
        zero = np.zeros(scores.size, bool)
        open_ = np.flatnonzero(
            (zero if boxes.free is None else boxes.free) | (zero if boxes.unknown is None else boxes.unknown)
        )
        completion = tuple((int(m), float(scores[m])) for m in open_)
        levels = Levels(Boxes(scores, scores, scores), levels.program, transforms.shape)
    gap = levels.total(row)
    numbers, high, low = levels.trace(row)
    ratio = exact_ratio(transforms)
    if transforms.shape == "increasing":
        ints = levels.integers(row)
        level = float(high[ints == ints.min()].min())
        drop = Fraction(int(ints.min()), levels.program.scale)
    else:
        drop, at = levels.least_partial(row)
        level = float((high if transforms.shape == "concave" else low)[at])
    sigma = np.unique(levels.values)
    epsilon = Fraction(1)
    if ratio is None and gap > 0:
        epsilon = abs(drop) / (2 * gap)
        fair = (
            1 / (Fraction(float(sigma[-1])) - Fraction(float(sigma[0])))
            if transforms.shape == "increasing"
            else 1
        )
        if epsilon > fair * STEEPEST:  # two values almost tie: beside such slopes float64 would lose the jump
            epsilon = Fraction(fair)
    if transforms.shape != "increasing":
        points = _bend(transforms.shape, sigma, level, epsilon, ratio)
    elif ratio is None:
        before = float(sigma[np.searchsorted(sigma, level) - 1])
        corners = sorted({float(sigma[0]), before, level, float(sigma[-1])})
        base = Fraction(
            corners[0]
        )  # phi(lowest) = 0, so that rounding is relative to the range of the scores
        points = [(x, (x >= level) + epsilon * (Fraction(x) - base)) for x in corners]
    else:
        points = _staircase(numbers[-1] < 0, high, low, ratio)
    if transforms.range_normalised:
        (x0, y0), (x1, y1) = points[0], points[-1]
        factor = (Fraction(x1) - Fraction(x0)) / (y1 - y0)
        points = [(x, Fraction(x0) + (y - y0) * factor) for x, y in points]
        epsilon *= factor
    return WitnessUtility(
        level,
        epsilon,
        part.pair(row),
        tuple((x, float(y)) for x, y in points),
        decision,
        completion,
        transforms.decimals,
    )


def _bend(shape: str, sigma: Floats, level: float, epsilon: Fraction, ratio: Fraction | None) -> Points:
    """``min(x, level)`` or ``max(x, level)`` as steep as the ratio allows, plus epsilon x, less its least."""
    steep = Fraction(1) if ratio is None else ratio - 1
    bend = min if shape == "concave" else max
    corners = [Fraction(x) for x in sorted({float(sigma[0]), level, float(sigma[-1])})]
    rise, start = Fraction(level) - corners[0], corners[0]
    heights = [steep * bend(x - start, rise) + epsilon * (x - start) for x in corners]
    return [(float(x), y - heights[0]) for x, y in zip(corners, heights, strict=True)]


def _staircase(steep: NDArray[np.bool_], high: Floats, low: Floats, ratio: Fraction) -> Points:
    """Slope ``ratio`` where the level game is negative, 1 elsewhere; corners only where the slope changes."""
    order = np.argsort(low)
    points, y = [(float(low[order[0]]), Fraction(0))], Fraction(0)
    for k, r in enumerate(order):
        y += (ratio if steep[r] else 1) * (Fraction(float(high[r])) - Fraction(float(low[r])))
        if k + 1 == len(order) or steep[order[k + 1]] != steep[r]:
            points.append((float(high[r]), y))
    return points
