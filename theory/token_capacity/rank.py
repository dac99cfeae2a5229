"""How many directions a positive semidefinite matrix uses."""

from typing import Any

import numpy as np

from porism.checks import one_of, positive
from porism.theory.effective_rank import effective_rank as spectral_rank
from porism.theory.effective_rank import participation_ratio
from porism.theory.token_capacity._arrays import is_tensor, library_of, native

__all__ = ["effective_rank"]

KINDS = ("entropy", "rank", "participation")
_ASYMMETRY = 1e-3  # beyond any rounding: the matrix is something else


def effective_rank(matrix: Any, *, kind: str = "entropy", rtol: float | None = None) -> Any:
    """Number of directions in which a positive semidefinite matrix has its mass.

    With ``p = eig(M) / tr(M)``: "entropy" is ``exp(-sum(p log p))``, "participation" is ``1 / sum(p^2)``,
    which equals ``tr(M)^2 / |M|_F^2``, and "rank" counts the eigenvalues above ``rtol`` times the largest.

    Parameters
    ----------
    matrix : array_like or tensor, shape (..., n, n)
        Positive semidefinite matrices of floats; half precision is computed in float32.
    kind : {"entropy", "rank", "participation"}
        What to count.
    rtol : float, optional
        Eigenvalues below this share of the largest one count as 0, > 0. By default 1e-14 for "entropy" and
        "participation", and n times the rounding unit for "rank".

    Returns
    -------
    float64, ndarray or tensor, shape (...)
        Value in [1, n], 0 for a zero or empty matrix; a tensor gives a tensor on its device. "rank" holds
        whole numbers of the same float type.

    Raises
    ------
    TypeError
        If the matrix does not hold floats.
    ValueError
        If it is not square, not finite, not symmetric, or has an eigenvalue below -1e-6 times the largest (n
        rounding units of the type that was passed, where that is more).

    Notes
    -----
    The entropy of the eigenvalues is subadditive over a tensor product, which gives
    :func:`~porism.theory.token_capacity.capacity_bound`; the participation ratio is not, so no bound may rest
    on it. The entropy is not monotone in the matrix either: I_4 plus 100 e1 e1' falls from 4 to 1.18. A
    matrix is divided by its largest entry first. Cost O(n^3) a matrix; the spectrum then goes to
    :func:`porism.theory.effective_rank.effective_rank`.

    References
    ----------
    Roy and Vetterli (2007), "The effective rank: a measure of effective dimensionality", EUSIPCO.

    Examples
    --------
    >>> round(float(effective_rank(np.diag([1.0, 1.0, 1.0, 0.0]))), 9)
    3.0
    >>> round(float(effective_rank([[2.0, 1.0], [1.0, 2.0]], kind="participation")), 9)
    1.6
    """
    kind = one_of("kind", kind, KINDS)
    x = native("matrix", matrix)
    library = library_of(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"matrix must be square (..., n, n), got shape {tuple(x.shape)}; pass a Gram matrix")
    n = int(x.shape[-1])
    if not n:
        return x.new_zeros(x.shape[:-2]) if is_tensor(x) else np.zeros(x.shape[:-2], x.dtype)[()]
    given = matrix.dtype if is_tensor(matrix) else np.asarray(matrix).dtype
    unit = n * float(library.finfo(given).eps)
    top = abs(x).amax((-2, -1), keepdim=True) if is_tensor(x) else abs(x).max((-2, -1), keepdims=True)
    x = x / (top + (top == 0))
    if bool((abs(x - x.mT) > max(_ASYMMETRY, unit)).any()):
        raise ValueError("matrix must be symmetric, got entries that differ from their mirror; pass X @ X.T")
    eigenvalues = library.linalg.eigvalsh((x + x.mT) / 2)
    largest = eigenvalues[..., -1:]
    if bool((eigenvalues[..., :1] < -max(1e-6, unit) * largest).any()):
        worst = float((eigenvalues[..., 0] / (abs(largest[..., 0]) + (largest[..., 0] == 0))).min())
        raise ValueError(
            f"matrix must be positive semidefinite, got an eigenvalue of {worst:.3g} times the largest; "
            "pass a Gram or a second-moment matrix"
        )
    if rtol is None:
        rtol = n * float(library.finfo(x.dtype).eps) if kind == "rank" else 1e-14
    kept = eigenvalues > positive("rtol", rtol) * largest
    if kind == "rank":
        count = kept.sum(-1)
        return count.to(x.dtype) if is_tensor(x) else count.astype(x.dtype)[()]
    eigenvalues = library.where(kept, eigenvalues, library.zeros_like(eigenvalues))
    if kind == "participation":
        return participation_ratio(eigenvalues**0.5, spectrum=True)
    return spectral_rank(eigenvalues, spectrum=True)
