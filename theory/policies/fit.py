"""Coefficients of a combination from values of its reward at a few outcomes."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, not_negative, one_of, positive
from porism.errors import AssumptionError, NumericalWarning, UndecidedError
from porism.results import Result
from porism.theory.policies import _inputs, _moment
from porism.theory.policies.bounds import TiltCertificate, _from_oscillation

__all__ = ["METHODS", "TiltFit", "TiltedExperts", "fit_coefficients"]

Floats = NDArray[np.float64]

METHODS = ("least_squares", "moment")
"""Closest in log-ratio at the sampled outcomes; closest in KL, which needs all outcomes."""

FAINT = 400.0
"""Sampled outcomes fainter than e^-400 of the likeliest one weigh as much as that."""


@dataclasses.dataclass(frozen=True, eq=False)
class TiltFit(Result):
    """Coefficients of a combination of experts, and what the sample says about them.

    Parameters
    ----------
    coefficients : float64 array, shape (K,)
        Coefficients a; the shortest where they are not unique.
    intercept : float
        Constant of the log-ratio ``r / beta``, nats.
    rank : int
        Rank of the sampled log-ratios with a column of ones, in 1..K + 1.
    identifiable : bool
        Whether the sample determines the coefficients.
    prediction_identifiable : bool
        Whether it determines the policy, which it may without the coefficients.
    residual_oscillation : float
        Max less min of the residual at the samples, nats: of the reward, divided by beta.
    covers : bool
        Whether the sample holds every outcome of the support.
    beta : float
        Temperature of the policy wanted.
    method : {"least_squares", "moment"}
        How it was fitted.
    log_ref : float64 array, shape (V,)
        Log-probabilities of the reference.
    log_experts : float64 array, shape (K, V)
        Log-probabilities of the experts.
    samples : int64 array, shape (n,)
        Outcomes sampled.

    Examples
    --------
    >>> ref = np.log([0.25, 0.25, 0.5])
    >>> fit = fit_coefficients(ref, [ref + [0, 1, 2] - np.log(0.25 + 0.25 * np.e + 0.5 * np.e**2)],
    ...                        target=[0.0, 3.0], samples=[0, 1], beta=1.0)
    >>> fit.coefficients.round(12), fit.identifiable
    (array([3.]), True)
    """

    coefficients: Floats
    intercept: float
    rank: int
    identifiable: bool
    prediction_identifiable: bool
    residual_oscillation: float
    covers: bool
    beta: float
    method: str
    log_ref: Floats
    log_experts: Floats
    samples: NDArray[np.int64]

    def _gain(self) -> float:
        """Largest change of a log-ratio, up to a constant, when every sampled one moves by at most one."""
        experts = TiltedExperts(self.log_ref, self.log_experts)
        L, place = experts._L, experts._place[self.samples]
        rows, log_weight = L[place], self.log_ref[self.samples]
        basis = _row_space(rows, self.rank)
        scale = np.exp(np.maximum(log_weight - log_weight.max(), -FAINT) / 2)
        matrix = np.column_stack([rows @ basis, np.ones(len(rows))]) * scale[:, None]
        M = basis @ (np.linalg.pinv(matrix, rcond=1e-14)[:-1] * scale)
        blocks = range(0, len(L), 4096)
        return max(float(np.abs(L[start : start + 4096] @ M).sum(axis=1).max()) for start in blocks)

    def predict(self) -> Floats:
        """Predict the optimal policy of the reward that was sampled.

        Returns
        -------
        float64 array, shape (V,)
            Log-probabilities, exact if the reward lies in the span of the experts' rewards and a constant.

        Raises
        ------
        UndecidedError
            If several policies agree with the sample.
        """
        if not self.prediction_identifiable:
            raise UndecidedError(
                f"several policies agree with the sample, which has rank {self.rank}; sample more outcomes"
            )
        return _inputs.combined(self.log_ref, self.log_experts, self.coefficients)

    def certificate(self, oscillation: float | None = None, distance: float | None = None) -> TiltCertificate:
        """Bound the error of the prediction (PO-5).

        Parameters
        ----------
        oscillation : float, optional
            Bound on max less min of the residual over the *whole* support, nats: from a bound on the reward
            outside the span, divided by beta. Not needed where the sample covers the support.
        distance : float, optional
            In its place, for least squares: how far the reward may be, at any outcome, from *some*
            combination of the experts' rewards and a constant, in the unit of the reward, >= 0. The
            oscillation is then at most ``2 (distance / beta) (1 + max_x |L_x M|_1)``, where M maps sampled
            log-ratios to coefficients.

        Returns
        -------
        TiltCertificate
            Upper bounds.

        Raises
        ------
        AssumptionError
            If the residual is known at a part of the support only and no bound is given: its oscillation
            there is a lower estimate.
        UndecidedError
            If several policies agree with the sample.
        ValueError
            If the bound is below what was seen, both bounds are given, or one is negative.

        Notes
        -----
        ``distance`` costs O(V n K); more samples, or more spread ones, make M smaller.
        """
        if not self.prediction_identifiable:
            raise UndecidedError(
                "several policies agree with the sample; there is no one prediction to bound"
            )
        seen = self.residual_oscillation
        if distance is not None:
            if oscillation is not None or self.method != "least_squares":
                raise ValueError("distance must stand alone, with least squares; drop it or oscillation")
            far = not_negative("distance", distance)
            bound = 2 * far / self.beta * (1 + self._gain())
            if bound < seen * (1 - 1e-9) - 1e-12:  # rounding of a fit without residual
                raise ValueError(
                    f"distance must explain the sample, whose residual oscillates by {seen:.6g} nats, more "
                    f"than {bound:.6g}; raise it"
                )
        elif oscillation is not None:
            bound = float(finite_array("oscillation", oscillation, 0))
            if bound < seen:
                raise ValueError(
                    f"oscillation must be >= {seen:.6g}, seen in the sample, got {bound:.6g}; cover all of it"
                )
        elif self.covers:
            bound = seen
        else:
            raise AssumptionError(
                f"the residual is known at sampled outcomes only, where it oscillates by {seen:.3g}; "
                "pass oscillation=, a bound in nats for all outcomes"
            )
        return _from_oscillation(max(bound, seen), self.beta)


def fit_coefficients(
    log_ref: ArrayLike,
    log_experts: ArrayLike,
    target: ArrayLike,
    samples: Any,
    beta: float,
    method: str = "least_squares",
) -> TiltFit:
    """Find the coefficients of a new reward from its values at a few outcomes (PO-3, PO-6).

    Least squares: ``min_(a, b) sum_s pi0_s (r_s / beta - a L_s - b)^2`` with ``L = log pi_k - log pi0``.
    Moment: ``min_a KL(pi || pi_a)``, whose solution has the means of L that the target has.

    Parameters
    ----------
    log_ref : array_like, shape (V,)
        Log-probabilities of the reference pi0.
    log_experts : array_like, shape (K, V)
        Log-probabilities of the experts, tilted from pi0.
    target : array_like, shape (n,)
        Values of the new reward at the samples.
    samples : int array_like, shape (n,)
        Outcomes sampled, in 0..V - 1, within the support of pi0, repeats allowed.
    beta : float
        Temperature of the policy wanted, > 0, in the unit of the reward.
    method : {"least_squares", "moment"}, default "least_squares"
        They agree, up to rounding, for rewards in the span; outside it "moment" is the closest policy in KL.

    Returns
    -------
    TiltFit
        Coefficients; `predict` gives the policy.

    Raises
    ------
    AssumptionError
        If no finite coefficients match the moments.
    TypeError
        If samples are no ints.
    ValueError
        If beta is not positive, a sample or an expert leaves the support, a row is not normalised, a reward
        is not finite, or "moment" is asked of a sample that does not cover the support.

    Warns
    -----
    NumericalWarning
        If the sample does not determine the coefficients.

    Notes
    -----
    Unique coefficients need rank K + 1 of the sampled rows ``[L_s, 1]``, counted without weights at
    ``max(n, K + 1) eps`` times their largest singular value, or the largest logarithm at the samples, whose
    rounding is in them. With redundant experts the prediction is unique as soon as that rank is the rank over
    all outcomes.
    Rows are solved in order of weight by QR with column pivoting. Cost O((n + V) K^2); "moment" O(V K^2) a
    Newton step, some ten of them.

    References
    ----------
    PoEM (abstract); our reconstruction. Cox and Higham (1998), "Stability of Householder QR factorization for
    weighted least squares problems", for the order of rows.

    Examples
    --------
    >>> from porism.theory.policies import tilt
    >>> ref = np.log([0.4, 0.3, 0.2, 0.1])
    >>> experts = tilt(ref, [[1, 0, 2, 0], [0, 1, -1, 3]], [0.5, 2])
    >>> fit = fit_coefficients(ref, experts, target=[7.6, 6.6, 5.8], samples=[0, 1, 3], beta=1.5)
    >>> fit.coefficients.round(6)
    array([ 0.2     , -0.533333])
    """
    return TiltedExperts(np.asarray(log_ref), np.asarray(log_experts))._fit(target, samples, beta, method)


@dataclasses.dataclass(frozen=True, eq=False)
class TiltedExperts(Result):
    """A reference and its experts, checked once for many rewards to come.

    Parameters
    ----------
    log_ref : array_like, shape (V,)
        Log-probabilities of the reference pi0.
    log_experts : array_like, shape (K, V)
        Log-probabilities of the experts, tilted from pi0, with its support.

    Examples
    --------
    >>> from porism.theory.policies import tilt
    >>> ref = np.log([0.4, 0.3, 0.2, 0.1])
    >>> experts = TiltedExperts(ref, tilt(ref, [[1, 0, 2, 0]], 0.5))
    >>> experts.fit([2.0, 1.0], [0, 1], beta=1.0).coefficients.round(12).tolist()
    [0.5]
    """

    log_ref: Floats
    log_experts: Floats
    _on: NDArray[np.bool_] = dataclasses.field(init=False, repr=False)
    _place: NDArray[np.int64] = dataclasses.field(init=False, repr=False)
    _weight: Floats = dataclasses.field(init=False, repr=False)
    _L: Floats = dataclasses.field(init=False, repr=False)
    _size: Floats = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        ref = _inputs.log_policy("log_ref", self.log_ref)
        experts = _inputs.log_policies("log_experts", self.log_experts, ref)
        on = np.isfinite(ref)
        log_on, inside = (ref, experts) if on.all() else (ref[on], experts[:, on])
        weight = np.exp(log_on)
        ratios = inside - log_on
        centre = ratios @ weight / weight.sum()
        derived = {
            "log_ref": ref,
            "log_experts": experts,
            "_on": on,
            "_place": np.cumsum(on) - 1,
            "_weight": weight,
            "_L": np.ascontiguousarray((ratios - centre[:, None]).T),  # samples pick rows
            "_size": -np.minimum(log_on, inside.min(axis=0, initial=0.0)),  # largest logarithm, by outcome
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def fit(self, target: ArrayLike, samples: Any, beta: float, method: str = "least_squares") -> TiltFit:
        """Find the coefficients of a new reward from a few of its values, as `fit_coefficients` does.

        Parameters
        ----------
        target : array_like, shape (n,)
            Values of the new reward at the samples.
        samples : int array_like, shape (n,)
            Outcomes sampled, repeats allowed.
        beta : float
            Temperature of the policy wanted, > 0.
        method : {"least_squares", "moment"}, default "least_squares"
            As for `fit_coefficients`.

        Returns
        -------
        TiltFit
            Coefficients; `predict` gives the policy.

        Raises
        ------
        AssumptionError, TypeError, ValueError
            As `fit_coefficients`.
        """
        return self._fit(target, samples, beta, method)

    def _fit(self, target: ArrayLike, samples: Any, beta: float, method: str) -> TiltFit:
        """Both public ways lead here, so that a warning points at the line of their caller."""
        L, weight, on = self._L, self._weight, self._on
        reward = finite_array("target", target, 1)
        picked = _inputs.indices("samples", samples, len(on))
        temperature = positive("beta", beta)
        one_of("method", method, METHODS)
        if len(picked) != len(reward) or not len(picked):
            raise ValueError(
                f"target and samples must have one length >= 1, got {len(reward)} and {len(picked)}"
            )
        if not on[picked].all():
            bad = int(picked[~on[picked]][0])
            raise ValueError(
                f"samples must lie in the support of log_ref, got outcome {bad} outside; leave it out"
            )
        covers = len(picked) >= len(L) and len(np.unique(picked)) == len(L)
        if method == "moment" and not covers:
            raise ValueError(
                f"samples must cover the support for method='moment', got {len(np.unique(picked))} of "
                f"{len(L)} outcomes; use 'least_squares'"
            )
        place, ratio = self._place[picked], _inputs.scaled(reward, temperature)
        rows, K = L[place], L.shape[1]
        matrix = np.column_stack([rows, np.ones(len(rows))])
        rank = _rank(matrix, self._size[place])
        basis = _row_space(rows, rank)
        if method == "moment":
            mean = np.bincount(place, ratio, len(L)) / np.bincount(place, minlength=len(L))
            log_on = self.log_ref[on]
            features = (L @ basis).T
            goal = features @ np.exp(_inputs.normalise(log_on + mean))
            a = basis @ (_moment.match(log_on, features, goal) if rank > 1 else np.zeros(0))
            intercept = float(weight @ (mean - L @ a) / weight.sum())
        else:
            if rank <= K:
                matrix = np.column_stack([rows @ basis, matrix[:, -1]])
            y = _weighted(matrix, ratio, self.log_ref[picked])
            a, intercept = basis @ y[:-1], float(y[-1])
        identifiable = rank == K + 1
        whole = identifiable or rank >= _rank(np.column_stack([L, np.ones(len(L))]), self._size)
        if not identifiable:
            warnings.warn(
                f"the sample has rank {rank}, unique coefficients need {K + 1}; the prediction is "
                + ("unique all the same" if whole else "not unique either: sample more outcomes"),
                NumericalWarning,
                stacklevel=3,
            )
        return TiltFit(
            coefficients=np.asarray(a),
            intercept=intercept,
            rank=rank,
            identifiable=identifiable,
            prediction_identifiable=whole,
            residual_oscillation=float(np.ptp(ratio - rows @ a - intercept)),
            covers=covers,
            beta=temperature,
            method=method,
            log_ref=self.log_ref,
            log_experts=self.log_experts,
            samples=picked,
        )


def _rank(matrix: Floats, sizes: Floats) -> int:
    """Rank of ``[rows, 1]``; differences of logarithms carry the rounding of the larger ones."""
    n, width = matrix.shape
    if n > 30 * width:
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
    s = np.linalg.svd(matrix, compute_uv=False)
    least = max(n, width) * np.finfo(np.float64).eps * max(s[0], sizes.max())
    return max(1, int(np.count_nonzero(s > least)))  # the column of ones is exact


def _row_space(rows: Floats, rank: int) -> Floats:
    """Directions in which coefficients matter, shape (K, rank - 1): the shortest ones lie there."""
    if rank == rows.shape[1] + 1:
        return np.eye(rows.shape[1])
    return np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][: rank - 1].T


def _weighted(matrix: Floats, values: Floats, log_weight: Floats) -> Floats:
    """Solution of a full-rank weighted least-squares problem: rows by weight, QR with column pivoting."""
    from scipy.linalg import lapack  # scipy.linalg.qr takes longer to check small matrices than to solve them

    order = np.argsort(-log_weight, kind="stable")
    scale = np.exp(np.maximum(log_weight[order] - log_weight.max(), -FAINT) / 2)
    width = matrix.shape[1]
    qr, pivots, tau, _, failed = lapack.dgeqp3(matrix[order] * scale[:, None])
    turned, _, wrong = lapack.dormqr("L", "T", qr, tau, (values[order] * scale)[:, None], 32)
    solved, bad = lapack.dtrtrs(qr[:width], turned[:width])
    if failed or wrong or bad:  # pragma: no cover
        raise np.linalg.LinAlgError("the weighted least-squares problem is singular")
    found = np.empty(width)
    found[pivots - 1] = solved[:, 0]
    return found
