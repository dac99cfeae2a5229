"""A model from a folder of this machine; a name is never looked up anywhere."""

import os
import warnings
from pathlib import Path
from typing import Any

from porism.checks import require
from porism.sims._checkpoints import first_line, load_model, load_tokenizer
from porism.theory.lora_spectrum.adapters import read_adapter_config

__all__ = ["resolve"]

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
        found, folder = _adapted(folder, base)
    elif base is not None:
        raise ValueError(f"base goes with a folder of an adapter, got {folder.name!r}; leave base out")
    else:
        found = load_model(folder)
    return found, load_tokenizer(folder) if words and tokenizer is None else tokenizer


def _adapted(folder: Path, base: Any) -> tuple[Any, Path]:
    """The adapted model, and the folder of its base."""
    config = read_adapter_config(folder)  # refuses weights that are a pickle
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
    plain = load_model(base, HEADS.get(str(config.get("task_type")), "AutoModel"), "base")
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        try:
            found = peft.PeftModel.from_pretrained(plain, str(folder))
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(f"adapter {folder.name!r} does not fit its base: {first_line(error)}") from error
    if any("missing adapter keys" in str(doubt.message) for doubt in doubts):
        raise ValueError(f"adapter {folder.name!r} does not fit its base: modules are missing; check base")
    return found.eval(), Path(base)
