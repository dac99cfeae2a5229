"""What the features of every module say about the start of an adapter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from porism.sims.alignment.features import FeatureCollector
from porism.sims.alignment.report import AlignmentReport, judge_features

__all__ = ["Rho", "can_judge"]


def can_judge(model: Any, modules: Any) -> bool:
    """Whether modules are named, or known by their names."""
    try:
        FeatureCollector(model, modules)
    except ValueError:
        return modules is not None  # and is refused later
    return True


class Rho(FeatureCollector):
    """Collects as `collect_features` does, and judges as `alignment_report` does, with the same streams."""

    def __init__(self, model: Any, modules: Any, r: int, max_rows: int, seed: int | None) -> None:
        self.r, self.rng = r, np.random.default_rng(seed)
        entropy = int(self.rng.integers(1 << 62))
        super().__init__(model, modules, max_rows=max_rows, random_state=entropy)
        known = dict(model.named_modules())
        for name in self.tracks:
            width = getattr(getattr(known[name], "base_layer", known[name]), "in_features", None)
            if width is not None and r >= width:
                raise ValueError(f"rank must be below the {width} features of {name!r}, got {r}; lower it")

    def judge(
        self, min_gain: float, position: str, tick: Callable[[], object]
    ) -> tuple[AlignmentReport | None, list[str]]:
        """The report, and what to know of it; a refusal by the theory becomes a note."""
        rows, weak = [], []
        found = self.features()
        try:
            for row, doubt in judge_features(found, self.r, self.rng, min_gain=min_gain):
                rows.append(row)
                weak += [doubt] if doubt else []
                tick()
        except ValueError as error:
            return None, [f"no alignment: {error} ({', '.join(error.__notes__)})"]
        more = f" ({len(weak)} such modules)" if len(weak) > 1 else ""
        notes = [f"{weak[0]}{more}: lower the rank or add samples"] if weak else []
        counts = self.n_seen, self.n_dropped
        return AlignmentReport(tuple(rows), self.r, float(min_gain), *counts, position), notes
