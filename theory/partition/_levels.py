"""Level games: integer weights, events in score order, and exact sums over the levels.

``D_l`` of a row (a, b) is the difference of two integer counts divided by ``scale``. Sweeping the
events down gives every D_l, and the sums of gap * D_l decide the shaped and slope-bounded classes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition._boxes import Boxes
from porism.theory.partition._exact import Grid, exact_dot
from porism.theory.partition._partitions import Partition
from porism.theory.partition.semivalue import Semivalue

__all__ = ["Levels", "Program", "limbs_of", "make_program"]

INT_BITS = 62
LIMB = 32
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Program:
    """Integer weights by size, in limbs, of players, boundary and boxed coalitions; rows and denominator."""

    player: Integers
    virtual: Integers
    inside: Integers
    outside: Integers
    start: Integers
    scale: int
    rows: list[tuple[int, int]]

    def arrays(self, sign: int = 1, rows: Sequence[int] | None = None) -> tuple[Any, ...]:
        """Arguments of the row kernels, for all rows or some; sign -1 counts from below."""
        pairs = self.rows if rows is None else [self.rows[r] for r in rows]
        upper = np.array([a for a, _ in pairs], np.int64)
        lower = np.array([b for _, b in pairs], np.int64)
        return (
            sign * self.player,
            sign * self.virtual,
            sign * self.inside,
            sign * self.outside,
            upper,
            lower,
        )

    def integer(self, limbs: Integers) -> int:
        """A number from its limbs."""
        return sum(int(x) << (LIMB * w) for w, x in enumerate(limbs))


def make_program(part: Partition, sv: Semivalue, skip_below: int, span: Fraction) -> Program:
    """Weights for a partition: pair weights, marginal weights, or pair weights against the mean."""
    n = part.n
    p = [*sv.exact_weights(n), Fraction(0)]
    q = [Fraction(0) if s < skip_below else x for s, x in enumerate(sv.exact_pair_weights(n))]
    zero = [Fraction(0)] * (n + 1)
    if part.kind == "pairs":
        exact = [q, zero, q, zero]
    elif part.kind == "mean":
        exact = [[n * x for x in q], [s * x for s, x in enumerate(q)], zero, zero]
    else:
        shifted = [Fraction(0), *p[:n]]
        exact = [[a + b for a, b in zip(shifted, p, strict=True)], p, shifted, p]
    offset = part.tau / span if part.tau else Fraction(0)
    scale = math.lcm(offset.denominator, *(x.denominator for row in exact for x in row))
    whole = [[int(x * scale) for x in row] for row in exact]
    start = int(offset * scale)
    bound = sum(math.comb(n, s) * max(abs(row[s]) for row in whole) for s in range(n + 1)) * 2 + abs(start)
    limbs = 1 if bound < 1 << INT_BITS else bound.bit_length() // LIMB + 1
    player, virtual, inside, outside = (_limbs(row, limbs) for row in whole)
    origin = np.zeros((limbs, n + 1), np.int64)
    origin[:, n] = _limbs([start], limbs)[:, 0]
    scale *= n if part.kind == "mean" else 1
    return Program(player, virtual, inside, outside, origin, scale, part.rows)


def _limbs(values: list[int], count: int) -> Integers:
    out = np.empty((count, len(values)), np.int64)
    for w in range(count):
        last = w == count - 1
        out[w] = [x >> (LIMB * w) if last else (x >> (LIMB * w)) & ((1 << LIMB) - 1) for x in values]
    return out


def limbs_of(values: NDArray[Any]) -> Integers:
    """Integers (int64 or Python's) as limbs, shape (count, len); one limb where they fit."""
    if values.dtype != object:
        return values[None]
    bits = max((abs(int(x)).bit_length() for x in values), default=0)
    return _limbs([int(x) for x in values], 1 if bits < INT_BITS else bits // LIMB + 1)


class Levels:
    """Events of an interval table in score order, with the sweeps that run over them.

    Parameters
    ----------
    boxes : Boxes
        Bounds of all coalitions.
    program : Program
        Weights and rows.
    shape : {"increasing", "concave", "convex"}
        Which extreme sums decide: all negative levels, prefixes, or suffixes.
    """

    def __init__(self, boxes: Boxes, program: Program, shape: str) -> None:
        self.program, self.shape = program, shape
        self.ascending = shape == "concave"
        if boxes.plain:
            order, keys, kinds = np.argsort(boxes.low), boxes.low, np.zeros(0, np.uint8)
        else:
            box = np.flatnonzero(boxes.low != boxes.high)
            known = np.flatnonzero(boxes.low == boxes.high)
            masks = np.concatenate([known, box, box])
            keys = np.concatenate([boxes.low[known], boxes.low[box], boxes.high[box]])
            kinds = np.repeat(np.array([0, 1, 2], np.uint8), [known.size, box.size, box.size])
            order = np.argsort(keys)
        if not self.ascending:
            order = order[::-1]
        self.values = keys[order]
        self.kinds = kinds if boxes.plain else kinds[order]
        self.order = (order if boxes.plain else masks[order]).astype(np.int32)
        self._trace: tuple[int, Any] = (-1, None)
        self.count = int(np.count_nonzero(self.values[1:] != self.values[:-1]))

    @cached_property
    def sweep(self) -> tuple[Any, ...]:
        """Per row: least D (limbs), its position, bounds of the worst sum, and the total with its error."""
        from porism.kernels.coalition import row_sweep

        return row_sweep(
            self.order,
            self.kinds,
            self.values,
            self.program.arrays(-1 if self.ascending else 1),
            self.program.start,
            running=self.shape != "increasing",
            tolerance=4.0 * (self.count + 8) * 2.0**-53,
        )

    def level(self, position: int) -> float:
        """The level sigma_l that D_l at an event position belongs to."""
        return float(self.values[position + 1] if self.ascending else self.values[position]) + 0.0

    def margin(self) -> tuple[Fraction, float, int]:
        """Least D over levels and rows with its level and row; ties: lowest level, then smallest pair."""
        least, where = self.sweep[0], self.sweep[1]
        numbers = [self.program.integer(x) for x in least]
        best, n = min(numbers), self.program.start.shape[1] - 1  # n stands for the boundary
        ties = [
            (self.level(int(where[r])), [p for p in self.program.rows[r] if p < n], r)
            for r, x in enumerate(numbers)
            if x == best
        ]
        level, _, row = min(ties)
        return Fraction(best, self.program.scale), level, row

    def trace(self, row: int) -> tuple[Integers, Floats, Floats]:
        """D of one row at every level in sweep order (limbs, levels), and the two ends of each gap."""
        if self._trace[0] != row:
            from porism.kernels.coalition import row_trace

            program = self.program.arrays(-1 if self.ascending else 1, [row])
            numbers, where = row_trace(self.order, self.kinds, self.values, program, self.program.start)
            ends = self.values[where], self.values[where + 1]
            self._trace = (row, (numbers, np.maximum(*ends), np.minimum(*ends)))
        return self._trace[1]

    def integers(self, row: int) -> NDArray[Any]:
        """D * scale of one row at every level: int64, or Python integers where they are wider."""
        numbers = self.trace(row)[0]
        if len(numbers) == 1:
            return numbers[0]
        return sum(
            (x.astype(object) << (LIMB * w) for w, x in enumerate(numbers)),
            np.zeros(numbers.shape[1], object),
        )

    def total(self, row: int) -> Fraction:
        """Exact ``sum_l gap_l D_l``: the difference of the row itself, in units of the score."""
        numbers, high, low = self.trace(row)
        return self._dot(numbers, high, low)

    def worst(self, row: int) -> Fraction:
        """Exact worst sum of the class: minus M, or the least prefix or suffix sum (never above 0)."""
        if self.shape != "increasing":
            return min(self.least_partial(row)[0], Fraction(0))
        numbers, high, low = self.trace(row)
        keep = numbers[-1] < 0
        return self._dot(numbers[:, keep], high[keep], low[keep])

    def least_partial(self, row: int) -> tuple[Fraction, int]:
        """Least partial sum of gap * D in sweep order (prefixes when ascending, else suffixes), and where."""
        _, high, low = self.trace(row)
        d, grid = self.integers(row), Grid(self.values)
        gaps = grid.integers(high) - grid.integers(low)
        if max(abs(int(d.min())), abs(int(d.max()))) * int(gaps.sum()) >= 1 << INT_BITS:
            d, gaps = d.astype(object), gaps.astype(object)
        sums = np.cumsum(d * gaps)
        at = int(np.argmin(sums))
        return grid.fraction([int(sums[at])]) / self.program.scale, at

    def _dot(self, numbers: Integers, high: Floats, low: Floats) -> Fraction:
        if not high.size:
            return Fraction(0)
        return (exact_dot(numbers, high) - exact_dot(numbers, low)) / self.program.scale
