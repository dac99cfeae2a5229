"""Choosing samples and parameters together: a bilinear problem, hard in general, easy one side at a time."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, one_of
from porism.results import Result
from porism.theory.selection._inputs import indices
from porism.theory.selection.oracle import ScoreOracle

__all__ = ["JointSelection", "joint_select"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
SUBSETS = 2_000_000
"""Most subsets that method "exact" goes through."""


@dataclasses.dataclass(frozen=True, eq=False)
class JointSelection(Result):
    """Chosen rows and columns of a score matrix; made by `joint_select`.

    Parameters
    ----------
    rows, cols : ndarray of int
        Ascending indices.
    value : float
        Sum of the entries in these rows and columns.
    upper_bound : float
        No choice of these sizes has more; infinite where the matrix is only an oracle.
    sweeps : int
        Sweeps of the alternation over rows and columns, over all starts; 0 for the other methods.
    method : {"one_shot", "alternating", "exact"}
        How they were found.
    """

    rows: Indices
    cols: Indices
    value: float
    upper_bound: float = math.inf
    sweeps: int = 0
    method: str = "one_shot"


def joint_select(
    G: Any, n_rows: int, n_cols: int, method: str = "one_shot", starts: Iterable[Any] = ()
) -> JointSelection:
    """Choose k rows and l columns of a score matrix for the largest sum of entries in both.

    ``max over |R| = k, |C| = l of sum of G_ij over i in R, j in C``.

    Parameters
    ----------
    G : array_like, shape (n, P), or ScoreOracle
        Scores.
    n_rows, n_cols : int
        k in 1..n and l in 1..P.
    method : {"one_shot", "alternating", "exact"}
        ``"one_shot"``: the top rows and the top columns, each by its full sums. ``"alternating"``: from the
        one-shot columns and from each of `starts`, best rows for the columns, best columns for the rows,
        until a whole sweep changes neither; the best of all. ``"exact"``: all subsets of the side with fewer.
    starts : iterable of int sequences, each of length n_cols
        Further column sets to alternate from.

    Returns
    -------
    JointSelection
        Indices, value, and an upper bound: the smaller of the sum of the k largest row-wise top-l sums and of
        the sum of the l largest column-wise top-k sums.

    Raises
    ------
    TypeError
        If a number or an index is not an int, or G does not hold real numbers.
    ValueError
        If G is not finite, k, l or an index is out of range, a start has another length or a column twice,
        starts come with another method, or "exact" has an oracle or more than 2 000 000 subsets.

    Notes
    -----
    With one side fixed the best other side is the top of its sums, so each step of the alternation is exact
    and the value never falls; ties go to the lowest index. Jointly it is NP-hard, as a 0/1 matrix asks for a
    balanced biclique, and one-shot marginals carry no guarantee at all: .2 of 10 on a 3 x 3 matrix, less
    than nothing on others. Where G is a product of non-negative vectors, one shot is optimal. Nothing is
    drawn at random here: pass random column sets as `starts`.

    References
    ----------
    DualSFT, arXiv:2605.06166, abstract; our derivation (DS-6, DS-7).

    Examples
    --------
    >>> G = [[10, -10, 0.1], [-10, 10, 0.1], [0.2, 0.2, 0.2]]
    >>> [joint_select(G, 1, 1, method).value for method in ("one_shot", "alternating", "exact")]
    [0.2, 10.0, 10.0]
    """
    one_of("method", method, ("one_shot", "alternating", "exact"))
    matrix = None if isinstance(G, ScoreOracle) else finite_array("G", G, 2)
    oracle = G if matrix is None else _of_matrix(matrix)
    n, P = oracle.shape
    k, count = integer("n_rows", n_rows, 1, n), integer("n_cols", n_cols, 1, P)
    chosen = [_start(start, count, P) for start in starts]
    if chosen and method != "alternating":
        raise ValueError(f"starts must be empty for method={method!r}, got {len(chosen)}; use 'alternating'")
    bound = math.inf if matrix is None else min(_bound(matrix, k, count), _bound(matrix.T, count, k))
    if method == "exact":
        if matrix is None:
            raise ValueError("method 'exact' needs the matrix itself, got an oracle; use 'alternating'")
        return _found(*_exact(matrix, k, count), bound, 0, method)
    cols = _top(_sums(oracle.columns, np.arange(n), P), count)
    if method == "one_shot":
        rows = _top(_sums(oracle.rows, np.arange(P), n), k)
        return _found(rows, cols, float(_sums(oracle.rows, cols, n)[rows].sum()), bound, 0, method)
    found = [_alternate(oracle, k, columns) for columns in (cols, *chosen)]
    rows, cols, value, _ = max(found, key=lambda item: item[2])
    return _found(rows, cols, value, bound, sum(item[3] for item in found), method)


def _found(
    rows: Indices, cols: Indices, value: float, bound: float, sweeps: int, method: str
) -> JointSelection:
    # sums in another order: where a bound is attained, rounding would put it below the value
    return JointSelection(rows, cols, value, max(bound, value), sweeps, method)


def _of_matrix(G: Floats) -> ScoreOracle:
    shape = (int(G.shape[0]), int(G.shape[1]))
    return ScoreOracle(shape, lambda cols: G[:, cols].sum(1), lambda rows: G[rows].sum(0))


def _sums(ask: Callable[[Indices], ArrayLike], chosen: Indices, length: int) -> Floats:
    found = finite_array("sums of the oracle", ask(chosen), 1)
    if len(found) != length:
        raise ValueError(f"sums of the oracle must have length {length}, got {len(found)}; see its shape")
    return found


def _top(sums: Floats, count: int) -> Indices:
    """Indices of the largest, of equal ones the lowest, in ascending order."""
    return np.sort(np.argsort(-sums, kind="stable")[:count])


def _alternate(oracle: ScoreOracle, k: int, cols: Indices) -> tuple[Indices, Indices, float, int]:
    (n, P), count, sweeps = oracle.shape, len(cols), 0
    rows = np.empty(0, dtype=np.int64)
    seen: set[tuple[bytes, bytes]] = set()
    while True:
        sweeps += 1
        new_rows = _top(_sums(oracle.rows, cols, n), k)
        sums = _sums(oracle.columns, new_rows, P)
        new_cols = _top(sums, count)
        key = new_rows.tobytes(), new_cols.tobytes()
        same = np.array_equal(new_rows, rows) and np.array_equal(new_cols, cols)
        rows, cols = new_rows, new_cols
        if same or key in seen:  # sums that differ by rounding could go round in a circle
            return rows, cols, float(sums[cols].sum()), sweeps
        seen.add(key)


def _bound(G: Floats, k: int, count: int) -> float:
    """Sum of the k largest top-`count` sums of rows."""
    each = np.sort(G, axis=1)[:, -count:].sum(1)
    return float(np.sort(each)[-k:].sum())


def _exact(G: Floats, k: int, count: int) -> tuple[Indices, Indices, float]:
    n, P = G.shape
    if math.comb(n, k) < math.comb(P, count):
        cols, rows, value = _exact(np.ascontiguousarray(G.T), count, k)
        return rows, cols, value
    total = math.comb(P, count)
    if total > SUBSETS:
        raise ValueError(
            f"method 'exact' must go through at most {SUBSETS} subsets, got {total}; use 'alternating' with "
            "starts, and compare with its upper_bound"
        )
    best, subset = -math.inf, np.arange(count)
    every = itertools.combinations(range(P), count)
    while block := list(itertools.islice(every, max(1, 4_000_000 // (n * count)))):  # 32 MB of entries
        sets = np.array(block)
        sums = G[:, sets].sum(2)
        values = np.sort(sums, axis=0)[-k:].sum(0)
        if values.max() > best:
            best, subset = float(values.max()), sets[values.argmax()]
    rows = _top(G[:, subset].sum(1), k)
    return rows, subset, float(G[np.ix_(rows, subset)].sum())


def _start(start: Any, count: int, P: int) -> Indices:
    found = indices("starts", start, P)
    if len(found) != count or len(np.unique(found)) != count:
        raise ValueError(
            f"each of starts must hold n_cols={count} different columns, got {found.tolist()[:8]}; "
            "draw them without replacement"
        )
    return np.sort(found)
