"""Worlds of routing whose law is known: what was drawn, and what a perfect router would know of it."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of
from porism.results import Result
from porism.theory.pandora import bidder_decision
from porism.theory.pandora.report import standard_error

__all__ = ["LevelsWorld", "MarketChange", "MarketWorld", "World"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class World(Result):
    """n queries and K specialists, with cheap and refined estimates that are exact posterior means.

    Parameters
    ----------
    kind : str
        "gaussian" or "binary".
    scores : float64 array, shape (n, K)
        Realised values V.
    m : float64 array, shape (n, K)
        Means of V given all cheap signals.
    refined : float64 array, shape (n, K)
        Means of V_k given the cheap signals and the expensive signal on k alone.
    refined_joint : float64 array, shape (n, K)
        Means given the cheap signals and all expensive ones.
    s : float64 array, shape (K,) or (n, K)
        Standard deviation of V given the cheap signals.
    tau : float64 array, shape of s
        Noise of the expensive signal in units of V: the one for which ``nu = s^2/sqrt(s^2 + tau^2)``.
    nu : float64 array, shape of s
        Standard deviation of `refined` given the cheap signals.
    A, B : float64 array, shape (K, K)
        ``E[r r']`` and ``E[(V - m) r']`` of the law, for ``r = refined - m``; means over the n draws where
        the kind is "binary", whose law has no closed form of them.
    parameters : dict of str to float
        What the world was made with.

    Examples
    --------
    >>> from porism.sims.pandora import gaussian
    >>> world = gaussian(1000, 3, seed=0)
    >>> world.m.shape, float(world.nu[0])
    ((1000, 3), 0.4)
    """

    kind: str
    scores: Floats
    m: Floats
    refined: Floats
    refined_joint: Floats
    s: Floats
    tau: Floats
    nu: Floats
    A: Floats
    B: Floats
    parameters: dict[str, float]

    @property
    def innovation(self) -> tuple[Floats, Floats]:
        """The pair (A, B) that `route_batch` takes.

        Returns
        -------
        (float64 array, float64 array), shapes (K, K)
            Second moments of innovations, and of values with them.
        """
        return self.A, self.B

    def value(self, choice: Any) -> Floats:
        """Realised value of a choice for each query.

        Parameters
        ----------
        choice : int array, shape (n,)
            Specialists, as in `Routes.choice`.

        Returns
        -------
        float64 array, shape (n,)
            Scores of the chosen.
        """
        return self.scores[np.arange(len(self.scores)), np.asarray(choice)]


@dataclasses.dataclass(frozen=True, eq=False)
class LevelsWorld(Result):
    """Specialists whose expensive signal can be drawn several times.

    Parameters
    ----------
    scores, m : float64 array, shape (n, K)
        Values, and their means given the cheap signals.
    draws : float64 array, shape (n, K, L)
        Signals, each value plus independent noise.
    refined : float64 array, shape (n, K, L + 1)
        Mean of the value given its first 0, 1, ..., L draws.
    nu : float64 array, shape (K, L + 1)
        Standard deviation of `refined` given the cheap signals, as `pooled_sd`.
    s, tau : float64 array, shape (K,)
        Standard deviation of the value given the cheap signals, and of the noise of one draw.

    Examples
    --------
    >>> from porism.sims.pandora import levels
    >>> levels(10, 2, draws=3, seed=0).refined.shape
    (10, 2, 4)
    """

    scores: Floats
    m: Floats
    draws: Floats
    refined: Floats
    nu: Floats
    s: Floats
    tau: Floats


@dataclasses.dataclass(frozen=True)
class MarketChange(Result):
    """What refining changes, per query, against never refining; with standard errors.

    Parameters
    ----------
    price : str
        "raw" or "shrunk".
    dU, dU_se : float
        Utility of the specialist, cost deducted.
    dA, dA_se : float
        Gross value of the allocation.
    dW, dW_se : float
        Value of the allocation, cost deducted.
    refine_rate : float
        Share of queries that are refined.
    """

    price: str
    dU: float
    dU_se: float
    dA: float
    dA_se: float
    dW: float
    dW_se: float
    refine_rate: float


@dataclasses.dataclass(frozen=True, eq=False)
class MarketWorld(Result):
    """A specialist that is offered queries at a price made of K competitors' noisy estimates.

    Parameters
    ----------
    value, refined : float64 array, shape (n,)
        The specialist's value, and its mean once refined.
    competitors : float64 array, shape (n, K)
        Competing values.
    estimates : float64 array, shape (n, K)
        Competing values plus noise.
    raw, shrunk : float64 array, shape (n,)
        Prices: the largest estimate p, and ``mu + rho (p - mu)``, the mean of the value behind it.
    m, s, tau, nu, c : float
        Mean and standard deviation of the specialist's value, noise of its signal, standard deviation of the
        refined mean, cost of refining.
    mu, s_other, omega : float
        Mean and standard deviation of competing values, and of their noise.

    Examples
    --------
    >>> from porism.sims.pandora import market
    >>> change = market(20000, 1, omega=0.5, seed=0).change("raw")
    >>> change.dU > 0 > change.dA > change.dW
    True
    """

    value: Floats
    refined: Floats
    competitors: Floats
    estimates: Floats
    raw: Floats
    shrunk: Floats
    m: float
    s: float
    tau: float
    nu: float
    c: float
    mu: float
    s_other: float
    omega: float

    def change(self, price: str = "raw") -> MarketChange:
        """Average what the specialist's refining changes, for itself and for all.

        It refines and accepts as `bidder_decision` says; a query it leaves goes to the competitor with the
        largest estimate.

        Parameters
        ----------
        price : {"raw", "shrunk"}, default "raw"
            What it pays.

        Returns
        -------
        MarketChange
            Means over the n queries, with standard errors.

        Raises
        ------
        ValueError
            If there is no such price.

        Notes
        -----
        Values enter by their conditional means given estimates and signal, which leaves means as they are and
        makes the errors smaller. With K = 1 the means converge to `bidder_statics`.
        """
        one_of("price", price, ("raw", "shrunk"))
        paid = self.raw if price == "raw" else self.shrunk
        bid = bidder_decision(self.m, self.nu, self.c, paid)
        buys = np.asarray(bid.refine)
        before, after = self.m >= paid, self.refined >= paid
        utility = np.where(after, self.refined - paid, 0.0) - np.where(before, self.m - paid, 0.0)
        gross = np.where(after, self.refined - self.shrunk, 0.0) - np.where(before, self.m - self.shrunk, 0.0)
        dU, dA, dW = (np.where(buys, x, 0.0) for x in (utility - self.c, gross, gross - self.c))
        return MarketChange(
            price,
            dU=float(dU.mean()),
            dU_se=standard_error(dU),
            dA=float(dA.mean()),
            dA_se=standard_error(dA),
            dW=float(dW.mean()),
            dW_se=standard_error(dW),
            refine_rate=float(buys.mean()),
        )
