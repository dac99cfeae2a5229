"""Which models and inputs are supported, and what each family takes as positions."""

import inspect
from typing import Any

from porism.checks import require

MIXERS = {"full_attention", "sliding_attention"}
CACHES = ("past_key_values", "past_key_value", "cache", "cache_params", "cache_position", "use_cache")
CROSS = ("encoder_hidden_states", "encoder_attention_mask", "encoder_outputs", "decoder_input_ids",
         "cross_attn_head_mask")  # fmt: skip


def unwrap(model: Any) -> tuple[Any, Any]:
    """The model of transformers and its backbone, out of a PeftModel if it is in one."""
    require("torch", "torch")
    transformers = require("transformers", "hf")
    if hasattr(model, "_orig_mod"):
        raise _unsupported("a model after torch.compile", "pass the model itself")
    if hasattr(model, "get_base_model") and hasattr(model, "peft_config"):
        for config in model.peft_config.values():
            if config.is_prompt_learning:
                raise _unsupported(f"prompt or prefix tuning ({config.peft_type})", "use LoRA")
            if getattr(config, "alora_invocation_tokens", None):
                raise _unsupported("activated LoRA (alora_invocation_tokens)", "use LoRA")
        model = model.get_base_model()
    if not isinstance(model, transformers.PreTrainedModel):
        raise TypeError(
            f"model must be a transformers.PreTrainedModel or a peft.PeftModel, got {type(model).__name__}; "
            "take it out of other wrappers"
        )
    backbone = model.base_model
    check(backbone)
    return model, backbone


def check(backbone: Any) -> None:
    """Refuse what is known to be wrong before anything runs."""
    torch = require("torch", "torch")
    config, name = backbone.config, type(backbone).__name__
    if getattr(config, "is_encoder_decoder", False):
        raise _unsupported(f"an encoder-decoder ({name})", "use a decoder or an encoder alone")
    if getattr(config, "add_cross_attention", False):
        raise _unsupported(f"cross-attention ({name})", "use a decoder or an encoder alone")
    kinds = set(getattr(config, "layer_types", None) or ()) - MIXERS
    if kinds:
        raise _unsupported(f"{name} with layers of type {sorted(kinds)}", "train it on all positions")
    if getattr(config, "attention_chunk_size", None):
        raise _unsupported(f"{name} with chunked attention", "train it on all positions")
    if not getattr(backbone, "_can_set_attn_implementation", lambda: True)():
        raise _unsupported(
            f"{name}, whose attention does not go through transformers' registry", "train it on all positions"
        )
    if config.output_attentions:
        raise _unsupported("output_attentions", "set config.output_attentions = False")
    for module in backbone.modules():
        if getattr(module, "gradient_checkpointing", False) is True:
            raise _unsupported("active gradient checkpointing", "call gradient_checkpointing_disable()")
        if getattr(module, "_compiled_call_impl", None) is not None:
            raise _unsupported("a model after torch.compile", "pass the model itself")
        if isinstance(module, torch.nn.Conv1d) and module.kernel_size != (1,):
            raise _unsupported(f"{name} with convolutions over positions", "train it on all positions")


def read_causal(backbone: Any, causal: bool | None) -> bool:
    """Whether attention is causal, as all attention modules say."""
    if causal is not None and not isinstance(causal, bool):
        raise TypeError(f"causal must be True, False or None, got {causal!r}; None reads it from the model")
    said = {m.is_causal for m in backbone.modules() if isinstance(getattr(m, "is_causal", None), bool)}
    name = type(backbone).__name__
    if len(said) > 1:
        raise ValueError(
            f"{name} mixes causal and bidirectional attention, which is not supported; "
            "train it on all positions"
        )
    if not said and causal is None:
        raise ValueError(
            f"causal cannot be read from {name}: no attention module says; pass causal=True or False"
        )
    if said and causal is not None and causal not in said:
        raise ValueError(
            f"causal must agree with {name}, whose attention is causal={not causal}, got {causal}; "
            "leave it out"
        )
    return causal if causal is not None else said.pop()


def check_inputs(backbone: Any, extra: dict[str, Any], shape: tuple[int, int]) -> None:
    """Accept inputs that have a value for each token; name the feature of any other."""
    torch = require("torch", "torch")
    known = inspect.signature(backbone.forward).parameters
    for name, value in extra.items():
        if name == "labels":
            raise TypeError("forward takes no labels; call loss(labels, positions, ...)")
        if value is None or (name == "use_cache" and value is False):
            continue
        if name in CACHES:
            raise _unsupported(f"a cache ({name})", "leave it out")
        if name in CROSS:
            raise _unsupported(f"cross-attention ({name})", "leave it out")
        if name == "output_attentions":
            if value:
                raise _unsupported("output_attentions", "run the model itself for attention maps")
            continue
        if name not in known:
            raise TypeError(f"{type(backbone).__name__} takes no input {name!r}; check the spelling")
        if not isinstance(value, torch.Tensor) or tuple(value.shape[:2]) != shape:
            got = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise ValueError(
                f"{name} must be a tensor (B, T, ...) = {shape} with a value for each token, got {got}"
            )


def position_ids(backbone: Any, given: Any, ids: Any, real: Any, causal: bool, masked: bool) -> Any:
    """Explicit position ids (B, T): the caller's own, or what the model takes by itself."""
    torch = require("torch", "torch")
    rows, length = real.shape
    if given is not None:
        if not isinstance(given, torch.Tensor) or tuple(given.shape) not in (
            (length,),
            (1, length),
            (rows, length),
        ):
            got = tuple(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
            raise ValueError(f"position_ids must have shape ({rows}, {length}), got {got}; pass one a token")
        given = given.expand(rows, length)
        _refuse_packed(given, real, causal and not masked)
        return given
    arange = torch.arange(length, device=real.device).expand(rows, length)
    for module in backbone.modules():
        if hasattr(module, "create_position_ids_from_input_ids") and hasattr(module, "padding_idx"):
            pad = module.padding_idx  # RoBERTa's family counts from padding_idx + 1
            if ids is None:
                return arange + pad + 1
            token = ids != pad
            return token.long().cumsum(1) * token + pad
    if getattr(backbone.config, "model_type", "") == "opt":  # counts real tokens, padding is -1
        return real.long().cumsum(1) * real - 1
    return arange


def _refuse_packed(ids: Any, real: Any, strict: bool) -> None:
    """Positions that restart mean packed sequences; without a mask transformers reads gaps so too."""
    torch = require("torch", "torch")
    for row in range(len(ids)):
        step = ids[row][real[row]].diff()
        bad = (step != 1) if strict else (step <= 0)
        if bool(torch.any(bad)):
            raise _unsupported(
                f"packed sequences (position_ids of row {row} do not go up one by one)",
                "pass one sequence a row and an attention_mask",
            )


def check_rope(backbone: Any, ids: Any) -> None:
    """Rotary frequencies that depend on the longest position would differ between the passes."""
    config = backbone.config
    queue = [getattr(config, "rope_parameters", None), getattr(config, "rope_scaling", None)]
    while queue:
        found = queue.pop()
        if not isinstance(found, dict):
            continue
        queue += list(found.values())
        kind = found.get("rope_type", found.get("type"))
        if kind in ("dynamic", "longrope"):
            limit = found.get("original_max_position_embeddings") or getattr(
                config, "original_max_position_embeddings", config.max_position_embeddings
            )
            if int(ids.max()) >= limit:
                raise _unsupported(f"rope type {kind!r} beyond {limit} positions", "shorten the sequences")


def takes(model: Any, name: str) -> bool:
    """Whether a model's forward names this input."""
    return name in inspect.signature(model.forward).parameters


def _unsupported(what: str, way_out: str) -> NotImplementedError:
    return NotImplementedError(f"subset back-propagation does not support {what}; {way_out}")
