"""A softmax policy over finitely many outcomes: what both systems of this family move."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, positive
from porism.results import Result
from porism.theory.policies import _inputs

__all__ = ["SoftmaxPolicy"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class SoftmaxPolicy(Result):
    """Policy ``pi_j = exp(theta_j) / sum_m exp(theta_m)``.

    Parameters
    ----------
    logits : array_like, shape (V,)
        Logits theta, up to a constant; -inf for outcomes that never occur.

    Examples
    --------
    >>> policy = SoftmaxPolicy(np.log([0.5, 0.25, 0.25]))
    >>> policy.gradient([1, 0, 0]).tolist()
    [0.5, -0.25, -0.25]
    """

    logits: Floats

    def __post_init__(self) -> None:
        logits = _inputs.log_values("logits", self.logits, 1)
        if not np.isfinite(logits).any():
            raise ValueError(f"logits must have a finite entry, got {len(logits)} without; pass log-weights")
        object.__setattr__(self, "logits", logits)

    @property
    def log_prob(self) -> Floats:
        """Logarithms of the probabilities, shape (V,)."""
        return _inputs.normalise(self.logits)

    @property
    def probabilities(self) -> Floats:
        """Probabilities, shape (V,)."""
        return np.asarray(np.exp(self.log_prob))

    def gradient(self, weights: ArrayLike) -> Floats:
        """Gradient in the logits of ``sum_j w_j log pi_j``.

        ``w - pi sum(w)``.

        Parameters
        ----------
        weights : array_like, shape (V,)
            Weight w of each outcome, any sign.

        Returns
        -------
        float64 array, shape (V,)
            Sums to zero.

        Raises
        ------
        ValueError
            If the shape is another one or a value is not finite.
        """
        w = self._row("weights", weights)
        return np.asarray(w - self.probabilities * w.sum())

    def kl(self, other: "SoftmaxPolicy") -> float:
        """Divergence ``sum_j pi_j log(pi_j / other_j)`` in nats.

        Parameters
        ----------
        other : SoftmaxPolicy
            Policy over the same outcomes.

        Returns
        -------
        float
            >= 0; inf where the other one misses an outcome of this one.

        Raises
        ------
        ValueError
            If the numbers of outcomes differ.
        """
        if other.logits.shape != self.logits.shape:
            raise ValueError(
                f"other must have {len(self.logits)} outcomes, got {len(other.logits)}; compare equal sets"
            )
        mine, theirs = self.log_prob, other.log_prob
        on = np.isfinite(mine)
        if np.isneginf(theirs[on]).any():
            return float("inf")
        d = theirs[on] - mine[on]
        p, q = np.exp(mine[on]), np.exp(theirs[on])
        # terms q - p - p d are >= 0, and near zero nothing cancels in p (e^d - 1 - d)
        terms = np.where(d < 1, p * (np.expm1(np.minimum(d, 1.0)) - d), q - p - p * d)
        return float(terms.sum() + np.exp(theirs[~on]).sum())

    def tilt(self, reward: ArrayLike, beta: float) -> "SoftmaxPolicy":
        """Policy proportional to ``pi e^(r / beta)``, the maximiser of ``E r - beta KL(. || pi)``.

        Parameters
        ----------
        reward : array_like, shape (V,)
            Reward r of each outcome.
        beta : float
            Temperature, > 0, in the unit of the reward.

        Returns
        -------
        SoftmaxPolicy
            With the same support.

        Raises
        ------
        ValueError
            If an argument is out of range or of another shape.
        """
        r = self._row("reward", reward)
        return SoftmaxPolicy(self.log_prob + _inputs.scaled(r, positive("beta", beta)))

    def _row(self, name: str, value: ArrayLike) -> Floats:
        array = finite_array(name, value, 1)
        if array.shape != self.logits.shape:
            raise ValueError(
                f"{name} must have one entry an outcome, {len(self.logits)}, got shape {array.shape}"
            )
        return array
