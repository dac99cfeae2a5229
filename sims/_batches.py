"""One batch taken apart: inputs, classes, and which token of each sample is the target."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.hooks import is_mapping, token_mask

__all__ = ["IGNORED", "POSITIONS", "Batch", "Position", "read_batch"]

POSITIONS = ("cls", "last", "mask")
IGNORED = -100
"""Label of samples that do not count."""

Ints = NDArray[np.int64]
Position = str | Callable[[Any], Any]


class Batch:
    """One batch: what the model takes, labels, which samples count, and where their targets are."""

    def __init__(self, inputs: Any, size: int, mask: Any) -> None:
        self.inputs, self.size, self.mask = inputs, size, mask
        self.y: Ints | None = None
        self.kept = np.ones(size, dtype=bool)
        self.first = 0  # number of the first sample among all
        self.index: Ints | None = None  # None: the first or last of whatever length a module sees
        self.rule: Position = "cls"

    def target(self, module: str, length: int) -> Ints:
        """Position of the target of each kept sample in an input of that many tokens."""
        self.fits(module, length)
        if self.index is None:
            at = np.zeros(self.size, dtype=np.int64) + (length - 1 if self.rule == "last" else 0)
        else:
            at = self.index
        at = at[self.kept]
        if at.size and int(at.max()) >= length:
            bad = int(np.flatnonzero(at >= length)[0])
            raise ValueError(
                f"position must be below {length}, the tokens that {module!r} sees, got {at[bad]} for row "
                f"{self.first + int(np.flatnonzero(self.kept)[bad])}; return -1 for rows to be left out"
            )
        return at

    def tokens(self, module: str, length: int) -> NDArray[np.bool_]:
        """Tokens of kept samples that are no padding, (B, length)."""
        self.fits(module, length)
        whole = np.ones((self.size, length), dtype=bool)
        if self.mask is not None and self.mask.shape[1] == length:
            whole &= self.mask
        return whole & self.kept[:, None]

    def fits(self, module: str, length: int) -> None:
        """A mask speaks of the tokens that the module sees, unless the caller says where to look."""
        if self.mask is not None and self.mask.shape[1] != length and not callable(self.rule):
            raise ValueError(
                f"module {module!r} sees {length} tokens, the batch's mask has {self.mask.shape[1]}; pass "
                "position=callable, which returns the target's place in what the module sees"
            )


def read_batch(
    batch: Any, position: Position, labels_key: str | None, mask_token_id: int | None, first: int
) -> Batch:
    """Take a batch apart and decide where its targets are."""
    inputs, labels = _parts(batch, labels_key)
    mask = token_mask(inputs)
    found = Batch(inputs, _size(inputs, mask), mask)
    found.first, found.rule = first, position
    if mask is not None and len(mask) != found.size:
        raise ValueError(f"attention_mask must have one row a sample, got {len(mask)} for {found.size}")
    found.y = _labels(labels, found.size)
    if found.y is not None:
        found.kept = found.y != IGNORED
    if callable(position):
        found.index = _chosen(position(inputs), found.size, first)
        found.kept &= found.index >= 0
    elif position == "mask":
        found.index = _mask_tokens(inputs, mask, found.kept, mask_token_id, first)
    elif mask is not None:
        empty = np.flatnonzero(found.kept & ~mask.any(axis=1))
        if empty.size:
            raise ValueError(f"row {first + int(empty[0])} has 0 tokens; at least one is required")
        ends = mask.argmax(axis=1) if position == "cls" else mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
        found.index = ends.astype(np.int64)
    return found


def _parts(batch: Any, labels_key: str | None) -> tuple[Any, Any]:
    if isinstance(batch, (tuple, list)):
        if len(batch) != 2:
            raise TypeError(
                f"a batch must be a mapping, a tensor or a pair (inputs, labels), got {len(batch)} parts"
            )
        inputs, labels = batch
        return (dict(inputs.items()) if is_mapping(inputs) else inputs), (labels if labels_key else None)
    if is_mapping(batch):
        inputs = dict(batch.items())
        return inputs, (inputs.pop(labels_key, None) if labels_key else None)
    if not hasattr(batch, "shape"):
        raise TypeError(
            f"a batch must be a mapping, a tensor or a pair (inputs, labels), got {type(batch).__name__}"
        )
    return batch, None


def _size(inputs: Any, mask: Any) -> int:
    if not is_mapping(inputs):
        return int(inputs.shape[0])
    for name in ("input_ids", "inputs_embeds", "x", "pixel_values"):
        if getattr(inputs.get(name), "ndim", 0):
            return int(inputs[name].shape[0])
    if mask is not None:
        return len(mask)
    for value in inputs.values():
        if getattr(value, "ndim", 0):
            return int(value.shape[0])
    raise ValueError(f"a batch must hold tensors, got keys {sorted(inputs)}; pass what the model takes")


def _labels(labels: Any, size: int) -> Ints | None:
    if labels is None:
        return None
    y = labels.detach().cpu() if hasattr(labels, "detach") else labels
    y = y.float() if str(getattr(y, "dtype", "")) == "torch.bfloat16" else y
    y = np.asarray(y)
    if y.dtype.kind not in "biu":
        raise TypeError(
            f"labels must be integer classes, got dtype {y.dtype}; number the classes, or leave labels "
            "out of the batch"
        )
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim > 1:  # one label a token: no class of the sample
        return None
    if y.shape != (size,):
        raise ValueError(f"labels must have one entry a sample, got {y.size} for {size} samples")
    return y.astype(np.int64)


def _chosen(index: Any, size: int, first: int) -> Ints:
    index = np.asarray(index.detach().cpu() if hasattr(index, "detach") else index)
    if index.dtype.kind not in "iu" or index.shape != (size,):
        raise ValueError(
            f"position must return one integer a sample, shape ({size},), got {index.dtype} of {index.shape}"
        )
    if (index < -1).any():
        bad = int(np.flatnonzero(index < -1)[0])
        raise ValueError(
            f"position must be >= 0, or -1 to leave a row out, got {index[bad]} for row {first + bad}"
        )
    return index.astype(np.int64)


def _mask_tokens(
    inputs: Any, mask: Any, kept: NDArray[np.bool_], mask_token_id: int | None, first: int
) -> Ints:
    if mask_token_id is None:
        raise ValueError("mask_token_id must be given with position='mask'; pass tokenizer.mask_token_id")
    ids = inputs.get("input_ids") if is_mapping(inputs) else inputs
    if ids is None or getattr(ids, "ndim", 0) != 2:
        raise ValueError("position='mask' needs input_ids of shape (B, T) in every batch; pass a callable")
    hits = np.asarray(ids.detach().cpu()) == mask_token_id
    if mask is not None:
        hits &= mask
    counts = hits.sum(axis=1)
    bad = np.flatnonzero(kept & (counts != 1))
    if bad.size:
        raise ValueError(
            f"row {first + int(bad[0])} has {counts[bad[0]]} mask tokens; exactly one is required"
        )
    return hits.argmax(axis=1).astype(np.int64)
