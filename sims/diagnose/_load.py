"""A model from a folder of this machine; a name is never looked up anywhere."""

import os
import warnings
from pathlib import Path
from typing import Any

from porism.checks import require
from porism.sims.pattern.worlds import _quiet

__all__ = ["resolve"]

OPTIONS = {"local_files_only": True, "trust_remote_code": False}
HEADS = {
    "CAUSAL_LM": "AutoModelForCausalLM",
    "SEQ_CLS": "AutoModelForSequenceClassification",
    "TOKEN_CLS": "AutoModelForTokenClassification",
}
"""What an adapter's task was trained on, which decides how its modules are called."""


def resolve(model: Any, tokenizer: Any, base: Any, words: bool) -> tuple[Any, Any]:
    """The model object and, where the data are words, a tokenizer."""
    if not isinstance(model, (str, os.PathLike)):
        torch = require("torch", "torch")
        if not isinstance(model, torch.nn.Module):
            raise TypeError(
                f"model must be a torch.nn.Module or a folder, got {type(model).__name__}; "
                "pass the model object"
            )
        if base is not None:
            raise ValueError("base goes with a folder of an adapter, got a model object; leave base out")
        if words and tokenizer is None:
            raise ValueError(
                "tokenizer must be given where batches are words, got None; pass the model's own"
            )
        return model, tokenizer
    folder = Path(model)
    if (folder / "adapter_config.json").is_file():
        return _adapted(folder, tokenizer, base, words)
    if base is not None:
        raise ValueError(f"base goes with a folder of an adapter, got {folder.name!r}; leave base out")
    found = _from("model", folder, "AutoModel")
    return found.eval(), _tokenizer(folder) if words and tokenizer is None else tokenizer


def _from(what: str, folder: Path, auto: str) -> Any:
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"{what} must be a model object or a folder with a config.json, got {str(folder)!r}; names are "
            "not looked up on a hub: download the checkpoint and pass its folder"
        )
    transformers = require("transformers", "hf")
    with _quiet(transformers):
        try:
            # the older pytorch_model.bin is a pickle, which can run code
            return getattr(transformers, auto).from_pretrained(folder, use_safetensors=True, **OPTIONS)
        except MemoryError:
            raise
        except Exception as error:  # each library on the way refuses damaged files in its own way
            raise ValueError(f"{what} folder {folder.name!r} cannot be loaded: {_first(error)}") from error


def _tokenizer(folder: Path) -> Any:
    transformers = require("transformers", "hf")
    with _quiet(transformers):
        try:
            found = transformers.AutoTokenizer.from_pretrained(folder, **OPTIONS)
        except Exception as error:
            raise ValueError(f"folder {folder.name!r} holds no tokenizer: {_first(error)}") from error
    if not set(found.get_vocab()) - set(found.all_special_tokens):  # made up where files are missing
        raise ValueError(f"folder {folder.name!r} holds no tokenizer; save one there or pass token ids")
    return found


def _adapted(folder: Path, tokenizer: Any, base: Any, words: bool) -> tuple[Any, Any]:
    from porism.theory.lora_spectrum import _adapter_files

    file, _ = _adapter_files.locate(folder)  # refuses weights that are a pickle
    config = _adapter_files.read_config(file)
    named = config.get("base_model_name_or_path")
    if base is None:
        there = [
            place for place in (folder / str(named), Path(str(named))) if (place / "config.json").is_file()
        ]
        if not named or not there:
            raise ValueError(
                f"model folder {folder.name!r} holds an adapter of {named!r}, which is no folder here and is "
                "not looked up on a hub; pass base, the folder of the base model"
            )
        base = there[0]
    peft = require("peft", "hf")
    plain = _from("base", Path(base), HEADS.get(str(config.get("task_type")), "AutoModel"))
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        try:
            found = peft.PeftModel.from_pretrained(plain, str(folder))
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(f"adapter {folder.name!r} does not fit its base: {_first(error)}") from error
    if any("missing adapter keys" in str(doubt.message) for doubt in doubts):
        raise ValueError(f"adapter {folder.name!r} does not fit its base: modules are missing; check base")
    return found.eval(), _tokenizer(Path(base)) if words and tokenizer is None else tokenizer


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
