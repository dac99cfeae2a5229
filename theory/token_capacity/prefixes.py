"""Ceiling on what causal hidden states can tell apart."""

from typing import Any

import numpy as np

from porism.checks import one_of
from porism.theory.token_capacity._arrays import integers, is_tensor, library_of, not_empty
from porism.theory.token_capacity._bins import ALIGNMENTS, Index, Mask, aligned, real_tokens

__all__ = ["prefix_count"]


def prefix_count(
    input_ids: Any, attention_mask: Any = None, *, align: str = "end", position_ids: Any = None
) -> Any:
    """Count the distinct visible prefixes at each aligned position.

    ``n_t = |{(ids and position ids up to t, padding left out)}|`` over the examples that have a token at t.

    Parameters
    ----------
    input_ids : array_like or tensor of int, shape (N, T)
        Token ids; padding is told from the mask alone, never from the ids.
    attention_mask : array_like or tensor, shape (N, T), optional
        Non-zero for real tokens; all are real by default.
    align : {"end", "start", "absolute"}
        Entry 0 is the last real token, the first one, or column 0.
    position_ids : array_like or tensor of int, shape (N, T), optional
        What the model takes as positions; counted from the first real token by default.

    Returns
    -------
    int64 array or tensor, shape (P,)
        Counts; P is the length of the longest row, T for "absolute". A tensor gives a tensor on its device.

    Raises
    ------
    TypeError
        If ids are not ints.
    ValueError
        If shapes do not fit, an axis is empty, or a row is all padding.

    Notes
    -----
    In a causal model the state at t is a function of the visible prefix, so the rank of its Gram matrix is at
    most n_t in every layer. Functions of prefixes are nested in t, over the examples that reach t; aligned at
    the end the counts themselves never fall toward the last token. The actual rank of a finite model need not
    be monotone. Cost O(N T log N).

    References
    ----------
    TC-5, a reconstruction.

    Examples
    --------
    >>> prefix_count([[7, 1, 0, 5], [7, 1, 0, 6], [7, 2, 0, 5], [7, 2, 0, 5]], align="absolute")
    array([1, 2, 2, 3])
    """
    one_of("align", align, ALIGNMENTS)
    ids = integers("input_ids", input_ids, 2)
    not_empty("input_ids", ids.shape, "N, T")
    mask = real_tokens(attention_mask, ids.shape)
    extra = None if position_ids is None else integers("position_ids", position_ids, 2)
    if extra is not None and extra.shape != ids.shape:
        raise ValueError(
            f"position_ids must have shape {ids.shape} as input_ids has, got {extra.shape}; pass one an id"
        )
    classes = _classes(ids, mask, extra)
    place = aligned(mask, align)
    length = ids.shape[1] if align == "absolute" else int(place.max()) + 1
    pairs = np.unique(np.stack([place[mask], classes[mask]]), axis=1)
    counts = np.bincount(pairs[0], minlength=length).astype(np.int64)
    if is_tensor(input_ids):
        return input_ids.new_tensor(counts, dtype=library_of(input_ids).int64)
    return counts


def _classes(ids: Index, mask: Mask, extra: Index | None) -> Index:
    """Number of the prefix that ends at each token; equal numbers mean equal prefixes."""
    place = aligned(mask, "start")
    classes = np.full(ids.shape, -1, dtype=np.int64)
    parent, used = np.zeros(len(ids), dtype=np.int64), 0
    for t in range(int(place.max()) + 1):
        rows, columns = np.nonzero(place == t)
        key = [parent[rows], ids[rows, columns]]
        if extra is not None:
            key.append(extra[rows, columns])
        _, number = np.unique(np.stack(key), axis=1, return_inverse=True)
        number = number.reshape(-1) + used
        classes[rows, columns] = parent[rows] = number
        used = int(number.max()) + 1
    return classes
