"""The pass itself: hooks of all aspects on one forward call a batch, and their judgement afterwards."""

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from porism.sims import hooks
from porism.sims.diagnose._batches import Seen
from porism.sims.diagnose._capacity import Capacity
from porism.sims.diagnose._eager import eager
from porism.sims.diagnose._heads import Heads
from porism.sims.diagnose._ranks import Ranks
from porism.sims.diagnose._rho import Rho

__all__ = ["OnePass"]


class OnePass:
    """Runs every batch once; what looks at the model is given at the start, rho joins where labels come."""

    def __init__(
        self,
        capacity: Capacity | None,
        heads: Heads | None,
        ranks: Ranks | None,
        make_rho: Callable[[], Rho] | None,
    ) -> None:
        self.capacity, self.heads, self.ranks, self.make_rho = capacity, heads, ranks, make_rho
        self.rho: Rho | None = None
        self.samples = self.tokens = self.batches = 0
        self.seconds: dict[str, float] = {}

    def run(
        self,
        model: Any,
        batches: Iterable[Any],
        count: int | None,
        read: Callable[[Any, int], Seen],
        progress: bool,
    ) -> None:
        """Run all batches; the model is as before afterwards, also after an exception."""
        began = time.perf_counter()
        with contextlib.ExitStack() as stack:
            bar = stack.enter_context(_bar(progress, count, "pass"))
            stack.enter_context(hooks.evaluation(model))
            if self.heads is not None or self.make_rho is not None:
                stack.enter_context(eager(model))
            if self.capacity is not None:
                stack.enter_context(self.capacity)
            for part in (self.heads, self.ranks):
                if part is not None:
                    stack.enter_context(part.watching(model))
            for raw in batches:
                seen = read(raw, self.samples)
                labelled = seen.target.y is not None
                if not self.batches and labelled and self.make_rho is not None:
                    self.rho = self.make_rho()
                    stack.enter_context(self.rho.watching(model))
                if labelled != (self.rho is not None):
                    raise ValueError(
                        f"batches must all have labels of one class a sample, or none; batch {self.batches} "
                        "differs from those before"
                    )
                self._one(model, seen)
                self.batches += 1
                self.samples += len(seen.mask)
                self.tokens += int(seen.mask.sum())
                bar.update()
        if not self.batches:
            raise ValueError("batches must hold at least one batch, got none; a used-up iterator is empty")
        self.seconds["pass"] = time.perf_counter() - began

    def _one(self, model: Any, seen: Seen) -> None:
        for part in (self.heads, self.ranks):
            if part is not None:
                part.begin(seen)
        if self.rho is not None:
            self.rho.start(seen.target)
        if self.capacity is not None:
            self.capacity.update(**seen.keywords)  # which runs the model: a batch counts whole or not
        else:
            model(**seen.keywords)
        if self.rho is not None:
            self.rho.finish()

    def judge(
        self, eps: float, ridge: float, min_gain: float, position: Any, progress: bool
    ) -> dict[str, Any]:
        """What each aspect found, None for those that were not looked at."""
        steps = len(self.capacity.layers) if self.capacity is not None else 0
        steps += len(self.ranks.names) if self.ranks is not None else 0
        steps += len(self.rho.tracks) if self.rho is not None else 0
        where = position if isinstance(position, str) else "callable"
        found: dict[str, Any] = dict.fromkeys(("capacity", "heads", "ranks", "alignment"))
        with _bar(progress, steps, "judge") as bar:
            calls: dict[str, tuple[Any, Callable[[Any], Any]]] = {
                "capacity": (self.capacity, lambda part: part.judge(eps, ridge, bar.update)),
                "heads": (self.heads, lambda part: part.result()),
                "ranks": (self.ranks, lambda part: part.judge(bar.update)),
                "alignment": (self.rho, lambda part: part.judge(min_gain, where, bar.update)),
            }
            for name, (part, call) in calls.items():
                if part is not None:
                    began = time.perf_counter()
                    found[name] = call(part)
                    self.seconds[name] = time.perf_counter() - began
        return found


def _bar(progress: bool, total: int | None, name: str) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, desc=name, disable=not progress, leave=False)
