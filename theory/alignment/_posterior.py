"""The captured share from noisy scatters: a posterior mean that does not run to 0 or 1 on noise.

A debiased scatter T is a weighted sum over pairs of different rows, ``sum_ij W_ij x_i' P x_j``. Where classes
have one mean, products of different pairs are uncorrelated, so that

    Var N = 2 |U|^2 tr(PCPC),   Cov(N, T) = 2 <U, W> tr(PCC),   Var T = 2 |W|^2 tr(CC)

for the scatter N within the subspace, of pair weights U (means over folds), and T, the whole one. C is the
covariance within a class. The traces come from residuals of rows of different classes, which are independent:
``E (e_i' e_j)^2 = (1 - 1/n_c)(1 - 1/n_e) tr(CC)``.

All three from the same pairs of rows, so that the covariance has no negative eigenvalue.

N and T are taken as Gaussian around the true scatter a within and a + b in all. Prior: a, b >= 0 flat, that
is a uniform share a / (a + b), or, just as likely, a subspace that knows nothing of the signal, of share r/d.
The posterior mean of the share is N / T where both are clear, and near r/d where nothing is.
"""

import math

import numpy as np
from numpy.typing import NDArray

from porism.theory.alignment._ustatistic import Codes, Floats

_POINTS = 1000
_FAR = 12.0  # half-width of the grid, standard errors of the share
_CLEAR = 6.0  # standard errors that the total may lie below its estimate


def weight_products(
    shares: Floats,
    weights: Floats,
    size: NDArray[np.int64],
    counts: NDArray[np.int64],
    members: NDArray[np.bool_],
) -> Floats:
    """``[[|U|^2, <U, W>], [<U, W>, |W|^2]]``: U of the mean over folds of `size` rows a class, W of all rows.

    `members` (C, folds, n) tells the rows of each class in each fold.
    """
    fold, every = (pair_weights(shares, weights, n) for n in (size, counts))
    folds, flags = members.shape[1], members.astype(np.float64)
    both = flags @ flags.transpose(0, 2, 1)  # (C, folds, folds), rows that two folds share
    pairs = np.einsum("cfg,efg->ce", both, both) - np.diag(both.sum(axis=(1, 2)))
    number = np.outer(counts, counts) - np.diag(counts)
    inside = np.outer(size, size) - np.diag(size)
    cross = float(np.sum(fold * every * inside))
    return np.array([[np.sum(fold**2 * pairs) / folds**2, cross], [cross, np.sum(every**2 * number)]])


def pair_weights(shares: Floats, weights: Floats, counts: NDArray[np.int64]) -> Floats:
    """Weight (C, C) of each ordered pair of different rows, of class c and e, in T_w."""
    cross = np.outer(weights, shares)
    coefficient = np.diag(weights) - cross - cross.T + weights.sum() * np.outer(shares, shares)
    return np.asarray(coefficient / (np.outer(counts, counts) - np.diag(counts)))


def traces(image: Floats, z: Floats, codes: Codes, classes: int) -> Floats:
    """Unbiased ``[[tr(PCPC), tr(PCC)], [tr(PCC), tr(CC)]]`` from rows z and their images."""
    parts = []
    for c in range(classes):
        rows = codes == c
        scale = math.sqrt(int(rows.sum()) - 1)
        parts.append([(y[rows] - y[rows].mean(axis=0)) / scale for y in (image, z)])
    found = np.zeros((2, 2))
    for c, one in enumerate(parts):
        for other in parts[:c]:
            for i, j in ((0, 0), (0, 1), (1, 1)):
                found[i, j] += _inner(one[i], one[j], other[i], other[j])
    found[1, 0] = found[0, 1]
    return found / (classes * (classes - 1) / 2)


def _inner(a: Floats, b: Floats, c: Floats, d: Floats) -> float:
    """``sum_ij (a_i' c_j)(b_i' d_j)``, by the smaller of two products."""
    if len(a) * len(c) <= a.shape[1] * b.shape[1]:
        return float(np.sum((a @ c.T) * (b @ d.T)))
    return float(np.sum((a.T @ b) * (c.T @ d)))


def share(inside: float, total: float, covariance: Floats, chance: float) -> float:
    """Posterior mean of a / (a + b); (inside, total) estimate (a, a + b), and `chance` is r/d.

    NaN if there is no error and no scatter.
    """
    m = np.array([inside, total - inside])
    turn = np.array([[1.0, 0.0], [-1.0, 1.0]])
    values, vectors = np.linalg.eigh(turn @ covariance @ turn.T)
    top = float(values[-1])
    if top <= (1e-12 * float(np.abs(m).sum())) ** 2:
        kept, lost = np.maximum(m, 0.0)
        return float(kept / (kept + lost)) if kept + lost > 0 else math.nan
    values = np.maximum(values, 1e-12 * top)  # rounding
    precision = (vectors / values) @ vectors.T
    s = _grid(m, (vectors * values) @ vectors.T)
    mass = np.full(len(s), s[-1] - s[0] + (s[1] - s[0])) / len(s)  # of the flat part
    s, mass = np.append(s, chance), np.append(mass, 1.0)
    u = np.stack([s, 1 - s], axis=1)
    quadratic = np.einsum("ij,jk,ik->i", u, precision, u)
    # integral over t = a + b of t exp(-(m - t u)' precision (m - t u) / 2), less what does not depend on s
    log = _log_half_moment((u @ precision @ m) / np.sqrt(quadratic)) - np.log(quadratic)
    density = mass * np.exp(log - log.max())
    return float((density @ s) / density.sum())


def _grid(m: Floats, covariance: Floats) -> Floats:
    """Midpoints of the part of [0, 1] where the posterior lives."""
    total = float(m.sum())
    best = min(max(m[0] / total, 0.0), 1.0) if total > 0 else 0.5
    along = np.array([1 - best, -best])
    clear = total - _CLEAR * math.sqrt(float(covariance.sum()))
    width = _FAR * math.sqrt(float(along @ covariance @ along)) / clear if clear > 0 else math.inf
    low, high = max(best - width, 0.0), min(best + width, 1.0)
    return np.asarray(low + (high - low) * (np.arange(_POINTS) + 0.5) / _POINTS)


def _log_half_moment(z: Floats) -> Floats:
    """``log int_0^inf t exp(-t^2 / 2 + z t) dt = log(1 + z F(z) / f(z))``, F and f the normal law's."""
    from scipy.special import log_ndtr

    near = np.clip(z, -20.0, None)
    mills = log_ndtr(near) + near**2 / 2 + 0.5 * math.log(2 * math.pi)
    with np.errstate(divide="ignore"):
        above = np.logaddexp(0.0, np.log(np.maximum(near, 0.0)) + mills)
    below = np.log1p(np.minimum(near, 0.0) * np.exp(np.minimum(mills, 1.0)))
    far = 1 / np.minimum(z, -20.0) ** 2
    tail = np.log(far) + np.log1p(-3 * far + 15 * far**2 - 105 * far**3)
    return np.asarray(np.where(z > 0, above, np.where(z > -20, below, tail)))
