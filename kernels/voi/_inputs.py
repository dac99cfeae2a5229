"""Arguments of the value-of-information kernels: contiguous arrays of the kinds they run on, or an error."""

import math
import numbers
from typing import Any

import numpy as np

from porism.checks import detached, finite_array
from porism.kernels._arrays import reals


def means(m: Any, name: str = "m") -> Any:
    """A row a query, in float32 or float64."""
    m = np.asarray(detached(m))
    if m.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {m.dtype}; convert it to float first")
    if m.ndim != 2 or m.shape[1] < 1:
        raise ValueError(f"{name} must have shape (n, K) with K >= 1, got {m.shape}; one row a query")
    kind = np.float64 if m.dtype.kind != "f" or m.dtype.itemsize >= 8 else np.float32
    return np.ascontiguousarray(m, dtype=kind)


def news(refined: Any, m: Any) -> Any:
    """Refined estimates of all means."""
    refined = means(refined, "refined")
    if refined.shape != m.shape:
        raise ValueError(f"refined must have shape {m.shape} as m has, got {refined.shape}")
    return refined


def rows(name: str, value: Any, m: Any) -> Any:
    """Parameters in float64: one row for all queries, or one each."""
    array = reals(name, value)
    n, K = m.shape
    if array.shape not in ((K,), (n, K)):
        raise ValueError(
            f"{name} must have shape ({K},) or ({n}, {K}) for m of shape {m.shape}, got {array.shape}"
        )
    if name == "w":
        if np.isnan(array).any():
            raise ValueError("w must not be NaN; w = inf says always, w = -inf never")
    elif not (array >= 0).all():
        raise ValueError(f"{name} must be >= 0; got min {array.min()}")
    elif name == "nu" and np.isinf(array).any():
        raise ValueError("nu must be >= 0 and finite; got inf")
    return array.reshape(-1, K)


def groups(group: Any, slope: Any, m: Any) -> Any:
    """Matrix of slopes of each query."""
    if group is None and slope.ndim == 2:
        return np.zeros(len(m), dtype=np.int64)
    if group is None or slope.ndim == 2:
        raise ValueError("group belongs to slopes of shape (G, K, K): pass both, or one matrix and no group")
    group = np.asarray(detached(group))
    if group.dtype.kind not in "iu" or group.shape != (len(m),):
        raise ValueError(f"group must be int of shape ({len(m)},), got {group.dtype} of {group.shape}")
    if group.size and not 0 <= group.min() <= group.max() < len(slope):
        raise ValueError(
            f"group must be in 0..{len(slope) - 1}, got {group.min()}..{group.max()}: one matrix each"
        )
    return np.ascontiguousarray(group, dtype=np.int64)


def money(name: str, value: Any, m: Any) -> Any:
    """One finite number a specialist, 0 where nothing is given."""
    array = np.zeros(m.shape[1]) if value is None else finite_array(name, value, ndim=1)
    if array.shape != m.shape[1:]:
        raise ValueError(
            f"{name} must have shape ({m.shape[1]},) for m of shape {m.shape}, got {array.shape}"
        )
    return np.ascontiguousarray(array)


def masks(done: Any, m: Any) -> Any:
    """Words of bits for each query; no row where nothing is done."""
    n, K = m.shape
    words = (K + 63) // 64
    if done is None:
        return np.empty((0, words), dtype=np.int64)
    done = np.asarray(detached(done))
    if done.dtype != np.int64:
        raise TypeError(f"done must be int64 bit masks, got dtype {done.dtype}; set bit k for specialist k")
    if done.shape != (n, words) and not (words == 1 and done.shape == (n,)):
        shape = f"({n},)" if words == 1 else f"({n}, {words})"
        raise ValueError(f"done must have shape {shape} for m of shape {m.shape}, got {done.shape}")
    return np.ascontiguousarray(done.reshape(n, words))


def full(done: Any, m: Any) -> Any:
    """A row of bits for each query in any case."""
    return done if len(done) else np.zeros((len(m), done.shape[1]), dtype=np.int64)


def below_infinity(outside: Any) -> float:
    """Value of taking nobody."""
    if isinstance(outside, bool) or not isinstance(outside, numbers.Real):
        raise TypeError(f"outside must be a number, got {type(outside).__name__}; -inf says there is none")
    outside = float(outside)
    if not outside < math.inf:
        raise ValueError(f"outside must be a number below infinity, got {outside}; -inf says there is none")
    return outside
