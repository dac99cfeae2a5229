"""What a router counts, and what it writes to a file."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.results import Result
from porism.theory.pandora.fit import FittedRouter

Floats = NDArray[np.float64]


class Counters:
    """Totals over queries; the caller holds a lock."""

    def __init__(self, K: int) -> None:
        self.queries = self.failed = self.timeout = 0
        self.refined, self.chosen = np.zeros(K, np.int64), np.zeros(K + 1, np.int64)
        self.spend = self.spend_squared = 0.0

    def add(self, refined: Iterable[int], choice: int, failed: int, timeout: int, spend: float) -> None:
        """Count one query; choice -1 is the outside option."""
        self.queries += 1
        self.refined[list(refined)] += 1
        self.chosen[choice] += 1
        self.failed += failed
        self.timeout += timeout
        self.spend += spend
        self.spend_squared += spend**2

    def state(self) -> dict[str, Any]:
        """A copy that a file can hold."""
        return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in vars(self).items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        for name in vars(self):
            setattr(self, name, state[name])

    def report(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Totals and means by name."""
        n = self.queries
        mean = self.spend / n if n else math.nan
        spread = max(self.spend_squared / n - mean**2, 0.0) if n else math.nan
        return {
            "queries": n,
            "refined": dict(zip(names, self.refined.tolist(), strict=True)),
            "chosen": dict(zip((*names, "outside"), self.chosen.tolist(), strict=True)),
            "refine_failed": self.failed,
            "refine_timeout": self.timeout,
            "spend_mean": mean,
            "spend_se": math.sqrt(spread / (n - 1)) if n > 1 else math.nan,
        }


@dataclasses.dataclass(frozen=True)
class RouterFile(Result):
    """What `Router.save` writes.

    Parameters
    ----------
    fitted : FittedRouter
        Estimates and moments.
    costs, prices : float array, shape (K,)
        Money.
    lam, outside : float
        Exchange rate and outside option.
    policy : str
        Name of the policy.
    names : tuple of str
        Specialists.
    budget, rate : float or None
        Of `Router.set_budget`.
    counts : dict
        State of `Counters`.
    """

    fitted: FittedRouter
    costs: Floats
    prices: Floats
    lam: float
    outside: float
    policy: str
    names: tuple[str, ...]
    budget: float | None
    rate: float
    counts: dict[str, Any]
