"""Which units point along the same line, without all pairs."""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["apart", "group", "keys", "lengths"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def keys(U: Floats, signed: bool) -> Floats:
    """Projections of rows on one fixed unit vector; absolute where the sign of a row has no meaning."""
    # the squares keep the angles free of small integer relations, so distinct rows rarely share a key
    p = np.cos(math.sqrt(2) * np.arange(1.0, U.shape[1] + 1) ** 2)
    key = U @ (p / np.linalg.norm(p))
    return np.asarray(key if signed else np.abs(key))


def lengths(rows: Floats) -> Floats:
    """Norms of rows, also where their squares leave the range of floats."""
    unit = np.frexp(np.abs(rows).max(1, initial=0.0))[1]
    return np.asarray(np.ldexp(np.linalg.norm(np.ldexp(rows, -unit[:, None]), axis=1), unit))


def apart(U: Floats, V: Floats, signed: bool) -> Floats:
    """Distances of rows, up to sign unless `signed`; differences keep the digits that cosines lose."""
    far = np.square(U - V).sum(1)
    if not signed:
        far = np.minimum(far, np.square(U + V).sum(1))
    return np.asarray(np.sqrt(far))


def group(U: Floats, tol: float, signed: bool) -> tuple[Ints, Ints, float, float]:
    """Merge unit rows within `tol`: leader rows by ascending key, place of each row's leader, and the gap.

    Rows within `tol` have keys within `tol`, so only rows in one run of close keys are compared, with the
    first row of the run that is still free. The gap is the largest distance merged and the smallest one
    between leaders, infinite where that is above 10 tol.
    """
    key = keys(U, signed)
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    run = np.zeros(len(U), dtype=np.int64)
    run[1:] = np.cumsum(np.diff(ordered) > tol)
    leader, todo, widest = np.arange(len(U)), np.arange(len(U)), 0.0
    while todo.size:
        first = np.ones(todo.size, dtype=bool)
        first[1:] = run[todo[1:]] != run[todo[:-1]]
        heads = todo[first][np.cumsum(first) - 1]
        todo, heads = todo[~first], heads[~first]
        far = apart(U[order[todo]], U[order[heads]], signed)
        near = far <= tol
        leader[todo[near]] = heads[near]
        widest = max(widest, float(far[near].max(initial=0.0)))
        todo = todo[~near]
    found, place = np.unique(leader, return_inverse=True)
    label = np.empty(len(U), dtype=np.int64)
    label[order] = place
    return order[found], label, widest, _closest(U[order[found]], ordered[found], 10 * tol, signed)


def _closest(U: Floats, key: Floats, window: float, signed: bool) -> float:
    """Smallest distance of two rows within the window, else infinity; rows by ascending key."""
    best = math.inf
    for step in range(1, len(U)):
        close = np.flatnonzero(key[step:] - key[:-step] <= window)
        if not close.size:
            break
        best = min(best, float(apart(U[close + step], U[close], signed).min()))
    return best if best <= window else math.inf
