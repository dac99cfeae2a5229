"""What a sweep is given: items of a grid, their random streams, and a function with its name and source."""

import functools
import hashlib
import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from porism.checks import integer

__all__ = ["Grid", "accepts", "items_of", "key", "name_of", "plain", "source_of", "stream"]

Grid = Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]]


def items_of(grid: Grid) -> list[dict[str, Any]]:
    if isinstance(grid, Mapping):
        axes = []
        for name, values in grid.items():
            if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
                raise TypeError(
                    f"grid[{name!r}] must be a list of values, got {type(values).__name__} {values!r}; "
                    "put a single one in a list"
                )
            axes.append(list(values))
        listed: list[Any] = [dict(zip(grid, point, strict=True)) for point in itertools.product(*axes)]
    elif isinstance(grid, Iterable) and not isinstance(grid, str | bytes):
        listed = list(grid)
    else:
        raise TypeError(
            f"grid must be a mapping of lists or a list of mappings, got {type(grid).__name__}; "
            "write {'size': [10, 100]}"
        )
    if not listed:
        raise ValueError("grid must have at least one item, got none; give every name at least one value")
    items = []
    for item in listed:
        if not isinstance(item, Mapping) or not all(isinstance(name, str) for name in item):
            raise TypeError(
                f"grid must list mappings of names to values, got {item!r}; write {{'size': 10}} for an item"
            )
        if taken := {"rng", "error"} & item.keys():
            raise ValueError(
                f"grid must not use the name {min(taken)!r}, got {', '.join(item)}; rename that parameter"
            )
        items.append({name: plain(f"grid[{name!r}]", value) for name, value in item.items()})
    return items


def plain(name: str, value: Any) -> Any:
    """Python value of a number, text, bool, None, or a list of such."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return integer(name, value, -(2**63), 2**63 - 1)
    if isinstance(value, list | tuple):
        return [plain(name, entry) for entry in value]
    raise TypeError(
        f"{name} must be a number, text, None, or a list of such, got {type(value).__name__}; "
        "use its name or its numbers in place of the object"
    )


def key(item: dict[str, Any]) -> str:
    return json.dumps(item, sort_keys=True)


def stream(key: str, seed: int, repetition: int) -> np.random.SeedSequence:
    words = np.frombuffer(hashlib.sha256(key.encode()).digest(), dtype="<u4").tolist()
    return np.random.SeedSequence(seed, spawn_key=(*words, repetition))


def accepts(function: Callable[..., Any], items: list[dict[str, Any]]) -> None:
    if not callable(function):
        raise TypeError(
            f"function must be callable, got {type(function).__name__}; pass it without calling it"
        )
    try:
        signature = inspect.signature(function)
    except ValueError:  # compiled, without a signature
        return
    for names in {tuple(item) for item in items}:
        try:
            signature.bind(**dict.fromkeys(names), rng=None)
        except TypeError as error:
            raise TypeError(
                f"function must accept {', '.join((*names, 'rng'))} by name, got {name_of(function)}"
                f"{signature} ({error}); add what is missing, or take **others"
            ) from None


def name_of(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        import joblib

        bound = joblib.hash((function.args, function.keywords))
        return f"{name_of(function.func)} with {bound[:16]}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def source_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    try:
        text = inspect.getsource(function if hasattr(function, "__qualname__") else type(function))
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()
