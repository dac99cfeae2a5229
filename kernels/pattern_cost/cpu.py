"""NumPy in float64: gathers, matrix products, prefix sums."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["batched_cost", "head_null", "swap_deltas"]

Floats = NDArray[np.float64]


def batched_cost(A: Floats, q: NDArray[np.int64], W: Floats) -> Floats:
    """One matrix at a time, so that the gathered squares of one matrix are all that is held."""
    m, n = W.shape
    where, at = np.nonzero(np.diff(W, axis=1, append=0.0))
    jumps = W[where, at] - np.append(W, np.zeros((m, 1)), axis=1)[where, at + 1]
    stepped = where.size <= min(8 * m, m * n // 8)
    out = np.empty((A.shape[0], m, m))
    for b, (matrix, order) in enumerate(zip(A, q, strict=True)):
        gathered = np.take(matrix, order, axis=1)
        gathered *= gathered
        if stepped:  # sum_j W_ij g_j = sum over jumps of W of (prefix sum of g up to it) * (its height)
            prefix = np.cumsum(gathered, axis=1)[:, at] * jumps
            rows, starts = np.unique(where, return_index=True)  # rows of W without a jump are zero
            out[b] = 0.0
            out[b][:, rows] = np.add.reduceat(prefix, starts, axis=1) if starts.size else 0.0
        else:
            np.matmul(gathered, W.T, out=out[b])
    return out


def swap_deltas(B: Floats, W: Floats, p: NDArray[np.int64]) -> Floats:
    """Two products, then elementwise."""
    P = B[np.ix_(p, p)]
    G = W @ P.T + W.T @ P
    g = np.diagonal(G)
    out = G + G.T - g[:, None] - g
    out += _exchange(W) * _exchange(P)
    np.fill_diagonal(out, 0.0)
    return out


def _exchange(X: Floats) -> Floats:
    x = np.diagonal(X)
    out: Floats = x[:, None] + x - X - X.T
    return out


def head_null(A: Floats, masks: Floats, causal: bool, mass: str) -> tuple[Floats, Floats]:
    """Rows one after the other: a product [heads, n] x [n, masks] each."""
    heads, m, n = A.shape
    scale = np.abs(A).max(axis=(1, 2), initial=0.0, keepdims=True)[:, 0]
    scale[scale == 0] = 1.0
    outside, null, total = np.zeros((heads, len(masks))), np.zeros((heads, len(masks))), np.zeros(heads)
    for i in range(m):
        row = np.abs(A[:, i] / scale)
        if mass == "squared":
            row *= row
        penalty = (1.0 - masks[:, i]) ** 2
        weight = row.sum(axis=1)
        total += weight
        outside += row @ penalty.T
        width = min(i + 1, n) if causal else n
        null += np.outer(weight, penalty[:, :width].sum(axis=1) / max(width, 1))
    with np.errstate(invalid="ignore"):
        return outside / total[:, None], null / total[:, None]
