"""Masks of diagonals and columns. Rows and columns are counted from 0."""

from collections.abc import Iterable

import numpy as np

from porism.theory.pattern._build import count, grid, make, members, width
from porism.theory.pattern.mask import Mask

__all__ = ["band", "circulant_band", "sink", "toeplitz", "vertical_slash"]


def band(n: int, w: int) -> Mask:
    """Free cells near the diagonal: |i - j| <= w; w = 0 is the diagonal.

    Parameters
    ----------
    n : int
        Rows and columns.
    w : int
        Bandwidth, 0..n-1.

    Returns
    -------
    Mask
        The mask (n, n).

    Raises
    ------
    ValueError
        If w is out of range.

    Examples
    --------
    >>> band(3, 1).S.astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    i, j = grid(n)
    return make("band", abs(i - j) <= width(w, n), n=n, w=w)


def circulant_band(n: int, w: int) -> Mask:
    """Free cells near the diagonal of a ring: min(|i - j|, n - |i - j|) <= w.

    Parameters
    ----------
    n : int
        Rows and columns.
    w : int
        Bandwidth, 0..n-1; from 2 w + 1 >= n on every cell is free.

    Returns
    -------
    Mask
        The mask (n, n).

    Raises
    ------
    ValueError
        If w is out of range.

    Examples
    --------
    >>> circulant_band(4, 1).S.astype(int).tolist()
    [[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]]
    """
    i, j = grid(n)
    gap = abs(i - j)
    return make("circulant_band", np.minimum(gap, n - gap) <= width(w, n), n=n, w=w)


def toeplitz(n: int, offsets: Iterable[int], causal: bool = False) -> Mask:
    """Free diagonals: i - j is one of the offsets.

    Parameters
    ----------
    n : int
        Rows and columns.
    offsets : iterable of int
        Values of i - j, each in -(n-1)..n-1; 1 is the diagonal below the main one ("previous").
    causal : bool, default False
        Also drop the cells with j > i.

    Returns
    -------
    Mask
        The mask (n, n).

    Raises
    ------
    ValueError
        If an offset is out of range.

    Examples
    --------
    >>> toeplitz(3, [1, -2]).S.astype(int).tolist()
    [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    """
    i, j = grid(n)
    chosen = members("offsets", offsets, 1 - n, n - 1)
    S = np.isin(i - j, chosen) & ((j <= i) | (not causal))
    return make("toeplitz", S, n=n, offsets=chosen, causal=bool(causal))


def vertical_slash(n: int, columns: Iterable[int], offsets: Iterable[int], causal: bool = True) -> Mask:
    """Free columns and diagonals: j is one of the columns or i - j one of the offsets.

    Parameters
    ----------
    n : int
        Rows and columns.
    columns : iterable of int
        Free columns, each in 0..n-1.
    offsets : iterable of int
        Values of i - j, each in -(n-1)..n-1.
    causal : bool, default True
        Drop the cells with j > i.

    Returns
    -------
    Mask
        The mask (n, n).

    Raises
    ------
    ValueError
        If a column or an offset is out of range.

    Examples
    --------
    >>> vertical_slash(3, [0], [0]).S.astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
    """
    i, j = grid(n)
    bars = members("columns", columns, 0, n - 1)
    slashes = members("offsets", offsets, 1 - n, n - 1)
    S = (np.isin(j, bars) | np.isin(i - j, slashes)) & ((j <= i) | (not causal))
    return make("vertical_slash", S, n=n, columns=bars, offsets=slashes, causal=bool(causal))


def sink(m: int, n: int, k: int) -> Mask:
    """Free first k columns: j < k.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    k : int
        Free columns, 1..n.

    Returns
    -------
    Mask
        The mask (m, n).

    Raises
    ------
    ValueError
        If k is out of range.

    Examples
    --------
    >>> sink(2, 3, 1).S.astype(int).tolist()
    [[1, 0, 0], [1, 0, 0]]
    """
    _, j = grid(m, n)
    return make("sink", np.broadcast_to(j < count(k, n), (m, n)), m=m, n=n, k=k)
