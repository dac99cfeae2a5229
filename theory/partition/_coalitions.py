"""Parsing of coalitions and scores at the public boundary."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism._files import check_size
from porism.checks import integer

__all__ = ["coalition_name", "masks_of", "members_of", "parse_coalitions", "round_scores", "score_array"]

LARGEST = 1e304  # differences and weighted sums of larger ones overflow


def members_of(mask: int) -> tuple[int, ...]:
    """Players of a coalition given as a bit mask.

    Parameters
    ----------
    mask : int
        Coalition, >= 0; player i is bit i.

    Returns
    -------
    tuple of int
        Its players in increasing order.

    Examples
    --------
    >>> members_of(0b1001)
    (0, 3)
    """
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def masks_of(members: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Bit masks of packed rows.

    Parameters
    ----------
    members : uint8 array, shape (m, ceil(n/8))
        Coalitions of at most 64 players, as in a :class:`SampledTable`.

    Returns
    -------
    uint64 array, shape (m,)
        Their masks; player i is bit i.

    Examples
    --------
    >>> masks_of(np.array([[9, 1]], np.uint8)).tolist()
    [265]
    """
    wide = np.zeros((len(members), 8), np.uint8)
    wide[:, : members.shape[1]] = members
    return wide.view("<u8")[:, 0].astype(np.uint64)


def coalition_name(coalition: int | NDArray[np.uint8]) -> str:
    """A coalition as people write it.

    Parameters
    ----------
    coalition : int or uint8 array, shape (ceil(n/8),)
        Bit mask, or packed row of a :class:`SampledTable`.

    Returns
    -------
    str
        Its players in braces.

    Examples
    --------
    >>> coalition_name(0b1001)
    '{0, 3}'
    """
    if not isinstance(coalition, int):
        coalition = int.from_bytes(coalition.tobytes(), "little")
    return "{" + ", ".join(map(str, members_of(coalition))) + "}"


def score_array(scores: ArrayLike) -> NDArray[np.float64]:
    """Scores as a new float64 array; refuses what is not a real number or would lose digits."""
    if isinstance(scores, Iterable) and not hasattr(scores, "__array__"):
        scores = list(scores)  # type: ignore[assignment]  # also views and generators
    try:
        array = np.asarray(scores)
    except ValueError:
        raise ValueError("scores must be one number a coalition, got rows of unequal length") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"scores must be real numbers, got dtype {array.dtype}; convert them to float64 first"
        )
    values = array.astype(np.float64)
    if array.dtype.kind in "iu" and ((array > 2**53) | (array < -(2**53))).any():
        raise ValueError(
            "scores: integers beyond 2**53 are not exact as float64; divide them by a common factor"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize > 8 and (values != array).any():
        raise ValueError(f"scores of dtype {array.dtype} do not fit float64; round them first")
    if (np.abs(values[np.isfinite(values)]) > LARGEST).any():
        raise ValueError(f"scores must be at most {LARGEST:g} in size; divide them by a constant")
    return values


def round_scores(values: NDArray[np.float64], decimals: int) -> NDArray[np.float64]:
    """Scores rounded to so many decimals, without negative zeros."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.round(values, decimals) + 0.0
    return np.where(np.isfinite(rounded), rounded, values)  # what overflows has no such decimals


def parse_coalitions(coalitions: Any, n: int | None) -> tuple[NDArray[np.uint8], int]:
    """Packed rows (m, ceil(n/8)) and n, from membership matrix, integer masks or lists of players."""
    if n is not None:
        n = integer("n", n, 1)
    if not isinstance(coalitions, Iterable):
        raise TypeError(f"coalitions must be a sequence of coalitions, got {type(coalitions).__name__}")
    if hasattr(coalitions, "__array__"):  # also a DataFrame, which iterates over its columns
        coalitions = np.asarray(coalitions)
    if isinstance(coalitions, np.ndarray) and coalitions.dtype != object:
        return _parse_matrix(coalitions, n) if coalitions.ndim == 2 else _parse_masks(coalitions, n)
    rows = list(coalitions)
    if rows and all(isinstance(row, int | np.integer) and not isinstance(row, bool) for row in rows):
        return _parse_masks(np.array(rows, dtype=object), n)
    return _parse_lists(rows, n)


def _parse_matrix(matrix: NDArray[Any], n: int | None) -> tuple[NDArray[np.uint8], int]:
    whole = matrix.dtype.kind in "iu" and matrix.size  # numbers, to be looked at
    if matrix.dtype.kind not in "biu" or (whole and not (0 <= matrix.min() <= matrix.max() <= 1)):
        raise TypeError(
            f"coalitions as a matrix must be bool or 0/1, got dtype {matrix.dtype}; "
            "give lists of players, a bool matrix (m, n) or integer masks (m,)"
        )
    if n is not None and matrix.shape[1] != n:
        raise ValueError(f"coalitions must have n={n} columns, got {matrix.shape[1]}")
    return np.packbits(matrix.astype(bool, copy=False), axis=1, bitorder="little"), matrix.shape[1]


def _parse_masks(masks: NDArray[Any], n: int | None) -> tuple[NDArray[np.uint8], int]:
    if masks.ndim != 1 or masks.dtype.kind not in "iuO":
        raise TypeError(
            f"coalitions as masks must be a vector of integers, got dtype {masks.dtype} and "
            f"shape {masks.shape}"
        )
    for row in np.flatnonzero(masks < 0):
        raise ValueError(f"coalitions: row {row} holds a negative mask {masks[row]}")
    top = int(masks.max()) if masks.size else 0
    if top >= 1 << 64:
        raise ValueError("coalitions: masks hold at most 64 players; give lists of players or a bool matrix")
    n = max(top.bit_length(), 1) if n is None else n
    if top.bit_length() > n:
        at = int(np.argmax(masks))
        raise ValueError(f"coalitions: row {at} holds player {top.bit_length() - 1}, but n={n}")
    _check_size(len(masks), n, len(masks))
    wide = masks.astype(np.uint64).astype("<u8")[:, None].view(np.uint8)
    packed = np.zeros((len(masks), (n + 7) // 8), np.uint8)
    packed[:, : min(8, packed.shape[1])] = wide[:, : packed.shape[1]]
    return packed, n


def _parse_lists(rows: list[Any], n: int | None) -> tuple[NDArray[np.uint8], int]:
    parsed: list[list[int]] = []
    for number, row in enumerate(rows):
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            raise TypeError(f"coalitions: row {number} must hold players as ints, got {row!r}")
        players = []
        for player in row:
            if isinstance(player, bool | np.bool_) or not isinstance(player, int | np.integer):
                raise TypeError(
                    f"coalitions: row {number} must hold players as ints, got {player!r} "
                    f"({type(player).__name__})"
                )
            players.append(int(player))
        if players and min(players) < 0:
            raise ValueError(
                f"coalitions: row {number} holds a negative player {min(players)}; players are 0..n-1"
            )
        if len(set(players)) < len(players):
            twice = next(p for p in players if players.count(p) > 1)
            raise ValueError(f"coalitions: row {number} holds player {twice} twice")
        if n is not None and players and max(players) >= n:
            raise ValueError(
                f"coalitions: row {number} holds player {max(players)}, but n={n}; players are 0..n-1"
            )
        parsed.append(players)
    if n is None and not parsed:
        raise ValueError("coalitions must hold at least one row, got none; an empty table needs n")
    if n is None:
        n = max((max(players) + 1 for players in parsed if players), default=1)
    _check_size(len(parsed), n, sum(map(len, parsed)))
    packed = np.zeros((len(parsed), (n + 7) // 8), np.uint8)
    for number, players in enumerate(parsed):
        for player in players:
            packed[number, player >> 3] |= 1 << (player & 7)
    return packed, n


def _check_size(rows: int, n: int, entries: int) -> None:
    """Refuse a table that one great player number, or a wrong n, would blow up."""
    check_size(f"coalitions: {rows} rows of n={n} players", rows * ((n + 7) // 8), 8 * entries)
