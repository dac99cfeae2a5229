"""Truth for the pattern kernels: the definitions, in loops, with exact sums."""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["batched_cost", "head_null", "swap_deltas"]

Floats = NDArray[np.float64]


def batched_cost(A: Floats, q: NDArray[np.int64], W: Floats) -> Floats:
    """``C[b, r, i] = sum_j A[b, r, q[b, j]]^2 W[i, j]``."""
    m, n = W.shape
    out = np.empty((A.shape[0], m, m))
    for b, r, i in np.ndindex(out.shape):
        out[b, r, i] = math.fsum(A[b, r, q[b, j]] ** 2 * W[i, j] for j in range(n))
    return out


def swap_deltas(B: Floats, W: Floats, p: NDArray[np.int64]) -> Floats:
    """Two evaluations a swap."""
    n = p.size
    out = np.zeros((n, n))
    for a, b in np.ndindex(n, n):
        changed = p.copy()
        changed[[a, b]] = p[[b, a]]
        cells = zip(B[np.ix_(changed, changed)].flat, B[np.ix_(p, p)].flat, W.flat, strict=True)
        out[a, b] = math.fsum(term for new, old, w in cells for term in (w * new, -w * old))
    return out


def head_null(A: Floats, masks: Floats, causal: bool, mass: str) -> tuple[Floats, Floats]:
    """Cell by cell."""
    heads, m, n = A.shape
    d2, null = np.full((heads, len(masks)), np.nan), np.full((heads, len(masks)), np.nan)
    for h, k in np.ndindex(d2.shape):
        top = float(np.abs(A[h]).max(initial=0.0))
        if top == 0:
            continue
        B = (np.abs(A[h]) / top) ** (2 if mass == "squared" else 1)
        outside, mean = [], []
        for i in range(m):
            admissible = range(min(i + 1, n) if causal else n)
            share = math.fsum((1 - masks[k, i, j]) ** 2 for j in admissible) / len(admissible)
            outside += [B[i, j] * (1 - masks[k, i, j]) ** 2 for j in range(n)]
            mean.append(math.fsum(B[i]) * share)
        total = math.fsum(B.flat)
        d2[h, k], null[h, k] = math.fsum(outside) / total, math.fsum(mean) / total
    return d2, null
