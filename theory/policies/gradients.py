"""Gradients of one group on a softmax policy and on tokens, and the diversity that is left."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, one_of
from porism.theory.policies import _inputs, _rules
from porism.theory.policies.policy import SoftmaxPolicy

__all__ = [
    "AGGREGATIONS",
    "aggregate_weights",
    "effective_number",
    "logit_gradient",
    "root_drift",
    "unsampled_drift",
]

Floats = NDArray[np.float64]

AGGREGATIONS = ("seq_mean", "token_mean", "sum")
"""Weights of a token: A_i/(G L_i), A_i / sum of L, A_i/G."""


def logit_gradient(pi: ArrayLike, actions: Any, advantages: ArrayLike) -> Floats:
    """Update of the logits of a softmax policy by one group (AG-2).

    ``g_j = (1/G) sum_(o_i = j) A_i - pi_j sum(A) / G``.

    Parameters
    ----------
    pi : array_like, shape (V,)
        Probabilities of the actions.
    actions : int array_like, shape (G,)
        Sampled actions o, in 0..V - 1.
    advantages : array_like, shape (G,)
        Advantages A.

    Returns
    -------
    float64 array, shape (V,)
        Gradient; zero at actions not sampled if the advantages sum to zero.

    Raises
    ------
    TypeError
        If actions are no ints.
    ValueError
        If shapes do not fit or `pi` does not sum to one.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> logit_gradient([0.4, 0.3, 0.2, 0.1], [0, 0, 1, 2], [1, 1, -1, -1]).round(12).tolist()
    [0.5, -0.25, -0.25, 0.0]
    """
    policy, chosen, weights = _group(pi, actions, advantages)
    return policy.gradient(np.bincount(chosen, weights, len(policy.logits)) / len(weights))


def unsampled_drift(pi: ArrayLike, actions: Any, advantages: ArrayLike) -> float:
    """Change of the log-probability of every action not sampled, a unit step (AG-3).

    ``-sum_m pi_m g_m``; with ``sum(A) = 0`` it is ``-(1/G) sum_i A_i pi(o_i)`` and the same for all of them.

    Parameters
    ----------
    pi : array_like, shape (V,)
        Probabilities of the actions.
    actions : int array_like, shape (G,)
        Sampled actions, in 0..V - 1.
    advantages : array_like, shape (G,)
        Advantages A.

    Returns
    -------
    float
        Derivative of the normaliser's share in ``log pi``, nats a unit step. Only if the advantages sum to
        zero is it the whole change; otherwise an unsampled logit moves as well, by ``-pi_j sum(A) / G``.

    Raises
    ------
    TypeError
        If actions are no ints.
    ValueError
        If shapes do not fit or `pi` does not sum to one.

    Notes
    -----
    Under the z-score it is ``sqrt(p_hat (1 - p_hat))`` times the mean probability of the wrong samples less
    that of the right ones.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> round(unsampled_drift([0.4, 0.3, 0.2, 0.1], [0, 0, 1, 2], [1, 1, -1, -1]), 12)
    -0.075
    """
    gradient = logit_gradient(pi, actions, advantages)
    return float(-np.asarray(pi, dtype=np.float64) @ gradient)


def effective_number(pi: ArrayLike, correct: Any) -> Floats:
    """Effective number of right actions: the diversity of a policy among them.

    ``exp(entropy)`` of pi restricted to the right actions.

    Parameters
    ----------
    pi : array_like, shape (..., V)
        Probabilities, or weights of any sum.
    correct : bool array_like, shape (V,)
        Which actions are right; at least one.

    Returns
    -------
    float64 array, shape (...)
        In [1, number of right actions].

    Raises
    ------
    ValueError
        If shapes do not fit, no action is right, or none of them has probability.

    References
    ----------
    Hill (1973), "Diversity and evenness", for exp(entropy) as a number.

    Examples
    --------
    >>> effective_number([0.3, 0.3, 0.4], [True, True, False]).round(12)
    np.float64(2.0)
    """
    weights, right = finite_array("pi", pi), np.asarray(correct)
    if right.dtype.kind != "b" or right.shape != weights.shape[-1:]:
        raise ValueError(
            f"correct must be {weights.shape[-1:]} bools, got {right.dtype} of shape {right.shape}"
        )
    inside = weights[..., right]
    # sums of weights near one: a power of two rounds nothing
    inside = np.ldexp(inside, -np.frexp(inside.max(axis=-1, keepdims=True, initial=0.0))[1])
    total = inside.sum(axis=-1, keepdims=True)
    if (inside < 0).any() or not (total > 0).all():
        raise ValueError("pi must be >= 0 and have probability on right actions; its entropy is undefined")
    share = inside / total
    return np.asarray(np.exp(-(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=-1)))[()]


def aggregate_weights(advantages: ArrayLike, lengths: Any, how: str = "seq_mean") -> Floats:
    """Weight that each token of a sample gets in the loss (AG-7).

    "seq_mean": ``A_i / (G L_i)``; "token_mean": ``A_i / sum(L)``; "sum": ``A_i / G``.

    Parameters
    ----------
    advantages : array_like, shape (G,)
        Advantages A.
    lengths : int array_like, shape (G,)
        Tokens L of each sample, >= 1.
    how : {"seq_mean", "token_mean", "sum"}
        Aggregation.

    Returns
    -------
    float64 array, shape (G,)
        Weight w of each token of a sample; they sum to zero whenever A does, except under "seq_mean".

    Raises
    ------
    TypeError
        If lengths are no ints.
    ValueError
        If shapes do not fit or a length is below 1.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> aggregate_weights([1, 1, -1, -1], [2, 4, 8, 8]).tolist()
    [0.125, 0.0625, -0.03125, -0.03125]
    """
    one_of("how", how, AGGREGATIONS)
    a, size = finite_array("advantages", advantages, 1), np.asarray(lengths)
    if size.dtype.kind not in "iu":
        raise TypeError(f"lengths must be ints, got dtype {size.dtype}; count tokens")
    if size.shape != a.shape or not len(a):
        raise ValueError(f"lengths must have one entry an advantage, {a.shape}, got {size.shape}")
    if (size < 1).any():
        raise ValueError(f"lengths must be >= 1, got {size.min()}; drop empty samples")
    size = size.astype(np.float64)  # short ints would overflow
    if how == "sum":
        return np.asarray(a / len(a))
    return np.asarray(a / (len(a) * size) if how == "seq_mean" else a / size.sum())


def root_drift(pi: ArrayLike, advantages: ArrayLike, lengths: Any, how: str = "seq_mean") -> Floats:
    """Gradient at the first position on the logit of a token that no sample begins with (AG-7).

    ``-pi_u sum_i w_i``: every sample passes the first position.

    Parameters
    ----------
    pi : array_like
        Probabilities of unsampled first tokens, in [0, 1], any shape.
    advantages : array_like, shape (G,)
        Advantages A.
    lengths : int array_like, shape (G,)
        Tokens L of each sample, >= 1.
    how : {"seq_mean", "token_mean", "sum"}
        Aggregation.

    Returns
    -------
    float64 array, of the shape of `pi`
        Gradient; zero for "token_mean" and "sum" when the advantages sum to zero.

    Raises
    ------
    ValueError
        As `aggregate_weights`, or if `pi` is no probability.

    Notes
    -----
    Further down only the samples that pass a prefix count; their advantages need not sum to zero, and
    unsampled tokens do move under every aggregation.

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> float(root_drift(0.1, [1, 1, -1, -1], [2, 4, 8, 8]))
    -0.0125
    """
    total = float(aggregate_weights(advantages, lengths, how).sum())
    return np.asarray(-_rules.probabilities("pi", pi) * total)[()]


def _group(
    pi: ArrayLike, actions: Any, advantages: ArrayLike
) -> tuple[SoftmaxPolicy, NDArray[np.int64], Floats]:
    probabilities = finite_array("pi", pi, 1)
    if (probabilities < 0).any() or abs(probabilities.sum() - 1) > _inputs.NORMALISED:
        raise ValueError(f"pi must be probabilities that sum to 1, got a sum of {probabilities.sum():.6g}")
    weights = finite_array("advantages", advantages, 1)
    chosen = _inputs.indices("actions", actions, len(probabilities))
    if len(chosen) != len(weights) or not len(weights):
        raise ValueError(
            f"actions and advantages must have one length >= 1, got {len(chosen)} and {len(weights)}"
        )
    with np.errstate(divide="ignore"):
        return SoftmaxPolicy(np.log(probabilities)), chosen, weights
