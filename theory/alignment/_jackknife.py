"""The cross-fit captured share less one row at a time, without a new decomposition for each.

Taking row i out of the training rows subtracts a rank-one matrix from their scatter. Each leading eigenvalue
is then the root of a rational function between two old ones, and its eigenvector a formula.
"""

import numpy as np

from porism.theory.alignment import _pca
from porism.theory.alignment._crossfit import Sample, completed
from porism.theory.alignment._ustatistic import Codes, Floats, after_deletion, delete_one, scatter

_EPS = float(np.finfo(np.float64).eps)
_ROUNDS = 100


def captured_without(data: Sample, held_out: list[Codes], seeds: list[int], r: int, kind: str) -> Floats:
    """Captured share (unclipped) of the sample without row i, folds fixed, for every i."""
    shares, weights = after_deletion(data.counts, kind)
    everything = delete_one(data.z, data.codes, shares, weights)
    total, used = np.zeros(len(data.codes)), np.zeros(len(data.codes))
    for held, seed in zip(held_out, seeds, strict=True):
        train = np.setdiff1d(np.arange(len(data.codes)), held)
        values = np.empty(len(data.codes))
        vectors, _, _ = _pca.top(_pca.centred(data.z[train]), r)
        image = completed(data, vectors, r, seed)[held]
        values[held] = delete_one(image, data.codes[held], shares, weights)
        images = _images(data, train, held, seed, r)
        own = data.codes[train]
        values[train] = scatter(images, data.codes[held], shares[own], weights[own])
        valid = np.isfinite(values)  # a fold left with one row of a class drops out
        total[valid] += values[valid]
        used += valid
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(total / used / everything)


def _images(data: Sample, train: Codes, held: Codes, seed: int, r: int) -> Floats:
    """Held-out rows (n_train, h, r) in the principal subspace of the training rows without row i."""
    z = _pca.centred(data.z[train])
    size = len(train)
    vectors, values, rank = _pca.top(z, min(z.shape))
    if rank > r:  # eigenvalues stay above that of place r + 1, so that no direction is lost
        turns = downdated(values, (z @ vectors.T) * np.sqrt(size / (size - 1)), r)
        return np.asarray((data.z[held] @ vectors.T) @ turns)
    found = []
    for i in range(size):
        left, _, _ = _pca.top(_pca.centred(np.delete(data.z[train], i, axis=0)), r)
        found.append(completed(data, left, r, seed)[held])
    return np.stack(found)


def downdated(values: Floats, rows: Floats, r: int) -> Floats:
    """Leading eigenvectors (n, k, r) of ``diag(values) - rows_i rows_i'`` for every row (n, k); r < k.

    ``values`` descend. Equal ones and components near 0 are moved by rounding, which is a backward error.
    """
    k = len(values)
    top = values[0]
    d = np.minimum.accumulate(values - 4 * _EPS * top * np.arange(k))
    z = np.where(np.abs(rows) < _EPS * np.sqrt(top), _EPS * np.sqrt(top), rows)
    squares = z[:, None, :] ** 2  # (n, 1, k)
    high, gap = d[:r], d[:r] - d[1 : r + 1]
    # f(x) = 1 - sum_k z_k^2 / (d_k - x) falls from +inf to -inf between neighbours; measure from the nearer
    middle = 1 - (squares / (d - (high - gap / 2)[:, None])).sum(axis=2)  # (n, r)
    from_high = middle > 0
    pole = np.where(from_high, np.arange(r), np.arange(1, r + 1))
    sign = np.where(from_high, -1.0, 1.0)  # the root is d_pole + sign * step
    offset = d - d[pole][:, :, None]  # (n, r, k)
    step = _roots(squares, offset, sign, np.broadcast_to(gap / 2, middle.shape))
    vectors = z[:, None, :] / (offset - (sign * step)[:, :, None])
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    return np.asarray(np.linalg.qr(vectors.transpose(0, 2, 1))[0])


def _roots(squares: Floats, offset: Floats, sign: Floats, limit: Floats) -> Floats:
    """Distances of the roots from their poles, by Newton's method on step * f within a bracket."""
    low, high = limit * 1e-60, np.array(limit)
    step = high * 1e-3
    for _ in range(_ROUNDS):
        gaps = offset - (sign * step)[:, :, None]
        terms = squares / gaps
        value = 1 - terms.sum(axis=2)  # f, which falls in x
        slope = -(terms / gaps).sum(axis=2) * sign  # df / dstep
        right = (value > 0) == (sign > 0)  # the root lies at a larger step
        low, high = np.where(right, step, low), np.where(right, high, step)
        product, steep = step * value, value + step * slope
        with np.errstate(divide="ignore", invalid="ignore"):
            trial = step - product / steep
        inside = (trial > low) & (trial < high)
        trial = np.where(inside, trial, np.sqrt(low) * np.sqrt(high))
        done = np.abs(trial - step) <= 2 * _EPS * step
        step = trial
        if done.all():
            break
    return step
