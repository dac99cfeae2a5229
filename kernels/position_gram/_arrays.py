"""What the CPU path and the reference share: precision of the result, and positions as arrays."""

from typing import Any

import numpy as np

from porism.checks import detached

__all__ = ["kind", "part"]


def kind(*values: Any) -> Any:
    """Precision of the result: float64 if one of the values has it, else float32."""
    types = [str(value.dtype).rpartition(".")[2] for value in values]
    return np.float64 if {"float64", "longdouble", "float128"}.intersection(types) else np.float32


def part(value: Any, first: int, last: int, kind: Any) -> Any:
    """Positions first..last-1 as an array (position, example, feature); a view where possible."""
    return detached(value[:, first:last]).astype(kind, copy=False).transpose(1, 0, 2)
