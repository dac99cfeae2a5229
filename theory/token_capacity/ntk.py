"""Kernel of one shared linear map, position by position and tied."""

from typing import Any

import numpy as np

from porism.checks import integer
from porism.kernels.position_gram import position_gram
from porism.theory.token_capacity._arrays import chosen, is_tensor, library_of, native, not_empty

__all__ = ["position_ntk"]


def position_ntk(
    inputs: Any, grads: Any, *, positions: Any = None, tied: bool = False, chunk: int = 256
) -> Any:
    """Tangent kernel of a linear map that all positions share, block by block or summed before squaring.

    ``K_t = (X_t X_t') * (G_t G_t')`` entrywise, and tied
    ``K_S(n, m) = sum over s, t in S of (x_ns . x_mt)(g_ns . g_mt)``.

    Parameters
    ----------
    inputs : array_like or tensor, shape (N, T, d_in)
        What the map reads, x of example n at position t, in floats.
    grads : array_like or tensor, shape (N, T, d_out)
        Gradient of a scalar of example n with respect to the map's output at position t. For C outputs pass
        N C rows and repeat the rows of `inputs`.
    positions : sequence of int, optional
        Selected positions S, distinct, in [0, T); all by default.
    tied : bool, default False
        Whether to return the kernel that training uses, which has the cross-position terms.
    chunk : int, default 256
        Examples a block, >= 1.

    Returns
    -------
    ndarray or tensor, shape (P, N, N), or (N, N) if tied
        Symmetric to the bit, P the number of selected positions in the order given. At least float32; a
        tensor gives a tensor on its device.

    Raises
    ------
    TypeError
        If the arguments are not floats, one is a tensor and the other is not, or positions are not ints.
    ValueError
        If shapes do not fit, an axis is empty, a value is not finite, devices differ, or a position is
        missing, repeated or out of range.

    Notes
    -----
    Blocks are positive semidefinite. ``K_S <= |S| sum of K_t`` in that order, so the range of the tied kernel
    is inside that of the untied one; the tied kernel is not monotone in S. For a low-rank update ``W0 + s B
    A`` the two blocks are ``position_ntk(inputs, s grads @ B)`` and ``position_ntk(s inputs @ A', grads)``.
    Untied blocks come from :func:`porism.kernels.position_gram.position_gram`, at N^2 P (d_in + d_out)
    multiplications; tied costs the cheaper of N P d_in d_out + N^2 d_in d_out and N^2 P^2 (d_in + d_out), and
    beside the result 2 chunk d_in d_out or 3 P chunk^2 numbers.

    References
    ----------
    Jacot, Gabriel and Hongler (2018), "Neural tangent kernel", arXiv:1806.07572. The decomposition by
    position is a reconstruction (TC-1).

    Examples
    --------
    >>> X = [[[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [1.0, -1.0]]]
    >>> G = [[[1.0], [1.0]], [[2.0], [-1.0]]]
    >>> position_ntk(X, G, tied=True)
    array([[ 5.,  7.],
           [ 7., 10.]])
    """
    if is_tensor(inputs) != is_tensor(grads):
        got = f"{type(inputs).__name__} and {type(grads).__name__}"
        raise TypeError(f"inputs and grads must be of one kind, got {got}; convert one")
    if is_tensor(inputs) and inputs.device != grads.device:
        raise ValueError(
            f"inputs and grads must be on one device, got {inputs.device} and {grads.device}; move one"
        )
    X, G = native("inputs", inputs, 3), native("grads", grads, 3)
    if is_tensor(X):
        X, G = X.detach(), G.detach()
        kind = library_of(X).promote_types(X.dtype, G.dtype)
        X, G = X.to(kind), G.to(kind)
    not_empty("inputs", X.shape, "N, T, d_in")
    not_empty("grads", G.shape, "N, T, d_out")
    if X.shape[:2] != G.shape[:2]:
        raise ValueError(
            f"inputs and grads must agree in (N, T), got {tuple(X.shape)} and {tuple(G.shape)}; "
            "repeat the rows of inputs for several outputs"
        )
    chunk = integer("chunk", chunk, 1)
    if positions is not None:
        keep = chosen("positions", positions, int(X.shape[1]))
        X, G = X[:, keep], G[:, keep]
    if not tied:
        return position_gram(X, G, per_position=True, chunk=chunk)
    n, count, d_in, d_out = int(X.shape[0]), int(X.shape[1]), int(X.shape[2]), int(G.shape[2])
    outer = (n * count + n * n) * d_in * d_out
    block: Any = _outer if outer <= n * n * count * count * (d_in + d_out) else _direct
    out = X.new_empty((n, n)) if is_tensor(X) else np.empty((n, n), np.result_type(X, G))
    starts = range(0, n, chunk)
    for i in starts:
        for j in range(i, n, chunk):
            rows, columns = slice(i, i + chunk), slice(j, j + chunk)
            left = X[rows], G[rows]
            part = block(*left, *(left if i == j else (X[columns], G[columns])))
            if i == j:
                part = library_of(part).triu(part) + library_of(part).triu(part, 1).T
            out[rows, columns] = part
            out[columns, rows] = part.T
    return out


def _outer(X: Any, G: Any, Y: Any, H: Any) -> Any:
    """Tied through the gradients of the weight themselves."""
    left = (G.mT @ X).reshape(len(X), -1)
    right = left if Y is X else (H.mT @ Y).reshape(len(Y), -1)
    return left @ right.T


def _direct(X: Any, G: Any, Y: Any, H: Any) -> Any:
    """Tied through sums over pairs of positions, one position of the rows at a time."""
    shape = (len(X), *Y.shape[:2])
    flat_inputs, flat_grads = Y.reshape(-1, Y.shape[2]).T, H.reshape(-1, H.shape[2]).T
    total: Any = 0
    for s in range(X.shape[1]):
        pairs = X[:, s] @ flat_inputs
        pairs *= G[:, s] @ flat_grads
        total = total + pairs.reshape(shape).sum(-1)
    return total
