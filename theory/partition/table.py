"""Utility tables: the scores of coalitions, dense over all 2^n or as sampled rows."""

import hashlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import integer, one_of
from porism.theory.partition._coalitions import (
    coalition_name,
    masks_of,
    members_of,
    parse_coalitions,
    round_scores,
    score_array,
)
from porism.theory.partition.errors import (
    DuplicateCoalitionError,
    MissingCoalitionsError,
    TooManyPlayersError,
)
from porism.theory.partition.samples import SampledTable

__all__ = ["MAX_PLAYERS", "UtilityTable"]

MAX_PLAYERS = 24
HARD_LIMIT = 30


class UtilityTable:
    """Scores v(S) of the coalitions S of n players.

    The exact layout is ``scores[mask]`` with player i at bit i of the mask, NaN where a coalition was
    not evaluated; tables of more players hold only sampled rows. Make one with :meth:`from_array`,
    :meth:`from_pairs`, :meth:`from_samples` or :meth:`load`; a table never changes afterwards.

    Parameters
    ----------
    n_players : int
        Number of players n >= 1.
    scores : float64 array, shape (2**n,), or None
        Dense scores in mask order, or None when only rows are held.
    sampled : SampledTable or None
        The rows as they came, duplicates included.

    Notes
    -----
    Memory: 8 * 2^n bytes dense (128 MiB at n = 24). Complete tables assume a deterministic utility.

    Examples
    --------
    >>> UtilityTable.from_array([0, 1, 3, 4])
    UtilityTable(n_players=2, coalitions=4 of 4)
    >>> UtilityTable.from_pairs([[], [0], [0, 1]], [0.0, 1.0, 4.0]).missing()
    [(1,)]
    """

    __slots__ = ("_scores", "n_players", "sampled")

    n_players: int
    sampled: SampledTable | None

    def __init__(
        self, n_players: int, scores: NDArray[np.float64] | None, sampled: SampledTable | None = None
    ) -> None:
        self.n_players = n_players
        self.sampled = sampled
        if scores is not None:
            scores.setflags(write=False)
        self._scores = scores

    def __reduce__(self) -> tuple[Any, ...]:
        return UtilityTable, (self.n_players, self._scores, self.sampled)  # pickling forgets "read-only"

    @classmethod
    def from_array(cls, scores: ArrayLike, *, max_players: int = MAX_PLAYERS) -> "UtilityTable":
        """Table of all 2^n coalitions in mask order (player i is bit i of the index).

        Parameters
        ----------
        scores : array, shape (2**n,)
            Finite scores; integers and float32 are upcast exactly. Copied.
        max_players : int
            Largest n accepted without being asked for; at most 30.

        Returns
        -------
        UtilityTable
            A complete table.

        Raises
        ------
        ValueError
            If the length is no power of two or a score is not finite.
        TypeError
            If the scores are not real numbers.
        TooManyPlayersError
            If n > max_players; the message says how many bytes the exact work needs.

        Examples
        --------
        >>> UtilityTable.from_array([0, 1, 3, 4]).is_complete
        True
        """
        values = score_array(scores)
        n = values.size.bit_length() - 1
        if values.ndim != 1 or n < 1 or values.size != 1 << n:
            raise ValueError(
                f"scores: expected 2**n scores with n >= 1, got shape {values.shape}; see from_pairs"
            )
        _check_size(n, max_players)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"scores: score of coalition {coalition_name(int(bad[0]))} is {values[bad[0]]}; "
                "give a finite score, or leave the coalition out with from_pairs"
            )
        return cls(n, values)

    @classmethod
    def from_pairs(
        cls,
        coalitions: Iterable[Any],
        scores: ArrayLike,
        n: int | None = None,
        on_duplicate: str = "raise",
        *,
        max_players: int = MAX_PLAYERS,
    ) -> "UtilityTable":
        """Table from coalitions and their scores, in any order, complete or not.

        Parameters
        ----------
        coalitions : sequence of iterables of int, bool array (m, n), or integer masks (m,)
            Coalition of each row; players are 0..n-1.
        scores : array, shape (m,)
            Finite score of each row.
        n : int, optional
            Number of players; default: one more than the largest player that occurs, or the columns.
        on_duplicate : {"raise", "mean", "first"}
            What to do when one coalition comes with different scores. The sampled view keeps all rows.
        max_players : int
            Up to this n the dense table is made; above it only the sampled rows are kept.

        Returns
        -------
        UtilityTable
            The table, with the rows as given under ``sampled`` (design "unknown").

        Raises
        ------
        DuplicateCoalitionError
            If a coalition has two different scores and ``on_duplicate="raise"``.
        TypeError, ValueError
            If a player or a score is no such thing; the message names the row.

        Examples
        --------
        >>> UtilityTable.from_pairs([[0], [1], [0, 1], []], [1, 3, 4, 0]).scores.tolist()
        [0.0, 1.0, 3.0, 4.0]
        """
        one_of("on_duplicate", on_duplicate, ("raise", "mean", "first"))
        max_players = min(integer("max_players", max_players, 1), HARD_LIMIT)
        values = _vector(scores)
        packed, n = parse_coalitions(coalitions, n)
        if len(packed) != len(values):
            raise ValueError(f"scores must have one entry a coalition ({len(packed)}), got {len(values)}")
        _check_finite(values, packed)
        rows = SampledTable(n, packed, values, np.arange(len(values), dtype=np.int32))
        if n > max_players:
            return cls(n, None, rows)
        return cls(n, _dense(masks_of(packed).astype(np.int64), values, n, on_duplicate), rows)

    @classmethod
    def from_samples(
        cls,
        members: ArrayLike,
        scores: ArrayLike,
        *,
        n: int | None = None,
        design: str = "unknown",
        unit: ArrayLike | None = None,
        truncated: bool = False,
        score_range: tuple[float, float] | None = None,
        inclusion: float | None = None,
    ) -> "UtilityTable":
        """Table of sampled rows for ``target="estimate"`` and ``target="population"``.

        Parameters
        ----------
        members : bool array (m, n), or packed uint8 array (m, ceil(n/8)) together with ``n``
            Coalition of each row; packed bits are little-endian (``np.packbits(..., bitorder="little")``).
        scores : array, shape (m,)
            Finite score of each row.
        n : int, optional
            Number of players; needed for packed members.
        design, unit, truncated, score_range, inclusion
            See :class:`SampledTable`; ``unit`` defaults to one unit a row.

        Returns
        -------
        UtilityTable
            A table without dense scores.

        Raises
        ------
        ValueError, TypeError
            If shapes, design or scores are wrong.

        Examples
        --------
        >>> UtilityTable.from_samples([[True, False], [False, True]], [1.0, 2.0]).sampled.n_rows
        2
        """
        try:
            array = np.asarray(members)
        except ValueError:
            raise ValueError(
                "members must be a bool matrix (m, n), got rows of unequal length; lists of players go with "
                "from_pairs"
            ) from None
        n = None if n is None else integer("n", n, 1)
        packs = array.dtype == np.uint8 and array.ndim == 2
        if n is not None and packs and array.shape[1] == (n + 7) // 8 < n:
            packed = np.ascontiguousarray(array)
            stray = np.flatnonzero(packed[:, -1] >> n % 8 if n % 8 else 0)
            if stray.size:
                raise ValueError(
                    f"members: row {stray[0]} has bits beyond n={n} players; packed bits are little-endian"
                )
        else:
            packed, n = parse_coalitions(array, n)
        values = _vector(scores)
        _check_finite(values, packed)
        units = np.arange(len(values)) if unit is None else np.asarray(unit)
        if units.dtype.kind not in "iu" or (units.size and max(-units.min(), units.max()) >= 2**31):
            raise ValueError(f"unit must hold integers below 2**31, one a row, got dtype {units.dtype}")
        number = units.astype(np.int32)
        return cls(
            n, None, SampledTable(n, packed, values, number, design, truncated, score_range, inclusion)
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> "UtilityTable":
        """Read a table from .npz, .csv, .parquet or .json.

        Parameters
        ----------
        path : str or path
            File to read; its ending names the format.
        **options
            ``n``, ``masks`` (coalitions are integer masks), ``on_duplicate``, ``max_players``.

        Returns
        -------
        UtilityTable
            The table.

        Raises
        ------
        ValueError
            If the file does not hold a table; the message names the key, column or row.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
        >>> UtilityTable.from_array([0, 1, 3, 4]).save(file)
        >>> UtilityTable.load(file).scores.tolist()
        [0.0, 1.0, 3.0, 4.0]
        """
        from porism.theory.partition._files import read_table

        return read_table(path, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to .npz, .csv, .parquet or .json, through a temporary file.

        Parameters
        ----------
        path : str or path
            File to write; an interrupted write leaves an existing file as it was.

        Raises
        ------
        ValueError
            If the ending is none of the four.
        """
        from porism.theory.partition._files import write_table

        write_table(self, path)

    @property
    def scores(self) -> NDArray[np.float64]:
        """Dense scores in mask order, shape (2**n,), read-only, NaN where missing."""
        if self._scores is None:
            if self.n_players > MAX_PLAYERS:
                raise TooManyPlayersError(_too_many(self.n_players, MAX_PLAYERS))
            raise MissingCoalitionsError(
                "table holds sampled rows, not the scores of all coalitions; use target='estimate', or make "
                "it with from_pairs and use missing='range'"
            )
        return self._scores

    @property
    def is_dense(self) -> bool:
        """True if the table has one slot for each of the 2^n coalitions."""
        return self._scores is not None

    @property
    def is_complete(self) -> bool:
        """True if every one of the 2^n coalitions has a score."""
        return self._scores is not None and not bool(np.isnan(self._scores).any())

    def missing(self, limit: int | None = 10) -> list[tuple[int, ...]]:
        """Coalitions without a score.

        Parameters
        ----------
        limit : int or None
            How many at most, >= 0; None lists all.

        Returns
        -------
        list of tuple of int
            Players of each, in mask order.
        """
        stop = None if limit is None else integer("limit", limit, 0)
        return [members_of(int(mask)) for mask in np.flatnonzero(np.isnan(self.scores))[:stop]]

    def levels(self, decimals: int | None = None) -> NDArray[np.float64]:
        """Distinct scores in increasing order.

        Parameters
        ----------
        decimals : int, optional
            Round to so many decimals first.

        Returns
        -------
        float64 array
            The levels sigma_0 < sigma_1 < ... .
        """
        values = self.scores if self._scores is not None else self.sampled.scores  # type: ignore[union-attr]
        values = values[~np.isnan(values)]
        return np.unique(values if decimals is None else round_scores(values, integer("decimals", decimals)))

    def rounded(self, decimals: int | None) -> "UtilityTable":
        """The same table with rounded scores.

        Parameters
        ----------
        decimals : int or None
            Decimals to keep; None returns the table itself.

        Returns
        -------
        UtilityTable
            The rounded table.
        """
        if decimals is None:
            return self
        return UtilityTable(self.n_players, round_scores(self.scores, integer("decimals", decimals)))

    @property
    def sha256(self) -> str:
        """SHA-256 of the little-endian float64 scores in mask order (of rows and scores when sampled)."""
        digest = hashlib.sha256()
        if self._scores is not None:
            canonical = np.where(np.isnan(self._scores), np.nan, self._scores + 0.0)
            digest.update(canonical.astype("<f8").tobytes())
        elif self.sampled is not None:
            digest.update(self.sampled.members.tobytes() + self.sampled.scores.astype("<f8").tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        if self._scores is None:
            rows = 0 if self.sampled is None else self.sampled.n_rows
            return f"UtilityTable(n_players={self.n_players}, rows={rows})"
        known = self._scores.size - int(np.isnan(self._scores).sum())
        return f"UtilityTable(n_players={self.n_players}, coalitions={known} of {self._scores.size})"


def _dense(
    masks: NDArray[np.int64], values: NDArray[np.float64], n: int, on_duplicate: str
) -> NDArray[np.float64]:
    scores = np.full(1 << n, np.nan)
    scores[masks[::-1]] = values[::-1]  # the first of a coalition's rows wins
    conflict = np.flatnonzero(scores[masks] != values)
    if conflict.size and on_duplicate == "raise":
        row = conflict[0]
        raise DuplicateCoalitionError(
            f"coalition {coalition_name(int(masks[row]))} has two scores, {scores[masks[row]]} and "
            f"{values[row]} (row {row}); set on_duplicate='mean' or 'first'"
        )
    if conflict.size and on_duplicate == "mean":
        rank = np.lexsort((values, masks))  # sums that do not depend on the order of the rows
        count = np.bincount(masks, minlength=1 << n)
        total = np.bincount(masks[rank], values[rank], minlength=1 << n)
        again = np.unique(masks[conflict])
        scores[again] = total[again] / count[again]
    return scores


def _vector(scores: ArrayLike) -> NDArray[np.float64]:
    values = score_array(scores)
    if values.ndim != 1:
        raise ValueError(f"scores must have one entry a coalition, got shape {values.shape}; flatten them")
    return values


def _check_finite(values: NDArray[np.float64], packed: NDArray[np.uint8]) -> None:
    for row in np.flatnonzero(~np.isfinite(values)):
        name = coalition_name(packed[row]) if row < len(packed) else "?"
        raise ValueError(
            f"scores: score of coalition {name} is {values[row]} (row {row}); give a finite score or leave "
            "the row out"
        )


def _check_size(n: int, max_players: int) -> None:
    if n > min(integer("max_players", max_players, 1), HARD_LIMIT):
        raise TooManyPlayersError(_too_many(n, max_players))


def _too_many(n: int, limit: int) -> str:
    need = 24 << n if n <= 60 else float("inf")
    size = f"{need} bytes ({need / 2**30:.1f} GiB)" if n <= 60 else f"24 * 2**{n} bytes"
    more = f", or pass max_players={n} if the memory is there" if n <= HARD_LIMIT else ""
    return (
        f"n_players must be at most {limit if more else HARD_LIMIT} for an exact certificate, got {n}: "
        f"scores, order and sorted scores of 2**{n} coalitions need {size}; sample coalitions and use "
        f"target='estimate'{more}"
    )
