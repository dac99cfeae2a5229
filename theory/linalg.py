"""Linear algebra that several families share: angles between subspaces."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array
from porism.results import Result

__all__ = ["PrincipalAngles", "principal_angles"]

# columns that are orthonormal in single precision are off by about 1e-7 sqrt(d), rows passed for columns by 1
_ORTHONORMAL = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class PrincipalAngles(Result):
    """Principal angles and vectors of two subspaces of R^d, k = min(r1, r2).

    Parameters
    ----------
    angles : float64 array of shape (k,)
        Angles in radians, ascending, in [0, pi/2].
    left, right : float64 arrays of shape (d, k)
        Orthonormal columns in the first and in the second subspace; ``left.T @ right`` is diag(cos angles).

    Examples
    --------
    >>> found = principal_angles([[1.0], [0.0]], [[0.0], [1.0]])
    >>> float(found.angles[0] / np.pi)
    0.5
    """

    angles: NDArray[np.float64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]


def principal_angles(u: ArrayLike, v: ArrayLike) -> PrincipalAngles:
    """Principal angles between the spans of two sets of orthonormal columns, accurate at both ends.

    ``cos t_i`` are the singular values of ``u' v`` and ``sin t_i`` those of ``v - u u' v``: the sine decides
    up to pi/4, the cosine above, so that angles near 0 and near pi/2 are right to rounding.

    Parameters
    ----------
    u : array_like of shape (d, r1)
        Orthonormal columns; pass ``basis.T`` for a basis of rows.
    v : array_like of shape (d, r2)
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
    first, second = _orthonormal("u", u), _orthonormal("v", v)
    if len(first) != len(second):
        raise ValueError(
            f"u and v must have the same number of rows, got {len(first)} and {len(second)}; "
            "pass bases of subspaces of the same space as columns"
        )
    if second.shape[1] > first.shape[1]:  # the residual of the smaller one has exactly k singular values
        angles, right, left = _decompose(second, first)
    else:
        angles, left, right = _decompose(first, second)
    return PrincipalAngles(angles, left, right)


def _decompose(
    u: NDArray[np.float64], v: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Angles, vectors in u, vectors in v; u has at least as many columns as v."""
    cross = u.T @ v
    residual = v - u @ cross
    residual -= u @ (
        u.T @ residual
    )  # a second projection: the first leaves an error of eps |v|, not eps |residual|
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


def _orthonormal(name: str, value: ArrayLike) -> NDArray[np.float64]:
    columns = finite_array(name, value, ndim=2)
    d, r = columns.shape
    if not 1 <= r <= d:
        raise ValueError(f"{name} must have 1..d columns of length d, got shape {(d, r)}; pass basis.T")
    error = float(np.abs(columns.T @ columns - np.eye(r)).max())
    if error > _ORTHONORMAL:
        raise ValueError(
            f"{name} must have orthonormal columns, got {name}' {name} off the identity by {error:.3g}; "
            f"pass basis.T for a basis of rows, or the q of numpy.linalg.qr({name})"
        )
    q, triangle = np.linalg.qr(columns)
    return np.asarray(q * np.where(np.diag(triangle) < 0, -1.0, 1.0))
