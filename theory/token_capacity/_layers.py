"""Which linear maps of a model to watch, how its attention looks, and what one batch is."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from porism.theory.token_capacity._arrays import is_tensor
from porism.theory.token_capacity._bins import real_tokens

# fmt: off
QUERIES = frozenset(
    (
        "q_proj", "query", "query_proj", "query_key_value", "c_attn", "qkv_proj", "qkv", "q_lin",
        "Wqkv", "wqkv", "q", "wq", "to_q", "q_a_proj", "att_proj",
    )
)
FIRST = frozenset(
    (
        "c_fc", "fc1", "lin1", "linear1", "dense_h_to_4h", "fc_in", "Wi", "wi", "wi_0", "ffn", "up",
        "up_proj", "gate_proj", "gate_up_proj", "w1",
    )
)
# fmt: on
MASKS, INPUTS = ("attention_mask", "key_mask"), ("input_ids", "inputs_embeds", "x")


def is_linear(module: Any) -> bool:
    """A linear map: of torch, of transformers' Conv1D kind, or one with an adapter around it."""
    if hasattr(module, "base_layer"):
        return is_linear(module.base_layer)
    kind = type(module).__name__
    return ("Linear" in kind or kind == "Conv1D") and getattr(getattr(module, "weight", None), "ndim", 0) == 2


def watched(model: Any, layers: Any) -> dict[str, Any]:
    """Modules by name: those asked for, or of each block the query map and the first map of its MLP."""
    modules = dict(model.named_modules())
    if isinstance(layers, str) and layers != "all":
        raise ValueError(f"layers must be 'all' or a list of names, got {layers!r}; pass [{layers!r}]")
    if layers != "all":
        names = list(layers)
        if not names:
            raise ValueError("layers must name at least one linear map, got none; pass 'all'")
        for name in names:
            if name not in modules or not is_linear(modules[name]):
                known = [key for key, module in modules.items() if is_linear(module)][:4]
                raise ValueError(
                    f"layers must name linear maps of the model, got {name!r}; it has {', '.join(known)}, ..."
                )
        if len(set(names)) < len(names):
            raise ValueError(f"layers must be distinct, got {names}; name each one once")
        return {name: modules[name] for name in names}
    found: dict[tuple[str, str], str] = {}
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if ".experts." in name or not is_linear(module):
            continue
        if last in QUERIES:
            found.setdefault((parent, "query"), name)
        elif last in FIRST or (last == "dense" and parent.rpartition(".")[2] == "intermediate"):
            found.setdefault((parent, "first"), name)
    if not found:
        raise ValueError("layers='all' found no query projection and no MLP in the model; name the layers")
    return {name: modules[name] for name in found.values()}


def refuse(model: Any) -> None:
    """Say which features are not supported."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        raise NotImplementedError("encoder-decoder models are not supported; pass the encoder alone")
    if getattr(config, "add_cross_attention", False):
        raise NotImplementedError("cross-attention is not supported; pass a model without it")
    if type(model).__name__ == "OptimizedModule":
        raise NotImplementedError("a model of torch.compile is not supported; pass the model itself")
    adapter = getattr(model, "active_peft_config", None)
    if getattr(adapter, "is_prompt_learning", False):
        raise NotImplementedError("prefix and prompt tuning are not supported; pass the base model")


def is_causal(model: Any) -> bool:
    """Whether attention hides later tokens, read from the attention modules."""
    found = {
        name: bool(module.is_causal)
        for name, module in model.named_modules()
        if isinstance(getattr(module, "is_causal", None), bool)
    }
    if not found and isinstance(getattr(getattr(model, "config", None), "causal", None), bool):
        return bool(model.config.causal)
    if not found:
        raise ValueError("causal cannot be read from the model's attention modules; pass True or False")
    if len(set(found.values())) > 1:
        yes, no = (next(name for name, value in found.items() if value is kind) for kind in (True, False))
        raise ValueError(
            f"causal must be the same in all attention modules, got True in {yes} and False in {no}; pass it"
        )
    return next(iter(found.values()))


def keywords(model: Any, batch: Any) -> dict[str, Any]:
    """A batch as keywords: a mapping, or one tensor for the first argument."""
    if isinstance(batch, Mapping) or hasattr(batch, "keys"):
        return {name: batch[name] for name in batch}
    if not is_tensor(batch):
        raise TypeError(f"a batch must be a mapping or a tensor, got {type(batch).__name__}; pass a dict")
    return {next(iter(inspect.signature(model.forward).parameters)): batch}


def read_batch(model: Any, batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What to call the model with, and which tokens are real, shape (B, T)."""
    for name in ("past_key_values", "cache"):
        if batch.get(name) is not None:
            raise NotImplementedError(f"{name} is not supported; pass whole sequences without a cache")
    if batch.get("output_attentions"):
        raise NotImplementedError("output_attentions is not supported; leave it out")
    candidates = [batch[name] for name in INPUTS if is_tensor(batch.get(name))]
    candidates += [v for name, v in batch.items() if is_tensor(v) and v.ndim > 1 and name not in MASKS]
    if not candidates or candidates[0].ndim < 2:
        raise ValueError("a batch must have a tensor of shape (B, T) or more axes, got none; pass input_ids")
    shape = tuple(int(size) for size in candidates[0].shape[:2])
    if 0 in shape:
        raise ValueError(f"a batch must have at least one row and one token, got shape {shape}; drop it")
    masks = [batch[name] for name in MASKS if batch.get(name) is not None]
    mask = real_tokens(masks[0] if masks else None, shape)
    places = batch.get("position_ids")
    if places is not None and tuple(places.shape) == shape:
        for row, real in zip(np.asarray(places.detach().cpu()), mask, strict=True):
            if (np.diff(row[real]) < 0).any():
                raise NotImplementedError(
                    "packed sequences (position_ids restart) are not supported; unpack them"
                )
    arguments = inspect.signature(model.forward).parameters
    extra: dict[str, Any] = {}
    if "use_cache" in arguments:
        extra["use_cache"] = False
    if "logits_to_keep" in arguments:
        extra["logits_to_keep"] = 1
    return {**{name: value for name, value in batch.items() if name != "labels"}, **extra}, mask
