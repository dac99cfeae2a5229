"""Subpackages that load on first use."""

import importlib
from collections.abc import Callable
from typing import Any

__all__: list[str] = []


def submodules(package: str) -> Callable[[str], Any]:
    """Make a module `__getattr__` that imports the submodule asked for."""

    def load(name: str) -> Any:
        full = f"{package}.{name}"
        if not name.startswith("_"):
            try:
                return importlib.import_module(full)
            except ModuleNotFoundError as error:
                if error.name != full:  # it is there, but something it needs is not
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
