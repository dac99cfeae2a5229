"""Corpora for the tiny transformer, all offline: English text, two synthetic worlds, digits as patches.

Every corpus has a `hash` of its content, and every run stores it: the text of `topics_char` comes with Python
and differs between its versions.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, one_of, positive, require
from porism.sims._corpus import TextCorpus, TokenBatches, frozen_array, make_text, sha256
from porism.sims._worlds import IGNORED, MarkovCorpus, RelationalCorpus, stationary_pairs

__all__ = [
    "RELATIONAL",
    "DigitsCorpus",
    "MarkovCorpus",
    "RelationalCorpus",
    "TextCorpus",
    "TokenBatches",
    "digits_patches",
    "markov",
    "relational",
    "text_corpus",
    "topics_bpe",
    "topics_char",
]

RELATIONAL = ("plain", "unknown", "distractor")
"""Kinds of `relational`."""


def text_corpus(text: str, *, name: str = "text", vocab: int = 96) -> TextCorpus:
    r"""Turn any text into a corpus of characters, or of byte pairs.

    Parameters
    ----------
    text : str
        The text, at least 20 characters; typographic characters are mapped to ASCII, others that are neither
        newline nor printable ASCII to "?".
    name : str, default "text"
        Name of the corpus, kept in checkpoints.
    vocab : int, default 96
        Number of token ids: 96 for characters (id 0 is the newline, then ASCII 32 ... 126), more for byte
        pairs.

    Returns
    -------
    TextCorpus
        The first nine tenths of the characters for training, the rest for validation.

    Raises
    ------
    TypeError
        If the text is no str.
    ValueError
        If the text is too short for so many ids.

    Notes
    -----
    Byte pairs are merged within words (runs of non-space with at most one space before, or runs of space):
    the most frequent pair first, ties to the smaller left, then right id.

    References
    ----------
    Sennrich, Haddow and Birch 2016, Neural machine translation of rare words with subword units,
    doi:10.18653/v1/P16-1162.

    Examples
    --------
    >>> corpus = text_corpus("ab ab abc “ab”\n" * 9, vocab=98)
    >>> corpus.symbols[96:], corpus.decode(corpus.encode("ab ab"))
    (('ab', ' ab'), 'ab ab')
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}; decode it first")
    if len(text) < 20:
        raise ValueError(f"text must have at least 20 characters, got {len(text)}; pass a longer one")
    return make_text(text, name, integer("vocab", vocab, 96, 2**15))


@functools.cache
def topics_char() -> TextCorpus:
    """English text of Python's own reference manual, as characters.

    It is `pydoc_data.topics`, joined by two newlines in the order of its keys.

    Returns
    -------
    TextCorpus
        About 460,000 characters, 96 ids. Parts are alphabetical, so validation holds other topics.

    Notes
    -----
    Read once a process. In CPython 3.11.7: 79 topics, 465,173 characters, 94 symbols occur, unigram entropy
    3.2450 and bigram conditional entropy 2.4564 nats a character.

    Examples
    --------
    >>> corpus = topics_char()
    >>> corpus.vocab, len(corpus.ids) > 400_000
    (96, True)
    """
    return make_text(_topics(), "topics_char", 96)


@functools.cache
def topics_bpe(vocab: int = 512) -> TextCorpus:
    """The text of `topics_char`, as byte pairs.

    Parameters
    ----------
    vocab : int, default 512
        Number of token ids, >= 97.

    Returns
    -------
    TextCorpus
        With 512 ids about 2.5 characters a token; losses are in nats a token.

    Notes
    -----
    Merges are learned once a process, in about a second for 512 ids.

    Examples
    --------
    >>> topics_bpe(100).vocab, topics_bpe(100).characters_per_token > 1
    (100, True)
    """
    return make_text(_topics(), f"topics_bpe_{vocab}", integer("vocab", vocab, 97, 2**15))


def markov(seed: int = 0, *, symbols: int = 12, concentration: float = 0.3) -> MarkovCorpus:
    """Chain of order two whose rows are drawn from a Dirichlet law.

    Parameters
    ----------
    seed : int, default 0
        Seed of the rows, >= 0.
    symbols : int, default 12
        Number of symbols, 2 ... 64.
    concentration : float, default 0.3
        Parameter of the Dirichlet law, > 0; small values make the next symbol easy to guess.

    Returns
    -------
    MarkovCorpus
        With its exact entropy rate.

    Raises
    ------
    ValueError
        If an argument is out of range, or the concentration is so small that the chain falls apart.

    Notes
    -----
    The stationary law is solved densely: O(symbols**6) time, seconds for 64, and ``16 symbols**4`` bytes.

    Examples
    --------
    >>> corpus = markov(seed=1)
    >>> round(corpus.entropy_rate, 6), corpus.sample(2, 5, np.random.default_rng(0)).shape
    (1.543343, (2, 5))
    """
    seed, K = integer("seed", seed, 0), integer("symbols", symbols, 2, 64)
    alpha = positive("concentration", concentration)
    table = np.random.default_rng(seed).dirichlet(np.full(K, alpha), size=(K, K))
    pairs = frozen_array(stationary_pairs(table))
    return MarkovCorpus(f"markov_{K}_{alpha:g}_{seed}", frozen_array(table), pairs, sha256(table))


def relational(
    kind: str = "plain",
    *,
    subjects: int = 100,
    templates: int = 12,
    per_subject: int = 1,
    answers: int = 20,
    seed: int = 0,
) -> RelationalCorpus:
    """Facts about subjects, each told through a few templates, and questions in another form.

    Parameters
    ----------
    kind : {"plain", "unknown", "distractor"}
        What follows a subject and a template that is not its own: nothing is trained, the word "unknown", or
        another answer, drawn once a pair. In the last two the answer depends on the template.
    subjects : int, default 100
        Number of subjects S, >= 2.
    templates : int, default 12
        Number of templates N, >= 1.
    per_subject : int, default 1
        Number of templates M of each subject, 1 ... N, a uniform subset.
    answers : int, default 20
        Number of answers, >= 2, drawn uniformly.
    seed : int, default 0
        Seed of answers, subsets and distractors, >= 0.

    Returns
    -------
    RelationalCorpus
        Facts and questions, two tokens and an answer each.

    Raises
    ------
    ValueError
        If the kind is unknown or a number is out of range.

    Examples
    --------
    >>> corpus = relational(subjects=10, templates=5, per_subject=2, seed=0)
    >>> held_out, covered = corpus.covered([0, 1])
    >>> len(held_out), corpus.own.sum(axis=1).tolist() == [2] * 10
    (8, True)
    """
    one_of("kind", kind, RELATIONAL)
    S, N = integer("subjects", subjects, 2), integer("templates", templates, 1)
    M, K = integer("per_subject", per_subject, 1, N), integer("answers", answers, 2)
    rng = np.random.default_rng(integer("seed", seed, 0))
    right = rng.integers(0, K, size=S)
    own = rng.permuted(np.tile(np.arange(N) < M, (S, 1)), axis=1)
    wrong = rng.integers(0, K - 1, size=(S, N))  # drawn for every kind: they differ in nothing else
    wrong += wrong >= right[:, None]
    first = S + N + 1
    others: dict[str, Any] = {"plain": IGNORED, "unknown": first + K, "distractor": first + wrong}
    told = np.where(own, first + right[:, None], others[kind])
    name = f"relational_{kind}_{S}_{N}_{M}_{K}_{seed}"
    answer, own, told = (frozen_array(array) for array in (first + right, own, told))
    digest = sha256(kind.encode(), answer, own, told)
    return RelationalCorpus(name, kind, answer, own, told, first + K + 1, digest)


@dataclass(frozen=True, eq=False)
class DigitsCorpus:
    """Handwritten digits as sequences of patches.

    Parameters
    ----------
    name : str
        Name with patch size and seed of the split.
    train_x, test_x : ndarray of float32, shape (n, tokens, patch**2)
        Pixels in [-1, 1]; tokens, and pixels within one, in reading order.
    train_y, test_y : ndarray of int64, shape (n,)
        Digits.
    hash : str
        SHA-256 of all of it.

    Examples
    --------
    >>> one = np.zeros((3, 4, 16), np.float32), np.arange(3)
    >>> corpus = DigitsCorpus("toy", *one, *one, "a1")
    >>> corpus.batches(5)(np.random.default_rng(0))[1]
    array([2, 1, 1, 0, 0])
    """

    name: str
    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    hash: str

    def batches(self, batch: int = 64) -> TokenBatches:
        """Draw training images with replacement.

        Parameters
        ----------
        batch : int, default 64
            Number of images, >= 1.

        Returns
        -------
        TokenBatches
            x of shape (batch, tokens, patch**2), y of shape (batch,).
        """
        batch = integer("batch", batch, 1)

        def draw(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
            rows = rng.integers(0, len(self.train_y), size=batch)
            return self.train_x[rows], self.train_y[rows]

        return TokenBatches(draw, self.hash, self.name)

    def windows(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Give the test images.

        Returns
        -------
        x : ndarray of float32, shape (n, tokens, patch**2)
            Copy of `test_x`.
        y : ndarray of int64, shape (n,)
            Copy of `test_y`.
        """
        return self.test_x.copy(), self.test_y.copy()


def digits_patches(seed: int = 0, *, patch: int = 2) -> DigitsCorpus:
    """The 1,797 digits of scikit-learn, 8 x 8 pixels each, cut into square patches.

    Parameters
    ----------
    seed : int, default 0
        Seed of the split into 1,400 for training and 397 for testing, >= 0.
    patch : int, default 2
        Side of a patch: 1, 2 or 4 pixels, so 64, 16 or 4 tokens.

    Returns
    -------
    DigitsCorpus
        Pixels ``value / 8 - 1``, in [-1, 1].

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed.
    ValueError
        If the patch size is none of the three.

    References
    ----------
    Alpaydin and Kaynak 1998, Optical recognition of handwritten digits, UCI Machine Learning Repository,
    doi:10.24432/C50P49.

    Examples
    --------
    >>> digits_patches().train_x.shape  # doctest: +SKIP
    (1400, 16, 4)
    >>> digits_patches(patch=3)
    Traceback (most recent call last):
    ValueError: patch must be 1, 2 or 4, got 3; choose one of them
    """
    if (side := integer("patch", patch, 1)) not in (1, 2, 4):
        raise ValueError(f"patch must be 1, 2 or 4, got {side}; choose one of them")
    order = np.random.default_rng(integer("seed", seed, 0)).permutation(1797)
    data = require("sklearn.datasets", "data").load_digits()
    n = 8 // side
    tiles = data.images.reshape(-1, n, side, n, side).swapaxes(2, 3).reshape(-1, n * n, side * side)
    x, y = (tiles / 8 - 1).astype(np.float32)[order], data.target.astype(np.int64)[order]
    a, b, c, d = (frozen_array(part) for part in (x[:1400], y[:1400], x[1400:], y[1400:]))
    return DigitsCorpus(f"digits_{side}_{seed}", a, b, c, d, sha256(a, b, c, d))


def _topics() -> str:
    from pydoc_data.topics import topics

    return "\n\n".join(topics.values())
