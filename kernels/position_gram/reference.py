"""The definition, one pair of examples and one position at a time, in float64."""

from typing import Any

import numpy as np

from porism.kernels._arrays import like
from porism.kernels.position_gram import _arrays

__all__ = ["position_gram"]


def position_gram(x: Any, g: Any, per_position: bool, chunk: int) -> Any:
    """Products of scalar products; the chunk does not matter."""
    a, b = (_arrays.part(value, 0, value.shape[1], np.float64) for value in (x, g))
    T, N, _ = a.shape
    out = np.zeros((T, N, N))
    for t in range(T):
        for n in range(N):
            for m in range(N):
                out[t, n, m] = float(a[t, n] @ a[t, m]) * float(b[t, n] @ b[t, m])
    return like((out if per_position else out.sum(0)).astype(_arrays.kind(x, g)), x)
