"""Averages over the price of a query, by Gauss-Legendre panels that follow the integrand."""

import numpy as np
from numpy.typing import NDArray

from porism.theory.pandora._gain import density, gain, halfwidth, one_step, tail

Floats = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
PANEL = 1.5  # width of a panel over the smaller standard deviation: 20 nodes are exact to rounding
NEGLIGIBLE = 10.0  # standard deviations after which nothing of a Gaussian is left: exp(-50)
FARTHEST = 60.0  # in units of nu; psi is 0 there, and bands of positive cost are narrower
POINT = 1e-8  # spread over distance below which prices are one: the nodes would be told apart less well
CHUNK = 256


def changes(nu: Floats, c: Floats, shift: Floats, spread: Floats, noise: Floats) -> dict[str, Floats]:
    """dU, dA, dW and the share refined, of one-dimensional arrays.

    The price less m is N(shift, spread^2); `noise` = 1 - rho is the share of the price's surprise that is no
    value.
    """
    w = halfwidth(np, nu, c)
    out = np.zeros((3, len(nu)))  # utility, gross value, share
    point = spread <= POINT * np.abs(shift)
    at_once = (w > 0) & point & (np.abs(shift) < w)
    whole = one_step(np, shift[at_once], nu[at_once])
    out[:, at_once] = whole - c[at_once], whole, np.ones_like(whole)
    spread_out = np.flatnonzero((w > 0) & ~point)
    for i in range(0, len(spread_out), CHUNK):
        part = spread_out[i : i + CHUNK]
        for side in (1.0, -1.0):
            parts = (nu[part], c[part], w[part], side * shift[part], spread[part], noise[part])
            out[:, part] += _half(*(x[:, None, None] for x in parts))
    always = (c == 0) & (nu > 0)
    out[2, always] = 1.0
    finite_cost = np.where(w > 0, c, 0.0)
    return {"dU": out[0], "dA": out[1], "dW": out[1] - finite_cost * out[2], "refine_rate": out[2]}


def _half(nu: Floats, c: Floats, w: Floats, centre: Floats, spread: Floats, noise: Floats) -> Floats:
    """Integrals over y = |price - m| in (0, w) on one side, where y ~ N(centre, spread^2)."""
    edge = np.minimum(w, FARTHEST * nu)
    # psi and Phibar fall like exp(-y^2/2nu^2): their product with the density is a Gaussian around `joint`
    share = 1 / (1 + (spread / nu) ** 2)
    joint, joint_sd = centre * share, spread * np.sqrt(share)
    low, high = edge, np.zeros_like(edge)
    for middle, sd in ((centre, spread), (joint, joint_sd)):
        nearest, far = np.clip(middle, 0, edge), NEGLIGIBLE * sd
        away = np.abs(nearest - middle)
        reach = far * (far / (np.hypot(away, far) + away))  # hypot - away, where both are large
        low, high = np.minimum(low, nearest - reach), np.maximum(high, nearest + reach)
    low, high = np.clip(low, 0, edge), np.clip(high, 0, edge)
    count = int(np.ceil(((high - low) / (PANEL * np.minimum(nu, spread))).max()))
    width = (high - low) / max(count, 1)
    y = low + width * (np.arange(max(count, 1))[:, None] + (NODES + 1) / 2)
    mass = WEIGHTS * width / 2 * density(np, (y - centre) / spread) / spread
    worth = nu * gain(np, y / nu)
    wedge = noise * (y - centre) * tail(np, y / nu)
    return np.stack([(f * mass).sum(axis=(1, 2)) for f in (worth - c, worth + wedge, np.ones_like(y))])
