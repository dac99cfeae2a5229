"""Theorems of recent machine-learning papers as things one can run.

`porism.theory` computes what a paper proves, `porism.sims` builds worlds in which it could be refuted,
`porism.kernels` makes it fast, and `porism.claims` says in one line what was promised and whether it held.
Importing `porism` loads none of them: each is imported on first use.
"""

import importlib
from typing import Any

__all__ = ["__version__", "checks", "claims", "diagnose", "errors", "kernels", "results", "sims", "theory"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("porism")
    if name == "diagnose":
        return importlib.import_module("porism.sims.diagnose").diagnose
    if name in __all__:
        return importlib.import_module(f"porism.{name}")
    raise AttributeError(f"module 'porism' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
