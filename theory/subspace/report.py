"""Does a frozen latent still serve? Two data sets in, the price of reuse by noise level out."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, require
from porism.results import Result
from porism.theory.alignment import principal_subspace
from porism.theory.linalg import principal_angles
from porism.theory.subspace._eigenbasis import denoiser_error, in_eigenbasis
from porism.theory.subspace._inputs import diffusion, semidefinite

__all__ = ["ReuseReport", "reuse_report"]


@dataclasses.dataclass(frozen=True, eq=False)
class ReuseReport(Result):
    """Error of reusing a source latent on a target, beside two yardsticks, by noise level.

    Parameters
    ----------
    angles : float64 array of shape (d,)
        Principal angles between the source's and the target's leading d directions, radians, ascending.
    kept, kept_own : float
        Share of the target's variance in the source latent, and in its own.
    h2, alpha2 : float64 arrays of shape (g,)
        Variance of the noise and squared factor of the data.
    reuse : float64 array of shape (g,)
        Expected squared error of the score with the source latent.
    own : float64 array of shape (g,)
        The same with the target's own latent: what d dimensions cost at best.
    score_energy : float64 array of shape (g,)
        Expected squared length of the true score: what predicting zero costs.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.1], [-1.0, 0.1], [2.0, -0.1], [-2.0, -0.1]])
    >>> reuse_report(rows, rows[:, ::-1], 1, 1.0, [0.1, 10.0]).worse_than_zero.tolist()
    [True, False]
    """

    angles: NDArray[np.float64]
    kept: float
    kept_own: float
    h2: NDArray[np.float64]
    alpha2: NDArray[np.float64]
    reuse: NDArray[np.float64]
    own: NDArray[np.float64]
    score_energy: NDArray[np.float64]

    @property
    def ratio(self) -> NDArray[np.float64]:
        """Error of reuse in units of the score energy, shape (g,)."""
        return np.asarray(self.reuse / self.score_energy)

    @property
    def worse_than_zero(self) -> NDArray[np.bool_]:
        """Where predicting zero would be better than the reused score, shape (g,)."""
        return np.asarray(self.reuse > self.score_energy)

    def summary(self) -> str:
        """The report in a few lines.

        Returns
        -------
        str
            Angles, variance kept, and a line a noise level.
        """
        degrees = np.degrees(self.angles)
        lines = [
            f"{len(degrees)} dimensions, angles {degrees[0]:.0f} to {degrees[-1]:.0f} degrees; the source "
            f"latent keeps {self.kept:.1%} of the target's variance, its own {self.kept_own:.1%}",
            "     h2        reuse          own   predict 0",
        ]
        for h2, *errors, bad in zip(
            self.h2, self.reuse, self.own, self.score_energy, self.worse_than_zero, strict=True
        ):
            row = " ".join(f"{error:12.4g}" for error in errors)
            lines.append(f"{h2:7.3g} {row}" + ("   reuse is worse than predicting 0" if bad else ""))
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """Show the noise levels as a pandas table.

        Returns
        -------
        DataFrame
            One row a noise level; angles and shares are in ``frame.attrs``.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        names = ("h2", "alpha2", "reuse", "own", "score_energy", "ratio", "worse_than_zero")
        frame = require("pandas", "tables").DataFrame({name: getattr(self, name) for name in names})
        frame.attrs.update({name: getattr(self, name) for name in ("angles", "kept", "kept_own")})
        return frame


def reuse_report(
    X_source: ArrayLike, X_target: ArrayLike, dim: int, alpha2: ArrayLike, h2_grid: ArrayLike
) -> ReuseReport:
    """Ask whether the latent of one data set still serves another.

    Principal components of both, then the general law (LR-4) for the covariance of the target.

    Parameters
    ----------
    X_source : array_like of shape (n, D)
        Rows the latent was found on, one a sample, n >= 2.
    X_target : array_like of shape (m, D)
        Rows it is to be reused for, with the same columns in the same units, m >= 2.
    dim : int
        Dimension d of the latent, 1..D; at most the rank of either data set.
    alpha2 : array_like, scalar or of shape (g,)
        Squared factor of the data, in (0, 1]; ``1 - h2_grid`` where variance is preserved.
    h2_grid : array_like of shape (g,)
        Variances of the diffusion noise, > 0.

    Returns
    -------
    ReuseReport
        Error with the source latent, with the target's own, and of predicting zero.

    Raises
    ------
    TypeError, ValueError
        If rows are not finite, columns differ, dim exceeds a rank, or a number is out of range.

    Notes
    -----
    Second moments only: the score is the best linear one, which is the true one for Gaussian data; LR-6 gives
    the part outside of the latent for any law. Each data set is centred at its own mean, so that a shift
    between the two costs nothing here. The covariance divides by m. Cost ``(n + m) D^2 + g D^3``.

    References
    ----------
    arXiv:2605.13448, reconstruction; our derivation.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.1], [-1.0, 0.1], [2.0, -0.1], [-2.0, -0.1]])
    >>> found = reuse_report(rows, rows, 1, 1.0, [0.1])
    >>> bool(found.reuse == found.own), round(float(found.ratio[0]), 4)
    (True, 0.0096)
    """
    source, target = (
        finite_array(*pair, ndim=2) for pair in (("X_source", X_source), ("X_target", X_target))
    )
    for name, rows in (("X_source", source), ("X_target", target)):
        if len(rows) < 2 or not rows.shape[1]:
            raise ValueError(
                f"{name} must have at least 2 rows and 1 column, got shape {rows.shape}; add samples"
            )
    if source.shape[1] != target.shape[1]:
        raise ValueError(
            f"X_source and X_target must have the same columns, got {source.shape[1]} and {target.shape[1]}; "
            "describe both by the same features"
        )
    D = target.shape[1]
    d = integer("dim", dim, 1, D)
    h2 = finite_array("h2_grid", h2_grid, ndim=1)
    factor = finite_array("alpha2", alpha2)
    if factor.shape not in ((), h2.shape):
        raise ValueError(
            f"alpha2 must be a number or match h2_grid, got {factor.shape} for {h2.shape}; pass 1 - h2"
        )
    steps = [diffusion(*map(float, pair)) for pair in zip(np.broadcast_to(factor, h2.shape), h2, strict=True)]
    latents = [principal_subspace(rows, d, on_degenerate="raise").basis.T for rows in (source, target)]
    centred = target - target.mean(axis=0)
    values, vectors = semidefinite("covariance of X_target", centred.T @ centred / len(target), D)
    bases = [in_eigenbasis(latent, values, vectors) for latent in latents]
    reuse, own = (np.array([denoiser_error(*basis, *step) for step in steps]) for basis in bases)
    kept, kept_own = (float(inside.sum() / values.sum()) for _, inside, _ in bases)
    energy = np.array([float((1 / (alpha * values + noise)).sum()) for alpha, noise in steps])
    found = principal_angles(*latents)
    return ReuseReport(
        found.angles, kept, kept_own, h2, np.array([step[0] for step in steps]), reuse, own, energy
    )
