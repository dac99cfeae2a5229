"""Numba kernels over all 2^n coalitions: folding, size totals, level margins, dominance.

All loops run over bit masks in order or in score order; counts are int64 and therefore exact.
"""

from typing import Any

import numba
import numpy as np

__all__ = ["dominance", "fold", "level_margin", "level_margins_all", "popcount", "size_totals"]

BLOCK_BITS = 12


@numba.njit(cache=True, inline="always")
def popcount(mask: Any) -> Any:
    """Number of players in a mask of at most 32 players."""
    x = mask - ((mask >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    return (((x + (x >> 4)) & 0x0F0F0F0F) * 0x01010101 & 0xFFFFFFFF) >> 24


@numba.njit(cache=True)
def _total(x: Any, length: int) -> float:
    """Pairwise sum of the first ``length`` = 2^b entries, in place (numba cannot cache a recursion)."""
    while length > 1:
        length >>= 1
        for t in range(length):
            x[t] += x[t + length]
    return float(x[0])


@numba.njit(cache=True)
def _halve(buffer: Any, bits: int, out: Any, first: int) -> None:
    """Pairwise sum of the upper half for every bit; destroys the buffer."""
    upper = np.empty(1 << max(bits - 1, 0))
    for bit in range(bits - 1, -1, -1):
        half = 1 << bit
        for t in range(half):
            upper[t] = buffer[t + half]
            buffer[t] += buffer[t + half]
        out[first + bit] = _total(upper, half)


@numba.njit(cache=True)
def fold(scores: Any, weights: Any, other: Any) -> Any:
    """Blocks of 2^12 coalitions: elementwise sums give the low players, block sums the high ones."""
    n = 0
    while 1 << n < scores.size:
        n += 1
    low = min(n, BLOCK_BITS)
    width, blocks = 1 << low, 1 << (n - low)
    table = np.empty((n - low + 1, width))
    extra = np.empty((n - low + 1, width))
    for c in range(n - low + 1):
        for t in range(width):
            table[c, t] = weights[c + popcount(t)]
            extra[c, t] = other[c + popcount(t)]
    acc, lost = np.zeros(width), np.zeros(width)  # Kahan sums, one lane a low mask
    sums, side = np.empty(blocks), np.empty(blocks)
    work = np.empty(width)
    for b in range(blocks):
        c = popcount(b)
        base = b << low
        for t in range(width):
            value = table[c, t] * scores[base + t]
            work[t] = value
            y = value - lost[t]
            s = acc[t] + y
            lost[t] = (s - acc[t]) - y
            acc[t] = s
        sums[b] = _total(work, width)
        for t in range(width):
            work[t] = extra[c, t] * scores[base + t]
        side[b] = _total(work, width)
    out = np.empty(n)
    _halve(acc, low, out, 0)
    _halve(sums, n - low, out, low)
    return out, _total(side, blocks)


@numba.njit(cache=True)
def size_totals(limbs: Any, start: int, totals: Any) -> None:
    """Exact integer sums by player and size; row n of ``totals`` is over all coalitions."""
    n = totals.shape[0] - 1
    for t in range(limbs.size):
        mask = start + t
        size = popcount(mask)
        value = limbs[t]
        totals[n, size] += value
        while mask:
            bit = mask & -mask
            totals[popcount(bit - 1), size] += value
            mask ^= bit


@numba.njit(cache=True)
def level_margin(order: Any, values: Any, weights: Any, upper: Any, lower: Any) -> Any:
    """One sweep down the levels: least min over ``upper`` minus max over ``lower``, at which position."""
    n = weights.size - 1
    acc = np.zeros(n, np.int64)
    best, where, left, right = np.int64(np.iinfo(np.int64).max), -1, 0, 0
    for t in range(order.size - 1):
        mask = np.int64(order[t])
        q = weights[popcount(mask)]
        for i in range(n):
            acc[i] += q & -((mask >> i) & 1)
        if values[t] != values[t + 1]:
            down, up = acc[upper[0]], acc[lower[0]]
            for i in upper:
                down = min(down, acc[i])
            for j in lower:
                up = max(up, acc[j])
            if down - up <= best:  # later is lower
                best, where, left, right = down - up, t, -1, -1
                for i in upper:
                    if left < 0 and acc[i] == down:
                        left = i
                for j in lower:
                    if right < 0 and acc[j] == up:
                        right = j
    return best, where, left, right


@numba.njit(cache=True)
def level_margins_all(order: Any, values: Any, weights: Any, ranking: Any) -> Any:
    """Least margin of every top-k set along ``ranking``, k = 1..n-1, in one sweep."""
    n = ranking.size
    acc = np.zeros(n, np.int64)
    tail = np.empty(n, np.int64)
    best = np.full(n - 1, np.iinfo(np.int64).max)
    for t in range(order.size - 1):
        mask = np.int64(order[t])
        q = weights[popcount(mask)]
        for i in range(n):
            acc[i] += q & -((mask >> i) & 1)
        if values[t] != values[t + 1]:
            tail[n - 1] = acc[ranking[n - 1]]
            for r in range(n - 2, 0, -1):
                tail[r] = max(tail[r + 1], acc[ranking[r]])
            head = acc[ranking[0]]
            for k in range(1, n):
                best[k - 1] = min(best[k - 1], head - tail[k])
                head = min(head, acc[ranking[k]])
    return best


@numba.njit(cache=True)
def dominance(scores: Any, i: int, j: int) -> Any:
    """Smallest S without i and j with ``v(S + i) < v(S + j)``, or -1."""
    a, b = min(i, j), max(i, j)
    low, mid = (1 << a) - 1, ((1 << (b - 1)) - 1) ^ ((1 << a) - 1)
    for t in range(scores.size >> 2):
        mask = (t & low) | ((t & mid) << 1) | ((t >> (b - 1)) << (b + 1))
        if scores[mask | 1 << i] < scores[mask | 1 << j]:
            return mask
    return -1
