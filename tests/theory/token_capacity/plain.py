"""Definitions as loops over examples and positions; exact where the numbers are fractions."""

import math
from fractions import Fraction

import numpy as np


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def block(X, G, t):
    """K_t by loops, of nested lists of any numbers."""
    n = range(len(X))
    return [[dot(X[i][t], X[j][t]) * dot(G[i][t], G[j][t]) for j in n] for i in n]


def tied(X, G, S):
    """K_S by loops over pairs of positions."""
    n = range(len(X))
    return [[sum(dot(X[i][s], X[j][t]) * dot(G[i][s], G[j][t]) for s in S for t in S) for j in n] for i in n]


def fractions(A):
    return [[Fraction(x) for x in row] for row in A]


def determinant(A):
    """Exact, by elimination."""
    A, value = fractions(A), Fraction(1)
    for i in range(len(A)):
        pivot = next((r for r in range(i, len(A)) if A[r][i]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != i:
            A[i], A[pivot], value = A[pivot], A[i], -value
        value *= A[i][i]
        for r in range(i + 1, len(A)):
            factor = A[r][i] / A[i][i]
            A[r] = [a - factor * b for a, b in zip(A[r], A[i], strict=True)]
    return value


def entropy_rank(M):
    """exp of the entropy of the eigenvalues, by the definition."""
    values = np.linalg.eigvals(np.asarray(M)).real
    shares = [v / values.sum() for v in values if v > 1e-14 * values.sum()]
    return math.exp(-sum(p * math.log(p) for p in shares))


def coverage(C, order, ridge):
    """The formula with an explicit inverse, or the projector from a singular value decomposition."""
    C = np.asarray(C, dtype=float)
    F = C.sum(0)
    lam = ridge * np.trace(F) / len(F)
    curve = []
    for k in range(1, len(order) + 1):
        part = sum(C[t] for t in order[:k])
        if ridge:
            filtered = part @ np.linalg.inv(part + lam * np.eye(len(F)))
        else:
            U, s, _ = np.linalg.svd(part)
            U = U[:, s > 1e-9 * s[0]]
            filtered = U @ U.T
        curve.append(np.trace(F @ filtered) / np.trace(F))
    return np.array(curve)


def prefixes(ids, mask, align, places=None):
    """Sets of tuples, position by position."""
    T = len(ids[0])
    seen = {}
    for row, (tokens, real) in enumerate(zip(ids, mask, strict=True)):
        columns = [c for c in range(T) if real[c]]
        for rank, column in enumerate(columns):
            at = {"start": rank, "end": len(columns) - 1 - rank, "absolute": column}[align]
            prefix = tuple(
                (tokens[c], i if places is None else places[row][c])
                for i, c in enumerate(columns[: rank + 1])
            )
            seen.setdefault(at, set()).add(prefix)
    length = T if align == "absolute" else max(sum(map(bool, real)) for real in mask)
    return [len(seen.get(t, ())) for t in range(length)]


def spread(total):
    """Position 0, then the middle of the widest run of free positions."""
    free, order = set(range(1, total)), [0]
    while free:
        best = max(
            ((a, b) for a in free for b in free if a <= b and free.issuperset(range(a, b + 1))),
            key=lambda run: (run[1] - run[0], -run[0]),
        )
        order.append(sum(best) // 2)
        free.discard(order[-1])
    return order


def moments(X, mask, align, edges):
    """Second moments and counts of rows X (N, T, d), token by token."""
    second = np.zeros((len(edges), X.shape[2], X.shape[2]))
    count = np.zeros(len(edges), dtype=int)
    for row, real in zip(X, mask, strict=True):
        columns = np.flatnonzero(real)
        for rank, column in enumerate(columns):
            at = {"start": rank, "end": len(columns) - 1 - rank, "absolute": column}[align]
            b = max(i for i, edge in enumerate(edges) if edge <= at)
            second[b] += np.outer(row[column], row[column])
            count[b] += 1
    return second, count
