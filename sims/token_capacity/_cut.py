"""The definition of the selected gradient (TC-7): one pass in which all else is a constant."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from porism.checks import require

NAME = "porism_cut_everywhere"


@contextmanager
def cut_everywhere(model: Any, chosen: Any, mask: Any) -> Iterator[None]:
    """Within it a plain pass of all tokens treats every activation outside `chosen` (B, T) as a constant.

    Outputs of all leaf modules are detached there, and so are queries, keys and values, as the definition of
    the selected gradient says; attention is two products and a softmax. `mask` (B, T) is that of the padding.
    """
    torch, hf = require("torch", "torch"), require("transformers", "hf")
    places = torch.arange(chosen.shape[1])

    def cut(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape[:2] != chosen.shape:
            return value
        keep = chosen.view(*chosen.shape, *(1,) * (value.ndim - 2))
        return torch.where(keep, value, value.detach())

    def attend(module: Any, q: Any, k: Any, v: Any, *_: Any, scaling: float | None = None, **__: Any) -> Any:
        q, k, v = (cut(part.transpose(1, 2)).transpose(1, 2) for part in (q, k, v))
        share = q.shape[1] // k.shape[1]
        k, v = (part.repeat_interleave(share, dim=1) for part in (k, v))
        sees = mask.bool()[:, None, :].expand(-1, len(places), -1).clone()
        if module.is_causal:
            sees &= places[None, :] <= places[:, None]
        sees |= torch.eye(len(places), dtype=torch.bool) & ~sees.any(-1, keepdim=True)  # padding
        scores = q @ k.mT * (q.shape[-1] ** -0.5 if scaling is None else scaling)
        weights = scores.masked_fill(~sees[:, None], float("-inf")).softmax(-1)
        return (weights @ v).transpose(1, 2), None

    registry = hf.modeling_utils.ALL_ATTENTION_FUNCTIONS
    config = model.base_model.config
    before = config._attn_implementation_internal
    leaves = [module for module in model.base_model.modules() if not list(module.children())]
    hooks = [leaf.register_forward_hook(lambda _, __, out: cut(out)) for leaf in leaves]
    registry[NAME] = attend
    config._attn_implementation_internal = NAME
    try:
        yield
    finally:
        config._attn_implementation_internal = before
        del registry[NAME]
        for hook in hooks:
            hook.remove()
