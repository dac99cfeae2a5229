"""The alignment coefficient rho: how much of the class signal a principal subspace of the features holds."""

import dataclasses
import math
import warnings
from typing import Any

import numpy as np

from porism import checks
from porism.errors import NumericalWarning
from porism.results import Result
from porism.theory.alignment import _estimators, _inputs, _pca

__all__ = ["AlignmentResult", "alignment_coefficient"]

_IGNORED = -100  # the label that torch's losses skip
_FLAT = "the features have no variance"
_DETECTED = 2.0


@dataclasses.dataclass(frozen=True, eq=False)
class AlignmentResult(Result):
    """Alignment of a subspace of dimension r in R^d with the class means of n rows.

    Parameters
    ----------
    rho : float
        ``(captured - r/d) / (1 - r/d)``: 0 for a random subspace, 1 where all is captured; NaN with `reason`.
    captured : float
        Share of the between-class scatter in the subspace, clipped to [0, 1].
    captured_unclipped : float
        The unclipped estimate, centre of the interval before clipping.
    enrichment : float
        ``captured d / r``, 1 for a random subspace.
    signal_z : float
        Debiased total scatter over its jackknife error; NaN where a class is too small for one.
    signal_detected : bool
        Whether `signal_z` is at least 2; if not, rho is mostly noise.
    ci_low, ci_high : float
        95 % interval on the scale of `captured`; NaN unless asked for.
    predicted_gain : float
        Held-out accuracy of the projected-centroid classifier less that on random subspaces, in [-1, 1].
    n, d, r : int
        Rows used, features, dimension of the subspace.
    estimator : str
        How it was estimated.
    n_ignored : int, default 0
        Rows left out, whose label is -100.
    n_random : int, default 0
        Largest number of directions of an estimated subspace that the features did not determine.
    reason : str, default ""
        Why rho is NaN; empty otherwise.

    Examples
    --------
    >>> x = [[3, 1, 0], [1, -1, 2], [-2, 0, 1], [-2, 2, -1]]
    >>> alignment_coefficient(x, [0, 0, 1, 1], 1, basis=[[1, 0, 0]]).captured
    1.0
    """

    rho: float
    captured: float
    captured_unclipped: float
    enrichment: float
    signal_z: float
    signal_detected: bool
    ci_low: float
    ci_high: float
    predicted_gain: float
    n: int
    d: int
    r: int
    estimator: str
    n_ignored: int = 0
    n_random: int = 0
    reason: str = ""


def alignment_coefficient(
    x: Any,
    y: Any,
    r: int,
    *,
    basis: Any = None,
    estimator: str = "crossfit",
    weights: str = "share",
    repeats: int = 2,
    ci: bool = False,
    random_state: np.random.Generator | int | None = None,
    on_degenerate: str = "warn",
    input_eps: float | None = None,
) -> AlignmentResult:
    """Estimate how much of the class signal a principal subspace holds (DK-17; our reconstruction).

    ``captured = tr(P S) / tr(S)`` with the between-class scatter ``S = sum_c w_c (m_c - m)(m_c - m)'`` and
    the projector P on the r leading principal directions, and ``rho = (captured - r/d) / (1 - r/d)``.

    Parameters
    ----------
    x : array_like or torch tensor of shape (n, d)
        Feature rows, one a sample, in any real type.
    y : array_like or torch tensor of shape (n,)
        Integer class labels; rows labelled -100 are left out and counted.
    r : int
        Dimension of the subspace, 1..d-1.
    basis : array_like or torch tensor of shape (r, d), optional
        Orthonormal rows: this subspace is judged instead of an estimated one, without folds.
    estimator : {"crossfit", "posterior", "permutation", "plugin"}, default "crossfit"
        ``"crossfit"``: subspace from training folds, debiased scatter of held-out rows; the number to report.
        ``"posterior"``: the same scatters as a posterior mean: smaller errors for one task of few samples, at
        the price of a prior, and no means of ranking tasks; it has neither `basis` nor interval.
        ``"permutation"``: in-sample value corrected by its mean over 200 label permutations; biased, only for
        ranking tasks of equal n, d and r. ``"plugin"``: in-sample, the exact first-step training energy.
    weights : {"share", "gradient"}, default "share"
        Weights of the classes: shares p_c, or p_c^2, the energy of the first gradient of a zero head.
    repeats : int, default 2
        Random partitions into folds, at least 1.
    ci : bool, default False
        Whether to compute the jackknife interval; for ``"crossfit"`` and at most 256 rows.
    random_state : Generator, int or None
        Draws folds, control subspaces, permutations and directions that the features leave open.
    on_degenerate : {"warn", "raise"}, default "warn"
        Whether features or class means without variation, and ranks below r, warn or raise.
    input_eps : float, optional
        Machine epsilon of the type the features were computed in, where x has been converted since.

    Returns
    -------
    AlignmentResult
        rho with captured share, signal test, interval and predicted gain.

    Raises
    ------
    TypeError
        If labels are not integers, or an argument is of the wrong kind.
    ValueError
        If values are not finite, lengths differ, there are fewer than two samples or classes, r is not in
        1..d-1, a class is too small for the estimator, the basis does not fit, or an interval is asked for
        that is not available.

    Warns
    -----
    NumericalWarning
        If rho is undefined, if random directions complete a subspace, or if an in-sample value is 1 whatever
        the labels.

    Notes
    -----
    At fixed P the debiased ``T(P)`` is the mean over pairs of different rows, unbiased for tr(PS). Cross-fit:
    each class gives ``max(2, ceil(min_c n_c / 8))`` rows to each of at most 8 folds; N = T(P) and D = T(I) of
    held-out rows, with the shares of the whole sample, are averaged, and ``captured = N+ / (N+ + (D - N)+)``.
    The result is close to unbiased from about 16 rows a class and too low below. The interval is the
    delete-one jackknife of N / T(I) with folds fixed, and conservative. rho sees class means only: a task
    that lives in covariances has rho near 0. Invariant to shift, scale and rotation of the features.

    The posterior mean is that of a / (a + b). N and T, the scatter of all rows, are taken as Gaussian around
    a and a + b, with the covariance that pairs of rows have without class differences; the prior is a, b >= 0
    flat or, with probability 1/2, a share of r/d. It is N / T where the signal is clear and near r/d where
    there is none, so that it does not run to 0 or 1 on noise.

    Cost: one eigenproblem of order min(n, d) a fold; the interval adds O(n) rational root searches of cost
    n r each a fold. Memory ``n d + n^2 r`` with the interval, ``n d`` without (``d^2`` more for n > d).

    References
    ----------
    Efron and Stein (1981), "The jackknife estimate of variance", doi:10.1214/aos/1176345462. Hoeffding
    (1948), "A class of statistics with asymptotically normal distribution", doi:10.1214/aoms/1177730196.
    Chen and Qin (2010), "A two-sample test for high-dimensional data with applications to gene-set testing",
    doi:10.1214/09-AOS716, for traces of squared covariances.
    Bunch, Nielsen and Sorensen (1978), "Rank-one modification of the symmetric eigenproblem",
    doi:10.1007/BF01396012.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(64) % 2
    >>> x = rng.standard_normal((64, 20)) + 4 * y[:, None] * np.eye(20)[0]
    >>> 0.9 < alignment_coefficient(x, y, 2, random_state=0).captured <= 1
    True
    """
    rows, eps = _inputs.features(x)
    d = rows.shape[1]
    r = _inputs.rank(r, d)
    if r == d:
        raise ValueError(
            f"rank r={r} must be below d={d}: rho is undefined for r=d (every subspace captures all)"
        )
    checks.one_of("estimator", estimator, ("crossfit", "posterior", "permutation", "plugin"))
    checks.one_of("weights", weights, ("share", "gradient"))
    checks.one_of("on_degenerate", on_degenerate, ("warn", "raise"))
    repeats = checks.integer("repeats", repeats, low=1)
    rng = checks.generator(random_state, "random_state")
    eps = eps if input_eps is None else checks.positive("input_eps", input_eps)
    labels = _inputs.labels(y, len(rows))
    kept = labels != _IGNORED
    ignored = int((~kept).sum())
    rows, labels = rows[kept], labels[kept]
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    projector = None if basis is None else _inputs.basis(basis, r, d)
    _inputs.admit(classes, counts, estimator, projector is None, ci, len(rows))
    job = _estimators.Job(rows, codes.astype(np.int64), counts, r, weights, repeats, projector, rng)
    reason, value, captured = "", math.nan, math.nan
    if _pca.has_no_variance(rows, eps):
        reason = _FLAT
    elif estimator in _inputs.FOLDED:
        value, captured = job.crossfit() if estimator == "crossfit" else job.posterior()
        if math.isnan(captured):
            reason = "no between-class scatter was found in held-out rows"
    else:
        value, captured = job.in_sample(estimator == "permutation")
        if math.isnan(captured):
            reason = job.reason
    if reason:
        _complain(f"{reason}; rho is undefined", on_degenerate)
    flat = reason == _FLAT
    z = math.nan if flat else job.signal(estimator not in _inputs.FOLDED)
    low, high = job.interval(value) if ci and not flat else (math.nan, math.nan)
    by_construction = estimator == "plugin" and job.complete and not reason
    if by_construction:
        warnings.warn("in-sample captured is 1 by construction", NumericalWarning, stacklevel=2)
    n_random = job.n_random  # before the gain, whose subspaces an in-sample value does not use
    gain = math.nan if flat else job.predicted_gain()
    if n_random and not by_construction:
        _complain(
            f"a subspace of dimension r={r} needed {n_random} random directions: too few rows vary",
            on_degenerate,
        )
    share = r / d
    return AlignmentResult(
        rho=(captured - share) / (1 - share),
        captured=captured,
        captured_unclipped=value,
        enrichment=captured / share,
        signal_z=z,
        signal_detected=bool(z >= _DETECTED) and not by_construction and not reason,
        ci_low=low,
        ci_high=high,
        predicted_gain=gain,
        n=len(rows),
        d=d,
        r=r,
        estimator=estimator,
        n_ignored=ignored,
        n_random=n_random,
        reason=reason,
    )


def _complain(text: str, on_degenerate: str) -> None:
    if on_degenerate == "raise":
        raise ValueError(text)
    warnings.warn(text, NumericalWarning, stacklevel=3)
