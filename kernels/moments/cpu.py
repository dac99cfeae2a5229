"""Blocks of rows gathered into float64, and one symmetric rank-k update each: half the FLOP of a product."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

__all__ = ["token_gram"]

CELLS = 1 << 20  # entries of a block, 8 MB


def token_gram(
    h: Any, index: NDArray[np.int64], shift: NDArray[np.float64], y: Any, C: int
) -> NDArray[np.float64]:
    """Lower triangle of the Gram of rows (token - shift, 1, one-hot class), as an array."""
    D = len(shift)
    W = D + 1 + C
    total = np.zeros((W, W), order="F")
    used = np.flatnonzero(index >= 0)
    size = max(1, CELLS // W)
    for first in range(0, len(used), size):
        b = used[first : first + size]
        z = np.zeros((len(b), W))
        z[:, :D] = _rows(h, b, index[b])
        z[:, :D] -= shift
        z[:, D] = 1.0
        if y is not None:
            z[np.arange(len(b)), D + 1 + y[b]] = 1.0
        total = dsyrk(1.0, z.T, beta=1.0, c=total, lower=1, overwrite_c=1)
    return np.ascontiguousarray(total)


def _rows(h: Any, b: NDArray[np.int64], at: NDArray[np.int64]) -> Any:
    if not hasattr(h, "detach"):
        return h[b, at]
    import torch

    chosen = h[torch.from_numpy(b).to(h.device), torch.from_numpy(at).to(h.device)]
    return chosen.cpu().double().numpy()
