"""Rows of a recording: coalitions as integer masks, their scores, and the table made of them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from porism.theory.partition import UtilityTable

__all__ = ["build_table", "mask_of", "prefix_units"]

DENSE_PLAYERS = 24


def mask_of(players: Iterable[int]) -> int:
    """Bit mask of a coalition given by its players; a player named twice is refused."""
    mask = 0
    for player in players:
        bit = 1 << int(player)
        if mask & bit:
            raise ValueError(
                f"coalition must name a player once, got player {int(player)} twice: this is a multiset "
                "(a bootstrap sample?), and utility tables hold sets"
            )
        mask |= bit
    return mask


def prefix_units(masks: Sequence[int], n: int) -> tuple[NDArray[np.int32], bool]:
    """Number the permutations in a run of prefixes; True if each has all n+1 prefixes.

    A row continues its permutation if it adds one player to the row before, else a new one starts.
    """
    unit = np.zeros(len(masks), dtype=np.int32)
    whole = True
    current = -1
    previous = (1 << n) - 1
    for row, mask in enumerate(masks):
        if not (previous & mask == previous and (mask ^ previous).bit_count() == 1 and current >= 0):
            whole = whole and mask == 0 and previous == (1 << n) - 1
            current += 1
        unit[row] = current
        previous = mask
    return unit, whole and previous == (1 << n) - 1


def build_table(
    masks: Sequence[int],
    scores: Sequence[float],
    n: int,
    *,
    design: str | None,
    unit: NDArray[np.int32] | None = None,
    truncated: bool = False,
    score_range: tuple[float, float] | None = None,
    on_duplicate: str = "raise",
) -> "UtilityTable":
    """Dense table when ``design`` is None (n <= 24), sampled rows in the order given otherwise."""
    from porism.theory.partition import UtilityTable

    widest = max((mask.bit_length() for mask in masks), default=0)
    if widest > n:
        raise ValueError(f"n must be at least {widest}, got {n}: player {widest - 1} occurs in the recording")
    if design is None:
        if n > DENSE_PLAYERS:
            raise ValueError(
                f"design must be named for n > {DENSE_PLAYERS} players, got None with n={n}: say how the "
                "coalitions were drawn ('permutation', 'uniform', 'msr', 'shapley-size'), or 'unknown'"
            )
        bits = np.array(masks, dtype=np.uint64)
        return UtilityTable.from_pairs(bits, scores, n=n, on_duplicate=on_duplicate)
    width = (n + 7) // 8
    joined = b"".join(mask.to_bytes(width, "little") for mask in masks)
    packed = np.frombuffer(joined, dtype=np.uint8).reshape(-1, width)
    return UtilityTable.from_samples(
        packed, scores, n=n, design=design, unit=unit, truncated=truncated, score_range=score_range
    )
