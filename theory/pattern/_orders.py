"""Orders of rows and columns: checking them, and applying them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["permutation", "reordered"]


def permutation(name: str, value: Any, size: int) -> NDArray[np.int64]:
    """The order as an array, if it is a permutation of 0..size-1."""
    try:
        order = np.asarray(value)
    except ValueError:  # rows of unequal length
        order = np.empty(0)
    if order.dtype.kind in "iu" and order.shape == (size,) and np.array_equal(np.sort(order), range(size)):
        return order.astype(np.int64)
    shown = str(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise ValueError(f"{name} must be a permutation of 0..{size - 1}, got {shown}; name each index once")


def reordered(A: Any, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Any:
    """``A[rows][:, columns]``, a copy; sparse where A is."""
    return A.tocsr()[rows][:, columns] if hasattr(A, "tocsr") else A[np.ix_(rows, columns)]
