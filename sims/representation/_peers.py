"""What others do, restated: CKA of hidden matrices, and parallel units found by comparing all pairs."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["all_pairs", "one_by_one", "plain_cka"]

Floats = NDArray[np.float64]


def plain_cka(X: Floats, Y: Floats) -> float:
    """Linear CKA in feature form, as in the paper's own notebook."""
    X, Y = X - X.mean(0), Y - Y.mean(0)
    return float(np.linalg.norm(X.T @ Y) ** 2 / (np.linalg.norm(X.T @ X) * np.linalg.norm(Y.T @ Y)))


def all_pairs(U: Floats, tol: float) -> int:
    """Number of lines from the whole matrix of distances up to sign, which takes 8 h^2 bytes."""
    cosines = np.abs(U @ U.T)
    np.clip(cosines, 0, 1, out=cosines)
    far = np.sqrt(2 * np.subtract(1, cosines, out=cosines), out=cosines)
    # cosines lose half of the digits: 1e-8 is the best that this form can tell
    close = far <= max(tol, 1e-7)
    first = close.argmax(1)
    return int(np.unique(first).size)


def one_by_one(U: Floats, tol: float) -> int:
    """Number of lines by comparing each unit with all lines found before: differences, memory h d."""
    lines = np.empty_like(U)
    count = 0
    for u in U:
        seen = lines[:count]
        far = np.minimum(np.square(seen - u).sum(1), np.square(seen + u).sum(1))
        if not count or far.min() > tol**2:
            lines[count] = u
            count += 1
    return count
