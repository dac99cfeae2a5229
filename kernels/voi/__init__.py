"""Which specialist to refine, if any: the best one-step value of information of many queries at once.

The reference writes the definitions out in loops (``reference.py``); the CPU path is numba (``cpu.py``) and
exact to rounding, the Triton path (``triton.py``) computes psi in float32. Bands, not signs of computed
values, decide: ``w = inspection_halfwidth(nu, c)`` of :mod:`porism.theory.pandora` makes them.
"""

import importlib
import math
from typing import Any

import numpy as np

from porism.checks import finite_array, one_of
from porism.kernels import on_gpu

__all__ = ["joint_argmax", "voi_argmax"]


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

    One pass: the two best means, then psi only within the band, and on the CPU only where a table of bounds
    says that it can win. Floor: 4 bytes an entry in float32 (256 MB for 10^6 x 64), at most some 40 FLOP an
    entry within its band: bound by memory on a GPU. The CPU path takes 0.18 to 0.3 s for 10^6 x 64 on one
    core; Triton: not measured, its float32 psi is within 1e-7 of the exact one in absolute terms.

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
    one_of("backend", backend, ("auto", "cpu", "triton", "reference"))
    if backend == "triton" or (backend == "auto" and on_gpu(m)):
        from porism.kernels.voi import triton

        return triton.voi_argmax(m, nu, c, w, price=price, done=done, outside=outside, rule=rule)
    m = _means(m)
    nu, c, w = _rows("nu", nu, m), _rows("c", c, m), _rows("w", w, m)
    price, done, outside = _price(price, m), _words(done, m), _outside(outside)
    if backend == "reference":
        from porism.kernels.voi import reference

        out = reference.voi_argmax(m - price, nu, c, w, _full(done, m), outside, rule)
        return _as(out, m)
    cpu = importlib.import_module("porism.kernels.voi.cpu")
    found: tuple[Any, Any, Any, Any] = cpu.voi_argmax(m, nu, c, w, price, done, outside, rule)
    return found


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
    one_of("backend", backend, ("auto", "cpu", "reference"))
    m = _means(m)
    K = m.shape[1]
    slope = np.ascontiguousarray(finite_array("slope", _plain(slope)))
    if slope.shape[-2:] != (K, K) or slope.ndim > 3:
        raise ValueError(
            f"slope must have shape ({K}, {K}) or (G, {K}, {K}) for m of shape {m.shape}, got {slope.shape}"
        )
    group = _groups(group, slope, m)
    slope = slope.reshape(-1, K, K)
    c = _rows("c", c, m)
    if len(c) > 1:
        raise ValueError(f"c must have shape ({K},) for m of shape {m.shape}, got {c.shape}")
    price, done, outside = _price(price, m), _words(done, m), _outside(outside)
    if backend == "reference":
        from porism.kernels.voi import reference

        out = reference.joint_argmax(m - price, slope, group, c[0], _full(done, m), outside)
        return _as(out, m)
    cpu = importlib.import_module("porism.kernels.voi.cpu")
    found: tuple[Any, Any, Any, Any] = cpu.joint_argmax(m, slope, group, c[0], price, done, outside)
    return found


def _plain(value: Any) -> Any:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() and value.element_size() < 4 else value
    return np.asarray(value)


def _means(m: Any) -> Any:
    m = _plain(m)
    if m.dtype.kind not in "iuf":
        raise TypeError(f"m must hold real numbers, got dtype {m.dtype}; convert it to float first")
    if m.ndim != 2 or m.shape[1] < 1:
        raise ValueError(f"m must have shape (n, K) with K >= 1, got {m.shape}; one row a query")
    kind = np.float64 if m.dtype.kind != "f" or m.dtype.itemsize >= 8 else np.float32
    return np.ascontiguousarray(m, dtype=kind)


def _rows(name: str, value: Any, m: Any) -> Any:
    rows = np.ascontiguousarray(_plain(value), dtype=np.float64)
    n, K = m.shape
    if rows.shape not in ((K,), (n, K)):
        raise ValueError(
            f"{name} must have shape ({K},) or ({n}, {K}) for m of shape {m.shape}, got {rows.shape}"
        )
    if name == "w":
        if np.isnan(rows).any():
            raise ValueError("w must not be NaN; w = inf says always, w = -inf never")
    elif not (rows >= 0).all():
        raise ValueError(f"{name} must be >= 0; got min {rows.min()}")
    elif name == "nu" and np.isinf(rows).any():
        raise ValueError("nu must be >= 0 and finite; got inf")
    return rows.reshape(-1, K)


def _groups(group: Any, slope: Any, m: Any) -> Any:
    if group is None and slope.ndim == 2:
        return np.zeros(len(m), dtype=np.int64)
    if group is None or slope.ndim == 2:
        raise ValueError("group belongs to slopes of shape (G, K, K): pass both, or one matrix and no group")
    group = _plain(group)
    if group.dtype.kind not in "iu" or group.shape != (len(m),):
        raise ValueError(f"group must be int of shape ({len(m)},), got {group.dtype} of {group.shape}")
    if group.size and not 0 <= group.min() <= group.max() < len(slope):
        raise ValueError(
            f"group must be in 0..{len(slope) - 1}, got {group.min()}..{group.max()}: one matrix each"
        )
    return np.ascontiguousarray(group, dtype=np.int64)


def _price(price: Any, m: Any) -> Any:
    price = np.zeros(m.shape[1]) if price is None else finite_array("price", _plain(price), ndim=1)
    if price.shape != m.shape[1:]:
        raise ValueError(f"price must have shape ({m.shape[1]},) for m of shape {m.shape}, got {price.shape}")
    return np.ascontiguousarray(price)


def _words(done: Any, m: Any) -> Any:
    n, K = m.shape
    words = (K + 63) // 64
    if done is None:
        return np.empty((0, words), dtype=np.int64)
    done = _plain(done)
    if done.dtype != np.int64:
        raise TypeError(f"done must be int64 bit masks, got dtype {done.dtype}; set bit k for specialist k")
    if done.shape != (n, words) and not (words == 1 and done.shape == (n,)):
        shape = f"({n},)" if words == 1 else f"({n}, {words})"
        raise ValueError(f"done must have shape {shape} for m of shape {m.shape}, got {done.shape}")
    return np.ascontiguousarray(done.reshape(n, words))


def _full(done: Any, m: Any) -> Any:
    return done if len(done) else np.zeros((len(m), done.shape[1]), dtype=np.int64)


def _outside(outside: float) -> float:
    outside = float(outside)
    if not outside < math.inf:
        raise ValueError(f"outside must be a number below infinity, got {outside}; -inf says there is none")
    return outside


def _as(out: Any, m: Any) -> tuple[Any, Any, Any, Any]:
    kind = m.dtype
    return out[0].astype(kind), out[1], out[2], out[3].astype(kind)
