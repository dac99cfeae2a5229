"""Truth for the coalition kernels: Python integers and fractions, straight from the definitions."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["dominance", "fold", "level_margin", "quantile_margin", "size_totals"]


def fold(
    scores: NDArray[np.float64], weights: NDArray[np.float64], other: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """``A_i = sum_{S with i} w_|S| v(S)`` and ``sum_S w'_|S| v(S)``, each rounded once."""
    n = scores.size.bit_length() - 1
    total = [Fraction(0)] * n
    extra = Fraction(0)
    for mask in range(scores.size):
        value, size = Fraction(float(scores[mask])), mask.bit_count()
        extra += Fraction(float(other[size])) * value
        for i in range(n):
            if mask >> i & 1:
                total[i] += Fraction(float(weights[size])) * value
    return np.array([float(x) for x in total]), float(extra)


def size_totals(limbs: NDArray[np.int64], start: int, totals: NDArray[np.int64]) -> None:
    """Add ``sum of limbs`` by player and size into ``totals[i, s]``; row n is over all coalitions."""
    n = totals.shape[0] - 1
    for offset, value in enumerate(limbs):
        mask = start + offset
        totals[n, mask.bit_count()] += value
        for i in range(n):
            if mask >> i & 1:
                totals[i, mask.bit_count()] += value


def level_margin(
    scores: NDArray[np.float64], weights: NDArray[np.int64], upper: int, lower: int
) -> tuple[int, float, tuple[int, int]]:
    """Least ``D_l(i, j)`` with i in ``upper``, j in ``lower``; ties: lowest level, then smallest pair."""
    n = scores.size.bit_length() - 1
    best: tuple[int, float, tuple[int, int]] | None = None
    for level in sorted(set(scores.tolist()))[1:]:
        total = [
            sum(int(weights[m.bit_count()]) for m in range(scores.size) if scores[m] >= level and m >> i & 1)
            for i in range(n)
        ]
        for i in range(n):
            for j in range(n):
                if upper >> i & 1 and lower >> j & 1 and (best is None or total[i] - total[j] < best[0]):
                    best = (total[i] - total[j], level, (i, j))
    if best is None:
        raise ValueError("scores must have two different values and both sides of the partition a player")
    return best


def quantile_margin(
    low: NDArray[np.float64], high: NDArray[np.float64], weights: list[int], pair: tuple[int, int]
) -> float:
    """``min_p Q_ij(p) - Q_ji(p)`` for one pair, with the pessimistic scores of either side."""
    i, j = pair
    sides = []
    for scores, inside, outside in ((low, i, j), (high, j, i)):
        masks = [
            m
            for m in range(scores.size)
            if m >> inside & 1 and not m >> outside & 1 and weights[m.bit_count()]
        ]
        sides.append(sorted((float(scores[m]), weights[m.bit_count()]) for m in masks))
    ladders = [[value for value, weight in side for _ in range(weight)] for side in sides]
    return min(a - b for a, b in zip(*ladders, strict=True))


def dominance(scores: NDArray[np.float64], i: int, j: int) -> int:
    """Smallest S without i and j with ``v(S + i) < v(S + j)``, or -1 if i is at least as desirable as j."""
    for mask in range(scores.size):
        if not mask >> i & 1 and not mask >> j & 1 and scores[mask | 1 << i] < scores[mask | 1 << j]:
            return mask
    return -1
