"""The definition, one outer product a sample, in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["token_gram"]


def token_gram(
    h: Any, index: NDArray[np.int64], shift: NDArray[np.float64], y: Any, C: int
) -> NDArray[np.float64]:
    """Lower triangle of the Gram of rows (token - shift, 1, one-hot class), as an array."""
    D = len(shift)
    total = np.zeros((D + 1 + C, D + 1 + C))
    for b, position in enumerate(index):
        if position < 0:
            continue
        row = h[b, int(position)]
        row = row.cpu().double().numpy() if hasattr(row, "detach") else row.astype(np.float64)
        z = np.zeros(D + 1 + C)
        z[:D] = row - shift
        z[D] = 1.0
        if y is not None:
            z[D + 1 + y[b]] = 1.0
        for i in range(len(z)):
            total[i, : i + 1] += z[i] * z[: i + 1]
    return total
