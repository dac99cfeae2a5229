"""Similarity of two representations, and how far symmetries of the parameters can move it.

A representation is a matrix of n samples and some units, its kernel ``K = X X'``; centred means that the mean
of each unit over the samples is taken off first.
"""

import dataclasses
import math
import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, one_of
from porism.errors import NumericalWarning
from porism.results import Result

__all__ = ["KINDS", "Range", "cka_after_addition", "cka_range", "similarity"]

Floats = NDArray[np.float64]

KINDS = ("cka", "cca", "procrustes", "rsa")
"""Names of the measures."""


def similarity(X: ArrayLike, Y: ArrayLike, kind: str = "cka", center: bool = True) -> float:
    """Similarity of two representations of the same samples.

    With kernels ``K = X X'`` and ``L = Y Y'``: "cka" is ``<K, L> / (|K| |L|)``; "cca" the mean squared
    canonical correlation ``|Q_X' Q_Y|_F^2 / min(rank X, rank Y)``, Q orthonormal bases; "procrustes"
    ``|X' Y|_* / (|X|_F |Y|_F)``, the best cosine over rotations; "rsa" the rank correlation of the Euclidean
    distances between samples.

    Parameters
    ----------
    X : array_like of shape (n, p)
        Samples in rows, units in columns; n >= 3.
    Y : array_like of shape (n, q)
        The same samples in the same order; q need not be p.
    kind : {"cka", "cca", "procrustes", "rsa"}, default "cka"
        Measure.
    center : bool, default True
        Whether the mean of each column is taken off; "rsa" does not depend on it.

    Returns
    -------
    float
        In [0, 1], "rsa" in [-1, 1]; 1 for equal representations. NaN where a representation is constant.

    Raises
    ------
    TypeError, ValueError
        If the arrays are no finite real matrices, the numbers of rows differ or are below 3, or the kind is
        unknown.

    Warns
    -----
    NumericalWarning
        If a representation is the same for all samples: nothing can be said, and the value is NaN.

    Notes
    -----
    All four ignore the order of units, rotations and one common factor; "cca" any invertible linear map.
    None of them ignores all symmetries of a network (PS-4): see `privileged_similarity`. Kernels are taken in
    the smaller of samples and units. Cost O(n p q) or O(n^2 (p + q)); "rsa" takes memory n^2. For "cca"
    columns are brought to unit length before the rank is decided.

    References
    ----------
    Kornblith, Norouzi, Lee and Hinton (2019), "Similarity of neural network representations revisited",
    arXiv:1905.00414. Raghu et al. (2017), arXiv:1706.05806. Kriegeskorte, Mur and Bandettini (2008),
    doi:10.3389/neuro.06.004.2008.

    Examples
    --------
    >>> H = np.array([[1, 0, 2], [0, 1, 1], [1, 1, 0], [2, 0, 1], [0, 3, 1.0]])
    >>> round(similarity(H, H * [1, 2, 0.5]), 10)
    0.9564433645
    >>> round(similarity(H, H * [1, 2, 0.5], "cca"), 10)
    1.0
    """
    one_of("kind", kind, KINDS)
    first, second = _pair("X", X, "Y", Y)
    if kind == "rsa":
        return _rank_correlation(first, second)
    axis = 0 if kind == "cca" else None  # which knows no size of a unit
    first, second = (_reduced(_prepared(one, center, axis)) for one in (first, second))
    if not (first.any() and second.any()):
        return _nothing()
    if kind == "cca":
        q, r = _basis(first), _basis(second)
        value = np.square(q.T @ r).sum() / min(q.shape[1], r.shape[1])
    elif kind == "procrustes":
        nuclear = np.linalg.svd(first.T @ second, compute_uv=False).sum()
        value = nuclear / (np.linalg.norm(first) * np.linalg.norm(second))
    else:
        sizes = np.linalg.norm(first.T @ first) * np.linalg.norm(second.T @ second)
        value = np.square(first.T @ second).sum() / sizes
    return min(float(value), 1.0)


@dataclasses.dataclass(frozen=True)
class Range(Result):
    """How low centred CKA can be pushed by scaling and duplicating units (PS-2).

    Parameters
    ----------
    lower : float
        Infimum, in [0, 1]; approached and not attained.
    pair : tuple of int
        The units that reach it when they grow without bound: one on each side, or one where the other side is
        fixed.

    Examples
    --------
    >>> Range(0.25, (0, 2)).lower
    0.25
    """

    lower: float
    pair: tuple[int, ...]


def cka_range(H: ArrayLike, other: ArrayLike | None = None) -> Range:
    """How low symmetries can push centred CKA: the infimum over all scalings and duplications (PS-2).

    Both sides copies of H: ``min_{i != j} corr(h_i, h_j)^2``. One side fixed at `other`:
    ``min_j CKA(other, h_j)``.

    Parameters
    ----------
    H : array_like of shape (n, h)
        Hidden matrix, samples in rows; n >= 3, no constant column.
    other : array_like of shape (n, q), optional
        Representation that stays as it is; without it both sides are free.

    Returns
    -------
    Range
        The infimum, and the units that approach it.

    Raises
    ------
    TypeError, ValueError
        If an argument is no finite real matrix, n is below 3 or differs, a column of H is constant, or all
        columns of `other` are.

    Notes
    -----
    Scaling and duplication give every kernel ``sum_j s_j h_j h_j'`` with s > 0. On this cone
    ``<K, L> / |K|`` is quasi-concave, so its infimum sits on extreme rays, and the cosine of two rays is the
    squared correlation. With one unit both sides agree, and the value is 1. Cost O(n h^2), or O(n h q).

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> H = np.array([[1, 0, 2], [0, 1, 1], [1, 1, 0], [2, 0, 1], [0, 3, 1.0]])
    >>> cka_range(H).pair
    (0, 2)
    >>> round(cka_range(H, H).lower, 9)
    0.303526832
    """
    if other is None:
        columns = _units(_matrix("H", H))
        square = np.square(columns.T @ columns)
        if len(square) == 1:
            return Range(1.0, (0, 0))
        rows, cols = np.triu_indices(len(square), 1)
        at = int(square[rows, cols].argmin())
        return Range(float(min(square[rows[at], cols[at]], 1.0)), (int(rows[at]), int(cols[at])))
    hidden, fixed = _pair("H", H, "other", other)
    columns, fixed = _units(hidden), _reduced(_prepared(fixed, True))
    if not fixed.any():
        raise ValueError(
            "other must not be the same for all samples, got constant columns; pass more samples"
        )
    values = np.square(fixed.T @ columns).sum(0) / np.linalg.norm(fixed.T @ fixed)
    at = int(values.argmin())
    return Range(float(min(values[at], 1.0)), (at,))


def cka_after_addition(H: ArrayLike, Z: ArrayLike, scale: float) -> float:
    """Centred CKA between a representation and itself with null units added, by its law (PS-3).

    ``(|K|^2 + t^2 <K, N>) / (|K| |K + t^2 N|)`` with ``K = H H'`` and ``N = Z Z'`` centred; it tends to
    ``<K, N> / (|K| |N|)``.

    Parameters
    ----------
    H : array_like of shape (n, h)
        Hidden matrix, samples in rows; n >= 3.
    Z : array_like of shape (n, m)
        Values of the units added.
    scale : float
        Factor t of the units added, >= 0; infinity gives the limit.

    Returns
    -------
    float
        In [0, 1]; NaN with a NumericalWarning where H is the same for all samples.

    Raises
    ------
    TypeError, ValueError
        If an array is no finite real matrix, n is below 3 or differs, or the scale is negative or NaN.

    Notes
    -----
    Added units have outgoing weights 0 or cancel, so that the function does not change while CKA falls to the
    limit. Three inner products give the whole curve.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> H = np.array([[1, 0, 2], [0, 1, 1], [1, 1, 0], [2, 0, 1], [0, 3, 1.0]])
    >>> Z = np.array([[1, 0], [0, 1], [0, 0], [1, 1], [0, 2.0]])
    >>> [round(cka_after_addition(H, Z, t), 9) for t in (1, 10, np.inf)]
    [0.975111325, 0.682097644, 0.66804594]
    """
    hidden, added = _pair("H", H, "Z", Z)
    if isinstance(scale, (bool, np.bool_)) or not isinstance(scale, (int, float, np.integer, np.floating)):
        raise TypeError(f"scale must be a real number, got {type(scale).__name__} {scale!r}; pass a float")
    t = float(scale)
    if not t >= 0:
        raise ValueError(f"scale must be >= 0, got {t}; its sign has no meaning, pass the size")
    size_h, size_z = np.abs(hidden).max(), np.abs(added).max()
    first, second = _reduced(_prepared(hidden, True)), _reduced(_prepared(added, True))
    if not first.any():
        return _nothing()
    if not second.any() or t == 0:
        return 1.0
    kk, kn, nn = (
        float(np.square(a.T @ b).sum()) for a, b in ((first, first), (first, second), (second, second))
    )
    ratio = t * float(size_z / size_h)  # of the matrices brought to largest entry 1
    if ratio <= 1:
        s = ratio**2
        return (kk + s * kn) / math.sqrt(kk * (kk + 2 * s * kn + s * s * nn))
    s = ratio**-2.0
    return (s * kk + kn) / math.sqrt(kk * (s * s * kk + 2 * s * kn + nn))


def _matrix(name: str, value: ArrayLike) -> Floats:
    array = finite_array(name, value, ndim=2)
    if len(array) < 3 or array.shape[1] < 1:
        raise ValueError(
            f"{name} must have at least 3 rows (samples) and 1 column (units), got shape {array.shape}; "
            "pass more samples"
        )
    return array


def _pair(one: str, X: ArrayLike, two: str, Y: ArrayLike) -> tuple[Floats, Floats]:
    first, second = finite_array(one, X, ndim=2), finite_array(two, Y, ndim=2)
    if len(first) != len(second):
        raise ValueError(
            f"{one} and {two} must have the same samples in rows, got shapes {first.shape} and "
            f"{second.shape}; pass the transpose if samples are in columns"
        )
    return _matrix(one, first), _matrix(two, second)


def _prepared(X: Floats, center: bool, axis: int | None = None) -> Floats:
    """Largest entry 1, in all or (axis 0) by column; centred, a constant up to rounding becomes exactly 0."""
    top = np.abs(X).max(axis, keepdims=True)
    X = X / np.where(top > 0, top, 1.0)
    if not center:
        return X
    size = np.abs(X).max(0)
    X = X - X.mean(0)
    # the mean of n equal numbers is off by at most some eps of them
    X[:, np.abs(X).max(0) <= 8 * np.finfo(float).eps * size] = 0.0
    return X


def _reduced(X: Floats) -> Floats:
    """A matrix of the same kernel that is not wider than high."""
    if X.shape[1] <= len(X):
        return X
    triangle: Floats = np.asarray(np.linalg.qr(X.T, mode="r"))
    return triangle.T


def _units(X: Floats) -> Floats:
    """Columns centred, of length 1."""
    columns = _prepared(X, True, 0)
    size = np.linalg.norm(columns, axis=0)
    if not size.all():
        where = np.flatnonzero(size == 0)
        raise ValueError(
            f"H must have no constant column, got {len(where)} such columns, the first at {where[0]}; drop "
            "dead units first: no scale of theirs moves CKA"
        )
    return np.asarray(columns / size)


def _basis(X: Floats) -> Floats:
    """Orthonormal basis of the column span."""
    size = np.linalg.norm(X, axis=0)
    u, values, _ = np.linalg.svd(X[:, size > 0] / size[size > 0], full_matrices=False)
    return np.asarray(u[:, values > values[0] * max(X.shape) * np.finfo(float).eps])


def _rank_correlation(X: Floats, Y: Floats) -> float:
    from scipy.spatial.distance import pdist
    from scipy.stats import rankdata

    ranks = []
    for one in (X, Y):
        far = pdist(_prepared(one, True))
        if np.ptp(far) == 0:
            return _nothing()
        rank = rankdata(far)
        ranks.append(rank - rank.mean())
    first, second = ranks
    value = float(first @ second / math.sqrt((first @ first) * (second @ second)))
    return max(-1.0, min(value, 1.0))


def _nothing() -> float:
    warnings.warn(
        "a representation is the same for all samples, so its similarity is NaN; pass samples on which it "
        "varies",
        NumericalWarning,
        stacklevel=3,
    )
    return math.nan
