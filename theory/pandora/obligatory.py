"""Value of Weitzman's rule where a specialist may be used only after it was refined."""

from typing import Any

import numpy as np

from porism.theory.pandora._grid import inputs
from porism.theory.pandora.index import inspection_halfwidth

__all__ = ["obligatory_value"]

REACH = 9  # Phi(-9) = 1e-19
NODES = 16  # Gauss-Legendre nodes on a panel of at most one nu: Phi is entire, the error is below rounding


def obligatory_value(m: Any, nu: Any, c: Any, outside: float = -np.inf) -> float:
    """Best expected value if only refined specialists, or the outside option, may be used.

    ``E max(o, max_i kappa_i)`` with ``kappa_i = min(M_i, sigma_i)``, ``M_i ~ N(m_i, nu_i^2)`` independent and
    sigma the reservation index: refine by decreasing sigma until the best refined mean exceeds the next one.

    Parameters
    ----------
    m : float array, shape (K,)
        Net means after the cheap signal, in units of value.
    nu : float or float array, shape (K,)
        Preposterior standard deviations, >= 0.
    c : float or float array, shape (K,)
        Costs of refining in units of value, >= 0; inf for a specialist that cannot be refined. With c = 0
        everybody is refined and the value is E max(o, max M_i).
    outside : float
        Value of choosing nobody; -inf if that is not allowed (then somebody must be refined).

    Returns
    -------
    float
        The value, net of the costs of refining; -inf if nobody can be refined and there is no outside option.

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes differ.

    Notes
    -----
    Assumes Gaussian, mutually independent M_i. The integral of 1 - prod F is taken by Gauss-Legendre between
    all sigma_i, where F jumps, and the points m_i + j nu_i: exact to rounding. O(K^2), no limit on K.

    References
    ----------
    M. L. Weitzman (1979), Optimal search for the best alternative, Econometrica 47, 641-654. The identity:
    R. Kleinberg, B. Waggoner and E. G. Weyl (2016), Descending price optimally coordinates search,
    arXiv:1603.07682.

    Examples
    --------
    >>> print(f"{obligatory_value([0.2, 0.5, -0.1], [0.8, 0.4, 1.1], [0.05, 0.02, 0.1], outside=0):.12f}")
    0.744855488439
    """
    from scipy.special import ndtr

    means, sd, cost, outside = inputs(m, nu, c, outside)
    keep = np.isfinite(cost)
    if not keep.any():
        return outside
    shift = float(means[keep].max())
    means, sd, outside = means[keep] - shift, sd[keep], outside - shift
    sigma = means + np.asarray(inspection_halfwidth(sd, cost[keep]))
    start = max(outside, float(np.minimum(means - REACH * sd, sigma).max()))
    end = float(np.minimum(means + REACH * sd, sigma).max())
    if end <= start:
        return start + shift
    kinks = np.concatenate([sigma, (means + np.arange(-REACH, REACH + 1)[:, None] * sd).ravel()])
    knots = np.unique(np.concatenate([[start, end], kinks[(kinks > start) & (kinks < end)]]))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(knots)[:, None] / 2
    y = (knots[:-1, None] + half + half * nodes).ravel()
    below = np.ones_like(y)
    for mean, deviation, index in zip(means, sd, sigma, strict=True):
        if deviation > 0:
            below *= np.where(y < index, ndtr((y - mean) / deviation), 1.0)
        else:
            below *= y >= index
    return float(start + np.dot((half * weights).ravel(), 1 - below) + shift)
