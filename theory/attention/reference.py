"""Plain attention in float64: the truth that faster forms and kernels are compared with."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, positive
from porism.results import Result

__all__ = ["Attention", "attend"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Attention(Result):
    """What attention gives, with what kernels keep for their backward pass.

    Parameters
    ----------
    output : float64 array of shape (..., H, T, d_v)
        ``probabilities @ values``, head by head.
    probabilities : float64 array of shape (..., H, T, S)
        Rows sum to 1; a row that sees no key is 0.
    logsumexp : float64 array of shape (..., H, T)
        Logarithm of each row's normaliser, nats; minus infinity for a row that sees no key.

    Examples
    --------
    >>> attend([[[0.0]]], [[[1.0], [1.0]]], [[[2.0], [4.0]]]).output.tolist()
    [[[3.0]]]
    """

    output: Floats
    probabilities: Floats
    logsumexp: Floats


def attend(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | None = None,
    gqa: bool = True,
    *,
    scale: float | None = None,
) -> Attention:
    """Attention of every head in float64, with grouped keys and values.

    ``softmax(scale q k' + mask) v``; query head h reads key head ``h // (H / H_kv)``.

    Parameters
    ----------
    q : array_like of shape (..., H, T, d)
        Queries: heads, tokens, width of a head. Already rotated.
    k : array_like of shape (..., H_kv, S, d)
        Keys; H_kv divides H. Already rotated.
    v : array_like of shape (..., H_kv, S, d_v)
        Values.
    mask : array_like, optional
        Broadcasts to (..., H, T, S). Booleans say which keys a query sees; numbers, minus infinity among
        them, are added to the scores. ``np.tri(T, dtype=bool)`` is causal.
    gqa : bool, default True
        Whether fewer key heads than query heads are accepted.
    scale : float, optional
        Factor of the scores; ``1 / sqrt(d)`` without it.

    Returns
    -------
    Attention
        Output, probabilities, logsumexp.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit, or the mask is no mask.

    Notes
    -----
    A query that sees no key has output 0. Cost O(H T S d), memory O(H T S): a reference, not a kernel.

    References
    ----------
    Vaswani et al. (2017), "Attention is all you need", equation 1. Ainslie et al. (2023), "GQA",
    arXiv:2305.13245.

    Examples
    --------
    >>> q = np.zeros((2, 3, 4))  # two query heads on one key head, three tokens
    >>> found = attend(q, q[:1], q[:1], mask=np.tri(3, dtype=bool))
    >>> found.probabilities[1].round(2).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.33, 0.33, 0.33]]
    """
    query, key, value = (finite_array(name, x) for name, x in (("q", q), ("k", k), ("v", v)))
    shapes = f"q {query.shape}, k {key.shape} and v {value.shape}"
    if min(query.ndim, key.ndim, value.ndim) < 3 or 0 in query.shape + key.shape + value.shape:
        raise ValueError(f"q, k and v must be (..., heads, tokens, width), got {shapes}; add the axes")
    if query.shape[-1] != key.shape[-1] or key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            f"q and k must have the same width, k and v the same heads and tokens, got {shapes}; transpose "
            "to (..., heads, tokens, width)"
        )
    H, shared = query.shape[-3], key.shape[-3]
    if H % shared or (not gqa and shared != H):
        rule = "a multiple of the" if gqa else "equal to the number of"
        raise ValueError(
            f"the number of query heads must be {rule} key heads, got {shapes}; "
            + ("repeat the key heads" if gqa else "pass gqa=True")
        )
    key, value = (np.repeat(x, H // shared, axis=-3) for x in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else positive("scale", scale)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            scores = factor * (query @ key.swapaxes(-1, -2))
    except ValueError:
        raise ValueError(f"q and k must have leading axes that broadcast, got {shapes}") from None
    if not np.isfinite(scores).all():
        raise ValueError("the scores of q and k must be finite, got an overflow; scale q or k down")
    scores = _masked(scores, mask)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    total = weights.sum(axis=-1, keepdims=True)
    seen = np.where(total > 0, total, 1.0)
    probabilities = weights / seen
    logsumexp = np.where(total > 0, np.log(seen) + np.where(np.isneginf(top), 0.0, top), -np.inf)[..., 0]
    return Attention(probabilities @ value, probabilities, logsumexp)


def _masked(scores: Floats, mask: Any) -> Floats:
    """Scores with minus infinity where nothing is seen."""
    if mask is None:
        return scores
    given = np.asarray(mask)
    try:
        shown = np.broadcast_to(given, scores.shape)
    except ValueError:
        raise ValueError(
            f"mask must broadcast to {scores.shape}, got shape {given.shape}; axes are (..., heads, T, S)"
        ) from None
    if given.dtype == bool:
        return np.where(shown, scores, -np.inf)
    if given.dtype.kind != "f":
        raise TypeError(f"mask must hold booleans or floats, got {given.dtype}; pass mask.astype(bool)")
    if np.isnan(given).any() or np.isposinf(given).any():
        raise ValueError("mask must be below infinity, got infinity or NaN; hide a key by minus infinity")
    return np.asarray(scores + shown)
