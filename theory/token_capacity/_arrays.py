"""What numbers come in: numpy or torch, half precision, positions."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import detached


def is_tensor(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def library_of(value: Any) -> Any:
    return sys.modules["torch"] if is_tensor(value) else np


def native(name: str, value: Any, ndim: int | None = None) -> Any:
    """Finite floats as they are, half precision as float32; a tensor stays a tensor."""
    tensor = is_tensor(value)
    x: Any = value if tensor else _array(name, value)
    if not (x.is_floating_point() if tensor else x.dtype.kind == "f"):
        raise TypeError(f"{name} must hold floats, got dtype {x.dtype}; convert it to float first")
    if x.dtype.itemsize < 4:
        x = x.float() if tensor else x.astype(np.float32)
    if ndim is not None and x.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {tuple(x.shape)}; reshape it")
    if not _finite(x):
        raise ValueError(f"{name} must be finite, got NaN or infinity; drop or replace these values")
    return x


def _array(name: str, value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{name} must be a rectangular array, got rows of unequal length; pad or split them"
        ) from None


def _finite(x: Any) -> bool:
    """Without a mask of the size of x where torch holds it."""
    if is_tensor(x) and x.numel():
        x = sys.modules["torch"].stack(x.detach().aminmax())  # carries NaN
    return bool(library_of(x).isfinite(x).all())


def float64(name: str, value: Any, ndim: int | None = None) -> NDArray[np.float64]:
    """The same as a float64 array in main memory, without a gradient."""
    x = native(name, value, ndim)
    if is_tensor(x):
        x = x.detach().cpu().double().numpy()
    found: NDArray[np.float64] = np.asarray(x, dtype=np.float64)
    return found


def not_empty(name: str, shape: Sequence[int], axes: str) -> None:
    if 0 in tuple(shape):
        raise ValueError(
            f"{name} must have no empty axis ({axes}), got shape {tuple(shape)}; pass at least one of each"
        )


def integers(name: str, value: Any, ndim: int) -> NDArray[np.int64]:
    """Whole numbers as int64; bools and floats are refused."""
    x = _array(name, detached(value))
    if x.size and x.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold ints, got dtype {x.dtype}; convert it to integers first")
    if x.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {x.shape}; reshape it")
    return x.astype(np.int64)


def chosen(name: str, positions: Any, total: int) -> NDArray[np.int64]:
    """Distinct positions in [0, total)."""
    if not hasattr(positions, "__len__") or getattr(positions, "ndim", 1) == 0:
        raise TypeError(f"{name} must be a sequence of ints, got {positions!r}; pass a list such as [0, 1]")
    if not is_tensor(positions) and any(isinstance(p, (bool, np.bool_)) for p in positions):
        raise TypeError(f"{name} must hold ints, got bools; pass numpy.flatnonzero of the mask")
    x = integers(name, positions, 1)
    if not x.size:
        raise ValueError(f"need at least one selected position, got an empty {name}; pass one or more")
    wrong = x[(x < 0) | (x >= total)]
    if wrong.size:
        raise ValueError(f"{name} must be in 0..{total - 1}, got {int(wrong[0])}; count from 0")
    if np.unique(x).size != x.size:
        values, counts = np.unique(x, return_counts=True)
        twice = int(values[counts > 1][0])
        raise ValueError(f"{name} must be distinct, got {twice} more than once; drop the duplicates")
    return x
