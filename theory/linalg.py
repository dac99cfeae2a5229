"""Linear algebra that several families share: orthonormal frames, and angles between subspaces."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, positive
from porism.results import Result

__all__ = ["Frame", "PrincipalAngles", "orthonormal", "principal_angles"]

# columns that are orthonormal in single precision are off by about 1e-7 sqrt(d), rows passed for columns by 1
_ORTHONORMAL = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class Frame(Result):
    """Orthonormal columns that span the columns of any matrix of full column rank.

    ``U = Q R`` with R upper triangular of positive diagonal; Q is kept. The first j columns of Q span the
    first j columns given. Whatever takes orthonormal columns takes a frame.

    Parameters
    ----------
    U : array_like of shape (d, r)
        Linearly independent columns of any length, 1 <= r <= d; afterwards the orthonormal ones, read-only.
    tol : float, default 1e-8
        Smallest singular value of the columns, scaled to unit length, at which they count as independent; in
        (0, 1).

    Raises
    ------
    TypeError, ValueError
        If U is no finite real matrix, has more columns than rows, or its columns are dependent.

    Notes
    -----
    Columns that are orthonormal to rounding are kept as they are, so that a frame of a frame is the same.
    Columns of lower precision are orthonormalised in float64. Cost O(d r^2).

    References
    ----------
    Golub and Van Loan (2013), "Matrix Computations", section 5.2.

    Examples
    --------
    >>> Frame([[3.0, 1.0], [0.0, 2.0], [0.0, 0.0]]).U.round(9) + 0
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    """

    U: NDArray[np.float64]
    tol: float = 1e-8

    def __post_init__(self) -> None:
        columns = _columns("U", self.U)
        tol = positive("tol", self.tol)
        if tol >= 1:
            raise ValueError(f"tol must be below 1, got {tol:g}; unit columns have no larger singular values")
        if not _deviation(columns) <= 4 * len(columns) * np.finfo(np.float64).eps:
            top = np.abs(columns).max(axis=0)
            unit = columns / np.where(top > 0, top, 1.0)  # squares of the entries could leave the range
            unit /= np.maximum(np.linalg.norm(unit, axis=0), 1.0)
            least = float(np.linalg.svd(unit, compute_uv=False)[-1])
            if least <= tol:
                raise ValueError(
                    f"U must have linearly independent columns, got a smallest singular value of {least:.3g} "
                    f"at unit length, tol={tol:g}; drop columns that others span, or lower tol"
                )
            columns = _gram_schmidt(unit)
        else:
            columns = columns.copy()
        columns.flags.writeable = False
        object.__setattr__(self, "U", columns)
        object.__setattr__(self, "tol", tol)

    @property
    def ambient(self) -> int:
        """Dimension d of the space."""
        return self.U.shape[0]

    @property
    def dim(self) -> int:
        """Dimension r of the subspace."""
        return self.U.shape[1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The orthonormal columns, for NumPy and for every function of arrays."""
        return np.array(self.U, dtype=dtype) if copy else np.asarray(self.U, dtype=dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class PrincipalAngles(Result):
    """Principal angles and vectors of two subspaces of R^d, k = min(r1, r2).

    Parameters
    ----------
    angles : float64 array of shape (k,)
        Angles in radians, ascending, in [0, pi/2].
    left, right : float64 arrays of shape (d, k)
        Orthonormal columns in the first and in the second subspace; ``left.T @ right`` is diag(cos angles).
    dims : (int, int) or None
        Dimensions r1 and r2 of the two subspaces.

    Examples
    --------
    >>> found = principal_angles([[1.0], [0.0]], [[0.0], [1.0]])
    >>> float(found.angles[0] / np.pi)
    0.5
    """

    angles: NDArray[np.float64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    dims: tuple[int, int] | None = None


def principal_angles(U: ArrayLike, V: ArrayLike) -> PrincipalAngles:
    """Principal angles between the spans of two sets of orthonormal columns, accurate at both ends.

    ``cos t_i`` are the singular values of ``U' V`` and ``sin t_i`` those of ``V - U U' V``: the sine decides
    up to pi/4, the cosine above, so that angles near 0 and near pi/2 are right to rounding.

    Parameters
    ----------
    U : array_like of shape (d, r1), or Frame
        Orthonormal columns; pass ``basis.T`` for a basis of rows, and ``Frame(basis)`` for any other basis.
    V : array_like of shape (d, r2), or Frame
        Orthonormal columns.

    Returns
    -------
    PrincipalAngles
        min(r1, r2) angles in radians, ascending, with the principal vectors.

    Raises
    ------
    TypeError, ValueError
        If the arguments are no real matrices with equally many rows, or columns are not orthonormal.

    Notes
    -----
    ``sqrt(1 - cos^2)`` would lose half of the digits. Vectors come from the same split (the 2-by-1
    cosine-sine decomposition), so that small angles of very different size are told apart. Columns of lower
    precision are orthonormalised in float64 first. Cost O(d (r1 + r2)^2).

    References
    ----------
    Björck and Golub (1973), "Numerical methods for computing angles between linear subspaces",
    doi:10.1090/S0025-5718-1973-0348991-3. Van Loan (1985), "Computing the CS and the generalized singular
    value decompositions", doi:10.1007/BF01389653.

    Examples
    --------
    >>> t = 1e-12
    >>> found = principal_angles([[1.0], [0.0]], [[np.cos(t)], [np.sin(t)]])
    >>> float(found.angles[0])
    1e-12
    """
    first, second = orthonormal("U", U), orthonormal("V", V)
    if len(first) != len(second):
        raise ValueError(
            f"U and V must have the same number of rows, got {len(first)} and {len(second)}; "
            "pass bases of subspaces of the same space as columns"
        )
    if second.shape[1] > first.shape[1]:  # the residual of the smaller one has exactly k singular values
        angles, right, left = _decompose(second, first)
    else:
        angles, left, right = _decompose(first, second)
    return PrincipalAngles(angles, left, right, (first.shape[1], second.shape[1]))


def orthonormal(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Accept columns that are orthonormal, at least in single precision, and make them so in float64.

    ``|U'U - I| <= 1e-4`` entry by entry.

    Parameters
    ----------
    name : str
        Name of the argument in the message.
    value : array_like of shape (d, r), or Frame
        What the caller passed, 1 <= r <= d.

    Returns
    -------
    float64 array of shape (d, r)
        Orthonormal columns of the same span, in the same order and orientation.

    Raises
    ------
    TypeError, ValueError
        If it is no finite real matrix, is wider than high, or its columns are not orthonormal.

    Notes
    -----
    Cost O(d r^2).

    References
    ----------
    Golub and Van Loan (2013), "Matrix Computations", section 5.2.

    Examples
    --------
    >>> orthonormal("U", np.float32([[0.6], [0.8]])).round(6).tolist()
    [[0.6], [0.8]]
    """
    if isinstance(value, Frame):
        return value.U
    columns = _columns(name, value)
    error = _deviation(columns)
    if not error <= _ORTHONORMAL:
        raise ValueError(
            f"{name} must have orthonormal columns, got {name}' {name} off the identity by {error:.3g}; "
            f"pass basis.T for a basis of rows, or porism.theory.linalg.Frame({name}) for other columns"
        )
    return _gram_schmidt(columns)


def _decompose(
    u: NDArray[np.float64], v: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Angles, vectors in u, vectors in v; u has at least as many columns as v."""
    cross = u.T @ v
    residual = v - u @ cross
    residual -= u @ (u.T @ residual)  # again: the first leaves an error of eps |v|, not of eps |residual|
    sines, turn = _right_singular(residual)
    small = sines <= 0.5**0.5
    fine, coarse = turn[:, small], turn[:, ~small]
    left_fine = cross @ fine
    left_fine /= np.linalg.norm(left_fine, axis=0)  # cosines of at least sqrt(1/2), so this is safe
    # the remaining pairs live in the complement of those found, also where their cosines vanish
    rest = np.linalg.qr(left_fine, mode="complete")[0][:, left_fine.shape[1] :]
    q, cosines, w = np.linalg.svd(rest.T @ cross @ coarse, full_matrices=False)
    angles = np.concatenate([np.arcsin(sines[small]), np.arccos(np.minimum(cosines, 1.0))])
    left = u @ np.concatenate([left_fine, rest @ q], axis=1)
    right = v @ np.concatenate([fine, coarse @ w.T], axis=1)
    order = np.argsort(angles, kind="stable")
    return angles[order], left[:, order], right[:, order]


def _right_singular(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All singular values of a (d, k) matrix, ascending and at most 1, with right vectors as columns."""
    square = np.linalg.qr(matrix, mode="r") if len(matrix) > matrix.shape[1] else matrix
    _, values, right = np.linalg.svd(square, full_matrices=True)
    padded = np.zeros(matrix.shape[1])
    padded[: len(values)] = values
    return np.minimum(padded[::-1], 1.0), right[::-1].T


def _columns(name: str, value: ArrayLike) -> NDArray[np.float64]:
    columns = finite_array(name, value, ndim=2)
    d, r = columns.shape
    if not 1 <= r <= d:
        raise ValueError(f"{name} must have 1..d columns of length d, got shape {(d, r)}; pass basis.T")
    return columns


def _deviation(columns: NDArray[np.float64]) -> float:
    """Largest entry of U'U - I; infinite or NaN where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.abs(columns.T @ columns - np.eye(columns.shape[1])).max())


def _gram_schmidt(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal columns by Householder reflections, oriented like those given."""
    q, triangle = np.linalg.qr(columns)
    return np.asarray(q * np.where(np.diag(triangle) < 0, -1.0, 1.0))
