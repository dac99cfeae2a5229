"""Principal subspace of feature rows by an exact decomposition, and the angles between two subspaces."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism import checks
from porism.errors import NumericalWarning
from porism.results import Result
from porism.theory import linalg
from porism.theory.alignment import _inputs, _pca

__all__ = ["Subspace", "is_constant", "principal_angles", "principal_subspace"]


@dataclasses.dataclass(frozen=True, eq=False)
class Subspace(Result):
    """Top-r principal subspace of n rows in R^d.

    Parameters
    ----------
    basis : float64 array of shape (r, d)
        Orthonormal rows in descending order of variance, each with its largest entry in size positive; the
        last `n_random` are random.
    eigenvalues : float64 array of shape (r,)
        Variances along the rows, divided by n - 1; 0 for random rows.
    rank : int
        Numerical rank of the (centred) rows, which may exceed r.
    n_random : int
        How many rows of `basis` the features do not determine.

    Examples
    --------
    >>> found = principal_subspace([[0.0, 0.0], [2.0, 0.0]], 1)
    >>> np.abs(found.basis), found.eigenvalues
    (array([[1., 0.]]), array([2.]))
    """

    basis: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    rank: int
    n_random: int


def is_constant(x: Any, input_eps: float | None = None) -> bool:
    """Whether all rows are equal, up to jitter in the last digit of the type that they were computed in.

    Parameters
    ----------
    x : array of shape (n, d)
        Finite features.
    input_eps : float, optional
        Machine epsilon of that type; that of x without it.

    Returns
    -------
    bool
        Whether ``mean |x - mean x|^2 <= eps^2 mean |x|^2``.

    Raises
    ------
    TypeError, ValueError
        If x holds no finite real numbers in two axes.

    Examples
    --------
    >>> is_constant([[0.1, 3.0], [0.1, 3.0]]), is_constant([[0.1], [0.2]])
    (True, False)
    """
    rows, eps = _inputs.features(x)
    return _pca.has_no_variance(rows, eps if input_eps is None else checks.positive("input_eps", input_eps))


def principal_subspace(
    x: Any,
    r: int,
    *,
    center: bool = True,
    random_state: np.random.Generator | int | None = None,
    on_degenerate: str = "warn",
    input_eps: float | None = None,
) -> Subspace:
    """Span of the r leading principal directions of the rows of x, computed exactly in float64.

    Eigenvectors of ``X'X`` with X the centred rows: for n <= d through the Gram matrix, ``V = X'U / sqrt(w)``
    with ``X X' = U diag(w) U'``, for n > d directly.

    Parameters
    ----------
    x : array_like or torch tensor of shape (n, d)
        Finite rows, one a sample, in any real type; n >= 2.
    r : int
        Dimension of the subspace, 1..d.
    center : bool, default True
        Whether the mean is taken off first.
    random_state : Generator, int or None
        Draws the rows that the features do not determine; unused otherwise.
    on_degenerate : {"warn", "raise"}
        What happens where the numerical rank is below r: complete the basis with random orthonormal rows and
        warn, or raise.
    input_eps : float, optional
        Machine epsilon of the type the features were computed in, where x has been converted since.

    Returns
    -------
    Subspace
        Basis of orthonormal rows, variances, numerical rank, number of random rows.

    Raises
    ------
    TypeError
        If x is not real, or r no int.
    ValueError
        If x is no matrix of at least 2 finite rows, r is out of range, or the rank is below r with
        ``on_degenerate="raise"``.

    Warns
    -----
    NumericalWarning
        If the numerical rank is below r.

    Notes
    -----
    Rows are shifted by the first row before the mean is taken, so that a large offset costs no digits. The
    rank counts ``w > 1e-12 n w_1``; it is 0 where the total variance is at most ``input_eps^2`` times the
    mean squared length, the jitter of one unit in the last place. No randomised or incremental method is
    used: near the detection threshold the spectrum is flat and both lose much of the captured energy.
    Cost ``n d min(n, d) + min(n, d)^3``, memory ``n d + min(n, d)^2``.

    References
    ----------
    Jolliffe (2002), "Principal Component Analysis", section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.outer([1.0, -1.0, 3.0], [0.6, 0.8]) + 1000
    >>> principal_subspace(x, 1).basis.round(9)
    array([[0.6, 0.8]])
    """
    rows, eps = _inputs.features(x)
    n, d = rows.shape
    r = _inputs.rank(r, d)
    checks.one_of("on_degenerate", on_degenerate, ("warn", "raise"))
    eps = eps if input_eps is None else checks.positive("input_eps", input_eps)
    vectors, values, rank = _pca.leading(rows, r, center, eps)
    missing = r - len(vectors)
    if missing:
        kind = "no variance" if rank == 0 else f"numerical rank {rank}"
        text = f"features of {n} rows have {kind}, below r={r}"
        if on_degenerate == "raise":
            raise ValueError(f"{text}; lower r, add samples or read another position")
        warnings.warn(f"{text}: {missing} random rows complete the basis", NumericalWarning, stacklevel=2)
        vectors = _pca.complete(vectors, r, d, checks.generator(random_state, "random_state"))
    return Subspace(vectors, np.concatenate([values / (n - 1), np.zeros(missing)]), rank, missing)


def principal_angles(u: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
    """Principal angles between the spans of two sets of orthonormal columns, ascending.

    ``arcsin`` of the singular values of ``v - u u' v`` up to pi/4, ``arccos`` of those of ``u' v`` above.

    Parameters
    ----------
    u : array_like of shape (d, r1)
        Orthonormal columns; pass ``basis.T`` of a `Subspace`.
    v : array_like of shape (d, r2)
        Orthonormal columns.

    Returns
    -------
    float64 array of shape (min(r1, r2),)
        Angles in radians in [0, pi/2].

    Raises
    ------
    TypeError, ValueError
        If the arguments are no real matrices with equally many rows, or columns are not orthonormal.

    Notes
    -----
    :func:`porism.theory.linalg.principal_angles` also returns the vectors.

    References
    ----------
    Björck and Golub (1973), "Numerical methods for computing angles between linear subspaces".

    Examples
    --------
    >>> principal_angles([[1.0], [0.0]], [[0.6], [0.8]]).round(4)
    array([0.9273])
    """
    return linalg.principal_angles(u, v).angles
