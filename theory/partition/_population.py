"""Certificates of the population behind a sample: uniform bands and the three-valued verdict."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition._estimators import FITTING, design_fits, estimate_values, permutation_moves
from porism.theory.partition._partitions import partition
from porism.theory.partition.bands import pair_radius, permutation_radius, player_radius
from porism.theory.partition.certificate import Certificate
from porism.theory.partition.classes import MonotoneClass
from porism.theory.partition.decisions import Decision, OrderedPartition, TopK
from porism.theory.partition.samples import SampledTable
from porism.theory.partition.semivalue import Semivalue

__all__ = ["certify_population"]

PAIR_LIMIT = 50_000_000
Floats = NDArray[np.float64]


def _omega(rows: SampledTable, sv: Semivalue) -> float:
    """Constant q_|S| / Pr(S) of a design that fits the semivalue, or an error."""
    if rows.design == "unknown" or rows.truncated:
        raise ValueError(
            f"target='population' needs an i.i.d. design, got design={rows.design!r}, "
            f"truncated={rows.truncated}; use target='estimate'"
        )
    if rows.design != "permutation" and rows.n_units < rows.n_rows:
        raise ValueError(
            f"unit must differ from row to row for design={rows.design!r}, got {rows.n_units} units of "
            f"{rows.n_rows} rows; rows of one unit are not independent, use target='estimate'"
        )
    if not design_fits(rows, sv):
        raise ValueError(
            f"target='population' needs a design that samples the semivalue: {rows.design!r} does not "
            f"fit {sv}: {FITTING}"
        )
    if rows.design in ("uniform", "msr"):
        w = sv.parameters[0] if sv.family == "wbanzhaf" else Fraction(1, 2)
        return float(1 / (w * (1 - w)))
    return 2 * math.fsum(1 / s for s in range(1, rows.n_players))


def certify_population(
    rows: SampledTable,
    sv: Semivalue,
    decision: Decision,
    transforms: MonotoneClass,
    ties: str,
    delta: float,
    epsilon: float,
    assumptions: dict[str, Any],
    sha: str,
) -> Certificate:
    """Three-valued verdict on the population, with probability at least 1 - delta (PR-18, PR-19)."""
    omega = _omega(rows, sv)
    if not isinstance(decision, TopK | OrderedPartition) or transforms.shape != "increasing":
        raise ValueError(
            "target='population' supports TopK and OrderedPartition with shape='increasing'; use "
            "target='estimate'"
        )
    kappa = transforms.max_slope_ratio
    if math.isfinite(kappa) and rows.score_range is None:
        raise ValueError(
            "max_slope_ratio with target='population' needs the declared score_range of the sampled table "
            "(from_samples(..., score_range=(lo, hi)))"
        )
    values = estimate_values(rows, assumptions["estimator"])
    part = partition(decision, [Fraction(float(v)) for v in values], ties)
    order = np.argsort(rows.scores, kind="stable")[::-1]
    scores = rows.scores[order]
    ends = np.append(np.flatnonzero(scores[1:] != scores[:-1]), scores.size - 1)
    curves = _Curves(rows, order, ends, omega, delta, len(part.rows))
    lower, upper, point, worst, radius_at = math.inf, math.inf, 0.0, 0, 0.0
    level, robust_kappa, broken_kappa = float(scores[0]), True, False
    for r, (i, j) in enumerate(part.rows):
        d, rad = curves.pair(i, j)
        low = min(float(d.min()), 0.0) - rad  # empty tails count as no difference (PR-16)
        if low < lower:
            lower, radius_at = low, rad
        at = int(np.argmin(d))
        point = min(point, float(d[at]))
        if d[at] + rad < upper:
            upper, worst, level = float(d[at]) + rad, r, float(scores[ends[at]])
        if math.isfinite(kappa):
            good, bad = _integrals(d - rad, scores[ends], rows.score_range, -rad)
            robust_kappa &= good > kappa * bad
            good, bad = _integrals(d + rad, scores[ends], rows.score_range, rad)
            broken_kappa |= good < kappa * bad
    robust, broken = (robust_kappa, broken_kappa) if math.isfinite(kappa) else (lower >= -epsilon, upper < 0)
    gap = abs(point + epsilon)
    needed = (
        None if gap == 0 or not math.isfinite(radius_at) else math.ceil(rows.n_units * (radius_at / gap) ** 2)
    )
    statistics = {
        "m": rows.n_units,
        "delta": delta,
        "epsilon": epsilon,
        "radius": radius_at,
        "lower": lower,
        "upper": upper,
        "samples_needed": needed,
        "band": curves.kind,
    }
    return Certificate(
        verdict="robust" if robust else "not_robust" if broken else "undecided",
        strict=False,
        decision=decision,
        members=part.blocks[0],
        blocks=part.blocks,
        semivalues=tuple(map(float, values)),
        base_gap=float(min(part.gaps)),
        level_margin=None,
        level=level,
        pair=part.pair(worst),
        slope_radius=None,
        slope_pair=None,
        score_margin=None,
        permanent_ties=(),
        witness=None,
        assumptions=assumptions,
        statistics=statistics,
        table_sha256=sha,
    )


class _Curves:
    """Estimated level differences of a pair at every level, with the band that fits design and size."""

    def __init__(
        self,
        rows: SampledTable,
        order: NDArray[np.int64],
        ends: NDArray[np.int64],
        omega: float,
        delta: float,
        pairs: int,
    ) -> None:
        self.rows, self.ends, n, m = rows, ends, rows.n_players, rows.n_units
        self.delta, self.scale = delta, omega / m
        if rows.design == "permutation":
            gain, loss = (moves[order] for moves in permutation_moves(rows))
            self.kind, self.moves, self.radius = (
                "permutation",
                (gain, loss),
                2 * permutation_radius(n, delta, m),
            )
            return
        self.members = rows.members[order]
        self.kind = "pair" if pairs * m <= PAIR_LIMIT else "player"
        self.radius = 2 * player_radius(n, delta, m, omega)

    def pair(self, i: int, j: int) -> tuple[Floats, float]:
        if self.kind == "permutation":
            gain, loss = self.moves
            step = (gain == i).astype(np.int64) - (loss == i) - (gain == j) + (loss == j)
            return np.cumsum(step)[self.ends] / self.rows.n_units, self.radius
        a, b = ((self.members[:, p >> 3] >> (p & 7) & 1).astype(bool) for p in (i, j))
        only = (np.cumsum(a & ~b), np.cumsum(b & ~a))
        if self.kind == "player":
            return (only[0] - only[1])[self.ends] * self.scale, self.radius
        counts = int(only[0][-1]), int(only[1][-1])
        d = only[0][self.ends] / max(counts[0], 1) - only[1][self.ends] / max(counts[1], 1)
        return d, pair_radius(self.rows.n_players, self.delta, *counts)


def _integrals(
    x: Floats, levels: Floats, span: tuple[float, float] | None, empty: float
) -> tuple[float, float]:
    """Positive and negative part of the integral of a step curve over the declared range."""
    low, high = span  # type: ignore[misc]
    gaps = np.append(levels[:-1] - levels[1:], levels[-1] - low)
    x, gaps = np.append(x, empty), np.append(gaps, high - levels[0])
    return float(np.sum(gaps * np.maximum(x, 0))), float(np.sum(gaps * np.maximum(-x, 0)))
