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


def weight_matrix(y, rows, shares, weights):
    """Pair weights (n, n) of T_w over some rows: T_w is linear in the pair means, take one at a time."""
    found = np.zeros((len(y), len(y)))
    for c in range(len(shares)):
        for e in range(len(shares)):
            a = np.zeros((len(shares), len(shares)))
            a[c, e] = 1
            whole = shares @ a @ shares
            slope = sum(w * (a[k, k] - 2 * shares @ a[:, k] + whole) for k, w in enumerate(weights))
            pairs = [(i, j) for i in rows for j in rows if i != j and (y[i], y[j]) == (c, e)]
            for i, j in pairs:
                found[i, j] += slope / len(pairs) / 2  # x_i' x_j and x_j' x_i are the same product
                found[j, i] += slope / len(pairs) / 2
    return found


def noise(x, y, r, folds, kind="share"):
    """Covariance of (N, T) from sums over pairs, and traces from residuals across classes."""
    p, w = shares_of(y, kind)
    n, C = len(y), len(p)
    U = sum(weight_matrix(y, np.array(held), p, w) for held in folds) / len(folds)
    W = weight_matrix(y, np.arange(n), p, w)
    traces = np.zeros((2, 2))
    for held in folds:
        P = projector(np.delete(x, held, axis=0), r)
        e = np.array([x[i] - np.mean([x[j] for j in held if y[j] == y[i]], axis=0) for i in held])
        per = len(held) // C
        values = [
            [[e[i] @ Q @ e[j] * (e[i] @ R @ e[j]) for R in (P, np.eye(len(P)))] for Q in (P, np.eye(len(P)))]
            for i in range(len(held))
            for j in range(len(held))
            if y[held[i]] != y[held[j]]
        ]
        traces += np.mean(values, axis=0) / (1 - 1 / per) ** 2 / len(folds)
    return 2 * traces * np.array([[np.sum(A * B) for B in (U, W)] for A in (U, W)])


def posterior(inside, total, covariance, chance, points=801, far=9.0):
    """Posterior mean of the share by sums over a plane grid of true scatters; the prior's atom on its ray."""
    precision = np.linalg.inv(covariance)
    sd = np.sqrt(np.diag(covariance))

    def likelihood(a, t):
        gap = np.stack(np.broadcast_arrays(a - inside, t - total), axis=-1)
        return np.exp(-np.einsum("...i,...i", gap @ precision, gap) / 2)

    top = max(total, 0) + far * sd[1]
    t = (np.arange(20 * points) + 0.5) / (20 * points) * top
    atom = np.sum(t * likelihood(chance * t, t)) * (t[1] - t[0])
    a = np.linspace(max(inside - far * sd[0], 0), max(inside, 0) + far * sd[0], points)
    b = np.linspace(0, top, points)
    flat = likelihood(a[:, None], a[:, None] + b)
    for axis in (0, 1):  # trapezoids
        edge = [slice(None)] * 2
        for end in (0, -1):
            edge[axis] = end
            flat[tuple(edge)] /= 2
    flat *= (a[1] - a[0]) * (b[1] - b[0])
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num(a[:, None] / (a[:, None] + b))
    return (np.sum(flat * share) + chance * atom) / (np.sum(flat) + atom)
