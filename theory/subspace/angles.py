"""What principal angles decide where the signal is isotropic: error of a reused score, mixture spectrum."""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, not_negative, positive, probability
from porism.errors import AssumptionError
from porism.results import Result
from porism.theory.linalg import PrincipalAngles
from porism.theory.subspace._inputs import diffusion, in_range

__all__ = ["ReuseError", "crossover_angle", "mixture_spectrum", "reuse_error", "shared_dimension"]

# an angle that rounding alone can give where two latents share a direction
_SHARED = 1e-12

# what pi/2 in single precision may be above pi/2
_SINGLE = 1e-7


@dataclasses.dataclass(frozen=True, eq=False)
class ReuseError(Result):
    """Expected squared error of a reused score, split into noise and misalignment.

    Parameters
    ----------
    noise : float
        Floor that is paid at every angle, >= 0.
    misalignment : float64 array of shape (k,)
        What each principal angle adds, >= 0.
    total : float
        noise plus all of misalignment.
    score_energy : float
        Expected squared length of the true score, and the error of predicting zero.

    Examples
    --------
    >>> reuse_error([0.0], 1.0, 0.1, 1.0, 0.1, ambient=2, dim=1).ratio.__round__(6)
    0.857143
    """

    noise: float
    misalignment: NDArray[np.float64]
    total: float
    score_energy: float

    @property
    def ratio(self) -> float:
        """Total in units of the true score energy; above 1 predicting zero is better than reuse."""
        return self.total / self.score_energy


def reuse_error(
    angles: ArrayLike | PrincipalAngles,
    signal: float,
    noise: float,
    alpha2: float,
    h2: float,
    ambient: int,
    dim: int,
    calibrated: bool = False,
) -> ReuseError:
    """Expected squared error of the score of a frozen latent, by its principal angles (LR-1, LR-3).

    With ``a = alpha^2 signal``, ``n = alpha^2 noise``, ``kappa = h^2 + n``: ``E |s* - s|^2 = (D - d) n^2 /
    (h^4 kappa) + sum_k a sin^2 t_k [1/h^4 - 1/((kappa + a)(kappa + a cos^2 t_k))]``. Calibrated reuse takes
    kappa in place of h^2 outside: no floor, and 1/kappa^2 in place of 1/h^4.

    Parameters
    ----------
    angles : array_like of shape (d,), or PrincipalAngles
        Angles between source and target latent, radians, in [0, pi/2], in any order.
    signal : float
        Variance along every direction of the target latent beyond the noise, > 0.
    noise : float
        Variance of the data in every direction, >= 0.
    alpha2 : float
        Squared factor of the data in the noisy sample, in (0, 1]; 1 - h2 where variance is preserved.
    h2 : float
        Variance of the diffusion noise, > 0.
    ambient : int
        Dimension D of the space.
    dim : int
        Dimension d of both latents.
    calibrated : bool, default False
        Whether the score outside is ``-x / kappa``, the right one for noise alone, in place of ``-x / h^2``.

    Returns
    -------
    ReuseError
        Noise floor, one term an angle, total, and energy of the true score.

    Raises
    ------
    AssumptionError
        If D cannot hold the angles, or the latents have two dimensions: see
        :func:`porism.theory.subspace.reuse_error_general`.
    TypeError, ValueError
        If a number is out of range, dim is not the number of angles, or the error overflows.

    Notes
    -----
    Assumes a Gaussian target with one variance in the latent; with two variances angles alone decide nothing
    (LR-5). Written without a difference: relative error of a few eps at every h2. Angles up to 1e-12 count as
    shared directions where room is checked. Cost O(d), whatever D is.

    References
    ----------
    arXiv:2605.13448, reconstruction from the abstract; our derivation, shown by
    :func:`porism.theory.subspace.symbolic.plane_error`.

    Examples
    --------
    >>> found = reuse_error([0.5], 1.0, 0.04, 0.8, 0.2, ambient=3, dim=1)
    >>> round(found.noise, 10), round(found.total, 9)
    (0.2206896552, 4.607581695)
    """
    theta = _angles(angles)
    d = integer("dim", dim, 1)
    if len(theta) != d:
        raise ValueError(
            f"dim must be the number of angles, got dim={d} and {len(theta)} angles; "
            "pass an angle of 0 for every direction that both latents share"
        )
    D = integer("ambient", ambient, d)
    a, n = positive("signal", signal), not_negative("noise", noise)
    scale, h2 = diffusion(alpha2, h2)
    needed = d + int(np.count_nonzero(theta > _SHARED))
    if needed > D:
        raise AssumptionError(
            f"ambient must be at least dim plus the number of angles above 0, which is {needed}, got {D}; "
            "two latents that differ in k directions span dim + k"
        )
    a, n = scale * a, scale * n
    kappa = h2 + n
    # everything in units of the variance v that is assumed outside; products of ratios do not overflow early
    v = kappa if calibrated else h2
    extra, rho = (0.0 if calibrated else n / h2), a / v
    sin2, cos2 = np.sin(theta) ** 2, np.cos(theta) ** 2
    top, cut = 1 + extra + rho, 1 + extra + rho * cos2
    with np.errstate(over="ignore", invalid="ignore"):
        inside = extra * ((2 + extra) / top) + (rho / top) * ((1 + extra) * (1 + cos2) + rho * cos2)
        terms = (rho * sin2) * (inside / cut) / v
    floor = (D - d) * (extra * (extra / kappa))
    total = floor + float(terms.sum())
    return ReuseError(floor, terms, in_range(total, h2), (D - d) / kappa + d / (kappa + a))


def crossover_angle(signal: float, noise: float, ambient: int, dim: int) -> float | None:
    """Common angle at which misalignment and noise floor are equal as h goes to 0 (LR-2).

    ``sin^2 t = (D - d) noise / (d signal)``; with different angles the mean of ``sin^2`` takes this value.

    Parameters
    ----------
    signal : float
        Variance along the target latent beyond the noise, > 0.
    noise : float
        Variance of the data in every direction, >= 0.
    ambient, dim : int
        Dimensions D of the space and d of the latents, 1 <= d <= D.

    Returns
    -------
    float or None
        Angle in radians; None where the floor exceeds the misalignment of orthogonal latents.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Notes
    -----
    Misalignment goes like ``a sin^2 t / h^4`` and the floor like ``n / h^4``. At finite h both are smaller,
    the floor by more, and the angle at which they are equal is smaller too.

    References
    ----------
    arXiv:2605.13448, reconstruction; our derivation.

    Examples
    --------
    >>> crossover_angle(1.0, 0.01, ambient=26, dim=1).__round__(6)
    0.523599
    """
    d = integer("dim", dim, 1)
    D = integer("ambient", ambient, d)
    ratio = (D - d) * (not_negative("noise", noise) / positive("signal", signal)) / d
    return None if ratio > 1 else math.asin(math.sqrt(ratio))


def mixture_spectrum(angles: ArrayLike | PrincipalAngles, weight: float = 0.5) -> NDArray[np.float64]:
    """Eigenvalues of the mixture ``w P_s + (1 - w) P_t`` of two projectors (LR-7).

    ``(1 +- sqrt(1 - 4 w (1 - w) sin^2 t_k)) / 2`` for each angle; ``(1 +- cos t_k) / 2`` at equal weights.

    Parameters
    ----------
    angles : array_like of shape (d,), or PrincipalAngles
        Principal angles, radians, in [0, pi/2].
    weight : float, default 0.5
        Share w of the source, in [0, 1].

    Returns
    -------
    float64 array of shape (2 d,)
        Descending, in units of the signal variance; the noise adds its variance to each, and is all of the
        others.

    Raises
    ------
    AssumptionError
        If the latents have two dimensions.
    TypeError, ValueError
        If the angles or the weight are out of range.

    Notes
    -----
    The smaller value of a pair is ``w (1 - w) sin^2 t`` over the larger one, which loses no digit at small
    angles. Cost O(d log d).

    References
    ----------
    arXiv:2605.13448, reconstruction; our derivation, :func:`porism.theory.subspace.symbolic.mixture`.

    Examples
    --------
    >>> mixture_spectrum([0.9]).round(10).tolist()
    [0.8108049841, 0.1891950159]
    """
    theta, w = _angles(angles), probability("weight", weight)
    product = w * (1 - w)
    major = (1 + np.hypot(1 - 2 * w, 2 * math.sqrt(product) * np.cos(theta))) / 2
    minor = product * np.sin(theta) ** 2 / major
    return np.asarray(np.sort(np.concatenate([major, minor]))[::-1])


def shared_dimension(angles: ArrayLike | PrincipalAngles, tol: float, weight: float = 0.5) -> int:
    """Dimension that a latent for both domains needs at a tolerance (LR-7).

    ``d + #{k : minor eigenvalue > tol}`` for ``tol < 1/2``; in general the eigenvalues above tol.

    Parameters
    ----------
    angles : array_like of shape (d,), or PrincipalAngles
        Principal angles, radians, in [0, pi/2].
    tol : float
        Variance that may be left out of the latent, in units of the signal, in [0, 1].
    weight : float, default 0.5
        Share of the source in the mixture, in [0, 1].

    Returns
    -------
    int
        Between d and 2 d for a tolerance below 1/2.

    Raises
    ------
    AssumptionError
        If the latents have two dimensions.
    TypeError, ValueError
        If a number is out of range.

    Notes
    -----
    Strictly above: an eigenvalue of tol itself is left out. Cost O(d log d).

    References
    ----------
    arXiv:2605.13448, reconstruction; our derivation.

    Examples
    --------
    >>> [shared_dimension([0.1, 0.5, 0.9, 1.4], tol) for tol in (0.05, 0.1, 0.2)]
    [7, 6, 5]
    """
    limit = probability("tol", tol)
    return int(np.count_nonzero(mixture_spectrum(angles, weight) > limit))


def _angles(value: ArrayLike | PrincipalAngles) -> NDArray[np.float64]:
    if isinstance(value, PrincipalAngles):
        if value.dims is not None and value.dims[0] != value.dims[1]:
            raise AssumptionError(
                f"angles must come from latents of one dimension, got {value.dims[0]} and {value.dims[1]}; "
                "use porism.theory.subspace.reuse_error_general(U_s, covariance, alpha2, h2)"
            )
        value = value.angles
    theta = finite_array("angles", value, ndim=1)
    if not len(theta):
        raise ValueError("angles must hold at least one angle, got none; pass 0 for a shared direction")
    wrong = theta[(theta < 0) | (theta > math.pi / 2 + _SINGLE)]
    if len(wrong):
        raise ValueError(
            f"angles must lie in [0, pi/2], got {wrong[0]:.6g}; pass radians, as principal_angles gives them"
        )
    return np.minimum(theta, math.pi / 2)
