"""Orders of rows and columns, checked and applied; graphs and tensors as matrices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import detached, require

__all__ = ["MAX_DENSE", "adjacency", "permutation", "reordered"]

MAX_DENSE = 2**27
"""Cells that a sparse matrix or a graph may have when it is written out: 1 GiB in float64."""


def adjacency(A: Any) -> Any:
    """The weighted adjacency matrix of a networkx graph, nodes in their own order; anything else as it is.

    A tensor of torch comes as an array.
    """
    if not all(hasattr(A, name) for name in ("nodes", "adj", "is_multigraph")):
        return detached(A)
    if len(A) ** 2 > MAX_DENSE:
        raise MemoryError(
            f"A is a graph of {len(A)} nodes, whose matrix has more than {MAX_DENSE} cells: written out it "
            f"needs {8 * len(A) ** 2 / 2**30:.1f} GiB; take a subgraph"
        )
    return require("networkx", "data").to_numpy_array(A)


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
