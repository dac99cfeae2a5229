"""Tilted policies ``pi0 e^(r/beta)``: combine them for a new reward from few values, with a certificate.

Of all policies the tilt maximises ``J(pi) = E_pi r - beta KL(pi || pi0)``, and
``J(pi) = beta log Z - beta KL(pi || tilt)``: what a policy falls short in J *is* its distance.
"""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, positive
from porism.results import Result
from porism.theory.policies import _inputs
from porism.theory.policies.bounds import TiltCertificate, certificate, expert_error
from porism.theory.policies.fit import TiltedExperts, TiltFit, fit_coefficients
from porism.theory.policies.tokens import TokenMixGap, soft_values, token_mix_gap

__all__ = [
    "LogRatioSpectrum",
    "TiltCertificate",
    "TiltFit",
    "TiltedExperts",
    "TokenMixGap",
    "certificate",
    "coefficients_for",
    "combine",
    "expert_error",
    "fit_coefficients",
    "log_ratio_rank",
    "objective",
    "soft_values",
    "tilt",
    "token_mix_gap",
]

Floats = NDArray[np.float64]


def tilt(log_ref: ArrayLike, reward: ArrayLike, beta: ArrayLike) -> Floats:
    """Optimal policy of a reward under a KL penalty (PO-1).

    ``log pi = log pi0 + r / beta - logsumexp(log pi0 + r / beta)``.

    Parameters
    ----------
    log_ref : array_like, shape (V,)
        Log-probabilities of the reference pi0; -inf for outcomes that never occur.
    reward : array_like, shape (V,) or (K, V)
        Reward of each outcome, one row a policy.
    beta : float or array_like, shape (K,)
        Temperature, > 0, in the unit of the reward; one for all rows, or one a row.

    Returns
    -------
    float64 array, of the shape of `reward`
        Log-probabilities; outcomes outside the support of pi0 stay outside.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If beta is not positive, pi0 is not normalised, a reward or reward / beta is not finite, or shapes do
        not fit.

    Notes
    -----
    All in log space. Cost O(K V).

    References
    ----------
    PoEM (abstract); our reconstruction. The identity is the Gibbs variational principle.

    Examples
    --------
    >>> np.exp(tilt(np.log([0.5, 0.3, 0.2]), [1, 0, 2], 0.5)).round(4)
    array([0.2477, 0.0201, 0.7322])
    """
    ref = _inputs.log_policy("log_ref", log_ref)
    r = finite_array("reward", reward)
    temperature = _inputs.betas("beta", beta)
    if r.ndim not in (1, 2) or r.shape[-1] != len(ref):
        raise ValueError(f"reward must have shape ({len(ref)},) or (K, {len(ref)}), got {r.shape}")
    if temperature.ndim and (r.ndim == 1 or temperature.shape != r.shape[:1]):
        raise ValueError(
            f"beta must be one number, or one a row of reward, got shapes {temperature.shape} and {r.shape}"
        )
    return _inputs.normalise(ref + _inputs.scaled(r, temperature[..., None]))


def objective(log_policy: ArrayLike, log_ref: ArrayLike, reward: ArrayLike, beta: float) -> float:
    """Value of a policy under a KL penalty (PO-1).

    ``J(pi) = E_pi r - beta KL(pi || pi0)``; the divergence from the optimum is ``(max J - J(pi)) / beta``.

    Parameters
    ----------
    log_policy : array_like, shape (V,)
        Log-probabilities of pi.
    log_ref : array_like, shape (V,)
        Log-probabilities of pi0.
    reward : array_like, shape (V,)
        Reward of each outcome.
    beta : float
        Temperature, > 0, in the unit of the reward.

    Returns
    -------
    float
        J, in the unit of the reward; -inf where pi leaves the support of pi0.

    Raises
    ------
    ValueError
        As `tilt`.

    Notes
    -----
    ``max J = beta logsumexp(log pi0 + r / beta)``. Cost O(V).

    References
    ----------
    Gibbs variational principle.

    Examples
    --------
    >>> ref = np.log([0.5, 0.3, 0.2])
    >>> round(objective(tilt(ref, [1, 0, 2], 0.5), ref, [1, 0, 2], 0.5), 6)
    1.351155
    """
    pi, ref = _inputs.log_policy("log_policy", log_policy), _inputs.log_policy("log_ref", log_ref)
    r = finite_array("reward", reward, 1)
    if not len(pi) == len(ref) == len(r):
        raise ValueError(
            f"log_policy, log_ref and reward must have one length, got {len(pi)}, {len(ref)}, {len(r)}"
        )
    on = np.isfinite(pi)
    if np.isneginf(ref[on]).any():
        return float("-inf")
    return float(np.exp(pi[on]) @ (r[on] - positive("beta", beta) * (pi[on] - ref[on])))


def combine(log_ref: ArrayLike, log_experts: ArrayLike, coefficients: ArrayLike, base: bool = True) -> Floats:
    """Policy of a mixed reward from the policies of its parts (PO-2).

    ``log pi = log pi0 + sum_k a_k (log pi_k - log pi0) - log Z``; exact for ``r = sum_k w_k r_k + c`` with
    ``a_k = w_k beta_k / beta``, of any sign and any sum.

    Parameters
    ----------
    log_ref : array_like, shape (V,)
        Log-probabilities of the reference pi0.
    log_experts : array_like, shape (K, V)
        Log-probabilities of policies that were tilted from pi0.
    coefficients : array_like, shape (K,)
        Coefficients a, from `coefficients_for` or `fit_coefficients`.
    base : bool, default True
        False leaves the term of pi0 out, as in ``sum_k a_k log pi_k``: wrong unless the coefficients sum to
        one; it exists for controls.

    Returns
    -------
    float64 array, shape (V,)
        Log-probabilities.

    Raises
    ------
    ValueError
        If a row is not normalised, supports differ, or shapes do not fit.

    Notes
    -----
    Cost O(K V).

    References
    ----------
    PoEM (abstract); our reconstruction.

    Examples
    --------
    >>> ref = np.log([0.5, 0.3, 0.2])
    >>> experts = tilt(ref, [[1, 0, 2], [0, 1, -1]], [0.5, 2])
    >>> np.exp(combine(ref, experts, coefficients_for([0.6, -0.4], [0.5, 2], 1.5))).round(4)
    array([0.4791, 0.1476, 0.3733])
    """
    ref = _inputs.log_policy("log_ref", log_ref)
    experts = _inputs.log_policies("log_experts", log_experts, ref)
    a = finite_array("coefficients", coefficients, 1)
    if len(a) != len(experts):
        raise ValueError(f"coefficients must have one entry an expert, {len(experts)}, got {len(a)}")
    return _inputs.combined(ref, experts, a, base)


def coefficients_for(weights: ArrayLike, expert_betas: ArrayLike, beta: float) -> Floats:
    """Coefficients of a reward that is a known mixture (PO-2).

    ``a_k = w_k beta_k / beta``.

    Parameters
    ----------
    weights : array_like, shape (K,)
        Weight w of each expert's reward, any sign.
    expert_betas : float or array_like, shape (K,)
        Temperatures at which the experts were tilted, > 0.
    beta : float
        Temperature of the policy wanted, > 0.

    Returns
    -------
    float64 array, shape (K,)
        Coefficients for `combine`.

    Raises
    ------
    ValueError
        If a temperature is not positive, or shapes do not fit.

    References
    ----------
    PoEM (abstract); our reconstruction.

    Examples
    --------
    >>> coefficients_for([0.6, -0.4], [0.5, 2.0], 1.5).round(4)
    array([ 0.2   , -0.5333])
    """
    w = finite_array("weights", weights, 1)
    temperatures = _inputs.betas("expert_betas", expert_betas)
    if temperatures.shape not in ((), w.shape):
        raise ValueError(
            f"expert_betas must be one number, or one a weight, got {temperatures.shape} and {w.shape}"
        )
    return np.asarray(w * temperatures / positive("beta", beta))


@dataclasses.dataclass(frozen=True, eq=False)
class LogRatioSpectrum(Result):
    """Singular values of log-ratios of policies to their reference; made by `log_ratio_rank`.

    Parameters
    ----------
    singular_values : float64 array
        Descending, nats.
    rank : int
        How many exceed ``rtol`` times the first.
    rtol : float
        Relative tolerance.

    Examples
    --------
    >>> ref = np.log([0.5, 0.3, 0.2])
    >>> log_ratio_rank(ref, tilt(ref, [[1, 0, 2], [2, 0, 4]], 1.0)).rank
    1
    """

    singular_values: Floats
    rank: int
    rtol: float


def log_ratio_rank(log_ref: ArrayLike, log_policies: ArrayLike, rtol: float = 1e-9) -> LogRatioSpectrum:
    """Count the dimensions in which policies differ from their reference (PO-4).

    The matrix ``log pi_k - log pi0``, less the mean of each row, has rank at most q if the policies were
    tilted by rewards from a q-dimensional family.

    Parameters
    ----------
    log_ref : array_like, shape (V,)
        Log-probabilities of the reference pi0.
    log_policies : array_like, shape (M, V)
        Log-probabilities of policies with the support of pi0.
    rtol : float, default 1e-9
        Singular values up to this share of the first one count as zero, > 0.

    Returns
    -------
    LogRatioSpectrum
        Singular values and rank.

    Raises
    ------
    ValueError
        If a row is not normalised, supports differ, or rtol is not positive.

    Notes
    -----
    A rank above that of the rewards says that the policies do not share this reference, or were not trained
    to the end. Cost O(V M^2).

    References
    ----------
    PoEM (abstract); our reconstruction.

    Examples
    --------
    >>> ref = np.log([0.5, 0.3, 0.2])
    >>> log_ratio_rank(ref, tilt(ref, [[1, 0, 2], [0, 1, 0]], 1.0)).rank
    2
    """
    ref = _inputs.log_policy("log_ref", log_ref)
    policies = _inputs.log_policies("log_policies", log_policies, ref)
    on = np.isfinite(ref)
    ratios = policies[:, on] - ref[on]
    s = np.linalg.svd(ratios - ratios.mean(axis=1, keepdims=True), compute_uv=False)
    share = positive("rtol", rtol)
    return LogRatioSpectrum(s, int(np.count_nonzero(s > share * s.max(initial=0.0))), share)
