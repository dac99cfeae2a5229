"""Inputs of a forward pass: checked, and what each of the two passes gets of them."""

from dataclasses import dataclass
from typing import Any

from porism.checks import require
from porism.sims.token_capacity import _compat
from porism.sims.token_capacity._positions import Plan, real_tokens


@dataclass(frozen=True)
class Inputs:
    """Checked inputs of a forward pass, and what each pass gets of them."""

    backbone: Any
    causal: bool
    input_ids: Any
    inputs_embeds: Any
    attention_mask: Any
    position_ids: Any
    per_token: dict[str, Any]
    real: Any = None
    ids: Any = None  # explicit position ids
    plain: Any = None  # what the caller passed

    def __post_init__(self) -> None:
        torch = require("torch", "torch")
        if (self.input_ids is None) == (self.inputs_embeds is None):
            raise ValueError("pass exactly one of input_ids and inputs_embeds")
        main = self.input_ids if self.inputs_embeds is None else self.inputs_embeds
        name, axes = ("input_ids", 2) if self.inputs_embeds is None else ("inputs_embeds", 3)
        if not isinstance(main, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(main).__name__}; convert it")
        if main.ndim != axes or 0 in main.shape:
            raise ValueError(f"{name} must have {axes} axes, none empty, got shape {tuple(main.shape)}")
        shape = (int(main.shape[0]), int(main.shape[1]))
        extra = {key: value for key, value in self.per_token.items() if value is not None}
        _compat.check_inputs(self.backbone, extra, shape)
        extra = {key: value for key, value in extra.items() if isinstance(value, torch.Tensor)}
        mask = self.attention_mask
        if mask is None:
            real = torch.ones(shape, dtype=torch.bool, device=main.device)
        elif not isinstance(mask, torch.Tensor):
            raise TypeError(f"attention_mask must be a tensor (B, T), got {type(mask).__name__}; convert it")
        else:
            real = real_tokens(mask)
            if tuple(real.shape) != shape:
                raise ValueError(f"attention_mask must have shape {shape}, got {tuple(real.shape)}")
        given = {name: main, "attention_mask": mask, "position_ids": self.position_ids, **extra}
        given = {key: value for key, value in given.items() if value is not None}
        for key, value in given.items():
            if getattr(value, "device", main.device) != main.device:
                raise ValueError(f"{key} must be on the device of {name} ({main.device}), got {value.device}")
        ids = _compat.position_ids(
            self.backbone, self.position_ids, self.input_ids, real, self.causal, mask is not None
        )
        if self.position_ids is not None:
            given["position_ids"] = ids
        _compat.check_rope(self.backbone, ids)
        if _compat.takes(self.backbone, "use_cache"):
            given["use_cache"] = False
        found = {"per_token": {name: main, **extra}, "real": real, "ids": ids, "plain": given}
        for key, value in found.items():
            object.__setattr__(self, key, value)

    def first(self, length: int) -> dict[str, Any]:
        """The first tokens, for the recording pass."""
        return self._complete({key: value[:, :length] for key, value in self._tokens().items()}, None)

    def at(self, index: Any, model: Any) -> dict[str, Any]:
        """The tokens at (B, k) indices, for the replay."""
        picked = {}
        for key, value in self._tokens().items():
            place = index.view(*index.shape, *(1,) * (value.ndim - 2)).expand(*index.shape, *value.shape[2:])
            picked[key] = value.gather(1, place)
        return self._complete(picked, model)

    def _tokens(self) -> dict[str, Any]:
        takes = _compat.takes(self.backbone, "position_ids")
        return {**self.per_token, **({"position_ids": self.ids} if takes else {})}

    def _complete(self, chosen: dict[str, Any], model: Any) -> dict[str, Any]:
        if _compat.takes(model or self.backbone, "use_cache"):
            chosen["use_cache"] = False
        return chosen


def targets(labels: Any, where: Plan, causal: bool) -> tuple[Any, int]:
    """Label of each slot (B, k), -100 for none, and the number of labels that some position predicts."""
    torch = require("torch", "torch")
    if not isinstance(labels, torch.Tensor) or labels.dtype not in (torch.int64, torch.int32):
        got = labels.dtype if isinstance(labels, torch.Tensor) else type(labels).__name__
        raise TypeError(f"labels must be an integer tensor (B, T), got {got}; convert them to long")
    if labels.shape != where.real.shape:
        raise ValueError(f"labels must have shape {tuple(where.real.shape)}, got {tuple(labels.shape)}")
    labels = labels.long()
    if causal:  # label j belongs to position j - 1
        labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -100)], dim=1)
    chosen = labels.gather(1, where.gather).masked_fill(~where.valid, -100)
    return chosen, int((labels != -100).sum())
