"""What one batch is: what the model takes, which tokens are real, which class each sample has."""

import dataclasses
import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.alignment._positions import Batch, Position, read_batch
from porism.theory.token_capacity import _layers

__all__ = ["Labels", "Seen", "see"]

IGNORED = -100


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
            raise ValueError(
                f"labels must have one entry a sample, got {len(self.values)} for more samples; "
                "pass one a sample"
            )
        return self.values[first : first + size]

    def done(self, samples: int) -> None:
        """Say where labels are left over."""
        if samples != len(self.values):
            raise ValueError(
                f"labels must have one entry a sample, got {len(self.values)} for {samples} samples"
            )


@dataclasses.dataclass(frozen=True, eq=False)
class Seen:
    """A batch taken apart: the model's keywords, real tokens (B, T), number of its first sample, classes."""

    keywords: dict[str, Any]
    mask: NDArray[np.bool_]
    first: int
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
    own = _layers.keywords(model, target.inputs)
    parameter = next(iter(model.parameters()), None)
    if parameter is not None:
        own = {k: v.to(parameter.device) if hasattr(v, "to") else v for k, v in own.items()}
    own = _quiet(model) | own
    _, mask = _layers.read_batch(model, own)
    target.inputs, target.mask = own, mask
    return Seen(own, mask, first, target)


def _quiet(model: Any) -> dict[str, bool]:
    """Keywords that keep a model from collecting every layer's maps or states, where it would."""
    arguments = inspect.signature(model.forward).parameters
    config = getattr(model, "config", None)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in arguments.values())
    return {
        name: False
        for name in ("output_attentions", "output_hidden_states")
        if getattr(config, name, False) and (name in arguments or open_ended)
    }
