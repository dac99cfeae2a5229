"""Arrays and tensors in and out of NumPy, and which implementation a call goes to; without torch."""

import importlib
from collections.abc import Collection
from typing import Any

import numpy as np

from porism.checks import detached, one_of
from porism.kernels import on_gpu

__all__ = ["BACKENDS", "floats", "implementation", "integers", "is_tensor", "like", "reals"]
__all__ += ["same_device"]

BACKENDS = ("auto", "cpu", "triton", "reference")


def implementation(
    package: str, backend: str, array: Any = None, choices: Collection[str] = BACKENDS
) -> tuple[str, Any]:
    """The backend that a call goes to and its module; "auto" is Triton for CUDA tensors where it may be."""
    one_of("backend", backend, choices)
    if backend == "auto":
        backend = "triton" if "triton" in choices and on_gpu(array) else "cpu"
    return backend, importlib.import_module(f"{package}.{backend}")


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor of torch, which need not be installed."""
    return hasattr(value, "detach")


def like(out: Any, value: Any) -> Any:
    """An array as it is, or as a tensor on the device of `value` where that is a tensor."""
    if not is_tensor(value):
        return out
    import torch

    return torch.from_numpy(out).to(value.device)


def floats(name: str, value: Any) -> Any:
    """A float array, or a float tensor without its history."""
    value = value.detach() if is_tensor(value) else np.asarray(value)
    if not (value.is_floating_point() if is_tensor(value) else value.dtype.kind == "f"):
        raise TypeError(f"{name} must be float, got {value.dtype}; convert it first")
    return value


def integers(name: str, value: Any, stop: int | None = None) -> Any:
    """Integers as a contiguous int64 array, in 0..stop-1 where a bound is given."""
    array = np.asarray(detached(value))
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got {array.dtype}; convert it first")
    if stop is not None and array.size and not 0 <= array.min() <= array.max() < stop:
        raise ValueError(f"{name} must be in 0..{stop - 1}, got {array.min()}..{array.max()}; "
                         "pass positions of an axis, without negative ones")  # fmt: skip
    return np.ascontiguousarray(array, dtype=np.int64)


def reals(name: str, value: Any) -> Any:
    """Real numbers, NaN and infinity too, as a contiguous float64 array."""
    array = np.asarray(detached(value))
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float first")
    return np.ascontiguousarray(array, dtype=np.float64)


def same_device(name: str, value: Any, other: str, there: Any) -> None:
    """Refuse a tensor that is not beside another one."""
    if value.device != there.device:
        raise ValueError(
            f"{name} must be on the device of {other}, {there.device}, got {value.device}; move it there"
        )
