"""Full enumeration, straight from the definitions; no assignment solver, exact for integer masses."""

import itertools

import numpy as np


def orders(n):
    return np.array(list(itertools.permutations(range(n))), dtype=int).reshape(-1, n)


def common_values(B, W):
    """f(p, p) for all orders p of `orders(n)`."""
    B, W = np.asarray(B, float), np.asarray(W, float)
    chunks = np.array_split(orders(len(B)), max(1, len(orders(len(B))) // 5000))
    return np.concatenate([(W * B[p[:, :, None], p[:, None, :]]).sum((1, 2)) for p in chunks])


def pair_values(B, W):
    """f(p, q) for all pairs, an array (m!, n!) in the order of `orders`."""
    B, W = np.asarray(B, float), np.asarray(W, float)
    m, n = B.shape
    q, j = orders(n), np.arange(n)
    return np.array([(W.T @ B[p])[j, q].sum(1) for p in orders(m)])


def values(B, W, order):
    return common_values(B, W) if order == "common" else pair_values(B, W)


def optimum(B, W, order):
    """Least value, and the number of orders, or pairs of orders, that reach it."""
    f = values(B, W, order)
    return f.min(), int((f <= f.min() + 1e-9 * max(1.0, np.sum(B))).sum())


def optimal(B, W, order):
    """All optimal (p, q) as tuples."""
    B = np.asarray(B, float)
    f = values(B, W, order)
    where = np.argwhere(f <= f.min() + 1e-9 * max(1.0, B.sum()))
    if order == "common":
        p = orders(len(B))[where[:, 0]].tolist()
        return [(tuple(a), tuple(a)) for a in p]
    p, q = orders(B.shape[0])[where[:, 0]].tolist(), orders(B.shape[1])[where[:, 1]].tolist()
    return [(tuple(a), tuple(b)) for a, b in zip(p, q, strict=True)]


def group(S, mode):
    """All (g, h) with S[g][:, h] == S."""
    S = np.asarray(S)
    if mode == "common":
        g = orders(len(S))
        return [(h, h) for h in g[(S[g[:, :, None], g[:, None, :]] == S).all((1, 2))]]
    columns = orders(S.shape[1])
    found = []
    for g in orders(S.shape[0]):
        same = (S[g][:, columns].transpose(1, 0, 2) == S).all((1, 2))
        found += [(g, h) for h in columns[same]]
    return found
