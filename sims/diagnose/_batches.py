"""What one batch is: what the model takes, which tokens are real, which class each sample has."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism._models import check_ids, keywords, read_tokens
from porism.sims._batches import IGNORED, Batch, Position, read_batch

__all__ = ["Labels", "Seen", "see"]


class Labels:
    """Classes of all samples in their order, handed out batch by batch; names become numbers."""

    def __init__(self, labels: Any) -> None:
        values = np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)
        if values.ndim != 1 or not values.size:
            raise ValueError(
                f"labels must be a sequence of one class a sample, got shape {values.shape}; pass it flat"
            )
        self.classes: tuple[str, ...] = ()
        if values.dtype.kind in "biu":
            self.values = values.astype(np.int64)
        elif values.dtype.kind in "UO" and all(isinstance(value, str) for value in values.tolist()):
            names, codes = np.unique(values.astype(str), return_inverse=True)
            self.classes, self.values = tuple(names.tolist()), codes.ravel().astype(np.int64)
        else:
            raise TypeError(f"labels must be ints or names, got dtype {values.dtype}; round or name them")
        known = np.unique(self.values[self.values != IGNORED])
        if len(known) < 2:
            raise ValueError(f"labels must hold at least 2 classes, got {len(known)}; leave them out for one")

    def part(self, first: int, size: int) -> NDArray[np.int64]:
        """Classes of a batch."""
        if first + size > len(self.values):
            self.done("more")
        return self.values[first : first + size]

    def done(self, samples: int | str) -> None:
        """Say where there are not as many labels as samples."""
        if samples != len(self.values):
            raise ValueError(
                f"labels must have one entry a sample, got {len(self.values)} for {samples} samples; "
                "pass one a sample"
            )


@dataclasses.dataclass(frozen=True, eq=False)
class Seen:
    """A batch taken apart: what to call the model with, real tokens (B, T), and where its targets are."""

    keywords: dict[str, Any]
    mask: NDArray[np.bool_]
    target: Batch


def see(
    model: Any,
    raw: Any,
    first: int,
    labels: Labels | None,
    labels_key: str | None,
    position: Position,
    mask_token_id: int | None,
) -> Seen:
    """Read one batch; its tensors go to the device of the model."""
    target = read_batch(raw, position, labels_key, mask_token_id, first)
    if labels is not None:
        target.y = labels.part(first, target.size)
        target.kept = target.kept & (target.y != IGNORED)
        if target.index is not None:
            target.kept &= target.index >= 0
    own = keywords(model, target.inputs)
    parameter = next(iter(model.parameters()), None)
    if parameter is not None:
        own = {k: v.to(parameter.device) if hasattr(v, "to") else v for k, v in own.items()}
    own, target.mask = read_tokens(model, own)
    if own.get("input_ids") is not None:
        check_ids(model, own["input_ids"])
    return Seen(own, target.mask, target)
