"""What a refinement can move (ν), the index at which it is bought (σ), and the inspection band (w)."""

import math
from typing import Any

import numpy as np

from porism.theory.pandora._gain import halfwidth
from porism.theory.pandora._inputs import check_cost, check_finite, check_nu, check_shapes, unify

__all__ = ["inspection_halfwidth", "preposterior_sd", "reservation_index"]


def preposterior_sd(s: Any, tau: Any) -> Any:
    """Standard deviation of the posterior mean before the expensive signal is seen.

    ``nu = s^2 / sqrt(s^2 + tau^2)``: value V ~ N(m, s^2), signal Y = V + noise of standard deviation tau;
    the mean after Y is ``M ~ N(m, nu^2)``.

    Parameters
    ----------
    s : float, array_like or torch.Tensor
        Standard deviation of the value given the cheap signal, > 0, in quality units.
    tau : float, array_like or torch.Tensor
        Standard deviation of the expensive signal's noise, >= 0; 0 gives ``nu = s``, +inf gives 0.

    Returns
    -------
    float, ndarray or torch.Tensor
        nu, of the broadcast shape, in [0, s].

    Raises
    ------
    ValueError
        If s is not positive and finite, tau is negative or NaN, or the shapes do not fit.

    Notes
    -----
    Gaussian signals (PB-1). Where tau is unknown, estimate nu from data: ``nu^2 = Cov(q - m, V - m)``.
    A specialist about which nothing can be learned has nu = 0, given as such.

    References
    ----------
    P. Frazier, W. Powell and S. Dayanik (2008), A knowledge-gradient policy for sequential information
    collection, equation for the predictive change in the mean. PB-1 of the module's specification.

    Examples
    --------
    >>> print(f"{preposterior_sd(0.8, 0.6):.2f}")
    0.64
    """
    xp, (s, tau), restore = unify(s=s, tau=tau)
    check_shapes(s=s, tau=tau)
    if not bool(((s > 0) & (s < math.inf)).all()):
        bad = s[~((s > 0) & (s < math.inf))].reshape(-1)[0]
        raise ValueError(f"s must be > 0 and finite; got {float(bad)}, use nu=0 where nothing is uncertain")
    if not bool((tau >= 0).all()):
        raise ValueError(
            f"tau must be >= 0; got {float(tau[~(tau >= 0)].reshape(-1)[0])}, it is a standard deviation"
        )
    with np.errstate(all="ignore"):
        return restore(s * (s / xp.hypot(s, tau)))


def inspection_halfwidth(nu: Any, c: Any) -> Any:
    """Half-width of the band of gaps within which one refinement is worth its cost.

    ``w = nu psi^{-1}(c/nu)``: the one-step gain ``nu psi(|d|/nu) - c`` is positive iff ``|d| < w``, where d
    is the specialist's mean less the best alternative.

    Parameters
    ----------
    nu : float, array_like or torch.Tensor
        Standard deviation of the posterior mean, >= 0 and finite, in quality units.
    c : float, array_like or torch.Tensor
        Cost of refining in quality units, >= 0; +inf for a specialist that cannot be refined.

    Returns
    -------
    float, ndarray or torch.Tensor
        w, of the broadcast shape. Not positive, hence an empty band, iff ``c >= nu/sqrt(2 pi)``; +inf for
        c = 0 < nu; -c for nu = 0.

    Raises
    ------
    ValueError
        If nu or c is out of range, or the shapes do not fit.

    Notes
    -----
    Decide by ``|d| < w``: far in the tail the gain underflows, and the sign of a computed difference is
    that of rounding. Compute w once for each specialist if nu and c are the same for all queries.

    References
    ----------
    PB-4 of the module's specification; L. Doval (2018), Whether or not to open Pandora's box, for the lower
    end of the band (the backup value).

    Examples
    --------
    >>> print(f"{inspection_halfwidth(0.64, 0.05):.12f}")
    0.661481537897
    >>> inspection_halfwidth([0.5, 0.5, 0.0], [0.0, 0.5, 0.1]).round(3)
    array([  inf, -0.45, -0.1 ])
    """
    xp, (nu, c), restore = _checked(nu=nu, c=c)
    return restore(halfwidth(xp, nu, c))


def reservation_index(m: Any, nu: Any, c: Any) -> Any:
    """Weitzman's index: the value of an alternative at which refining this specialist breaks even.

    ``sigma = m + nu psi^{-1}(c/nu)``, the unique solution of ``E(M - sigma)^+ = c`` with M ~ N(m, nu^2).

    Parameters
    ----------
    m : float, array_like or torch.Tensor
        Mean of the specialist's net value, finite.
    nu : float, array_like or torch.Tensor
        Standard deviation of the posterior mean, >= 0 and finite.
    c : float, array_like or torch.Tensor
        Cost of refining, >= 0, in the units of m; +inf for a specialist that cannot be refined.

    Returns
    -------
    float, ndarray or torch.Tensor
        sigma, of the broadcast shape; above m iff ``c < nu/sqrt(2 pi)``. +inf for c = 0 < nu; m - c for
        nu = 0, and in the limit of c much larger than nu.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.

    Notes
    -----
    Opening boxes by descending sigma is optimal where a specialist must be refined before use (PB-5); where
    it may be used unrefined, the index is the upper end of the band only (PB-4).

    References
    ----------
    M. L. Weitzman (1979), Optimal search for the best alternative, equation (7). PB-3 of the specification.

    Examples
    --------
    >>> print(f"{reservation_index(0.5, 0.64, 0.05):.12f}")
    1.161481537897
    """
    xp, (m, nu, c), restore = _checked(m=m, nu=nu, c=c)
    check_finite("m", m)
    return restore(m + halfwidth(xp, nu, c))


def _checked(**named: Any) -> tuple[Any, list[Any], Any]:
    xp, values, restore = unify(**named)
    checked = dict(zip(named, values, strict=True))
    check_shapes(**checked)
    check_nu(checked["nu"])
    check_cost(checked["c"])
    return xp, values, restore
