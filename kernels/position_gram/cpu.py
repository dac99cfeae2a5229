"""Tiles on and below the diagonal, a few positions at a time; a product with its own transpose is halved.

NumPy takes a symmetric rank-k update for a matrix times its transpose, so tiles on the diagonal cost half.
"""

from typing import Any

import numpy as np

from porism.kernels.position_gram import _arrays

__all__ = ["position_gram"]

CELLS = 1 << 15  # entries of the products held at once, where one position has fewer


def position_gram(x: Any, g: Any, per_position: bool, chunk: int) -> Any:
    """The Gram of checked arguments; see :func:`porism.kernels.position_gram.position_gram`."""
    N, T = x.shape[:2]
    kind = _arrays.kind(x, g)
    side = min(chunk, max(N, 1))
    step = int(np.clip(CELLS // side**2, 1, max(1, T // 16)))
    out = np.zeros((T, N, N) if per_position else (N, N), dtype=kind)
    for first in range(0, T, step):
        a, b = (_arrays.part(value, first, first + step, kind) for value in (x, g))
        for i in range(0, N, side):
            for j in range(0, i + 1, side):
                tile = _products(a, i, j, side)
                tile *= _products(b, i, j, side)
                place = out[..., i : i + side, j : j + side]
                if per_position:
                    place[first : first + step] = tile
                else:
                    for one in tile:
                        place += one
    for matrix in out if per_position else [out]:
        _mirror(matrix, side)
    return _arrays.like(out, x, kind)


def _products(a: Any, i: int, j: int, side: int) -> Any:
    """Scalar products of examples of two blocks, at each position."""
    left = a[:, i : i + side]
    right = left if i == j else a[:, j : j + side]
    return np.matmul(left, right.swapaxes(1, 2))


def _mirror(out: Any, side: int) -> None:
    """Copy what is below the diagonal to above it, a tile at a time."""
    N = out.shape[-1]
    upper = np.triu_indices(min(side, N), 1)
    for i in range(0, N, side):
        for j in range(0, i + 1, side):
            tile = out[i : i + side, j : j + side]
            if i > j:
                out[j : j + side, i : i + side] = tile.T
                continue
            row, column = upper if len(tile) == side else np.triu_indices(len(tile), 1)
            tile[row, column] = tile[column, row]
