"""Standard errors of paired differences, and the check that a fit belongs to a matrix."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def standard_error(x: NDArray[np.float64]) -> float:
    """Of the mean of independent numbers; infinite for fewer than two."""
    return float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else math.inf


def same_shape(matrix: Any, fitted: Any) -> None:
    """Refuse a fit that was made from another matrix."""
    if fitted.m_hat.shape != matrix.scores.shape:
        raise ValueError(
            f"fitted has estimates of shape {fitted.m_hat.shape}, matrix scores of shape "
            f"{matrix.scores.shape}; fit this matrix with cross_fit"
        )
