"""Permutation nulls: which masses change places, drawing such matrices, and the moments of their values."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of

__all__ = [
    "NULLS",
    "Shuffle",
    "admissible_cells",
    "fixed_order_null",
    "null_p_value",
    "null_shuffle",
    "strip_sinks",
]

NULLS = ("rows", "columns", "entries", "symmetric_entries", "rows_without_sinks(k)")
"""Names of nulls."""

CHUNK = 2**22
"""Cells of shuffled matrices held at a time."""

TOLERANCE = 1e-12
"""A null within this of the observed mass outside counts as no larger: for constant masks all are equal."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shuffle:
    """Masses, and the groups of cells within which they are permuted, uniformly and independently.

    Parameters
    ----------
    masses : ndarray of shape (m, n)
        Non-negative, of sum 1.
    groups : tuple of ndarray
        Indices of cells in the flat matrix; cells in no group stay.
    mirrored : bool, default False
        Whether the first group holds cells above the diagonal, and those below follow them.

    Examples
    --------
    >>> halves = Shuffle(np.array([[0.5, 0.0], [0.25, 0.25]]), (np.array([0, 1]), np.array([2, 3])))
    >>> halves.moments(np.eye(2))
    (0.5, 0.0625)
    """

    masses: Array
    groups: tuple[NDArray[np.intp], ...]
    mirrored: bool = False

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Draw independent shuffles.

        Parameters
        ----------
        rng : Generator
            Source of the permutations.
        count : int
            How many.

        Returns
        -------
        ndarray of shape (count, m, n)
            Shuffled masses.
        """
        m, n = self.masses.shape
        flat = self.masses.ravel()
        out = np.repeat(flat[None], count, axis=0)
        by_size: dict[int, list[NDArray[np.intp]]] = {}
        for group in self.groups:
            by_size.setdefault(group.size, []).append(group)
        for size, groups in by_size.items():
            if size > 1:
                cells = np.stack(groups)
                out[:, cells] = rng.permuted(np.repeat(flat[cells][None], count, axis=0), axis=2)
        out = out.reshape(count, m, n)
        if self.mirrored:
            i, j = np.triu_indices(n, 1)
            out[:, j, i] = out[:, i, j]
        return out

    def moments(self, W: Array) -> tuple[float, float]:
        """Mean and variance of ``sum(W * shuffled)`` over all shuffles.

        A group pairs its weights with its masses by a uniform permutation: mean ``c mean(w) mean(b)``,
        variance ``sum (w - mean w)^2 sum (b - mean b)^2 / (c - 1)``. Groups are independent.

        Parameters
        ----------
        W : ndarray of shape (m, n)
            Penalty of each cell.

        Returns
        -------
        tuple of float
            Mean and variance, exact up to rounding.
        """
        weights = W + np.triu(W.T, 1) if self.mirrored else W
        w, b = weights.ravel(), self.masses.ravel()
        moved = np.zeros(b.size, dtype=bool)
        mean = variance = 0.0
        for group in self.groups:
            x, y = w[group], b[group]
            moved[group] = True
            mean += x.mean() * y.sum()
            if group.size > 1:
                variance += ((x - x.mean()) ** 2).sum() * ((y - y.mean()) ** 2).sum() / (group.size - 1)
        if self.mirrored:
            moved[:] = True
        return float(mean + w[~moved] @ b[~moved]), float(variance)


def null_shuffle(null: str, B: Array, admissible: NDArray[np.bool_] | None, mass: str) -> Shuffle:
    """Make the null of a name; sinks are stripped first where the name says so.

    Parameters
    ----------
    null : str
        One of `NULLS`, with a number for k: which cells change places. Those of a row, of a column, all,
        or all with the two sides of the diagonal alike.
    B : ndarray of shape (m, n)
        Masses, non-negative, of sum 1.
    admissible : ndarray of bool, shape (m, n), or None
        Cells that take part; the others must be empty.
    mass : {"squared", "absolute"}
        What the masses are of the entries of A: their squares, or their sizes.

    Returns
    -------
    Shuffle
        The null.

    Raises
    ------
    ValueError
        If the null has no such name, is not defined for B, or an entry lies outside the admissible cells.

    Examples
    --------
    >>> [group.tolist() for group in null_shuffle("rows", np.full((2, 2), 0.25), None, "squared").groups]
    [[0, 1], [2, 3]]
    """
    found = re.fullmatch(r"rows_without_sinks\((\d+)\)", null) if isinstance(null, str) else None
    m, n = B.shape
    cells = np.ones((m, n), dtype=bool) if admissible is None else admissible
    if found:
        B, gone = strip_sinks(B, int(found[1]), mass)
        cells, null = cells & ~gone, "rows"
    one_of("null", null, NULLS)
    if admissible is not None and B[~admissible].any():
        i, j = (int(k) for k in np.argwhere((B > 0) & ~admissible)[0])
        raise ValueError(
            f"A must vanish outside the admissible cells, but does not at [{i}, {j}]; widen them"
        )
    index = np.arange(m * n).reshape(m, n)
    if null == "symmetric_entries":
        if m != n or not np.allclose(B, B.T, rtol=0, atol=1e-12 * float(B.max())):
            raise ValueError(
                "null='symmetric_entries' needs |A| symmetric, got one that is not; use 'entries'"
            )
        if not np.array_equal(cells, cells.T):
            raise ValueError("null='symmetric_entries' needs symmetric admissible cells; use 'entries'")
        upper = index[np.triu(cells, 1)]
        return Shuffle((B + B.T) / 2, (upper, np.diag(index)[np.diag(cells)]), True)
    if null == "entries":
        groups = [index[cells]]
    elif null == "rows":
        groups = [index[i, cells[i]] for i in range(m)]
    else:
        groups = [index[cells[:, j], j] for j in range(n)]
    return Shuffle(B, tuple(group for group in groups if group.size))


def strip_sinks(B: Array, k: int, mass: str) -> tuple[Array, NDArray[np.bool_]]:
    """Empty the k heaviest columns and give each row of |A| its former sum; ties go to the left column.

    Parameters
    ----------
    B : ndarray of shape (m, n)
        Masses, non-negative.
    k : int
        Columns to empty, 1 to n - 1.
    mass : {"squared", "absolute"}
        What the masses are of the entries of A.

    Returns
    -------
    tuple of ndarray (m, n) and ndarray of bool (n,)
        Masses that sum to 1, and which columns were emptied. A row with nothing left stays empty.

    Raises
    ------
    ValueError
        If k is out of range, or nothing is left.

    Examples
    --------
    >>> strip_sinks(np.array([[0.64, 0.09, 0.01], [0.64, 0.0, 0.04]]), 1, "squared")[1]
    array([ True, False, False])
    """
    n = B.shape[1]
    if not 1 <= k < n:
        raise ValueError(f"the number of sinks must be in 1..{n - 1}, got {k}; leave a column to look at")
    gone = np.zeros(n, dtype=bool)
    gone[np.argsort(-B.sum(0), kind="stable")[:k]] = True
    a = np.sqrt(B) if mass == "squared" else B.copy()
    before = a.sum(1, keepdims=True)
    a[:, gone] = 0
    after = a.sum(1, keepdims=True)
    a *= np.divide(before, after, out=np.zeros_like(before), where=after > 0)
    masses = a * a if mass == "squared" else a
    total = masses.sum()
    if total == 0:
        raise ValueError(
            f"A has zero mass: the distance is undefined without its {k} heaviest columns; strip fewer"
        )
    return masses / total, gone


def admissible_cells(value: Any, shape: tuple[int, int]) -> NDArray[np.bool_] | None:
    """Read what says which cells may hold mass.

    Parameters
    ----------
    value : None, "causal" or array of bool, shape (m, n)
        All cells, those with j <= i, or the ones given.
    shape : tuple of int
        Shape (m, n) of the matrix.

    Returns
    -------
    ndarray of bool, shape (m, n), or None
        The cells, or None for all.

    Raises
    ------
    ValueError
        If it is none of the three.

    Examples
    --------
    >>> admissible_cells("causal", (2, 2)).tolist()
    [[True, False], [True, True]]
    """
    if value is None:
        return None
    if isinstance(value, str):
        one_of("admissible", value, ("causal",))
        return np.tri(*shape, dtype=bool)
    cells = np.asarray(value)
    if cells.dtype != bool or cells.shape != shape:
        raise ValueError(
            f"admissible must be None, 'causal' or a bool array of shape {shape}, got "
            f"{cells.dtype} {cells.shape}"
        )
    return cells


def null_p_value(observed: float, nulls: Array) -> tuple[float, float]:
    """P-value and effect of an observed mass outside among those of a null.

    ``p = (1 + #{null <= observed}) / (1 + N)``, which is valid for every N, and ``1 - observed / mean null``.

    Parameters
    ----------
    observed : float
        Mass outside of the matrix.
    nulls : ndarray of shape (N,)
        Mass outside of its shuffles; those within 1e-12 of the observed one count as no larger.

    Returns
    -------
    tuple of float
        P-value and effect.

    Examples
    --------
    >>> null_p_value(0.1, np.array([0.2, 0.4, 0.6]))
    (0.25, 0.75)
    """
    p_value = float((1 + (nulls <= observed + TOLERANCE).sum()) / (1 + nulls.size))
    mean = math.fsum(nulls) / nulls.size
    return p_value, 1.0 - observed / mean if mean > 0 else 0.0


def fixed_order_null(shuffle: Shuffle, W: Array, count: int, rng: np.random.Generator) -> Array:
    """Mass outside of shuffled matrices, whose rows and columns keep their order.

    Parameters
    ----------
    shuffle : Shuffle
        The null.
    W : ndarray of shape (k, m, n)
        Penalties of k masks.
    count : int
        Number of shuffles.
    rng : Generator
        Source of the permutations.

    Returns
    -------
    ndarray of shape (count, k)
        ``sum(W * shuffled)``.

    Notes
    -----
    ``O(count m n (1 + k))``; about 4 million cells are held at a time.

    Examples
    --------
    >>> null = null_shuffle("rows", np.array([[0.5, 0.5]]), None, "squared")
    >>> fixed_order_null(null, np.array([[[1.0, 0.0]]]), 2, np.random.default_rng(0)).tolist()
    [[0.5], [0.5]]
    """
    flat = W.reshape(len(W), -1).T
    step = max(1, CHUNK // flat.shape[0])
    parts = [
        shuffle.draw(rng, min(step, count - begun)).reshape(-1, flat.shape[0]) @ flat
        for begun in range(0, count, step)
    ]
    return np.minimum(np.concatenate(parts), 1.0)  # shares, whatever their sums round to
