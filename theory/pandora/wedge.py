"""Noisy prices in the limit of small refinements, where the sign of the welfare change is explicit."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from porism.theory.pandora._gain import density
from porism.theory.pandora._inputs import arrays, check_finite, check_nu

__all__ = ["small_signal_change", "wedge_threshold"]


def wedge_threshold(s_other: ArrayLike, omega: ArrayLike) -> Any:
    """Distance of the means beyond which small cheap refinements lower the gross value of the allocation.

    ``S sqrt(1 + S^2/omega^2)`` with ``S^2 = s_other^2 + omega^2``: dA < 0 iff ``|m - mu|`` exceeds it, in the
    limit of small nu and c/nu.

    Parameters
    ----------
    s_other : float or array_like
        Standard deviation of the competitor's value, >= 0 and finite.
    omega : float or array_like
        Standard deviation of the competitor's noise, >= 0 and finite.

    Returns
    -------
    float or ndarray
        Threshold, of the broadcast shape; +inf for omega = 0.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.

    Notes
    -----
    The least over omega is ``(1 + sqrt 2) s_other = 2.414 s_other``, at ``omega^2 = s_other^2/sqrt 2``. For
    wide bands the crossing lies farther out.

    References
    ----------
    PB-22 of the module's specification.

    Examples
    --------
    >>> round(wedge_threshold(0.3, 0.5), 4)
    0.8958
    """
    (s_, omega_), _, restore = arrays(s_other=s_other, omega=omega)
    check_nu(s_, "s_other")
    check_nu(omega_, "omega")
    spread = np.hypot(s_, omega_)
    with np.errstate(all="ignore"):
        value = np.where(omega_ > 0, spread * np.hypot(1.0, spread / omega_), np.inf)
    return restore(value)


def small_signal_change(
    m: ArrayLike, nu: ArrayLike, mu: ArrayLike, s_other: ArrayLike, omega: ArrayLike
) -> Any:
    """Leading term of dA at the raw price for small nu and negligible cost.

    ``(nu^2/2) f(m) (1 + (1 - rho) (1 - (m - mu)^2/S^2))`` with f the density N(mu, S^2) of the price.

    Parameters
    ----------
    m, mu : float or array_like
        Means of the specialist's and of the competitor's value, finite.
    nu : float or array_like
        Standard deviation of the refined mean, >= 0 and finite.
    s_other, omega : float or array_like
        Standard deviations of the competitor's value and noise, >= 0 and finite, not both 0.

    Returns
    -------
    float or ndarray
        The change, of the broadcast shape; negative iff ``|m - mu|`` exceeds `wedge_threshold`.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.

    References
    ----------
    PB-22 of the module's specification.

    Examples
    --------
    >>> small_signal_change(0.0, 0.05, 1.0, 0.3, 0.5) < 0 < small_signal_change(0.0, 0.05, 0.8, 0.3, 0.5)
    True
    """
    (m_, nu_, mu_, s_, omega_), _, restore = arrays(m=m, nu=nu, mu=mu, s_other=s_other, omega=omega)
    check_finite("m", m_)
    check_finite("mu", mu_)
    check_nu(nu_)
    check_nu(s_, "s_other")
    check_nu(omega_, "omega")
    spread = np.hypot(s_, omega_)
    if not (spread > 0).all():
        raise ValueError("s_other and omega must not both be 0: the price has no density; use bidder_statics")
    z = (m_ - mu_) / spread
    return restore(nu_**2 / 2 * density(np, z) / spread * (1 + (omega_ / spread) ** 2 * (1 - z * z)))
