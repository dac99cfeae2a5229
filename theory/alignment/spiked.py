"""Spiked covariance: when a sample's principal directions see a spike, and how well.

``Sigma = sigma^2 (I + sum_k ell_k v_k v_k')``, n samples in d dimensions, ``gamma = d / n`` in the limit;
after centring n - 1 takes the place of n.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, one_of, positive
from porism.errors import AssumptionError
from porism.theory.alignment._inputs import broadcast

__all__ = [
    "bbp_threshold",
    "certificate_threshold",
    "covariance_error",
    "spike_eigenvalue",
    "spike_overlap",
    "subcritical_enrichment",
]


def bbp_threshold(gamma: ArrayLike) -> Any:
    """Spike strength above which the sample's leading direction sees the spike (DK-4).

    ``sqrt(gamma)``.

    Parameters
    ----------
    gamma : float or array_like
        Ratio d / n, > 0.

    Returns
    -------
    float or float64 array
        The threshold, of the shape of gamma.

    Raises
    ------
    TypeError, ValueError
        If gamma is not a finite number > 0.

    References
    ----------
    Baik, Ben Arous and Péché (2005), doi:10.1214/009117905000000233. Paul (2007), "Asymptotics of sample
    eigenstructure for a large dimensional spiked covariance model", theorems 1 and 2.

    Examples
    --------
    >>> float(bbp_threshold(4))
    2.0
    """
    return np.sqrt(_gamma(gamma))[()]


def spike_overlap(ell: ArrayLike, gamma: ArrayLike) -> Any:
    """Limit of the squared overlap of a spike with its estimated direction (DK-4).

    ``(1 - gamma / ell^2) / (1 + gamma / ell)`` for ``ell > sqrt(gamma)``, else 0.

    Parameters
    ----------
    ell : float or array_like
        Strength of the spike over the noise variance, >= 0.
    gamma : float or array_like
        Ratio d / n, > 0; broadcasts with ell.

    Returns
    -------
    float or float64 array
        Overlap in [0, 1).

    Raises
    ------
    TypeError, ValueError
        If ell < 0, gamma <= 0, or a value is not finite.

    Notes
    -----
    For d, n -> infinity with d / n -> gamma. With several spikes above the threshold, also equal ones, it
    holds for each against the estimated subspace of all.

    References
    ----------
    Paul (2007), theorem 4. Benaych-Georges and Nadakuditi (2011), doi:10.1016/j.aim.2011.02.007.

    Examples
    --------
    >>> float(round(spike_overlap(3, 2), 7))
    0.4666667
    """
    strength, ratio = _both(ell, gamma)
    root = np.sqrt(ratio)
    above = strength > root
    safe = np.where(above, strength, 2 * root)
    share = root / safe
    return np.where(above, (1 - share) * (1 + share) / (1 + ratio / safe), 0.0)[()]


def spike_eigenvalue(ell: ArrayLike, gamma: ArrayLike) -> Any:
    """Limit of the sample eigenvalue of a spike, in units of the noise variance (DK-4).

    ``(1 + ell) (1 + gamma / ell)`` for ``ell > sqrt(gamma)``, else the upper edge ``(1 + sqrt(gamma))^2``.

    Parameters
    ----------
    ell : float or array_like
        Strength of the spike over the noise variance, >= 0.
    gamma : float or array_like
        Ratio d / n, > 0; broadcasts with ell.

    Returns
    -------
    float or float64 array
        The eigenvalue.

    Raises
    ------
    TypeError, ValueError
        If ell < 0, gamma <= 0, or a value is not finite.

    References
    ----------
    Baik and Silverstein (2006), doi:10.1016/j.jmva.2005.08.003, theorem 1.1.

    Examples
    --------
    >>> float(round(spike_eigenvalue(3, 2), 7))
    6.6666667
    """
    strength, ratio = _both(ell, gamma)
    root = np.sqrt(ratio)
    above = strength > root
    safe = np.where(above, strength, root)
    return np.where(above, (1 + safe) * (1 + ratio / safe), (1 + root) ** 2)[()]


def subcritical_enrichment(ell: ArrayLike, gamma: ArrayLike, eigenvalue: ArrayLike | None = None) -> Any:
    """How many times better than a random direction a bulk eigenvector sees a spike below threshold (DK-5).

    ``d <u, v>^2 -> gamma (1 + ell) / ((sqrt(gamma) - ell)^2 + ell (edge - eigenvalue))`` with the upper edge
    ``(1 + sqrt(gamma))^2``.

    Parameters
    ----------
    ell : float or array_like
        Strength of the spike over the noise variance, 0..sqrt(gamma).
    gamma : float or array_like
        Ratio d / n, > 0; broadcasts with ell.
    eigenvalue : float or array_like, optional
        Observed sample eigenvalue over the noise variance, clamped to the bulk
        ``[(1 - sqrt(gamma))^2, (1 + sqrt(gamma))^2]``; the upper edge if left out, which overstates.

    Returns
    -------
    float or float64 array
        Enrichment; 1 for ell = 0, inf at the edge for ell = sqrt(gamma).

    Raises
    ------
    TypeError, ValueError
        If ell < 0, gamma <= 0, or a value is not finite.
    AssumptionError
        If ell > sqrt(gamma): the leading direction is then no bulk eigenvector, see `spike_overlap`.

    Notes
    -----
    Equal to ``gamma t / (x |1 + t m|^2)`` with t = 1 + ell, x the eigenvalue and m the root of
    ``x m^2 + (x + 1 - gamma) m + 1 = 0`` with positive imaginary part, as |m|^2 = 1/x in the bulk.

    References
    ----------
    Ledoit and Péché (2011), "Eigenvectors of some large sample covariance matrix ensembles",
    doi:10.1007/s00440-010-0298-3, theorem 3.

    Examples
    --------
    >>> float(subcritical_enrichment(1, 4)), float(round(subcritical_enrichment(1, 4, 4), 7))
    (8.0, 1.3333333)
    """
    strength, ratio = _both(ell, gamma)
    root = np.sqrt(ratio)
    if (strength > root).any():
        where = np.unravel_index(int((strength > root).argmax()), strength.shape)
        raise AssumptionError(
            f"ell must be at most sqrt(gamma), got ell={strength[where]:g} at gamma={ratio[where]:g}; "
            "above the threshold use spike_overlap"
        )
    edge = (1 + root) ** 2
    seen = edge if eigenvalue is None else finite_array("eigenvalue", eigenvalue)
    seen, edge = broadcast(("eigenvalue", "ell and gamma"), seen, edge)
    below = edge - np.clip(seen, (1 - root) ** 2, edge)
    with np.errstate(divide="ignore"):
        return np.asarray(ratio * (1 + strength) / ((root - strength) ** 2 + strength * below))[()]


def covariance_error(ell: ArrayLike, gamma: ArrayLike) -> Any:
    """Limit of the operator norm of sample minus true covariance over the noise variance, one spike (DK-6).

    ``(1 + ell) (gamma + sqrt(gamma^2 + 4 gamma ell)) / (2 ell)`` for ``ell >= 1 + sqrt(gamma)``, else the
    value of pure noise, ``gamma + 2 sqrt(gamma)``.

    Parameters
    ----------
    ell : float or array_like
        Strength of the spike over the noise variance, >= 0.
    gamma : float or array_like
        Ratio d / n, > 0; broadcasts with ell.

    Returns
    -------
    float or float64 array
        The error that the bounds of Davis and Kahan are fed with.

    Raises
    ------
    TypeError, ValueError
        If ell < 0, gamma <= 0, or a value is not finite.

    Notes
    -----
    Our derivation: the largest root x of ``x = -(1 + ell)(1 + (1 + x) m(1 + x))`` with m the transform of the
    noise outside its bulk; with ``b + gamma / b = x - gamma`` it becomes ``ell b^2 = gamma (1 + b)``.

    Examples
    --------
    >>> float(covariance_error(0, 4)), float(round(covariance_error(8, 4), 4))
    (8.0, 9.0)
    """
    strength, ratio = _both(ell, gamma)
    root = np.sqrt(ratio)
    outlier = strength >= 1 + root
    safe = np.where(outlier, strength, 1 + root)
    value = (1 + 1 / safe) * (ratio + np.sqrt(ratio) * np.sqrt(ratio + 4 * safe)) / 2
    return np.where(outlier, value, ratio + 2 * root)[()]


def certificate_threshold(gamma: float, bound: str = "yu_wang_samworth") -> float:
    """Spike strength above which a bound on the angle says anything, in the limit for one spike (DK-6).

    Yu, Wang and Samworth: ``2 error = ell``. Davis and Kahan: ``error = 1 + ell - (1 + sqrt(gamma))^2``.

    Parameters
    ----------
    gamma : float
        Ratio d / n, > 0.
    bound : {"yu_wang_samworth", "davis_kahan"}, default "yu_wang_samworth"
        Which bound has to fall below 1.

    Returns
    -------
    float
        The strength; far above `bbp_threshold` for gamma >= 1.

    Raises
    ------
    TypeError, ValueError
        If gamma is not a finite number > 0, or the bound is unknown.

    Notes
    -----
    A certificate is no predictor: between the two thresholds the direction is found and the bound is void.

    References
    ----------
    Yu, Wang and Samworth (2015), doi:10.1093/biomet/asv008, theorem 2.

    Examples
    --------
    >>> round(certificate_threshold(1), 2), round(certificate_threshold(1, "davis_kahan"), 2)
    (7.42, 6.59)
    """
    from scipy.optimize import brentq

    ratio = positive("gamma", gamma)
    root = math.sqrt(ratio)
    yws = one_of("bound", bound, ("yu_wang_samworth", "davis_kahan")) == "yu_wang_samworth"

    def margin(ell: float) -> float:
        error = float(covariance_error(ell, ratio))
        return ell - 2 * error if yws else ell - ratio - 2 * root - error

    top = 16 * (ratio + root)
    return float(brentq(margin, 0.0, top, xtol=1e-14 * top, rtol=1e-14))


def _gamma(gamma: ArrayLike) -> NDArray[np.float64]:
    values = finite_array("gamma", gamma)
    if (values <= 0).any():
        raise ValueError(f"gamma must be > 0, got {values.min():g}; it is d / n, features over samples")
    return values


def _both(ell: ArrayLike, gamma: ArrayLike) -> tuple[NDArray[np.float64], ...]:
    strength, ratio = finite_array("ell", ell), _gamma(gamma)
    if (strength < 0).any():
        raise ValueError(f"ell must be >= 0, got {strength.min():g}; it is spike over noise variance")
    return broadcast(("ell", "gamma"), strength, ratio)
