"""Numba sweep of signed rows: every decision and every admissible class in one pass over the levels.

A row (a, b) stands for ``D_l = X_a - X_b`` where X_i counts, with integer weights, the coalitions with
player i that reach level l, and X_n is a virtual player that counts all coalitions. Integers are held
in 32-bit limbs (lowest first), so that weights of any width stay exact; one limb is plain int64.
"""

from typing import Any

import numba
import numpy as np

from porism.kernels.coalition.cpu import popcount

__all__ = ["quantile_margin", "row_sweep", "row_trace"]

LIMB = 32
MASK = (1 << 32) - 1


@numba.njit(cache=True, inline="always")
def _carry(x: Any) -> None:
    """Move what exceeds 32 bits upward; the top limb keeps the sign."""
    for w in range(x.size - 1):
        x[w + 1] += x[w] >> LIMB
        x[w] &= MASK


@numba.njit(cache=True, inline="always")
def _less(x: Any, y: Any) -> bool:
    for w in range(x.size - 1, -1, -1):
        if x[w] != y[w]:
            return bool(x[w] < y[w])
    return False


@numba.njit(cache=True, inline="always")
def _add_coalition(mask: Any, kind: Any, acc: Any, extra: Any, program: Any) -> None:
    """Let a coalition reach the level: known ones through the players, boxed ones row by row."""
    player, virtual, inside, outside, upper, lower = program
    n = acc.shape[1] - 1
    size = popcount(mask)
    for w in range(acc.shape[0]):
        if kind == 0:
            q = player[w, size]
            for i in range(n):
                acc[w, i] += q & -((mask >> i) & 1)
            acc[w, n] += virtual[w, size]
        else:
            for r in range(upper.size):
                a, b = upper[r], lower[r]
                has_a = a < n and (mask >> a) & 1 == 1
                has_b = b < n and (mask >> b) & 1 == 1
                if kind == 1:  # the pessimistic score of the coalitions that help the row
                    if has_a and not has_b:
                        extra[r, w] += inside[w, size]
                    elif a == n and not has_b:
                        extra[r, w] += outside[w, size]
                elif has_b and not has_a:  # the optimistic score of those that hurt it
                    extra[r, w] -= inside[w, size]
                elif b == n and not has_a:
                    extra[r, w] -= outside[w, size]


@numba.njit(cache=True, inline="always")
def _difference(r: int, acc: Any, extra: Any, upper: Any, lower: Any, out: Any) -> None:
    for w in range(out.size):
        out[w] = acc[w, upper[r]] - acc[w, lower[r]] + extra[r, w]
    _carry(out)


@numba.njit(cache=True, inline="always")
def _value(x: Any) -> float:
    """The integer in units of its top limb: its own size may exceed float64."""
    total, unit = 0.0, 1.0
    for w in range(x.size - 1, -1, -1):
        total += x[w] * unit
        unit /= 4294967296.0
    return total


@numba.njit(cache=True, nogil=True)
def row_sweep(
    order: Any, kinds: Any, values: Any, program: Any, start: Any, running: bool, tolerance: float
) -> Any:
    """Sweep in the given order; per row the least D, its position, and the worst sum of gap * D.

    ``running=False``: the worst sum takes the negative terms only (any increasing transform);
    ``running=True``: the least partial sum in sweep order (concave or convex transforms). Returns lower
    and upper bounds of the worst sum, the total, and ``tolerance`` times the sum of absolute terms; these
    floats are in units of the top limb.
    """
    upper, lower = program[4], program[5]
    limbs, rows = start.shape[0], upper.size
    acc = start.copy()
    extra = np.zeros((rows, limbs), np.int64)
    least = np.zeros((rows, limbs), np.int64)
    least[:, limbs - 1] = np.iinfo(np.int64).max
    where = np.full(rows, -1, np.int64)
    total, error = np.zeros(rows), np.zeros(rows)
    worst_low, worst_high = np.zeros(rows), np.zeros(rows)
    if running:
        worst_low[:], worst_high[:] = np.inf, np.inf
    d = np.empty(limbs, np.int64)
    for t in range(order.size - 1):
        _add_coalition(np.int64(order[t]), kinds[t] if kinds.size else np.uint8(0), acc, extra, program)
        gap = abs(values[t] - values[t + 1])
        if gap == 0.0:
            continue
        for r in range(rows):
            if limbs == 1:
                x = acc[0, upper[r]] - acc[0, lower[r]] + extra[r, 0]
                if x < least[r, 0] or (x == least[r, 0] and values[t] < values[where[r]]) or where[r] < 0:
                    least[r, 0], where[r] = x, t
                term = gap * x
            else:
                _difference(r, acc, extra, upper, lower, d)
                if (
                    where[r] < 0
                    or _less(d, least[r])
                    or (values[t] < values[where[r]] and not _less(least[r], d))
                ):
                    least[r], where[r] = d, t
                term = gap * _value(d)
            total[r] += term
            error[r] += abs(term) * tolerance
            if running:
                worst_low[r] = min(worst_low[r], total[r] - error[r])
                worst_high[r] = min(worst_high[r], total[r] + error[r])
            elif term < 0:
                worst_low[r] += term * (1 + tolerance)
                worst_high[r] += term * (1 - tolerance)
    return least, where, worst_low, worst_high, total, error


@numba.njit(cache=True)
def row_trace(order: Any, kinds: Any, values: Any, program: Any, start: Any) -> Any:
    """The integers D_l of one row at every level, in sweep order: shape (limbs, levels), and positions."""
    limbs = start.shape[0]
    acc = start.copy()
    extra = np.zeros((1, limbs), np.int64)
    count = 0
    for t in range(order.size - 1):
        count += values[t] != values[t + 1]
    trace, where = np.empty((limbs, count), np.int64), np.empty(count, np.int64)
    d = np.empty(limbs, np.int64)
    at = 0
    for t in range(order.size - 1):
        _add_coalition(np.int64(order[t]), kinds[t] if kinds.size else np.uint8(0), acc, extra, program)
        if values[t] != values[t + 1]:
            _difference(0, acc, extra, program[4], program[5], d)
            trace[:, at] = d
            where[at] = t
            at += 1
    return trace, where


@numba.njit(cache=True, nogil=True)
def quantile_margin(
    low_order: Any, high_order: Any, low: Any, high: Any, weights: Any, upper: Any, lower: Any
) -> Any:
    """Per pair ``min_p Q_ij(p) - Q_ji(p)``: two score-ordered lists merged on their exact cumulated mass.

    ``low`` and ``high`` are the scores in the order of ``low_order`` and ``high_order``.
    """
    out = np.empty(upper.size)
    room = (low_order.size >> 2) + 1
    x, y = np.empty(room), np.empty(room)
    x_size, y_size = np.empty(room, np.uint8), np.empty(room, np.uint8)
    counts = np.zeros(weights.shape[1], np.uint8)  # 1 where a size carries weight
    for w in range(weights.shape[0]):
        for size in range(weights.shape[1]):
            counts[size] |= weights[w, size] != 0
    for r in range(upper.size):
        count = _collect(low_order, low, upper[r], lower[r], counts, x, x_size)
        _collect(high_order, high, lower[r], upper[r], counts, y, y_size)
        out[r] = _merge(x, x_size, y, y_size, count, weights)
    return out


@numba.njit(cache=True, nogil=True)
def _collect(order: Any, values: Any, inside: Any, outside: Any, counts: Any, out: Any, sizes: Any) -> Any:
    """Scores and sizes of the coalitions with one player and without the other, in order, branch-free."""
    at = 0
    for t in range(order.size):
        mask = np.int64(order[t])
        size = popcount(mask)
        out[at], sizes[at] = values[t], size
        at += (mask >> inside) & ~(mask >> outside) & counts[size] & 1
    return at


@numba.njit(cache=True, nogil=True)
def _merge(x: Any, x_size: Any, y: Any, y_size: Any, count: Any, weights: Any) -> float:
    """Walk both lists at equal mass; ``lead`` is the mass passed in x minus the mass passed in y."""
    limbs = weights.shape[0]
    if count == 0:  # no coalition carries weight, so no score matters
        return np.inf
    s, t = 0, 0
    best = x[0] - y[0]
    if limbs == 1:
        lead = weights[0, x_size[0]] - weights[0, y_size[0]]
        while s < count - 1 or t < count - 1:
            on_x, on_y = np.int64(lead <= 0), np.int64(lead >= 0)
            s += on_x
            t += on_y
            lead += on_x * weights[0, x_size[s]] - on_y * weights[0, y_size[t]]
            best = min(best, x[s] - y[t])
        return best
    wide = np.empty(limbs, np.int64)
    for w in range(limbs):
        wide[w] = weights[w, x_size[0]] - weights[w, y_size[0]]
    while s < count - 1 or t < count - 1:
        _carry(wide)
        sign = wide[limbs - 1]
        if sign == 0:
            for w in range(limbs - 1):
                sign |= wide[w]
        on_x, on_y = np.int64(sign <= 0), np.int64(sign >= 0)
        s += on_x
        t += on_y
        for w in range(limbs):
            wide[w] += on_x * weights[w, x_size[s]] - on_y * weights[w, y_size[t]]
        best = min(best, x[s] - y[t])
    return best
