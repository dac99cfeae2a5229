"""Second moments of innovations, from which the value of refining follows."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FEW = 30
"""Rows of a fold, or of a bin, below which nu is not estimated from it alone."""


def _covariance(x: Floats, y: Floats, known: Bools) -> Floats:
    """Covariance of two columns over the known entries, a specialist at a time; both are 0 elsewhere."""
    count = known.sum(0)
    centred = (np.where(known, column - column.sum(0) / count, 0.0) for column in (x, y))
    out: Floats = np.multiply(*centred).sum(0) / count
    return out


def spreads(r: Floats, e: Floats, known: Bools, pooled: bool) -> tuple[Floats, Floats, Floats, list[str]]:
    square, s = _covariance(r, e, known), np.sqrt(np.maximum(_covariance(e, e, known), 0.0))
    if pooled:
        square = np.full_like(square, np.average(square, weights=known.sum(0)))
    flags = ["nu_zero"] * bool((square <= 0).any()) + ["nu_clipped"] * bool(
        (square >= s**2).any() and s.any()
    )
    nu = np.minimum(np.sqrt(np.maximum(square, 0.0)), s * (1 - 1e-9))
    with np.errstate(divide="ignore"):
        tau = s * np.sqrt(np.maximum((s / np.where(nu > 0, nu, 1.0)) ** 2 - 1, 0.0))
    tau = np.where(nu > 0, np.where(nu < s * (1 - 2e-9), tau, 0.0), np.inf)
    return nu, s, tau, flags


def binned(r: Floats, e: Floats, m: Floats, known: Bools, nu: Floats, bins: int) -> tuple[Floats, Floats]:
    """Nu by quantile bins of m; a bin with fewer than FEW rows keeps the pooled nu."""
    table, edges = np.tile(nu, (bins, 1)), np.empty((bins - 1, m.shape[1]))
    for k, ok in enumerate(known.T):
        edges[:, k] = np.quantile(m[ok, k], np.arange(1, bins) / bins)
        place = (m[ok, k, None] >= edges[:, k]).sum(1)
        for b in range(bins):
            inside = place == b
            if inside.sum() >= FEW:
                x, y = r[ok, k][inside], e[ok, k][inside]
                square = float(((x - x.mean()) * (y - y.mean())).mean())
                table[b, k] = min(np.sqrt(max(square, 0.0)), y.std() * (1 - 1e-9))
    return table, edges


def moments(r: Floats, e: Floats, known: Bools) -> tuple[Floats, Floats]:
    """E[r r'] and E[(V - m) r'] over rows where both are known; the first made semidefinite."""
    both = np.maximum(known.T.astype(float) @ known, 1.0)
    A, B = r.T @ r / both, e.T @ r / both
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    ridge = 1e-8 * max(float(np.trace(A)), 0.0) / len(A)
    return (vectors * (np.maximum(values, 0.0) + ridge)) @ vectors.T, B
