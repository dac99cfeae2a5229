"""Correlated refinement in innovation form: what refining some specialists says about the others.

With ``r = q - m`` the innovation of a refined estimate q over the cheap mean m, everything follows from
``A = E[r r']`` and ``B = E[(V - m) r']``, which data give without any noise level.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer

__all__ = ["Innovation"]

Floats = NDArray[np.float64]
FLOOR = 1e-8  # least eigenvalue of A, in units of each specialist's own variance
CACHE = 1 << 26  # bytes of conditional covariances that are kept


class Innovation:
    """Joint law of the refinements of K specialists, conditional on any set of them.

    After refining S: ``mean = m + B_S A_SS^{-1} r_S``; refining i next moves all means by ``slope_i Z`` with
    ``slope_i = (B_i - B_S A_SS^{-1} A_Si) / sqrt(A_ii - A_iS A_SS^{-1} A_Si)`` and Z standard normal.

    Parameters
    ----------
    A : float array_like, shape (K, K)
        Covariance of the innovations, ``E[r r']``: symmetric, positive semidefinite. Eigenvalues below 1e-8
        (after scaling to a unit diagonal) are raised to it; the rest is kept as given.
    B : float array_like, shape (K, K)
        ``E[(V - m) r']``: row j is a value, column i an innovation. ``B = A`` if refined estimates are
        jointly calibrated.

    Raises
    ------
    ValueError
        If shapes do not fit, A is not symmetric within 1e-8, or has a clearly negative eigenvalue.

    Notes
    -----
    Sets of specialists are bit masks: bit i of a Python int is set where i was refined. The residual
    covariances of a set come from those of a set with one member less, by one step of a Cholesky
    factorisation (O(K^2)); up to 64 MB of them are kept. A specialist without innovation (A_ii = 0) has
    slopes 0.

    References
    ----------
    P. I. Frazier, W. B. Powell, S. Dayanik (2009), The knowledge-gradient policy for correlated normal
    beliefs, doi:10.1287/ijoc.1080.0314, equations (8) to (10). PB-15 of the module's specification.

    Examples
    --------
    >>> law = Innovation([[0.25, 0.2], [0.2, 0.25]], [[0.25, 0.2], [0.2, 0.25]])
    >>> law.slopes().round(3).tolist(), law.slopes(0b01).round(3).tolist()
    ([[0.5, 0.4], [0.4, 0.5]], [[0.0, 0.0], [0.0, 0.3]])
    """

    def __init__(self, A: ArrayLike, B: ArrayLike) -> None:
        A, B = finite_array("A", A, ndim=2), finite_array("B", B, ndim=2)
        if A.shape[0] != A.shape[1] or A.shape != B.shape or A.size == 0:
            raise ValueError(f"A of shape {A.shape} and B of shape {B.shape} must both be (K, K) with K >= 1")
        self.A: Floats = _raised(A)
        self.B: Floats = B.copy()
        self._states: dict[int, tuple[Floats, Floats]] = {0: (self.A, self.B)}

    @property
    def K(self) -> int:
        """Number of specialists."""
        return len(self.A)

    def residual(self, refined: int = 0) -> tuple[Floats, Floats]:
        """Covariances that are left after a set of refinements.

        ``A - A_S A_SS^{-1} A_S'`` and ``B - B_S A_SS^{-1} A_S'``, with zeros at the refined innovations.

        Parameters
        ----------
        refined : int, default 0
            Bit mask of the specialists refined, in [0, 2^K).

        Returns
        -------
        (float64 array, float64 array), shapes (K, K)
            What is left of A, and of B.

        Raises
        ------
        ValueError
            If the mask has bits beyond K.
        """
        refined = integer("refined", refined, 0, (1 << self.K) - 1)
        path = []
        while refined not in self._states:  # always the highest: the result must not depend on what is kept
            member = refined.bit_length() - 1
            path.append((refined, member))
            refined ^= 1 << member
        state = self._states[refined]
        if len(self._states) * 16 * self.K**2 > CACHE:
            self._states = {0: (self.A, self.B)}
        for mask, i in reversed(path):
            state = _eliminate(*state, i)
            self._states[mask] = state
        return state

    def slopes(self, refined: int = 0) -> Floats:
        """How one standard deviation of news from refining each specialist moves all means.

        Parameters
        ----------
        refined : int, default 0
            Bit mask of the specialists refined already.

        Returns
        -------
        float64 array, shape (K, K)
            Row i: change of all means; zeros where i was refined already or tells nothing.
        """
        A, B = self.residual(refined)
        variance = A.diagonal()
        return np.divide(B.T, np.sqrt(variance)[:, None], out=np.zeros_like(B), where=variance[:, None] > 0)

    def update(self, mean: Floats, expected: Floats, r: ArrayLike, i: int, refined: int) -> None:
        """Take in the innovation of one more specialist for queries that have refined the same set.

        ``y = (r_i - E[r_i | r_S]) / sd``, then ``mean += slope_i y`` and ``E[r | r_S] += a_i y``.

        Parameters
        ----------
        mean : float64 array, shape (n, K)
            Means given what was refined so far; changed in place. Start with the cheap means.
        expected : float64 array, shape (n, K)
            Innovations expected so far; changed in place. Start with zeros.
        r : float array_like, shape (n,)
            Innovation ``q_i - m_i`` over the cheap mean.
        i : int
            The specialist.
        refined : int
            Bit mask of the specialists refined before, i not among them.
        """
        A, B = self.residual(refined)
        if A[i, i] > 0:
            y = (np.asarray(r, dtype=np.float64) - expected[:, i]) / A[i, i]
            mean += np.multiply.outer(y, B[:, i])
            expected += np.multiply.outer(y, A[:, i])

    def means(self, m: ArrayLike, q: ArrayLike) -> Floats:
        """Means of all specialists given the refined estimates of some, in closed form.

        ``m + B_S A_SS^{-1} (q_S - m_S)``.

        Parameters
        ----------
        m : float array_like, shape (n, K)
            Cheap means.
        q : float array_like, shape (n, K)
            Refined estimates, NaN where a specialist was not refined.

        Returns
        -------
        float64 array, shape (n, K)
            Posterior means.

        Raises
        ------
        ValueError
            If the shapes do not fit.

        Notes
        -----
        One linear solve for each pattern of NaN.
        """
        mean = finite_array("m", m, ndim=2).copy()
        q = np.asarray(q, dtype=np.float64)
        if q.shape != mean.shape or mean.shape[1] != self.K:
            raise ValueError(
                f"m of shape {mean.shape} and q of shape {q.shape} must both be (n, {self.K}) for this law"
            )
        known = np.isfinite(q)
        patterns, where = np.unique(known, axis=0, return_inverse=True)
        for p, pattern in enumerate(patterns):
            S = np.flatnonzero(pattern & (self.A.diagonal() > 0))
            rows = np.flatnonzero(where.ravel() == p)
            weight = np.linalg.solve(self.A[np.ix_(S, S)], self.B[:, S].T)
            mean[rows] += (q[np.ix_(rows, S)] - mean[np.ix_(rows, S)]) @ weight
        return mean


def _raised(A: Floats) -> Floats:
    """A symmetric copy whose eigenvalues, for a unit diagonal, are at least the floor."""
    skew = float(np.abs(A - A.T).max())
    if skew > 1e-8 * float(np.abs(A).max()):
        raise ValueError(f"covariance not symmetric (difference {skew:.3g}); pass E[r r'] itself")
    A = (A + A.T) / 2
    sd = np.sqrt(np.maximum(A.diagonal(), 0.0))
    live = np.flatnonzero(sd > 0)
    unit = np.multiply.outer(sd[live], sd[live])
    values, vectors = np.linalg.eigh(A[np.ix_(live, live)] / unit)
    rest = np.delete(np.arange(len(A)), live)
    if values.min(initial=1.0) < -1e-8 or np.abs(A[rest]).max(initial=0.0) > 0:
        raise ValueError(
            f"covariance not positive semidefinite (min eigenvalue {np.linalg.eigvalsh(A)[0]:.6g})"
        )
    if values.min(initial=1.0) < FLOOR:
        fixed = (vectors * np.maximum(values, FLOOR)) @ vectors.T * unit
        A[np.ix_(live, live)] = (fixed + fixed.T) / 2
    return A


def _eliminate(A: Floats, B: Floats, i: int) -> tuple[Floats, Floats]:
    """One step of the factorisation: what is left of both when innovation i is known."""
    if A[i, i] > 0:
        weight = A[i] / A[i, i]
        A = A - np.multiply.outer(A[:, i], weight)
        B = B - np.multiply.outer(B[:, i], weight)
    else:
        A, B = A.copy(), B.copy()
    A[i] = A[:, i] = B[:, i] = 0.0
    lost = np.flatnonzero(A.diagonal() < 0)  # rounding, where the rest determines an innovation
    A[lost] = A[:, lost] = B[:, lost] = 0.0
    return A, B
