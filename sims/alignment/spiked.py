"""Gaussian worlds with a known subspace: spiked covariance, and classes among nuisance directions."""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, positive
from porism.results import Result

__all__ = ["ClassTask", "SpikedSample", "sample_class_task", "sample_spiked"]

Rng = np.random.Generator | int | None


@dataclasses.dataclass(frozen=True, eq=False)
class SpikedSample(Result):
    """Rows from ``N(0, sigma^2 (I + sum_k ell_k v_k v_k'))``.

    Parameters
    ----------
    x : float64 array of shape (n, d)
        The rows.
    directions : float64 array of shape (k, d)
        Orthonormal spikes v_k.
    ells : float64 array of shape (k,)
        Strengths ell_k, in units of sigma^2.
    sigma : float
        Standard deviation off the spikes.

    Examples
    --------
    >>> sample = sample_spiked(3, 5, [4.0], random_state=0)
    >>> sample.captured(sample.directions)
    array([1.])
    """

    x: NDArray[np.float64]
    directions: NDArray[np.float64]
    ells: NDArray[np.float64]
    sigma: float

    def captured(self, basis: ArrayLike) -> NDArray[np.float64]:
        """Part of each spike that a subspace holds, ``|P v_k|^2``.

        Parameters
        ----------
        basis : array_like of shape (r, d)
            Orthonormal rows.

        Returns
        -------
        float64 array of shape (k,)
            Numbers in [0, 1].
        """
        return np.sum((np.asarray(basis, dtype=np.float64) @ self.directions.T) ** 2, axis=0)


def sample_spiked(
    n: int,
    d: int,
    ells: ArrayLike,
    *,
    sigma: float = 1.0,
    directions: ArrayLike | None = None,
    random_state: Rng = None,
) -> SpikedSample:
    """Draw rows of the spiked model, ``x = sigma (z + sum_k (sqrt(1 + ell_k) - 1) (z.v_k) v_k)``.

    Parameters
    ----------
    n, d : int
        Number of rows and of coordinates, >= 1.
    ells : array_like of shape (k,), or float
        Strengths of the spikes in units of sigma^2, >= 0, at most d of them.
    sigma : float, default 1
        Standard deviation off the spikes, > 0.
    directions : array_like of shape (k, d), optional
        Orthonormal spikes; by default uniformly random ones.
    random_state : Generator, int or None
        Source of the spikes and of the rows.

    Returns
    -------
    SpikedSample
        Rows and truth.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, a strength is negative, or the directions are not k orthonormal
        rows.

    Notes
    -----
    The mean is 0, so PCA without centring uses n degrees of freedom, with centring n - 1. Time and memory
    O(n d).

    References
    ----------
    Johnstone (2001), "On the distribution of the largest eigenvalue in principal components analysis",
    doi:10.1214/aos/1009210544.

    Examples
    --------
    >>> sample = sample_spiked(4000, 20, [8.0], random_state=0)
    >>> round(float(np.var(sample.x @ sample.directions[0])))
    9
    """
    n, d, sigma = integer("n", n, 1), integer("d", d, 1), positive("sigma", sigma)
    strengths = _strengths("ells", ells, d)
    rng = generator(random_state, "random_state")
    v = _frame(rng, len(strengths), d) if directions is None else _given(directions, len(strengths), d)
    return SpikedSample(_rows(rng, n, d, v, strengths, sigma), v, strengths, sigma)


@dataclasses.dataclass(frozen=True, eq=False)
class ClassTask(Result):
    """Gaussian classes with one covariance, ``x | c ~ N(mu_c, sigma^2 (I + sum_k nu_k u_k u_k'))``.

    The between-class scatter is ``S = sum_c pi_c (mu_c - mu)(mu_c - mu)'`` with ``tr S = delta sigma^2``.

    Parameters
    ----------
    x : float64 array of shape (n, d)
        Training rows, class by class.
    y : int64 array of shape (n,)
        Their classes, 0..C-1.
    means : float64 array of shape (C, d)
        Class means mu_c.
    shares : float64 array of shape (C,)
        Class shares pi_c, of the training rows and of the population.
    directions : float64 array of shape (k, d)
        Orthonormal nuisance directions u_k, orthogonal to all mean differences.
    nuisance : float64 array of shape (k,)
        Their strengths nu_k, in units of sigma^2.
    sigma : float
        Standard deviation off the nuisance.
    delta : float
        ``tr S / sigma^2``.

    Examples
    --------
    >>> task = sample_class_task(20, 8, 2, 6.0, [30.0], random_state=0)
    >>> round(task.captured(np.eye(20)), 9), round(task.separation, 9)
    (1.0, 24.0)
    """

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    means: NDArray[np.float64]
    shares: NDArray[np.float64]
    directions: NDArray[np.float64]
    nuisance: NDArray[np.float64]
    sigma: float
    delta: float

    @property
    def scatter_root(self) -> NDArray[np.float64]:
        """Rows ``sqrt(pi_c) (mu_c - mu)``, shape (C, d): S is its transpose times itself."""
        return np.sqrt(self.shares)[:, None] * (self.means - self.shares @ self.means)

    @property
    def separation(self) -> float:
        """Mean of ``|mu_c - mu_e|^2 / sigma^2`` over pairs of classes; 4 delta for two balanced ones."""
        a, b = np.triu_indices(len(self.means), 1)
        return float(np.mean(np.sum((self.means[a] - self.means[b]) ** 2, axis=1)) / self.sigma**2)

    def captured(self, basis: ArrayLike) -> float:
        """True captured share of a subspace, ``tr(P S) / tr S``.

        Parameters
        ----------
        basis : array_like of shape (r, d)
            Orthonormal rows.

        Returns
        -------
        float
            A number in [0, 1].
        """
        root = self.scatter_root
        return float(np.sum((root @ np.asarray(basis, dtype=np.float64).T) ** 2) / np.sum(root**2))

    def rho(self, basis: ArrayLike) -> float:
        """True alignment coefficient of a subspace, ``(captured - r/d) / (1 - r/d)``.

        Parameters
        ----------
        basis : array_like of shape (r, d)
            Orthonormal rows, r < d.

        Returns
        -------
        float
            1 where the subspace holds all of S; 0 is the mean over random subspaces.
        """
        r, d = np.shape(basis)
        return (self.captured(basis) - r / d) / (1 - r / d)

    def draw(self, n_per_class: Any, random_state: Rng = None) -> "ClassTask":
        """Draw other rows of the same population.

        Parameters
        ----------
        n_per_class : int or sequence of int of length C
            Rows of each class, >= 1; their shares must be those of the population.
        random_state : Generator, int or None
            Source of the rows.

        Returns
        -------
        ClassTask
            The same truth with new `x` and `y`.

        Raises
        ------
        ValueError
            If the numbers of rows are not in the proportion of `shares`.
        """
        counts = _counts(n_per_class, len(self.means))
        if not np.allclose(counts / counts.sum(), self.shares, rtol=0, atol=1e-12):
            raise ValueError(
                f"n_per_class must keep the class shares {self.shares.tolist()}, got {counts.tolist()}; "
                "the scatter S, and with it delta, depends on them"
            )
        y = np.repeat(np.arange(len(counts)), counts)
        noise = _rows(
            generator(random_state, "random_state"),
            *(len(y), self.means.shape[1], self.directions, self.nuisance, self.sigma),
        )
        return dataclasses.replace(self, x=self.means[y] + noise, y=y)

    def accuracy(
        self, weight: ArrayLike, bias: ArrayLike | None = None, *, samples: int = 4096, random_state: Rng = 0
    ) -> float:
        """Population accuracy of the linear classifier ``argmax_c (weight x + bias)_c``.

        Exact for two classes, where the margin is Gaussian; else the logits, Gaussian given the class, are
        drawn.

        Parameters
        ----------
        weight : array_like of shape (C, d)
            One row a class.
        bias : array_like of shape (C,), optional
            Added to the logits.
        samples : int, default 4096
            Draws a class where C > 2; the same for every classifier of one seed.
        random_state : Generator, int or None, default 0
            Source of these draws.

        Returns
        -------
        float
            Share classified right; a tie counts as one over the number of tied classes.

        Raises
        ------
        ValueError
            If a shape does not fit.
        """
        C, d = self.means.shape
        w = finite_array("weight", weight, 2)
        b = np.zeros(C) if bias is None else finite_array("bias", bias, 1)
        if w.shape != (C, d) or b.shape != (C,):
            raise ValueError(
                f"weight must have shape ({C}, {d}) and bias ({C},), got {w.shape} and {b.shape}; "
                "give one row a class"
            )
        centre = self.means @ w.T + b  # class, logit
        root = np.hstack([w, np.sqrt(self.nuisance) * (w @ self.directions.T)]) * self.sigma
        if C == 2:
            gap = (centre[:, 1] - centre[:, 0]) * np.array([-1.0, 1.0])
            spread = float(np.linalg.norm(root[1] - root[0]))
            right = [_phi(g / spread) if spread else 0.5 * (1 + np.sign(g)) for g in gap]
            return float(self.shares @ right)
        values, vectors = np.linalg.eigh(root @ root.T)
        z = generator(random_state, "random_state").standard_normal((integer("samples", samples, 1), C))
        noise = z @ (vectors * np.sqrt(np.maximum(values, 0))).T
        total = 0.0
        for c in range(C):
            logits = centre[c] + noise
            best = logits == logits.max(axis=1, keepdims=True)
            total += self.shares[c] * float(np.mean(best[:, c] / best.sum(axis=1)))
        return total


def sample_class_task(
    d: int,
    n_per_class: Any,
    C: int,
    delta: float,
    nuisance: ArrayLike = (),
    *,
    sigma: float = 1.0,
    offset: float = 0.0,
    random_state: Rng = None,
) -> ClassTask:
    """Draw Gaussian classes whose between-class scatter has trace exactly ``delta sigma^2``.

    Class means are random Gaussian vectors, centred with the class shares and scaled. Nuisance directions are
    random, orthonormal and orthogonal to the mean differences: they take room in the top principal directions
    and carry no label.

    Parameters
    ----------
    d : int
        Coordinates, >= C - 1 + k.
    n_per_class : int or sequence of int of length C
        Training rows of each class, >= 1; they set the class shares.
    C : int
        Number of classes, >= 2.
    delta : float
        Trace of S in units of sigma^2, > 0. For two balanced classes S is the spike ``ell = delta``, and
        ``|mu_1 - mu_0|^2 = 4 delta sigma^2`` is what `predicted_accuracy` calls delta.
    nuisance : array_like of shape (k,), default none
        Strengths nu_k of the nuisance directions, in units of sigma^2, >= 0.
    sigma : float, default 1
        Standard deviation off the nuisance, > 0.
    offset : float, default 0
        Length, in units of sigma, of a random vector added to every mean.
    random_state : Generator, int or None
        Source of everything.

    Returns
    -------
    ClassTask
        Training rows and the truth.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Time O(n d + (C + k)^2 d).

    Examples
    --------
    >>> task = sample_class_task(30, [12, 4, 8], 3, 5.0, random_state=1)
    >>> round(float(np.sum(task.scatter_root**2)), 9), task.y[[0, 12, 16]].tolist()
    (5.0, [0, 1, 2])
    """
    d, C, sigma = integer("d", d, 1), integer("C", C, 2), positive("sigma", sigma)
    delta, counts = positive("delta", delta), _counts(n_per_class, C)
    strengths = _strengths("nuisance", nuisance, d)
    if C - 1 + len(strengths) > d:
        raise ValueError(
            f"d must be >= C - 1 + the number of nuisance directions = {C - 1 + len(strengths)}, got {d}; "
            "raise d or drop some"
        )
    offset = float(finite_array("offset", offset, 0))
    rng, shares = generator(random_state, "random_state"), counts / counts.sum()
    means = rng.standard_normal((C, d))
    means -= shares @ means
    means *= sigma * math.sqrt(delta / float(shares @ np.sum(means**2, axis=1)))
    taken = np.linalg.qr((means[1:] - means[0]).T)[0].T
    directions = _frame(rng, len(strengths), d, taken)
    if offset:
        means = means + offset * sigma * _frame(rng, 1, d)
    empty = np.zeros((0, d)), np.zeros(0, dtype=np.int64)
    task = ClassTask(*empty, means, shares, directions, strengths, sigma, delta)
    return task.draw(counts, rng)


def _phi(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _counts(value: Any, C: int) -> NDArray[np.int64]:
    if np.ndim(value) == 0:
        return np.full(C, integer("n_per_class", value, 1))
    counts = [integer("n_per_class", int(v) if isinstance(v, np.integer) else v, 1) for v in value]
    if len(counts) != C:
        raise ValueError(f"n_per_class must have one number a class, got {len(counts)} for C={C}")
    return np.array(counts)


def _strengths(name: str, value: ArrayLike, d: int) -> NDArray[np.float64]:
    found = np.atleast_1d(finite_array(name, value))
    if found.ndim > 1 or (found < 0).any() or len(found) > d:
        raise ValueError(f"{name} must be at most d={d} numbers >= 0, got {found.tolist()}")
    return found


def _frame(
    rng: np.random.Generator, k: int, d: int, taken: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Uniformly random orthonormal rows, orthogonal to the orthonormal rows taken."""
    g = rng.standard_normal((k, d))
    for _ in range(2):  # the second pass removes what rounding left
        if taken is not None:
            g = g - (g @ taken.T) @ taken
        q, triangle = np.linalg.qr(g.T)
        g = (q * np.where(np.diag(triangle) < 0, -1.0, 1.0)).T  # without the sign it would not be uniform
    return g


def _given(directions: ArrayLike, k: int, d: int) -> NDArray[np.float64]:
    v = finite_array("directions", directions, 2)
    if v.shape != (k, d) or not np.allclose(v @ v.T, np.eye(k), atol=1e-8):
        raise ValueError(f"directions must be {k} orthonormal rows of length {d}, got shape {v.shape}")
    return v


def _rows(
    rng: np.random.Generator,
    n: int,
    d: int,
    v: NDArray[np.float64],
    strengths: NDArray[np.float64],
    sigma: float,
) -> NDArray[np.float64]:
    z = rng.standard_normal((n, d))
    return sigma * (z + (z @ v.T * (np.sqrt(1 + strengths) - 1)) @ v)
