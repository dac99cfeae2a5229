"""Independent oracles of claims and figures: all orders by definition, descents, graph problems, cases."""

import warnings
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.pattern import Mask, PatternFit, UninformativeMaskWarning, masks, pattern_distance

__all__ = [
    "EXACT",
    "KINDS",
    "ROUNDING",
    "any_matrix",
    "any_order",
    "automorphisms",
    "biclique",
    "bisection",
    "descend",
    "enumerated",
    "family",
    "feedback",
    "half_step",
    "least",
    "longest_edge",
    "masses",
    "modes",
    "orders",
    "rectangles",
    "small",
    "solve",
]

Floats = NDArray[np.float64]
Order = NDArray[np.intp]

EXACT = 1e-12
"""Rounding of a sum of at most a few thousand masses that sum to 1."""

ROUNDING = "rounding of sums of masses, total 1"

KINDS = ("gauss", "symmetric", "planted", "integer")


def orders(n: int) -> Order:
    """All permutations (n!, n)."""
    return np.array(list(permutations(range(n))), dtype=np.intp).reshape(-1, n)


def masses(A: Floats) -> Floats:
    """Squares that sum to 1."""
    B: Floats = A * A / (A * A).sum()
    return B


def enumerated(B: Floats, W: Floats, order: str) -> Floats:
    """Mass outside for every order: (n!,) where tied, (m!, n!) where rows and columns are free.

    No assignment is solved: with the rows placed, the cost of a column order is a sum of n cells, looked up
    for every order.
    """
    m, n = W.shape
    P = orders(m)
    if order == "common":
        return np.einsum("ij,kij->k", W, B[P[:, :, None], P[:, None, :]])
    cells = np.einsum("ij,kic->kjc", W, B[P]).reshape(len(P), n * n)
    return cells @ np.eye(n)[orders(n)].reshape(-1, n * n).T


def least(A: Floats, mask: Mask, order: str) -> float:
    """The least mass outside by trying all orders."""
    return float(enumerated(masses(A), (1 - mask.S) ** 2, order).min())


def automorphisms(S: Floats, order: str) -> int:
    """Count the orders under which S keeps every cell, by trying all of them."""
    m, n = S.shape
    if order == "common":
        P = orders(m)
        return int((S[P[:, :, None], P[:, None, :]] == S).all(axis=(1, 2)).sum())
    seen: dict[bytes, int] = {}
    for p in orders(m):
        key = S[p].tobytes()
        seen[key] = seen.get(key, 0) + 1
    return sum(seen.get(np.ascontiguousarray(S[:, q]).tobytes(), 0) for q in orders(n))


def family(n: int, rng: np.random.Generator) -> list[Mask]:
    """Square masks of a dozen families, the last one with random weights."""
    half = n // 2
    weights = np.array([0.0, 0.25, 0.5, 1.0])
    return [
        masks.band(n, 0),
        masks.band(n, 1),
        masks.block_diagonal([half, n - half]),
        masks.arrowhead(n, 1),
        masks.lower_triangular(n),
        masks.anti_diagonal(n),
        masks.bipartite(half, n - half),
        masks.checkerboard(n, n),
        masks.hub(n, 1),
        masks.circulant_band(n, 1),
        masks.vertical_slash(n, [0], [0, 1]),
        masks.from_array(rng.choice(weights, (n, n))),
    ]


def modes(mask: Mask) -> tuple[str, ...]:
    """The orders that a mask admits."""
    return ("independent", "common") if mask.shape[0] == mask.shape[1] else ("independent",)


def small(rng: np.random.Generator) -> list[Mask]:
    """Square masks of 4 and 5 rows, then those that are not square: all orders are soon tried."""
    return [*family(4, rng), *family(5, rng), *rectangles(rng)]


def rectangles(rng: np.random.Generator) -> list[Mask]:
    """Masks with more or fewer columns than rows."""
    return [
        masks.block_diagonal([1, 2], [2, 3]),
        masks.block_diagonal([2, 2], [1, 2]),
        masks.sink(4, 5, 2),
        masks.staircase(3, 5, [0, 2, 4]),
        masks.checkerboard(4, 5),
        masks.from_array(rng.choice([0.0, 0.5, 1.0], (5, 3))),
    ]


def any_matrix(mask: Mask, kind: str, rng: np.random.Generator) -> Floats:
    """A matrix of the mask's shape: noise, symmetric noise, the pattern under noise, or a few integers."""
    m, n = mask.shape
    noise = rng.standard_normal((m, n))
    if kind == "symmetric" and m == n:
        return noise + noise.T
    if kind == "planted":
        A: Floats = mask.S * rng.choice([-1.0, 1.0], (m, n)) + 0.3 * noise
        return any_order(A, "common" if m == n else "independent", rng)
    if kind == "integer":
        found = rng.integers(-2, 3, (m, n)).astype(float)
        found[0, 0] = 2.0
        return found
    return noise


def any_order(A: Floats, order: str, rng: np.random.Generator) -> Floats:
    """A shuffled, rows and columns together where tied."""
    p = rng.permutation(A.shape[0])
    return A[np.ix_(p, p if order == "common" else rng.permutation(A.shape[1]))]


def solve(A: Floats, mask: Mask, order: str, rng: np.random.Generator, **options: Any) -> PatternFit:
    """The solver, without its advice on masks that say nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeMaskWarning)
        return pattern_distance(A, mask, order=order, random_state=int(rng.integers(2**31)), **options)


def half_step(cost: Floats) -> Order:
    """Source at each position at least ``sum_i cost[i, p[i]]``, by SciPy."""
    from scipy.optimize import linear_sum_assignment

    source, position = linear_sum_assignment(cost.T)
    p = np.empty(len(source), dtype=np.intp)
    p[position] = source
    return p


def descend(B: Floats, W: Floats, order: str, rng: np.random.Generator) -> float:
    """One descent from one random order: assignments in turn, or the best swap until none helps."""
    m, n = W.shape
    p, q = rng.permutation(m), rng.permutation(n)
    value = np.inf
    if order == "independent":
        while True:
            p = half_step(W @ B[:, q].T)
            q = half_step(W.T @ B[p])
            now = float((W * B[np.ix_(p, q)]).sum())
            if now >= value - EXACT:
                return min(now, value)
            value = now
    value = float((W * B[np.ix_(p, p)]).sum())
    while True:
        trials = []
        for a, b in combinations(range(n), 2):
            swapped = p.copy()
            swapped[[a, b]] = p[[b, a]]
            trials.append((float((W * B[np.ix_(swapped, swapped)]).sum()), a, b))
        now, a, b = min(trials)
        if now >= value - EXACT:
            return value
        value = now
        p[[a, b]] = p[[b, a]]


def biclique(E: Floats, k: int) -> bool:
    """Whether k rows and k columns of a 0/1 matrix are joined completely."""
    common = (E[list(rows)].all(axis=0).sum() for rows in combinations(range(len(E)), k))
    return any(count >= k for count in common)


def longest_edge(E: Floats) -> int:
    """Bandwidth of a graph by trying all orders."""
    i, j = np.nonzero(E)
    place = orders(len(E))
    return int(np.abs(place[:, i] - place[:, j]).max(axis=1, initial=0).min())


def feedback(M: Floats) -> float:
    """Least weight above the diagonal over all orders: a table over the sets that come first."""
    n = len(M)
    best = np.zeros(1 << n)
    for mask in range(1, 1 << n):
        before = [i for i in range(n) if mask >> i & 1]  # the last of them sees the others ahead of it
        best[mask] = min(best[mask ^ 1 << k] + sum(M[i, k] for i in before if i != k) for k in before)
    return float(best[-1])


def bisection(M: Floats) -> float:
    """Least weight between two halves over all halves, both directions."""
    n = len(M)
    values = []
    for part in combinations(range(n), n // 2):
        side = np.isin(np.arange(n), part)
        values.append(float(M[side][:, ~side].sum() + M[~side][:, side].sum()))
    return min(values)
