"""Numbers that figures, claims and benchmarks of the pandora module share."""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, integer, one_of
from porism.sims.pandora.classifiers import classifier_matrix
from porism.sims.pandora.experiments import cross_fit, curve_over_seeds
from porism.sims.pandora.matrix import ScoreMatrix
from porism.sims.pandora.refinement import RefinementCurve
from porism.sims.pandora.simulators import gaussian
from porism.theory.pandora import (
    POLICIES,
    FittedRouter,
    compare_policies,
    evaluate_policy,
    fit_router,
    optimal_value,
    signal_slopes,
    voi,
    voi_correlated,
)

__all__ = [
    "classifier_curves",
    "classifier_fit",
    "dependence_gain",
    "optimism_sweep",
    "policy_gaps",
    "spend_by_rate",
]

Floats = NDArray[np.float64]


@functools.cache
def policy_gaps(K: int, count: int, *, family: str = "mixed", grid: int = 1201, seed: int = 1) -> Floats:
    """What each policy loses on random instances: share of the attainable gain, and the largest gap.

    Share of ``sum (OPT - value)`` in ``sum (OPT - max m)`` over the instances; all values come from one
    recursion on one grid.

    Parameters
    ----------
    K : int
        Specialists, 1 to 14.
    count : int
        Instances, >= 1.
    family : {"mixed", "equal", "equal, dear"}
        Law of the instances. "mixed": ``m = normal(K) choice(.2, .5, 1)``, ``nu = uniform(.2, 1.2, K)``,
        ``c = nu uniform(.005, .39, K) choice(.1, .4, 1)``. "equal": ``m = .6 normal(K)``, one
        ``nu = uniform(.2, 1.2)`` and one ``c = nu uniform(.01, .38)`` for all; "equal, dear" from .2 up.
    grid : int, default 1201
        Nodes, as in `optimal_value`.
    seed : int, default 1
        Seed of the instances, drawn in the order above.

    Returns
    -------
    float64 array, shape (P, 2)
        Rows in the order of `POLICIES`: share in [0, 1], largest gap in value units. Kept for the next call.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    2 to 80 ms an instance for K = 2 to 6.

    References
    ----------
    PB-9 of the module's specification.

    Examples
    --------
    >>> policy_gaps(2, 20, grid=201)[0, 0]  # "cheap" loses all there is to gain
    np.float64(1.0)
    """
    one_of("family", family, ("mixed", "equal", "equal, dear"))
    integer("K", K, 1, 14)
    rng, rows = np.random.default_rng(seed), []
    least = 0.2 if family == "equal, dear" else 0.01
    for _ in range(integer("count", count, 1)):
        if family == "mixed":
            m = rng.normal(size=K) * rng.choice([0.2, 0.5, 1])
            nu = rng.uniform(0.2, 1.2, K)
            c = nu * rng.uniform(0.005, 0.39, K) * rng.choice([0.1, 0.4, 1])
        else:
            m, nu = 0.6 * rng.normal(size=K), np.full(K, rng.uniform(0.2, 1.2))
            c = nu * rng.uniform(least, 0.38)
        values = compare_policies(m, nu, c, grid=grid)
        best = values["optimal"]
        rows.append([best - m.max(), *(best - values[policy] for policy in POLICIES)])
    table = np.array(rows)
    out = np.column_stack([table[:, 1:].sum(0) / table[:, 0].sum(), table[:, 1:].max(0)])
    out.setflags(write=False)
    return out


def dependence_gain(
    rhos: ArrayLike,
    m: ArrayLike = (0.3, 0.1, -0.2),
    *,
    s: float = 0.7,
    tau: float = 0.3,
    specialist: int = 0,
) -> tuple[Floats, float]:
    """Value of refining one specialist where errors of all are correlated, and what independence says.

    Parameters
    ----------
    rhos : array_like, shape (h,)
        Correlations, in [-1/(K - 1), 1].
    m : array_like, shape (K,)
        Means.
    s, tau : float
        Standard deviation of each value, and of the noise of the signal.
    specialist : int, default 0
        Which one is refined.

    Returns
    -------
    (float64 array of shape (h,), float)
        True gains, and the gain by the formula for independent specialists.

    Raises
    ------
    ValueError
        If no covariance has a correlation, or another argument is out of range.

    References
    ----------
    PB-15 of the module's specification.

    Examples
    --------
    >>> true, independent = dependence_gain([0.0, 0.5])
    >>> true.round(5).tolist(), round(independent, 5)
    ([0.16898, 0.05237], 0.16898)
    """
    means = finite_array("m", m, ndim=1)
    K = len(means)
    at = integer("specialist", specialist, 0, K - 1)
    eye = np.eye(K)
    true = [
        voi_correlated(means, signal_slopes(s**2 * ((1 - rho) * eye + rho), np.full(K, tau))[at])
        for rho in finite_array("rhos", rhos, ndim=1)
    ]
    others = np.delete(means, at).max()
    return np.array(true), float(voi(means[at] - others, s**2 / np.hypot(s, tau)))


@functools.cache
def classifier_fit(dataset: str = "digits", seed: int = 0) -> tuple[ScoreMatrix, FittedRouter]:
    """A matrix of classifiers and a router fitted to it, kept for the next call.

    Parameters
    ----------
    dataset : {"digits", "breast_cancer"}
        As in `classifier_matrix`.
    seed : int, default 0
        Seed of the expensive estimator.

    Returns
    -------
    (ScoreMatrix, FittedRouter)
        The matrix and its cross-fitted estimates.

    Raises
    ------
    ValueError
        If the data set is unknown.
    MissingExtraError
        If scikit-learn is not installed (extra ``data``).

    Examples
    --------
    >>> classifier_fit()[1].report.refine_harmful  # doctest: +SKIP
    False
    """
    matrix = _matrix(dataset)
    return matrix, cross_fit(matrix, forest_seed=seed)


@functools.cache
def classifier_curves(
    dataset: str = "digits",
    seeds: int = 5,
    costs: tuple[float, ...] = (0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.11, 0.15),
) -> RefinementCurve:
    """Quality by refinements on a matrix of classifiers, mean over forests; kept for the next call.

    Parameters
    ----------
    dataset : {"digits", "breast_cancer"}
        As in `classifier_matrix`.
    seeds : int, default 5
        Forests, >= 1, on the same folds.
    costs : tuple of float
        Costs of a refinement.

    Returns
    -------
    RefinementCurve
        All policies.

    Raises
    ------
    ValueError
        If the data set is unknown or seeds is below 1.
    MissingExtraError
        If scikit-learn is not installed (extra ``data``).

    References
    ----------
    PB-18 of the module's specification.

    Examples
    --------
    >>> classifier_curves("digits", 1).refinements_for("kg_joint", 0.95) < 3  # doctest: +SKIP
    True
    """
    integer("seeds", seeds, 1)
    return curve_over_seeds(_matrix(dataset), range(seeds), costs=costs)[0]


def optimism_sweep(
    rhos: Sequence[float], *, n: int = 4000, K: int = 6, seed: int = 0
) -> tuple[tuple[str, ...], Floats, Floats]:
    """Predicted and realised value of the chosen specialist where uncertainty is shared.

    Gaussian worlds with ``s = .5``, ``m ~ N(0, .3^2)`` and signals of unequal precision, ``tau`` from .15 to
    2: each refined estimate is exactly calibrated, but those of precise signals move most with what all
    share.

    Parameters
    ----------
    rhos : sequence of float, of length h
        Correlations of what cheap estimates leave open.
    n, K : int
        Queries and specialists.
    seed : int, default 0
        Randomness; all correlations share their draws.

    Returns
    -------
    (tuple of str, float64 array of shape (h, 3, 4), float64 array of shape (h, K))
        Rules; for each predicted value, realised value, gain over "cheap", its paired standard error; slopes
        of values on refined estimates.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    PB-17 of the module's specification.

    Examples
    --------
    >>> rules, found, slopes = optimism_sweep([0.0, 0.95], n=2000)
    >>> bool(found[0, 1, 2] > 0 > found[1, 1, 2] + 3 * found[1, 1, 3])  # refining all helps, then harms
    True
    """
    rules: tuple[str, ...] = ()
    table, slopes = [], []
    for rho in rhos:
        world = gaussian(n, K, rho, s=0.5, tau=np.geomspace(0.15, 2.0, K), spread=0.3, seed=seed)
        report = fit_router(world.scores, world.m, world.refined).report
        rules = tuple(row.rule for row in report.chosen)
        table.append([(row.predicted, row.realised, row.gain, row.gain_se) for row in report.chosen])
        slopes.append(report.slope)
    return rules, np.array(table), np.array(slopes)


def spend_by_rate(
    lams: ArrayLike,
    policy: str = "kg",
    m: ArrayLike = (1.06, -0.58, -0.22),
    nu: ArrayLike = (1.02, 0.97, 0.81),
    c: ArrayLike = (0.031, 0.0098, 0.0145),
    *,
    grid: int = 2001,
) -> Floats:
    """Expected money spent on refining a query, by the value of money.

    Parameters
    ----------
    lams : array_like, shape (h,)
        Value of a unit of money, > 0.
    policy : str, default "kg"
        As in `evaluate_policy`, or "optimal".
    m, nu, c : array_like, shape (K,)
        Means, standard deviations after refining, costs in money. By default the example in which spend of
        "kg" rises with lam.
    grid : int, default 2001
        Nodes, as in `optimal_value`.

    Returns
    -------
    float64 array, shape (h,)
        Money a query.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    PB-12 of the module's specification.

    Examples
    --------
    >>> spend_by_rate([1.5, 1.6]).round(4)
    array([0.043 , 0.0473])
    """
    rates, cost = finite_array("lams", lams, ndim=1), finite_array("c", c, ndim=1)
    if not (rates > 0).all():
        raise ValueError(f"lams must be > 0, got {rates.min():g}: at 0 refining is free")

    def spend(lam: float) -> float:
        found = (
            optimal_value(m, nu, lam * cost, grid=grid)
            if policy == "optimal"
            else evaluate_policy(policy, m, nu, lam * cost, grid=grid)
        )
        return found.spend / lam

    return np.array([spend(float(lam)) for lam in rates])


_matrix = functools.cache(classifier_matrix)
