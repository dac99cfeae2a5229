"""How many directions a matrix really uses: stable rank, effective rank and participation ratio.

All three lie between 1 and the rank, agree on a flat spectrum, ignore scale, and are 0 for the zero matrix.
"""

import sys
from typing import Any

import numpy as np

from porism.checks import finite_array

__all__ = ["effective_rank", "participation_ratio", "stable_rank"]


def stable_rank(x: Any, *, spectrum: bool = False) -> Any:
    """Squared Frobenius norm over squared operator norm.

    ``sum(s^2) / max(s)^2`` with s the singular values.

    Parameters
    ----------
    x : array_like or tensor
        Matrices, shape (..., m, n), or with ``spectrum=True`` singular values, shape (..., k), in any order.
    spectrum : bool, default False
        Whether `x` holds singular values.

    Returns
    -------
    float64, ndarray or tensor, shape (...)
        Stable rank, in [1, rank], 0 for a zero or empty matrix. A tensor gives a tensor on its device, in its
        floating dtype, with a gradient; everything else gives float64.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If `x` has too few axes, a value is NaN or infinite, or a singular value is negative.

    Notes
    -----
    Every matrix is divided by its largest entry first, so that squares neither overflow nor vanish. Half
    precision is computed in float32. Cost: one SVD without vectors, O(m n min(m, n)) a matrix.

    References
    ----------
    Rudelson and Vershynin (2007), "Sampling from large matrices", doi:10.1145/1255443.1255449.

    Examples
    --------
    >>> float(stable_rank([4, 2, 1, 1], spectrum=True))
    1.375
    >>> stable_rank(np.stack([np.eye(3), np.zeros((3, 3))]))
    array([3., 0.])
    """
    s, _, dtype = _relative(x, spectrum)
    return _back((s * s).sum(-1), dtype)


def effective_rank(x: Any, *, spectrum: bool = False) -> Any:
    """Exponential of the entropy of the normalised singular values.

    ``exp(-sum(p log p))`` with ``p = s / sum(s)``.

    Parameters
    ----------
    x : array_like or tensor
        Matrices, shape (..., m, n), or with ``spectrum=True`` singular values, shape (..., k), in any order.
    spectrum : bool, default False
        Whether `x` holds singular values.

    Returns
    -------
    float64, ndarray or tensor, shape (...)
        Effective rank, in [1, rank], 0 for a zero or empty matrix. A tensor gives a tensor on its device, in
        its floating dtype, with a gradient; everything else gives float64.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If `x` has too few axes, a value is NaN or infinite, or a singular value is negative.

    Notes
    -----
    Not below the stable rank. For the entropy over the eigenvalues of a positive semidefinite matrix pass
    these, clipped at 0, with ``spectrum=True``. Scaling, precision and cost as in :func:`stable_rank`.

    References
    ----------
    Roy and Vetterli (2007), "The effective rank: a measure of effective dimensionality", EUSIPCO.

    Examples
    --------
    >>> round(float(effective_rank([4, 2, 1, 1], spectrum=True)), 9)
    3.363585661
    """
    s, library, dtype = _relative(x, spectrum)
    total = s.sum(-1)
    p = s / (total + (total == 0))[..., None]
    entropy = -(p * library.log(p + (p == 0))).sum(-1)
    return _back(library.exp(entropy) * (total > 0), dtype)


def participation_ratio(x: Any, *, spectrum: bool = False) -> Any:
    """Inverse of the mean share of energy in the direction where a unit of energy sits.

    ``sum(s^2)^2 / sum(s^4)`` with s the singular values.

    Parameters
    ----------
    x : array_like or tensor
        Matrices, shape (..., m, n), or with ``spectrum=True`` singular values, shape (..., k), in any order.
    spectrum : bool, default False
        Whether `x` holds singular values.

    Returns
    -------
    float64, ndarray or tensor, shape (...)
        Participation ratio, in [1, rank], 0 for a zero or empty matrix. A tensor gives a tensor on its
        device, in its floating dtype, with a gradient; everything else gives float64.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If `x` has too few axes, a value is NaN or infinite, or a singular value is negative.

    Notes
    -----
    Not below the stable rank. Scaling, precision and cost as in :func:`stable_rank`.

    References
    ----------
    Gao et al. (2017), "A theory of multineuronal dimensionality, dynamics and measurement",
    doi:10.1101/214262.

    Examples
    --------
    >>> round(float(participation_ratio([4, 2, 1, 1], spectrum=True)), 9)
    1.766423358
    """
    s, _, dtype = _relative(x, spectrum)
    energy = s * s
    total, fourth = energy.sum(-1), (energy * energy).sum(-1)
    return _back(total * total / (fourth + (fourth == 0)), dtype)


def _relative(x: Any, spectrum: bool) -> tuple[Any, Any, Any]:
    """Singular values over the largest one (0 where that is 0), the library, and the dtype to give back."""
    torch: Any = sys.modules.get("torch")
    tensor = torch is not None and isinstance(x, torch.Tensor)
    library: Any = torch if tensor else np
    dtype = None
    if tensor:
        if x.is_complex():
            raise TypeError(f"x must hold real numbers, got dtype {x.dtype}; convert it to float first")
        if not x.is_floating_point():
            x = x.double()
        dtype = x.dtype
        if dtype not in (torch.float32, torch.float64):
            x = x.float()
        if not bool(torch.isfinite(x).all()):
            raise ValueError("x must be finite, got NaN or infinity; drop or replace these values")
    else:
        x = finite_array("x", x)
    shape = tuple(x.shape)
    if len(shape) < (1 if spectrum else 2):
        kind = "a spectrum (..., k)" if spectrum else "a matrix (..., m, n)"
        hint = "" if spectrum else "; pass spectrum=True for singular values"
        raise ValueError(f"x must be {kind}, got shape {shape}{hint}")
    axes = (-1,) if spectrum else (-2, -1)
    if 0 in shape[axes[0] :]:
        empty = (*shape[: axes[0]], 1)
        return (x.new_zeros(empty) if tensor else np.zeros(empty)), library, dtype
    if spectrum:
        if bool((x < 0).any()):
            raise ValueError(
                f"x must hold singular values >= 0, got {float(x.min())}; clip rounding at 0, or pass "
                "spectrum=False for a matrix"
            )
        s = x
    elif tensor:
        s = library.linalg.svdvals(x / _largest(abs(x.detach()), axes))
    else:
        s = library.linalg.svd(x / _largest(abs(x), axes), compute_uv=False)
    return s / _largest(s, (-1,)), library, dtype


def _largest(x: Any, axes: tuple[int, ...]) -> Any:
    """Largest entry over the axes, kept for broadcasting; 1 where that is 0."""
    top = x.max(axis=axes, keepdims=True) if isinstance(x, np.ndarray) else x.amax(axes, keepdim=True)
    return top + (top == 0)


def _back(value: Any, dtype: Any) -> Any:
    return value if dtype is None else value.to(dtype)
