"""Targets with a known spectrum, and where the factors start."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer
from porism.sims.spectral_flow._model import numerical_rank

__all__ = ["aligned_init", "lora_init", "random_target"]

Array = NDArray[np.float64]


def lora_init(
    m: int, n: int, r: int, scale: float, seed: np.random.Generator | int | None
) -> tuple[Array, Array]:
    """Start as LoRA does: ``B0 = 0`` and ``A0 = scale * N(0, 1)``, so that the product is zero.

    Parameters
    ----------
    m, n : int
        Rows and columns of the target, >= 1.
    r : int
        Inner dimension, >= 1.
    scale : float
        Standard deviation of the entries of A0, >= 0.
    seed : Generator, int or None
        Source of randomness.

    Returns
    -------
    B0 : ndarray of float64, shape (m, r)
        Zeros.
    A0 : ndarray of float64, shape (r, n)
        Gaussian.

    Raises
    ------
    TypeError
        If a size is not an int.
    ValueError
        If a size is below 1, or the scale is negative or not finite.

    References
    ----------
    Hu et al. 2021, LoRA: low-rank adaptation of large language models, section 4.1.

    Examples
    --------
    >>> B0, A0 = lora_init(4, 3, 2, 1e-3, seed=0)
    >>> B0.shape, A0.shape, bool(B0.any())
    ((4, 2), (2, 3), False)
    """
    m, n, r = integer("m", m, 1), integer("n", n, 1), integer("r", r, 1)
    deviation = float(finite_array("scale", scale, 0))
    if deviation < 0:
        raise ValueError(f"scale must be >= 0, got {deviation}; it is a standard deviation")
    return np.zeros((m, r)), deviation * generator(seed, "seed").standard_normal((r, n))


def aligned_init(
    Y: ArrayLike, a0: ArrayLike, b0: ArrayLike, seed: np.random.Generator | int | None
) -> tuple[Array, Array]:
    """Start in the singular bases of the target, where every mode moves on its own.

    ``B0 = U diag(b0) Q'`` and ``A0 = Q diag(a0) V'`` with ``Y = U diag(sigma) V'`` and a random orthogonal Q.

    Parameters
    ----------
    Y : array_like, shape (m, n)
        Target.
    a0, b0 : array_like, shape (r,) or scalar
        Sizes of the modes in A and in B, for the largest singular value first; either sign. Scalars serve all
        modes; if both are scalars, r is the rank of Y.
    seed : Generator, int or None
        Source of Q.

    Returns
    -------
    B0 : ndarray of float64, shape (m, r)
        First factor.
    A0 : ndarray of float64, shape (r, n)
        Second factor.

    Raises
    ------
    ValueError
        If Y is no finite matrix, r is zero or above ``min(m, n)``, or the lengths of a0 and b0 differ.

    Notes
    -----
    With ``a0 = b0`` the start is also balanced. Where singular values of Y repeat, the bases are those that
    LAPACK returns.

    Examples
    --------
    >>> B0, A0 = aligned_init(np.diag([4.0, 1.0]), [0.2, 0.1], 0.5, seed=0)
    >>> np.round(B0 @ A0, 12) + 0
    array([[0.1 , 0.  ],
           [0.  , 0.05]])
    """
    target = finite_array("Y", Y, 2)
    left, sigma, right = np.linalg.svd(target, full_matrices=False)
    a, b = (finite_array(name, value) for name, value in (("a0", a0), ("b0", b0)))
    if a.ndim > 1 or b.ndim > 1 or (a.ndim and b.ndim and a.shape != b.shape):
        raise ValueError(
            f"a0 and b0 must be scalars or of one length, got shapes {a.shape} and {b.shape}; "
            "give one size a mode"
        )
    r = max(a.size, b.size) if a.ndim or b.ndim else numerical_rank(sigma, target.shape)
    if not 1 <= r <= len(sigma):
        raise ValueError(
            f"the number of modes must be in 1..{len(sigma)} for Y of shape {target.shape}, got {r}; "
            "change the length of a0 and b0"
        )
    turn = _orthonormal(r, r, generator(seed, "seed"))
    B0 = (left[:, :r] * np.broadcast_to(b, r)) @ turn.T
    A0 = turn @ (np.broadcast_to(a, r)[:, None] * right[:r])
    return B0, A0


def random_target(m: int, n: int, sigma: ArrayLike, seed: np.random.Generator | int | None) -> Array:
    """Draw a matrix with the given singular values and uniformly random singular vectors.

    ``Y = U diag(sigma) V'``

    Parameters
    ----------
    m, n : int
        Rows and columns, >= 1.
    sigma : array_like, shape (k,)
        Singular values, >= 0, in any order; k <= min(m, n).
    seed : Generator, int or None
        Source of the singular vectors.

    Returns
    -------
    ndarray of float64, shape (m, n)
        The target.

    Raises
    ------
    ValueError
        If a size is below 1, there are more than min(m, n) singular values, or one is negative.

    Examples
    --------
    >>> Y = random_target(6, 7, [4.0, 1.0], seed=0)
    >>> np.linalg.svd(Y, compute_uv=False)[:2].round(12)
    array([4., 1.])
    """
    m, n = integer("m", m, 1), integer("n", n, 1)
    values = finite_array("sigma", sigma, 1)
    if not len(values) <= min(m, n) or (values < 0).any():
        raise ValueError(
            f"sigma must be at most {min(m, n)} numbers >= 0 for a {m} x {n} target, got {len(values)} "
            f"with minimum {values.min() if len(values) else None}; drop the excess"
        )
    rng = generator(seed, "seed")
    left, right = _orthonormal(m, len(values), rng), _orthonormal(n, len(values), rng)
    return (left * values) @ right.T


def _orthonormal(rows: int, columns: int, rng: np.random.Generator) -> Array:
    q, upper = np.linalg.qr(rng.standard_normal((rows, columns)))
    return q * np.where(np.diagonal(upper) < 0, -1.0, 1.0)  # makes the law uniform
