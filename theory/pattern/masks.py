"""Families of masks. Rows and columns are counted from 0; ``S[i, j]`` is 1 where mass is free."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from porism.checks import integer
from porism.theory.pattern._build import count, grid, integers, make, members, sizes, width
from porism.theory.pattern.mask import Mask

__all__ = [
    "Mask",
    "anti_diagonal",
    "arrowhead",
    "band",
    "bipartite",
    "block_diagonal",
    "checkerboard",
    "circulant_band",
    "from_array",
    "hub",
    "lower_triangular",
    "sink",
    "staircase",
    "toeplitz",
    "vertical_slash",
]


def block_diagonal(row_sizes: Sequence[int], col_sizes: Sequence[int] | None = None) -> Mask:
    """Free blocks along the diagonal, in the order of the sizes.

    Parameters
    ----------
    row_sizes : sequence of int
        Rows of each block, at least 1.
    col_sizes : sequence of int, optional
        Columns of each block; by default the same as the rows.

    Returns
    -------
    Mask
        The mask (sum of row_sizes, sum of col_sizes).

    Raises
    ------
    ValueError
        If there is no block, a size is below 1, or the two lists differ in length.

    Examples
    --------
    >>> block_diagonal([1, 2], [2, 1]).S.astype(int).tolist()
    [[1, 1, 0], [0, 0, 1], [0, 0, 1]]
    """
    rows = sizes("row_sizes", row_sizes)
    columns = rows if col_sizes is None else sizes("col_sizes", col_sizes)
    if len(rows) != len(columns):
        raise ValueError(
            f"row_sizes and col_sizes must have one entry per block, got {len(rows)} and {len(columns)}; "
            "make them equally long"
        )
    i, j = np.repeat(np.arange(len(rows)), rows), np.repeat(np.arange(len(columns)), columns)
    return make("block_diagonal", i[:, None] == j, row_sizes=rows, col_sizes=columns)


def arrowhead(n: int, k: int) -> Mask:
    """Free first k rows and columns, and the diagonal: i < k or j < k or i = j.

    Parameters
    ----------
    n : int
        Rows and columns.
    k : int
        Full rows and columns, 1..n.

    Returns
    -------
    Mask
        The mask (n, n).

    Raises
    ------
    ValueError
        If k is out of range.

    Examples
    --------
    >>> arrowhead(3, 1).S.astype(int).tolist()
    [[1, 1, 1], [1, 1, 0], [1, 0, 1]]
    """
    i, j = grid(n)
    return make("arrowhead", (np.minimum(i, j) < count(k, n)) | (i == j), n=n, k=k)


def hub(n: int, k: int) -> Mask:
    """Free first k rows and columns, and nothing else: i < k or j < k.

    Parameters
    ----------
    n : int
        Rows and columns.
    k : int
        Full rows and columns, 1..n.

    Returns
    -------
    Mask
        The mask (n, n).

    Raises
    ------
    ValueError
        If k is out of range.

    Examples
    --------
    >>> hub(3, 1).S.astype(int).tolist()
    [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    """
    i, j = grid(n)
    return make("hub", np.minimum(i, j) < count(k, n), n=n, k=k)


def lower_triangular(n: int) -> Mask:
    """Free cells on and below the diagonal: j <= i.

    Parameters
    ----------
    n : int
        Rows and columns.

    Returns
    -------
    Mask
        The mask (n, n).

    Examples
    --------
    >>> lower_triangular(3).S.astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    i, j = grid(n)
    return make("lower_triangular", j <= i, n=n)


def staircase(m: int, n: int, heights: Sequence[int]) -> Mask:
    """Free cells at the start of each row: j < heights[i].

    Parameters
    ----------
    m, n : int
        Rows and columns.
    heights : sequence of int
        Free cells of each row (m,), each in 0..n.

    Returns
    -------
    Mask
        The mask (m, n).

    Raises
    ------
    ValueError
        If there is not one height per row, or one is out of range.

    Examples
    --------
    >>> staircase(2, 3, [1, 3]).S.astype(int).tolist()
    [[1, 0, 0], [1, 1, 1]]
    """
    _, j = grid(m, n)
    steps = integers("heights", heights, 0, n)
    if len(steps) != m:
        raise ValueError(f"heights must have one entry per row, got {len(steps)} for m={m}; add or drop some")
    return make("staircase", j < np.array(steps)[:, None], m=m, n=n, heights=steps)


def anti_diagonal(n: int) -> Mask:
    """Free cells from the upper right to the lower left corner: i + j = n - 1.

    Parameters
    ----------
    n : int
        Rows and columns.

    Returns
    -------
    Mask
        The mask (n, n).

    Examples
    --------
    >>> anti_diagonal(2).S.astype(int).tolist()
    [[0, 1], [1, 0]]
    """
    i, j = grid(n)
    return make("anti_diagonal", i + j == n - 1, n=n)


def bipartite(a: int, b: int) -> Mask:
    """Free cells between two parts of a and b members: exactly one of i, j is below a.

    Parameters
    ----------
    a, b : int
        Sizes of the parts, at least 1.

    Returns
    -------
    Mask
        The mask (a + b, a + b).

    Examples
    --------
    >>> bipartite(1, 2).S.astype(int).tolist()
    [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    """
    i, j = grid(integer("a", a, 1) + integer("b", b, 1))
    return make("bipartite", (i < a) != (j < a), a=a, b=b)


def checkerboard(m: int, n: int) -> Mask:
    """Free cells where i + j is even.

    Parameters
    ----------
    m, n : int
        Rows and columns.

    Returns
    -------
    Mask
        The mask (m, n).

    Examples
    --------
    >>> checkerboard(2, 3).S.astype(int).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    i, j = grid(m, n)
    return make("checkerboard", (i + j) % 2 == 0, m=m, n=n)


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


def from_array(S: ArrayLike) -> Mask:
    """A mask from its weights.

    Parameters
    ----------
    S : array_like (m, n)
        Weights in [0, 1].

    Returns
    -------
    Mask
        The mask (m, n).

    Raises
    ------
    TypeError
        If S does not hold real numbers.
    ValueError
        If S is not 2-D, is empty, or leaves [0, 1].

    Examples
    --------
    >>> from_array([[1, 0.5]]).density
    0.75
    """
    weights: Any = S
    return Mask(weights)
