"""Quality against number of refinements: the result that experiments return."""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from porism.results import Result

__all__ = ["RefinementCurve"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class RefinementCurve(Result):
    """Quality against refinements, one row a policy and setting.

    Parameters
    ----------
    policy : str array, shape (r,)
        "kg", "kg_sigma", "kg_joint", "threshold refined", "threshold all", "random" or "random joint".
    setting : float64 array, shape (r,)
        Cost in quality units, margin, or number of random refinements.
    refinements : float64 array, shape (r,)
        Mean number a query, of K.
    quality : float64 array, shape (r,)
        Mean realised score of the chosen specialist.
    gain, gain_se : float64 array, shape (r,)
        Quality over that of the cheap rule, paired by query, and its standard error.
    gap, gap_se : float64 array, shape (r,)
        Quality over that of the exhaustive rule, paired, and its standard error.
    share : float64 array, shape (r,)
        Gain over the gain of the exhaustive rule.
    quality_sd : float64 array, shape (r,)
        Standard deviation of quality over seeds of the expensive estimator; 0 for one seed.
    cheap, exhaustive, exhaustive_joint, oracle, single_best : float
        Quality of choosing by cheap estimates, by refined ones, after the joint linear update, with
        hindsight, and always the same specialist.
    exhaustive_gain_se : float
        Standard error of ``exhaustive - cheap``, paired.
    K, n_queries, n_seeds : int
        Specialists, queries, and seeds averaged over.
    """

    policy: NDArray[np.str_]
    setting: Floats
    refinements: Floats
    quality: Floats
    gain: Floats
    gain_se: Floats
    gap: Floats
    gap_se: Floats
    share: Floats
    quality_sd: Floats
    cheap: float
    exhaustive: float
    exhaustive_joint: float
    oracle: float
    single_best: float
    exhaustive_gain_se: float
    K: int
    n_queries: int
    n_seeds: int = 1

    def points(self, policy: str) -> Floats:
        """Refinements and quality of a policy, by refinements.

        Parameters
        ----------
        policy : str
            One of those in `policy`.

        Returns
        -------
        float64 array, shape (h, 2)
            Rows (refinements, quality), as `cost_quality_curve` takes them; from (0, cheap) to
            (K, exhaustive), or to (K, exhaustive_joint) for policies that update jointly.

        Raises
        ------
        ValueError
            If the policy is not there.
        """
        at = self._rows(policy)
        rows = np.column_stack([self.refinements[at], self.quality[at]])
        last = self.exhaustive_joint if policy.endswith("joint") else self.exhaustive
        every = np.concatenate([[(0.0, self.cheap)], rows, [(self.K, last)]])
        return every[np.argsort(every[:, 0], kind="stable")]

    def quality_at(self, policy: str, refinements: float) -> float:
        """Quality of a policy at a number of refinements, between its settings by a straight line.

        Parameters
        ----------
        policy : str
            One of those in `policy`.
        refinements : float
            Mean number a query.

        Returns
        -------
        float
            NaN below 0 and above K.
        """
        x, y = self.points(policy).T
        return float(np.interp(refinements, x, y, left=math.nan, right=math.nan))

    def refinements_for(self, policy: str, share: float) -> float:
        """Least number of refinements at which a policy keeps a share of the exhaustive gain.

        Parameters
        ----------
        policy : str
            One of those in `policy`.
        share : float
            Share of the gain of the exhaustive rule over the cheap one.

        Returns
        -------
        float
            On straight lines between settings; infinity where it is not reached.
        """
        x, y = self.points(policy).T
        goal = self.cheap + share * (self.exhaustive - self.cheap)
        for (x0, y0), (x1, y1) in zip(zip(x, y, strict=True), zip(x[1:], y[1:], strict=True), strict=False):
            if y0 >= goal:
                return float(x0)
            if y1 >= goal:
                return float(x0 + (goal - y0) / (y1 - y0) * (x1 - x0))
        return float(x[-1]) if y[-1] >= goal else math.inf

    def _rows(self, policy: str) -> NDArray[np.int64]:
        at = np.flatnonzero(self.policy == policy)
        if not len(at):
            raise ValueError(
                f"policy must be one of {', '.join(sorted(set(self.policy.tolist())))}, got {policy!r}"
            )
        return at

    def __repr__(self) -> str:
        return (
            f"RefinementCurve({len(self.policy)} rows, {self.n_queries} queries x {self.K} specialists, "
            f"cheap {self.cheap:.4f}, exhaustive {self.exhaustive:.4f}, oracle {self.oracle:.4f})"
        )
