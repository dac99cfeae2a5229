"""Plain twins of the laws: traces of dense matrices, and the closed law as a difference in 80 digits."""

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["decimal_error", "dense_error", "factored_error", "trace_error"]

Floats = NDArray[np.float64]


def dense_error(U: Floats, S: Floats, outside: float) -> float:
    """``tr E S E`` with E the difference of the two score matrices, each by its definition."""
    D = len(S)
    E = np.linalg.inv(S) - U @ np.linalg.inv(U.T @ S @ U) @ U.T - (np.eye(D) - U @ U.T) / outside
    return float(np.vdot(E, E @ S))


def trace_error(U: Floats, S: Floats, h2: float) -> float:
    """``tr S^-1 - tr (U'SU)^-1 - 2 (D - d)/h^2 + tr(P S)/h^4``: four terms that cancel as h grows."""
    D, d = U.shape
    P = np.eye(D) - U @ U.T
    inverses = np.trace(np.linalg.inv(S)) - np.trace(np.linalg.inv(U.T @ S @ U))
    return float(inverses - 2 * (D - d) / h2 + np.vdot(P, S) / h2**2)


def factored_error(U: Floats, S: Floats, h2: float) -> float:
    """`trace_error` with every shortcut: Cholesky factors, one triangular inverse, no projector."""
    from scipy.linalg import lapack

    D, d = U.shape
    SU = S @ U
    total = 0.0
    for matrix, sign in ((S, 1), (U.T @ SU, -1)):
        factor, _ = lapack.dpotrf(matrix, lower=1, clean=1)
        inverse, _ = lapack.dtrtri(factor, lower=1)
        total += sign * float(np.vdot(inverse, inverse))
    return total - 2 * (D - d) / h2 + (float(np.trace(S)) - float(np.vdot(U, SU))) / h2**2


def _trigonometry(angle: Decimal) -> tuple[Decimal, Decimal]:
    """Squared cosine and squared sine by the power series of both."""
    sums, term, k = [Decimal(0), Decimal(0)], Decimal(1), 0
    while term and abs(term) > Decimal(10) ** -70:
        sums[k % 2] += term if k % 4 < 2 else -term
        k += 1
        term *= angle / k
    return sums[0] ** 2, sums[1] ** 2


def decimal_error(
    angles: ArrayLike, signal: Any, noise: Any, alpha2: Any, h2: Any, ambient: int, calibrated: bool = False
) -> float:
    """The law of LR-1 and LR-3 as it is stated, a difference, in 80 digits."""
    with localcontext() as context:
        context.prec = 80
        a, n, v = Decimal(alpha2) * Decimal(signal), Decimal(alpha2) * Decimal(noise), Decimal(h2)
        kappa = v + n
        theta = [Decimal(float(t)) for t in np.ravel(angles)]
        floor = Decimal(0) if calibrated else (ambient - len(theta)) * n**2 / (v**2 * kappa)
        outside = kappa if calibrated else v
        total = floor
        for cut, sine in map(_trigonometry, theta):
            total += a * sine * (1 / outside**2 - 1 / ((kappa + a) * (kappa + a * cut)))
        return float(total)
