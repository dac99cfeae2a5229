"""Laws with few atoms: score, posterior mean and their errors by quadrature, each from its definition."""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array
from porism.results import Result
from porism.theory.linalg import Frame, orthonormal
from porism.theory.subspace import off_latent_error

__all__ = ["FewAtoms", "few_atoms"]

Floats = NDArray[np.float64]

NODES, REACH = 121, 8.5
"""Nodes an axis, equally far apart, and standard deviations they reach to either side."""


@dataclasses.dataclass(frozen=True, eq=False)
class FewAtoms(Result):
    """A law with few atoms, seen through Gaussian noise: its moments and its score, by quadrature.

    Parameters
    ----------
    off_latent : float
        ``E |P (s* - s)|^2``, P projecting off the latent, with the score from derivatives of the density.
    posterior : float64 array of shape (D, D)
        ``E[m m']`` of the posterior mean ``m = E[x0 | x]``.
    second_moment : float64 array of shape (D, D)
        ``E[x0 x0']``.

    Examples
    --------
    >>> found = few_atoms([[1.0, 0.0], [-1.0, 0.0]], [[0.0], [1.0]], 1.0, 0.1)
    >>> bool(found.posterior[0, 0] < found.second_moment[0, 0])
    True
    """

    off_latent: float
    posterior: Floats
    second_moment: Floats


def few_atoms(
    atoms: ArrayLike, U_s: ArrayLike | Frame, alpha2: float, h2: float, weights: ArrayLike | None = None
) -> FewAtoms:
    """Score and posterior mean of a law with few atoms in the plane, each by its own definition.

    ``p(x) = sum_i w_i N(x; alpha a_i, h^2 I)``: the score from derivatives of ``log p`` by a complex step,
    the posterior mean from Bayes' formula, expectations by the trapezoidal rule about every atom.

    Parameters
    ----------
    atoms : array_like of shape (m, 2)
        Places of the data.
    U_s : array_like of shape (2, 1), or Frame
        The frozen latent.
    alpha2 : float
        Squared factor of the data, in (0, 1].
    h2 : float
        Variance of the diffusion noise, > 0.
    weights : array_like of shape (m,), optional
        Probabilities, positive, scaled to sum to 1; equal without it.

    Returns
    -------
    FewAtoms
        Error outside of the latent and both second moments.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit or a number is out of range.

    Notes
    -----
    The trapezoidal rule converges geometrically here, unlike Gauss-Hermite, whose nodes are too far apart
    where belief flips: for two atoms and h^2 from 0.01 to 1 it is within 3e-11 of adaptive quadrature.

    References
    ----------
    Squire and Trapp (1998), "Using complex variables to estimate derivatives of real functions",
    doi:10.1137/S003614459631241X.

    Examples
    --------
    >>> found = few_atoms([[1.0, 0.0], [-1.0, 0.0]], [[0.0], [1.0]], 1.0, 2.0)
    >>> found.second_moment.tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    places, columns = finite_array("atoms", atoms, ndim=2), orthonormal("U_s", U_s)
    if places.shape[1] != 2 or columns.shape != (2, 1):
        raise ValueError(
            f"atoms and U_s must have shapes (m, 2) and (2, 1), got {places.shape} and {columns.shape}; "
            "quadrature is made for the plane"
        )
    share = np.ones(len(places)) if weights is None else finite_array("weights", weights, ndim=1)
    if share.shape != (len(places),) or share.min() <= 0:
        raise ValueError(f"weights must be {len(places)} positive numbers, got {weights!r}; drop the others")
    share = share / share.sum()
    off_latent_error(columns, np.eye(2), alpha2, h2)  # checks both numbers
    centres = math.sqrt(alpha2) * places
    nodes = np.linspace(-REACH, REACH, NODES)
    mass = np.exp(-np.square(nodes) / 2)
    step = math.sqrt(h2) * np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    x = (centres[:, None] + step).reshape(-1, 2)
    chance = (share[:, None] * (np.outer(mass, mass).ravel() / mass.sum() ** 2)).ravel()

    def log_terms(point: NDArray) -> NDArray:
        return np.log(share) - np.square(point[:, None] - centres).sum(axis=-1) / (2 * h2)

    terms = log_terms(x)
    top = terms.max(axis=1, keepdims=True)
    score = np.empty_like(x)
    for axis in range(2):
        nudged = x + 1e-30j * np.eye(2)[axis]
        score[:, axis] = np.log(np.exp(log_terms(nudged) - top).sum(axis=1)).imag / 1e-30
    belief = np.exp(terms - top)
    mean = belief / belief.sum(axis=1, keepdims=True) @ places
    gap = score + x / h2  # outside the reused score is -x / h^2
    gap -= (gap @ columns) @ columns.T
    moments = ((mean.T * chance) @ mean, (places.T * share) @ places)
    return FewAtoms(float(chance @ np.square(gap).sum(axis=1)), *moments)
