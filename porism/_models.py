"""A model as an object: its linear maps, how its attention looks, and what one batch of tokens is."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "check_ids",
    "is_causal",
    "is_cross",
    "is_linear",
    "is_mapping",
    "keywords",
    "known_maps",
    "linear_maps",
    "quiet",
    "read_tokens",
    "real_tokens",
    "refuse",
]

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
CROSS = frozenset(("encoder_attn", "crossattention", "cross_attn", "cross_attention", "encdecattention"))
MASKS, INPUTS = ("attention_mask", "key_mask"), ("input_ids", "inputs_embeds", "x")
Mask = NDArray[np.bool_]


def is_mapping(inputs: Any) -> bool:
    """Whether inputs are keywords: a dict, or a tokenizer's output."""
    return isinstance(inputs, Mapping) or hasattr(inputs, "keys")


def is_linear(module: Any) -> bool:
    """A linear map: of torch, of transformers' Conv1D kind, or one with an adapter around it."""
    if hasattr(module, "base_layer"):
        return is_linear(module.base_layer)
    kind = type(module).__name__
    return ("Linear" in kind or kind == "Conv1D") and getattr(getattr(module, "weight", None), "ndim", 0) == 2


def is_cross(name: str) -> bool:
    """Whether a module is part of a cross-attention, which decoders used by themselves do not run."""
    return any(part.casefold() in CROSS for part in name.split("."))


def known_maps(model: Any) -> dict[str, Any]:
    """Of each block the query map and the first map of its MLP, by name, where their names are known."""
    modules = dict(model.named_modules())
    found: dict[tuple[str, str], str] = {}
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if ".experts." in name or is_cross(name) or not is_linear(module):
            continue
        if last in QUERIES:
            found.setdefault((parent, "query"), name)
        elif last in FIRST or (last == "dense" and parent.rpartition(".")[2] == "intermediate"):
            found.setdefault((parent, "first"), name)
    return {name: modules[name] for name in found.values()}


def linear_maps(model: Any, layers: Any) -> dict[str, Any]:
    """The linear maps asked for, by name; "all" means `known_maps`."""
    if isinstance(layers, str):
        if layers != "all":
            raise ValueError(f"layers must be 'all' or a list of names, got {layers!r}; pass [{layers!r}]")
        found = known_maps(model)
        if not found:
            raise ValueError(
                "layers='all' found no query projection and no MLP in the model; name the layers"
            )
        return found
    modules, names = dict(model.named_modules()), list(layers)
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


def refuse(model: Any) -> None:
    """Say which kinds of model are not supported."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        raise NotImplementedError("encoder-decoder models are not supported; pass the encoder alone")
    if getattr(config, "add_cross_attention", False):
        raise NotImplementedError("cross-attention is not supported; pass a model without it")
    if getattr(model, "main_input_name", None) == "pixel_values":
        raise NotImplementedError("images are not supported: pixels have no axis of tokens; pass text")
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
        if isinstance(getattr(module, "is_causal", None), bool) and not is_cross(name)
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
    if is_mapping(batch):
        return {name: batch[name] for name in batch}
    if not _is_tensor(batch):
        raise TypeError(f"a batch must be a mapping or a tensor, got {type(batch).__name__}; pass a dict")
    return {next(iter(inspect.signature(model.forward).parameters)): batch}


def quiet(model: Any) -> dict[str, bool]:
    """Keywords that keep a model from a cache, and from collecting every layer's maps or states."""
    arguments = inspect.signature(model.forward).parameters
    config = getattr(model, "config", None)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in arguments.values())
    found = ["use_cache"] if "use_cache" in arguments else []
    for name in ("output_attentions", "output_hidden_states"):
        if getattr(config, name, False) and (name in arguments or open_ended):
            found.append(name)
    return dict.fromkeys(found, False)


def read_tokens(model: Any, batch: dict[str, Any]) -> tuple[dict[str, Any], Mask]:
    """What to call the model with for the sake of its hidden states, and which tokens are real, (B, T)."""
    for name in ("past_key_values", "cache"):
        if batch.get(name) is not None:
            raise NotImplementedError(f"{name} is not supported; pass whole sequences without a cache")
    if batch.get("output_attentions"):
        raise NotImplementedError("output_attentions is not supported; leave it out")
    candidates = [batch[name] for name in INPUTS if _is_tensor(batch.get(name))]
    if not candidates and batch.get("pixel_values") is not None:
        raise NotImplementedError("images are not supported: pixel_values have no axis of tokens; pass text")
    candidates += [v for name, v in batch.items() if _is_tensor(v) and v.ndim > 1 and name not in MASKS]
    if not candidates or candidates[0].ndim < 2:
        raise ValueError(
            "a batch must have a tensor of shape (B, T) or more axes, got none; pass input_ids as a tensor"
        )
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
    extra: dict[str, int] = dict(quiet(model))
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        extra["logits_to_keep"] = 1
    return {**{name: value for name, value in batch.items() if name != "labels"}, **extra}, mask


def real_tokens(mask: Any, shape: tuple[int, ...]) -> Mask:
    """Checked mask of real tokens, shape (N, T)."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    found = np.asarray(mask.detach().cpu() if _is_tensor(mask) else mask)
    if found.ndim > 2:
        raise NotImplementedError(
            f"attention_mask of {found.ndim} axes is not supported; pass the padding mask of shape {shape}"
        )
    if found.shape != tuple(shape):
        raise ValueError(f"attention_mask must have shape {shape}, got {found.shape}; pass one entry a token")
    real = found != 0
    empty = np.flatnonzero(~real.any(1))
    if empty.size:
        raise ValueError(f"row {int(empty[0])} is all padding; drop it or mark its real tokens")
    return real


def check_ids(model: Any, ids: Any) -> None:
    """Say so where ids are not in the model's vocabulary, before an index error says it."""
    try:
        embed = getattr(model, "get_input_embeddings", lambda: None)()
    except NotImplementedError:  # a model that has none of the usual name
        return
    size = getattr(embed, "num_embeddings", None)
    if size is None:
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= size:
        raise ValueError(
            f"input_ids must be in 0..{size - 1}, the model's vocabulary, got {low if low < 0 else high}; "
            "use the tokenizer of this model"
        )


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach")
