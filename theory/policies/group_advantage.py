"""Group advantages: what each rule does to a policy in expectation, and to what was not sampled.

A group has G samples of one prompt, k of them right, ``p_hat = k / G``. The update is
``g = (1/G) sum_i A_i grad log pi(o_i)``. For binary rewards its mean is ``s(p) grad p`` whatever the rule:
only the scalar s depends on it. Ratio-weighted (off-policy) updates are outside these laws, and so are
per-token weights that depend on the length.
"""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, one_of
from porism.errors import NumericalWarning
from porism.theory.policies import _rules
from porism.theory.policies.gradients import (
    AGGREGATIONS,
    aggregate_weights,
    effective_number,
    logit_gradient,
    root_drift,
    unsampled_drift,
)

__all__ = [
    "AGGREGATIONS",
    "RULES",
    "aggregate_weights",
    "direction_scale",
    "effective_number",
    "expected_mass",
    "group_advantages",
    "implied_utility",
    "logit_gradient",
    "outcome_weights",
    "root_drift",
    "unsampled_drift",
]

Floats = NDArray[np.float64]

RULES = _rules.RULES
"""Rules by name; "easy" divides by 1 - sqrt(p_hat) as released, "easy_sqrt" by sqrt(1 - p_hat)."""

CLOSED = ("zscore", "centred", "asymmetric", "hard", "easy", "easy_sqrt")
"""Rules whose infinite group has a closed form."""


def group_advantages(
    rewards: ArrayLike,
    rule: str = "zscore",
    *,
    ddof: int = 0,
    eps: float = 0.0,
    suppress: float = 0.0,
    alpha: float = 1.0,
) -> Floats:
    """Advantages of a batch of groups (AG-1, AG-8).

    z-score: ``A = (r - mean) / (std + eps)``. Then "centred": ``r - mean``; "asymmetric": positive A times
    ``1 - suppress``; "hard": ``A / (2 (sqrt(p_hat) + eps))``; "easy": ``A / (2 (1 - sqrt(p_hat) + eps))``;
    "easy_sqrt": ``A / (2 (sqrt(1 - p_hat) + eps))``; "a_grae": ``b hard + (1 - b) easy`` with the batch mean
    b of rewards, positive results times ``min(1, b / alpha)``.

    Parameters
    ----------
    rewards : array_like, shape (B, G)
        Rewards, one row a group; in [0, 1] for rules that divide by their mean.
    rule : {"zscore", "centred", "asymmetric", "hard", "easy", "easy_sqrt", "a_grae"}
        Rule.
    ddof : int, default 0
        1 for the unbiased standard deviation, < G.
    eps : float, default 0
        Added to the standard deviation and to the rule's divisors, >= 0. The released A-GRAE has
        ``ddof=1, eps=1e-6``.
    suppress : float, default 0
        Share taken from positive advantages, in [0, 1]; with "asymmetric" only.
    alpha : float, default 1
        Success rate of the batch from which positives keep their size, > 0; with "a_grae" only.

    Returns
    -------
    float64 array, shape (B, G)
        Advantages; zeros for groups whose rewards are all equal.

    Raises
    ------
    ValueError
        If an argument is out of range, or given to a rule that does not use it.

    Warns
    -----
    NumericalWarning
        If groups have one sample: there is nothing to compare it with.

    Notes
    -----
    Trap in the released routine: it gives a group of one sample the mean 0, so that ``sqrt(p_hat) + eps`` is
    1e-6 and the weight becomes half a million. Here such groups get zeros. Cost O(B G).

    References
    ----------
    A-GRAE (abstract and released advantage routine), in our words.

    Examples
    --------
    >>> group_advantages([[1, 1, 1, 0, 0, 0, 0, 0]]).round(4)[0, [0, -1]]
    array([ 1.291 , -0.7746])
    """
    r = finite_array("rewards", rewards, 2)
    if r.shape[1] == 0:
        raise ValueError(f"rewards must have at least one sample a group, got shape {r.shape}")
    chosen = _rules.options(r.shape[1], rule, ddof, eps, suppress, alpha)
    if rule in ("hard", "easy", "easy_sqrt", "a_grae") and ((r < 0) | (r > 1)).any():
        bad = r[(r < 0) | (r > 1)][0]
        raise ValueError(f"rewards must be in [0, 1] for rule {rule!r}, got {bad}; rescale them")
    if r.shape[1] == 1:
        warnings.warn(
            "groups of one sample have no advantages; zeros returned", NumericalWarning, stacklevel=2
        )
        return np.zeros_like(r)
    return _rules.advantages(r, rule, *chosen, r.mean() if rule == "a_grae" and r.size else 0.0)


def outcome_weights(group_size: int, rule: str = "zscore", **options: Any) -> tuple[Floats, Floats]:
    """Weights that a rule gives a right and a wrong sample, by the number of right ones.

    ``c+(k)`` and ``c-(k)`` for k = 0..G: any rule on binary rewards is such a pair of tables.

    Parameters
    ----------
    group_size : int
        Samples G a group, >= 1.
    rule : str, default "zscore"
        As for `group_advantages`.
    **options
        As for `direction_scale`; with ``others``, weights of "a_grae" are means over the rest of the batch.

    Returns
    -------
    (float64 array, float64 array), each of shape (G + 1,)
        c+ and c-; zero for groups that are all right or all wrong, as those of one sample are.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Warns
    -----
    NumericalWarning
        As `direction_scale`.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> plus, minus = outcome_weights(2)
    >>> plus.tolist(), minus.tolist()
    ([0.0, 1.0, 0.0], [0.0, -1.0, 0.0])
    """
    _, plus, minus = _rules.tables(group_size, one_of("rule", rule, RULES), options)
    return plus, minus


def direction_scale(p: ArrayLike, group_size: Any, rule: Any = "zscore", **options: Any) -> Floats:
    """Scalar s in the direction law ``E g = s(p) grad p`` (AG-5).

    ``s(p) = sum_K Bin(K; G - 1, p) [c+(K + 1) - c-(K)]``, K right ones among the other G - 1 samples.

    Parameters
    ----------
    p : array_like
        Probability that a sample is right, in [0, 1], any shape.
    group_size : int or inf
        Samples G a group, >= 1; ``math.inf`` gives the limit of rules other than "a_grae".
    rule : str or pair of array_likes, default "zscore"
        Name, or tables ``(c_plus, c_minus)``, each of shape (G + 1,), of the weight of a right and of a wrong
        sample by the number of right ones.
    **options
        ``ddof, eps, suppress, alpha`` as for `group_advantages`. For "a_grae" ``others`` has the success
        probabilities of the other prompts of the batch, whose mean couples them. ``levels``, the values that
        rewards take, must be 0 and 1.

    Returns
    -------
    float64 array, of the shape of `p`
        s(p); negative where a rule gives right samples less than wrong ones. Zeros where G = 1 and the rule
        has a name: one sample has nothing to be compared with. Tables may weigh it.

    Raises
    ------
    AssumptionError
        If rewards are not binary: then the direction itself depends on the rule.
    ValueError
        If an argument is out of range.

    Warns
    -----
    NumericalWarning
        If G = 1 and the rule has a name.

    Notes
    -----
    Holds for the plain sum over a sample's tokens, on policy; under per-sequence or token means the weight
    depends on the length too and the law fails. Exact sum, O(G) a point; log-gamma for G > 500.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> direction_scale(0.3, 4).round(6), direction_scale(0.3, 4, "asymmetric", suppress=0.6).round(6)
    (np.float64(1.634589), np.float64(0.948062))
    """
    x = _rules.probabilities("p", p)
    if _infinite(group_size):
        return _rules.limit(x, *_closed(rule, options))
    size, plus, minus = _rules.tables(group_size, rule, options)
    return np.asarray(_rules.binomial(size - 1, x) @ _rules.steps(plus, minus))[()]


def implied_utility(p_grid: ArrayLike, group_size: Any, rule: Any = "zscore", **options: Any) -> Floats:
    """Utility whose mean over prompts a rule climbs in expectation (AG-9).

    ``F(p) = integral of s from 1/2 to p``, exact: s is a polynomial in Bernstein form, so that
    ``F(p) = (E_k~Bin(G,p) C_k - E_k~Bin(G,1/2) C_k) / G`` with ``C_k = sum_(K<k) [c+(K + 1) - c-(K)]``.

    Parameters
    ----------
    p_grid : array_like
        Probabilities that a sample is right, in [0, 1], any shape and order.
    group_size : int or inf
        As for `direction_scale`.
    rule : str or pair of array_likes, default "zscore"
        As for `direction_scale`.
    **options
        As for `direction_scale`.

    Returns
    -------
    float64 array, of the shape of `p_grid`
        F, zero at 1/2. For infinite groups, up to a constant: z-score ``2 arcsin sqrt(p)``; no std ``p``;
        hard ``-artanh sqrt(1 - p)``; easy ``(1 + sqrt p) / sqrt(1 - p)``; easy_sqrt ``artanh sqrt p``.

    Raises
    ------
    AssumptionError, ValueError
        As `direction_scale`.

    Warns
    -----
    NumericalWarning
        As `direction_scale`.

    Notes
    -----
    Cost O(G) a point.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> implied_utility([0.25, 0.5, 1.0], math.inf).round(4)
    array([-0.5236,  0.    ,  1.5708])
    """
    x = _rules.probabilities("p_grid", p_grid)
    if _infinite(group_size):
        return _rules.limit_utility(x, *_closed(rule, options))
    size, plus, minus = _rules.tables(group_size, rule, options)
    total = np.concatenate([[0.0], np.cumsum(_rules.steps(plus, minus))])
    half = _rules.binomial(size, np.asarray(0.5))
    return np.asarray((_rules.binomial(size, x) - half) @ total / size)[()]


def expected_mass(p: ArrayLike, group_size: int, rule: Any = "zscore", **options: Any) -> Floats:
    """Expected sum of absolute advantages a sample (AG-4, AG-8).

    ``E_k~Bin(G,p) [(k |c+(k)| + (G - k) |c-(k)|) / G]``; for the z-score ``E 2 sqrt(p_hat (1 - p_hat))``.

    Parameters
    ----------
    p : array_like
        Probability that a sample is right, in [0, 1], any shape.
    group_size : int
        Samples G a group, >= 1.
    rule : str or pair of array_likes, default "zscore"
        As for `direction_scale`.
    **options
        As for `direction_scale`.

    Returns
    -------
    float64 array, of the shape of `p`
        Mass, >= 0.

    Raises
    ------
    AssumptionError, ValueError
        As `direction_scale`.

    Warns
    -----
    NumericalWarning
        As `direction_scale`.

    Notes
    -----
    For the z-score a Bernstein polynomial of a concave, symmetric function: concave, symmetric, largest at
    1/2. Signs of "a_grae" do not depend on the batch, so that its mean weights give its mean mass.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> expected_mass([0.3, 0.5], 4).round(6)
    array([0.686528, 0.808013])
    """
    x = _rules.probabilities("p", p)
    size, plus, minus = _rules.tables(group_size, rule, options)
    k = np.arange(size + 1)
    return np.asarray(_rules.binomial(size, x) @ (k * np.abs(plus) + (size - k) * np.abs(minus)) / size)[()]


def _infinite(group_size: Any) -> bool:
    return isinstance(group_size, float) and group_size == math.inf


def _closed(rule: Any, options: dict[str, Any]) -> tuple[str, float]:
    one_of("rule", rule, CLOSED)
    if set(options) - {"suppress"}:
        raise ValueError(
            f"{sorted(set(options) - {'suppress'})[0]} acts in finite groups only; leave it out of the limit"
        )
    return str(rule), _rules.options(2, rule, **options)[2]
