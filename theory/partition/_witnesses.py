"""How a witness is made from a failing row: a step, a bend, or a staircase of slopes."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition._boxes import Boxes
from porism.theory.partition._levels import Levels
from porism.theory.partition._partitions import Partition
from porism.theory.partition.classes import MonotoneClass
from porism.theory.partition.decisions import Decision
from porism.theory.partition.witness import WitnessUtility

__all__ = ["make_witness"]

Floats = NDArray[np.float64]
Points = list[tuple[float, Fraction]]
STEEPEST = 1 << 20


def make_witness(
    levels: Levels, part: Partition, boxes: Boxes, transforms: MonotoneClass, decision: Decision, row: int
) -> WitnessUtility:
    """The witness for a failing row: a step, a bend, or slopes as steep as the class allows where D < 0."""
    completion = None
    if not boxes.plain:
        scores = boxes.completed(part.rows[row], part.n)
        open_ = np.flatnonzero(np.any([m for m in (boxes.free, boxes.unknown) if m is not None], axis=0))
        completion = tuple((int(m), float(scores[m])) for m in open_)
        levels = Levels(Boxes(scores, scores, scores), levels.program, transforms.shape)
    gap = levels.total(row)
    numbers, high, low = levels.trace(row)
    ratio = transforms.exact_ratio
    if transforms.shape == "increasing":
        ints = levels.integers(row)
        level = float(high[ints == ints.min()].min())
        drop = Fraction(int(ints.min()), levels.program.scale)
    else:
        drop, at = levels.least_partial(row)
        level = float((high if transforms.shape == "concave" else low)[at])
    sigma = np.unique(levels.values)
    epsilon = Fraction(1)
    if ratio is None:
        span = Fraction(float(sigma[-1])) - Fraction(float(sigma[0]))
        fair = 1 / span if transforms.shape == "increasing" else Fraction(1)
        if gap > 0:
            epsilon = abs(drop) / (2 * gap)
        # beside steeper slopes float64 would lose the jump, and beside the jump flatter ones
        if epsilon > fair * STEEPEST or (gap <= 0 and epsilon * STEEPEST < fair):
            epsilon = fair
    if transforms.shape != "increasing":
        points = _bend(transforms.shape, sigma, level, epsilon, ratio)
    elif ratio is None:
        before = float(sigma[np.searchsorted(sigma, level) - 1])
        corners = sorted({float(sigma[0]), before, level, float(sigma[-1])})
        base = Fraction(corners[0])  # phi(lowest) = 0: rounding is relative to the range of the scores
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
