"""Tiles on and below the diagonal, a few positions at a time; a product with its own transpose is halved.

NumPy takes a symmetric rank-k update for a matrix times its transpose, so tiles on the diagonal cost half.
"""

from typing import Any

import numpy as np

from porism.kernels._arrays import like
from porism.kernels.position_gram import _arrays

__all__ = ["position_gram"]

CELLS = 1 << 15  # entries of the products held at once, where one position has fewer
SIDE = 128  # largest side of a tile: a factor of symmetry already at twice as many examples


def position_gram(x: Any, g: Any, per_position: bool, chunk: int) -> Any:
    """The Gram of checked arguments; see :func:`porism.kernels.position_gram.position_gram`."""
    N, T = x.shape[:2]
    kind = _arrays.kind(x, g)
    side = min(chunk, SIDE, max(N, 1))
    step = int(np.clip(CELLS // side**2, 1, max(1, T // 16)))
    out = np.zeros((T, N, N) if per_position else (N, N), dtype=kind)
    tiles = [(i, j) for i in range(0, N, side) for j in range(0, i + 1, side)]
    for first in range(0, T, step):
        a, b = (_arrays.part(value, first, first + step, kind) for value in (x, g))
        for i, j in tiles:
            tile = _products(a, i, j, side)
            tile *= _products(b, i, j, side)
            if per_position:
                some = out[first : first + step]
                some[:, i : i + side, j : j + side] = tile
                _mirror(some, i, j, side)
                continue
            place = out[i : i + side, j : j + side]
            for one in tile:
                place += one
    for i, j in [] if per_position else tiles:
        _mirror(out, i, j, side)
    return like(out, x)


def _products(a: Any, i: int, j: int, side: int) -> Any:
    """Scalar products of examples of two blocks, at each position."""
    left = a[:, i : i + side]
    right = left if i == j else a[:, j : j + side]
    return np.matmul(left, right.swapaxes(1, 2))


def _mirror(out: Any, i: int, j: int, side: int) -> None:
    """Copy one tile, or what of it is below the diagonal, to above the diagonal."""
    tile = out[..., i : i + side, j : j + side]
    if i > j:
        out[..., j : j + side, i : i + side] = tile.swapaxes(-1, -2)
    else:
        np.copyto(tile.swapaxes(-1, -2), tile, where=np.tri(tile.shape[-1], k=-1, dtype=bool))
