"""Which sequences' heads are measured."""

import math
from typing import Any

from porism.sims.pattern.attention import PooledScan

__all__ = ["Heads"]


class Heads(PooledScan):
    """A scan of the first rows of each batch, spread over the batches where their number is known."""

    def __init__(self, masks: Any, most: int | None, batches: int | None, **options: Any) -> None:
        super().__init__(masks, **options)
        self.most, self.batches, self.begun = most, batches, 0

    def begin(self, seen: Any) -> None:
        """A batch is about to run."""
        self.begun += 1
        count = len(seen.mask)
        if self.most is not None:
            part = min(self.begun / self.batches, 1.0) if self.batches else 1.0
            count = min(count, math.ceil(self.most * part) - self.n_sequences)
        self.start(seen.mask, count)
