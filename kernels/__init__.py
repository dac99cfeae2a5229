"""Array operations worth a kernel: one folder an operation."""

from typing import Any

from porism._lazy import submodules

__all__ = ["on_gpu"]

__getattr__ = submodules(__name__)


def on_gpu(array: Any) -> bool:
    """Whether an array is a tensor on a CUDA device, without importing torch.

    Parameters
    ----------
    array : array or tensor
        Anything.

    Returns
    -------
    bool
        True for CUDA tensors only.

    Examples
    --------
    >>> on_gpu([1.0])
    False
    """
    return bool(getattr(array, "is_cuda", False))
