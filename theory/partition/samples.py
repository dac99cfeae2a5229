"""Sampled tables: rows of packed coalitions with their scores, and the design that drew them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of, probability

__all__ = ["DESIGNS", "SampledTable"]

DESIGNS = ("msr", "uniform", "shapley-size", "permutation", "unknown")


@dataclass(frozen=True, eq=False)
class SampledTable:
    """Coalitions drawn from a design, one a row, in packed bits.

    Parameters
    ----------
    n_players : int
        Number of players n >= 1.
    members : uint8 array, shape (m, ceil(n/8))
        Row r holds the coalition of evaluation r: player i is bit ``i % 8`` of byte ``i // 8``.
    scores : float64 array, shape (m,)
        Score of each row, finite.
    unit : int32 array, shape (m,)
        The independent unit a row belongs to: its own number, or the permutation whose prefix it is.
    design : {"msr", "uniform", "shapley-size", "permutation", "unknown"}
        Law of the coalitions. ``uniform``: every coalition equally likely. ``msr``: every player is in
        with the probability w of the weighted Banzhaf value. ``shapley-size``: size s with probability
        proportional to 1/(s(n-s)), then uniform. ``permutation``: all n+1 prefixes of uniform
        permutations, in order. ``unknown``: anything else.
    truncated : bool
        True if rows were left out or filled in (truncated Monte Carlo).
    score_range : (float, float) or None
        Interval that holds every possible score. Needed for a population slope bound.
    inclusion : float or None
        Probability w of the design ``msr``; needed for a population verdict under it.

    Notes
    -----
    Assumes that units are independent and identically distributed where the design is not
    ``unknown``. 10^4 players and 10^5 rows take 125 MB.

    References
    ----------
    Wang & Jia (2023), Data Banzhaf, section 4 (maximum sample reuse).

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.packbits(np.eye(3, dtype=bool), axis=1, bitorder="little")
    >>> SampledTable(3, rows, np.arange(3.0), np.arange(3, dtype=np.int32)).n_rows
    3
    """

    n_players: int
    members: NDArray[np.uint8]
    scores: NDArray[np.float64]
    unit: NDArray[np.int32]
    design: str = "unknown"
    truncated: bool = False
    score_range: tuple[float, float] | None = None
    inclusion: float | None = None

    def __post_init__(self) -> None:
        one_of("design", self.design, DESIGNS)
        width = (self.n_players + 7) // 8
        if self.members.shape != (len(self.scores), width):
            raise ValueError(
                f"members must have shape (rows, ceil(n/8)) = ({len(self.scores)}, {width}), "
                f"got {self.members.shape}; pack a bool matrix with from_samples"
            )
        if self.unit.shape != self.scores.shape:
            raise ValueError(f"unit must have one entry a row ({len(self.scores)}), got {self.unit.shape}")
        if self.inclusion is not None:
            probability("inclusion", self.inclusion, open=True)
        if self.score_range is not None:
            low, high = self.score_range
            if not low < high:
                raise ValueError(f"score_range must be (lo, hi) with lo < hi, got {self.score_range}")
            if len(self.scores) and (self.scores.min() < low or self.scores.max() > high):
                raise ValueError(
                    f"score_range {self.score_range} does not hold all scores; declare a wider one"
                )

    @property
    def n_rows(self) -> int:
        """Number of rows m."""
        return len(self.scores)

    @property
    def n_units(self) -> int:
        """Number of independent units."""
        return len(np.unique(self.unit))

    def dense(self) -> NDArray[np.bool_]:
        """Membership as a matrix; m*n bytes.

        Returns
        -------
        bool array, shape (m, n)
            Entry (r, i): row r holds player i.
        """
        bits = np.unpackbits(self.members, axis=1, count=self.n_players, bitorder="little")
        return bits.astype(bool)
