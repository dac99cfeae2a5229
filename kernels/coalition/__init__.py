"""Operations over coalitions: folding, level margins, row sweeps, quantile margins, dominance, sampled rows.

The reference is Python integers (``reference.py``), the CPU path numba, the GPU path Triton
(``triton.py``, for :func:`level_margin`). Integer outputs agree bit for bit on all of them.

Dispatch: ``backend="auto"`` takes the CPU path for NumPy arrays and Triton for CUDA tensors.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, integer
from porism.kernels._arrays import implementation
from porism.kernels.coalition import _inputs

__all__ = [
    "column_sums",
    "dominance",
    "fold",
    "level_margin",
    "level_margins_all",
    "packed_sweep",
    "quantile_margin",
    "row_sweep",
    "row_trace",
    "score_order",
    "size_totals",
]

ON_CPU = ("auto", "cpu", "reference")
MAX_PLAYERS = 30  # masks are handled as int32

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
    scores, n = _inputs.table("scores", scores)
    weights = _inputs.by_size("weights", weights, n)
    other = _inputs.by_size("other", other, n)
    _, path = implementation(__name__, backend, scores, ON_CPU)
    out: tuple[Floats, float] = path.fold(scores, weights, other)
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
    n = len(totals) - 1
    if totals.shape != (n + 1, n + 1) or totals.dtype != np.int64:
        raise ValueError(f"totals must be int64 of shape (n+1, n+1), got {totals.dtype} of {totals.shape}")
    if not 0 <= start <= (1 << n) - len(limbs):
        raise ValueError(f"start must be in 0..{(1 << n) - len(limbs)} for {len(limbs)} limbs, got {start}; "
                         f"there are {1 << n} coalitions")  # fmt: skip
    _, path = implementation(__name__, backend, limbs, ON_CPU)
    path.size_totals(limbs, start, totals)


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
    (int, float, (int, np.int64))
        Margin, its level, its pair; of several minimisers the lowest level, then the smallest pair.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit, scores are not finite or all equal, or weights are not whole numbers.

    Notes
    -----
    Floor: two passes of 12 * 2^n bytes after the sort, n 2^n integer additions.

    Examples
    --------
    >>> level_margin(np.array([0.0, 5, 0, 7, 0, 7, 10, 12]), np.array([0, 1, 1, 0]), 0b001, 0b110)
    (-1, 10.0, (0, 1))
    """
    weights = _inputs.by_size("weights", weights, None, whole=True)
    n = integer("number of players", weights.size - 1, 2, MAX_PLAYERS)
    upper, lower = integer("upper", upper, 1, (1 << n) - 1), integer("lower", lower, 1, (1 << n) - 1)
    if upper & lower:
        raise ValueError(
            f"upper and lower must be disjoint, got {upper:#b} and {lower:#b}; drop common players"
        )
    backend, path = implementation(__name__, backend, scores)
    out: tuple[int, float, tuple[int, int]]
    if backend == "triton":
        out = path.level_margin(scores, weights, upper, lower)
        return out
    scores = finite_array("scores", _inputs.table("scores", scores, n)[0])
    if scores.min() == scores.max():
        raise ValueError("scores must have two different values, got a constant; no level separates players")
    if backend == "reference":
        out = path.level_margin(scores, weights, upper, lower)
        return out
    order, values = score_order(scores)
    sides = [np.array([i for i in range(n) if side >> i & 1]) for side in (upper, lower)]
    margin, where, i, j = path.level_margin(order, values, weights, *sides)
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

    scores, n = _inputs.table("scores", scores)
    ranking = np.asarray(ranking)
    if sorted(ranking.tolist()) != list(range(n)):
        raise ValueError(f"ranking must hold each of the {n} players once, got {ranking.tolist()}")
    weights = _inputs.by_size("weights", weights, n, whole=True)
    order, values = score_order(finite_array("scores", scores))
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
    pairs : list of (int, np.int64)
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
    from porism.kernels.coalition import _rows

    if not len(pairs):
        return np.empty(0)
    same = high is low
    low, n = _inputs.table("low", low)
    low_order = np.argsort(low).astype(np.int32)
    ends = low_order, low[low_order]
    if same:
        others = ends
    else:
        high, _ = _inputs.table("high", high, n)
        high_order = np.argsort(high).astype(np.int32)
        others = high_order, high[high_order]
    limbs = [_inputs.by_size("weights", row, n, whole=True) for row in weights]
    chunks = [np.array(part, dtype=np.int64) for part in np.array_split(pairs, min(workers, len(pairs)))]
    for i, j in pairs:
        _inputs.players(n, i, j)
    with ThreadPoolExecutor(workers) as pool:
        run = lambda part: _rows.quantile_margin(  # noqa: E731
            ends[0], others[0], ends[1], others[1], np.array(limbs), part[:, 0], part[:, 1]
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
    scores, n = _inputs.table("scores", scores)
    _inputs.players(n, i, j)
    _, path = implementation(__name__, backend, scores, ON_CPU)
    return int(path.dominance(scores, i, j))


def row_sweep(
    order: NDArray[np.int32],
    kinds: NDArray[np.uint8],
    values: Floats,
    program: tuple[Integers, ...],
    start: Integers,
    *,
    running: bool,
    tolerance: float,
) -> tuple[Integers, Integers, Floats, Floats, Floats, Floats]:
    """Sweep signed rows over coalitions in score order: of each row the least D and the worst sum of gap * D.

    A row (a, b) stands for ``D_l = X_a - X_b``: X_i counts, with integer weights, the coalitions with player
    i that reach level l, and X_n is a virtual player that counts all coalitions.

    Parameters
    ----------
    order : int32 array, shape (t,)
        Masks of the coalitions, by score up or down.
    kinds : uint8 array, shape (t,) or (0,)
        0 where the score is known, 1 for the lower and 2 for the upper end of an interval; empty: all known.
    values : float64 array, shape (t,)
        Their scores.
    program : tuple of int64 arrays
        Weights by size, shape (limbs, n+1) each: of players, of the virtual player, and of coalitions with an
        interval that hold a player or not; then the players a and b of each row, shape (rows,). Integers are
        held in 32-bit limbs, lowest first, so that any width stays exact.
    start : int64 array, shape (limbs, n+1)
        Counts before the first coalition.
    running : bool
        True: the worst sum is the least partial sum in sweep order (concave or convex transforms). False: it
        takes the negative terms only (any increasing transform).
    tolerance : float
        Relative rounding of a sum, e.g. ``4 (t + 8) 2^-53``.

    Returns
    -------
    least : int64 array, shape (rows, limbs)
        Least D of each row; the largest integer where no level ends.
    where : int64 array, shape (rows,)
        Its position in the order (of several the lowest level), -1 where no level ends.
    low, high : float64 array, shape (rows,)
        Bounds of the worst sum, in units of the top limb.
    total, error : float64 array, shape (rows,)
        The sum over all levels, and `tolerance` times the sum of absolute terms.

    Notes
    -----
    One pass: O(t (n + rows)) integer operations for one limb.

    Examples
    --------
    >>> order, values = score_order(np.array([0.0, 1, 3, 4]))
    >>> pair, none = np.array([[0, 1, 0]]), np.zeros((1, 3), np.int64)
    >>> program = pair, none, pair, none, np.array([0]), np.array([1])
    >>> sweep = row_sweep(order, np.zeros(0, np.uint8), values, program, none, running=False, tolerance=0.0)
    >>> sweep[0].tolist()
    [[-1]]
    """
    from porism.kernels.coalition import _rows

    return _rows.row_sweep(order, kinds, values, program, start, running, tolerance)


def row_trace(
    order: NDArray[np.int32],
    kinds: NDArray[np.uint8],
    values: Floats,
    program: tuple[Integers, ...],
    start: Integers,
) -> tuple[Integers, Integers]:
    """List the integers D of one row at every level, in sweep order.

    Parameters
    ----------
    order, kinds, values, program, start
        As for :func:`row_sweep`, with one row.

    Returns
    -------
    int64 array, shape (limbs, levels)
        D in limbs.
    int64 array, shape (levels,)
        Position in the order at which each level ends.

    Examples
    --------
    >>> order, values = score_order(np.array([0.0, 1, 3, 4]))
    >>> pair, none = np.array([[0, 1, 0]]), np.zeros((1, 3), np.int64)
    >>> program = pair, none, pair, none, np.array([0]), np.array([1])
    >>> row_trace(order, np.zeros(0, np.uint8), values, program, none)[0].tolist()
    [[0, -1, 0]]
    """
    from porism.kernels.coalition import _rows

    return _rows.row_trace(order, kinds, values, program, start)


def column_sums(members: NDArray[np.uint8], values: Floats, n: int) -> tuple[Integers, Floats]:
    """Count the rows that hold each player, and add up their values.

    Parameters
    ----------
    members : uint8 array, shape (m, ceil(n / 8))
        Sampled coalitions: bit ``i % 8`` of byte ``i // 8`` of a row is set where it holds player i.
    values : float64 array, shape (m,)
        Value of each row.
    n : int
        Number of players.

    Returns
    -------
    (int64 array, float64 array), shape (n,) each
        Rows with each player, and the sum of their values.

    Notes
    -----
    O(m n) time, O(n) memory: no m x n matrix is made.

    Examples
    --------
    >>> [part.tolist() for part in column_sums(np.array([[1], [3]], np.uint8), np.array([0.5, 2.0]), 2)]
    [[2, 1], [2.5, 2.0]]
    """
    from porism.kernels.coalition import _packed

    count, total = np.zeros(n, np.int64), np.zeros(n)
    _packed.column_sums(members, values, count, total)
    return count, total


def packed_sweep(
    order: Integers,
    values: Floats,
    members: NDArray[np.uint8],
    gain: Integers,
    loss: Integers,
    held: Integers,
    block: Integers,
) -> tuple[float, int, int, int]:
    """Sweep sampled rows by decreasing score: least level difference of two adjacent blocks of players.

    The level value of player i is ``(c_i m - r h_i) / (h_i (m - h_i))`` for c_i of the r rows so far and
    h_i of all m rows: mean in minus mean out. With `gain` it is the number of rows that add i less the number
    of those that take it away.

    Parameters
    ----------
    order : int64 array, shape (m,)
        Rows by decreasing score.
    values : float64 array, shape (m,)
        Their scores, in this order.
    members : uint8 array, shape (m, ceil(n / 8))
        As for :func:`column_sums`.
    gain, loss : int64 array, shape (m,) or (0,)
        Player that a row adds and takes away, -1 for none; empty: mean in minus mean out.
    held : int64 array, shape (n,)
        Rows with each player, in 1 .. m-1; not read with `gain`.
    block : int64 array, shape (n,)
        Block of each player, 0 for the best.

    Returns
    -------
    (float, int, int, np.int64)
        Least difference between a player of a block and one of the next, rounded; the position in the order
        at which its level ends; the two players. Infinity and -1 where no level ends.

    Notes
    -----
    O(m n) time, O(n) memory. Floats order the values, and where they are too close to tell the fractions do,
    so the sign of the least difference is exact.

    Examples
    --------
    >>> rows, none = np.array([[1], [2]], np.uint8), np.zeros(0, np.int64)
    >>> held, block = np.array([1, 1]), np.array([0, 1])
    >>> packed_sweep(np.array([0, 1]), np.array([2.0, 1.0]), rows, none, none, held, block)
    (2.0, 0, 0, 1)
    """
    from porism.kernels.coalition import _packed

    return _packed.packed_sweep(order, values, members, gain, loss, held, block)
