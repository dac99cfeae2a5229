"""Aligned positions and the bins that hold them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.token_capacity._arrays import is_tensor

ALIGNMENTS = ("end", "start", "absolute")
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]


def aligned(mask: Mask, align: str) -> Index:
    """Aligned position of each real token, -1 for padding."""
    if align == "absolute":
        place = np.broadcast_to(np.arange(mask.shape[1]), mask.shape)
    else:
        place = mask.cumsum(1) - 1
        if align == "end":
            place = mask.sum(1, keepdims=True) - 1 - place
    return np.where(mask, place, -1).astype(np.int64)


def starts(max_bins: int) -> Index:
    """First position of each bin once rows are longer than `max_bins`: single, then growing by 1.3."""
    edges, edge = list(range(max_bins // 2)), max_bins // 2
    while len(edges) < max_bins:
        edges.append(edge)
        edge = max(edge + 1, -(-13 * edge // 10))
    return np.array(edges, dtype=np.int64)


def layout(length: int, max_bins: int) -> Index:
    """First position of each bin that positions 0 ... length - 1 reach."""
    if length <= max_bins:
        return np.arange(length)
    edges = starts(max_bins)
    return edges[edges < length]


def bin_of(place: Index, edges: Index) -> Index:
    """Bin of each position."""
    return np.searchsorted(edges, place, side="right") - 1


def real_tokens(mask: Any, shape: tuple[int, ...]) -> Mask:
    """Checked mask of real tokens, shape (N, T)."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    found = np.asarray(mask.detach().cpu() if is_tensor(mask) else mask)
    if found.ndim > 2:
        raise NotImplementedError(
            f"attention_mask of {found.ndim} axes is not supported; pass the padding mask of shape {shape}"
        )
    if found.shape != tuple(shape):
        raise ValueError(f"attention_mask must have shape {shape}, got {found.shape}; pass one entry a token")
    real = found != 0
    empty = np.flatnonzero(~real.any(1))
    if empty.size:
        raise ValueError(f"row {int(empty[0])} is all padding; drop it or mark its real tokens")
    return real
