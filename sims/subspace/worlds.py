"""Pairs of latents with known angles, scores by sampling, and two sets of digits."""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, positive, require
from porism.errors import AssumptionError
from porism.results import Result
from porism.theory.linalg import Frame, orthonormal
from porism.theory.subspace import reuse_error_general

__all__ = [
    "ScoreError",
    "digits_by_class",
    "latent_covariance",
    "sample_pair",
    "score_error_monte_carlo",
]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreError(Result):
    """Mean squared error of a score over samples.

    Parameters
    ----------
    mean : float
        Mean of ``|s* - s|^2``.
    se : float
        Its standard error.
    n : int
        Number of samples.

    Examples
    --------
    >>> ScoreError(2.0, 0.1, 100).mean
    2.0
    """

    mean: float
    se: float
    n: int


def sample_pair(
    D: int, d: int, angles: ArrayLike, rng: np.random.Generator | int | None = None
) -> tuple[Floats, Floats]:
    """Draw two latents of R^D with given principal angles, in a random position.

    ``U_t = U_s cos t + Q sin t`` column by column, with random orthonormal columns ``[U_s, Q]``.

    Parameters
    ----------
    D : int
        Dimension of the space, at least d plus the number of angles above 0.
    d : int
        Dimension of both latents.
    angles : array_like of shape (d,)
        Radians, in [0, pi/2].
    rng : Generator, int or None
        Source of the position.

    Returns
    -------
    (float64 array of shape (D, d), float64 array of shape (D, d))
        Orthonormal columns U_s and U_t, principal vectors of each other: column k of both has angle k.

    Raises
    ------
    AssumptionError
        If D is too small for the angles.
    TypeError, ValueError
        If a size or an angle is out of range.

    Notes
    -----
    Uniform over positions, by a QR factorisation of Gaussian columns.

    References
    ----------
    Björck and Golub (1973), "Numerical methods for computing angles between linear subspaces".

    Examples
    --------
    >>> U_s, U_t = sample_pair(5, 2, [0.0, 0.5], 0)
    >>> np.allclose(U_s.T @ U_t, np.diag(np.cos([0.0, 0.5])))
    True
    """
    theta = finite_array("angles", angles, ndim=1)
    d = integer("d", d, 1)
    if len(theta) != d:
        raise ValueError(f"angles must hold d={d} of them, got {len(theta)}; pass 0 for a shared direction")
    if ((theta < 0) | (theta > math.pi / 2)).any():
        raise ValueError(f"angles must lie in [0, pi/2], got {theta}; pass radians")
    D, apart = integer("D", D, d), np.flatnonzero(theta > 0)
    if d + len(apart) > D:
        raise AssumptionError(f"D must be at least {d + len(apart)}, got {D}; raise D or set angles to 0")
    q = np.linalg.qr(generator(rng).standard_normal((D, d + len(apart))))[0]
    target = q[:, :d] * np.cos(theta)
    target[:, apart] += q[:, d:] * np.sin(theta[apart])
    return q[:, :d], target


def latent_covariance(U: ArrayLike | Frame, signal: ArrayLike, noise: float) -> Floats:
    """Covariance of data on a latent, with noise in every direction.

    ``U diag(signal) U' + noise I``.

    Parameters
    ----------
    U : array_like of shape (D, d), or Frame
        Orthonormal columns.
    signal : array_like, scalar or of shape (d,)
        Variance along each column, >= 0.
    noise : float
        Variance in every direction, >= 0.

    Returns
    -------
    float64 array of shape (D, D)
        The covariance.

    Raises
    ------
    TypeError, ValueError
        If the columns are not orthonormal or a variance is negative.

    Examples
    --------
    >>> latent_covariance([[1.0], [0.0]], 2.0, 0.5).tolist()
    [[2.5, 0.0], [0.0, 0.5]]
    """
    columns, spectrum = orthonormal("U", U), finite_array("signal", signal)
    if spectrum.shape not in ((), (columns.shape[1],)):
        raise ValueError(
            f"signal must be a number or one a column, got {spectrum.shape} for {columns.shape}; match them"
        )
    if spectrum.min() < 0 or finite_array("noise", noise, 0) < 0:
        raise ValueError(f"signal and noise must be >= 0, got {signal!r} and {noise!r}; pass variances")
    return np.asarray((columns * spectrum) @ columns.T + noise * np.eye(len(columns)))


def score_error_monte_carlo(
    U_s: ArrayLike | Frame,
    covariance: ArrayLike,
    alpha2: float,
    h2: float,
    n: int = 10_000,
    rng: np.random.Generator | int | None = None,
    outside: float | None = None,
) -> ScoreError:
    """Sample the error of a reused score: draw data, add noise, compare both scores.

    ``s* = -S^-1 x`` and ``s = -U (U'SU)^-1 U'x - (x - U U'x) / v`` with ``S = alpha^2 C + h^2 I``.

    Parameters
    ----------
    U_s : array_like of shape (D, d), or Frame
        Orthonormal columns that span the frozen latent.
    covariance : array_like of shape (D, D)
        Covariance C of the Gaussian target.
    alpha2 : float
        Squared factor of the data, in (0, 1].
    h2 : float
        Variance of the diffusion noise, > 0.
    n : int, default 10000
        Number of samples, >= 2.
    rng : Generator, int or None
        Source.
    outside : float, optional
        Variance v assumed outside of the latent; h2 without it, ``h2 + alpha2 noise`` where calibrated.

    Returns
    -------
    ScoreError
        Mean, standard error, n.

    Raises
    ------
    TypeError, ValueError
        If the columns are not orthonormal, the covariance is none, or a number is out of range.

    Notes
    -----
    Memory some ``4 n D`` numbers, cost ``n D^2``.

    References
    ----------
    arXiv:2605.13448, reconstruction of the setting.

    Examples
    --------
    >>> found = score_error_monte_carlo([[1.0], [0.0]], np.diag([1.0, 0.1]), 1.0, 0.1, 4000, 0)
    >>> abs(found.mean - 5.0) < 5 * found.se
    True
    """
    columns = orthonormal("U_s", U_s)
    reuse_error_general(columns, covariance, alpha2, h2)  # checks all four arguments
    C = finite_array("covariance", covariance)
    values, vectors = np.linalg.eigh(C / 2 + C.T / 2)
    values = np.maximum(values, 0.0)  # rounding may leave them below
    v = h2 if outside is None else positive("outside", outside)
    draw = generator(rng)
    shape = (integer("n", n, 2), len(columns))
    data = (draw.standard_normal(shape) * np.sqrt(values)) @ vectors.T
    x = math.sqrt(alpha2) * data + math.sqrt(h2) * draw.standard_normal(shape)
    S = alpha2 * (vectors * values) @ vectors.T + h2 * np.eye(len(columns))
    true = -np.linalg.solve(S, x.T).T
    latent = x @ columns
    reused = -np.linalg.solve(columns.T @ S @ columns, latent.T).T @ columns.T - (x - latent @ columns.T) / v
    squared = np.square(true - reused).sum(axis=1)
    return ScoreError(
        float(squared.mean()), float(squared.std(ddof=1)) / math.sqrt(len(squared)), len(squared)
    )


def digits_by_class(low: int = 0, high: int = 9) -> Floats:
    """Images of some of scikit-learn's handwritten digits as rows of 64 grey values in [0, 1].

    Parameters
    ----------
    low, high : int
        First and last digit, 0..9.

    Returns
    -------
    float64 array of shape (n, 64)
        Pixels divided by 16.

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed.
    TypeError, ValueError
        If a digit is out of range.

    References
    ----------
    Alpaydin and Kaynak (1998), "Optical recognition of handwritten digits", doi:10.24432/C50P49.

    Examples
    --------
    >>> import sklearn
    >>> digits_by_class(0, 4).shape
    (901, 64)
    """
    first = integer("low", low, 0, 9)
    last = integer("high", high, first, 9)
    require("sklearn", "data")
    from sklearn.datasets import load_digits

    pixels, label = load_digits(return_X_y=True)
    return np.asarray(pixels[(label >= first) & (label <= last)] / 16)
