"""Synthetic corpora: a Markov chain of order two, and subjects with facts told through templates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import integer
from porism.sims._corpus import TokenBatches

__all__ = ["MarkovCorpus", "RelationalCorpus"]

IGNORED = -100
"""Label of a token that has none."""


@dataclass(frozen=True, eq=False)
class MarkovCorpus:
    """Stationary chain of order two, ``P(x_t | x_{t-2}, x_{t-1})``; every batch is fresh text.

    Parameters
    ----------
    name : str
        Name with the number of symbols and the seed.
    table : ndarray of float64, shape (K, K, K)
        Probabilities; axes are the symbols at t-2, t-1 and t.
    pairs : ndarray of float64, shape (K, K)
        Stationary law of two symbols in a row.
    hash : str
        SHA-256 of `table`.

    Examples
    --------
    >>> corpus = markov(seed=0)
    >>> round(corpus.entropy_rate, 9), round(corpus.order1_loss, 9)
    (1.596882267, 2.384733357)
    """

    name: str
    table: NDArray[np.float64]
    pairs: NDArray[np.float64]
    hash: str

    @property
    def vocab(self) -> int:
        """Number of symbols."""
        return len(self.table)

    @property
    def entropy_rate(self) -> float:
        """Smallest loss of any predictor, nats a symbol: ``-sum pairs(a, b) P(c | a, b) log P(c | a, b)``."""
        return float(-(self.pairs[..., None] * self.table * _log(self.table)).sum())

    @property
    def order1_loss(self) -> float:
        """Smallest loss of a predictor that sees one symbol, nats a symbol."""
        joint = np.einsum("ab,abc->bc", self.pairs, self.table)
        return float(-(joint * _log(joint / joint.sum(axis=1, keepdims=True))).sum())

    def sample(self, count: int, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw texts from the stationary chain.

        Parameters
        ----------
        count : int
            Number of texts, >= 1.
        length : int
            Symbols a text, >= 2.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of int64, shape (count, length)
            Texts, independent of each other.
        """
        count, length, K = integer("count", count, 1), integer("length", length, 2), self.vocab
        uniform = rng.random((length - 1, count, 1))
        text = np.empty((count, length), dtype=np.int64)
        first = np.minimum((np.cumsum(self.pairs) < uniform[0]).sum(axis=1), K * K - 1)
        text[:, 0], text[:, 1] = np.divmod(first, K)
        above = np.cumsum(self.table, axis=2)
        for t in range(2, length):
            below = above[text[:, t - 2], text[:, t - 1]] < uniform[t - 1]
            text[:, t] = np.minimum(below.sum(axis=1), K - 1)
        return text

    def batches(self, batch: int = 16, length: int = 128) -> TokenBatches:
        """Draw fresh texts.

        Parameters
        ----------
        batch : int, default 16
            Number of texts, >= 1.
        length : int, default 128
            Inputs a text, >= 1.

        Returns
        -------
        TokenBatches
            x and y of shape (batch, length) each, y one symbol later.
        """
        batch, length = integer("batch", batch, 1), integer("length", length, 1)
        return TokenBatches(lambda rng: self._texts(batch, length, rng), self.hash, self.name)

    def windows(self, length: int = 128, count: int = 64) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw the fixed validation texts.

        Parameters
        ----------
        length : int, default 128
            Inputs a text, >= 1.
        count : int, default 64
            Number of texts, >= 1; they are drawn from seed 1.

        Returns
        -------
        x, y : ndarray of int64, shape (count, length)
            Inputs, and the same one symbol later.
        """
        return self._texts(count, integer("length", length, 1), np.random.default_rng(1))

    def _texts(self, batch: int, length: int, rng: np.random.Generator) -> Any:
        text = self.sample(batch, length + 1, rng)
        return text[:, :-1], text[:, 1:]


def stationary_pairs(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve ``sum_a pairs(a, b) P(c | a, b) = pairs(b, c)`` with total 1."""
    K = len(table)
    step = np.zeros((K, K, K, K))  # from (a, b) to (b, c)
    a, b, c = np.ogrid[:K, :K, :K]
    step[a, b, b, c] = table
    system = step.reshape(K * K, K * K).T - np.eye(K * K)
    system[-1] = 1  # its equations add up to 0 = 0, so one is free for the total
    try:
        law = np.linalg.solve(system, np.eye(K * K)[-1])
    except np.linalg.LinAlgError:
        law = np.full(K * K, np.nan)
    if not (law >= -1e-9).all():
        raise ValueError(
            "concentration must leave one stationary law, got a chain that falls apart; take a larger one"
        )
    law = np.maximum(law, 0).reshape(K, K)
    return np.asarray(law / law.sum())


def _log(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.where(p > 0, p, 1))


@dataclass(frozen=True, eq=False)
class RelationalCorpus:
    """Facts ``[subject, template] -> answer``, and questions ``[subject, Q] -> answer``.

    Each subject has one answer, told through its own templates. Ids are subjects, then templates, then Q,
    then answers, then the word "unknown".

    Parameters
    ----------
    name : str
        Kind and sizes.
    kind : {"plain", "unknown", "distractor"}
        What is trained on the pairs of a subject with templates that are not its own: nothing, "unknown", or
        another answer, drawn once a pair.
    answers : ndarray of int64, shape (S,)
        Token id of the answer of each subject.
    own : ndarray of bool, shape (S, N)
        Whether the fact of a subject is told through a template.
    told : ndarray of int64, shape (S, N)
        Token id that follows a subject and a template; -100 where nothing is told.
    vocab : int
        Number of token ids.
    hash : str
        SHA-256 of the above.

    Examples
    --------
    >>> corpus = relational("unknown", subjects=4, templates=3, per_subject=1, answers=2, seed=0)
    >>> x, y = corpus.facts()
    >>> x.shape, int((y[:, 1] == corpus.vocab - 1).sum())
    ((12, 2), 8)
    """

    name: str
    kind: str
    answers: NDArray[np.int64]
    own: NDArray[np.bool_]
    told: NDArray[np.int64]
    vocab: int
    hash: str

    @property
    def question(self) -> int:
        """Token id of Q."""
        return sum(self.own.shape)

    def facts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List every pair of a subject and a template about which something is told.

        Returns
        -------
        x, y : ndarray of int64, shape (n, 2)
            Inputs; labels -100 at the subject and what is told at the template.
        """
        subject, template = np.nonzero(self.told != IGNORED)
        return self._examples(subject, len(self.own) + template, self.told[subject, template])

    def questions(self, subjects: ArrayLike | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the questions about subjects.

        Parameters
        ----------
        subjects : array_like of int, optional
            Which ones; by default all.

        Returns
        -------
        x, y : ndarray of int64, shape (n, 2)
            Inputs; labels -100 at the subject and the answer at Q.

        Raises
        ------
        ValueError
            If there is no such subject.
        """
        which = self._which(np.arange(len(self.own)) if subjects is None else subjects)
        return self._examples(which, np.full_like(which, self.question), self.answers[which])

    def batches(self, batch: int = 64, subjects: ArrayLike | None = None) -> TokenBatches:
        """Draw facts, or questions about some subjects.

        Parameters
        ----------
        batch : int, default 64
            Number of examples, >= 1, drawn with replacement.
        subjects : array_like of int, optional
            None: facts. Else: questions about these subjects.

        Returns
        -------
        TokenBatches
            x and y of shape (batch, 2), as `facts` and `questions` have them.
        """
        x, y = self.facts() if subjects is None else self.questions(subjects)
        batch = integer("batch", batch, 1)

        def draw(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
            rows = rng.integers(0, len(x), size=batch)
            return x[rows], y[rows]

        return TokenBatches(draw, self.hash, self.name)

    def covered(self, tuned: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Say which held-out facts share a template with the facts that questions were trained on.

        Parameters
        ----------
        tuned : array_like of int, shape (n,)
            Subjects whose questions were trained on.

        Returns
        -------
        held_out : ndarray of int64, shape (S - n,)
            The other subjects.
        covered : ndarray of bool, shape (S - n,)
            Whether one of their templates is one of a tuned subject.

        Raises
        ------
        ValueError
            If there is no such subject, or none is left.
        """
        which = self._which(tuned)
        held_out = np.setdiff1d(np.arange(len(self.own), dtype=np.int64), which)
        if not len(held_out):
            raise ValueError(f"no held-out fact: tuned has all {len(self.own)} subjects; leave some out")
        shared = self.own[held_out] & self.own[which].any(axis=0)
        return held_out, np.asarray(shared.any(axis=1))

    def _which(self, subjects: ArrayLike) -> NDArray[np.int64]:
        which = np.asarray(subjects, dtype=np.int64).reshape(-1) if np.size(subjects) else np.empty(0, int)
        if len(which) and (which.min() < 0 or which.max() >= len(self.own)):
            raise ValueError(
                f"subjects must be in 0..{len(self.own) - 1}, got {which.min()}..{which.max()}; "
                "number them from 0"
            )
        return which

    def _examples(self, subject: Any, second: Any, answer: Any) -> Any:
        x, y = np.stack([subject, second], axis=1), np.full((len(subject), 2), IGNORED)
        y[:, 1] = answer
        return x, y
