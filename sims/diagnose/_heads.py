"""Patterns of attention heads, pooled over sequences as they stream by."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.hooks import has_slot, is_map, maps_of_slot
from porism.sims.pattern._hooks import _Watch
from porism.sims.pattern.attention import _entropy, _Scan
from porism.sims.pattern.records import HeadRecord, HeadRecords
from porism.theory.pattern._shuffles import judge
from porism.theory.pattern.nulls import holm

__all__ = ["Heads"]


class _Pooled(_Scan):
    """A scan that adds each sequence's values, observed and shuffled, to sums by head and mask."""

    def head(self, sample: int, layer: int, head: int, a: NDArray[np.float64]) -> None:
        self.caught: list[NDArray[np.float64]] = []
        super().head(sample, layer, head, a)
        records, self.records = self.records, []
        groups: dict[tuple[str, str], list[HeadRecord]] = {}
        for record in records:  # the groups of one null, in the order in which they were drawn
            groups.setdefault((record.null, record.order), []).append(record)
        for nulls, members in zip(self.caught, groups.values(), strict=True):
            for column, record in zip(nulls.T, members, strict=True):
                place = (layer, head, record.mask)
                sums = self.sums.setdefault(place, [record, 0, 0.0, np.zeros(self.n_null)])
                sums[1] += 1
                sums[2] += record.mass_outside
                sums[3] += column

    def _fixed(
        self, shuffle: Any, W: NDArray[np.float64], seed: np.random.SeedSequence
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        observed, nulls = super()._fixed(shuffle, W, seed)
        self.caught.append(nulls)
        return observed, nulls

    sums: dict[tuple[int, int, str], list[Any]]


class _Maps(_Watch):
    """Finds maps also where they are not the second of what a module returns."""

    def leave(self, module: Any, args: Any, output: Any) -> None:
        if isinstance(output, tuple) and len(output) > 2:
            maps = [value for value in output[1:] if is_map(value) and _shares(value)]
            output = (output[0], *(maps or output[1:2]))
        super().leave(module, args, output)


def _shares(maps: Any) -> bool:
    """Whether rows are shares of 1: biases have the same shape."""
    last = maps[0, :, -1].double()
    return bool((last >= 0).all()) and bool(((last.sum(-1) - 1).abs() < 0.02).all())


class Heads:
    """Measures the heads of some rows of every batch against masks."""

    def __init__(
        self,
        masks: Any,
        null: str,
        n_null: int,
        strip_sinks: int,
        seed: int | None,
        most: int | None,
        batches: int | None,
    ) -> None:
        self.scan = _Pooled(
            masks,
            "none",
            null,
            n_null,
            None,
            None,
            strip_sinks,
            "squared",
            "auto",
            _entropy(seed),
            None,
            [],
            {},
            {},
        )
        self.scan.sums = {}
        self.watch = _Maps(self._layer)
        self.most, self.batches, self.begun = most, batches, 0
        self.done, self.causal, self.shortest, self.longest = 0, True, 0, 0
        self.rows, self.first = range(0), 0

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Hooks on what returns attention maps."""
        with contextlib.ExitStack() as stack:
            for module in [module for module in model.modules() if has_slot(module)]:
                stack.enter_context(maps_of_slot(module, self.watch.report))
            for module in model.modules():
                if "attention" in type(module).__name__.casefold():
                    stack.callback(module.register_forward_pre_hook(self.watch.enter).remove)
                    stack.callback(module.register_forward_hook(self.watch.leave).remove)
            yield

    def start(self, seen: Any) -> None:
        """A batch is about to run."""
        self.begun += 1
        left = len(seen.mask)
        if self.most is not None:  # spread over the batches where their number is known
            part = 1.0 if not self.batches else min(self.begun / self.batches, 1.0)
            left = min(left, math.ceil(self.most * part) - self.done)
        self.rows, self.first = range(left), seen.first
        self.scan.keep = seen.mask
        self.watch.layers = 0
        self.watch._stack.clear()

    def finish(self) -> None:
        """A batch has run."""
        if self.scan.tokens:
            self.done += len(self.rows)
            low, high = min(self.scan.tokens.values()), max(self.scan.tokens.values())
            self.shortest = min(self.shortest or low, low)
            self.longest = max(self.longest, high)
            self.causal &= all(self.scan.causal_seen.values())
        self.scan.tokens.clear()
        self.scan.causal_seen.clear()
        self.scan._masks.clear()  # one library a length would grow with the data

    def result(self, seed: int | None) -> HeadRecords | None:
        """One record a head and mask, or None where the model showed no maps."""
        by_head: dict[tuple[int, int], list[HeadRecord]] = {}
        for (layer, head, name), (like, count, observed, nulls) in self.scan.sums.items():
            mean, draws = observed / count, nulls / count
            p_value, effect = judge(mean, draws)
            values = (mean, float(draws.mean()), effect, p_value)
            record = HeadRecord(layer, head, name, *values, 0.0, "none", like.null, like.stripped)
            by_head.setdefault((layer, head), []).append(record)
        records = [
            HeadRecord(**{**vars(record), "p_holm": float(p)})
            for _, group in sorted(by_head.items())
            for record, p in zip(group, holm([r.p_value for r in group]), strict=True)
        ]
        if not records:
            return None
        tokens = (self.shortest, self.longest)
        return HeadRecords(tuple(records), self.scan.n_null, tokens, self.causal, seed)

    def _layer(self, layer: int, maps: Any) -> None:
        if len(maps) != len(np.asarray(self.scan.keep)) or not _shares(maps):
            self.watch.saw_none = True
            return
        for row in self.rows:
            for head in range(int(maps.shape[1])):
                cropped = self.scan._crop(maps[row, head], row)
                self.scan.head(self.first + row, layer, head, cropped)
