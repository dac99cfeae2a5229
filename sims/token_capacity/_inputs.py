"""Inputs of a forward pass: checked, and what each of the two passes gets of them."""

from dataclasses import dataclass
from typing import Any

from porism._models import check_ids
from porism.checks import require
from porism.sims.token_capacity import _compat
from porism.sims.token_capacity._positions import Plan, real_tokens


@dataclass(frozen=True)
class Inputs:
    """Checked inputs of a forward pass, and what each pass gets of them."""

    tokens: dict[str, Any]  # a value for each token, explicit position ids among them if the model takes them
    real: Any  # (B, T) bool
    plain: dict[str, Any]  # what the caller passed

    def first(self, length: int, model: Any) -> dict[str, Any]:
        """The first tokens, for the recording pass."""
        return _without_cache({key: value[:, :length] for key, value in self.tokens.items()}, model)

    def at(self, index: Any, model: Any) -> dict[str, Any]:
        """The tokens at (B, k) indices, for the replay."""
        picked = {}
        for key, value in self.tokens.items():
            place = index.view(*index.shape, *(1,) * (value.ndim - 2)).expand(*index.shape, *value.shape[2:])
            picked[key] = value.gather(1, place)
        return _without_cache(picked, model)


def _without_cache(given: dict[str, Any], model: Any) -> dict[str, Any]:
    return {**given, "use_cache": False} if _compat.takes(model, "use_cache") else given


def read(
    backbone: Any,
    causal: bool,
    /,
    *,
    input_ids: Any = None,
    inputs_embeds: Any = None,
    attention_mask: Any = None,
    position_ids: Any = None,
    **per_token: Any,
) -> Inputs:
    """Check the inputs of a forward pass."""
    torch = require("torch", "torch")
    if (input_ids is None) == (inputs_embeds is None):
        got = "neither" if input_ids is None else "both"
        raise ValueError(f"exactly one of input_ids and inputs_embeds must be given, got {got}; pass one")
    name, main, axes = "input_ids", input_ids, 2
    if inputs_embeds is not None:
        name, main, axes = "inputs_embeds", inputs_embeds, 3
    if not isinstance(main, torch.Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(main).__name__}; convert it")
    if main.ndim != axes or 0 in main.shape:
        found = tuple(main.shape)
        raise ValueError(f"{name} must have {axes} axes, none empty, got shape {found}; reshape it")
    if inputs_embeds is None:
        if main.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"input_ids must be long or int, got {main.dtype}; convert them with .long()")
        check_ids(backbone, main)
    shape = (int(main.shape[0]), int(main.shape[1]))
    _compat.check_inputs(backbone, per_token, shape)
    tokens = {key: value for key, value in per_token.items() if isinstance(value, torch.Tensor)}
    given = {name: main, "attention_mask": attention_mask, "position_ids": position_ids, **tokens}
    given = {key: value for key, value in given.items() if value is not None}
    if attention_mask is None:
        real = torch.ones(shape, dtype=torch.bool, device=main.device)
    elif not isinstance(attention_mask, torch.Tensor):
        got = type(attention_mask).__name__
        raise TypeError(f"attention_mask must be a tensor (B, T), got {got}; convert it")
    else:
        real = real_tokens(attention_mask)
        if tuple(real.shape) != shape:
            found = tuple(real.shape)
            raise ValueError(f"attention_mask must have shape {shape}, got {found}; pass one entry a token")
    for key, value in given.items():
        if getattr(value, "device", main.device) != main.device:
            got = f"{value.device}; move one"
            raise ValueError(f"{key} must be on the device of {name} ({main.device}), got {got}")
    ids = _compat.position_ids(backbone, position_ids, input_ids, real, causal, attention_mask is not None)
    _compat.check_rope(backbone, ids)
    tokens = {name: main, **tokens}
    if _compat.takes(backbone, "position_ids"):
        tokens["position_ids"] = ids
    if position_ids is not None:
        given["position_ids"] = ids
    return Inputs(tokens, real, _without_cache(given, backbone))


def targets(labels: Any, where: Plan, causal: bool) -> tuple[Any, int]:
    """Label of each slot (B, k), -100 for none, and the number of labels that some position predicts."""
    torch = require("torch", "torch")
    if not isinstance(labels, torch.Tensor) or labels.dtype not in (torch.int64, torch.int32):
        got = labels.dtype if isinstance(labels, torch.Tensor) else type(labels).__name__
        raise TypeError(f"labels must be an integer tensor (B, T), got {got}; convert them to long")
    if labels.shape != where.real.shape:
        shape = tuple(where.real.shape)
        raise ValueError(f"labels must have shape {shape}, got {tuple(labels.shape)}; pass one a token")
    labels = labels.long()
    if causal:  # label j belongs to position j - 1
        labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -100)], dim=1)
    chosen = labels.gather(1, where.gather).masked_fill(~where.valid, -100)
    return chosen, int((labels != -100).sum())
