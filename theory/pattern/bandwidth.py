"""Bandwidth of a graph: an order of the vertices that keeps all edges short, with a lower bound."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import generator, positive
from porism.results import Result
from porism.theory.pattern._anneal import Layout
from porism.theory.pattern._problem import real_matrix
from porism.theory.pattern._seeds import recorded
from porism.theory.pattern._starts import rcm, spectral_order

__all__ = ["BandwidthFit", "minimize_bandwidth"]

Order = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BandwidthFit(Result):
    """An order with small bandwidth.

    Parameters
    ----------
    order : int64 array, shape (n,)
        Source vertex at each position.
    bandwidth : int
        Longest edge, ``max |i - j|`` over edges between positions i and j.
    profile : int
        Sum over positions of the distance to the first neighbour before it.
    lower_bound : int
        No order has a smaller bandwidth.
    start : str
        Where the order came from.
    starts : tuple of (str, int)
        Bandwidth that each step reached.
    runtime : float
        Seconds.
    status : {"ok", "time_budget"}
        Whether the search ended by itself.

    References
    ----------
    Section 2.8 of the reconstruction; P. Z. Chinn et al. (1982), The bandwidth problem for graphs and
    matrices: a survey, doi:10.1002/jgt.3190060302.

    Examples
    --------
    >>> fit = minimize_bandwidth([[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    >>> fit.bandwidth, fit.certified
    (1, True)
    """

    order: Order
    bandwidth: int
    profile: int
    lower_bound: int
    start: str
    starts: tuple[tuple[str, int], ...]
    runtime: float
    status: str = "ok"

    @property
    def certified(self) -> bool:
        """Whether the lower bound is reached, so that no order is better."""
        return self.bandwidth <= self.lower_bound


def minimize_bandwidth(
    A: ArrayLike, *, time_budget: float | None = None, random_state: int | np.random.Generator | None = 0
) -> BandwidthFit:
    """Order rows and columns together so that no non-zero entry lies far from the diagonal.

    ``min_p max {|i - j| : A[p[i], p[j]] != 0}``.

    Parameters
    ----------
    A : array_like, SciPy sparse or networkx graph, shape (n, n)
        Matrix; only the places of the non-zero entries of A and its transpose count.
    time_budget : float, optional
        Seconds after which the best so far is returned, with status "time_budget".
    random_state : int, Generator or None
        Seed of the annealing.

    Returns
    -------
    BandwidthFit
        Order, bandwidth, profile, lower bound.

    Raises
    ------
    TypeError
        If A is complex.
    ValueError
        If A is not square, is empty, or holds NaN or infinity.

    Notes
    -----
    Starts from reverse Cuthill-McKee and the Fiedler vector. Then, for a target w one below the best,
    ``sum over edges of max(0, |i - j| - w)^e`` (e = 1, 2) is annealed with swaps until it is zero; the search
    ends at the lower bound or when several chains fail. Memory O(n^2).

    The lower bound is ``max(max_{v, r} ceil(N_r(v) / 2r), min_v max_r ceil(N_r(v) / r))`` over connected
    components, with N_r(v) the number of other vertices within r steps of v; the second term holds since some
    vertex comes first.

    References
    ----------
    Cuthill and McKee (1969), Reducing the bandwidth of sparse symmetric matrices, doi:10.1145/800195.805928.

    Examples
    --------
    >>> star = [[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    >>> minimize_bandwidth(star).bandwidth
    2
    """
    begun = time.perf_counter()
    deadline = np.inf if time_budget is None else begun + positive("time_budget", time_budget)
    recorded(random_state)
    rng = generator(random_state, "random_state")
    graph = _edges(A)
    n = len(graph)
    lower = _lower_bound(graph)
    rows, columns = np.nonzero(np.triu(graph, 1))

    def width(rank: Order) -> int:
        return int(np.abs(rank[rows] - rank[columns]).max(initial=0))

    weights = graph.astype(np.float64)
    candidates = [("identity", np.arange(n))]
    if n > 2 and rows.size:
        candidates.append(("rcm", rcm(weights)))
        fiedler = np.argsort(spectral_order(weights)[:, 0], kind="stable")
        candidates.append(("fiedler", np.argsort(fiedler)))
    starts = [(name, width(rank)) for name, rank in candidates]
    k = min(range(len(starts)), key=lambda i: starts[i][1])
    (start, best), rank = starts[k], candidates[k][1]
    failed, status = 0, "ok"
    others = [rank for _, rank in candidates]
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    while best > lower and failed < 8:
        if time.perf_counter() >= deadline:
            status = "time_budget"
            break
        excess = np.maximum(apart - (best - 1.0), 0) ** (1 + failed % 2)
        layout = Layout(excess, weights)  # roles exchanged: edges are sparse, penalties are looked up
        layout.segments, layout.scale = False, 1.0
        steps = int(min(2e5 + 5e3 * n, 2e8 / (4 * layout.degree + 20))) * (1 + failed // 4)
        begin, hot = rank, 3.0
        if failed % 4 == 2:
            begin = others[failed % len(others)]
        elif failed % 4 == 3:
            begin, hot = rng.permutation(n), n / 4
        found = layout.anneal(begin, hot, 0.15, steps, int(rng.integers(2**31)), 0.0)
        now = width(found)
        starts.append((f"annealed for {best - 1}", now))
        if now < best:
            best, rank, start, failed = now, found, starts[-1][0], 0
        else:
            failed += 1
    order = np.argsort(rank, kind="stable")
    profiles = [_profile(graph[np.ix_(p, p)]) for p in (order, order[::-1])]
    return BandwidthFit(
        order=np.ascontiguousarray(order if profiles[0] <= profiles[1] else order[::-1]),
        bandwidth=best,
        profile=min(profiles),
        lower_bound=lower,
        start=start,
        starts=tuple(starts),
        runtime=time.perf_counter() - begun,
        status=status,
    )


def _edges(A: Any) -> NDArray[np.bool_]:
    """Symmetric pattern of the non-zero entries off the diagonal."""
    A = real_matrix(A)
    if A.shape[0] != A.shape[1] or not A.shape[0]:
        raise ValueError(
            f"A must be square and not empty, got shape {A.shape}; pass an adjacency or correlation matrix"
        )
    graph: NDArray[np.bool_] = (A.toarray() if hasattr(A, "tocsr") else A) != 0
    graph = graph | graph.T
    np.fill_diagonal(graph, False)
    return graph


def _lower_bound(graph: NDArray[np.bool_]) -> int:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components, shortest_path

    links: Any = csr_matrix(graph, dtype=np.float64)
    count, label = connected_components(links, directed=False)
    best = 0
    for component in range(count):
        members = np.flatnonzero(label == component)
        if members.size == 1:
            continue
        hops = shortest_path(links[members][:, members], directed=False, unweighted=True).astype(np.int64)
        radius = int(hops.max())
        within = np.array([(hops <= r).sum(axis=1) - 1 for r in range(1, radius + 1)])  # (r, v)
        r = np.arange(1, radius + 1)[:, None]
        inner, ends = -(-within // (2 * r)), -(-within // r)
        best = max(best, int(inner.max()), int(ends.max(axis=0).min()))
    return best


def _profile(ordered: NDArray[np.bool_]) -> int:
    n = len(ordered)
    first = np.argmax(ordered | np.eye(n, dtype=bool), axis=1)
    return int(np.maximum(np.arange(n) - first, 0).sum())
