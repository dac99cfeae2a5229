"""Naive twins: definitions written as loops over pairs, folds and samples."""

import numpy as np


def projector(x, r):
    """Projector on the r leading principal directions, by a singular value decomposition."""
    v = np.linalg.svd(x - x.mean(0))[2][:r]
    return v.T @ v


def pair_mean(a, b, P, same):
    values = [x @ P @ z for i, x in enumerate(a) for j, z in enumerate(b) if not (same and i == j)]
    return sum(values) / len(values)


def statistic(x, y, P, shares, weights):
    """T_w as the spec defines it, over pairs of different rows."""
    groups = [x[y == c] for c in range(len(shares))]
    a = np.array([[pair_mean(g, h, P, c == e) for e, h in enumerate(groups)] for c, g in enumerate(groups)])
    whole = shares @ a @ shares
    return sum(w * (a[c, c] - 2 * shares @ a[c] + whole) for c, w in enumerate(weights))


def in_sample(x, y, P, shares, weights):
    means = np.array([x[y == c].mean(0) for c in range(len(shares))])
    gaps = (means - shares @ means) @ P
    return float(weights @ (gaps**2).sum(1))


def shares_of(y, kind="share"):
    p = np.bincount(y) / len(y)
    return p, p if kind == "share" else p**2


def captured(x, y, r, folds, kind="share", keep=None):
    """Unclipped and clipped cross-fit share; `keep` leaves samples out with the folds fixed."""
    keep = np.ones(len(x), bool) if keep is None else keep
    p, w = shares_of(y[keep], kind)
    inside, whole = [], []
    for held in folds:
        held = [i for i in held if keep[i]]
        if np.bincount(y[held], minlength=len(p)).min() < 2:
            continue
        train = [i for i in range(len(x)) if keep[i] and i not in held]
        inside.append(statistic(x[held], y[held], projector(x[train], r), p, w))
        whole.append(statistic(x[held], y[held], np.eye(x.shape[1]), p, w))
    n, d = np.mean(inside), np.mean(whole)
    kept, lost = max(n, 0), max(d - n, 0)
    return n / statistic(x[keep], y[keep], np.eye(x.shape[1]), p, w), kept / (
        kept + lost
    ) if kept + lost else np.nan
