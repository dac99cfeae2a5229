"""Subpackages and names that load on first use."""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__: list[str] = []


def submodules(package: str, later: Mapping[str, Iterable[str]] | None = None) -> Callable[[str], Any]:
    """Make a module `__getattr__` that imports the submodule, or the name of one, that is asked for.

    `later` gives names by submodule, or by the full name of a module.
    """
    homes = {
        name: module if module.startswith("porism.") else f"{package}.{module}"
        for module, names in (later or {}).items()
        for name in names
    }

    def load(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(homes[name]), name)
            setattr(sys.modules[package], name, value)  # found without this function from now on
            return value
        full = f"{package}.{name}"
        if not name.startswith("_"):
            try:
                return importlib.import_module(full)
            except ModuleNotFoundError as error:
                if error.name != full:  # it is there, but something it needs is not
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
