"""Numba sweep over sampled rows in packed bits: no n x m float matrix, O(m n) time and O(n) state."""

from typing import Any

import numba
import numpy as np

__all__ = ["column_sums", "packed_sweep"]


@numba.njit(cache=True)
def column_sums(members: Any, values: Any, count: Any, total: Any) -> None:
    """Add per player the number of rows that hold it and the sum of their values; exact for integers."""
    for r in range(members.shape[0]):
        for i in range(count.size):
            bit = (members[r, i >> 3] >> (i & 7)) & 1
            count[i] += bit
            total[i] += bit * values[r]


@numba.njit(cache=True)
def _fraction_less(a: Any, b: Any, c: Any, d: Any) -> bool:
    """``a/b < c/d`` for positive b, d by continued fractions: the cross product would overflow."""
    flip = False
    while True:
        p, q = a // b, c // d
        if p != q:
            return bool(p < q) != flip
        a, c = a - p * b, c - q * d
        if a == 0 or c == 0:
            return bool(a == 0 and c != 0) != flip if a != c else False
        a, b, c, d = b, a, d, c
        flip = not flip


@numba.njit(cache=True)
def packed_sweep(order: Any, values: Any, members: Any, gain: Any, loss: Any, held: Any, block: Any) -> Any:
    """Sweep rows by decreasing score; least difference of adjacent blocks, with its position and pair.

    Player i's level value is a fraction. With ``gain`` empty it is ``(c_i m - r h_i) / (h_i (m - h_i))``
    for c_i of the r rows so far and h_i = ``held[i]`` of all m rows: mean in minus mean out. Otherwise a
    row adds one to player ``gain[row]`` and takes one from ``loss[row]`` (-1: nobody). Floats order the
    values; where they are too close to tell, the fractions do, so the sign of the least difference is exact.
    """
    n, m, blocks = block.size, order.size, block.max() + 1
    walk = gain.size > 0
    c, top = np.zeros(n, np.int64), np.zeros(n, np.int64)
    bottom = np.ones(n, np.int64) if walk else held * (m - held)
    x = np.empty(n)
    best, where, left, right, negative = np.inf, -1, -1, -1, False
    down, up = np.empty(blocks, np.int64), np.empty(blocks, np.int64)
    for t in range(m - 1):
        row = order[t]
        if walk:
            if gain[row] >= 0:
                c[gain[row]] += 1
            if loss[row] >= 0:
                c[loss[row]] -= 1
        else:
            for byte in range(members.shape[1]):
                bits = members[row, byte]
                if bits:
                    for i in range(8 * byte, min(8 * byte + 8, n)):
                        c[i] += (bits >> (i & 7)) & 1
        if values[t] == values[t + 1]:
            continue
        down[:], up[:] = -1, -1
        for i in range(n):
            top[i] = c[i] if walk else c[i] * m - (t + 1) * held[i]
            x[i] = top[i] / bottom[i]
            b = block[i]
            if down[b] < 0 or _less(x, top, bottom, i, down[b]):
                down[b] = i
            if up[b] < 0 or _less(x, top, bottom, up[b], i):
                up[b] = i
        for b in range(blocks - 1):
            i, j = down[b], up[b + 1]
            d = x[i] - x[j]
            below = _less(x, top, bottom, i, j)
            if (below and not negative) or (below == negative and d <= best):
                best, where, left, right, negative = d, t, i, j, below
    return best, where, left, right


@numba.njit(cache=True, inline="always")
def _less(x: Any, top: Any, bottom: Any, i: Any, j: Any) -> bool:
    if x[i] != x[j]:  # quotients of exact integers are correctly rounded, hence monotone
        return bool(x[i] < x[j])
    if bottom[i] == bottom[j]:
        return bool(top[i] < top[j])
    return _fraction_less(top[i], bottom[i], top[j], bottom[j])
