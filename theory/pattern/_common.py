"""One order for rows and columns: a quadratic assignment, by relaxation, annealing and local search."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from porism.kernels import lap, pattern_cost
from porism.theory.pattern._anneal import COLD, HOT, TOLERANCE, WARM, Layout, chain_steps
from porism.theory.pattern._independent import Found, Search
from porism.theory.pattern._problem import Problem
from porism.theory.pattern._starts import common_starts, rounded

__all__ = ["descend", "frank_wolfe", "solve_common"]

Floats = NDArray[np.float64]
Order = NDArray[np.int64]
Clock = Callable[[], bool] | None


def frank_wolfe(layout: Layout, X: Floats, iterations: int = 30, clock: Clock = None) -> Order:
    """Minimise ``<W, X B X'>`` over doubly stochastic X (positions on rows) by exact line search, then round.

    The gradient is linear in X and updated, so an iteration takes one product (two without symmetry).
    """
    B = layout.B
    gradient = _gradient(layout, X @ B, X @ B.T)
    everyone = np.arange(layout.n)
    tilt = float(np.vdot(gradient, X))
    for _ in range(iterations):
        p = lap.solve(rounded(gradient.T, 11))
        other = _gradient(layout, B[p], B.T[p])
        # f(X + t(Y - X)) = f + t slope + t^2 bend, with <gradient(Z), Z> = 2 f(Z)
        cross, end = float(gradient[everyone, p].sum()), float(other[everyone, p].sum())
        slope, bend = cross - tilt, 0.5 * (tilt + end) - cross
        if slope > -1e-10:
            break
        step = 1.0 if bend <= 0 else min(1.0, -slope / (2 * bend))
        if bend <= 0 and slope + bend > 0:
            break
        gradient += step * (other - gradient)
        X = X * (1 - step)
        X[everyone, p] += step
        tilt = float(np.vdot(gradient, X))
        if step == 1.0 and bend <= 0 and slope + bend > -1e-10:
            break
        if clock is not None and clock():
            break
    return lap.solve(-np.round(X.T, 9))


def _gradient(layout: Layout, XB: Floats, XBt: Floats) -> Floats:
    if layout.symmetric:
        out: Floats = 2.0 * (layout.W @ XB)
        return out
    return layout.W @ XBt + layout.W.T @ XB


def descend(layout: Layout, p: Order, clock: Clock = None) -> tuple[Order, float, list[float]]:
    """Swaps until none improves: all differences at once, then the disjoint best of them one by one."""
    p, value, history = p.copy(), layout.value(p), []
    while True:
        deltas = pattern_cost.swap_deltas(layout.B, layout.W, p)
        a, b = np.nonzero(np.triu(np.round(deltas, 15) < -TOLERANCE))
        if not a.size:
            break
        order = np.argsort(np.round(deltas[a, b], 15), kind="stable")
        free = np.ones(p.size, dtype=bool)
        first = True
        for i, j in zip(a[order], b[order], strict=True):
            if not (free[i] and free[j]):
                continue
            free[[i, j]] = False
            if first or _swap_delta(layout, p, i, j) < -TOLERANCE:
                p[i], p[j] = p[j], p[i]
            first = False
        now = layout.value(p)
        if now >= value - TOLERANCE / 2:
            break
        value = now
        history.append(value)
        if clock is not None and clock():
            break
    return p, value, history


def _swap_delta(layout: Layout, p: Order, i: int, j: int) -> float:
    B, W = layout.B, layout.W
    q = p.copy()
    q[i], q[j] = p[j], p[i]
    pair = [i, j]
    rows = float((W[pair] * (B[np.ix_(q[pair], q)] - B[np.ix_(p[pair], p)])).sum())
    columns = float((W[:, pair] * (B[np.ix_(q, q[pair])] - B[np.ix_(p, p[pair])])).sum())
    both = float((W[np.ix_(pair, pair)] * (B[np.ix_(q[pair], q[pair])] - B[np.ix_(p[pair], p[pair])])).sum())
    return rows + columns - both


def solve_common(problem: Problem, search: Search) -> tuple[Found, list[tuple[str, float]]]:
    """Best order over starts, chains and descents, and what each of them reached."""
    n = problem.shape[0]
    layout = Layout(problem.B, problem.W)
    pool = _Pool(layout, search)
    if search.warm is not None:
        pool.add("warm", search.warm[0], polish=True)
    for name, p in common_starts(problem.B, problem.mask.S):
        pool.add(name, p)
        if pool.stop():
            return pool.result()
    pool.add("barycentre", frank_wolfe(layout, np.full((n, n), 1.0 / n), 30 if n <= 512 else 8, search.clock))
    if n <= 512:
        for name, p in pool.leaders(3):
            start = np.zeros((n, n))
            start[np.arange(n), p] = 1.0
            pool.add(f"relaxed {name}", frank_wolfe(layout, 0.7 * start + 0.3 / n, 15, search.clock))
    for name, p in pool.leaders(2):
        pool.add(f"{name}, swaps", p, polish=True)
        if pool.stop():
            return pool.result()
    restarts = search.restarts
    if restarts is None:
        restarts = 10 if n <= 200 else 4
    steps = chain_steps(n, layout.degree, layout.segments, n // 2)
    rng = search.rng
    for i in range(restarts):
        seed = int(rng.integers(2**31))
        if i % 2 == 0:
            p = layout.anneal(rng.permutation(n), HOT if n > 16 else 1.0, COLD, steps, seed, search.bound)
            pool.add(f"random-{i // 2}", p, polish=True)
        else:  # of the orders so far: the best, the second, the best, the third ...
            name, p = pool.leaders(1 if i % 4 == 1 else 2 + i // 4)[-1]
            p = layout.anneal(p, WARM, COLD / 2, steps, seed, search.bound)
            pool.add(f"{name}, annealed", p, polish=True)
        if pool.stop():
            break
    return pool.result()


class _Pool:
    """Orders reached so far, best first; ties in value go to the earlier."""

    def __init__(self, layout: Layout, search: Search) -> None:
        self.layout, self.search = layout, search
        self.record: list[tuple[str, float]] = []
        self.orders: list[tuple[float, int, str, Order]] = []
        self.best = Found(np.inf, np.arange(layout.n), np.arange(layout.n))
        self.history: list[float] = []

    def add(self, name: str, p: Order, polish: bool = False) -> None:
        value = self.layout.value(p)
        path = [value]
        if polish:
            p, value, more = descend(self.layout, p, self.search.clock)
            path += more
        self.record.append((name, value))
        self.orders.append((round(value, 11), len(self.orders), name, p))
        if value < self.best.value - TOLERANCE:
            for step in path:
                if not self.history or step < self.history[-1] - TOLERANCE:
                    self.history.append(step)
            self.best = Found(value, p, p, name)

    def leaders(self, count: int) -> list[tuple[str, Order]]:
        seen: set[float] = set()
        out = []
        for value, _, name, p in sorted(self.orders, key=lambda entry: entry[:2]):
            if value not in seen:
                seen.add(value)
                out.append((name, p))
            if len(out) == count:
                break
        return out

    def stop(self) -> bool:
        return self.search.clock() or self.best.value <= self.search.bound + TOLERANCE

    def result(self) -> tuple[Found, list[tuple[str, float]]]:
        best = self.best
        if not self.search.clock():
            p, value, more = descend(self.layout, best.p)
            if more:
                best = Found(value, p, p, f"{best.name}, swaps")
                self.history += more
        best.history, best.sweeps = tuple(self.history), len(self.history)
        return best, self.record
