"""Pattern plus low rank: a matrix as a reordered mask of free values and a matrix of small rank."""

import dataclasses
import time
import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import integer
from porism.theory.pattern._completion import complete, truncate
from porism.theory.pattern._problem import prepare, real_matrix
from porism.theory.pattern._seeds import child_seed, recorded, root
from porism.theory.pattern.distance import pattern_distance
from porism.theory.pattern.errors import UninformativeMaskWarning
from porism.theory.pattern.fit import PatternFit
from porism.theory.pattern.mask import Mask

__all__ = ["PatternLowRankFit", "pattern_plus_low_rank"]

Array = NDArray[np.float64]

VANISHED = 1e-29
"""A residual of less mass than this, relative to A, is rounding."""

WIN = 1e-12
"""Least difference of two errors that counts."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class PatternLowRankFit(PatternFit):
    """Values on a reordered mask plus a matrix of rank r, next to both fair rivals of plain low rank.

    The fields of :class:`PatternFit` describe how ``A - L`` fits the mask, for the L found: they bound
    nothing over all L. `error` is what is left of A.

    Parameters
    ----------
    values : float64 array, shape (|S|,)
        Residual on the free cells of the mask, row by row in target order.
    left, right : float64 arrays, shapes (m, r) and (r, n)
        Factors of L, in source order.
    error : float
        ``||A - pattern - L||^2 / ||A||^2``.
    path, svd_path, matched_path : float64 arrays, shape (r + 1,)
        `error`, `svd_error` and `matched_svd_error` for every rank up to r.
    parameters : int
        ``|S| + r (m + n - r)``.
    matched_rank : int
        Smallest rank with as many parameters; min(m, n) where none has.

    Notes
    -----
    At equal rank a pattern helps by construction (PD-14). At equal parameters it may lose, since the mask
    costs |S| of them (PD-16): read both comparisons.

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> A = np.ones((3, 3)) + np.diag([1, 2, 3])
    >>> fit = pattern_plus_low_rank(A, masks.band(3, 0), 1, random_state=0)
    >>> fit.path.round(6).tolist(), fit.matched_rank
    ([0.171429, 0.0], 2)
    """

    values: Array
    left: Array
    right: Array
    error: float
    path: Array
    svd_path: Array
    matched_path: Array
    parameters: int
    matched_rank: int

    @property
    def rank(self) -> int:
        """The rank r."""
        return self.left.shape[1]

    @property
    def svd_error(self) -> float:
        """Error of the best matrix of equal rank."""
        return float(self.svd_path[-1])

    @property
    def matched_svd_error(self) -> float:
        """Error of the best matrix of rank `matched_rank`."""
        return float(self.matched_path[-1])

    @property
    def beats_equal_rank(self) -> bool:
        """Whether the pattern leaves less than the best matrix of equal rank."""
        return self.error < self.svd_error - WIN

    @property
    def beats_equal_parameters(self) -> bool:
        """Whether the pattern leaves less than the best low-rank matrix with at least as many parameters."""
        return self.error < self.matched_svd_error - WIN

    def reconstruct(self) -> Array:
        """The approximation, pattern and low rank together.

        Returns
        -------
        float64 array, shape (m, n)
            In source order.
        """
        S = self.mask.S == 1
        ordered = np.zeros(S.shape)
        ordered[S] = self.values
        rows, columns = np.argsort(self.row_order), np.argsort(self.col_order)
        return ordered[np.ix_(rows, columns)] + self.left @ self.right

    def summary(self) -> str:
        """Say what is left, and how plain low rank does at equal rank and at equal parameters.

        Returns
        -------
        str
            Text of a few lines.
        """
        words = {True: "better", False: "not better"}
        m, n = self.mask.S.shape
        return "\n".join(
            [
                f"{self.mask.name} plus rank {self.rank} on {m} x {n}, order {self.order}: "
                f"error {self.error:.6g}",
                f"equal rank {self.rank}: SVD leaves {self.svd_error:.6g}, the pattern is "
                f"{words[self.beats_equal_rank]}",
                f"equal parameters ({self.parameters}, rank {self.matched_rank}): SVD leaves "
                f"{self.matched_svd_error:.6g}, the pattern is {words[self.beats_equal_parameters]}",
            ]
        )


def pattern_plus_low_rank(
    A: ArrayLike,
    mask: Mask | ArrayLike,
    rank: int,
    *,
    order: str = "independent",
    max_iter: int = 20,
    n_restarts: int | str = "auto",
    random_state: int | np.random.Generator | None = None,
) -> PatternLowRankFit:
    """Approximate a matrix by values on a reordered mask plus a matrix of rank at most r.

    ``E_r = min ||A - P' (S * X) Q - L||^2 / ||A||^2`` over orders P, Q, values X and L of rank <= r, which is
    ``min_L d^2(A - L; S) ||A - L||^2 / ||A||^2``.

    Parameters
    ----------
    A : array_like, SciPy sparse or networkx graph, shape (m, n)
        Matrix, finite, not zero. Written out if sparse.
    mask : Mask or array_like, shape (m, n)
        Weights S, each 0 or 1.
    rank : int
        r, 0..min(m, n).
    order : {"independent", "common", "none"}
        Rows and columns move freely, together, or not at all.
    max_iter : int, default 20
        Rounds of reordering and completion for each start, >= 1.
    n_restarts : int or "auto"
        As in :func:`pattern_distance`.
    random_state : int, Generator or None
        Seed; every rank has a child seed of its own.

    Returns
    -------
    PatternLowRankFit
        Orders, values, factors, and the errors of every rank up to r beside those of plain low rank.

    Raises
    ------
    ValueError
        If the mask is not 0/1, the rank is out of range, or A or the mask is bad.

    Notes
    -----
    Ranks 0..r are solved in turn, so that a larger rank never does worse. Each starts from L = 0, from the
    truncated SVD and from the L of the rank before: reorder A - L, then complete A outside the mask by L of
    rank r. Neither step raises the error, and the result is no guaranteed optimum. It is at most
    ``min(e_r, d^2)`` with e_r the SVD's error, and at most ``(1 - |S| / (m n)) e_r`` in independent mode.
    L is not unique where matrices of rank r fit inside the mask. Two full pattern solves a rank, and light
    ones after each completion.

    References
    ----------
    PD-14 to PD-16 (reconstruction).

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> A = np.kron(np.eye(2), np.ones((2, 2))) + np.outer([1, 2, 3, 4], [1, 1, 2, 2])
    >>> fit = pattern_plus_low_rank(A, masks.block_diagonal([2, 2]), 1, random_state=0)
    >>> fit.error < 1e-12, fit.beats_equal_rank, fit.beats_equal_parameters
    (True, True, False)
    """
    problem = prepare(A, mask, order)
    mask = problem.mask
    m, n = problem.shape
    if not mask.binary:
        raise ValueError(
            "pattern_plus_low_rank needs a 0/1 mask, got weights in between: free values would undo them; "
            "round the mask"
        )
    if not 0 <= integer("rank", rank) <= min(m, n):
        raise ValueError(
            f"rank must be in 0..min(m, n), got {rank} for {m} x {n}; choose a value in that range"
        )
    integer("max_iter", max_iter, 1)
    dense = real_matrix(A)
    dense = dense.toarray() if hasattr(dense, "tocsr") else dense
    top = float(np.abs(dense).max())
    dense = dense / top  # first: squares of very small or large entries leave the range of floats
    norm = float(np.linalg.norm(dense))
    dense /= norm
    solver = _Solver(dense, mask, order, max_iter, n_restarts)
    tails = np.append(np.cumsum(np.linalg.svd(dense, compute_uv=False)[::-1] ** 2)[::-1], 0.0)
    tails[0] = 1.0
    best: list[_State] = []
    for r, child in enumerate(root(random_state).spawn(rank + 1)):
        best.append(solver.solve(r, best[-1] if best else None, child))
    state = best[-1]
    free = int(mask.S.sum())
    matched = [_matched_rank(free + r * (m + n - r), m, n) for r in range(rank + 1)]
    fields = {field.name: getattr(state.fit, field.name) for field in dataclasses.fields(PatternFit)}
    residual = (dense - state.left @ state.right)[np.ix_(state.fit.row_order, state.fit.col_order)]
    fields |= {"runtime": sum(item.seconds for item in best), "seed": recorded(random_state)}
    return PatternLowRankFit(
        **fields,
        values=residual[mask.S == 1] * norm * top,
        left=state.left * np.sqrt(norm) * np.sqrt(top),
        right=state.right * np.sqrt(norm) * np.sqrt(top),
        error=state.error,
        path=np.array([item.error for item in best]),
        svd_path=tails[: rank + 1].copy(),
        matched_path=tails[matched].copy(),
        parameters=free + rank * (m + n - rank),
        matched_rank=matched[-1],
    )


@dataclasses.dataclass(frozen=True)
class _State:
    error: float
    left: Array
    right: Array
    fit: PatternFit
    seconds: float = 0.0


class _Solver:
    """Alternates between the order of A - L and L, for A of norm 1."""

    def __init__(self, A: Array, mask: Mask, order: str, max_iter: int, n_restarts: int | str) -> None:
        self.A, self.mask, self.order, self.max_iter, self.n_restarts = A, mask, order, max_iter, n_restarts
        self.first: PatternFit | None = None  # the order of A itself

    def solve(self, r: int, before: _State | None, child: np.random.SeedSequence) -> _State:
        begun = time.perf_counter()
        m, n = self.A.shape
        seeds = child.spawn(4)
        if before is None:
            state = self._reorder((np.zeros((m, 0)), np.zeros((0, n))), None, seeds[0])
            self.first = state.fit
            return dataclasses.replace(state, seconds=time.perf_counter() - begun)
        wider = np.hstack([before.left, np.zeros((m, 1))]), np.vstack([before.right, np.zeros((1, n))])
        starts = [
            (truncate(self.A, r), None),
            ((np.zeros((m, r)), np.zeros((r, n))), self.first),
            (wider, before.fit),
        ]
        best = dataclasses.replace(before, left=wider[0], right=wider[1])
        for (factors, warm), seed in zip(starts, seeds, strict=False):
            first, rest = seed.spawn(2)
            found = self._descend(self._reorder(factors, warm, first), r, rest)
            best = min(best, found, key=lambda state: state.error)
        again = self._reorder((best.left, best.right), best.fit, seeds[3], thorough=True)
        if again.error < best.error:
            best = self._descend(again, r, seeds[3])
        return dataclasses.replace(best, seconds=time.perf_counter() - begun)

    def _descend(self, state: _State, r: int, child: np.random.SeedSequence) -> _State:
        for seed in child.spawn(self.max_iter):
            outside = state.fit.source_mask() == 0
            factors = complete(self.A, outside, state.left, state.right, r)
            moved = self._reorder(factors, state.fit, seed)
            if not moved.error < state.error:
                break
            settled, state = moved.fit.equivalent(state.fit), moved
            if settled:
                break
        return state

    def _reorder(
        self,
        factors: tuple[Array, Array],
        warm: PatternFit | None,
        child: np.random.SeedSequence,
        thorough: bool = False,
    ) -> _State:
        """The best order found for A - L: never worse than the one given, from which the search is light."""
        left, right = factors
        residual = self.A - left @ right
        if warm is not None and float((residual**2).sum()) <= VANISHED:  # nothing left to reorder
            fit = dataclasses.replace(
                warm, mass_outside=0.0, lower_bound=0.0, bounds={}, history=(0.0,), exact=True, reason=""
            )
            return _State(0.0, left, right, fit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UninformativeMaskWarning)  # `reason` says it
            fit = pattern_distance(
                residual if float((residual**2).sum()) > VANISHED else self.A,
                self.mask,
                order=self.order,
                n_restarts=self.n_restarts if thorough or warm is None else 0,
                random_state=child_seed(child),
                warm_start=warm,
            )
        error = float((residual[fit.source_mask() == 0] ** 2).sum())
        return _State(error, left, right, fit)


def _matched_rank(parameters: int, m: int, n: int) -> int:
    ranks = np.arange(min(m, n) + 1)
    enough = np.flatnonzero(ranks * (m + n - ranks) >= parameters)
    return int(enough[0]) if enough.size else min(m, n)
