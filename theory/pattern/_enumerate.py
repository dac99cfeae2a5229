"""Exact answers: classes that one sort or one assignment solves, and enumeration of small sizes."""

from collections.abc import Iterator
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from porism.kernels import lap
from porism.theory.pattern._parts import NEGLIGIBLE, additive, centred, linear_cost, square_parts

__all__ = ["COMMON_LIMIT", "INDEPENDENT_LIMIT", "STEPS", "enumerate_optimum", "exact_class"]

COMMON_LIMIT = 7
"""Largest n whose n! common orders are all tried."""
INDEPENDENT_LIMIT = 6
"""Largest min(m, n) whose orders of the shorter side are all tried, each with one assignment."""

STEPS = 2e10
"""Largest min(m, n)! max(m, n)³ that is enumerated unasked: about six seconds."""

Array = NDArray[np.float64]
Pair = tuple[NDArray[np.intp], NDArray[np.intp]]


def exact_class(B: Array, W: Array, order: str) -> tuple[float, Pair, str] | None:
    """Solve the problem at once where its form allows it.

    Returns the least mass outside, orders (p, q) that reach it, and the reason; None for all other problems.
    The forms: the value is a sum over single rows and columns (all rows or all columns of W equal, a common
    order of a diagonal or sink mask, a constant matrix, ...), so that two sorts or one assignment solve it;
    or W has one cell per row and column that differs from all others (a permutation matrix).
    """
    m, n = W.shape
    p, q = np.arange(m), np.arange(n)
    if order == "none":
        return _value(B, W, p, q), (p, q), "the order is given"
    if additive(W, B, order):
        if order == "common":
            p = lap.solve(linear_cost(square_parts(W), square_parts(B)))
            return _value(B, W, p, p), (p, p.copy()), "one assignment: single rows and columns add up"
        (rw, cw, _), (rb, cb, _) = centred(W), centred(B)
        p, q = _sorted_product(rw, rb), _sorted_product(cw, cb)
        return _value(B, W, p, q), (p, q), "one sort: single rows and columns add up"
    cells = _lone_cells(W) if order == "independent" else None
    if cells is None:
        return None
    from scipy.optimize import linear_sum_assignment

    rows, columns, deeper = cells
    source_rows, source_columns = linear_sum_assignment(B, maximize=deeper)
    p, q = _complete(rows, source_rows, m), _complete(columns, source_columns, n)
    return _value(B, W, p, q), (p, q), "one assignment: the mask is a permutation matrix"


def enumerate_optimum(B: Array, W: Array, order: str) -> tuple[float, list[Pair]]:
    """The least ``sum(W * B[p][:, q])`` over all orders, and orders that reach it, up to 1e-12 of ΣB.

    "common": every optimal order, of n!; "independent": of the min(m, n)! orders of the shorter side each
    optimal one, with the best order of the other side. In lexicographic order; the caller checks the size.
    """
    slack = NEGLIGIBLE * float(B.sum())
    if order == "common":
        kept = _common(B, W, slack)
    elif W.shape[0] <= W.shape[1]:
        kept = _rows(B, W, slack)
    else:
        kept = [(value, (p, q)) for value, (q, p) in _rows(B.T, W.T, slack)]
    best = min(value for value, _ in kept)
    return best, [pair for value, pair in kept if value <= best + slack]


def _common(B: Array, W: Array, slack: float) -> list[tuple[float, Pair]]:
    best, kept = np.inf, []
    for chunk in _chunks(len(W), 5040):
        values = np.einsum("ij,kij->k", W, B[chunk[:, :, None], chunk[:, None, :]])
        best = min(best, float(values.min()))
        for k in np.flatnonzero(values <= best + slack):
            kept.append((float(values[k]), (chunk[k], chunk[k].copy())))
    return kept


def _rows(B: Array, W: Array, slack: float) -> list[tuple[float, Pair]]:
    best, kept = np.inf, []
    for chunk in _chunks(len(W), max(1, min(720, 2**22 // W.shape[1] ** 2))):  # costs take n² each
        costs = np.einsum("kic,ij->kcj", B[chunk], W, optimize=True)
        q = lap.batched(costs)
        values = np.take_along_axis(costs, q[:, None], axis=1).sum(axis=(1, 2))
        best = min(best, float(values.min()))
        kept += [(float(values[k]), (chunk[k], q[k])) for k in np.flatnonzero(values <= best + slack)]
    return kept


def _chunks(n: int, size: int) -> Iterator[NDArray[np.intp]]:
    orders = permutations(range(n))
    while chunk := list(islice(orders, size)):
        yield np.array(chunk, dtype=np.intp)


def _lone_cells(W: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], bool] | None:
    """Cells, one for each row or column of the shorter side, that alone differ from all others."""
    low, high = float(W.min()), float(W.max())
    for deeper, lone in ((True, np.equal(W, low)), (False, np.equal(W, high))):
        others = W[~lone]
        if (
            lone.sum() == min(W.shape)
            and lone.sum(0).max() <= 1
            and lone.sum(1).max() <= 1
            and (not others.size or np.ptp(others) == 0)
        ):
            rows, columns = np.nonzero(lone)
            return rows, columns, deeper
    return None


def _complete(positions: NDArray[np.intp], sources: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """An order with the given sources at the given positions, and the others in between as they come."""
    order = np.full(size, -1, dtype=np.intp)
    order[positions] = sources
    order[order < 0] = np.setdiff1d(np.arange(size), sources)
    return order


def _sorted_product(weights: Array, masses: Array) -> NDArray[np.intp]:
    """The order p that makes ``weights @ masses[p]`` least: the heaviest masses at the smallest weights."""
    order = np.empty(len(masses), dtype=np.intp)
    order[np.argsort(weights, kind="stable")] = np.argsort(-masses, kind="stable")
    return order


def _value(B: Array, W: Array, p: NDArray[np.intp], q: NDArray[np.intp]) -> float:
    return float(np.einsum("ij,ij->", W, B[np.ix_(p, q)]))
