"""Singular values of a product of two thin factors, without the product."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array
from porism.theory.lora_spectrum._values import numpy_values, torch_values

__all__ = ["product_singular_values"]


def product_singular_values(B: Any, A: Any, scaling: Any = 1.0) -> Any:
    """Singular values of ``scaling * B @ A``, from the factors alone.

    With ``B = Q_B R_B`` and ``A' = Q_A R_A`` the values are those of the small matrix ``R_B R_A'``.

    Parameters
    ----------
    B : array_like or Tensor, shape (..., m, r)
        Left factors; leading axes are a batch and broadcast against those of `A`. Any real dtype.
    A : array_like or Tensor, shape (..., r, n)
        Right factors.
    scaling : float or array, shape (...), default 1
        Factor of the product, one number or one a member of the batch; its sign does not matter.

    Returns
    -------
    ndarray or Tensor, shape (..., r)
        Singular values, descending, in float64; zeros stand at the end where m or n is below r. A Tensor, on
        the device of the factors, if one of them is a Tensor.

    Raises
    ------
    TypeError
        If a factor holds no real numbers.
    ValueError
        If a factor has fewer than two axes, the inner sizes differ, the batches do not broadcast, the devices
        differ, or a value is NaN or infinite.

    Notes
    -----
    Everything runs in float64, so factors in float16, bfloat16 and float32 lose nothing beyond their own
    storage (an Apple GPU has no float64 and computes in float32). Neither a Gram matrix nor BA is used: the
    first squares the condition number, the second costs O(m n) memory and buries the small values. Cost
    O((m + n) r**2) a member. The result carries no gradient and the factors are only read.

    References
    ----------
    Golub and Van Loan (2013), Matrix Computations, 4th ed., section 5.2 (QR) and 8.6 (SVD of a product).

    Examples
    --------
    >>> B, A = [[1, 0], [2, 1], [0, 3]], [[1, 2, 0, 1], [0, 1, 1, 0]]
    >>> product_singular_values(B, A).round(8)
    array([7.12380258, 2.6928492 ])
    """
    torch = sys.modules.get("torch")  # a Tensor can only come from a torch that is loaded
    if torch is not None and (isinstance(B, torch.Tensor) or isinstance(A, torch.Tensor)):
        return _of_tensors(torch, B, A, scaling)
    left, right = finite_array("B", B), finite_array("A", A)
    batch = _batch(left.shape, right.shape)
    scale = _scale(scaling, batch)
    return numpy_values(left, right) * scale[..., None]


def _of_tensors(torch: Any, B: Any, A: Any, scaling: Any) -> Any:
    device = B.device if isinstance(B, torch.Tensor) else A.device
    left, right = (
        x if isinstance(x, torch.Tensor) else torch.as_tensor(finite_array(name, x), device=device)
        for name, x in (("B", B), ("A", A))
    )
    if left.device != right.device:
        raise ValueError(
            f"B and A must be on one device, got {left.device} and {right.device}; move one of them"
        )
    batch = _batch(tuple(left.shape), tuple(right.shape))
    for name, x in (("B", left), ("A", right)):
        if x.is_complex():
            raise TypeError(f"{name} must hold real numbers, got dtype {x.dtype}; convert it to float first")
        if not bool(torch.isfinite(x).all()):
            count = int((~torch.isfinite(x)).sum())
            raise ValueError(f"{name} must be finite, got {count} values that are not; drop or replace them")
    if isinstance(scaling, torch.Tensor):
        scaling = scaling.detach().cpu().numpy()
    values = torch_values(torch, left, right)
    scale = torch.as_tensor(_scale(scaling, batch).copy(), dtype=values.dtype, device=values.device)
    return values * scale[..., None]


def _batch(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    for name, shape, axes in (("B", left, "m, r"), ("A", right, "r, n")):
        if len(shape) < 2:
            raise ValueError(f"{name} must be a matrix (..., {axes}), got shape {shape}; reshape it")
    if left[-1] != right[-2]:
        raise ValueError(
            f"B (..., m, r) and A (..., r, n) must share r, got shapes {left} and {right}; "
            "is one of them transposed?"
        )
    try:
        return np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise ValueError(
            f"the batches of B and A must broadcast, got shapes {left} and {right}; align the leading axes"
        ) from None


def _scale(scaling: Any, batch: tuple[int, ...]) -> NDArray[np.float64]:
    scale = np.abs(finite_array("scaling", scaling))
    try:
        return np.broadcast_to(scale, batch)
    except ValueError:
        raise ValueError(
            f"scaling must be one number or one a member of the batch {batch}, got shape {scale.shape}; "
            "reshape it"
        ) from None
