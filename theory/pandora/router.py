"""Routing queries one at a time: refine while it pays, choose, keep to a budget, survive failures."""

import inspect
import math
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of, positive
from porism.errors import NumericalWarning
from porism.theory.pandora._inputs import in_value, money, outside_option, rate, specialist_names
from porism.theory.pandora._query import PLANNING, STEPPING, Market, Query
from porism.theory.pandora._router_state import Counters, RouterFile
from porism.theory.pandora.decision import Decision
from porism.theory.pandora.fit import FittedRouter
from porism.theory.pandora.innovation import Innovation

__all__ = ["Router"]

Floats = NDArray[np.float64]


class Router:
    """An online router: for each query it refines estimates while that pays, and names a specialist.

    Parameters
    ----------
    fitted : FittedRouter
        From `fit_router`.
    costs : float or float array, shape (K,)
        Money for refining a specialist, >= 0; infinite for one that cannot be refined.
    prices : float or float array, shape (K,)
        Money for using a specialist.
    lam : float
        Value of a unit of money, >= 0. With costs in value units leave it at 1.
    outside : float
        Value of choosing nobody, at no price; -inf if there is no such option.
    policy : str, optional
        "kg_joint" if the fit has ``dependence="joint"``; else "rollout" up to 8 specialists, "kg_sigma"
        above. Others are "cheap", "exhaustive", "weitzman", "kg", "two_step", "recommit", "commit",
        "top_index" and "optimal" (the exact optimum under independence; these and "rollout" plan ahead, up
        to 14 specialists).
    names : sequence of str, optional
        Names of specialists, all different and none of them "outside"; those of the fit if None.

    Attributes
    ----------
    policy : str
        The policy in use.
    names : tuple of str
        Specialists.

    Raises
    ------
    ValueError
        If a cost, price, lam or outside is out of range, a shape does not fit, two names agree, or the
        policy is unknown.

    Notes
    -----
    Safe to use from several threads and tasks: a query has its own state; counters and lam are behind a lock.
    With ``dependence="joint"`` rules that look one step ahead update all means by every refinement; rules
    that plan take specialists as independent. With ``returns="binary"`` "kg" and "kg_sigma" use the exact
    gain of a value in {0, 1}; the others use Gaussian bands. Time a query: one-step rules some 0.1 ms a step,
    plans 2^K K times 256 nodes.

    References
    ----------
    PB-9, PB-10, PB-12 and PB-15 of the module's specification (a reconstruction).

    Examples
    --------
    >>> from porism.theory.pandora import fit_router
    >>> m, noise = np.random.default_rng(0).normal(size=(2, 500, 3))
    >>> q = m + 0.5 * noise
    >>> router = Router(fit_router(q, m, q, dependence="independent"), costs=0.02, names=["a", "b", "c"])
    >>> router.route([0.5, 0.4, -2.0], refine={0: 0.1, 1: 0.9}.get).name
    'b'
    """

    def __init__(
        self,
        fitted: FittedRouter,
        costs: Any,
        prices: Any = 0.0,
        lam: float = 1.0,
        outside: float = -math.inf,
        policy: str | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(fitted, FittedRouter):
            raise TypeError(f"fitted must come from fit_router, got {type(fitted).__name__}")
        K = len(fitted.names)
        if policy is None:
            small = "rollout" if K <= 8 else "kg_sigma"
            policy = "kg_joint" if fitted.dependence == "joint" else small
        one_of("policy", policy, STEPPING + PLANNING)
        if policy in PLANNING and K > 14:
            raise ValueError(
                f"policy {policy!r} is exponential in K; K={K} > 14, use 'kg_sigma' or 'kg_joint'"
            )
        self._fitted, self.policy = fitted, policy
        self.names = specialist_names(fitted.names if names is None else names, K)
        self._costs, self._prices, lam = money(costs, prices, lam, K)
        self._outside = outside_option(outside)
        if K == 1 and self._outside == -math.inf:
            warnings.warn(
                "one specialist: refinement cannot change the choice", NumericalWarning, stacklevel=2
            )
        joint = policy == "kg_joint" or (fitted.dependence == "joint" and policy in STEPPING)
        self._law = Innovation(fitted.A, fitted.B) if joint else None
        self._lock = threading.RLock()
        self._budget: float | None = None
        self._rate = 0.0
        self._counters = Counters(K)
        self.lam = lam

    @property
    def fitted(self) -> FittedRouter:
        """The fit it routes by.

        Returns
        -------
        FittedRouter
            As given.
        """
        return self._fitted

    @property
    def costs(self) -> Floats:
        """Money for refining each specialist.

        Returns
        -------
        float array, shape (K,)
            Infinite where that is impossible.
        """
        return self._costs.copy()

    @property
    def prices(self) -> Floats:
        """Money for using each specialist.

        Returns
        -------
        float array, shape (K,)
            As given.
        """
        return self._prices.copy()

    @property
    def outside(self) -> float:
        """Value of choosing nobody.

        Returns
        -------
        float
            -inf where there is no such option.
        """
        return self._outside

    @property
    def lam(self) -> float:
        """Value of a unit of money; set it, or let a budget steer it.

        Returns
        -------
        float
            At least 0.
        """
        return self._lam

    @lam.setter
    def lam(self, value: float) -> None:
        value = rate(value)
        cost, price = in_value(self._costs, value), value * self._prices
        binary = self._fitted.returns == "binary"
        market = Market(cost, price, self._outside, self.policy, self._law, binary)
        with self._lock:
            self._lam, self._market = value, market

    def route(self, query_features: Any, refine: Callable[[int], float] | None = None) -> Decision:
        """Route one query, refining specialists one after the other while it pays.

        Parameters
        ----------
        query_features : float array, shape (p,)
            Features of the cheap estimator; the K cheap estimates themselves where the fit was given arrays.
        refine : callable, optional
            ``refine(k)`` returns the refined estimate of specialist k. If it raises, or returns None, NaN or
            infinity, k is not refined for this query and routing goes on. Without it the expensive estimator
            of the fit is asked, with the same features.

        Returns
        -------
        Decision
            The specialist and how it was found.

        Raises
        ------
        ValueError
            If the features do not fit.
        TypeError
            If refine gives something to await: use `aroute`.
        """
        query, ask = self._begin(query_features, refine)
        if inspect.iscoroutinefunction(ask):
            raise TypeError("refine is a coroutine function; use await router.aroute(...)")
        trace: list[dict[str, Any]] = []
        while (k := self._next(query)) >= 0:
            try:
                value, status = ask(k), "ok"
            except TimeoutError:
                value, status = math.nan, "timeout"
            except Exception:
                value, status = math.nan, "failed"
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()  # it never runs, and need not say so
                raise TypeError("refine gives something to await; use await router.aroute(...)")
            self._learn(query, k, value, status, trace)
        return self._finish(query, trace)

    async def aroute(
        self,
        query_features: Any,
        refine: Callable[[int], Any] | None = None,
        concurrency: int = 1,
        timeout: float | None = None,
    ) -> Decision:
        """Route one query where refining takes time, without blocking others.

        Parameters
        ----------
        query_features : float array, shape (p,)
            As for `route`.
        refine : callable, optional
            As for `route`; usually a coroutine function.
        concurrency : int
            Specialists refined at once: in each round the best ones by the policy, as if none of them were
            known. More than 1 saves time and gives a lower value than one after the other.
        timeout : float, optional
            Seconds after which what a refinement awaits is cancelled and counts as failed. A refine that
            awaits nothing holds up the event loop until it returns.

        Returns
        -------
        Decision
            The specialist and how it was found.

        Raises
        ------
        ValueError
            If the features do not fit, concurrency is below 1 or timeout is not positive.
        """
        import asyncio  # takes as long as all else that this package imports

        integer("concurrency", concurrency, low=1)
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be > 0 seconds or None, got {timeout!r}")
        query, ask = self._begin(query_features, refine)
        trace: list[dict[str, Any]] = []
        while True:
            batch: list[int] = []
            while len(batch) < concurrency and (k := self._next(query, tuple(batch))) >= 0:
                batch.append(k)
            if not batch:
                return self._finish(query, trace)
            if len(batch) == 1:
                answers = [await _answer(ask, batch[0], timeout)]
            else:
                answers = await asyncio.gather(*(_answer(ask, k, timeout) for k in batch))
            for k, (value, status) in zip(batch, answers, strict=True):
                self._learn(query, k, value, status, trace)

    def set_budget(self, spend_per_query: float | None, rate: float = 0.02, calibrate: bool = True) -> None:
        """Steer lam so that mean spend settles at a budget.

        After each query ``lam <- max(0, lam + eta (spend - budget))``, so that over n queries mean spend is
        off the budget by ``(lam_n - lam_0) / (eta n)``, plus what is left unspent while lam is 0.

        Parameters
        ----------
        spend_per_query : float or None
            Money a query, > 0, for refining and using; None stops steering and leaves lam where it is.
        rate : float
            Step in units of a natural scale of lam, > 0: greater follows faster and moves lam more.
        calibrate : bool
            Start from the least lam whose spend on the fitted queries keeps to the budget: the spends on a
            grid of lam, made monotone, since spend of one-step rules may rise with lam. For policies that
            plan ahead those of "kg_sigma" are taken. Takes up to 41 runs of `route_batch`.

        Raises
        ------
        ValueError
            If the budget or the rate is not positive.
        """
        if spend_per_query is None:
            with self._lock:
                self._budget = None
            return
        budget, rate = positive("spend_per_query", spend_per_query), positive("rate", rate)
        if calibrate:
            self.lam = self._calibrated(budget)
        with self._lock:
            self._budget, self._rate = budget, rate

    def counters(self) -> dict[str, Any]:
        """Totals since the start.

        Returns
        -------
        dict
            ``queries``, ``refined`` and ``chosen`` by name (``outside`` too), ``refine_failed``, of these
            ``refine_timeout``, ``spend_mean`` and its standard error ``spend_se``, ``lam``, ``budget``.
        """
        with self._lock:
            return self._counters.report(self.names) | {"lam": self._lam, "budget": self._budget}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the router with its counters and lam to one npz file without pickle.

        Parameters
        ----------
        path : path
            File to create or replace, whole or not at all.

        Raises
        ------
        TypeError
            If the fit holds a user's own regressor.
        """
        self._fitted.check_savable()
        with self._lock:
            counts = self._counters.state()
            state = (self._lam, self._outside, self.policy, self.names, self._budget, self._rate, counts)
        RouterFile(self._fitted, self._costs, self._prices, *state).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Router":
        """Read a router back; it goes on counting and steering where it stood.

        Parameters
        ----------
        path : path
            File written by `save`.

        Returns
        -------
        Router
            An equal router.

        Raises
        ------
        ValueError
            If the file is not a saved router.
        """
        saved = RouterFile.load(path)
        router = cls(
            saved.fitted, saved.costs, saved.prices, saved.lam, saved.outside, saved.policy, saved.names
        )
        router._budget, router._rate = saved.budget, saved.rate
        router._counters.restore(saved.counts)
        return router

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = {name: value for name, value in vars(self).items() if name != "_lock"}
            counters = Counters(len(self.names))
            counters.restore(self._counters.state())
            return state | {"_counters": counters}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def _begin(self, features: Any, refine: Any) -> tuple[Query, Callable[[int], Any]]:
        m = np.asarray(self._fitted.cheap(features), float)
        if m.shape != (len(self.names),):
            raise ValueError(f"query_features must describe one query, got shape {np.shape(features)}")
        if refine is None:
            if self._fitted.refined_model is None:
                raise ValueError(
                    "the fit has no expensive estimator: pass refine=, a function of the specialist"
                )
            refine = self._expensive(features)
        if not callable(refine):
            raise TypeError(f"refine must be a function of the specialist, got {type(refine).__name__}")
        nu = self._fitted.nu if self._fitted.nu_table is None else self._fitted.nu_at(m)
        return Query(self._market, m, nu), refine

    def _expensive(self, features: Any) -> Callable[[int], float]:
        estimates: list[Floats] = []

        def ask(k: int) -> float:
            if not estimates:  # the estimator gives all specialists at once
                estimates.append(self._fitted.refined(features))
            return float(estimates[0][k])

        return ask

    def _next(self, query: Query, busy: tuple[int, ...] = ()) -> int:
        if query.market.law is None:
            return query.next(busy)
        with self._lock:  # the joint law remembers what it has computed
            return query.next(busy)

    def _learn(self, query: Query, k: int, value: Any, status: str, trace: list[dict[str, Any]]) -> None:
        try:
            value = math.nan if value is None else float(value)
        except (TypeError, ValueError):
            value = math.nan
        if math.isfinite(value):
            with self._lock:
                query.take(k, value)
        else:
            value, status = math.nan, "failed" if status == "ok" else status
            query.fail(k)
        best = float((query.mean[0] - query.market.price).max())
        trace.append({"specialist": k, "name": self.names[k], "status": status, "value": value, "best": best})

    def _finish(self, query: Query, trace: list[dict[str, Any]]) -> Decision:
        k = query.choice()
        spend = float(sum(self._costs[i] for i in query.values)) + (float(self._prices[k]) if k >= 0 else 0.0)
        value = float(query.mean[0, k]) if k >= 0 else self._outside
        with self._lock:
            late = sum(step["status"] == "timeout" for step in trace)
            self._counters.add(query.values, k, query.failed, late, spend)
            if self._budget is not None:
                step = self._rate * self._scale() / self._budget
                moved = max(0.0, self._lam + step * (spend - self._budget))
                if moved != self._lam:
                    self.lam = moved
        name = self.names[k] if k >= 0 else "outside"
        return Decision(k, name, dict(query.values), value, spend, tuple(trace))

    def _scale(self) -> float:
        """The lam at which refining stops to pay; at no cost, that at which prices outweigh differences."""
        costs = self._costs[np.isfinite(self._costs)]
        unit = (float(costs.mean()) if len(costs) else 0.0) or float(np.ptp(self._prices)) or 1.0
        return float(self._fitted.nu.mean()) / math.sqrt(2 * math.pi) / unit or 1.0

    def _calibrated(self, budget: float) -> float:
        from porism.theory.pandora.routes import route_batch

        grid = np.concatenate([[0.0], self._scale() * np.geomspace(1e-3, 1e2, 40)])
        policy = self.policy if self.policy in STEPPING else "kg_sigma"
        fitted = self._fitted
        nu = fitted.nu if fitted.nu_table is None else fitted.nu_at(fitted.m_hat)
        least = float(grid[-1])
        for lam in grid[::-1].tolist():  # downwards: no lam from here up may spend more; and few refine there
            routes = route_batch(
                fitted.m_hat,
                nu,
                self._costs,
                self._prices,
                lam,
                policy,
                refined=fitted.q_hat,
                innovation=self._law,
                outside=self._outside,
            )
            if routes.spend.mean() > budget:
                break
            least = lam
        return least


async def _answer(ask: Callable[[int], Any], k: int, timeout: float | None) -> tuple[Any, str]:
    """One refinement; failures are values, cancellation of the query is not."""
    import asyncio

    try:
        value = ask(k)
        if inspect.isawaitable(value):
            value = await (value if timeout is None else asyncio.wait_for(value, timeout))
    except TimeoutError:
        return math.nan, "timeout"
    except Exception:
        return math.nan, "failed"
    return value, "ok"
