"""Fit a router to a matrix of scores: cross-fitted estimates, value of refining, calibration report."""

import dataclasses
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, integer, one_of
from porism.errors import NumericalWarning
from porism.results import Result
from porism.theory.pandora._calibration import above_cap, build
from porism.theory.pandora._estimators import Custom, assign_folds, cross_fitted, estimator
from porism.theory.pandora._inputs import money, specialist_names, to_numpy
from porism.theory.pandora._moments import FEW, binned, moments, spreads
from porism.theory.pandora.report import CalibrationReport

__all__ = ["FittedRouter", "fit_router"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class FittedRouter(Result):
    """What routing needs to know about specialists, estimated out of fold.

    Parameters
    ----------
    names : tuple of str
        Specialists.
    m_hat, q_hat : float array, shape (n, K)
        Cheap and refined estimates of the rows it was fitted to, out of fold.
    nu : float array, shape (K,)
        Standard deviation of the refined mean before refining, from ``Cov(q - m, V - m)``.
    s, tau : float array, shape (K,)
        Standard deviation of the value given the cheap estimate, and of the noise of a signal that would give
        this nu (``tau^2 = s^4/nu^2 - s^2``; infinite where nu is 0).
    A, B : float array, shape (K, K)
        Innovation form ``E[r r']`` and ``E[(V - m) r']`` with ``r = q - m``; A is positive semidefinite.
    report : CalibrationReport
        Predicted against realised values, and flags.
    returns : {"gaussian", "binary"}
        Law of values.
    dependence : {"joint", "independent"}
        Whether routing uses A and B or nu alone.
    folds : int array, shape (n,)
        Fold of each row.
    nu_edges, nu_table : float array, optional
        Inner edges (bins - 1, K) of the bins of m and nu in each, shape (bins, K).
    cheap_model, refined_model : object, optional
        Estimators fitted to all rows; None where arrays of estimates were given.
    """

    names: tuple[str, ...]
    m_hat: Floats
    q_hat: Floats
    nu: Floats
    s: Floats
    tau: Floats
    A: Floats
    B: Floats
    report: CalibrationReport
    returns: str
    dependence: str
    folds: NDArray[np.int64]
    nu_edges: Floats | None = None
    nu_table: Floats | None = None
    cheap_model: Any = None
    refined_model: Any = None

    @property
    def innovation(self) -> tuple[Floats, Floats]:
        """The pair (A, B) that `route_batch` takes.

        Returns
        -------
        tuple of two float arrays, shape (K, K)
            Second moments of the innovations, and of values with them.
        """
        return self.A, self.B

    def nu_at(self, m: Any) -> Floats:
        """Look nu up for given cheap estimates.

        Parameters
        ----------
        m : float array, shape (..., K)
            Cheap estimates.

        Returns
        -------
        float array, shape (..., K)
            The nu of the bin of each estimate; the pooled nu where no bins were fitted.

        Raises
        ------
        ValueError
            If m has not one column a specialist.
        """
        m = np.asarray(m, float)
        if m.shape[-1:] != self.nu.shape:
            raise ValueError(f"m must have {len(self.nu)} columns, one a specialist, got shape {m.shape}")
        return _looked_up(m, self.nu, self.nu_edges, self.nu_table)

    def cheap(self, features: Any) -> Floats:
        """Estimate values of new queries cheaply.

        Parameters
        ----------
        features : float array, shape (n, p) or (p,)
            Features of the cheap estimator; where arrays of estimates were given to `fit_router`, the K cheap
            estimates themselves.

        Returns
        -------
        float array, shape (n, K) or (K,)
            Posterior means.

        Raises
        ------
        ValueError
            If the number of columns is not the one fitted to.
        """
        return self._estimate("cheap", self.cheap_model, features)

    def refined(self, features: Any) -> Floats:
        """Estimate values of new queries with the expensive estimator.

        Parameters
        ----------
        features : float array, shape (n, p) or (p,)
            Features of the expensive estimator, or the K refined estimates themselves.

        Returns
        -------
        float array, shape (n, K) or (K,)
            Refined means.
        """
        return self._estimate("refined", self.refined_model, features)

    def _estimate(self, kind: str, model: Any, features: Any) -> Floats:
        name = f"{kind} estimates" if model is None else "features"
        X = finite_array(name, features)
        width = len(self.names) if model is None else model.width
        if X.ndim not in (1, 2) or X.shape[-1] != width:
            meaning = "one estimate a specialist" if model is None else "the columns of the fit"
            raise ValueError(f"{name} must have {width} columns, {meaning}, got shape {X.shape}")
        out = X if model is None else model.predict(np.atleast_2d(X)).reshape(*X.shape[:-1], -1)
        return np.clip(out, 0.0, 1.0) if self.returns == "binary" else out

    def check_savable(self) -> None:
        """Refuse what no plain file can hold.

        Raises
        ------
        TypeError
            If an estimator is a user's own regressor.
        """
        for model in (self.cheap_model, self.refined_model):
            if isinstance(model, Custom):
                raise TypeError(
                    f"a router with the regressor {type(model.regressor).__name__} cannot be saved without "
                    "pickle; fit with 'ridge', 'knn' or 'trees', or give arrays of its out-of-fold estimates"
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the router to one npz file without pickle.

        Parameters
        ----------
        path : path
            File to create or replace, whole or not at all.

        Raises
        ------
        TypeError
            If an estimator is a user's own regressor, which no plain file can hold.
        """
        self.check_savable()
        super().save(path)

    def __repr__(self) -> str:
        return (
            f"FittedRouter({len(self.names)} specialists, {len(self.m_hat)} queries, {self.returns}, "
            f"{self.dependence})\n{self.report.summary()}"
        )


def fit_router(
    scores: Any,
    cheap: Any = None,
    refined: Any = None,
    features: Any = None,
    folds: int = 5,
    groups: Any = None,
    returns: str = "gaussian",
    dependence: str = "joint",
    seed: int = 0,
    *,
    cheap_features: Any = None,
    mask: Any = None,
    names: Sequence[str] | None = None,
    nu_bins: int | None = None,
    costs: Any = None,
    estimator_seed: int | None = None,
    progress: bool = False,
) -> FittedRouter:
    """Learn from a matrix of scores how much a refined estimate is worth.

    With cheap estimates m and refined ones q, both out of fold: ``nu_k^2 = Cov(q_k - m_k, V_k - m_k)``, which
    needs no noise level, and ``A = E[r r']``, ``B = E[(V - m) r']`` for ``r = q - m``.

    Parameters
    ----------
    scores : float array, shape (n, K)
        Realised value of each specialist on each query, in quality units.
    cheap, refined : float array (n, K), or {"ridge", "knn", "trees"}, or scikit-learn regressor, optional
        Estimates made without these scores, taken as they are, or an estimator to cross-fit on the features.
        "ridge" and "trees" where features are given and nothing else.
    features : float array, shape (n, p), optional
        Features of the queries. With two arrays of estimates they only serve to notice in-sample estimates.
    folds : int
        Folds of cross-fitting, at least 2.
    groups : array, shape (n,), optional
        Rows of one group (such as duplicates of a prompt) stay in one fold.
    returns : {"gaussian", "binary"}
        Law of values; "binary" needs scores in [0, 1].
    dependence : {"joint", "independent"}
        Whether routing shall update specialists jointly.
    seed : int
        Seed of folds, and of estimators where they have none of their own.
    cheap_features : float array, shape (n, p0), optional
        Features of the cheap estimator, if not those of the expensive one.
    mask : bool array, shape (n, K), optional
        True where a score is known. Unknown scores are replaced by the mean of their column for training
        and left out of every statistic.
    names : sequence of str, optional
        Names of specialists, all different and none of them "outside". By default the columns of a data frame
        of scores where all are str, else "specialist 0" and so on.
    nu_bins : int, optional
        Let nu depend on m through this many quantile bins.
    costs : float array, shape (K,), optional
        Costs of refining in value units, >= 0, for the flag ``refinement_never_pays``.
    estimator_seed : int, optional
        Seed of named estimators (the forest), to compare several on the same folds; `seed` by default. A
        regressor brings its own.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    FittedRouter
        Estimates, moments and the calibration report.

    Raises
    ------
    ValueError
        If scores hold NaN without a mask, shapes differ, two names agree, refined estimates come without
        cheap ones, binary scores leave [0, 1], or there are fewer rows or groups than folds.
    MissingExtraError
        If "trees" or a regressor is asked for and scikit-learn is not installed.

    Warns
    -----
    NumericalWarning
        With fewer than 30 rows a fold (one nu for all specialists, no bins), with one specialist, and where
        estimates seem to have seen the scores: residual variance below half of that of held-out estimates.

    Notes
    -----
    Cost: one fit a fold and estimator, and one to all rows; O(n K^2) for the moments. A is raised by
    1e-8 tr(A)/K on its diagonal and projected to the positive semidefinite matrices. Estimated nu^2 below 0
    becomes 0, nu >= s is clipped to s (1 - 1e-9); both are flagged.

    References
    ----------
    Our reconstruction; the covariance form follows from E[q - m | q] = E[V - m | q] for calibrated q.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> m = rng.normal(size=(2000, 3))
    >>> q = m + 0.5 * rng.normal(size=(2000, 3))
    >>> fitted = fit_router(q + 0.3 * rng.normal(size=(2000, 3)), cheap=m, refined=q)
    >>> fitted.nu.round(1).tolist(), fitted.report.flags
    ([0.5, 0.5, 0.5], ())
    """
    one_of("returns", returns, ("gaussian", "binary"))
    one_of("dependence", dependence, ("joint", "independent"))
    y, known = _scores(scores, mask, returns)
    n, K = y.shape
    if n < 2:
        raise ValueError(f"scores must have at least 2 rows, got {n}; a router is fitted to many queries")
    integer("folds", folds, low=2, high=n)
    if nu_bins is not None:
        integer("nu_bins", nu_bins, low=1)
    if names is None:
        columns = list(getattr(scores, "columns", ()))  # of a data frame
        named = len(columns) == K and all(isinstance(column, str) for column in columns)
        names = columns if named else [f"specialist {k}" for k in range(K)]
    labels = specialist_names(names, K)
    cost = None if costs is None else money(costs, 0.0, 1.0, K)[0]
    fold = assign_folds(n, folds, groups, integer("seed", seed, low=0))
    inner = seed if estimator_seed is None else integer("estimator_seed", estimator_seed, low=0)
    wide = _features("features", features, n)
    narrow = _features("cheap_features", cheap_features, n)
    narrow = wide if narrow is None else narrow
    if cheap is None and narrow is None:
        if refined is not None:
            raise ValueError("refined estimates need the cheap ones (cheap= or features=)")
        raise ValueError(
            "cheap estimates are missing: pass cheap= (an array, or an estimator with features=)"
        )
    if refined is None and wide is None:
        raise ValueError(
            "refined estimates are missing: pass refined= (an array), or features= to estimate from"
        )

    flags: list[str] = []
    bar = None
    if progress:
        from tqdm import tqdm

        bar = tqdm(total=2, desc="cross-fitting", leave=False)
    made, held_out = [], None
    for name, given, X, default in (("cheap", cheap, narrow, "ridge"), ("refined", refined, wide, "trees")):
        values, model = _estimates(name, default if given is None else given, X, y, fold, inner)
        made.append((values, model))
        if model is None and wide is not None and held_out is None:
            held_out = cross_fitted(estimator("features", "trees"), wide, y, fold, inner)
        if model is None and held_out is not None and _seen(values, held_out, y, known):
            flags.append("in_sample")
            warnings.warn(
                f"{name} estimates seem to be in-sample: their residual variance is below half of that of "
                "held-out estimates from the same features; estimate rows by a model that has not seen them",
                NumericalWarning,
                stacklevel=2,
            )
        if bar is not None:
            bar.update()
    if bar is not None:
        bar.close()
    (m, cheap_model), (q, refined_model) = made
    if returns == "binary":
        m, q = np.clip(m, 0.0, 1.0), np.clip(q, 0.0, 1.0)

    smallest = int(np.bincount(fold).min())
    few = smallest < FEW
    if few:
        flags.append("few_rows")
        warnings.warn(
            f"the smallest fold has {smallest} rows, fewer than {FEW}: one nu is estimated for all "
            "specialists; give more queries or fewer folds",
            NumericalWarning,
            stacklevel=2,
        )
    if K == 1:
        warnings.warn("one specialist: refinement cannot change the choice", NumericalWarning, stacklevel=2)
    r, e = np.where(known, q - m, 0.0), np.where(known, y - m, 0.0)
    nu, s, tau, found = spreads(r, e, known, pooled=few)
    flags += found
    table, edges = binned(r, e, m, known, nu, nu_bins) if nu_bins and not few else (None, None)
    A, B = moments(r, e, known)
    if cost is not None and (cost >= nu / np.sqrt(2 * np.pi)).all():
        flags.append("refinement_never_pays")
    joint = np.empty_like(m)
    for f in np.unique(fold):
        held = fold == f
        a, b = moments(r[~held], e[~held], known[~held])
        joint[held] = m[held] + (q - m)[held] @ np.linalg.pinv(a, hermitian=True) @ b.T
    report = build(labels, y, known, m, q, joint, nu, flags)
    if returns == "gaussian" and np.isin(y[known], (0, 1)).all():
        gains_above = above_cap(m, _looked_up(m, nu, edges, table))
        report = dataclasses.replace(report, above_cap=gains_above)
    return FittedRouter(
        labels,
        m,
        q,
        nu,
        s,
        tau,
        A,
        B,
        report,
        returns,
        dependence,
        fold,
        edges,
        table,
        cheap_model,
        refined_model,
    )


def _looked_up(m: Floats, nu: Floats, edges: Floats | None, table: Floats | None) -> Floats:
    if table is None or edges is None:
        return np.broadcast_to(nu, m.shape)
    bins = (m[..., None, :] >= edges).sum(-2)
    return np.take_along_axis(table, bins.reshape(-1, m.shape[-1]), 0).reshape(m.shape)


def _scores(scores: Any, mask: Any, returns: str) -> tuple[Floats, Bools]:
    y = to_numpy("scores", scores)
    if y.ndim != 2 or not len(y):
        raise ValueError(f"scores must have shape (n, K), one row a query, got {y.shape}")
    if not y.shape[1]:
        raise ValueError("need at least 1 specialist: scores has no column")
    if mask is None:
        missing = int(np.isnan(y).sum())
        if missing:
            raise ValueError(f"scores contain NaN at {missing} entries; pass mask= or drop")
        known = np.ones(y.shape, bool)
    else:
        known = np.asarray(mask)
        if known.shape != y.shape or known.dtype != bool:
            raise ValueError(
                f"mask must be a bool array of the shape of scores {y.shape}, got {known.dtype} {known.shape}"
            )
        if np.isnan(y[known]).any():
            raise ValueError(
                f"scores contain NaN at {int(np.isnan(y[known]).sum())} entries that mask calls known"
            )
        if not known.any(0).all():
            raise ValueError(
                f"mask leaves specialist {int(known.any(0).argmin())} without a score; drop its column"
            )
    if np.isinf(y[known]).any():
        raise ValueError("scores must be finite, got infinity; drop these entries with mask=")
    if returns == "binary" and (y[known].min() < 0 or y[known].max() > 1):
        raise ValueError(
            f"returns='binary' needs scores in [0, 1], got [{y[known].min():g}, {y[known].max():g}]; "
            "use returns='gaussian'"
        )
    means = np.where(known, y, 0.0).sum(0) / known.sum(0)
    return np.where(known, y, means), known


def _features(name: str, value: Any, n: int) -> Floats | None:
    if value is None:
        return None
    X = finite_array(name, value, ndim=2)
    if len(X) != n:
        raise ValueError(f"{name} must have a row for each of the {n} queries of scores, got shape {X.shape}")
    return X


def _estimates(
    name: str, choice: Any, X: Floats | None, y: Floats, fold: Any, seed: int
) -> tuple[Floats, Any]:
    if isinstance(choice, str) or hasattr(choice, "predict"):
        kind = estimator(name, choice)
        if X is None:
            raise ValueError(f"{name}={choice!r} is an estimator and needs features=")
        return cross_fitted(kind, X, y, fold, seed), kind.fit(X, y, seed=seed)
    values = finite_array(name, choice, ndim=2)
    if values.shape != y.shape:
        raise ValueError(f"{name} must have the shape of scores {y.shape}, got {values.shape}")
    return values, None


def _seen(values: Floats, held_out: Floats, y: Floats, known: Bools) -> bool:
    """Whether estimates fit the scores far better than held-out ones do."""
    return bool(np.var((y - values)[known]) < 0.5 * np.var((y - held_out)[known]))
