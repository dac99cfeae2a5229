"""Plain float64 twins: a partial isometry by SVD, an odd polynomial step by step."""

import numpy as np
from numpy.typing import NDArray

__all__: list[str] = []


def polar(
    G: NDArray[np.float64], smoothing: float, rtol: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """``P diag(s / sqrt(s^2 + beta^2)) Q^T`` member by member, and ranks; NaN for members not finite."""
    out, rank = np.zeros_like(G), np.zeros(len(G), np.int64)
    for k, g in enumerate(G):
        top = np.abs(g).max(initial=0.0)
        if not np.isfinite(top):
            out[k] = np.nan
        if not 0 < top < np.inf:
            continue
        P, s, Q = np.linalg.svd(g / top, full_matrices=False)
        kept = s > rtol * s[0]
        beta = smoothing / top
        gain = kept.astype(float) if beta == 0 else s / np.hypot(s, beta)
        rank[k] = kept.sum()
        # zero rows and columns stay exactly zero, which the vectors of an SVD only do up to rounding
        live = np.multiply.outer(g.any(1), g.any(0))
        out[k] = np.where(live, (P * gain) @ Q, 0.0)
    return out, rank


def newton_schulz(
    G: NDArray[np.float64], triples: list[tuple[float, float, float]], safety: float
) -> NDArray[np.float64]:
    """``X <- a X + (b M + c M^2) X`` with ``M = X X^T`` from ``G / (||G||_F safety)``; zero stays zero."""
    out = np.zeros_like(G)
    for k, g in enumerate(G):
        top = np.abs(g).max(initial=0.0)
        if top == 0:
            continue
        x = g / top
        x = x / (np.sqrt((x * x).sum()) * safety)
        for a, b, c in triples:
            M = x @ x.T
            x = a * x + (b * M + c * M @ M) @ x
        out[k] = x
    return out
