"""A model or a tokenizer from a folder of this machine; a name is never looked up anywhere."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from porism.checks import require

__all__ = ["first_line", "load_model", "load_tokenizer"]

OPTIONS = {"local_files_only": True, "trust_remote_code": False}


def load_model(
    folder: str | os.PathLike[str], kind: str = "AutoModel", what: str = "model", **options: Any
) -> Any:
    """The model in evaluation mode, from safetensors only: the older pickle can run code."""
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise ValueError(
            f"{what} must be a folder with a config.json, got {str(folder)!r}; names are not looked up on a "
            "hub: download the checkpoint and pass its folder"
        )
    transformers = require("transformers", "hf")
    with _quiet(transformers):
        try:
            load = getattr(transformers, kind).from_pretrained
            found, told = load(path, use_safetensors=True, output_loading_info=True, **OPTIONS, **options)
        except MemoryError:
            raise
        except Exception as error:  # each library on the way refuses damaged files in its own way
            raise ValueError(f"{what} folder {path.name!r} cannot be loaded: {first_line(error)}") from error
    lost = sorted(key for key in told["missing_keys"] if _in_block(key))
    own = next(iter(getattr(found.config, "architectures", None) or []), kind)
    if lost and kind == "AutoModel" and hasattr(transformers, str(own)):  # a part that has its own class
        return load_model(folder, own, what, **options)
    if lost:  # they would be drawn at random; heads and poolers may be
        raise ValueError(
            f"{what} folder {path.name!r} lacks {len(lost)} weights of {type(found).__name__}, such as "
            f"{lost[0]}; save it whole, or pass the model object"
        )
    return found.eval()


def _in_block(key: str) -> bool:
    return "embed" in key or any(part.isdigit() for part in key.split("."))


def load_tokenizer(folder: str | os.PathLike[str]) -> Any:
    """The tokenizer that was saved there."""
    transformers, name = require("transformers", "hf"), Path(folder).name
    with _quiet(transformers):
        try:
            found = transformers.AutoTokenizer.from_pretrained(Path(folder), **OPTIONS)
        except Exception as error:
            raise ValueError(f"folder {name!r} holds no tokenizer: {first_line(error)}") from error
    if not set(found.get_vocab()) - set(found.all_special_tokens):  # made up where files are missing
        raise ValueError(f"folder {name!r} holds no tokenizer; save one there")
    return found


def first_line(error: Exception) -> str:
    """What an error says, or its kind."""
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep progress bars and advice off the terminal while a model loads."""
    log = transformers.utils.logging
    bars, level = log.is_progress_bar_enabled(), log.get_verbosity()
    log.disable_progress_bar()
    log.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
