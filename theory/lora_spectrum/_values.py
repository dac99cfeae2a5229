"""The computation itself: a QR of each factor, an SVD of the small product. No checks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__: list[str] = []


def numpy_values(B: NDArray[np.float64], A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the values of checked float64 factors."""
    batch, r = np.broadcast_shapes(B.shape[:-2], A.shape[:-2]), B.shape[-1]
    found = np.zeros((*batch, r))
    if B.size and A.size:
        left = np.linalg.qr(B, mode="r")
        right = np.linalg.qr(np.swapaxes(A, -1, -2), mode="r")
        values = np.linalg.svd(left @ np.swapaxes(right, -1, -2), compute_uv=False)
        found[..., : values.shape[-1]] = values
    return found


def torch_values(torch: Any, B: Any, A: Any) -> Any:
    """Compute the values of checked tensors, without a gradient."""
    kind = torch.float32 if B.device.type == "mps" else torch.float64
    with torch.no_grad():
        B, A = B.detach().to(kind), A.detach().to(kind)
        batch, r = torch.broadcast_shapes(B.shape[:-2], A.shape[:-2]), B.shape[-1]
        found = torch.zeros((*batch, r), dtype=kind, device=B.device)
        if B.numel() and A.numel():
            left = torch.linalg.qr(B, mode="r").R
            right = torch.linalg.qr(A.mT, mode="r").R
            values = torch.linalg.svdvals(left @ right.mT)
            found[..., : values.shape[-1]] = values
    return found
