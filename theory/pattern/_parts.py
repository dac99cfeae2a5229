"""Mean, row, column and interaction parts of a matrix: what permutations preserve, part by part.

With ΣB = 1 a part of ``sum(W * B[p][:, q])`` is dropped when the product of the norms of its two factors,
which bounds it for every order, is at most `NEGLIGIBLE`.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEGLIGIBLE", "additive", "centred", "constant", "linear_cost", "square_parts"]

NEGLIGIBLE = 1e-12
Array = NDArray[np.float64]


def centred(M: Array) -> tuple[Array, Array, Array]:
    """Centred row sums, centred column sums, and M without its row and column means."""
    rows, columns = M.sum(1), M.sum(0)
    inner = M - rows[:, None] / M.shape[1] - columns / M.shape[0] + M.mean()
    return rows - rows.mean(), columns - columns.mean(), inner


def square_parts(M: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Parts of a square matrix under one permutation of both axes.

    The centred diagonal; the centred row sums of the symmetric and of the skew half off the diagonal; and
    what remains of the two halves once those sums are taken out.
    """
    n = len(M)
    off = M - np.diag(np.diag(M))
    symmetric, skew = (off + off.T) / 2, (off - off.T) / 2
    diagonal = np.diag(M) - np.diag(M).mean()
    sums, tilt = symmetric.sum(1) - symmetric.sum() / n, skew.sum(1)
    level = off.sum() / max(n * (n - 1), 1) + (sums[:, None] + sums) / max(n - 2, 1)
    rest = symmetric - level
    np.fill_diagonal(rest, 0.0)
    return diagonal, sums, tilt, rest, skew - (tilt[:, None] - tilt) / n


def linear_cost(w: tuple[Array, ...], b: tuple[Array, ...]) -> Array:
    """C[r, i]: what source r at position i contributes through diagonals and row sums of `square_parts`."""
    n = len(w[0])
    cost = np.outer(b[0], w[0]) + np.outer(b[2], w[2]) * (2 / n)
    return cost + np.outer(b[1], w[1]) * (2 / (n - 2)) if n > 2 else cost


def additive(W: Array, B: Array, order: str) -> bool:
    """Whether the value is a sum over single rows and columns: sorts or one assignment solve it."""
    if order == "common":
        w, b = square_parts(W), square_parts(B)
        return all(_negligible(w[k], b[k]) for k in (3, 4))
    return _negligible(centred(W)[2], centred(B)[2])


def constant(W: Array, B: Array, order: str) -> bool:
    """Whether all orders have the same value.

    The parts of an independent reordering, and the three groups of parts of a common one, belong to different
    irreducible representations of the permutations, so that their contributions cannot cancel each other.
    """
    if not additive(W, B, order):
        return False
    if order == "common":
        return float(np.linalg.norm(linear_cost(square_parts(W), square_parts(B)))) <= NEGLIGIBLE
    (rw, cw, _), (rb, cb, _) = centred(W), centred(B)
    return _negligible(rw / W.shape[1], rb) and _negligible(cw / W.shape[0], cb)


def _negligible(w: Array, b: Array) -> bool:
    return float(np.linalg.norm(w)) * float(np.linalg.norm(b)) <= NEGLIGIBLE
