"""A specialist that bids for queries: when it refines, and what that does to it and to everyone."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, one_of
from porism.theory.pandora._gain import halfwidth, one_step
from porism.theory.pandora._inputs import arrays, check_cost, check_finite, check_nu
from porism.theory.pandora._market import changes

__all__ = [
    "Bid",
    "bidder_decision",
    "bidder_sign_map",
    "bidder_statics",
]

PRICES = ("raw", "shrunk")
TINY = 1e-15  # changes below it are rounding


class Bid(NamedTuple):
    """What a specialist does when offered a query at a price.

    Parameters
    ----------
    refine : bool or ndarray of bool
        Whether it buys the better estimate first.
    accept_without : bool or ndarray of bool
        Whether it would take the query on its present estimate.
    gain : float or ndarray
        What refining is worth to it, ``max(Delta, 0)``.
    """

    refine: Any
    accept_without: Any
    gain: Any


def bidder_decision(m: ArrayLike, nu: ArrayLike, c: ArrayLike, price: ArrayLike) -> Bid:
    """Decide whether a specialist refines before it accepts a query at a posted price.

    It takes the query iff its posterior mean is at least the price; without refining that is worth
    ``(m - p)^+``, with refining ``E(M - p)^+ - c``, and the difference is
    ``Delta = nu psi(|m - p|/nu) - c``.

    Parameters
    ----------
    m : float or array_like
        Mean of its value for the query, finite.
    nu : float or array_like
        Standard deviation of the refined mean, >= 0 and finite.
    c : float or array_like
        Cost of refining, >= 0.
    price : float or array_like
        Price it pays, finite; its utility is value less price.

    Returns
    -------
    Bid
        The triple (refine, accept_without, gain), of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not fit.

    Notes
    -----
    Refine iff ``|m - p|`` lies inside the band of `inspection_halfwidth`. Accepting by the posterior mean is
    dominant, as the price does not depend on the answer.

    References
    ----------
    PB-19 of the module's specification.

    Examples
    --------
    >>> bid = bidder_decision(0.0, 0.5, 0.02, 0.3)
    >>> bid.refine, bid.accept_without, round(bid.gain, 6)
    (True, False, 0.064336)
    """
    (m_, nu_, c_, price_), _, restore = arrays(m=m, nu=nu, c=c, price=price)
    check_finite("m", m_)
    check_nu(nu_)
    check_cost(c_)
    check_finite("price", price_)
    m_, nu_, c_, price_ = np.broadcast_arrays(m_, nu_, c_, price_)
    gap = m_ - price_
    refine = np.abs(gap) < halfwidth(np, nu_, c_)
    worth = np.where(refine, np.maximum(one_step(np, gap, nu_) - np.where(refine, c_, 0.0), 0.0), 0.0)
    return Bid(restore(refine), restore(gap >= 0), restore(worth))


def bidder_statics(
    m: ArrayLike,
    nu: ArrayLike,
    c: ArrayLike,
    mu: ArrayLike,
    s_other: ArrayLike,
    omega: ArrayLike,
    price: str = "raw",
) -> dict[str, Any]:
    """Change that the specialist's refining makes, to itself and to welfare, averaged over prices.

    The competitor's value is V_j ~ N(mu, s_other^2); the raw price is a noisy estimate of it,
    ``p = V_j + N(0, omega^2)``, the shrunk price its conditional mean ``e(p) = mu + rho (p - mu)``,
    ``rho = s_other^2/(s_other^2 + omega^2)``. With w the band's half-width and f the density of the price::

        dU = int_{|p-m|<w} (nu psi(|m-p|/nu) - c) f(p) dp
        dA = int_{|p-m|<w} (nu psi(|m-p|/nu) + sign(p-m) (p-e(p)) Phibar(|m-p|/nu)) f(p) dp
        dW = dA - c P(|p-m| < w)

    Parameters
    ----------
    m : float or array_like
        Mean of the specialist's value, finite.
    nu : float or array_like
        Standard deviation of its refined mean, >= 0 and finite.
    c : float or array_like
        Cost of refining, >= 0.
    mu : float or array_like
        Mean of the competitor's value, finite.
    s_other : float or array_like
        Standard deviation of the competitor's value, >= 0 and finite.
    omega : float or array_like
        Standard deviation of the competitor's estimation noise, >= 0 and finite.
    price : {"raw", "shrunk"}, default "raw"
        Whether the noisy estimate itself is posted or its conditional mean.

    Returns
    -------
    dict
        ``dU`` change of the specialist's utility, ``dA`` of the gross value of the allocation, ``dW`` of that
        net of costs, ``refine_rate`` the share of queries refined; floats, or arrays of the broadcast
        shape.

    Raises
    ------
    ValueError
        If an argument is out of range, the shapes do not fit, or price is neither word.

    Notes
    -----
    dU >= 0 always. dW = dU for the shrunk price, and for the raw one at omega = 0 (PB-20); otherwise the
    wedge (p - e(p)) may turn dA and dW negative while dU rises (PB-21, PB-22). Broadcasting makes sweeps:
    pass an array of omega. Gauss-Legendre quadrature, relative error about 1e-13; some 100 to 1000
    evaluations an entry, in chunks of bounded memory.

    References
    ----------
    PB-19 to PB-22 of the module's specification.

    Examples
    --------
    >>> change = bidder_statics(0, 0.5, 0.02, 1.2, 0.3, [0.0, 0.5])
    >>> change["dA"].round(6), change["dU"].round(6)
    (array([ 0.001495, -0.002311]), array([0.000664, 0.009277]))
    """
    one_of("price", price, PRICES)
    held, shape, restore = arrays(m=m, nu=nu, c=c, mu=mu, s_other=s_other, omega=omega)
    m_, nu_, c_, mu_, s_, omega_ = (np.broadcast_to(a, shape).reshape(-1) for a in held)
    check_finite("m", m_)
    check_nu(nu_)
    check_cost(c_)
    check_finite("mu", mu_)
    check_nu(s_, "s_other")
    check_nu(omega_, "omega")
    spread = np.hypot(s_, omega_)  # standard deviation of the raw price
    with np.errstate(all="ignore"):
        noise_share = np.where(spread > 0, (omega_ / spread) ** 2, 0.0)  # 1 - rho
        if price == "shrunk":
            spread = np.where(spread > 0, s_ * (s_ / spread), 0.0)
            noise_share = np.zeros_like(noise_share)
    out = changes(nu_, c_, mu_ - m_, spread, noise_share)
    return {name: restore(value.reshape(shape)) for name, value in out.items()}


def bidder_sign_map(
    distance: ArrayLike,
    omega: ArrayLike,
    nu: float = 0.5,
    c: float = 0.02,
    s_other: float = 0.3,
    price: str = "raw",
) -> dict[str, NDArray[np.int8]]:
    """Signs of the three changes over a grid of distance and noise.

    ``sign(dU), sign(dA), sign(dW)`` of `bidder_statics` at mu - m = distance.

    Parameters
    ----------
    distance : array_like, shape (D,)
        Values of mu - m, finite; only their size matters.
    omega : array_like, shape (W,)
        Standard deviations of the competitor's noise, >= 0.
    nu, c, s_other : float
        The other parameters of `bidder_statics`.
    price : {"raw", "shrunk"}, default "raw"
        Which price is posted.

    Returns
    -------
    dict of ndarray, shape (D, W), dtype int8
        Keys "dU", "dA", "dW"; -1, 0 or 1. 0 also where the change is below 1e-15 in size.

    Raises
    ------
    ValueError
        If an argument is out of range or not one-dimensional.

    References
    ----------
    PB-22 of the module's specification.

    Examples
    --------
    >>> bidder_sign_map([0.0, 1.2], [0.0, 0.5])["dA"]
    array([[ 1,  1],
           [ 1, -1]], dtype=int8)
    """
    distance_, omega_ = finite_array("distance", distance, ndim=1), finite_array("omega", omega, ndim=1)
    change = bidder_statics(0.0, nu, c, distance_[:, None], s_other, omega_[None, :], price)
    return {
        name: np.where(np.abs(change[name]) < TINY, 0, np.sign(change[name])).astype(np.int8)
        for name in ("dU", "dA", "dW")
    }
