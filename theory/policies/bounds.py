"""What a wrong reward, or inexact experts, cost: bounds from an oscillation, max minus min, of log-ratios."""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, not_negative, positive
from porism.results import Result

__all__ = ["TiltCertificate", "certificate", "expert_error"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class TiltCertificate(Result):
    """Upper bounds on what a wrong reward does to its optimal policy; made by `certificate`.

    Parameters
    ----------
    log_ratio : float
        Largest difference of log-probabilities, nats.
    kl : float
        Divergence in either order, nats.
    tv : float
        Total variation, in [0, 1].
    regret : float
        Loss in ``E r - beta KL``, in the unit of the reward.

    Examples
    --------
    >>> certificate([1.0, 0.0, -1.0], beta=1.0).kl
    0.5
    """

    log_ratio: float
    kl: float
    tv: float
    regret: float


def certificate(residual: ArrayLike, beta: float) -> TiltCertificate:
    """Bound the error of a policy by the error of the reward that it was made for (PO-5).

    With ``D = (max e - min e) / beta`` of the residual e: ``|log pi - log pi'| <= D``, ``KL <= D^2 / 8``,
    ``TV <= tanh(D / 4)``, regret ``<= beta D^2 / 8``.

    Parameters
    ----------
    residual : array_like
        True reward less the reward used, at *every* outcome of the support, in the unit of the reward. Two
        numbers, its least and largest value, do as well.
    beta : float
        Temperature, > 0.

    Returns
    -------
    TiltCertificate
        Upper bounds.

    Raises
    ------
    ValueError
        If there is no residual, one is not finite, or beta is not positive.

    Notes
    -----
    The bounds on the log-ratio (as a supremum) and on TV are attained by two outcomes; a constant residual
    costs nothing.

    References
    ----------
    Hoeffding (1963), lemma 1, for KL; our derivation for TV.

    Examples
    --------
    >>> round(certificate([-1.0, 1.0], beta=1.0).tv, 10)
    0.4621171573
    """
    e = finite_array("residual", residual)
    if e.size == 0:
        raise ValueError("residual must have at least one entry, got none; pass one an outcome")
    return _from_oscillation((float(e.max()) - float(e.min())) / positive("beta", beta), beta)


def _from_oscillation(oscillation: float, beta: float) -> TiltCertificate:
    """Bounds from max minus min of a log-ratio error, nats, as `certificate` has them."""
    width = not_negative("oscillation", oscillation)
    kl = width * width / 8
    return TiltCertificate(width, kl, math.tanh(width / 4), positive("beta", beta) * kl)


def expert_error(coefficients: ArrayLike, oscillations: ArrayLike) -> float:
    """What inexact experts do to a combination (PO-7).

    ``sum_k |a_k| osc(e_k)`` bounds the oscillation, max minus min, of the combined log-ratio error if expert
    k's log-policy is off by e_k.

    Parameters
    ----------
    coefficients : array_like, shape (K,)
        Coefficients a of `combine`.
    oscillations : array_like, shape (K,)
        Max minus min of each expert's error, nats, >= 0.

    Returns
    -------
    float
        Bound on the oscillation; `certificate` turns ``beta`` times it into bounds on KL, TV and regret.

    Raises
    ------
    ValueError
        If shapes differ or an oscillation is negative.

    References
    ----------
    Our derivation: the oscillation is a seminorm.

    Examples
    --------
    >>> expert_error([0.5, -2.0], [0.1, 0.2])
    0.45
    """
    a, osc = finite_array("coefficients", coefficients, 1), finite_array("oscillations", oscillations, 1)
    if a.shape != osc.shape:
        raise ValueError(f"oscillations must have one entry a coefficient, {len(a)}, got {len(osc)}")
    if (osc < 0).any():
        raise ValueError(f"oscillations must be >= 0, got {osc.min()}; pass max minus min")
    return float(np.abs(a) @ osc)
