"""Local search over one order of rows and columns: annealing and descent with swaps, shifts and reversals.

The cost is a sum over the sparser of W and 1 - W, kept as neighbour lists of positions, so a swap costs
O(degree) and a move of a segment O(length * degree). With symmetric and antisymmetric parts apart,
``sum W o P = sum Ws o Ps + sum Wk o Pk``; the second sum vanishes where one matrix is symmetric.
"""

from typing import Any

import numba
import numpy as np

__all__ = ["anneal"]


@numba.njit(cache=True, inline="always")
def _next(state: Any) -> Any:
    """One step of xorshift64*, in place; its own state keeps runs reproducible."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(2685821657736338717)


@numba.njit(cache=True, inline="always")
def _below(state: Any, n: int) -> Any:
    """Integer in 0..n-1."""
    return np.int64((_next(state) >> np.uint64(33)) % np.uint64(n))


@numba.njit(cache=True, inline="always")
def _uniform(state: Any) -> Any:
    """Float in [0, 1)."""
    return float(_next(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@numba.njit(cache=True)
def _segment(first: int, size: int, start: int, length: int, turn: int, places: Any, count: int) -> Any:
    """Append positions of a segment to ``places[0]`` and what comes there to ``[1]``; turn < 0 reverses."""
    for t in range(length):
        s = length - 1 - t if turn < 0 else (t + turn) % length
        places[0, count + t] = first + (start + t) % size
        places[1, count + t] = first + (start + s) % size
    return count + length


@numba.njit(cache=True)
def _random_move(state: Any, n: int, split: int, cyclic: bool, places: Any) -> Any:
    """Draw a segment of positions and a rearrangement of it: one step to either side, a turn, or a reversal.

    With two sides (split < n) half of the moves touch one side, half both at the same relative place.
    """
    first, size = 0, split
    both = False
    if split < n:
        side = _below(state, 4)
        both = side > 1
        if side == 1:
            first, size = split, n - split
    longest = size // 2 + 1  # a longer one is as good as a move of what it leaves out
    length = min(int(2.0 * (0.5 * longest) ** _uniform(state)) + 1, size)
    start = _below(state, size if cyclic else size - length + 1)
    kind = _below(state, 4)
    turn = 1
    if kind == 1:
        turn = length - 1
    elif kind == 2:
        turn = 1 + _below(state, max(length - 1, 1))
    elif kind == 3:
        turn = -1
    count = _segment(first, size, start, length, turn, places, 0)
    if both:
        other = n - split
        length = min(length, other)
        start = min(start * other // size, other - length)
        count = _segment(split, other, start, length, min(turn, length - 1), places, count)
    return count


@numba.njit(cache=True)
def anneal(
    ptr: Any,
    nbr: Any,
    vs: Any,
    vk: Any,
    vd: Any,
    Bs: Any,
    Bk: Any,
    bd: Any,
    skew: bool,
    classes: Any,
    split: int,
    cyclic: bool,
    segments: float,
    p: Any,
    hot: float,
    cold: float,
    steps: int,
    seed: int,
    goal: float,
) -> Any:
    """Anneal from `hot` to `cold` in `steps` proposals, or until the gain reaches `goal`.

    Positions 0..split-1 and split..n-1 exchange sources among themselves only. The best order found replaces
    `p`; returns its gain.
    """
    n = p.size
    state = np.empty(1, np.uint64)
    state[0] = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x2545F4914F6CDD1D)
    for _ in range(8):
        _next(state)
    best = p.copy()
    new = p.copy()
    mark = np.zeros(n, np.int64)
    places = np.empty((2, n), np.int64)
    gain, top = 0.0, 0.0
    rate = (cold / hot) ** (1.0 / max(steps, 1)) if hot > 0 else 1.0
    T = hot
    for step in range(1, steps + 1):
        T *= rate
        if segments > 0 and _uniform(state) < segments:
            length = _random_move(state, n, split, cyclic, places)
            for t in range(length):
                new[places[0, t]] = p[places[1, t]]
                mark[places[0, t]] = step
            delta = 0.0
            for t in range(length):
                i = places[0, t]
                u, v = p[i], new[i]
                delta += vd[i] * (bd[v] - bd[u])
                for c in range(ptr[i], ptr[i + 1]):
                    j = nbr[c]
                    if mark[j] != step or j < i:
                        delta += vs[c] * (Bs[v, new[j]] - Bs[u, p[j]])
                        if skew:
                            delta += vk[c] * (Bk[v, new[j]] - Bk[u, p[j]])
            if delta <= 0 or _uniform(state) < np.exp(-delta / T):
                for t in range(length):
                    p[places[0, t]] = new[places[0, t]]
            else:
                for t in range(length):
                    new[places[0, t]] = p[places[0, t]]
                continue
        else:
            a = _below(state, n)
            b = _below(state, split) if a < split else split + _below(state, n - split)
            if classes[a] == classes[b]:
                continue
            u, v = p[a], p[b]
            delta = (vd[a] - vd[b]) * (bd[v] - bd[u])
            for c in range(ptr[a], ptr[a + 1]):
                j = nbr[c]
                if j != b:
                    delta += vs[c] * (Bs[v, p[j]] - Bs[u, p[j]])
                    if skew:
                        delta += vk[c] * (Bk[v, p[j]] - Bk[u, p[j]])
                elif skew:
                    delta += vk[c] * (Bk[v, u] - Bk[u, v])
            for c in range(ptr[b], ptr[b + 1]):
                j = nbr[c]
                if j != a:
                    delta += vs[c] * (Bs[u, p[j]] - Bs[v, p[j]])
                    if skew:
                        delta += vk[c] * (Bk[u, p[j]] - Bk[v, p[j]])
            if delta <= 0 or _uniform(state) < np.exp(-delta / T):
                p[a], p[b] = v, u
                new[a], new[b] = v, u
            else:
                continue
        gain -= delta
        if gain > top + 1e-13:
            top = gain
            best[:] = p
            if top >= goal:
                break
    p[:] = best
    return top
