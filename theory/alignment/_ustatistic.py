"""Between-class scatter of projected rows: the in-sample value, its debiased form, and both less one row.

The U-statistic over pairs i != j equals the in-sample scatter less what the noise of the class means adds:

    T_w = sum_c w_c |m_c - m|^2 - sum_c (w_c (1 - 2 p_c) + W p_c^2) s_c^2 / n_c,   W = sum_c w_c,

since the mean over ordered pairs of a class is |m_c|^2 - s_c^2 / n_c, with s_c^2 its unbiased total variance.
Here m = sum_c p_c m_c. Every term is of centred rows, so an offset costs no digits.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def class_weights(counts: NDArray[np.int64], kind: str) -> tuple[Floats, Floats]:
    """Shares p_c and weights w_c; classes on the last axis."""
    shares = counts / counts.sum(axis=-1, keepdims=True)
    return shares, shares if kind == "share" else shares**2


def after_deletion(counts: NDArray[np.int64], kind: str) -> tuple[Floats, Floats]:
    """Shares and weights of the sample that lost one row of class c, in row c."""
    return class_weights(counts - np.eye(len(counts), dtype=np.int64), kind)


def scatter(y: Floats, codes: Codes, shares: Floats, weights: Floats, debiased: bool = True) -> Floats:
    """T_w of rows y (..., h, k), or the in-sample scatter; shares and weights (..., C) broadcast."""
    classes = shares.shape[-1]
    member = (codes == np.arange(classes)[:, None]).astype(np.float64)
    counts = member.sum(axis=1)
    means = (member / counts[:, None]) @ y
    centre = (shares[..., None] * means).sum(axis=-2, keepdims=True)
    between = (weights * ((means - centre) ** 2).sum(axis=-1)).sum(axis=-1)
    if not debiased:
        return np.asarray(between)
    deviation = ((y - means[..., codes, :]) ** 2).sum(axis=-1)
    variance = (deviation @ member.T) / (counts - 1)
    return np.asarray(between - (_noise(shares, weights) * variance / counts).sum(axis=-1))


def delete_one(y: Floats, codes: Codes, shares: Floats, weights: Floats) -> Floats:
    """T_w of rows y (h, k) less row i, for every i; row c of shares and weights holds where i is of class c.

    NaN where class c is left with one row.
    """
    classes = len(shares)
    counts = np.bincount(codes, minlength=classes).astype(np.float64)
    member = (codes == np.arange(classes)[:, None]).astype(np.float64)
    means = (member / counts[:, None]) @ y
    squares = (means**2).sum(axis=1)
    own = ((y - means[codes]) ** 2).sum(axis=1)
    within = member @ own
    result = np.full(len(y), np.nan)
    for c in range(classes):
        size, rows = counts[c], np.flatnonzero(codes == c)
        if size < 3:
            continue
        p, w = shares[c], weights[c]
        moved = (size * means[c] - y[rows]) / (size - 1)
        centre = p @ means + p[c] * (moved - means[c])
        heavy = w @ means + w[c] * (moved - means[c])
        between = w @ squares + w[c] * ((moved**2).sum(axis=1) - squares[c])
        between += w.sum() * (centre**2).sum(axis=1) - 2 * (heavy * centre).sum(axis=1)
        noise = _noise(p, w)
        others = noise * within / (counts * np.maximum(counts - 1, 1))
        left = within[c] - size / (size - 1) * own[rows]
        bias = others.sum() - others[c] + noise[c] * left / ((size - 1) * (size - 2))
        result[rows] = between - bias
    return result


def jackknife_error(values: Floats) -> float:
    """Delete-one jackknife standard error."""
    n = len(values)
    return float(np.sqrt((n - 1) / n * np.sum((values - values.mean()) ** 2)))


def _noise(shares: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights * (1 - 2 * shares) + total * shares**2)
