"""Rows and columns free: each half-step is a linear assignment, so sweeps never increase the mass outside."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.kernels import lap
from porism.theory.pattern._anneal import COLD, HOT, TOLERANCE, WARM, TwoSided, chain_steps
from porism.theory.pattern._problem import Problem
from porism.theory.pattern._starts import independent_starts

__all__ = ["Found", "Search", "alternate", "solve_independent"]

Floats = NDArray[np.float64]
Order = NDArray[np.int64]
Start = tuple[str, Order, Order]

GRID = 2.0**-50
"""Costs are rounded to this grid, so that ties do not depend on how a product was summed."""


@dataclass
class Found:
    """An order with its value and how it was reached."""

    value: float
    p: Order
    q: Order
    name: str = ""
    history: tuple[float, ...] = ()
    sweeps: int = 0


@dataclass
class Search:
    """What a solver needs besides the problem."""

    rng: np.random.Generator
    restarts: int | None
    clock: Callable[[], bool]
    """Whether the time is spent."""
    bound: float
    warm: tuple[Order, Order] | None = None


def row_costs(problem: Problem, q: Order) -> Floats:
    """Cost of each source row at each position: ``B[:, q] @ W'``."""
    B = problem.B if problem.sparse is None else problem.sparse.tocsc()
    return _grid(B[:, q] @ problem.W.T)


def column_costs(problem: Problem, p: Order) -> Floats:
    """Cost of each source column at each position: ``B[p]' @ W``."""
    B = problem.B if problem.sparse is None else problem.sparse
    return _grid(B[p].T @ problem.W)


def alternate(
    problem: Problem, p: Order, q: Order, clock: Callable[[], bool] | None = None, sweeps: int = 1000
) -> Found:
    """Half-steps in turn until neither side alone can improve.

    Only decreases beyond the tolerance are taken, so the history falls strictly and the loop ends.
    """
    value = problem.value(p, q)
    history = [value]
    done = 0
    tried_rows = tried_columns = False
    while done < sweeps and not (tried_rows and tried_columns):
        done += 1
        if not tried_rows:
            new = lap.solve(row_costs(problem, q))
            now = problem.value(new, q)
            tried_rows = True
            if now < value - TOLERANCE:
                p, value, tried_columns = new, now, False
                history.append(value)
        if not tried_columns:
            new = lap.solve(column_costs(problem, p))
            now = problem.value(p, new)
            tried_columns = True
            if now < value - TOLERANCE:
                q, value, tried_rows = new, now, False
                history.append(value)
        if clock is not None and clock():
            break
    return Found(value, p, q, history=tuple(history), sweeps=done)


def solve_independent(problem: Problem, search: Search) -> tuple[Found, list[tuple[str, float]]]:
    """Best order over all starts, and what each start reached."""
    runs = _Runs(problem, search)
    for name, p, q in _candidates(runs):
        runs.add(name, p, q)
        if search.clock() or runs.best.value <= search.bound + TOLERANCE:
            break
    return runs.best, runs.record


def _candidates(runs: "_Runs") -> Iterator[Start]:
    """Where to descend from; each later one may build on what the earlier ones reached."""
    problem, search = runs.problem, runs.search
    m, n = problem.shape
    small = min(m, n)
    restarts = search.restarts
    if restarts is None:
        restarts = 64 if small <= 12 else 16 if small <= 64 else 4 if small <= 256 else 1
    starts: list[Start] = [] if search.warm is None else [("warm", *search.warm)]
    for start in independent_starts(problem.B, problem.mask.S, search.rng, restarts):
        starts.append(start)
        if search.clock():
            break
    yield from starts if small <= 100 else _screened(runs, starts, 4 if small <= 300 else 3)
    if small <= 300:
        for found in runs.distinct(3):
            yield f"annealed {found.name}", *_soften(problem, found.p, found.q)
    kicks = 0 if small < 3 else restarts if search.restarts is not None or small > 100 else 2 * restarts
    for i in range(kicks):
        best = runs.best
        if i % 2:
            yield f"kick-{i}", *_turn(best.p, best.q, search.rng)
        else:
            share = (0.15, 0.3, 0.5)[i // 2 % 3]
            yield f"kick-{i}", _kick(best.p, share, search.rng), _kick(best.q, share, search.rng)
    if small >= 3 and m + n <= 2048 and restarts:
        yield from _chains(runs, 6 if small <= 100 else 4 if small <= 300 else 2)


def _screened(runs: "_Runs", starts: list[Start], count: int) -> list[Start]:
    """The warm start and the `count` best others after one sweep; what the rest reached is recorded."""
    first = []
    for name, p, q in starts:
        found = alternate(runs.problem, p, q, runs.search.clock, sweeps=1)
        first.append((found.value, name, found.p, found.q))
        if runs.search.clock():
            break
    ranked = sorted(first, key=lambda entry: (entry[1] != "warm", round(entry[0], 11)))
    kept = ranked[: count + (ranked[0][1] == "warm")]
    names = {name for _, name, _, _ in kept}
    runs.record += [(name, value) for value, name, _, _ in first if name not in names]
    return [(name, p, q) for _, name, p, q in kept]


def _chains(runs: "_Runs", count: int) -> Iterator[Start]:
    """Anneal both orders at once, from random ones and from the best."""
    layout, rng = TwoSided(runs.problem), runs.search.rng
    m, n = runs.problem.shape
    steps = chain_steps(m + n, layout.degree, layout.segments, max(m, n))
    for i in range(count):
        seed = int(rng.integers(2**31))
        if i % 2:
            p, q, hot, cold, name = runs.best.p, runs.best.q, WARM, COLD / 2, f"{runs.best.name}, annealed"
        else:
            p, q, hot, cold, name = rng.permutation(m), rng.permutation(n), HOT, COLD, f"chain-{i // 2}"
        yield name, *layout.anneal(p, q, hot, cold, steps, seed, runs.search.bound)


class _Runs:
    """Finished runs, one a source-coordinate mask, and what every start reached."""

    def __init__(self, problem: Problem, search: Search) -> None:
        self.problem, self.search = problem, search
        self.found: dict[bytes, Found] = {}
        self.record: list[tuple[str, float]] = []
        self.best = Found(np.inf, np.arange(problem.shape[0]), np.arange(problem.shape[1]))

    def add(self, name: str, p: Order, q: Order) -> None:
        found = alternate(self.problem, p, q, self.search.clock)
        found.name = name
        self.record.append((name, found.value))
        where = np.empty(self.problem.shape)
        where[np.ix_(found.p, found.q)] = self.problem.mask.S
        self.found.setdefault(where.tobytes(), found)
        if found.value < self.best.value - TOLERANCE:
            self.best = found

    def distinct(self, count: int) -> list[Found]:
        return sorted(self.found.values(), key=lambda found: round(found.value, 11))[:count]


def _kick(p: Order, share: float, rng: np.random.Generator) -> Order:
    """Shuffle a random part of an order."""
    where = rng.choice(p.size, size=max(2, round(share * p.size)) if p.size > 1 else 1, replace=False)
    kicked = p.copy()
    kicked[where] = rng.permutation(kicked[where])
    return kicked


def _turn(p: Order, q: Order, rng: np.random.Generator) -> tuple[Order, Order]:
    """Reverse or move a segment of rows and the segment of columns at the same place."""
    low, middle, high = np.sort(rng.random(3))
    turned = []
    flip = rng.random() < 0.5
    for order in (p, q):
        a, b, c = (round(x * order.size) for x in (low, middle, high))
        part = order[a:c][::-1] if flip else np.concatenate([order[b:c], order[a:b]])
        turned.append(np.concatenate([order[:a], part, order[c:]]))
    return turned[0], turned[1]


def _soften(problem: Problem, p: Order, q: Order) -> tuple[Order, Order]:
    """Annealed soft assignment: scaled exponentials of the costs in turn, ever colder, then rounding."""
    B, W = problem.B, problem.W
    m, n = problem.shape
    Q = np.full((n, n), 1.0 / n) * 0.5  # column position j, source c
    Q[np.arange(n), q] += 0.5
    P = np.full((m, m), 1.0 / m) * 0.5
    P[np.arange(m), p] += 0.5
    cost = W @ Q @ B.T
    spread = max(float(cost.std()), 1e-300)
    for t in np.geomspace(1.0, 0.01, 25):
        P = _sinkhorn(W @ (Q @ B.T), t * spread)
        Q = _sinkhorn(W.T @ (P @ B), t * spread)
    return lap.solve(-np.round(P.T, 9)), lap.solve(-np.round(Q.T, 9))


def _sinkhorn(cost: Floats, temperature: float) -> Floats:
    """Near doubly stochastic exponential of ``-cost / temperature``."""
    low = cost.min(axis=1, keepdims=True)
    X = np.exp(-(cost - low) / temperature) + 1e-12
    for _ in range(20):
        X /= X.sum(axis=1, keepdims=True)
        X /= X.sum(axis=0, keepdims=True)
    return X


def _grid(cost: Any) -> Floats:
    return np.round(np.asarray(cost) / GRID) * GRID
