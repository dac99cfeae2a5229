"""Operations over all 2^n coalitions: folding, level margins, row sweeps, quantile margins, dominance.

The reference is Python integers (``reference.py``), the CPU path numba (``cpu.py``, ``rows.py``), the
GPU path Triton (``triton.py``, for :func:`level_margin`). Integer outputs agree bit for bit on all of them.

Dispatch: ``backend="auto"`` takes the CPU path for NumPy arrays and Triton for CUDA tensors.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of
from porism.kernels import on_gpu

__all__ = [
    "dominance",
    "fold",
    "level_margin",
    "level_margins_all",
    "quantile_margin",
    "score_order",
    "size_totals",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def score_order(scores: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Coalitions by decreasing score.

    Parameters
    ----------
    scores : float64 array, shape (2**n,)
        Score of each coalition.

    Returns
    -------
    (int32 array, float64 array), shape (2**n,) each
        Masks and their scores; 12 bytes a coalition, the sort needs 16 more.

    Examples
    --------
    >>> score_order(np.array([0.0, 1, 3, 2]))[0].tolist()
    [2, 3, 1, 0]
    """
    order = np.argsort(scores)[::-1].astype(np.int32)
    return order, scores[order]


def fold(scores: Floats, weights: Floats, other: Floats, *, backend: str = "auto") -> tuple[Floats, float]:
    """Weighted membership sums of all players in one pass.

    ``A_i = sum_{S with i} w_|S| v(S)`` for all i, and ``sum_S w'_|S| v(S)``.

    Parameters
    ----------
    scores : float64 array, shape (2**n,)
        Score of each coalition in mask order.
    weights, other : float64 array, shape (n+1,)
        Weights by size.
    backend : {"auto", "cpu", "reference"}
        Implementation.

    Returns
    -------
    (float64 array, shape (n,), float)
        The sums A and the weighted total.

    Notes
    -----
    Floor: 8 * 2^n bytes read once, about 6 * 2^n FLOP; working memory O(2^12 + 2^(n-12)). Errors stay
    near 1e-15 relative to sum |w v| (Kahan lanes, pairwise blocks).

    Examples
    --------
    >>> fold(np.array([0.0, 1, 3, 4]), np.array([0.0, 1, 1]), np.zeros(3))[0].tolist()
    [5.0, 7.0]
    """
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    out: tuple[Floats, float] = _module(backend, "cpu").fold(scores, weights, other)
    return out


def size_totals(limbs: Integers, start: int, totals: Integers, *, backend: str = "auto") -> None:
    """Add integers of coalitions ``start ..`` by player and size into ``totals[i, s]`` (row n: everyone).

    Parameters
    ----------
    limbs : int64 array, shape (m,)
        One integer a coalition, for masks start .. start+m-1.
    start : int
        First mask.
    totals : int64 array, shape (n+1, n+1)
        Changed in place.
    backend : {"auto", "cpu", "reference"}
        Implementation.

    Examples
    --------
    >>> totals = np.zeros((3, 3), np.int64)
    >>> size_totals(np.array([5, 1, 2, 4]), 0, totals)
    >>> totals.tolist()
    [[0, 1, 4], [0, 2, 4], [5, 3, 4]]
    """
    _module(backend, "cpu").size_totals(limbs, start, totals)


def level_margin(
    scores: Any, weights: Integers, upper: int, lower: int, *, backend: str = "auto"
) -> tuple[int, float, tuple[int, int]]:
    """Least level difference between two sets of players, over all levels.

    ``min_l min_{i in upper, j in lower} D_l(i, j)`` with
    ``D_l(i, j) = sum_{S with i, v(S) >= s_l} q_|S| - sum_{S with j, v(S) >= s_l} q_|S|``.

    Parameters
    ----------
    scores : float64 array or CUDA tensor, shape (2**n,)
        Score of each coalition, finite, not all equal.
    weights : int64 array, shape (n+1,)
        Integer pair weights by size, entries 0 and n zero; the sum over coalitions fits 62 bits.
    upper, lower : int
        Bit masks of the two sets, disjoint and not empty.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation.

    Returns
    -------
    (int, float, (int, int))
        Margin, its level, its pair; of several minimisers the lowest level, then the smallest pair.

    Notes
    -----
    Floor: two passes of 12 * 2^n bytes after the sort, n 2^n integer additions.

    Examples
    --------
    >>> level_margin(np.array([0.0, 5, 0, 7, 0, 7, 10, 12]), np.array([0, 1, 1, 0]), 0b001, 0b110)
    (-1, 10.0, (0, 1))
    """
    one_of("backend", backend, ("auto", "cpu", "triton", "reference"))
    if backend == "triton" or (backend == "auto" and on_gpu(scores)):
        from porism.kernels.coalition import triton

        return triton.level_margin(scores, weights, upper, lower)
    scores = np.asarray(scores, dtype=np.float64)
    if backend == "reference":
        from porism.kernels.coalition import reference

        return reference.level_margin(scores, weights, upper, lower)
    from porism.kernels.coalition import cpu

    order, values = score_order(scores)
    sides = [np.array([i for i in range(weights.size - 1) if side >> i & 1]) for side in (upper, lower)]
    margin, where, i, j = cpu.level_margin(order, values, weights, *sides)
    if where < 0:
        raise ValueError("scores must have two different values, got a constant table; check the scorer")
    return int(margin), float(values[where]) + 0.0, (int(i), int(j))


def level_margins_all(scores: Floats, weights: Integers, ranking: Integers) -> Integers:
    """Least level difference of every top-k set along a ranking, k = 1..n-1, in one sweep.

    Parameters
    ----------
    scores : float64 array, shape (2**n,)
        Score of each coalition.
    weights : int64 array, shape (n+1,)
        Integer pair weights by size.
    ranking : int64 array, shape (n,)
        Players from best to worst.

    Returns
    -------
    int64 array, shape (n-1,)
        Margin of ``ranking[:k]`` against the rest.

    Notes
    -----
    Prefix minima and suffix maxima give all k in O(n) a level.

    Examples
    --------
    >>> level_margins_all(np.array([0.0, 1, 3, 4]), np.array([0, 1, 0]), np.array([1, 0])).tolist()
    [0]
    """
    from porism.kernels.coalition import cpu

    order, values = score_order(scores)
    out: Integers = cpu.level_margins_all(order, values, weights, ranking)
    return out


def quantile_margin(
    low: Floats, high: Floats, weights: Integers, pairs: list[tuple[int, int]], *, workers: int = 2
) -> Floats:
    """Least quantile difference of each pair, ``min_p Q_ij(p) - Q_ji(p)``.

    Parameters
    ----------
    low, high : float64 array, shape (2**n,)
        Scores of the coalitions that hold i (pessimistic) and of those that hold j (optimistic); the
        same array where nothing is free.
    weights : int64 array, shape (limbs, n+1)
        Integer pair weights in 32-bit limbs, lowest first.
    pairs : list of (int, int)
        The pairs (i, j).
    workers : int
        Threads; results do not depend on it.

    Returns
    -------
    float64 array, shape (len(pairs),)
        Margin in units of the score, each correctly rounded.

    Examples
    --------
    >>> v = np.array([0.0, 1, 3, 4])
    >>> quantile_margin(v, v, np.array([[0, 1, 0]]), [(1, 0)]).tolist()
    [2.0]
    """
    from porism.kernels.coalition import _rows as rows

    low_order = np.argsort(low).astype(np.int32)
    high_order = low_order if high is low else np.argsort(high).astype(np.int32)
    low_sorted = low[low_order]
    high_sorted = low_sorted if high is low else high[high_order]
    chunks = [np.array(part, dtype=np.int64) for part in np.array_split(pairs, min(workers, len(pairs)))]
    with ThreadPoolExecutor(workers) as pool:
        run = lambda part: rows.quantile_margin(  # noqa: E731
            low_order, high_order, low_sorted, high_sorted, weights, part[:, 0], part[:, 1]
        )
        return np.concatenate(list(pool.map(run, chunks)))


def dominance(scores: Floats, i: int, j: int, *, backend: str = "auto") -> int:
    """Smallest coalition that contradicts "i is at least as desirable as j".

    Parameters
    ----------
    scores : float64 array, shape (2**n,)
        Score of each coalition.
    i, j : int
        Two different players.
    backend : {"auto", "cpu", "reference"}
        Implementation.

    Returns
    -------
    int
        Mask of the first S without i and j with ``v(S + i) < v(S + j)``, or -1.

    Notes
    -----
    At most 2^(n-2) comparisons.

    Examples
    --------
    >>> dominance(np.array([0.0, 1, 3, 4]), 1, 0), dominance(np.array([0.0, 1, 3, 4]), 0, 1)
    (-1, 0)
    """
    return int(_module(backend, "cpu").dominance(scores, i, j))


def _module(backend: str, auto: str) -> Any:
    import importlib

    one_of("backend", backend, ("auto", "cpu", "reference"))
    return importlib.import_module(f"porism.kernels.coalition.{auto if backend == 'auto' else backend}")
