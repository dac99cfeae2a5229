"""The attention function that transformers calls in both passes, and the switch to it."""

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from porism.checks import require
from porism.sims.hooks import evaluation
from porism.sims.token_capacity._attention import plain, visible
from porism.sims.token_capacity._positions import Plan

NAME = "porism_subset"  # unknown to the registry of masks: transformers then builds none
# passed by some models and without effect on the result here; anything else that is not None is refused
HARMLESS = {
    "cache_position", "deterministic", "is_causal", "output_attentions", "output_hidden_states",
    "output_router_logits", "position_embeddings", "position_ids", "return_dict", "sliding_window",
    "use_cache",
}  # fmt: skip
_STATE: ContextVar["Pass | None"] = ContextVar("porism_subset_pass", default=None)
_ACTIVE: set[int] = set()
_LOCK = threading.Lock()


@dataclass
class Pass:
    """One pass of the model: the frozen pairs that it writes or reads, in the order of attention calls."""

    plan: Plan
    causal: bool
    recording: bool
    attention: str  # "auto", "reference" or "triton"
    pairs: list[tuple[Any, Any, Any]] = field(default_factory=list)  # module, keys, values
    calls: int = 0
    masks: dict[int, Any] = field(default_factory=dict)  # of the recording, by window
    places: dict[str, Any] = field(default_factory=dict)  # of the replay: indices and validity


def function(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: Any,
) -> tuple[Any, None]:
    """Attention (B, T, H, d) as transformers wants it."""
    torch = require("torch", "torch")
    state = _STATE.get()
    if state is None:
        raise RuntimeError(
            f"the attention {NAME!r} works inside SubsetBackprop only; set another attn_implementation"
        )
    _refuse(state, module, query, key, attention_mask, others)
    window = others.get("sliding_window") or 0
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = _one_dtype(query, key, value)
    with torch.autocast(query.device.type, enabled=False):
        run = _record if state.recording else _replay
        out = run(state, module, query, key, value, window, scale, dropout)
    state.calls += 1
    return out.transpose(1, 2).contiguous(), None


def _refuse(
    state: Pass, module: Any, query: Any, key: Any, attention_mask: Any, others: dict[str, Any]
) -> None:
    """Attention that is more than a softmax of scaled scores under a mask of indices is not supported."""
    name = type(module).__name__
    for word, value in others.items():
        if value is not None and word not in HARMLESS:
            raise NotImplementedError(
                f"{name} passes {word} to its attention, which subset back-propagation does not support; "
                "train this model on all positions"
            )
    if attention_mask is not None:
        raise NotImplementedError(
            f"{name} builds an attention mask of its own, which subset back-propagation does not support; "
            "train this model on all positions"
        )
    causal = others.get("is_causal")
    causal = getattr(module, "is_causal", state.causal) if causal is None else causal
    if bool(causal) != state.causal:
        raise NotImplementedError(
            f"{name} has is_causal={causal} in a model read as causal={state.causal}; mixed attention is not "
            "supported"
        )
    if query.shape[2] != key.shape[2]:
        raise NotImplementedError(
            f"{name} attends {query.shape[2]} queries to {key.shape[2]} keys: cross-attention, caches and "
            "prefixes are not supported"
        )


def _one_dtype(*tensors: Any) -> list[Any]:
    """What autocast would do to torch's own attention; otherwise the type of the values."""
    torch = require("torch", "torch")
    device = tensors[0].device.type
    wanted = tensors[-1].dtype
    if torch.is_autocast_enabled(device) and wanted != torch.float64:
        wanted = torch.get_autocast_dtype(device)
    return [tensor.to(wanted) for tensor in tensors]


def _record(
    state: Pass, module: Any, query: Any, key: Any, value: Any, window: int, scale: float, dropout: float
) -> Any:
    """Attention of the whole (or prefix) sequence; keys and values of frozen positions are kept."""
    torch = require("torch", "torch")
    plan = state.plan
    state.pairs.append((module, _gather(key, plan.frozen), _gather(value, plan.frozen)))
    length = query.shape[2]
    real = plan.real[:, :length]
    easy = not window and plan.unpadded
    if not easy and window not in state.masks:
        index = torch.arange(length, device=query.device)[None]
        seen = visible(index, index, real, state.causal, window)
        lonely = ~seen.any(-1, keepdim=True) & torch.eye(length, dtype=torch.bool, device=query.device)
        state.masks[window] = seen | lonely  # padding that sees nothing attends to itself: no NaN
    groups = query.shape[1] // key.shape[1]
    if groups > 1:  # for a moment only: what is kept has key heads
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    return torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=None if easy else state.masks[window],
        dropout_p=dropout,
        is_causal=easy and state.causal,
        scale=scale,
    )


def _gather(tensor: Any, frozen: Any) -> Any:
    """The frozen positions (B, H_kv, U, d) in memory of their own: a view would keep the whole projection."""
    rows, heads, _, width = tensor.shape
    return tensor.detach().gather(2, frozen[:, None, :, None].expand(rows, heads, -1, width))


def _replay(
    state: Pass, module: Any, query: Any, key: Any, value: Any, window: int, scale: float, dropout: float
) -> Any:
    """Attention of the selected positions to the recorded and to the fresh pair."""
    from porism.kernels.subset_attention import subset_attention

    torch = require("torch", "torch")
    plan = state.plan
    frozen_key, frozen_value = key[:, :, :0].detach(), value[:, :, :0].detach()
    if plan.prefix:
        if state.calls >= len(state.pairs):
            raise RuntimeError(out_of_step(f"more attention calls than the {len(state.pairs)} recorded"))
        recorded, frozen_key, frozen_value = state.pairs[state.calls]
        if recorded is not module:
            raise RuntimeError(out_of_step(f"attention call {state.calls} in another layer than recorded"))
    if not state.places:
        state.places = {
            "index_query": plan.gather.to(torch.int32),
            "index_frozen": plan.frozen.to(torch.int32),
            "valid_fresh": None if bool(plan.valid.all()) else plan.valid,
            "valid_frozen": None if bool(plan.frozen_valid.all()) else plan.frozen_valid,
        }
    rule: dict[str, Any] = {"causal": state.causal, "window": window, "scale": scale}
    if state.attention == "reference" or dropout or key.shape[-1] != value.shape[-1]:
        return plain(
            query, key, value, frozen_key, frozen_value, **state.places, **rule, dropout=dropout
        )  # dropped weights need the weights
    return subset_attention(
        query, key, value, frozen_key, frozen_value, **state.places, **rule, backend=state.attention
    )


def out_of_step(how: str) -> str:
    return f"replay made {how}; a model that skips layers at random (layerdrop) is not supported"


def configs(model: Any) -> list[Any]:
    """Every configuration of a model and of its parts, each once."""
    found: dict[int, Any] = {}
    queue = [getattr(module, "config", None) for module in model.modules()]
    while queue:
        config = queue.pop()
        if config is None or not hasattr(config, "_attn_implementation") or id(config) in found:
            continue
        found[id(config)] = config
        queue += [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return list(found.values())


@contextlib.contextmanager
def exclusive(model: Any) -> Iterator[None]:
    """One forward pass at a time on one model: the switch is in its configuration."""
    with _LOCK:
        if id(model) in _ACTIVE:
            raise RuntimeError(
                "this model is already inside a SubsetBackprop pass; finish it first (no re-entrant use)"
            )
        _ACTIVE.add(id(model))
    try:
        yield
    finally:
        with _LOCK:
            _ACTIVE.discard(id(model))


@contextlib.contextmanager
def switched(model: Any, state: Pass) -> Iterator[None]:
    """Attention goes through `function`; every configuration comes back as it was, also after an error."""
    registry = require("transformers.modeling_utils", "hf").ALL_ATTENTION_FUNCTIONS
    if NAME not in registry:
        registry.register(NAME, function)
    before = [(config, config._attn_implementation_internal) for config in configs(model)]
    token = _STATE.set(state)
    try:
        for config, _ in before:
            config._attn_implementation_internal = NAME
        yield
    finally:
        for config, name in before:
            config._attn_implementation_internal = name
        _STATE.reset(token)


@contextlib.contextmanager
def quiet(model: Any, device: str, dropout: bool) -> Iterator[None]:
    """No gradient, evaluation mode unless dropout is wanted, and autocast without its cache.

    Some versions of autocast hand weights that they cast without gradient to later passes: no gradient there.
    """
    torch = require("torch", "torch")
    cast = torch.autocast(
        device,
        dtype=torch.get_autocast_dtype(device),
        enabled=torch.is_autocast_enabled(device),
        cache_enabled=False,
    )
    with torch.no_grad() if dropout else evaluation(model), cast:
        yield
