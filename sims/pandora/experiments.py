"""Experiments on score matrices, as figures and benchmarks call them."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.pandora._paired import same_shape
from porism.sims.pandora.matrix import ScoreMatrix
from porism.sims.pandora.refinement import RefinementCurve
from porism.theory.pandora import FittedRouter, Routes, baselines, fit_router, route_batch
from porism.theory.pandora.report import standard_error

__all__ = ["COSTS", "MARGINS", "average_curves", "cross_fit", "curve_over_seeds", "refinement_curve"]

Floats = NDArray[np.float64]

COSTS = (0.001, 0.002, 0.0035, 0.004, 0.007, 0.01, 0.02, 0.04)
"""Costs of a refinement in quality units at which policies are compared."""

MARGINS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Margins of the threshold rule."""

POLICIES = ("kg", "kg_sigma", "kg_joint")
MEASURED = (
    "refinements", "quality", "gain", "gain_se", "gap", "gap_se", "share", "cheap", "exhaustive",
    "exhaustive_joint", "oracle", "single_best", "exhaustive_gain_se",
)  # fmt: skip
RULES = (*POLICIES, "threshold refined", "threshold all", "random", "random joint")


def cross_fit(
    matrix: ScoreMatrix,
    cheap: Any = "ridge",
    expensive: Any = "trees",
    *,
    folds: int = 5,
    seed: int = 0,
    forest_seed: int | None = None,
    grouped: bool = False,
    dependence: str = "joint",
) -> FittedRouter:
    """Make cheap and refined estimates of a matrix out of fold, and fit a router to them.

    Parameters
    ----------
    matrix : ScoreMatrix
        Scores with features.
    cheap, expensive : {"ridge", "knn", "trees"} or scikit-learn regressor
        Estimators on the cheap features and on all.
    folds : int, default 5
        Folds, at least 2.
    seed : int, default 0
        Seed of the folds.
    forest_seed : int, optional
        Seed of the estimators; that of the folds by default.
    grouped : bool, default False
        Keep the rows of a group in one fold.
    dependence : {"joint", "independent"}
        As in `fit_router`.

    Returns
    -------
    FittedRouter
        Estimates out of fold, and models fitted to all rows.

    Raises
    ------
    ValueError
        If the matrix has no features, or no groups where grouped.

    Notes
    -----
    Unknown scores are the mean of their column in training, and left out of every statistic.

    Examples
    --------
    >>> from porism.sims.pandora import classifier_matrix
    >>> cross_fit(classifier_matrix()).report.chosen[1].gain > 0.05  # doctest: +SKIP
    True
    """
    if matrix.features is None:
        raise ValueError("matrix must have features to estimate from; give features= to its ScoreMatrix")
    groups = matrix.groups if grouped else None
    if grouped and groups is None:
        raise ValueError("grouped=True needs a matrix with groups")
    return fit_router(
        matrix.scores,
        cheap=cheap,
        refined=expensive,
        features=matrix.features,
        cheap_features=matrix.cheap_features,
        folds=folds,
        groups=groups,
        seed=seed,
        estimator_seed=forest_seed,
        dependence=dependence,
        mask=None if matrix.known.all() else matrix.known,
        names=matrix.models,
    )


def refinement_curve(
    matrix: ScoreMatrix,
    fitted: FittedRouter,
    *,
    costs: Sequence[float] = COSTS,
    margins: Sequence[float] = MARGINS,
    picks: Sequence[int] | None = None,
    policies: Sequence[str] = RULES,
    seed: int = 0,
    progress: bool = False,
) -> RefinementCurve:
    """Route a matrix by each policy at several costs, and compare with cheap and exhaustive routing.

    Parameters
    ----------
    matrix : ScoreMatrix
        Realised scores; only queries whose scores are all known are used.
    fitted : FittedRouter
        Estimates of the same queries, out of fold, as `cross_fit` makes them.
    costs : sequence of float
        Costs of a refinement in quality units, for "kg", "kg_sigma" and "kg_joint".
    margins : sequence of float
        Margins of "threshold refined" and "threshold all".
    picks : sequence of int, optional
        Numbers of "random" and "random joint"; 1 to K - 1 by default.
    policies : sequence of str
        Which of these to run, all by default.
    seed : int, default 0
        Seed of the random rules.
    progress : bool, default False
        Show a progress bar on stderr.

    Returns
    -------
    RefinementCurve
        One row a policy and setting.

    Raises
    ------
    ValueError
        If the fit belongs to another matrix, or a policy is unknown.

    References
    ----------
    PB-18 of the module's specification.

    Examples
    --------
    >>> from porism.sims.pandora import classifier_matrix
    >>> matrix = classifier_matrix()  # doctest: +SKIP
    >>> refinement_curve(matrix, cross_fit(matrix)).refinements_for("kg_joint", 0.9) < 5  # doctest: +SKIP
    True
    """
    same_shape(matrix, fitted)
    unknown = [policy for policy in policies if policy not in RULES]
    if unknown:
        raise ValueError(f"policies must be among {', '.join(RULES)}, got {unknown[0]!r}")
    whole = matrix.known.all(1)
    y, m, q = matrix.scores[whole], fitted.m_hat[whole], fitted.q_hat[whole]
    if not len(y):
        raise ValueError("no query has all scores known: quality of a choice cannot be compared")
    nu = fitted.nu_at(m) if fitted.nu_table is not None else fitted.nu
    n, K = y.shape
    rows = np.arange(n)
    law = fitted.innovation
    picks = tuple(range(1, K)) if picks is None else tuple(picks)
    tasks: list[tuple[str, float]] = []
    for policy in policies:
        kind = costs if policy in POLICIES else margins if policy.startswith("threshold") else picks
        tasks += [(policy, float(value)) for value in kind]

    def value(routes: Routes) -> Floats:
        return y[rows, routes.choice]

    def run(policy: str, setting: float) -> Routes:
        if policy in POLICIES:
            joint = law if policy == "kg_joint" else None
            return route_batch(m, nu, setting, policy=policy, refined=q, innovation=joint)
        if policy.startswith("threshold"):
            return baselines.margin_threshold(m, q, setting, choose=policy.split()[1])
        joint = law if policy == "random joint" else None
        return baselines.random(m, q, int(setting), innovation=joint, rng=np.random.default_rng(seed))

    cheap, best = value(baselines.cheap(m)), value(baselines.exhaustive(m, q))
    total = float((best - cheap).mean())
    steps: Iterable[tuple[str, float]] = tasks
    if progress:
        from tqdm import tqdm

        steps = tqdm(tasks, desc="routing", leave=False)
    table = []
    for policy, setting in steps:
        routes = run(policy, setting)
        got = value(routes)
        gain, gap = got - cheap, got - best
        share = float(gain.mean()) / total if total else math.nan
        row = (routes.n_refine, got, gain, standard_error(gain), gap, standard_error(gap), share)
        table.append([float(np.mean(number)) for number in row])
    columns = np.array(table, float).reshape(len(tasks), 7).T
    joint_routes = baselines.random(m, q, K, innovation=law, rng=0)
    return RefinementCurve(
        policy=np.array([policy for policy, _ in tasks], str),
        setting=np.array([setting for _, setting in tasks], float),
        refinements=columns[0],
        quality=columns[1],
        gain=columns[2],
        gain_se=columns[3],
        gap=columns[4],
        gap_se=columns[5],
        share=columns[6],
        quality_sd=np.zeros(len(tasks)),
        cheap=float(cheap.mean()),
        exhaustive=float(best.mean()),
        exhaustive_joint=float(value(joint_routes).mean()),
        oracle=float(y.max(1).mean()),
        single_best=float(y.mean(0).max()),
        exhaustive_gain_se=standard_error(best - cheap),
        K=K,
        n_queries=n,
    )


def average_curves(curves: Sequence[RefinementCurve]) -> RefinementCurve:
    """Average curves of one matrix over seeds of the expensive estimator, setting by setting.

    Parameters
    ----------
    curves : sequence of RefinementCurve
        With the same policies and settings.

    Returns
    -------
    RefinementCurve
        Means, also of shares and of standard errors; `quality_sd` is the deviation of quality over seeds.

    Raises
    ------
    ValueError
        If there is none, or their rows differ.

    Examples
    --------
    >>> from porism.sims.pandora import classifier_matrix
    >>> matrix = classifier_matrix()  # doctest: +SKIP
    >>> curve = refinement_curve(matrix, cross_fit(matrix))  # doctest: +SKIP
    >>> average_curves([curve, curve]).n_seeds  # doctest: +SKIP
    2
    """
    if not curves:
        raise ValueError("curves must hold at least one curve")
    first = curves[0]
    for curve in curves:
        if not (np.array_equal(curve.policy, first.policy) and np.array_equal(curve.setting, first.setting)):
            raise ValueError(
                "curves must have the same policies and settings; run them with one list of each"
            )
    mean: dict[str, Any] = {}
    for name in MEASURED:
        average = np.mean([getattr(curve, name) for curve in curves], axis=0)
        mean[name] = float(average) if np.ndim(average) == 0 else average
    if len(curves) > 1:
        mean["quality_sd"] = np.std([curve.quality for curve in curves], axis=0, ddof=1)
    return dataclasses.replace(first, **mean, n_seeds=sum(curve.n_seeds for curve in curves))


def curve_over_seeds(
    matrix: ScoreMatrix,
    seeds: Sequence[int] = range(5),
    *,
    fold_seed: int = 0,
    folds: int = 5,
    expensive: Any = "trees",
    progress: bool = False,
    **options: Any,
) -> tuple[RefinementCurve, tuple[RefinementCurve, ...]]:
    """Run `refinement_curve` with fixed folds for several seeds of the expensive estimator.

    Parameters
    ----------
    matrix : ScoreMatrix
        Scores with features.
    seeds : sequence of int
        Seeds of the forest.
    fold_seed, folds : int
        Folds, the same for all.
    expensive : str or regressor
        As in `cross_fit`.
    progress : bool, default False
        Show a progress bar on stderr.
    **options
        For `refinement_curve`, such as ``costs=``.

    Returns
    -------
    (RefinementCurve, tuple of RefinementCurve)
        The mean, and the curve of each seed.

    Raises
    ------
    ValueError
        If there is no seed.

    Examples
    --------
    >>> from porism.sims.pandora import load_dc9
    >>> mean, curves = curve_over_seeds(load_dc9(), range(5))  # doctest: +SKIP
    """
    steps: Iterable[int] = seeds
    if progress:
        from tqdm import tqdm

        steps = tqdm(list(seeds), desc="seeds", leave=False)
    fits = (cross_fit(matrix, expensive=expensive, folds=folds, seed=fold_seed, forest_seed=s) for s in steps)
    curves = tuple(refinement_curve(matrix, fitted, **options) for fitted in fits)
    return average_curves(curves), curves
