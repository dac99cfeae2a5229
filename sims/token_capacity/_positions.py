"""Selected positions: checked, and turned into what the two passes need."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from porism.checks import integer, require


@dataclass(frozen=True)
class Plan:
    """Indices of one forward pass; B rows, k slots, U frozen keys, T tokens."""

    positions: Any  # (B, k) long, -1 in unused slots
    valid: Any  # (B, k) bool
    gather: Any  # (B, k) long: what the replay reads, index 0 in unused slots
    frozen: Any  # (B, U) long
    frozen_valid: Any  # (B, U) bool
    real: Any  # (B, T) bool
    unpadded: bool  # all tokens are real
    prefix: int  # tokens that the recording pass must run; 0: nothing to record


def check_count(k: Any, length: int) -> int:
    """Accept a number of positions."""
    k = integer("k", k)
    if k < 1:
        raise ValueError(f"need at least one selected position, got k={k}; choose k in 1..{length}")
    if k > length:
        raise ValueError(f"k={k} exceeds sequence length T={length}; choose k in 1..{length}")
    return k


def real_tokens(attention_mask: Any) -> Any:
    """Accept a padding mask (B, T) of 0 and 1 with a real token in every row."""
    if attention_mask.ndim == 4:
        raise NotImplementedError(
            "4-D attention masks are not supported: masks are built from indices; pass a padding mask (B, T)"
        )
    if attention_mask.ndim != 2 or 0 in attention_mask.shape:
        raise ValueError(
            f"attention_mask must have shape (B, T) without empty axes, got {tuple(attention_mask.shape)}; "
            "pass the tokenizer's own"
        )
    mask = attention_mask != 0
    other = mask & (attention_mask != 1)
    if other.any():
        value = attention_mask[other][0].item()
        raise ValueError(
            f"attention_mask must hold 0 and 1, got {value}; sequence numbers of packed rows are not "
            "supported, unpack them"
        )
    empty = ~mask.any(1)
    if empty.any():
        row = int(empty.nonzero()[0, 0])
        raise ValueError(f"row {row} is all padding; drop rows without a real token")
    return mask


def parse(positions: Any, real: Any) -> Any:
    """The selected indices (B, k), -1 in unused slots, from an int, indices, or a boolean mask."""
    torch = require("torch", "torch")
    rows, length = real.shape
    if isinstance(positions, (bool, float)):
        raise TypeError(
            f"positions must be an int, indices (B, k) or a bool mask (B, T), got {type(positions).__name__} "
            f"{positions!r}; pass a whole number"
        )
    if not isinstance(positions, torch.Tensor):
        if not hasattr(positions, "__len__"):
            from porism.sims.token_capacity.selectors import select_last

            return select_last(real, check_count(integer("positions", positions), length))
        positions = _from_array(positions).to(real.device)
    if positions.device != real.device:
        raise ValueError(
            f"positions must be on the device of the inputs ({real.device}), got {positions.device}; "
            "move them"
        )
    if positions.numel() == 0:
        raise ValueError(
            f"need at least one selected position, got positions of shape {tuple(positions.shape)}"
        )
    if positions.ndim != 2 or positions.shape[0] != rows:
        raise ValueError(
            f"positions must have shape ({rows}, k), got {tuple(positions.shape)}; "
            "give a row of indices for each example"
        )
    if positions.dtype == torch.bool:
        positions = _from_mask(positions, length)
    if positions.dtype.is_floating_point or positions.dtype.is_complex:
        raise TypeError(f"positions must hold integers, got dtype {positions.dtype}; convert them to long")
    positions = positions.long()
    if positions.shape[1] > length:
        raise ValueError(
            f"k={positions.shape[1]} exceeds sequence length T={length}; choose k in 1..{length}"
        )
    _check_rows(positions, real)
    return positions


def _from_array(positions: Any) -> Any:
    """Anything that NumPy takes for an array, as a tensor with memory of its own."""
    torch = require("torch", "torch")
    try:
        found = np.array(positions)
    except ValueError:
        raise ValueError(
            "positions must have equally many entries in every row; fill short rows up with -1"
        ) from None
    if found.dtype.kind not in "biuf":
        raise TypeError(f"positions must hold integers, got dtype {found.dtype}; pass indices (B, k)")
    return torch.from_numpy(found)


def _from_mask(mask: Any, length: int) -> Any:
    """Indices of a boolean mask that selects the same number in every row."""
    if mask.shape[1] != length:
        raise ValueError(f"a bool mask of positions must have shape (B, {length}), got {tuple(mask.shape)}")
    counts = mask.sum(1)
    if (counts != counts[0]).any():
        row = int((counts != counts[0]).nonzero()[0, 0])
        raise ValueError(
            f"a bool mask must select the same number of positions in every row, got {int(counts[0])} in "
            f"row 0 and {int(counts[row])} in row {row}; pass indices (B, k) padded with -1"
        )
    if not counts[0]:
        raise ValueError("need at least one selected position, got a bool mask that selects none")
    return mask.nonzero()[:, 1].view(mask.shape[0], -1)


def _check_rows(positions: Any, real: Any) -> None:
    """Refuse what is out of range, double, all unused, or padding, and name the row."""
    length = real.shape[1]

    def refuse(bad: Any, rule: str) -> None:
        if bad.any():
            row = int(bad.nonzero()[0, 0])
            raise ValueError(f"positions {rule}, got row {row}: {positions[row].tolist()}")

    used = positions != -1
    refuse((positions >= length) | (positions < -1), f"must be in 0..{length - 1} (or -1 for an unused slot)")
    refuse(~used.any(1), "must select at least one token in every row")
    ordered = positions.sort(1).values
    refuse((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != -1), "must not repeat an index in a row")
    refuse(
        used & ~real.gather(1, positions.clamp(min=0)), "must not select padding (use -1 for unused slots)"
    )


def plan(positions: Any, real: Any, causal: bool) -> Plan:
    """Split the real tokens into selected and frozen ones."""
    torch = require("torch", "torch")
    length = real.shape[1]
    valid = positions != -1
    gather = positions.clamp(min=0)
    rest = real.clone()
    rows = torch.arange(real.shape[0], device=real.device)[:, None].expand_as(positions)
    rest[rows[valid], positions[valid]] = False
    if causal:  # what comes after the last selected token of a row is never read
        rest &= torch.arange(length, device=real.device) < positions.max(1).values[:, None]
    count = int(rest.sum(1).max())
    # padding is never a key, so only real tokens are kept; every unselected one is, whatever the slots hold
    frozen = (~rest).long().argsort(dim=1, stable=True)[:, :count]
    frozen_valid = rest.gather(1, frozen)
    prefix = length if count else 0
    if causal and count:
        prefix = int(frozen[frozen_valid].max()) + 1  # a suffix leaves T - k tokens to run
    return Plan(positions, valid, gather, frozen, frozen_valid, real, bool(real.all()), prefix)
