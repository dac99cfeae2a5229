"""How many physical heads a group of query heads comes from, and the best factorisation into fewer."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, probability
from porism.results import Result
from porism.theory.attention.rope import RopeLayout, _fits

__all__ = ["VirtualRank", "factor_virtual", "virtual_rank"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class VirtualRank(Result):
    """Singular values of the query heads of each group, taken as rows.

    Parameters
    ----------
    singular_values : float64 array of shape (n_kv, G)
        Of the G x (d_h D) matrix of each group, descending.
    rank : int array of shape (n_kv,)
        Number of those above rtol times the largest.

    Examples
    --------
    >>> virtual_rank([[[[1.0, 2.0]], [[2.0, 4.0]]]]).rank.tolist()
    [1]
    """

    singular_values: Floats
    rank: NDArray[np.int64]

    def error_at(self, P: int) -> Floats:
        """Relative error of the best approximation by P physical heads and a mix of heads.

        Parameters
        ----------
        P : int
            Physical heads, 0..G.

        Returns
        -------
        float64 array of shape (n_kv,)
            ``|W - W_P|_F / |W|_F``, the tail of the singular values; 0 for a group of zeros.

        Raises
        ------
        TypeError, ValueError
            If P is out of range.
        """
        largest = self.singular_values[:, :1]
        squares = (self.singular_values / np.where(largest > 0, largest, 1.0)) ** 2
        tail = squares[:, integer("P", P, 0, squares.shape[1]) :].sum(axis=1)
        return np.sqrt(tail / np.maximum(squares.sum(axis=1), 1.0))


def virtual_rank(W_q: ArrayLike, rtol: float | None = None) -> VirtualRank:
    """Rank of each group's query heads as rows: the fewest physical heads that a mix of heads makes them of.

    Rank of the G x (d_h D) matrix whose rows are the heads.

    Parameters
    ----------
    W_q : array_like of shape (n_kv, G, d_h, D)
        Query projection: groups, heads of a group, width of a head, width of the input.
    rtol : float, optional
        Singular values at most this share of the largest count as 0; in [0, 1]. Without it
        ``max(G, d_h D) eps``, eps that of the dtype given; pass about 2e-2 for weights that were bfloat16.

    Returns
    -------
    VirtualRank
        Singular values and rank of each group.

    Raises
    ------
    TypeError, ValueError
        If the weight is no finite array of four axes, or rtol is out of range.

    Notes
    -----
    A map of the head's dimensions that all heads of a group share, with its inverse on their key, changes
    no logit and not the rank. Heads with keys of their own (``n_kv = 1`` made of plain multi-head attention)
    have a map each: there the rank depends on these, and only describes the weights. Cost O(G^2 d_h D).

    References
    ----------
    VH-3 and VH-7; Eckart and Young (1936), "The approximation of one matrix by another of lower rank".

    Examples
    --------
    >>> found = virtual_rank([[[[1.0, 2.0]], [[2.0, 4.0]], [[1.0, 0.0]]]])
    >>> found.singular_values.round(6).tolist(), found.rank.tolist()
    ([[5.020613, 0.890755, 0.0]], [2])
    """
    W = _grouped(W_q)
    n, G, d, D = W.shape
    if rtol is None:
        given = np.asarray(W_q).dtype
        rtol = max(G, d * D) * float(np.finfo(given if given.kind == "f" else float).eps)
    share = probability("rtol", rtol)
    values = np.zeros((n, G))
    found = np.linalg.svd(W.reshape(n, G, d * D), compute_uv=False)
    values[:, : found.shape[1]] = found
    return VirtualRank(values, (values > share * values[:, :1]).sum(axis=1).astype(np.int64))


def factor_virtual(W_q: ArrayLike, P: int, layout: RopeLayout | None = None) -> tuple[Floats, Floats, Floats]:
    """Best physical heads and mix for given query heads.

    Truncated singular value decomposition ``W = mix physical``; with a layout one of complex matrices, a
    frequency at a time.

    Parameters
    ----------
    W_q : array_like of shape (n_kv, G, d_h, D)
        Query projection: groups, heads of a group, width of a head, width of the input.
    P : int
        Physical heads a group, 1..G.
    layout : RopeLayout, optional
        With it the mix may be any that commutes with the rotation, and the error is never larger.

    Returns
    -------
    physical : float64 array of shape (n_kv, P, d_h, D)
        Physical heads.
    mix : float64 array of shape (n_kv, G, P), or (n_kv, G, d_h, P, d_h) with a layout
        Mix, with orthonormal columns.
    error : float64 array of shape (n_kv,)
        ``|W - folded|_F / |W|_F``.

    Raises
    ------
    TypeError, ValueError
        If the weight is no finite array of four axes, P is out of range, or the layout does not fit.

    Notes
    -----
    The pair of dimensions of a frequency is one complex row a head, mixed by complex numbers; the dimensions
    that do not turn are rows of their own, mixed freely. Cost O(G^2 d_h D), O((G (d_h - r))^2 D) for the
    latter.

    References
    ----------
    VH-7; Eckart and Young (1936), "The approximation of one matrix by another of lower rank".

    Examples
    --------
    >>> heads = np.array([[[[1.0, 2.0]], [[2.0, 4.0]]]])
    >>> physical, mix, error = factor_virtual(heads, 1)
    >>> np.allclose(np.einsum("ngp,npdx->ngdx", mix, physical), heads), error.round(9).tolist()
    (True, [0.0])
    """
    W = _grouped(W_q)
    n, G, d, D = W.shape
    P = integer("P", P, 1, G)
    top = np.abs(W).max(axis=(1, 2, 3), keepdims=True)
    W = W / np.where(top > 0, top, 1.0)  # squares of the entries could leave the range of floats
    if layout is None:
        mix, rows, lost = _truncated(W.reshape(n, G, d * D), P)
        physical = rows.reshape(n, P, d, D)
    else:
        _fits(layout, d)
        physical, mix, lost = _by_frequency(W, P, layout)
    whole = np.square(W).sum(axis=(1, 2, 3))
    return top * physical, mix, np.sqrt(lost / np.maximum(whole, 1.0))


def _by_frequency(W: Floats, P: int, layout: RopeLayout) -> tuple[Floats, Floats, Floats]:
    n, G, d, D = W.shape
    physical, mix, lost = np.zeros((n, P, d, D)), np.zeros((n, G, d, P, d)), np.zeros(n)
    for a, b in zip(*layout.pairs, strict=True):
        left, rows, tail = _truncated(W[:, :, a] + 1j * W[:, :, b], P)
        physical[:, :, a], physical[:, :, b] = rows.real, rows.imag
        mix[:, :, a, :, a] = mix[:, :, b, :, b] = left.real
        mix[:, :, b, :, a], mix[:, :, a, :, b] = left.imag, -left.imag
        lost += tail
    r = layout.rotary_dim
    if u := d - r:
        left, rows, tail = _truncated(W[:, :, r:].reshape(n, G * u, D), P * u)
        physical[:, :, r:] = rows.reshape(n, P, u, D)
        mix[:, :, r:, :, r:] = left.reshape(n, G, u, P, u)
        lost += tail
    return physical, mix, lost


def _truncated(A: NDArray[np.inexact], k: int) -> tuple[NDArray, NDArray, Floats]:
    """Orthonormal columns (n, m, k), rows (n, k, N), and the squared tail; zeros beyond the rank of A."""
    u, s, v = np.linalg.svd(A, full_matrices=False)
    left = np.zeros((*u.shape[:2], k), u.dtype)
    rows = np.zeros((len(v), k, v.shape[2]), v.dtype)
    kept = min(k, s.shape[1])
    left[..., :kept] = u[..., :kept]
    rows[:, :kept] = s[:, :kept, None] * v[:, :kept]
    return left, rows, np.square(s[:, kept:]).sum(axis=1)


def _grouped(W_q: ArrayLike) -> Floats:
    W = finite_array("W_q", W_q, ndim=4)
    if 0 in W.shape:
        raise ValueError(f"W_q must be (n_kv, G, d_h, D) without an empty axis, got {W.shape}; pass weights")
    return W
