"""Features for the alignment of every module, and what they say."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from porism.sims.alignment import _grouped, _pooling
from porism.sims.alignment._hooks import Recorder, select
from porism.sims.alignment.features import _features, _refuse, _track
from porism.sims.alignment.report import AlignmentReport, AlignmentRow, _recommend
from porism.theory.token_capacity import _layers

__all__ = ["Rho", "default_modules"]

REPEATS = 2


def default_modules(model: Any) -> list[str]:
    """Queries or fused projections, values, and the first map of each MLP, in the order of the model."""
    chosen = set(_found(model))
    for name, module in model.named_modules():
        inner = ".experts." in name or ".base_layer" in name
        if not inner and _pooling.role(name) == "value" and _layers.is_linear(module):
            chosen.add(name)
    if not chosen:
        raise ValueError("modules must be named: no query, value or MLP of the model is known; pass modules")
    return [name for name, _ in model.named_modules() if name in chosen]


def _found(model: Any) -> list[str]:
    try:
        return list(_layers.watched(model, "all"))
    except ValueError:
        return []


class Rho:
    """Collects as `collect_features` does, and judges as `alignment_report` does, with the same streams."""

    def __init__(
        self,
        model: Any,
        modules: Any,
        r: int,
        min_gain: float,
        position: Any,
        max_rows: int,
        seed: int | None,
    ) -> None:
        self.r, self.min_gain, self.position = r, min_gain, position
        self.rng = np.random.default_rng(seed)
        self.names = default_modules(model) if modules is None else select(model, modules)
        _refuse(model, self.names)
        known = dict(model.named_modules())
        for name in self.names:
            width = getattr(getattr(known[name], "base_layer", known[name]), "in_features", None)
            if width is not None and r >= width:
                raise ValueError(f"rank must be below the {width} features of {name!r}, got {r}; lower it")
        tracks = [_track(name, "auto") for name in self.names]
        self.recorder = Recorder(tracks, max_rows, int(self.rng.integers(1 << 62)))
        self.seen = self.dropped = 0

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Hooks on the modules."""
        with self.recorder.watching(model):
            yield

    def start(self, seen: Any) -> None:
        """A batch is about to run."""
        self.recorder.start(seen.target)
        kept = int(seen.target.kept.sum())
        self.seen += kept
        self.dropped += seen.target.size - kept

    def finish(self) -> None:
        """A batch has run."""
        self.recorder.finish()

    def result(self, tick: Callable[[], object]) -> tuple[AlignmentReport | None, list[str]]:
        """The report, and what to know of it; a refusal by the theory becomes a note."""
        rows, weak = [], []
        for name, track in self.recorder.tracks.items():
            features = _features(self.recorder, track, self.seen, self.dropped)
            options: dict[str, Any] = {"weights": "share", "repeats": REPEATS, "ci": False}
            try:
                result = _grouped.coefficient(features, self.r, options, int(self.rng.integers(1 << 62)))
            except ValueError as error:
                return None, [f"no alignment: {error} (module {name})"]
            if features.constant or result.n_random:
                weak.append(name)
            recommendation, reason = _recommend(result, self.min_gain)
            rows.append(AlignmentRow(name, features.rule, features.reason, result, recommendation, reason))
            tick()
        notes = []
        if weak:
            more = f" and {len(weak) - 1} more" if len(weak) > 1 else ""
            notes.append(
                f"features of {weak[0]}{more} leave directions of a subspace of rank {self.r} open: "
                "lower the rank or add samples"
            )
        where = self.position if isinstance(self.position, str) else "callable"
        report = AlignmentReport(tuple(rows), self.r, float(self.min_gain), self.seen, self.dropped, where)
        return report, notes
