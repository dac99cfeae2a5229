"""Arrays and tensors in and out of NumPy: views where possible."""

from typing import Any

import numpy as np

__all__ = ["kind", "like", "part"]


def kind(*values: Any) -> Any:
    """Precision of the result: float64 if one of the values has it, else float32."""
    wide = any(
        str(value.dtype).rpartition(".")[2] in ("float64", "longdouble", "float128") for value in values
    )
    return np.float64 if wide else np.float32


def part(value: Any, first: int, last: int, kind: Any) -> Any:
    """Positions first..last-1 as an array (position, example, feature)."""
    some = value[:, first:last]
    if hasattr(some, "detach"):
        some = some.cpu()
        some = (some.float() if some.element_size() < 4 else some).numpy()
    return some.astype(kind, copy=False).transpose(1, 0, 2)


def like(out: Any, value: Any, kind: Any) -> Any:
    """An array as one of that precision, or as a tensor where `value` is one."""
    out = out.astype(kind, copy=False)
    if not hasattr(value, "detach"):
        return out
    import torch

    return torch.from_numpy(out).to(value.device)
