"""Which specialist to refine, if any: the best one-step value of information of many queries at once.

The reference writes the definitions out in loops (``reference.py``); the CPU path is numba (``cpu.py``) and
exact to rounding, the Triton path (``triton.py``) computes psi in float32. Bands, not signs of computed
values, decide: ``w = inspection_halfwidth(nu, c)`` of :mod:`porism.theory.pandora` makes them. All arguments
may be tensors; where the means are, the results are tensors on their device.
"""

import math
from typing import Any

import numpy as np

from porism.checks import finite_array, integer, one_of
from porism.kernels._arrays import implementation, like
from porism.kernels.voi import _inputs

__all__ = ["joint_argmax", "voi_argmax", "voi_route"]

ON_CPU = ("auto", "cpu", "reference")


def voi_argmax(
    m: Any,
    nu: Any,
    c: Any,
    w: Any,
    *,
    price: Any = None,
    done: Any = None,
    outside: float = -math.inf,
    rule: str = "net",
    backend: str = "auto",
) -> tuple[Any, Any, Any, Any]:
    """Pick the refinement of largest net value of information for each query, where one is worth its cost.

    ``argmax_i nu_i psi(d_i / nu_i) - c_i`` over specialists with ``d_i < w_i`` that are not done, with
    ``d_i = |x_i - max(outside, max_{j != i} x_j)|`` and ``x = m - price``.

    Parameters
    ----------
    m : float array, shape (n, K)
        Current mean of specialist k for query q, in value units; -inf takes a specialist out.
    nu : float array, shape (K,) or (n, K)
        Standard deviation of the mean after refining, >= 0.
    c : float array, shape (K,) or (n, K)
        Cost of refining in value units, >= 0; infinite where that is impossible.
    w : float array, shape (K,) or (n, K)
        Half-width of the band in which refining pays, ``nu psi^{-1}(c / nu)``; may be infinite or negative.
    price : float array, shape (K,), optional
        Price of using a specialist in value units.
    done : int64 array, shape (n,) or (n, ceil(K / 64)), optional
        Bit ``k % 64`` of word ``k // 64`` is set where specialist k cannot be refined (any more).
    outside : float, default -inf
        Value of taking none of them.
    rule : {"net", "index"}
        Choose the largest net value, or the largest index ``x_i + w_i`` within the bands.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    best_net : float array, shape (n,)
        Net value of the refinement chosen, 0 where none is: float64 for float64 means, else float32.
    arg : int32 array, shape (n,)
        Specialist to refine, -1 to stop.
    top : int32 array, shape (n,)
        Best specialist now, -1 where the outside option is strictly better.
    gap : float array, shape (n,)
        Lead of the best over the second best, outside option included; infinite if there is no second.

    Raises
    ------
    ValueError
        If shapes do not fit, nu or c is negative, or nu is not finite.

    Notes
    -----
    Equals: the smallest index. A row with NaN gives ``arg = top = -1`` and NaN in both float outputs.

    One pass: the two best means, then psi only within the band; on the CPU bounds from a table decide, and
    psi is evaluated for the winner and near ties. Floor: 4 bytes an entry in float32 (256 MB for 10^6 x 64),
    at most some 40 FLOP an entry within its band: bound by memory on a GPU. The CPU path takes 0.17 to 0.3 s
    for 10^6 x 64 on one core; Triton: not measured, its float32 psi is within 1e-7 of the exact one in
    absolute terms.

    References
    ----------
    P. I. Frazier, W. B. Powell, S. Dayanik (2008), A knowledge-gradient policy for sequential information
    collection, doi:10.1137/070693424; L. Doval (2018), Whether or not to open Pandora's box.

    Examples
    --------
    >>> net, arg, top, gap = voi_argmax([[0.5, 0.4, 0.0], [0.0, 2.0, 0.0]], [0.5] * 3, [0.05] * 3, [0.45] * 3)
    >>> arg.tolist(), top.tolist(), net.round(4).tolist()
    ([0, -1], [0, 1], [0.1034, 0.0])
    """
    one_of("rule", rule, ("net", "index"))
    backend, path = implementation(__name__, backend, m)
    if backend == "triton":
        return path.voi_argmax(m, nu, c, w, price=price, done=done, outside=outside, rule=rule)
    x = _inputs.means(m)
    nu, c, w = _inputs.rows("nu", nu, x), _inputs.rows("c", c, x), _inputs.rows("w", w, x)
    price, done = _inputs.money("price", price, x), _inputs.masks(done, x)
    outside = _inputs.below_infinity(outside)
    if backend == "reference":
        out = path.voi_argmax(x - price, nu, c, w, _inputs.full(done, x), outside, rule)
        return _returned(_in_kind_of(x, out), m)
    return _returned(path.voi_argmax(x, nu, c, w, price, done, outside, rule), m)


def voi_route(
    m: Any,
    refined: Any,
    nu: Any,
    c: Any,
    w: Any,
    *,
    price: Any = None,
    fee: Any = None,
    outside: float = -math.inf,
    rule: str = "net",
    rounds: int | None = None,
    backend: str = "auto",
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Refine each query as :func:`voi_argmax` picks until nothing is worth its cost, and choose the best.

    While ``i = argmax_i nu_i psi(d_i / nu_i) - c_i`` exists: replace ``m_i`` by its refined estimate.

    Parameters
    ----------
    m : float array, shape (n, K)
        Mean of specialist k for query q, in value units; -inf takes a specialist out.
    refined : float array, shape (n, K)
        Estimates that refining gives; NaN or infinite where it fails, which leaves the mean as it is.
    nu, c, w, price, outside, rule
        As for :func:`voi_argmax`; ``w = -inf`` where a specialist cannot be refined.
    fee : float array, shape (K,), optional
        What a refinement that does not fail is charged, in any unit; 0 by default.
    rounds : int, optional
        Most refinements tried a query, K by default.
    backend : {"auto", "cpu", "reference"}
        Implementation; "auto" is the CPU path. There is no Triton path.

    Returns
    -------
    choice : int64 array, shape (n,)
        Best specialist in the end by net means, -1 where the outside option is strictly better.
    value : float64 array, shape (n,)
        Its mean before prices; the outside value for -1.
    good, bad : int64 array, shape (n,)
        Refinements that gave a value, and that failed.
    paid : float64 array, shape (n,)
        Fees, added in the order of refining.
    counts : int64 array, shape (K,)
        Refinements of each specialist that gave a value.

    Raises
    ------
    ValueError
        If shapes do not fit, nu or c is negative, nu is not finite, or rounds < 0.

    Notes
    -----
    Equals: the smallest index. A row of means with NaN gives ``choice = -1`` and NaN as value.

    One pass over the queries: a query stays in the cache until it is settled, nothing is copied, and psi is
    evaluated in near ties only. Floor: one read of the means, and a line of memory a refinement. About 0.2 us
    for each query and each of its rounds at K = 64 on one core.

    References
    ----------
    As for :func:`voi_argmax`.

    Examples
    --------
    >>> choice, value, good, bad, paid, counts = voi_route(
    ...     [[0.5, 0.4, 0.0]], [[0.1, 0.7, 9.0]], [0.5] * 3, [0.05] * 3, [0.45] * 3
    ... )
    >>> choice.tolist(), value.tolist(), counts.tolist()  # 0 disappoints, 1 does not, 2 is out of reach
    ([1], [0.7], [1, 1, 0])
    """
    one_of("rule", rule, ("net", "index"))
    _, path = implementation(__name__, backend, choices=ON_CPU)
    x = _inputs.means(m)
    refined = _inputs.news(refined, x)
    nu, c, w = _inputs.rows("nu", nu, x), _inputs.rows("c", c, x), _inputs.rows("w", w, x)
    price, fee = _inputs.money("price", price, x), _inputs.money("fee", fee, x)
    outside = _inputs.below_infinity(outside)
    rounds = x.shape[1] if rounds is None else integer("rounds", rounds, 0)
    return _returned(path.voi_route(x, refined, price, nu, c, w, fee, outside, rule, rounds), m)


def joint_argmax(
    m: Any,
    slope: Any,
    c: Any,
    *,
    group: Any = None,
    price: Any = None,
    done: Any = None,
    outside: float = -math.inf,
    backend: str = "auto",
) -> tuple[Any, Any, Any, Any]:
    """Pick the refinement of largest net value where refining one specialist moves the means of all.

    ``argmax_i E max(outside, max_j x_j + slope[i, j] Z) - max(outside, max_j x_j) - c_i`` with Z standard
    normal and ``x = m - price``, over specialists that are not done and for which it is positive.

    Parameters
    ----------
    m : float array, shape (n, K)
        Current mean of specialist k for query q, in value units; -inf takes a specialist out.
    slope : float array, shape (K, K) or (G, K, K)
        Row i: by how much one standard deviation of the news from refining i moves each mean; one matrix
        for all queries, or for each group of queries (those that have refined the same specialists).
    c : float array, shape (K,)
        Cost of refining in value units, >= 0.
    group : int array, shape (n,), optional
        Matrix of each query, needed for slopes of shape (G, K, K).
    price, done, outside
        As for :func:`voi_argmax`.
    backend : {"auto", "cpu", "reference"}
        Implementation; "auto" is the CPU path. There is no Triton path.

    Returns
    -------
    tuple of arrays
        As for :func:`voi_argmax`: best_net, arg, top, gap.

    Raises
    ------
    ValueError
        If shapes do not fit, or c is negative.

    Notes
    -----
    The upper envelope of K lines gives the expectation as a sum of slope jumps times psi of the distance of
    their breakpoint from 0: O(K) for each pair after one sort of the slopes a group. Where c is 0, a
    specialist whose news can change the best is refined even if the gain underflows.

    References
    ----------
    P. I. Frazier, W. B. Powell, S. Dayanik (2009), The knowledge-gradient policy for correlated normal
    beliefs, doi:10.1287/ijoc.1080.0314, Algorithms 1 and 2.

    Examples
    --------
    >>> net, arg, top, gap = joint_argmax([[0.3, 0.1]], [[0.6, 0.6], [0.0, 0.4]], [0.01, 0.01])
    >>> arg.tolist(), net.round(4).tolist()  # refining 0 moves both alike and decides nothing
    ([1], [0.0691])
    """
    backend, path = implementation(__name__, backend, choices=ON_CPU)
    x = _inputs.means(m)
    K = x.shape[1]
    slope = np.ascontiguousarray(finite_array("slope", slope))
    if slope.shape[-2:] != (K, K) or slope.ndim > 3:
        raise ValueError(
            f"slope must have shape ({K}, {K}) or (G, {K}, {K}) for m of shape {x.shape}, got {slope.shape}"
        )
    group = _inputs.groups(group, slope, x)
    slope = slope.reshape(-1, K, K)
    c = _inputs.rows("c", c, x)
    if len(c) > 1:
        raise ValueError(f"c must have shape ({K},) for m of shape {x.shape}, got {c.shape}")
    price, done = _inputs.money("price", price, x), _inputs.masks(done, x)
    outside = _inputs.below_infinity(outside)
    if backend == "reference":
        out = path.joint_argmax(x - price, slope, group, c[0], _inputs.full(done, x), outside)
        return _returned(_in_kind_of(x, out), m)
    return _returned(path.joint_argmax(x, slope, group, c[0], price, done, outside), m)


def _in_kind_of(x: Any, out: Any) -> tuple[Any, ...]:
    return out[0].astype(x.dtype), out[1], out[2], out[3].astype(x.dtype)


def _returned(out: tuple[Any, ...], m: Any) -> Any:
    """Arrays, or tensors where the means are a tensor."""
    return tuple(like(part, m) for part in out)
