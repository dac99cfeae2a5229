"""Interval tables: what the free and the missing coalitions may score, as a lower and an upper table."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition._coalitions import coalition_name
from porism.theory.partition._values import missing_error
from porism.theory.partition.classes import SmallCoalitions
from porism.theory.partition.errors import MissingCoalitionsError, NotMonotoneError
from porism.theory.partition.semivalue import Semivalue
from porism.theory.partition.table import UtilityTable

__all__ = ["Boxes", "make_boxes", "sizes_of"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Boxes:
    """Bounds ``low <= v <= high`` of every coalition; ``base`` is the completion the decision is taken at.

    ``unknown`` marks coalitions that have one true, unknown score (missing), ``free`` those that may
    take any score in their bounds (small). Both masks are None in a plain table, where low is high.
    """

    base: Floats
    low: Floats
    high: Floats
    free: Mask | None = None
    unknown: Mask | None = None
    skip_below: int = 0  # coalitions smaller than this carry no weight (their utilities depend on size only)
    unbounded: bool = False

    @property
    def plain(self) -> bool:
        """True if every coalition has one known score."""
        return self.low is self.high

    def completed(self, row: tuple[int, int], n: int) -> Floats:
        """A completion that breaks a failing row: small coalitions the worst way, missing ones as ``base``.

        Worst is low for what helps the row, high for what hurts it, high for both players, low for neither.
        """
        masks = np.arange(self.low.size)
        a, b = ((masks >> player & 1).astype(bool) if player < n else None for player in row)
        hurts = b if b is not None else ~a  # type: ignore[operator]
        worst = np.where(hurts, self.high, self.low)
        return worst if self.unknown is None else np.where(self.unknown, self.base, worst)

    def favourable(self) -> "Boxes":
        """Missing coalitions pushed the good way, small ones still the bad way."""
        if self.unknown is None:
            return self
        low = np.where(self.unknown, self.high, self.low)
        high = np.where(self.unknown, self.low, self.high)
        return Boxes(self.base, low, high, self.free, self.unknown, self.skip_below, self.unbounded)


def sizes_of(n: int) -> NDArray[np.uint8]:
    """|S| of every mask."""
    return np.bitwise_count(np.arange(1 << n, dtype=np.uint32))


def make_boxes(table: UtilityTable, small: SmallCoalitions | None, missing: str, sv: Semivalue) -> Boxes:
    """Bounds of every coalition from what is known, what is small and what is missing (PR-12).

    Unbounded small coalitions of pair mass W get an interval so wide that even an affine transform fails;
    with W = 0 they carry no weight at all.
    """
    scores, n = table.scores, table.n_players
    absent = np.isnan(scores)
    if small is None and not absent.any():
        return Boxes(scores, scores, scores)
    if small is not None and small.below > n:
        raise ValueError(f"below must be in 1..n, got below={small.below}, n={n}")
    is_small = np.zeros(scores.size, bool) if small is None else sizes_of(n) < small.below
    unknown = absent & ~is_small
    if unknown.any() and missing == "raise":
        raise missing_error(np.flatnonzero(unknown), scores.size)
    if absent.all():
        raise MissingCoalitionsError("table holds no score at all; evaluate some coalitions first")
    floor, ceiling = float(np.nanmin(scores)), float(np.nanmax(scores))
    low, high = scores.copy(), scores.copy()
    low[unknown], high[unknown] = floor, ceiling
    known = ~unknown & ~is_small
    monotone_small = small is not None and small.values == "monotone"
    if (missing == "monotone" and unknown.any()) or monotone_small:
        below, above = _monotone_bounds(scores, known, n)
    if missing == "monotone" and unknown.any():
        low[unknown] = np.maximum(below[unknown], floor)
        high[unknown] = np.minimum(above[unknown], ceiling)
    skip, unbounded = 0, False
    if small is not None:
        lo, hi = small.bounds or (floor, ceiling)
        mass = _small_mass(sv, n, small.below)
        if small.values == "free" and mass > 0:
            reach = max(ceiling - floor, 1.0) * (1 + float(1 / mass))
            lo, hi, unbounded = floor - reach, ceiling + reach, True
        elif small.values in ("size-only", "free"):
            lo = hi = floor
            skip = small.below
        low[is_small], high[is_small] = lo, hi
        if monotone_small:
            high[is_small] = np.minimum(above[is_small], hi)
            if (high[is_small] < lo).any():
                mask = int(np.flatnonzero(is_small & (high < lo))[0])
                raise NotMonotoneError(
                    f"bounds: the floor {lo} of small coalitions is above the score of a superset of "
                    f"{coalition_name(mask)}; lower the floor"
                )
    base = np.where(absent, (low + high) / 2, scores)
    return Boxes(
        base,
        low,
        high,
        is_small if small is not None else None,
        unknown if unknown.any() else None,
        skip,
        unbounded,
    )


def _small_mass(sv: Semivalue, n: int, below: int) -> Fraction:
    """W_m: mass of a pair's coalitions of fewer than ``below`` players."""
    q = sv.exact_pair_weights(n)
    return sum((math.comb(n - 2, s - 1) * q[s] for s in range(1, min(below, n))), Fraction(0))


def _monotone_bounds(scores: Floats, known: Mask, n: int) -> tuple[Floats, Floats]:
    """Largest score of a known subset and least score of a known superset, itself included."""
    below = np.where(known, scores, -np.inf)
    above = np.where(known, scores, np.inf)
    for i in range(n):
        lower = below.reshape(-1, 2, 1 << i)
        np.maximum(lower[:, 1], lower[:, 0], out=lower[:, 1])
        upper = above.reshape(-1, 2, 1 << i)
        np.minimum(upper[:, 0], upper[:, 1], out=upper[:, 0])
    bad = np.flatnonzero(known & (below > scores))
    if bad.size:
        mask = int(bad[0])
        subset = mask
        while not (known[subset] and scores[subset] > scores[mask]):
            subset = (subset - 1) & mask
        raise NotMonotoneError(
            f"table must be monotone in inclusion: {coalition_name(subset)} scores {scores[subset]}, its "
            f"superset {coalition_name(mask)} only {scores[mask]}; use values='range' or missing='range'"
        )
    return below, above
