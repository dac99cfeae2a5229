"""What holds for every law and every latent: error of a reused score, energy that a latent loses."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.theory.linalg import Frame, orthonormal
from porism.theory.subspace._eigenbasis import denoiser_error, in_eigenbasis
from porism.theory.subspace._inputs import diffusion, in_range, semidefinite

__all__ = ["lost_energy", "off_latent_error", "reuse_error_general"]

Floats = NDArray[np.float64]


def reuse_error_general(U_s: ArrayLike | Frame, covariance: ArrayLike, alpha2: float, h2: float) -> float:
    """Expected squared error of the score of a frozen latent, for any covariance and any dimensions (LR-4).

    ``|(D_s - D_*) S^(1/2) / h^2|_F^2`` with ``S = alpha^2 C + h^2 I``, ``D_* = alpha^2 C S^(-1)`` the optimal
    linear denoiser of the sample, and ``D_s`` that of its part in the latent.

    Parameters
    ----------
    U_s : array_like of shape (D, d), or Frame
        Orthonormal columns that span the frozen latent; d need not be the target's dimension.
    covariance : array_like of shape (D, D)
        Covariance C of the target, symmetric and positive semidefinite, in the same coordinates.
    alpha2 : float
        Squared factor of the data in the noisy sample, in (0, 1].
    h2 : float
        Variance of the diffusion noise, > 0.

    Returns
    -------
    float
        Error of the score that is exact in the latent and ``-x / h^2`` outside of it, for a Gaussian target.

    Raises
    ------
    TypeError, ValueError
        If the columns are not orthonormal, the covariance is not square, symmetric or positive semidefinite,
        a number is out of range, or the error overflows.

    Notes
    -----
    The same number is ``tr S^-1 - tr (U'SU)^-1 - 2 (D - d) / h^2 + tr(P S) / h^4``, P projecting off the
    latent. Its four terms cancel as h grows: at D = 40, noise 1e-3, h^2 = 1e6 it is off by 2e-3, this form by
    less than 1e-14. Eigenvalues down to -1e-10 of the largest count as 0. Cost O(D^3), memory some D^2.

    References
    ----------
    arXiv:2605.13448, reconstruction; our derivation from ``S^-1 = (I - D_*) / h^2``.

    Examples
    --------
    >>> C = np.diag([1.0, 0.0]) + 0.1 * np.eye(2)
    >>> round(reuse_error_general([[1.0], [0.0]], C, 1.0, 0.1), 9)  # the latent is the right one
    5.0
    """
    columns = orthonormal("U_s", U_s)
    alpha2, h2 = diffusion(alpha2, h2)
    return denoiser_error(
        *in_eigenbasis(columns, *semidefinite("covariance", covariance, len(columns))), alpha2, h2
    )


def off_latent_error(
    U_s: ArrayLike | Frame, posterior_mean_cov: ArrayLike, alpha2: float = 1.0, h2: float = 1.0
) -> float:
    """Error of the reused score outside of the latent, for any law of the target (LR-6).

    ``alpha^2 tr(P M) / h^4`` with ``M = E[m m']`` of the posterior mean ``m = E[x0 | x]``, by Tweedie's
    formula; at most the same with ``E[x0 x0']`` in place of M.

    Parameters
    ----------
    U_s : array_like of shape (D, d), or Frame
        Orthonormal columns that span the frozen latent.
    posterior_mean_cov : array_like of shape (D, D)
        Second moment M of the posterior mean, about 0. The second moment of the data gives the upper bound.
    alpha2 : float, default 1
        Squared factor of the data in the noisy sample, in (0, 1].
    h2 : float, default 1
        Variance of the diffusion noise, > 0. With both defaults: the error in units of alpha^2 / h^4.

    Returns
    -------
    float
        Expected squared length of the error's part outside, >= 0.

    Raises
    ------
    TypeError, ValueError
        If the columns are not orthonormal, the matrix is not square, symmetric or positive semidefinite, a
        number is out of range, or the error overflows.

    Notes
    -----
    The part inside the latent is 0 only where the score of the latent's marginal is also that of the whole,
    which is not assumed here. Cost O(D^3).

    References
    ----------
    Robbins (1956), "An empirical Bayes approach to statistics", for the formula of Tweedie. arXiv:2605.13448,
    reconstruction; our derivation.

    Examples
    --------
    >>> off_latent_error([[1.0], [0.0]], [[1.0, 0.0], [0.0, 0.25]], 0.5, 0.1).__round__(9)
    12.5
    """
    columns = orthonormal("U_s", U_s)
    alpha2, h2 = diffusion(alpha2, h2)
    values, vectors = semidefinite("posterior_mean_cov", posterior_mean_cov, len(columns))
    outside = _outside(vectors, columns)  # small where a direction lies in the latent: nothing cancels
    return in_range(float(values @ np.square(outside).sum(axis=0)) * alpha2 / h2 / h2, h2)


def lost_energy(U: ArrayLike | Frame, W: ArrayLike | Frame) -> float:
    """Energy of a domain that a latent leaves out (LR-8).

    ``d - |W'U|_F^2 = |U - W W'U|_F^2``.

    Parameters
    ----------
    U : array_like of shape (D, d), or Frame
        Orthonormal columns that span the domain.
    W : array_like of shape (D, m), or Frame
        Orthonormal columns that span the latent.

    Returns
    -------
    float
        In units of the signal variance, in [0, d]; for m = d the sum of squared sines of the angles.

    Raises
    ------
    TypeError, ValueError
        If columns are not orthonormal, or the numbers of rows differ.

    Notes
    -----
    By the second form, which keeps the digits of a small loss. Cost O(D d m).

    References
    ----------
    arXiv:2605.13448, reconstruction; our derivation.

    Examples
    --------
    >>> lost_energy([[1.0], [0.0]], [[0.8], [0.6]]).__round__(12)
    0.36
    """
    domain, latent = orthonormal("U", U), orthonormal("W", W)
    if len(domain) != len(latent):
        raise ValueError(
            f"U and W must have the same number of rows, got {len(domain)} and {len(latent)}; "
            "pass bases of subspaces of the same space as columns"
        )
    return float(np.square(_outside(domain, latent)).sum())


def _outside(vectors: Floats, latent: Floats) -> Floats:
    """The part of the columns outside of a latent, orthogonal to it also where it is tiny."""
    part = vectors - latent @ (latent.T @ vectors)
    return np.asarray(part - latent @ (latent.T @ part))
