"""Numba: one pass over a query's means; psi is evaluated only where it can change the answer.

Psi falls, so its value at the knot to the left bounds it: of the specialists within their band most are
ruled out by one look into a table of 6 KB. What is reported is exact to rounding in float64, whatever the
precision of the means.
"""

import math
from typing import Any

import numba
import numpy as np

from porism.kernels.voi import reference

__all__ = ["joint_argmax", "psi", "voi_argmax"]

DENSITY = 1 / math.sqrt(2 * math.pi)
ROOT = math.sqrt(0.5)
KNOTS, LAST = 64.0, 768  # knots a unit; the last one stands at z = 12
TABLE = np.array([reference.psi(k / KNOTS) * (1 + 1e-11) + 1e-300 for k in range(LAST + 1)])
"""Psi at the knots, raised above the rounding of what it bounds."""


@numba.njit(cache=True, nogil=True, error_model="numpy")
def psi(z: float) -> float:
    """``E(Z - z)^+`` for z >= 0, relative error below 1e-11; 0 beyond 39, where it underflows."""
    if z <= 12.0:
        return DENSITY * math.exp(-0.5 * z * z) - 0.5 * z * math.erfc(z * ROOT)
    if not z <= 39.0:
        return 0.0
    t = 1.0 / (z * z)
    total = 1.0
    for k in range(16, 0, -1):
        total = 1.0 - (2 * k + 1) * t * total
    return DENSITY * math.exp(-0.5 * z * z) * t * total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _net(m: Any, price: Any, q: int, x: Any) -> bool:
    """Fill in the net means of a query; whether one of them is NaN. The loop runs in vector registers."""
    bad = False
    for i in range(m.shape[1]):
        x[i] = m[q, i] - price[i]
        bad |= x[i] != x[i]
    return bad


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"})
def _two(x: Any, K: int, outside: float) -> tuple[float, float]:
    """Best and second best usable value, without NaN: only then may a maximum run in vector registers."""
    first = -math.inf
    for i in range(K):
        first = max(first, x[i])
    second, equal = -math.inf, 0
    for i in range(K):
        equal += x[i] == first
        second = max(second, x[i] if x[i] < first else -math.inf)
    if equal > 1:
        second = first
    return max(first, outside), max(second, min(first, outside))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _leader(x: Any, K: int, first: float) -> int:
    """Smallest index that reaches the best value; -1 where only the outside option does."""
    for i in range(K):
        if x[i] == first:
            return i
    return -1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _voi(
    m: Any,
    price: Any,
    nu: Any,
    c: Any,
    w: Any,
    done: Any,
    outside: float,
    by_index: bool,
    table: Any,
    best: Any,
    arg: Any,
    top: Any,
    gap: Any,
) -> None:
    n, K = m.shape
    nu_step, c_step, w_step = int(len(nu) > 1), int(len(c) > 1), int(len(w) > 1)
    marked = done.shape[0] > 0
    x = np.empty(K)
    for q in range(n):
        if _net(m, price, q, x):
            best[q], arg[q], top[q], gap[q] = math.nan, -1, -1, math.nan
            continue
        first, second = _two(x, K, outside)
        lead = _leader(x, K, first)
        a, b, h = q * nu_step, q * c_step, q * w_step
        chosen, most, net = -1, -math.inf, 0.0
        for i in range(K):
            d = x[i] - second if i == lead else first - x[i]
            if not d < w[h, i]:
                continue
            if marked and (done[q, i >> 6] >> (i & 63)) & 1:
                continue
            if by_index:
                if x[i] + w[h, i] > most or chosen < 0:
                    chosen, most = i, x[i] + w[h, i]
            else:
                z = d / nu[a, i]
                knot = LAST if z >= 12.0 else int(z * KNOTS)
                if nu[a, i] * table[knot] - c[b, i] >= most:
                    value = nu[a, i] * psi(z) - c[b, i]
                    if value > most:
                        chosen, most = i, value
        if chosen >= 0:
            net = most
            if by_index:
                d = x[chosen] - second if chosen == lead else first - x[chosen]
                net = nu[a, chosen] * psi(d / nu[a, chosen]) - c[b, chosen]
        best[q], arg[q], top[q] = max(net, 0.0), chosen, lead
        gap[q] = first - second if second > -math.inf else math.inf


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _joint(
    m: Any,
    price: Any,
    slope: Any,
    order: Any,
    group: Any,
    c: Any,
    done: Any,
    outside: float,
    best: Any,
    arg: Any,
    top: Any,
    gap: Any,
) -> None:
    n, K = m.shape
    marked = done.shape[0] > 0
    x = np.empty(K + 1)
    x[K] = outside
    high, steep, start = np.empty(K + 1), np.empty(K + 1), np.empty(K + 1)  # envelope: lines, left ends
    for q in range(n):
        if _net(m, price, q, x):
            best[q], arg[q], top[q], gap[q] = math.nan, -1, -1, math.nan
            continue
        first, second = _two(x, K, outside)
        chosen, most = -1, -math.inf
        g = group[q]
        for i in range(K):
            if marked and (done[q, i >> 6] >> (i & 63)) & 1:
                continue
            reach = (slope[g, i, order[g, i, K]] - slope[g, i, order[g, i, 0]]) * DENSITY - c[i]
            if reach < 0.0 or reach < most:  # the gain is at most (range of the slopes) psi(0)
                continue
            size = 0
            for t in range(K + 1):
                j = order[g, i, t]
                if x[j] == -math.inf:
                    continue
                b = slope[g, i, j]
                if size > 0 and b == steep[size - 1]:
                    if x[j] <= high[size - 1]:
                        continue
                    size -= 1
                z = -math.inf
                while size > 0:
                    z = (high[size - 1] - x[j]) / (b - steep[size - 1])
                    if z > start[size - 1]:
                        break
                    size -= 1
                    z = -math.inf
                high[size], steep[size], start[size] = x[j], b, z
                size += 1
            gain = 0.0
            for t in range(1, size):
                gain += (steep[t] - steep[t - 1]) * psi(abs(start[t]))
            net = gain - c[i]
            if (net > 0.0 or (c[i] == 0.0 and size > 1)) and net > most:
                chosen, most = i, net
        best[q], arg[q], top[q] = max(most, 0.0), chosen, _leader(x, K, first)
        gap[q] = first - second if second > -math.inf else math.inf


def _outputs(m: Any) -> Any:
    kind = np.float64 if m.dtype == np.float64 else np.float32
    n = len(m)
    return np.empty(n, kind), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, kind)


def voi_argmax(
    m: Any, nu: Any, c: Any, w: Any, price: Any, done: Any, outside: float, rule: str
) -> tuple[Any, ...]:
    """Best refinement of each query; `done` has no row where nothing is done."""
    out = _outputs(m)
    _voi(m, price, nu, c, w, done, outside, rule == "index", TABLE, *out)
    return out


def joint_argmax(
    m: Any, slope: Any, group: Any, c: Any, price: Any, done: Any, outside: float
) -> tuple[Any, ...]:
    """Best refinement of each query where refining one moves all; slopes are sorted once a group."""
    out = _outputs(m)
    wide = np.zeros((*slope.shape[:2], slope.shape[2] + 1))  # the outside option never moves
    wide[:, :, :-1] = slope
    order = np.argsort(wide, axis=2, kind="stable")
    _joint(m, price, wide, order, group, c, done, outside, *out)
    return out
