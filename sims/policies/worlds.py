"""Worlds for policies: references with tilted experts, sequences token by token, a tree of prefixes."""

import dataclasses
import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer
from porism.results import Result
from porism.theory.policies import aggregate_weights, tilt

__all__ = ["PrefixTree", "TiltWorld", "tilt_world", "token_world"]

Floats = NDArray[np.float64]
Rng = np.random.Generator | int | None


@dataclasses.dataclass(frozen=True, eq=False)
class TiltWorld(Result):
    """A reference, rewards, and the experts tilted by them; made by `tilt_world`.

    Parameters
    ----------
    log_ref : float64 array, shape (V,)
        Log-probabilities of the reference.
    rewards : float64 array, shape (K, V)
        Rewards of the experts.
    betas : float64 array, shape (K,)
        Their temperatures.
    log_experts : float64 array, shape (K, V)
        Their log-probabilities.
    weights : float64 array, shape (K,)
        Weights of a new reward, of both signs.
    beta : float
        Temperature of its policy.
    target : float64 array, shape (V,)
        The new reward, ``weights @ rewards`` and a constant.

    Examples
    --------
    >>> tilt_world(50, 3, rng=0).log_experts.shape
    (3, 50)
    """

    log_ref: Floats
    rewards: Floats
    betas: Floats
    log_experts: Floats
    weights: Floats
    beta: float
    target: Floats


def tilt_world(n_outcomes: int, n_experts: int, rng: Rng = None, redundant: int = 0) -> TiltWorld:
    """Draw a reference, experts and a new reward in the span of theirs.

    Parameters
    ----------
    n_outcomes : int
        Outcomes V, >= 2.
    n_experts : int
        Experts K, >= 1.
    rng : Generator, int or None
        Source.
    redundant : int, default 0
        How many of the experts have rewards that are combinations of the others', < K.

    Returns
    -------
    TiltWorld
        Standard normal log-weights and rewards; temperatures in [.5, 2], weights standard normal.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> world = tilt_world(20, 3, rng=0, redundant=1)
    >>> int(np.linalg.matrix_rank(world.rewards))
    2
    """
    rng = generator(rng)
    V, K = integer("n_outcomes", n_outcomes, 2), integer("n_experts", n_experts, 1)
    free = K - integer("redundant", redundant, 0, K - 1)
    log_ref = tilt(np.full(V, -np.log(V)), rng.normal(size=V), 1.0)
    rewards = rng.normal(size=(free, V))
    rewards = np.concatenate([rewards, rng.normal(size=(K - free, free)) @ rewards])
    betas, weights, beta = rng.uniform(0.5, 2, K), rng.normal(size=K), float(rng.uniform(0.5, 2))
    target = weights @ rewards + float(rng.normal())
    return TiltWorld(log_ref, rewards, betas, tilt(log_ref, rewards, betas), weights, beta, target)


def token_world(
    n_tokens: int,
    n_steps: int,
    n_experts: int = 2,
    rng: Rng = None,
    additive: bool = False,
    independent: bool = False,
) -> tuple[list[Floats], Floats]:
    """Draw a reference over sequences and rewards on whole sequences.

    Parameters
    ----------
    n_tokens, n_steps : int
        Tokens n at each of T positions, >= 2 and >= 1.
    n_experts : int, default 2
        Rewards K, >= 1.
    rng : Generator, int or None
        Source.
    additive : bool, default False
        Whether a reward is a sum over positions.
    independent : bool, default False
        Whether the reference draws positions independently.

    Returns
    -------
    (list of T float64 arrays, float64 array of shape (K, n, ..., n))
        Log-conditionals for `soft_values`, and rewards; standard normal parts.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> conditionals, rewards = token_world(3, 2, rng=0)
    >>> conditionals[1].shape, rewards.shape
    ((3, 3), (2, 3, 3))
    """
    rng = generator(rng)
    n, T, K = (
        integer("n_tokens", n_tokens, 2),
        integer("n_steps", n_steps, 1),
        integer("n_experts", n_experts, 1),
    )
    conditionals: list[Floats] = []
    for t in range(T):
        logits = rng.normal(size=(n,) if independent else (n,) * (t + 1))
        logits = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        conditionals.append(np.broadcast_to(logits, (n,) * (t + 1)).copy())
    if not additive:
        return conditionals, rng.normal(size=(K, *(n,) * T))
    rewards = np.zeros((K, *(n,) * T))
    for t in range(T):
        shape = (K, *(n if u == t else 1 for u in range(T)))
        rewards = rewards + rng.normal(size=(K, n)).reshape(shape)
    return conditionals, rewards


class PrefixTree:
    """An autoregressive policy with one softmax a prefix, over sequences of unequal length.

    Each of `depth` positions has `symbols` symbols and a stop; a sequence ends with a stop or at full depth.

    Parameters
    ----------
    depth : int
        Most tokens of a sequence, >= 1.
    symbols : int
        Symbols besides the stop, >= 1.

    Examples
    --------
    >>> tree = PrefixTree(3, 2)
    >>> len(tree.sequences), tree.lengths.max()
    (15, np.int64(3))
    """

    def __init__(self, depth: int, symbols: int) -> None:
        integer("depth", depth, 1)
        integer("symbols", symbols, 1)
        letters = range(symbols)
        self.prefixes = [x for t in range(depth) for x in itertools.product(letters, repeat=t)]
        self.stop = symbols
        self.sequences = [(*x, symbols) for x in self.prefixes]
        self.sequences += list(itertools.product(letters, repeat=depth))
        self.lengths = np.array([len(x) for x in self.sequences])
        index = {x: i for i, x in enumerate(self.prefixes)}
        self.first = np.array([x[0] for x in self.sequences])
        # passes[i, x, u]: sequence i takes token u at prefix x
        self.passes = np.zeros((len(self.sequences), len(self.prefixes), symbols + 1))
        for i, x in enumerate(self.sequences):
            for t, token in enumerate(x):
                self.passes[i, index[x[:t]], token] = 1.0

    def conditionals(self, logits: ArrayLike) -> Floats:
        """Probabilities of the next token.

        Parameters
        ----------
        logits : array_like, shape (number of prefixes, symbols + 1)
            One row a prefix; row 0 is the first position.

        Returns
        -------
        float64 array, of the shape of `logits`
            Rows sum to one.
        """
        theta, shape = finite_array("logits", logits, 2), (len(self.prefixes), self.stop + 1)
        if theta.shape != shape:
            raise ValueError(f"logits must have shape {shape}, one row a prefix, got {theta.shape}")
        found = np.exp(theta - theta.max(axis=1, keepdims=True))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def probabilities(self, logits: ArrayLike) -> Floats:
        """Probabilities of all sequences.

        Parameters
        ----------
        logits : array_like, shape (number of prefixes, symbols + 1)
            As for `conditionals`.

        Returns
        -------
        float64 array, shape (number of sequences,)
            They sum to one.
        """
        return np.asarray(np.exp(np.tensordot(self.passes, np.log(self.conditionals(logits)), 2)))

    def scores(self, logits: ArrayLike) -> Floats:
        """Gradients of the log-probability of every sequence.

        Parameters
        ----------
        logits : array_like, shape (number of prefixes, symbols + 1)
            As for `conditionals`.

        Returns
        -------
        float64 array, shape (number of sequences, number of prefixes, symbols + 1)
            ``1[takes u at x] - 1[passes x] pi(u given x)``.
        """
        on = self.passes.sum(axis=2, keepdims=True)
        return np.asarray(self.passes - on * self.conditionals(logits))

    def group_gradient(
        self, logits: ArrayLike, group: Any, advantages: ArrayLike, how: str = "sum"
    ) -> Floats:
        """Update by one group, with the weight of each token by its aggregation.

        Parameters
        ----------
        logits : array_like, shape (number of prefixes, symbols + 1)
            As for `conditionals`.
        group : int array_like, shape (G,)
            Indices of the sampled sequences.
        advantages : array_like, shape (G,)
            Their advantages.
        how : {"seq_mean", "token_mean", "sum"}
            As for `aggregate_weights`.

        Returns
        -------
        float64 array, of the shape of `logits`
            Gradient.
        """
        chosen = [integer("group", i, 0, len(self.sequences) - 1) for i in group]
        w = aggregate_weights(advantages, self.lengths[chosen], how)
        return np.asarray(np.tensordot(w, self.scores(logits)[chosen], 1))
