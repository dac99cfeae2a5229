"""Policies over sequences: soft values give the optimum token by token, mixed logits do not (PO-8)."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, positive
from porism.results import Result
from porism.theory.policies import _inputs

__all__ = ["MOST", "TokenMixGap", "soft_values", "token_mix_gap"]

Floats = NDArray[np.float64]

MOST = 1_000_000
"""Largest number of sequences; the whole tree is held."""


def soft_values(log_conditionals: Sequence[ArrayLike], reward: ArrayLike, beta: float = 1.0) -> list[Floats]:
    """Soft value of every prefix (PO-8).

    ``V(x) = beta log E_pi0 [e^(r / beta) given x]``; the optimum is
    ``pi(t given x) = pi0(t given x) e^((V(x t) - V(x)) / beta)``.

    Parameters
    ----------
    log_conditionals : sequence of T array_likes
        Entry t, of shape (n_1, ..., n_t), holds the log-probability of token t given the tokens before it;
        the last axis sums to one.
    reward : array_like, shape (n_1, ..., n_T)
        Reward of each whole sequence; at most 10^6 sequences.
    beta : float, default 1
        Temperature, > 0.

    Returns
    -------
    list of T + 1 float64 arrays
        Entry t has shape (n_1, ..., n_t): values after t tokens, in the unit of the reward. The first is
        ``beta log Z``, the last the reward.

    Raises
    ------
    ValueError
        If shapes do not fit, a row is not normalised, the tree is too large or beta is not positive.

    Notes
    -----
    Cost O(number of sequences).

    References
    ----------
    Our derivation: the sequence identity summed over continuations.

    Examples
    --------
    >>> half = np.log([0.5, 0.5])
    >>> values = soft_values([half, [half, half]], [[0, 1], [3, 0]])
    >>> values[1].round(4), round(float(values[0]), 4)
    (array([0.6201, 2.3554]), 1.8247)
    """
    r = finite_array("reward", reward)
    return _values(_tree(log_conditionals, r.shape), r, positive("beta", beta))


@dataclasses.dataclass(frozen=True, eq=False)
class TokenMixGap(Result):
    """The optimum over sequences beside what mixed next-token logits give; made by `token_mix_gap`.

    Parameters
    ----------
    sequence : float64 array, shape (n_1, ..., n_T)
        Log-probabilities of the optimum for the mixed reward.
    token_mix : float64 array, shape (n_1, ..., n_T)
        Log-probabilities if every conditional is mixed with the same coefficients.
    corrected : float64 array, shape (n_1, ..., n_T)
        Log-probabilities from soft values.
    tv : float
        Total variation between optimum and token mix, in [0, 1].
    last_token : float
        Largest total variation between their conditionals of the last token: zero up to rounding.
    corrected_tv : float
        Total variation between optimum and soft values: zero up to rounding.

    Examples
    --------
    >>> half = np.log([0.5, 0.5])
    >>> gap = token_mix_gap([half, [half, half]], [[[0, 1], [3, 0]], [[1, 0], [0, 2]]], [1, 1])
    >>> round(gap.tv, 6), gap.last_token < 1e-12, gap.corrected_tv < 1e-12
    (0.092695, True, True)
    """

    sequence: Floats
    token_mix: Floats
    corrected: Floats
    tv: float
    last_token: float
    corrected_tv: float


def token_mix_gap(
    log_conditionals: Sequence[ArrayLike],
    rewards: ArrayLike,
    weights: ArrayLike,
    beta: float = 1.0,
    expert_betas: ArrayLike = 1.0,
) -> TokenMixGap:
    """Compare mixing sequence policies with mixing next-token logits (PO-8).

    Both use ``a_k = w_k beta_k / beta`` and keep the reference; the one mixes ``log pi_k(x)``, the other
    ``log pi_k(t given x)`` and normalises at every prefix.

    Parameters
    ----------
    log_conditionals : sequence of T array_likes
        Reference, as for `soft_values`.
    rewards : array_like, shape (K, n_1, ..., n_T)
        Reward of each expert.
    weights : array_like, shape (K,)
        Weight of each reward in the mixture, any sign.
    beta : float, default 1
        Temperature of the policy wanted, > 0.
    expert_betas : float or array_like, shape (K,), default 1
        Temperatures of the experts, > 0.

    Returns
    -------
    TokenMixGap
        Both policies and their distance.

    Raises
    ------
    ValueError
        As `soft_values`, or if weights or temperatures do not fit the rewards.

    Notes
    -----
    They agree on the last token always, and on whole sequences where rewards are sums over positions and the
    reference draws positions independently. Cost O(K times the number of sequences).

    References
    ----------
    Our derivation.

    Examples
    --------
    >>> half = np.log([0.5, 0.5])
    >>> round(token_mix_gap([half, [half, half]], [[[0, 1], [2, 3]]], [2.0]).tv, 12)
    0.0
    """
    r = finite_array("rewards", rewards)
    w = finite_array("weights", weights, 1)
    if r.ndim < 2 or len(r) != len(w):
        raise ValueError(f"rewards must have one table a weight, {len(w)}, got shape {r.shape}")
    temperature = positive("beta", beta)
    own = _inputs.betas("expert_betas", expert_betas)
    if own.shape not in ((), w.shape):
        raise ValueError(f"expert_betas must be one number, or one a weight, got {own.shape} and {w.shape}")
    own = np.broadcast_to(own, w.shape)
    tree = _tree(log_conditionals, r.shape[1:])
    optimum = [c + _step(v) / temperature for c, v in _pairs(tree, np.tensordot(w, r, 1), temperature)]
    moved: list[Floats] = [np.zeros_like(c) for c in tree]
    for weight, reward, expert_beta in zip(w, r, own, strict=True):
        for total, (_, v) in zip(moved, _pairs(tree, reward, float(expert_beta)), strict=True):
            total += weight / temperature * _step(v)
    mixed = [_inputs.normalise(c + m) for c, m in zip(tree, moved, strict=True)]
    joint = _joint(tree)
    sequence = joint + np.tensordot(w, r, 1) / temperature
    sequence = _inputs.normalise(sequence.ravel()).reshape(sequence.shape)
    token_mix, corrected = _joint(mixed), _joint(optimum)
    prefix = np.exp(_inputs.log_sum(sequence)) > 0
    last = _tv(np.exp(_conditional(sequence)), np.exp(mixed[-1]))[prefix]
    flat = [np.exp(x).ravel() for x in (sequence, token_mix, corrected)]
    return TokenMixGap(
        sequence,
        token_mix,
        corrected,
        float(_tv(flat[0], flat[1])),
        float(last.max(initial=0.0)),
        float(_tv(flat[0], flat[2])),
    )


def _tree(log_conditionals: Sequence[ArrayLike], shape: tuple[int, ...]) -> list[Floats]:
    if int(np.prod(shape)) > MOST:
        raise ValueError(
            f"reward must have at most {MOST} sequences, got {int(np.prod(shape))}; use a smaller tree"
        )
    if len(log_conditionals) != len(shape) or not shape:
        raise ValueError(
            f"log_conditionals must have one table a token, {len(shape)}, got {len(log_conditionals)}"
        )
    found = []
    for t, table in enumerate(log_conditionals):
        name = f"log_conditionals[{t}]"
        found.append(_inputs.log_policy(name, table, None))
        if found[t].shape != shape[: t + 1]:
            raise ValueError(f"{name} must have shape {shape[: t + 1]}, got {found[t].shape}; reshape it")
    return found


def _values(tree: list[Floats], reward: Floats, beta: float) -> list[Floats]:
    values = [reward]
    for conditional in reversed(tree):
        values.insert(0, beta * _inputs.log_sum(conditional + _inputs.scaled(values[0], beta)))
    return values


def _pairs(tree: list[Floats], reward: Floats, beta: float) -> list[tuple[Floats, tuple[Floats, Floats]]]:
    values = _values(tree, reward, beta)
    return [(c, (before, after)) for c, before, after in zip(tree, values[:-1], values[1:], strict=True)]


def _step(values: tuple[Floats, Floats]) -> Floats:
    before, after = values
    return np.asarray(after - before[..., None])


def _joint(conditionals: list[Floats]) -> Floats:
    total: Floats = np.zeros(())
    for conditional in conditionals:
        total = total[..., None] + conditional
    return total


def _conditional(joint: Floats) -> Floats:
    prefix = _inputs.log_sum(joint)
    return np.asarray(joint - np.where(np.isfinite(prefix), prefix, 0.0)[..., None])


def _tv(p: Floats, q: Floats) -> Floats:
    return np.asarray(np.abs(p - q).sum(axis=-1) / 2)
