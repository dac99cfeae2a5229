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
def packed_sweep(order: Any, values: Any, members: Any, gain: Any, loss: Any, alpha: Any, beta: Any, block: Any) -> Any:
    """Sweep rows by decreasing score; least difference of adjacent blocks, with its position and pair.

    Player i's level value is ``alpha_i c_i - beta_i r``. With ``gain`` empty, c_i counts the rows that
    hold i and r all rows; otherwise a row adds one to player ``gain[row]`` and takes one from player
    ``loss[row]`` (-1: nobody). Also returns the number of levels at which the two sides tie to rounding.
    """
    n, blocks = alpha.size, block.max() + 1
    c = np.zeros(n, np.int64)
    best, where, left, right = np.inf, -1, -1, -1
    down, up = np.empty(blocks), np.empty(blocks)
    at_down, at_up = np.empty(blocks, np.int64), np.empty(blocks, np.int64)
    for t in range(order.size - 1):
        row = order[t]
        if gain.size:
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
        down[:], up[:] = np.inf, -np.inf
        for i in range(n):
            x = alpha[i] * c[i] - beta[i] * (t + 1)
            b = block[i]
            if x < down[b]:
                down[b], at_down[b] = x, i
            if x > up[b]:
                up[b], at_up[b] = x, i
        for b in range(blocks - 1):
            d = down[b] - up[b + 1]
            if d <= best:
                best, where, left, right = d, t, at_down[b], at_up[b + 1]
    return best, where, left, right
