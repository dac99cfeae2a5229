"""Moment matching in an exponential family by Newton's method on its convex log-partition."""

import numpy as np
from numpy.typing import NDArray

from porism.errors import AssumptionError
from porism.theory.policies import _inputs

__all__: list[str] = []

Floats = NDArray[np.float64]

GRADIENT = 1e-12
"""Distance of the means at which the iteration stops, in units of the statistics' range."""

STEP = 1e-6
"""Largest last step: on the boundary of the hull gradients vanish too, but steps stay near one."""

ROUNDING = 1e-14
"""Rise of the dual that is none."""


def match(log_ref: Floats, features: Floats, mean: Floats, steps: int = 100) -> Floats:
    """Coefficients a with ``E ell = mean`` under ``pi_a ~ pi0 e^(a ell)``; features (q, V), independent."""
    scale = np.ptp(features, axis=1)
    ell = (features - mean[:, None]) / scale[:, None]  # the dual is log E e^(y ell), its slope E ell
    y = np.zeros(len(ell))
    value, weights = _dual(log_ref, ell, y)
    for _ in range(steps):
        gradient = ell @ weights
        centred = ell - gradient[:, None]
        hessian = (centred * weights) @ centred.T
        try:
            step = -np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            break
        if np.abs(gradient).max() <= GRADIENT and np.abs(step).max() <= STEP * (1 + np.abs(y).max()):
            # one more step polishes to rounding
            return np.asarray((y + step) / scale)
        size, slope = 1.0, float(gradient @ step)
        if not slope < 0:
            break
        while size > 1e-12:
            trial, found = _dual(log_ref, ell, y + size * step)
            if trial <= value + 1e-4 * size * slope + ROUNDING * (1 + abs(value)):
                break
            size /= 2
        else:
            break
        y, value, weights = y + size * step, trial, found
    raise AssumptionError(
        "target must have its mean inside the convex hull of the experts' log-ratios: no finite coefficients "
        "match a mean on its boundary; use a smaller reward, a larger beta, or method='least_squares'"
    )


def _dual(log_ref: Floats, ell: Floats, y: Floats) -> tuple[float, Floats]:
    z = log_ref + y @ ell
    total = _inputs.log_sum(z)
    return float(total), np.asarray(np.exp(z - total))
