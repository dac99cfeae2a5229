"""Aligned positions and the bins that hold them."""

import numpy as np
from numpy.typing import NDArray

from porism._models import Mask, real_tokens

__all__ = ["ALIGNMENTS", "Index", "Mask", "aligned", "bin_of", "layout", "real_tokens", "starts"]

ALIGNMENTS = ("end", "start", "absolute")
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
