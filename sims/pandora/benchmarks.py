"""Benchmarks of the pandora module: routing in bulk, hulls, and routing of public score matrices.

Rows on speed compare seconds. Rows on public sets compare quality or refinements: ``ours`` and ``theirs``
hold the two numbers, ``se`` the standard error of their difference, paired by query; they need the folder
that the environment variable PORISM_DATA names.
"""

import tracemalloc
from typing import Any

import numpy as np

from porism.kernels.voi import voi_argmax
from porism.sims.benchmark import compare
from porism.sims.pandora._peers import (
    blocked,
    hull_by_pairs,
    hull_by_pairs_lean,
    in_band,
    routed,
    whole,
)
from porism.sims.pandora._public_sets import PUBLIC
from porism.theory.pandora import inspection_halfwidth, nondecreasing_hull, route_batch

__all__ = ["BENCHMARKS", "routing_memory"]

N, K = 1_000_000, 64
POINTS = 120


def _setting(n: int = N) -> tuple[Any, ...]:
    """Means in float32, and parameters in float64."""
    rng = np.random.default_rng(0)
    m = rng.standard_normal((n, K), dtype=np.float32)
    nu = rng.uniform(0.2, 0.6, K)
    c = nu * rng.uniform(0.01, 0.2, K)
    return m, nu, c, inspection_halfwidth(nu, c)


def _apart(ours: Any, theirs: Any) -> float:
    """Largest difference of net gains; infinite if more than one pick in 10^5 differs."""
    if np.count_nonzero(ours[1] != theirs[1]) > len(ours[1]) // 100_000:
        return float("inf")
    return float(np.abs(ours[0] - theirs[0]).max())


def _step(task: str, peer: Any, single: bool, tolerance: float, rounds: int = 3) -> Any:
    def benchmark() -> dict[str, Any]:
        m, nu, c, w = _setting()
        theirs = [x.astype(np.float32) for x in (nu, c, w)] if single else [nu, c, w]
        return compare(
            f"best refinement, {N} x {K}; peer: {task}",
            "numpy",
            lambda: voi_argmax(m, nu, c, w)[:2],
            lambda: peer(m, *theirs),
            _apart,
            tolerance,
            rounds,
        )

    benchmark.__name__ = f"best refinement against {task}"
    benchmark.__doc__ = f"One step for {N} queries beside NumPy: {task}."
    return benchmark


def _routing(task: str, step: Any) -> Any:
    def benchmark() -> dict[str, Any]:
        m, nu, c, w = _setting()
        refined = m + (nu * np.random.default_rng(1).standard_normal(m.shape)).astype(np.float32)

        def ours() -> Any:
            found = route_batch(m, nu, c, policy="kg", refined=refined)
            return found.choice, found.n_refine

        return compare(
            f"routing to the end, {N} x {K}; peer: {task}",
            "numpy",
            ours,
            lambda: routed(m, refined, nu, c, w, step),
            lambda a, b: float(np.mean((a[0] != b[0]) | (a[1] != b[1]))),
            1e-4,  # share of queries with rounding ties in float32
            rounds=1,
        )

    benchmark.__name__ = f"routing to the end against {task}"
    benchmark.__doc__ = f"Routing {N} queries to the end, all refinements, beside NumPy: {task}."
    return benchmark


def routing_memory(n: int = N, chunk: int = 8192, asked: bool = False) -> tuple[float, float]:
    """Peak memory of routing beyond its arguments, and the bound that the documentation gives.

    Parameters
    ----------
    n : int
        Queries, of 64 specialists.
    chunk : int
        As in `route_batch`.
    asked : bool, default False
        Ask a callable for refined estimates, round by round, instead of handing over a matrix.

    Returns
    -------
    (float, float)
        MB seen by tracemalloc; and 2 bytes an entry of a chunk, or 50 where a callable is asked, plus 48
        bytes a query for results.

    Examples
    --------
    >>> peak, bound = routing_memory(20_000, 1024)
    >>> peak < bound
    True
    """
    m, nu, c, _ = _setting(n)
    refined = m + np.float32(0.3)
    estimates: Any = (lambda queries, specialists: refined[queries, specialists]) if asked else refined
    few = estimates if asked else refined[:10]
    route_batch(m[:10], nu, c, policy="kg", refine=few)  # compiled, imported
    tracemalloc.start()
    try:
        route_batch(m, nu, c, policy="kg", refine=estimates, chunk=chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak / 1e6, ((50 if asked else 2) * chunk * K + 48 * n) / 1e6


def memory() -> dict[str, Any]:
    """Peak memory of routing beyond its arguments beside the arrays of one whole-array step."""
    m, nu, c, w = _setting(N // 10)
    peak, bound = routing_memory()
    tracemalloc.start()
    try:
        whole(m, nu, c, w)
        other = 10 * tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    return {
        "task": f"memory of routing {N} x {K}: {peak:.0f} MB, bound {bound:.0f}; whole arrays {other:.0f} MB",
        "peer": "numpy",
        "ratio": other / peak,
        "ours": peak,
        "theirs": other,
        "bound": bound,
    }


def _hull(task: str, peer: Any, rounds: int) -> Any:
    def benchmark() -> dict[str, Any]:
        rng = np.random.default_rng(0)
        x = np.sort(rng.uniform(0.1, 10, POINTS))
        points = np.column_stack([x, 1 - np.exp(-x / 3) + 0.1 * rng.normal(size=POINTS)])

        def difference(ours: Any, theirs: Any) -> float:
            """Of the curves at all costs, and of the areas under them up to the greatest cost."""
            curves = [np.interp(x, *hull.T) for hull in (ours, theirs)]
            areas = [np.trapezoid(curve, x) for curve in curves]
            return max(float(np.abs(curves[0] - curves[1]).max()), abs(float(areas[0] - areas[1])))

        return compare(
            f"hull of {POINTS} points; peer: {task}",
            "numpy",
            lambda: nondecreasing_hull(points),
            lambda: peer(points),
            difference,
            1e-12,
            rounds,
        )

    benchmark.__name__ = f"hull against {task}"
    benchmark.__doc__ = f"Nondecreasing hull of {POINTS} points beside {task}."
    return benchmark


BENCHMARKS = [
    _step("whole arrays, float64", whole, False, 1e-7, rounds=1),
    _step("whole arrays, float32", whole, True, 1e-6),
    _step("blocks in cache, float32", lambda *a: blocked(whole, *a), True, 1e-6),
    _step("blocks in cache, psi in the band only, float32", lambda *a: blocked(in_band, *a), True, 1e-6),
    _routing("whole arrays, float64", whole),
    _routing("whole arrays, psi in the band only", in_band),
    memory,
    _hull("RouterBench's algorithm restated", hull_by_pairs, 1),
    _hull("the same algorithm on plain floats", hull_by_pairs_lean, 5),
    *PUBLIC,
]
