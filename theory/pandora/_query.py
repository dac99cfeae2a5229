"""One query on its way: what is known about it, what to refine next, and what a refined estimate changes."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.kernels import voi
from porism.theory.pandora._bulk import words
from porism.theory.pandora._gain import best_other
from porism.theory.pandora.bounds import voi_binary
from porism.theory.pandora.index import inspection_halfwidth
from porism.theory.pandora.innovation import Innovation
from porism.theory.pandora.optimal import optimal_value
from porism.theory.pandora.policies import evaluate_policy

Floats = NDArray[np.float64]

STEPPING = ("cheap", "exhaustive", "weitzman", "kg", "kg_sigma", "kg_joint")
"""Rules that look one step ahead from the current means."""

PLANNING = ("rollout", "two_step", "recommit", "commit", "top_index", "optimal")
"""Rules that are laid out for all states of a query before the first refinement, under independence."""

GRID = 256
"""Nodes of such a plan: values are off by about 1e-4 nu."""


class Market:
    """What all queries share at one exchange rate, in value units."""

    def __init__(
        self, cost: Floats, price: Floats, outside: float, policy: str, law: Innovation | None, binary: bool
    ) -> None:
        self.cost, self.price, self.outside = cost, price, outside
        self.policy, self.law, self.binary = policy, law, binary
        self._known: tuple[Any, Any] = (None, None)

    def band(self, nu: Floats) -> Floats:
        """Half-widths of the inspection bands, remembered for the pooled nu."""
        if self._known[0] is not nu:
            self._known = (nu, np.atleast_1d(inspection_halfwidth(nu, self.cost)))
        return self._known[1]


class Query:
    """Means of one query; the caller asks `next`, refines, and reports by `take` or `fail`."""

    def __init__(self, market: Market, m: Floats, nu: Floats) -> None:
        self.market, self.cheap, self.nu = market, m, nu
        self.mean = m[None].copy()
        self.expected = np.zeros_like(self.mean)
        self.values: dict[int, float] = {}
        self.closed = np.isinf(market.cost)
        self.failed = 0
        self.plan: Any = None

    def next(self, busy: tuple[int, ...] = ()) -> int:
        """The specialist to refine now, leaving out those being refined; -1 to stop."""
        policy, closed = self.market.policy, self.closed
        if busy:
            closed = closed.copy()
            closed[list(busy)] = True
        if policy == "cheap" or closed.all():
            return -1
        if policy in PLANNING:
            return self._planned(closed)
        if policy == "exhaustive":
            return int(np.where(closed, -math.inf, self.cheap - self.market.price).argmax())
        if policy == "weitzman":
            return self._weitzman(closed)
        if self.market.binary and policy != "kg_joint":
            return self._binary(closed)
        shared: dict[str, Any] = {
            "price": self.market.price,
            "done": words(closed[None]),
            "outside": self.market.outside,
        }
        if policy == "kg_joint":
            assert self.market.law is not None
            slopes = self.market.law.slopes(sum(1 << k for k in self.values))
            return int(voi.joint_argmax(self.mean, slopes, self.market.cost, **shared)[1][0])
        rule = "net" if policy == "kg" else "index"
        band = self.market.band(self.nu)
        return int(voi.voi_argmax(self.mean, self.nu, self.market.cost, band, rule=rule, **shared)[1][0])

    def take(self, k: int, value: float) -> None:
        """Learn the refined estimate of a specialist."""
        law = self.market.law
        if law is None:
            self.mean[0, k] = value
        else:
            known = sum(1 << i for i in self.values)
            law.update(self.mean, self.expected, np.array([value - self.cheap[k]]), k, known)
        self.values[k] = value
        self.closed[k] = True

    def fail(self, k: int) -> None:
        """Learn that a specialist cannot be refined; its cheap estimate stays usable."""
        self.closed[k] = True
        self.failed += 1

    def choice(self) -> int:
        """The specialist to use now, -1 where the outside option is strictly better."""
        net = self.mean[0] - self.market.price
        if self.market.policy == "weitzman" and (self.values or self.market.outside > -math.inf):
            net[[k for k in range(len(net)) if k not in self.values]] = -math.inf
        k = int(net.argmax())
        return -1 if self.market.outside > net[k] else k

    def _planned(self, closed: NDArray[np.bool_]) -> int:
        net = self.cheap - self.market.price
        if self.plan is None:
            self.open = np.flatnonzero(~self.closed)
            best = max(self.market.outside, float(net[self.closed].max(initial=-math.inf)))
            arguments = net[self.open], self.nu[self.open], self.market.cost[self.open], best
            name = self.market.policy
            self.plan = (
                optimal_value(*arguments, grid=GRID)
                if name == "optimal"
                else evaluate_policy(name, *arguments, grid=GRID)
            )
        usable = self.mean[0] - self.market.price
        best = max(self.market.outside, float(usable[closed].max(initial=-math.inf)))
        left = [i for i, k in enumerate(self.open) if not closed[k]]
        action = self.plan.decide(best, left)
        return -1 if action < 0 else int(self.open[action])

    def _weitzman(self, closed: NDArray[np.bool_]) -> int:
        index = np.where(closed, -math.inf, self.cheap - self.market.price + self.market.band(self.nu))
        k = int(index.argmax())
        best = max([self.market.outside, *(self.mean[0, i] - self.market.price[i] for i in self.values)])
        return k if index[k] > best else -1

    def _binary(self, closed: NDArray[np.bool_]) -> int:
        """One-step rules with the exact gain of a value in {0, 1}; prices move the alternatives."""
        net = self.mean[0] - self.market.price
        b = best_other(np, net, np.float64(self.market.outside)) + self.market.price
        gain = voi_binary(np.clip(self.mean[0], 0, 1), self.nu, np.clip(b, -1, 2)) - self.market.cost
        gain[closed] = -math.inf
        score = net + self.market.band(self.nu) if self.market.policy == "kg_sigma" else gain
        k = int(np.where(gain > 0, score, -math.inf).argmax())
        return k if gain[k] > 0 else -1
