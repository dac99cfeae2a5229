"""Numba: one pass over a query's means; psi is evaluated only where it can change the answer.

Psi is convex, so the chords of a table of 6 KB lie above it, and by no more than `SLACK`: of the specialists
within their band these bounds leave one, but for near ties, which exact values decide. What is reported is
exact to rounding in float64, whatever the precision of the means.
"""

import math
from typing import Any

import numba
import numpy as np

from porism.kernels.voi import reference

__all__ = ["joint_argmax", "psi", "voi_argmax", "voi_route"]

DENSITY = 1 / math.sqrt(2 * math.pi)
ROOT = math.sqrt(0.5)
KNOTS, LAST = 64.0, 768  # knots a unit; the last one stands at z = 12
TABLE = np.array([reference.psi(k / KNOTS) * (1 + 1e-11) + 1e-300 for k in range(LAST + 1)])
"""Psi at the knots, raised above the rounding of what it bounds."""
SLACK = DENSITY / (8 * KNOTS**2) + 1e-9
"""A chord is above psi by at most max psi'' = phi(0) times the squared distance of knots over 8."""


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
    """Best and second best usable value, without NaN: only then is a maximum one instruction."""
    first, second = outside, -math.inf
    for i in range(K):
        second = max(second, min(first, x[i]))
        first = max(first, x[i])
    return first, second


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _leader(x: Any, K: int, first: float) -> int:
    """Smallest index that reaches the best value; -1 where only the outside option does."""
    lead = K
    for i in range(K):
        lead = min(lead, i if x[i] == first else K)
    return lead if lead < K else -1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _ceiling(z: float, table: Any) -> float:
    """Upper bound of psi(z) for z >= 0; less `SLACK` it is a lower bound."""
    t = z * KNOTS
    if not t < LAST:
        return float(table[LAST])
    k = int(t)
    return float(table[k] + (t - k) * (table[k + 1] - table[k]))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _gap(i: int, x: Any, first: float, second: float, lead: int) -> float:
    """Distance of a value to the best other one."""
    return float(x[i] - second if i == lead else first - x[i])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _open(x: Any, w: Any, done: Any, first: float, second: float, lead: int, found: Any) -> int:
    """Collect, in order, who is within the band and not done; return how many."""
    near = 0
    for i in range(len(x)):  # without a branch: few are
        found[near] = i
        near += first - x[i] < w[i]
    size = 0
    for s in range(near):
        i = found[s]
        if (i != lead or x[i] - second < w[i]) and not (done[i >> 6] >> (i & 63)) & 1:
            found[size] = i
            size += 1
    return size


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _by_net(
    x: Any, nu: Any, c: Any, first: float, second: float, lead: int, table: Any, found: Any, size: int
) -> int:
    """Of the specialists found, the first of the largest net gain."""
    sure = -math.inf  # somebody gains as much
    for s in range(size):
        i = found[s]
        high = _ceiling(_gap(i, x, first, second, lead) / nu[i], table)
        sure = max(sure, nu[i] * (high - SLACK) - c[i])
    left = 0
    for s in range(size):
        i = found[s]
        if nu[i] * _ceiling(_gap(i, x, first, second, lead) / nu[i], table) - c[i] >= sure:
            found[left] = i
            left += 1
    chosen, most = found[0], -math.inf
    for s in range(left if left > 1 else 0):
        i = found[s]
        value = nu[i] * psi(_gap(i, x, first, second, lead) / nu[i]) - c[i]
        if value > most:
            chosen, most = i, value
    return int(chosen)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _by_index(x: Any, w: Any, found: Any, size: int) -> int:
    """Of the specialists found, the first of the largest index."""
    chosen = found[0]
    for s in range(1, size):
        i = found[s]
        if x[i] + w[i] > x[chosen] + w[chosen]:
            chosen = i
    return int(chosen)


# The two callers below choose by themselves: one more function between costs a third of the speed.
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
    nu_step, c_step, w_step, done_step = len(nu) > 1, len(c) > 1, len(w) > 1, len(done) > 1
    x, found = np.empty(K), np.empty(K + 1, np.int64)
    for q in range(n):
        if _net(m, price, q, x):
            best[q], arg[q], top[q], gap[q] = math.nan, -1, -1, math.nan
            continue
        first, second = _two(x, K, outside)
        lead = _leader(x, K, first)
        best[q], arg[q], top[q] = 0.0, -1, lead
        gap[q] = first - second if second > -math.inf else math.inf
        half, sd, cost = w[q * w_step], nu[q * nu_step], c[q * c_step]
        size = _open(x, half, done[q * done_step], first, second, lead, found)
        if size == 0:
            continue
        if by_index:
            i = _by_index(x, half, found, size)
        else:
            i = _by_net(x, sd, cost, first, second, lead, table, found, size)
        arg[q] = i
        best[q] = max(sd[i] * psi(_gap(i, x, first, second, lead) / sd[i]) - cost[i], 0.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _route(
    m: Any,
    refined: Any,
    price: Any,
    nu: Any,
    c: Any,
    w: Any,
    fee: Any,
    outside: float,
    by_index: bool,
    rounds: int,
    table: Any,
    choice: Any,
    value: Any,
    good: Any,
    bad: Any,
    paid: Any,
    counts: Any,
) -> None:
    n, K = m.shape
    nu_step, c_step, w_step = len(nu) > 1, len(c) > 1, len(w) > 1
    x, found = np.empty(K), np.empty(K + 1, np.int64)
    done = np.zeros((K + 63) // 64, np.int64)
    for q in range(n):
        good[q], bad[q], paid[q] = 0, 0, 0.0
        if _net(m, price, q, x):
            choice[q], value[q] = -1, math.nan
            continue
        done[:] = 0
        first, second = _two(x, K, outside)
        lead = _leader(x, K, first)
        half, sd, cost = w[q * w_step], nu[q * nu_step], c[q * c_step]
        for _ in range(rounds):
            size = _open(x, half, done, first, second, lead, found)
            if size == 0:
                break
            if by_index:
                i = _by_index(x, half, found, size)
            else:
                i = _by_net(x, sd, cost, first, second, lead, table, found, size)
            done[i >> 6] |= 1 << (i & 63)
            news = float(refined[q, i])
            if not abs(news) < math.inf:
                bad[q] += 1
                continue
            good[q] += 1
            paid[q] += fee[i]
            counts[i] += 1
            x[i] = news - price[i]
            first, second = _two(x, K, outside)
            lead = _leader(x, K, first)
        choice[q], value[q] = lead, outside
        if lead >= 0:
            known = (done[lead >> 6] >> (lead & 63)) & 1 and abs(refined[q, lead]) < math.inf
            value[q] = refined[q, lead] if known else m[q, lead]


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
    done_step = len(done) > 1
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
            if (done[q * done_step, i >> 6] >> (i & 63)) & 1:
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


def _some(done: Any) -> Any:
    """At least one row of bits."""
    return done if len(done) else np.zeros((1, done.shape[1]), dtype=np.int64)


def voi_argmax(
    m: Any, nu: Any, c: Any, w: Any, price: Any, done: Any, outside: float, rule: str
) -> tuple[Any, ...]:
    """Best refinement of each query; `done` has no row where nothing is done."""
    out = _outputs(m)
    _voi(m, price, nu, c, w, _some(done), outside, rule == "index", TABLE, *out)
    return out


def voi_route(
    m: Any,
    refined: Any,
    price: Any,
    nu: Any,
    c: Any,
    w: Any,
    fee: Any,
    outside: float,
    rule: str,
    rounds: int,
) -> tuple[Any, ...]:
    """Refine until it does not pay, one query after the other."""
    n, K = m.shape
    choice, good, bad = (np.empty(n, np.int64) for _ in range(3))
    value, paid, counts = np.empty(n), np.empty(n), np.zeros(K, np.int64)
    out = choice, value, good, bad, paid, counts
    _route(m, refined, price, nu, c, w, fee, outside, rule == "index", rounds, TABLE, *out)
    return out


def joint_argmax(
    m: Any, slope: Any, group: Any, c: Any, price: Any, done: Any, outside: float
) -> tuple[Any, ...]:
    """Best refinement of each query where refining one moves all; slopes are sorted once a group."""
    out = _outputs(m)
    wide = np.zeros((*slope.shape[:2], slope.shape[2] + 1))  # the outside option never moves
    wide[:, :, :-1] = slope
    order = np.argsort(wide, axis=2, kind="stable")
    _joint(m, price, wide, order, group, c, _some(done), outside, *out)
    return out
