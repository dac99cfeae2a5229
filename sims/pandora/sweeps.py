"""What dependence costs those who ignore it, and how a router keeps to a budget."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, positive
from porism.results import Result
from porism.sims.pandora._paired import same_shape
from porism.sims.pandora.matrix import ScoreMatrix
from porism.sims.pandora.simulators import gaussian
from porism.theory.pandora import FittedRouter, Router, route_batch
from porism.theory.pandora.report import standard_error

__all__ = ["BudgetRun", "DependenceSweep", "budget_run", "dependence_sweep"]

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class DependenceSweep(Result):
    """What ignoring dependence between specialists costs, by correlation.

    Parameters
    ----------
    rho : float64 array, shape (h,)
        Correlation of what cheap estimates leave open.
    policies : tuple of str
        Columns of the arrays below.
    net, net_se : float64 array, shape (h, p)
        Mean realised value less cost, and its standard error.
    refinements : float64 array, shape (h, p)
        Mean refinements a query.
    loss, loss_se : float64 array, shape (h, p)
        Net value of "kg_joint" less that of the policy, paired by query, and its standard error.
    cost : float
        Cost of a refinement.
    """

    rho: Floats
    policies: tuple[str, ...]
    net: Floats
    net_se: Floats
    refinements: Floats
    loss: Floats
    loss_se: Floats
    cost: float


def dependence_sweep(
    rhos: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 0.95),
    *,
    n: int = 5000,
    K: int = 5,
    cost: float = 0.05,
    s: float = 0.7,
    tau: float = 0.3,
    spread: float = 0.3,
    policies: Sequence[str] = ("cheap", "kg", "kg_sigma", "kg_joint"),
    seed: int = 0,
    progress: bool = False,
) -> DependenceSweep:
    """Route Gaussian worlds of growing correlation by policies that know of it and policies that do not.

    Parameters
    ----------
    rhos : sequence of float
        Correlations in [-1/(K - 1), 1].
    n, K : int
        Queries and specialists.
    cost : float
        Cost of a refinement, > 0.
    s, tau, spread : float
        As in `gaussian`.
    policies : sequence of str
        As in `route_batch`; all but "kg_joint" update only what is refined.
    seed : int
        Randomness; all correlations share their draws.
    progress : bool, default False
        Show a progress bar on stderr.

    Returns
    -------
    DependenceSweep
        One row a correlation.

    References
    ----------
    PB-15 of the module's specification.

    Examples
    --------
    >>> sweep = dependence_sweep((0.0, 0.9), n=2000)
    >>> bool(sweep.loss[1, 1] > 0.05)  # what "kg" loses
    True
    """
    positive("cost", cost)
    steps: Iterable[float] = rhos
    if progress:
        from tqdm import tqdm

        steps = tqdm(list(rhos), desc="correlations", leave=False)
    table = []
    for rho in steps:
        world = gaussian(n, K, rho, s=s, tau=tau, spread=spread, seed=seed)

        def run(policy: str, world: Any = world) -> tuple[Floats, float]:
            joint = world.innovation if policy == "kg_joint" else None
            routes = route_batch(
                world.m, world.nu, cost, policy=policy, refined=world.refined, innovation=joint
            )
            return world.value(routes.choice) - routes.spend, float(routes.n_refine.mean())

        best = run("kg_joint")[0]
        table.append(
            [
                (
                    float(net.mean()),
                    standard_error(net),
                    count,
                    float((best - net).mean()),
                    standard_error(best - net),
                )
                for net, count in map(run, policies)
            ]
        )
    net, net_se, count, loss, loss_se = np.array(table).transpose(2, 0, 1)
    return DependenceSweep(
        np.array(rhos, float), tuple(policies), net, net_se, count, loss, loss_se, float(cost)
    )


@dataclasses.dataclass(frozen=True, eq=False)
class BudgetRun(Result):
    """A router that keeps to a budget, query by query.

    Parameters
    ----------
    lam : float64 array, shape (n,)
        Value of money when each query arrived.
    spend : float64 array, shape (n,)
        Money spent on it.
    quality : float64 array, shape (n,)
        Score of the chosen specialist.
    budget : float64 array, shape (n,)
        Budget that held.
    """

    lam: Floats
    spend: Floats
    quality: Floats
    budget: Floats


def budget_run(
    matrix: ScoreMatrix,
    fitted: FittedRouter,
    budgets: Sequence[float],
    *,
    costs: Any = 0.004,
    rate: float = 0.02,
    calibrate: bool = True,
    policy: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> BudgetRun:
    """Send the queries of a matrix through `Router` in random order while the budget steps.

    Parameters
    ----------
    matrix : ScoreMatrix
        Realised scores.
    fitted : FittedRouter
        Estimates of the same queries, as `cross_fit` makes them.
    budgets : sequence of float
        Money a query, one after the other for equal parts of the queries.
    costs : float or array (K,)
        Money for refining each specialist.
    rate : float
        Step of `Router.set_budget`.
    calibrate : bool, default True
        Whether each budget starts from a value of money calibrated on the fitted queries.
    policy : str, optional
        As in `Router`.
    limit : int, optional
        Most queries.
    seed : int
        Order of queries.
    progress : bool, default False
        Show a progress bar on stderr.

    Returns
    -------
    BudgetRun
        One row a query.

    Raises
    ------
    ValueError
        If the fit belongs to another matrix, or there is no budget.

    Examples
    --------
    >>> from porism.sims.pandora import classifier_matrix
    >>> matrix = classifier_matrix()  # doctest: +SKIP
    >>> budget_run(matrix, cross_fit(matrix), [0.01, 0.02]).spend.mean()  # doctest: +SKIP
    """
    same_shape(matrix, fitted)
    if not len(budgets):
        raise ValueError("budgets must hold at least one budget")
    K = matrix.scores.shape[1]
    order = np.random.default_rng(seed).permutation(np.flatnonzero(matrix.known.all(1)))
    order = order if limit is None else order[: integer("limit", limit, low=1)]
    # estimates stand in for features: the models that made them are not asked again
    bare = dataclasses.replace(fitted, cheap_model=None, refined_model=None)
    router = Router(bare, np.broadcast_to(np.asarray(costs, float), (K,)), policy=policy)
    parts = np.array_split(order, len(budgets))
    bar: Any = None
    if progress:
        from tqdm import tqdm

        bar = tqdm(total=len(order), desc="queries", leave=False)
    rows = []
    for budget, part in zip(budgets, parts, strict=True):
        router.set_budget(float(budget), rate=rate, calibrate=calibrate)
        for i in part:
            lam, refined = router.lam, fitted.q_hat[i]
            decision = router.route(fitted.m_hat[i], refined.__getitem__)
            rows.append((lam, decision.spend, matrix.scores[i, decision.choice], budget))
            if bar is not None:
                bar.update()
    if bar is not None:
        bar.close()
    return BudgetRun(*np.array(rows, float).T)
