"""What is known of a target beforehand, and what is read off the factors at each record."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.spectral_flow._model import numerical_rank, product_svd
from porism.sims.spectral_flow.trajectory import TIE

__all__ = ["Target"]

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """Spectrum of a target, levels of arrival, smallest loss, singular space of each mode."""

    sigma: Array
    levels: Array
    best_loss: float
    left: Array
    same: NDArray[np.bool_]
    rank: int

    @classmethod
    def of(cls, Y: Array, r: int, ridge: float, fraction: float) -> "Target":
        """Read a target that factors of inner dimension r are to meet."""
        U, sigma, _ = np.linalg.svd(Y, full_matrices=False)
        rank, k = numerical_rank(sigma, Y.shape), min(*Y.shape, r)
        sigma = np.where(np.arange(len(sigma)) < rank, sigma, 0.0)
        levels = fraction * (sigma[:k] - ridge)
        kept = np.maximum(sigma[:k] - ridge, 0)
        best = 0.5 * (sigma**2).sum() - 0.5 * (kept**2).sum()  # soft threshold at ridge, at most k modes
        same = np.abs(sigma[:k, None] - sigma[None, :rank]) <= TIE * sigma[:k, None]
        return cls(sigma[:k], np.where(levels > 0, levels, np.nan), float(best), U[:, :rank], same, rank)

    def observe(self, B: Array, A: Array, frame: Array | None = None) -> dict[str, Any]:
        """Spectrum, norms and alignment at each record; `frame` takes B back to the target's rows."""
        U, s = product_svd(B, A, len(self.sigma))
        left = self.left if frame is None else frame.T @ self.left
        overlap = np.swapaxes(U, -1, -2) @ left  # record, mode of BA, mode of Y
        length = np.sqrt((overlap**2 * self.same).sum(axis=-1))
        defined = s > np.finfo(np.float64).eps * max(B.shape[-2], A.shape[-1]) * s[..., :1]
        defined &= np.arange(s.shape[-1]) < self.rank
        norms = [np.linalg.norm(X, 2, axis=(-2, -1)) for X in (B, A)]
        return {
            "singular_values": s,
            "alignment": np.where(defined, np.minimum(length, 1.0), np.nan),
            "factor_norms": np.stack(norms, axis=-1),
        }

    def fields(self) -> dict[str, Any]:
        """The part that goes into the trajectory as it is."""
        return {"sigma": self.sigma, "levels": self.levels, "best_loss": self.best_loss}
