"""Annealing of one order, or of two orders at once: what the compiled search needs, and its temperatures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.kernels.pattern_cost import anneal

__all__ = ["COLD", "HOT", "TOLERANCE", "WARM", "Layout", "TwoSided", "chain_steps"]

Floats = NDArray[np.float64]
Order = NDArray[np.int64]

TOLERANCE = 1e-12
"""Smallest decrease that counts, in units of the total mass."""
HOT, WARM, COLD = 0.5, 0.2, 0.08
"""Where a random order melts, where a good one loosens, and where all freezes, in units of `scale`."""

LOOKUPS = 2e8
"""Masses that one chain may look up: about half a second."""


def chain_steps(size: int, degree: float, segments: bool, longest: int) -> int:
    """Proposals of a chain over `size` positions: 3000 each, as far as the look-ups allow."""
    a_segment = longest / np.log(max(longest / 2, 2.0)) * degree  # lengths are log-uniform on 2 .. longest
    cost = 2 * degree + 10 + (a_segment if segments else 0.0)
    return int(min(2e4 + 4e3 * size, LOOKUPS / cost))


class Layout:
    """Masses and penalties of a common order, with the lists that the annealing needs.

    Where one of the two matrices is symmetric only the symmetric part of the other counts.
    """

    def __init__(self, B: Floats, W: Floats) -> None:
        self.n = len(B)
        self.symmetric = bool(np.array_equal(W, W.T) or np.array_equal(B, B.T))
        if self.symmetric:
            B, W = (B + B.T) / 2, (W + W.T) / 2
        self.B, self.W = B, W
        K = W if np.count_nonzero(W) * 2 <= W.size else W - 1.0
        self.classes, self.segments, self.cyclic = _structure(W)
        linked = (K != 0) | (K.T != 0)
        np.fill_diagonal(linked, False)
        rows, columns = np.nonzero(linked)
        pointers = np.concatenate([[0], np.cumsum(linked.sum(axis=1))])
        half, skew = (K + K.T) / 2, (K - K.T) / 2
        masses = B + B.T
        self.links = pointers, columns, half[rows, columns], skew[rows, columns], np.diagonal(K).copy()
        self.masses = masses, B - B.T, np.diagonal(B).copy()
        self.degree = rows.size / max(self.n, 1)
        off = masses[~np.eye(self.n, dtype=bool)]
        weights = float(np.sqrt((half[rows, columns] ** 2).sum() / max(self.n, 1)))
        self.scale = float(off.std()) * 2 * weights if off.size else 0.0
        if not self.scale > 0:
            self.scale = float(B.std()) or 1e-3

    def value(self, p: Order) -> float:
        """Mass outside."""
        return float(np.einsum("ij,ij->", self.W, self.B[np.ix_(p, p)]))

    def anneal(
        self, p: Order, hot: float, cold: float, steps: int, seed: int, bound: float = -np.inf
    ) -> Order:
        """Best order on a path from `hot` to `cold`, in units of `scale`; ends early at the lower bound."""
        p = np.array(p, dtype=np.int64)
        goal = self.value(p) - bound - TOLERANCE
        _run(self, p, (hot, cold), steps, seed, goal, self.n, skew=not self.symmetric, cyclic=self.cyclic)
        return p


def _run(
    layout: Any,
    p: Order,
    ends: tuple[float, float],
    steps: int,
    seed: int,
    goal: float,
    split: int,
    skew: bool = False,
    cyclic: bool = False,
) -> None:
    """One chain of either layout, in place, between temperatures in units of its scale."""
    hot, cold = ends
    anneal(
        layout.links, layout.masses, p, skew=skew, classes=layout.classes, split=split, cyclic=cyclic,
        segments=0.5 if layout.segments else 0.0, temperatures=(hot * layout.scale, cold * layout.scale),
        steps=steps, seed=seed, goal=goal,
    )  # fmt: skip


def _structure(W: Floats) -> tuple[Order, bool, bool]:
    """Classes of positions, whether shifts and reversals may help, and whether the positions form a ring."""
    n = len(W)
    classes = np.arange(n)
    for filler in (
        0.0,
        1.0,
    ):  # twins: equal rows and columns once both diagonal cells hold what links the two
        filled = np.array(W)
        np.fill_diagonal(filled, filler)
        groups: dict[bytes, int] = {}
        for i in range(n):
            key = filled[i].tobytes() + filled[:, i].tobytes() + W[i, i].tobytes()
            first = groups.setdefault(key, i)
            if first != i:
                classes[i] = classes[first]
    count = np.unique(classes).size
    linear = count > n // 2
    cyclic = linear and n > 2 and np.array_equal(np.roll(W, (1, 1), axis=(0, 1)), W)
    return classes, linear, bool(cyclic)


class TwoSided:
    """Masses and penalties of free row and column orders, as one list of m + n positions."""

    def __init__(self, problem: Any) -> None:
        B, W = problem.B, problem.W
        self.problem, (m, n) = problem, problem.shape
        K = W if np.count_nonzero(W) * 2 <= W.size else W - 1.0
        both, masses = np.zeros((m + n, m + n)), np.zeros((m + n, m + n))
        both[:m, m:], both[m:, :m] = K, K.T
        masses[:m, m:], masses[m:, :m] = B, B.T
        rows, columns = np.nonzero(both)
        nothing = np.zeros(m + n)
        pointers = np.searchsorted(rows, np.arange(m + n + 1))
        values = both[rows, columns]
        self.links, self.masses = (pointers, columns, values, values, nothing), (masses, masses, nothing)
        rank, other = problem.mask.row_classes, problem.mask.col_classes
        self.classes = np.concatenate([rank, rank.max() + 1 + other]).astype(np.int64)
        self.segments = bool(np.unique(self.classes).size > (m + n) // 2)
        self.degree = rows.size / (m + n)
        self.scale = (float(B.std()) or 1e-3) * 2 * float(np.sqrt((values**2).sum() / (m + n)))

    def anneal(
        self, p: Order, q: Order, hot: float, cold: float, steps: int, seed: int, bound: float = -np.inf
    ) -> tuple[Order, Order]:
        """Best pair of orders on a path from `hot` to `cold`, in units of `scale`."""
        m = p.size
        joined = np.concatenate([p, m + q]).astype(np.int64)
        _run(self, joined, (hot, cold), steps, seed, self.problem.value(p, q) - bound - TOLERANCE, m)
        return joined[:m].copy(), joined[m:] - m
