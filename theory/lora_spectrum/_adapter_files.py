"""The files of a saved peft adapter: its config, which tensors pair up, and the scaling of each pair."""

import math
import re
from pathlib import Path
from typing import Any

from porism._files import read_json

__all__: list[str] = []

CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."
"""What peft puts before the module names of the base model."""

_FACTOR = re.compile(r"(?P<module>.+)\.(?P<kind>lora_(?:embedding_)?)(?P<side>[AB])(?:\.weight)?")
_NOT_BA = ("use_bdlora", "use_qalora", "kasa_config", "arrow_config", "monteclora_config")
_ASSIGNED = {"rank_pattern": int, "alpha_pattern": (int, float)}


def locate(path: Path) -> tuple[Path, Path]:
    """Find the config and the weights in an adapter folder."""
    config, weights = path / CONFIG, path / WEIGHTS
    if config.is_file() and weights.is_file():
        return config, weights
    why = f"{path} must be a folder with {CONFIG} and {WEIGHTS}"
    if path.is_file():
        raise FileNotFoundError(f"{why}, got a file; pass the folder that it lies in")
    if not path.is_dir():
        raise FileNotFoundError(f"{why}, but there is no such folder; check the path")
    if config.is_file() and (path / PICKLED).is_file():
        raise FileNotFoundError(
            f"{why}, got {PICKLED}, which is a pickle and can run code; load it with peft and "
            "save it again with safe_serialization=True"
        )
    missing = [file.name for file in (config, weights) if not file.is_file()]
    inside = sorted(file.parent.name for file in path.glob(f"*/{CONFIG}"))
    way = f"pass one of its folders {inside}" if inside else "save the adapter with save_pretrained"
    raise FileNotFoundError(f"{why}, but {' and '.join(missing)} is missing; {way}")


def read_config(path: Path) -> dict[str, Any]:
    """Read the config and check the fields that decide about a scaling."""
    try:
        config = read_json(path)
    except ValueError:
        raise ValueError(f"{path} is not a JSON file; copy or save the adapter again") from None
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else type(config).__name__
        raise ValueError(
            f"{path} must have peft_type 'LORA', got {kind!r}; other methods do not store B and A"
        )
    for name in _NOT_BA:
        if config.get(name):
            raise ValueError(f"{path} has {name}, with which the update is not B @ A; no spectrum is read")
    for name in _ASSIGNED:
        config[name] = {} if config.get(name) is None else config[name]
    config["target_parameters"] = config.get("target_parameters") or []
    checks = {
        "r": _is_number(config.get("r"), int) and config["r"] >= 1,
        "lora_alpha": _is_number(config.get("lora_alpha"), (int, float)),
        "target_parameters": isinstance(config["target_parameters"], list),
        **{name: _is_pattern(config[name], kind) for name, kind in _ASSIGNED.items()},
    }
    for name, good in checks.items():
        if not good:
            raise ValueError(f"{path} has no usable {name}, got {config.get(name)!r}; save the adapter again")
    return config


def pairs(names: list[str]) -> tuple[dict[str, tuple[str, str, str]], list[str]]:
    """Sort tensor names into modules, name -> (B, A, kind), and the rest."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    rest = []
    for name in names:
        match = _FACTOR.fullmatch(name)
        if match is None:
            rest.append(name)
            continue
        kind = "embedding" if "embedding" in match["kind"] else ""
        found.setdefault(match["module"].removeprefix(PREFIX), {})[match["side"]] = (name, kind)
    for module, sides in found.items():
        if len(sides) < 2:
            have, lack = ("A", "B") if "A" in sides else ("B", "A")
            raise KeyError(
                f"{module} has lora_{have} but no lora_{lack}; the file is incomplete, save the adapter again"
            )
    return {m: (s["B"][0], s["A"][0], s["B"][1]) for m, s in found.items()}, rest


def assigned(module: str, config: dict[str, Any]) -> tuple[int, float, bool]:
    """Find rank and alpha of a module by peft's rule, and whether it wraps a parameter."""
    inner = re.sub(r"(\.base_layer)+$", "", module)
    wrapped = [
        f"{inner}.{target.rpartition('.')[2]}"
        for target in config["target_parameters"]
        if f".{inner}".endswith(f".{target.rpartition('.')[0]}".rstrip("."))
    ]
    # the output map inside an attention layer of torch takes the settings of that layer
    keys = wrapped or [module.partition(".base_layer.")[0]]
    values = {
        (
            _first(config["rank_pattern"], key, config["r"]),
            _first(config["alpha_pattern"], key, config["lora_alpha"]),
        )
        for key in keys
    }
    if len(values) > 1:
        raise ValueError(
            f"{module} may stand for any of {wrapped}, and the patterns give them different ranks or alphas; "
            "the file does not say which it is"
        )
    rank, alpha = values.pop()
    return rank, alpha, bool(wrapped)


def scaling(rank: int, alpha: float, rslora: bool) -> float:
    """Compute the factor of BA: alpha / r, or alpha / sqrt(r) for rank-stabilised LoRA."""
    return alpha / (math.sqrt(rank) if rslora else rank)


def _first(patterns: dict[str, Any], name: str, default: Any) -> Any:
    for pattern, value in patterns.items():  # in the order of the file, as peft does when it loads one
        if re.match(rf"(.*\.)?({pattern})$", name):
            return value
    return default


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)


def _is_pattern(value: Any, kind: Any) -> bool:
    try:
        return isinstance(value, dict) and all(
            _is_number(v, kind) and (kind is not int or v >= 1) and bool(re.compile(p))
            for p, v in value.items()
        )
    except re.error:
        return False
