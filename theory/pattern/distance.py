"""The universal solver: any mask, both modes, with lower bounds, exact classes and a time budget."""

import math
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import generator, integer, positive
from porism.theory.pattern._anneal import TOLERANCE
from porism.theory.pattern._bounds import known_kinds, lower_bounds
from porism.theory.pattern._common import solve_common
from porism.theory.pattern._enumerate import (
    COMMON_LIMIT,
    INDEPENDENT_LIMIT,
    STEPS,
    enumerate_optimum,
    exact_class,
)
from porism.theory.pattern._independent import Found, Search, solve_independent
from porism.theory.pattern._orders import permutation
from porism.theory.pattern._problem import Problem, prepare, uninformative
from porism.theory.pattern._seeds import recorded
from porism.theory.pattern.errors import UninformativeMaskWarning
from porism.theory.pattern.fit import PatternFit
from porism.theory.pattern.mask import Mask

__all__ = ["pattern_distance"]

LARGE = {"common": 2048, "independent": 8192}


def pattern_distance(
    A: ArrayLike,
    mask: Mask | ArrayLike,
    *,
    order: str = "independent",
    mass: str = "squared",
    n_restarts: int | str = "auto",
    exact: bool | str = "auto",
    time_budget: float | None = None,
    bounds: Iterable[str] = ("R", "T", "P", "G"),
    random_state: int | np.random.Generator | None = None,
    warm_start: Any = None,
) -> PatternFit:
    """Reorder a matrix so that least mass lies outside a mask.

    ``d^2 = min_{p, q} sum_ij W[i, j] B[p[i], q[j]] / sum B`` with ``B = A^2`` (or |A|) and
    ``W = (1 - S)^2``.

    Parameters
    ----------
    A : array_like, SciPy sparse or networkx graph, shape (m, n)
        Matrix, finite, not zero; any real dtype. Not modified. A graph stands for its adjacency matrix as
        ``networkx.to_numpy_array`` writes it: nodes in the order of the graph, weights of edges where it has
        them (else 1), parallel edges summed, both triangles filled unless it is directed.
    mask : Mask or array_like, shape (m, n)
        Weights S in [0, 1], rows and columns in target order.
    order : {"independent", "common", "none"}
        Rows and columns move freely, together (m = n), or not at all. Questions about graphs need "common".
    mass : {"squared", "abs"}
        Mass of an entry.
    n_restarts : int or "auto"
        Random restarts (independent) or annealing chains (common). "auto": 64 where min(m, n) <= 12, fewer
        for larger matrices.
    exact : bool or "auto"
        "auto" takes closed solutions where the mask has one, and enumerates where n <= 7 (common) or
        min(m, n) <= 6 (independent) if that is done in seconds, which at 6 rows ends at about 300 columns;
        True demands an exact answer; False never enumerates.
    time_budget : float, optional
        Seconds after which the best so far is returned, with status "time_budget"; checked between steps,
        so that one step may overrun. Bounds that have no time left are dropped.
    bounds : iterable of {"R", "T", "P", "G"}
        Lower bounds to compute; G counts in mode "common" only.
    random_state : int, Generator or None
        Seed. Results repeat for a seed as long as no time budget is hit.
    warm_start : PatternFit, order or pair of orders, optional
        The result is never worse.

    Returns
    -------
    PatternFit
        Orders, mass outside, lower bound, whether it is certified, and how it was found.

    Raises
    ------
    TypeError
        If A is complex or an option has the wrong type.
    ValueError
        If shapes do not fit, a value is NaN or infinite, or A is zero; if ``exact=True`` is out of reach.
    MemoryError
        If a sparse matrix or a graph would take more than 2^27 cells.

    Warns
    -----
    UninformativeMaskWarning
        If all orders give the same value, which is then no finding.
    UserWarning
        If the size makes a long run likely and no time budget was given.

    Notes
    -----
    Deciding d^2 <= t is NP-complete in both modes, so without `exact` or `certified` the value is an upper
    bound. Independent: linear assignments in turn from many starts, O(m^2 n + m n^2) and two assignments a
    sweep. Common: matched orders, Frank-Wolfe, annealing with swaps, shifts and reversals, then descent on
    all swaps, O(n^3) a pass.

    References
    ----------
    J. T. Vogelstein et al. (2015), Fast approximate quadratic programming for graph matching,
    doi:10.1371/journal.pone.0121002. PD-1 to PD-10 (reconstruction).

    Examples
    --------
    >>> from porism.theory.pattern import masks
    >>> star = [[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    >>> fit = pattern_distance(star, masks.band(4, 1), order="common", random_state=0)
    >>> round(fit.mass_outside * 6), fit.exact
    (2, True)
    """
    begun = time.perf_counter()
    problem = prepare(A, mask, order, mass)
    restarts = None if n_restarts == "auto" else integer("n_restarts", n_restarts, low=0)
    if isinstance(exact, np.bool_):
        exact = bool(exact)
    if not isinstance(exact, bool) and not (isinstance(exact, str) and exact == "auto"):
        raise ValueError(f"exact must be True, False or 'auto', got {exact!r}; leave it at 'auto'")
    bounds = known_kinds("bounds", bounds)
    deadline = None if time_budget is None else begun + positive("time_budget", time_budget)
    seed = recorded(random_state)
    rng = generator(random_state, "random_state")
    warm = _warm(problem, warm_start)
    reason = uninformative(problem)
    if reason:
        warnings.warn(reason, UninformativeMaskWarning, stacklevel=2)
    _warn_of_size(problem, time_budget)

    def spent() -> bool:
        return deadline is not None and time.perf_counter() >= deadline

    late = deadline is not None and max(problem.shape) > 512  # then what takes long comes after the search
    known = lower_bounds(problem, [kind for kind in bounds if kind == "R" or not late])
    lower = max([0.0, *known.values()])
    found = _settle(problem, exact)
    settled = found is not None
    if found is None:
        search = Search(rng, restarts, spent, lower, warm)
        found, record = (solve_common if problem.order == "common" else solve_independent)(problem, search)
    else:
        record = [(found.name, found.value)]
    value = min(found.value, 1.0) if problem.mask.S.any() else 1.0  # a share, whatever its sum rounds to
    stopped = not settled and value > lower + TOLERANCE and spent()
    for kind in bounds if late else ():
        known |= {} if kind in known or spent() else lower_bounds(problem, [kind])
    lower = max([0.0, *known.values()])
    lower = value if problem.order == "none" else min(lower, value)
    return PatternFit(
        row_order=np.asarray(found.p, dtype=np.int64),
        col_order=np.asarray(found.q, dtype=np.int64),
        mass_outside=value,
        lower_bound=lower,
        exact=settled,
        bounds=known,
        history=(*(min(step, 1.0) for step in found.history[:-1]), value),
        n_sweeps=found.sweeps,
        start=found.name,
        starts=tuple((name, min(reached, 1.0)) for name, reached in record),
        order=problem.order,
        mass=problem.mass,
        mask=problem.mask,
        runtime=time.perf_counter() - begun,
        seed=seed,
        status="time_budget" if stopped else "ok",
        reason=reason,
    )


def _settle(problem: Problem, exact: bool | str) -> Found | None:
    """Answer without search where the order is fixed, the form allows it, or the size is small."""
    B, W, order = problem.B, problem.W, problem.order
    if order != "none" and exact is False:
        return None
    closed = exact_class(B, W, order)
    if closed is not None:
        value, (p, q), why = closed
        return Found(problem.value(p, q), p, q, why, (value,))
    short, long = sorted(W.shape)
    within = long <= COMMON_LIMIT if order == "common" else short <= INDEPENDENT_LIMIT
    if within and (exact is True or math.factorial(short) * float(long) ** 3 <= STEPS):
        value, optima = enumerate_optimum(B, W, order)
        p, q = optima[0]
        return Found(problem.value(p, q), p, q, "enumeration", (value,))
    if exact is True:
        raise ValueError(
            f"exact=True needs n <= {COMMON_LIMIT} (common), min(m, n) <= {INDEPENDENT_LIMIT} (independent) "
            f"or a mask with a closed solution, got {problem.shape} in mode {order!r}; leave exact at 'auto'"
        )
    return None


def _warm(problem: Problem, warm_start: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    if warm_start is None:
        return None
    if isinstance(warm_start, PatternFit):
        warm_start = warm_start.row_order, warm_start.col_order
    pair = isinstance(warm_start, Sequence | np.ndarray) and len(warm_start) == 2
    rows, columns = (warm_start, warm_start) if not pair or np.isscalar(warm_start[0]) else warm_start
    m, n = problem.shape
    p, q = permutation("warm_start", rows, m), permutation("warm_start", columns, n)
    if problem.order == "common" and not np.array_equal(p, q):
        raise ValueError("warm_start must be one order in mode 'common', got two different ones; pass one")
    return p, q


def _warn_of_size(problem: Problem, time_budget: float | None) -> None:
    size = max(problem.shape)
    limit = LARGE.get(problem.order)
    if limit is None or size <= limit or time_budget is not None:
        return
    seconds = 4.0 * size**3 * 20 / 3e10
    warnings.warn(
        f"{size} positions in mode {problem.order!r} may take about {seconds:.0f} s (20 sweeps of 4 n^3 FLOP "
        "at 30 GFLOP/s); pass time_budget to stop earlier",
        UserWarning,
        stacklevel=3,
    )
