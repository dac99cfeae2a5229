"""SciPy's assignment solver, one problem after the other."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

__all__ = ["batched"]


def batched(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Source at each position: the inverse of what SciPy returns for sources on rows."""
    out = np.empty(costs.shape[:2], dtype=np.int64)
    everyone = np.arange(costs.shape[1])
    for order, cost in zip(out, costs, strict=True):
        order[linear_sum_assignment(cost)[1]] = everyone
    return out
