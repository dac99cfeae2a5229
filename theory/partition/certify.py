"""The front door: certify that a decision holds for every utility of a class."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of, probability
from porism.errors import NumericalWarning
from porism.theory.partition.boxes import Boxes, make_boxes
from porism.theory.partition.certificate import Certificate
from porism.theory.partition.classes import MonotoneClass, SmallCoalitions
from porism.theory.partition.decisions import (
    Decision,
    OrderedPartition,
    Partition,
    Sign,
    Threshold,
    TopK,
    partition,
)
from porism.theory.partition.errors import DegenerateUtilityError
from porism.theory.partition.judge import Judgement, float_radius, judge
from porism.theory.partition.levels import Levels, make_program
from porism.theory.partition.semivalue import Semivalue, exact_semivalues
from porism.theory.partition.table import UtilityTable
from porism.theory.partition.witness import make_witness

__all__ = ["certify_partition", "robust_ks", "value_intervals"]

INCREASING = MonotoneClass()


def certify_partition(
    table: UtilityTable,
    sv: Semivalue,
    decision: Decision,
    *,
    transforms: MonotoneClass = INCREASING,
    small: SmallCoalitions | None = None,
    missing: str = "raise",
    ties: str = "raise",
    strict: str = "increasing",
    target: str = "exact",
    delta: float = 0.05,
    epsilon: float = 0.0,
    estimator: str | NDArray[np.float64] = "auto",
    radii: Sequence[str] = ("slope", "score"),
    device: str = "cpu",
) -> Certificate:
    """Certify a decision drawn from semivalues against every utility of an admissible class.

    A decision is robust to all strictly increasing transforms of the score if and only if it holds in
    every level game 1[v >= s_l]: ``D_l(i, j) >= 0`` for each level and each pair across the boundary,
    where ``D_l(i, j) = Pr[v(S+i) >= s_l] - Pr[v(S+j) >= s_l]`` over S of mass q_{|S|+1}. All verdicts
    come from integers and rationals.

    Parameters
    ----------
    table : UtilityTable
        Scores of coalitions.
    sv : Semivalue
        Semivalue the decision is taken with.
    decision : TopK, OrderedPartition, Sign, Threshold or RelativeThreshold
        The decision.
    transforms : MonotoneClass
        Admissible transforms of the score.
    small : SmallCoalitions, optional
        What small coalitions may do besides.
    missing : {"raise", "range", "monotone"}
        What a coalition without a score may have scored: refuse, anything in the range of the scores
        present, or anything between its known subsets and supersets.
    ties : {"raise", "weak"}
        A tie across the boundary raises, or is certified weakly; TopK then fills up by smallest index.
    strict : {"increasing", "weakly-increasing"}
        Class for which ``strict`` is reported (the second is almost never true, PR-4b).
    target : {"exact", "estimate", "population"}
        Certify the table, the partition estimated from sampled rows, or the population behind them.
    delta : float in (0, 1)
        Error probability of a population verdict.
    epsilon : float >= 0
        Population only: tolerated level difference.
    estimator : {"auto", "msr", "permutation", "stratified"} or float64 array, shape (n, m)
        Estimate only: the linear estimator, by name or as a matrix over the sampled rows.
    radii : sequence of {"slope", "score"}
        Radii to report. The score radius costs O(2^n) a pair; the slope radius comes with the verdict.
    device : {"cpu", "cuda"}
        Where the margin of a plain top-k certificate is swept; the result is the same bit for bit.

    Returns
    -------
    Certificate
        Verdict, margins, radii, witness and assumptions.

    Raises
    ------
    MissingCoalitionsError, BoundaryTieError, DegenerateUtilityError, NotMonotoneError, TooManyPlayersError
        If the table does not admit the question; the message says the way out.
    ValueError, TypeError
        If an argument is out of its range.

    Warns
    -----
    NumericalWarning
        If two levels differ by less than 1e-12 of the range: rounding noise splits levels and can only
        cause a false "not_robust" (PR-21); pass ``MonotoneClass(decimals=...)``.

    Notes
    -----
    Time O(n 2^n + L k(n-k)) for L levels, memory about 24 * 2^n bytes. Assumes exact scores; for noisy
    scores see ``score_margin``.

    References
    ----------
    PR-1 to PR-21, reconstruction from the abstract of the partition-robustness paper; Lucchetti, Moretti
    & Patrone (ranking sets of interacting objects via semivalues) for the alignment criterion.

    Examples
    --------
    >>> t = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
    >>> c = certify_partition(t, Semivalue.shapley(), TopK(1))
    >>> c.verdict, c.level_margin, c.level, c.pair, round(c.slope_radius, 4)
    ('not_robust', Fraction(-1, 2), 10.0, (0, 1), 1.6667)
    """
    for name, value, kind in (
        ("table", table, UtilityTable),
        ("sv", sv, Semivalue),
        ("transforms", transforms, MonotoneClass),
        ("small", small, SmallCoalitions | None),
    ):
        if not isinstance(value, kind):
            wanted = getattr(kind, "__name__", "SmallCoalitions or None")
            raise TypeError(f"{name} must be a {wanted}, got {type(value).__name__}")
    one_of("missing", missing, ("raise", "range", "monotone"))
    one_of("ties", ties, ("raise", "weak"))
    one_of("strict", strict, ("increasing", "weakly-increasing"))
    one_of("target", target, ("exact", "estimate", "population"))
    one_of("device", device, ("cpu", "cuda"))
    for radius in radii:
        one_of("radii", radius, ("slope", "score"))
    probability("delta", delta, open=True)
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon}")
    if isinstance(decision, Threshold) and decision.tau and not transforms.range_normalised:
        raise ValueError(
            f"tau={float(decision.tau):g} is not scale-free: phi may multiply all scores; use tau=0, "
            "RelativeThreshold, or MonotoneClass(range_normalised=True)"
        )
    if target != "exact":
        from porism.theory.partition.sampled import certify_sampled

        return certify_sampled(
            table, sv, decision, transforms, small, ties, target, delta, epsilon, estimator
        )
    return _Exact(table, sv, decision, transforms, small, missing, ties, strict).run(radii, device)


class _Exact:
    """One exact certification: base partition, boxes, levels, judgement, witness."""

    def __init__(
        self,
        table: UtilityTable,
        sv: Semivalue,
        decision: Decision,
        transforms: MonotoneClass,
        small: SmallCoalitions | None,
        missing: str,
        ties: str,
        strict: str,
    ) -> None:
        self.table, self.sv, self.decision, self.transforms, self.strict = (
            table,
            sv,
            decision,
            transforms,
            strict,
        )
        self.n = table.n_players
        rounded = table.rounded(transforms.decimals)
        self.boxes = make_boxes(rounded, small, missing, sv)
        if not self.boxes.plain:
            _check_boxed(decision, small, missing, self.boxes)
        self.assumptions = {
            "class": transforms.describe(),
            "small": None if small is None else small.describe(),
            "missing": missing,
            "completion": None if not np.isnan(table.scores).any() else "midpoint",
            "target": "exact",
            "ties": ties,
            "strict": strict,
            "decimals": transforms.decimals,
            "semivalue": str(sv),
        }
        lowest = min(float(self.boxes.low.min()), float(self.boxes.base.min()))
        if lowest == float(self.boxes.high.max()):
            raise DegenerateUtilityError(
                "table holds a constant utility: every partition is a tie; check the scorer"
            )
        self.values = exact_semivalues(self.boxes.base, sv, self.n)
        self.part = partition(decision, self.values, ties)
        span = Fraction(float(self.boxes.high.max())) - Fraction(float(self.boxes.low.min()))
        self.program = make_program(self.part, sv, self.boxes.skip_below, span)

    def levels(self, boxes: Boxes) -> Levels:
        return Levels(boxes, self.program, self.transforms.shape)

    def run(self, radii: Sequence[str], device: str) -> Certificate:
        if device == "cuda":
            self._sweep_on_gpu()
        levels = self.levels(self.boxes)
        self._warn_close_levels(levels)
        found = judge(levels, self.part, self.boxes, self.transforms, self.strict)
        verdict, failing, statistics = "robust", found, {}
        if not found.robust:
            verdict = "not_robust"
        if self.boxes.unknown is not None:
            best = self.boxes.favourable()
            other = judge(self.levels(best), self.part, best, self.transforms, self.strict)
            statistics = {"lower": str(found.margin), "upper": str(other.margin)}
            if not found.robust:
                verdict, failing = ("undecided", found) if other.robust else ("not_robust", other)
        witness = None
        if verdict == "not_robust":
            row = (
                failing.radius_row
                if failing.radius_row is not None and not self._plain_class()
                else failing.row
            )
            witness = make_witness(levels, self.part, self.boxes, self.transforms, self.decision, row)
        return self._certificate(found, verdict, witness, statistics, radii)

    def _plain_class(self) -> bool:
        return self.transforms.shape == "increasing" and math.isinf(self.transforms.max_slope_ratio)

    def _certificate(
        self, found: Judgement, verdict: str, witness: Any, statistics: dict[str, Any], radii: Sequence[str]
    ) -> Certificate:
        part, pairs = self.part, self.part.kind == "pairs"
        slope = pairs and "slope" in radii
        tied = [part.rows[r] for r, gap in enumerate(part.gaps) if pairs and gap == 0 and verdict == "robust"]
        return Certificate(
            verdict=verdict,
            strict=found.strict and verdict == "robust",
            decision=self.decision,
            members=part.blocks[0],
            blocks=part.blocks,
            semivalues=tuple(float(x) for x in self.values),
            base_gap=float(min(part.gaps)),
            level_margin=found.margin,
            level=found.level,
            pair=part.pair(found.row),
            slope_radius=float_radius(found.radius) if slope else None,
            slope_pair=part.pair(found.radius_row) if slope and found.radius_row is not None else None,
            score_margin=self._score_margin() if pairs and "score" in radii else None,
            permanent_ties=tuple((i, j) for i, j in tied),
            witness=witness,
            assumptions=self.assumptions,
            statistics=statistics,
            table_sha256=self.table.sha256,
        )

    def _score_margin(self) -> float:
        from porism.kernels.coalition import quantile_margin

        if self.boxes.unbounded:
            return -math.inf
        margins = quantile_margin(self.boxes.low, self.boxes.high, self.program.player, self.part.rows)
        return float(margins.min()) + 0.0

    def _warn_close_levels(self, levels: Levels) -> None:
        values = levels.values
        gaps = np.abs(np.diff(values))
        span = abs(float(values[0]) - float(values[-1]))
        close = gaps[(gaps > 0) & (gaps < 1e-12 * span)]
        if close.size:
            import warnings

            warnings.warn(
                f"scores: {close.size} pairs of levels differ by less than 1e-12 of the range (least "
                f"{close.min():.3g}); "
                "rounding noise can only cause a false not_robust, pass MonotoneClass(decimals=...)",
                NumericalWarning,
                stacklevel=4,
            )

    def _sweep_on_gpu(self) -> None:
        """Replaced below where a plain top-k certificate can be swept on the GPU."""
        from porism.checks import require

        torch = require("torch", "torch")
        if not torch.cuda.is_available():
            raise ValueError(
                "device must be 'cpu' here, got 'cuda': torch sees no CUDA device; leave device out"
            )


def _check_boxed(decision: Decision, small: SmallCoalitions | None, missing: str, boxes: Boxes) -> None:
    """Boxes other than ranges only go with comparisons of players."""
    if isinstance(decision, TopK | OrderedPartition):
        return
    fine = small is None or small.values == "range"
    fine = fine and (boxes.unknown is None or missing == "range")
    if isinstance(decision, Sign) and fine:
        return
    name = type(decision).__name__
    raise ValueError(
        f"decision {name} cannot be certified with missing={missing!r} and small={small}: only Sign with "
        "values='range' or missing='range' can; use TopK or OrderedPartition, or complete the table"
    )


def robust_ks(table: UtilityTable, sv: Semivalue) -> NDArray[np.bool_]:
    """Which top-k selections are robust to every increasing transform, for all k in one sweep.

    Parameters
    ----------
    table : UtilityTable
        Complete table.
    sv : Semivalue
        Semivalue that ranks the players.

    Returns
    -------
    bool array, shape (n-1,)
        Entry k-1 for the top k; False where the boundary is tied.

    Raises
    ------
    MissingCoalitionsError, DegenerateUtilityError
        If the table is incomplete or constant.

    Notes
    -----
    O(n) a level by prefix minima and suffix maxima of the integer counts.

    References
    ----------
    PR-11 (reconstruction).

    Examples
    --------
    >>> robust_ks(UtilityTable.from_array([0, 8, 4, 12, 1, 9, 5, 14]), Semivalue.shapley()).tolist()
    [True, True]
    """
    values = _complete_values(table, sv)
    n = table.n_players
    ranking = sorted(range(n), key=lambda i: (-values[i], i))
    untied = np.array([values[a] > values[b] for a, b in pairwise(ranking)], dtype=bool)
    whole = sv.integer_pair_weights(n)
    if whole is not None:
        from porism.kernels.coalition import level_margins_all

        return untied & (level_margins_all(table.scores, whole[0], np.array(ranking)) >= 0)
    margins = [
        _Exact(table, sv, TopK(k), MonotoneClass(), None, "raise", "weak", "increasing") for k in range(1, n)
    ]
    return untied & np.array([one.levels(one.boxes).margin()[0] >= 0 for one in margins])


def value_intervals(table: UtilityTable, sv: Semivalue) -> NDArray[np.float64]:
    """Range of each player's value over all increasing transforms that keep the range of the scores.

    ``[R min_l psi_i^(l), R max_l psi_i^(l)]`` with ``R = s_L - s_0``, the closure of the attainable set.

    Parameters
    ----------
    table : UtilityTable
        Complete table.
    sv : Semivalue
        Semivalue.

    Returns
    -------
    float64 array, shape (n, 2)
        Lower and upper end of each player, in units of the score.

    Raises
    ------
    MissingCoalitionsError, DegenerateUtilityError
        If the table is incomplete or constant.

    References
    ----------
    PR-10 (reconstruction).

    Examples
    --------
    >>> t = UtilityTable.from_array([2, 3, 0, 4, 2, 5, 1, 6])
    >>> value_intervals(t, Semivalue.shapley()).tolist()
    [[1.0, 6.0], [-3.0, 2.0], [0.0, 3.0]]
    """
    _complete_values(table, sv)
    n = table.n_players
    rows = [(i, n) for i in range(n)] + [(n, i) for i in range(n)]
    part = Partition("sign", n, ((), ()), rows, [Fraction(0)] * (2 * n))
    boxes = Boxes(table.scores, table.scores, table.scores)
    levels = Levels(boxes, make_program(part, sv, 0, Fraction(1)), "increasing")
    span = Fraction(float(table.scores.max())) - Fraction(float(table.scores.min()))
    ends = [Fraction(levels.program.integer(x), levels.program.scale) * span for x in levels.sweep[0]]
    return np.array([[float(ends[i]), float(-ends[n + i]) + 0.0] for i in range(n)])


def _complete_values(table: UtilityTable, sv: Semivalue) -> list[Fraction]:
    from porism.theory.partition.semivalue import semivalues

    values = semivalues(table, sv, exact=True)
    if table.n_players < 2:
        raise ValueError("table must have at least 2 players, got 1: there is no boundary to certify")
    if table.scores.min() == table.scores.max():
        raise DegenerateUtilityError(
            "table holds a constant utility: every partition is a tie; check the scorer"
        )
    return values
