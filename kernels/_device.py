"""What all Triton paths share: where their tensors must lie, what types they take, how large their tiles are.

Importing this file needs torch and triton.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from porism.checks import require

__all__ = ["FLOATS", "TYPES", "all_finite", "current", "interpreted", "placed", "product_type"]
__all__ += ["side", "wide"]

require("torch", "torch")  # so that a missing package names the extra
require("triton", "torch")

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

TYPES = {
    torch.float64: tl.float64,
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
}
FLOATS = tuple(TYPES)


@triton.jit
def _nothing() -> None:
    pass


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, which takes CPU tensors."""
    return not isinstance(_nothing, triton.JITFunction)


def placed(name: str, value: Any, types: Sequence[torch.dtype] = FLOATS, dtype: Any = None) -> torch.Tensor:
    """A tensor of one of some types where kernels run, or an error; arrays are sent there, as `dtype`."""
    if not isinstance(value, torch.Tensor):
        if not (interpreted() or torch.cuda.is_available()):
            raise ValueError("backend must not be 'triton' here: torch sees no CUDA device; "
                             "take backend='cpu' or 'auto'")  # fmt: skip
        array = np.asarray(value, dtype=dtype)
        native = np.float64 if array.dtype == np.longdouble else array.dtype.newbyteorder("=")
        array = np.require(array, native, ["C", "W"])
        value = torch.from_numpy(array) if interpreted() else torch.from_numpy(array).cuda()
    if not (interpreted() or value.is_cuda):
        raise ValueError(f"{name} must be on a CUDA device for Triton, got a tensor on {value.device}; "
                         "move it with .cuda(), or take backend='cpu'")  # fmt: skip
    if value.dtype not in types:
        *some, last = (str(kind).removeprefix("torch.") for kind in types)
        raise TypeError(f"{name} must be {', '.join(some)} or {last} for Triton, got {value.dtype}; "
                        "convert it, or take backend='cpu'")  # fmt: skip
    return value.detach()


def current(x: torch.Tensor) -> contextlib.AbstractContextManager[Any]:
    """Make the device of x current, for Triton launches there; that of a CPU tensor, -1, changes nothing."""
    return torch.cuda.device(x.get_device())


def wide(dtype: torch.dtype) -> torch.dtype:
    """Type of sums: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def product_type(dtype: torch.dtype) -> Any:
    """Triton's type for the factors of products, which are wrong in bfloat16 in the interpreter."""
    return tl.float32 if dtype == torch.bfloat16 and interpreted() else TYPES[dtype]


def side(size: int, most: int) -> int:
    """Side of a square tile: a power of two from 16 to `most`."""
    return min(most, max(16, triton.next_power_of_2(size)))


def all_finite(x: torch.Tensor) -> bool:
    """Whether all entries are finite; no tensor of the size of x is made."""
    return not x.numel() or bool(torch.isfinite(torch.stack(torch.aminmax(x))).all())  # NaN is both
