"""The pivot as one line in a script that trains with transformers' Trainer.

`PivotCallback` comes on first use, so that importing this file loads no transformers; without transformers it
is not there.
"""

import importlib.util
from typing import TYPE_CHECKING, Any

from porism.checks import require

if TYPE_CHECKING:
    from porism.sims.alignment._callback import PivotCallback

__all__: list[str] = []

if TYPE_CHECKING or importlib.util.find_spec("transformers"):
    __all__ += ["PivotCallback"]


def __getattr__(name: str) -> Any:
    if name != "PivotCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("torch", "torch")
    require("transformers", "hf")
    from porism.sims.alignment._callback import PivotCallback

    globals()[name] = PivotCallback
    return PivotCallback
