"""Routing many queries at once: which specialists are refined, who is chosen, what it costs."""

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, one_of
from porism.results import Result
from porism.theory.pandora._bulk import RULES, Setting, settle
from porism.theory.pandora._inputs import check_nu, in_value, money, outside_option
from porism.theory.pandora.innovation import Innovation

__all__ = ["Routes", "route_batch"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Refine = Callable[[Ints, Ints], ArrayLike]


@dataclasses.dataclass(frozen=True, eq=False)
class Routes(Result):
    """Where each query went and what was paid to find out.

    Parameters
    ----------
    choice : int64 array, shape (n,)
        Specialist chosen, -1 for the outside option.
    n_refine : int64 array, shape (n,)
        Refinements that gave a value.
    spend : float64 array, shape (n,)
        Money: costs of these refinements plus the price of the specialist chosen.
    value_est : float64 array, shape (n,)
        Mean of the chosen specialist given all that was refined, before prices; the outside value for -1.
    n_failed : int64 array, shape (n,)
        Refinements that gave no number; they are not charged.
    per_specialist : tuple of int
        Refinements of each specialist over all queries.
    policy : str
        Name of the policy.
    lam : float
        Exchange rate, value per unit of money.

    Examples
    --------
    >>> routes = route_batch([[0.5, 0.4], [0.0, 2.0]], [0.5, 0.5], [0.05, 0.05], refined=[[0.1, 0.9], [1, 1]])
    >>> routes.choice.tolist(), routes.n_refine.tolist(), routes.value_est.tolist()
    ([1, 1], [2, 0], [0.9, 2.0])
    """

    choice: Ints
    n_refine: Ints
    spend: Floats
    value_est: Floats
    n_failed: Ints
    per_specialist: tuple[int, ...]
    policy: str
    lam: float

    def summary(self) -> str:
        """Say how much was refined, spent, and is expected, per query.

        Returns
        -------
        str
            Text of a few lines, with standard errors.
        """
        n = len(self.choice)
        if n == 0:
            return f"policy {self.policy}: no queries"
        lines = [f"policy {self.policy}, lam = {self.lam:.6g}, {n} queries"]
        for name, values in (
            ("value estimated", self.value_est),
            ("spend", self.spend),
            ("refinements", self.n_refine),
        ):
            error = values.std(ddof=1) / math.sqrt(n) if n > 1 else math.nan
            lines.append(f"{name} {values.mean():.6g} +- {error:.2g} per query")
        if self.n_failed.any():
            lines.append(f"{int(self.n_failed.sum())} refinements failed")
        return "\n".join(lines)


def route_batch(
    m: ArrayLike,
    nu: ArrayLike,
    c: ArrayLike,
    prices: ArrayLike = 0.0,
    lam: float = 1.0,
    policy: str = "kg_sigma",
    refine: Refine | ArrayLike | None = None,
    refined: ArrayLike | None = None,
    innovation: Innovation | tuple[ArrayLike, ArrayLike] | None = None,
    max_rounds: int | None = None,
    chunk: int = 65536,
    outside: float = -math.inf,
) -> Routes:
    """Route many queries, refining specialists where a better estimate is worth its cost.

    Each round a policy picks at most one specialist for each query by net means ``x = m - lam prices`` and
    net costs ``lam c``; its refined estimate q replaces m, or moves all means through `innovation`.

    Parameters
    ----------
    m : float array_like, shape (n, K)
        Cheap mean of specialist k for query q, in quality units, before prices.
    nu : float array_like, shape (K,) or (n, K)
        Standard deviation of the mean after refining, >= 0.
    c : float array_like, scalar or shape (K,)
        Cost of refining, >= 0, in money; infinite for specialists that cannot be refined.
    prices : float array_like, scalar or shape (K,), default 0
        Price of using a specialist, in money.
    lam : float, default 1
        Value of a unit of money, >= 0. With costs in quality units leave it at 1.
    policy : str
        - "cheap": never refine;
        - "exhaustive": refine everybody, the largest net mean first where `max_rounds` is less than K;
        - "weitzman": by decreasing index ``x + w`` while it exceeds the best refined net mean, which is used;
        - "kg": the largest one-step net gain while it is positive;
        - "kg_sigma": the largest index among those whose one-step gain is positive;
        - "kg_joint": as "kg", with the gain of news that moves all means; needs `innovation`.
    refine : callable, or float array_like of shape (n, K)
        ``refine(queries, specialists)``: two int64 arrays of equal length, each pair at most once, in one
        call a round and chunk; returns refined estimates q in the units of m. NaN or infinity is a failure:
        the pair is not asked again, the query goes on. An exception ends the run. An array is `refined`.
    refined : float array_like, shape (n, K), optional
        All refined estimates, where they are known; NaN where refining fails.
    innovation : Innovation or (A, B), optional
        Joint law of ``r = q - m``; with it every policy updates all means by every refinement. Bands of the
        policies other than "kg_joint" keep using nu.
    max_rounds : int, optional
        Most refinements tried a query, K by default.
    chunk : int, default 65536
        Queries worked on together. Results do not depend on it.
    outside : float, default -inf
        Value of choosing nobody, at no price.

    Returns
    -------
    Routes
        Choice, refinements, spend in money and estimated value of each query.

    Raises
    ------
    ValueError
        If an argument is out of range, shapes do not fit, no estimates are given to a policy that asks for
        them, or "kg_joint" comes without `innovation`.

    Warns
    -----
    UserWarning
        With one specialist and no outside option, where nothing is refined.

    Notes
    -----
    Peak memory beyond arguments and results: 50 bytes x chunk x K, with `innovation` 70, with nu for each
    query 20 more; and up to 80 MB for covariances of sets where there is a joint law. "kg" and "kg_sigma" on
    a matrix of estimates without `innovation` copy nothing but rows that are not contiguous floats: each
    query runs to its end in one pass, some 0.2 us a round at K = 64.

    "kg_joint" groups queries by the set refined so far: slopes are computed and sorted once a set, then O(K)
    for each query and specialist. Equal scores: the smallest index. Exact values of the other policies under
    independence come from `policy_value`; "rollout" has no form in bulk.

    References
    ----------
    PB-4, PB-9 and PB-15 of the module's specification (a reconstruction); M. L. Weitzman (1979), Optimal
    search for the best alternative; P. Frazier, W. Powell and S. Dayanik (2008, 2009), knowledge gradients.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> m = rng.normal(size=(1000, 3))
    >>> q = m + 0.5 * rng.normal(size=m.shape)
    >>> few, all_ = (route_batch(m, [0.5] * 3, 0.02, refined=q, policy=p) for p in ("kg", "exhaustive"))
    >>> print([f"{np.mean(r.value_est - r.spend):.3f} {r.n_refine.mean():.2f}" for r in (few, all_)])
    ['0.902 0.91', '0.884 3.00']
    """
    one_of("policy", policy, RULES)
    means = _matrix("m", m)
    n, K = means.shape
    if K == 0:
        raise ValueError("need at least 1 specialist; m has no column")
    cost, price, lam = money(c, prices, lam, K, "c")
    spread = np.asarray(nu)
    if spread.dtype.kind not in "biuf":
        raise ValueError(f"nu must hold real numbers, got dtype {spread.dtype}; convert it to float first")
    if spread.shape not in ((K,), (n, K)):
        raise ValueError(
            f"nu of shape {spread.shape} does not fit m of shape {means.shape}; want ({K},) or ({n}, {K})"
        )
    chunk = integer("chunk", chunk, 1)
    max_rounds = K if max_rounds is None else integer("max_rounds", max_rounds, 0)
    outside = outside_option(outside)
    law = innovation if innovation is None or isinstance(innovation, Innovation) else Innovation(*innovation)
    if law is not None and law.K != K:
        raise ValueError(
            f"innovation of shape {law.A.shape} does not fit m of shape {means.shape}; want ({K}, {K})"
        )
    if policy == "kg_joint" and law is None:
        raise ValueError("policy 'kg_joint' needs innovation=(A, B); estimate it from refined estimates, "
                         "or take policy='kg_sigma'")  # fmt: skip
    if K == 1 and outside == -math.inf:
        warnings.warn("one specialist: refinement cannot change the choice", UserWarning, stacklevel=2)
        max_rounds = 0
    if policy == "cheap":
        max_rounds = 0
    estimates = _estimates(refine, refined, means.shape, needed=max_rounds > 0)
    for start in range(0, n, chunk):  # before anything is asked for
        if not np.isfinite(part := means[start : start + chunk]).all():
            finite_array("m", part)  # says where
        check_nu(spread if spread.ndim == 1 else spread[start : start + chunk])

    setting = Setting(
        cost=in_value(cost, lam), price=lam * price, fee=np.where(np.isinf(cost), 0.0, cost),
        outside=outside, nu=spread, law=law, estimates=estimates, max_rounds=min(max_rounds, K),
    )  # fmt: skip
    choice, n_refine, n_failed = (np.empty(n, dtype=np.int64) for _ in range(3))
    spend, value = np.empty(n), np.empty(n)
    counts = np.zeros(K, dtype=np.int64)
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        done = settle(setting, means[rows], start, policy)
        choice[rows], value[rows] = done.choice, done.value
        n_refine[rows], n_failed[rows] = done.refined, done.failed
        spend[rows] = done.paid + np.where(done.choice >= 0, price[done.choice], 0.0)
        counts += done.counts
    return Routes(choice, n_refine, spend, value, n_failed, tuple(counts.tolist()), policy, lam)


def _matrix(name: str, value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float first")
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (n, K), got {array.shape}; one row a query")
    return array


def _estimates(refine: Any, refined: Any, shape: tuple[int, ...], needed: bool) -> Any:
    """A callable that gives estimates, or the matrix of all."""
    if refine is not None and refined is not None:
        raise ValueError("pass refine= or refined=, not both; a callable asks, a matrix holds all estimates")
    if callable(refine):
        return refine
    table = refined if refine is None else refine
    if table is None:
        if needed:
            raise ValueError("the policy asks for refined estimates: pass refine=callable or refined=matrix, "
                             "or take policy='cheap'")  # fmt: skip
        table = np.broadcast_to(np.nan, shape)
    table = _matrix("refined", table)
    if table.shape != shape:
        raise ValueError(f"refined of shape {table.shape} does not fit m of shape {shape}; one value a pair")
    return table
