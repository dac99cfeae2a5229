"""Checks that the laws share."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, positive

__all__ = ["diffusion", "in_range", "semidefinite"]

# eigenvalues of a covariance below minus this share of the largest are more than rounding
_NEGATIVE = 1e-10


def diffusion(alpha2: Any, h2: Any) -> tuple[float, float]:
    """Squared factor of the data in (0, 1], and variance of the noise above 0."""
    factor = positive("alpha2", alpha2)
    if factor > 1:
        raise ValueError(f"alpha2 must be in (0, 1], got {factor!r}; pass the squared factor of the data")
    return factor, positive("h2", h2)


def in_range(error: float, h2: float) -> float:
    """An expected squared error that is a float; it grows like ``1 / h^4``."""
    if not math.isfinite(error):
        raise ValueError(f"h2 must be large enough for an error below 1e308, got {h2!r}; raise h2")
    return error


def semidefinite(name: str, value: Any, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, with those that rounding made negative set to 0, and eigenvectors of a square matrix."""
    matrix = finite_array(name, value, ndim=2)
    if matrix.shape != (size, size):
        raise ValueError(
            f"{name} must have shape {(size, size)}, as U_s has {size} rows, got {matrix.shape}; "
            "pass both in the same coordinates"
        )
    largest = float(np.abs(matrix).max())
    skew = float(np.abs(matrix - matrix.T).max())
    if skew > _NEGATIVE * largest:
        raise ValueError(
            f"{name} must be symmetric, got it off its transpose by {skew:.3g}; pass (C + C.T)/2"
        )
    values, vectors = np.linalg.eigh(matrix / 2 + matrix.T / 2)
    if values[0] < -_NEGATIVE * max(values[-1], -values[0]):
        raise ValueError(
            f"{name} must be positive semidefinite, got eigenvalue {values[0]:.3g} beside a largest of "
            f"{values[-1]:.3g}; pass a covariance, or clip its eigenvalues at 0"
        )
    return np.maximum(values, 0.0), vectors
