"""One exact certification: base partition, boxes, levels, judgement, witness."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.errors import NumericalWarning
from porism.theory.partition._boxes import Boxes, make_boxes
from porism.theory.partition._judge import Judgement, float_radius, judge
from porism.theory.partition._levels import Levels, make_program
from porism.theory.partition._partitions import partition
from porism.theory.partition._values import exact_semivalues
from porism.theory.partition._witnesses import make_witness
from porism.theory.partition.certificate import Certificate
from porism.theory.partition.classes import MonotoneClass, SmallCoalitions
from porism.theory.partition.decisions import Decision, OrderedPartition, Sign, TopK
from porism.theory.partition.errors import DegenerateUtilityError
from porism.theory.partition.semivalue import Semivalue
from porism.theory.partition.table import UtilityTable

__all__ = ["Certifier"]


class Certifier:
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
        self.table, self.sv, self.decision = table, sv, decision
        self.transforms, self.strict = transforms, strict
        rounded = table.rounded(transforms.decimals)
        self.boxes = make_boxes(rounded, small, missing, sv)
        if not self.boxes.plain:
            _check_boxed(decision, small, missing, self.boxes)
        self.assumptions = {
            "class": transforms.to_dict(),
            "small": None if small is None else small.to_dict(),
            "missing": missing,
            "completion": None if not np.isnan(table.scores).any() else "midpoint",
            "target": "exact",
            "ties": ties,
            "strict": strict,
            "decimals": transforms.decimals,
            "semivalue": str(sv),
        }
        if float(self.boxes.low.min()) == float(self.boxes.high.max()):  # whatever small coalitions scored
            raise DegenerateUtilityError(
                "table holds a constant utility: every partition is a tie; check the scorer"
            )
        self.values = exact_semivalues(self.boxes.base, sv, table.n_players)
        self.part = partition(decision, self.values, ties)
        span = Fraction(float(self.boxes.high.max())) - Fraction(float(self.boxes.low.min()))
        self.program = make_program(self.part, sv, self.boxes.skip_below, span)

    def levels(self, boxes: Boxes) -> Levels:
        return Levels(boxes, self.program, self.transforms.shape)

    def run(self, radii: Sequence[str], device: str) -> Certificate:
        settled = self._sweep_on_gpu() if device == "cuda" else None
        if settled is not None:
            self._warn_close_levels(np.sort(self.boxes.low))
            return self._certificate(settled, "robust", None, {}, radii)
        levels = self.levels(self.boxes)
        self._warn_close_levels(levels.values)
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
            row = failing.row if self._plain_class() or failing.radius_row is None else failing.radius_row
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

    def _warn_close_levels(self, values: NDArray[np.float64]) -> None:
        gaps = np.abs(np.diff(values))
        span = abs(float(values[0]) - float(values[-1]))
        close = gaps[(gaps > 0) & (gaps < 1e-12 * span)]
        if close.size:
            import warnings

            warnings.warn(
                f"scores: {close.size} pairs of levels differ by less than 1e-12 of the range (least "
                f"{close.min():.3g}); rounding noise can only cause a false not_robust, pass "
                "MonotoneClass(decimals=...)",
                NumericalWarning,
                stacklevel=4,
            )

    def _sweep_on_gpu(self) -> Judgement | None:
        """What one sweep settles alone: a plain partition in two with one-limb weights, if it is robust."""
        from porism.checks import require
        from porism.kernels.coalition import level_margin

        if not require("torch", "torch").cuda.is_available():
            raise ValueError(
                "device must be 'cpu' here, got 'cuda': torch sees no CUDA device; leave device out"
            )
        part, weights = self.part, self.program.player
        plain = self.boxes.plain and self.transforms.shape == "increasing"
        if not plain or part.kind != "pairs" or len(part.blocks) != 2 or len(weights) != 1:
            return None
        upper, lower = (sum(1 << i for i in block) for block in part.blocks)
        least, level, pair = level_margin(self.boxes.low, weights[0], upper, lower, backend="triton")
        if least < 0:  # witness and radius need the sums over the levels, which the CPU sweep has
            return None
        weakly = self.strict == "weakly-increasing" and math.isinf(self.transforms.max_slope_ratio)
        strict = least > 0 if weakly else min(part.gaps) > 0
        margin = Fraction(least, self.program.scale)
        return Judgement(True, strict, margin, level, part.rows.index(pair), math.inf, None)


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
