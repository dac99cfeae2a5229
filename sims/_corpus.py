"""What the corpora share: batches that know where they come from, and text as ids."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer

__all__ = ["TextCorpus", "TokenBatches", "frozen_array", "learn_merges", "sha256", "to_ascii"]

Pair = tuple[int, int]
Draw = Callable[[np.random.Generator], tuple[NDArray[Any], NDArray[Any]]]

SYMBOLS = ("\n", *map(chr, range(32, 127)))
"""The 96 symbols of text: id 0 is the newline, then ASCII 32 ... 126."""

_TYPOGRAPHIC = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "…": "...", "—": "-", "–": "-", "ß": "ss", "°": " deg"}
)
_WORD = re.compile(r" ?\S+|\s+")


@dataclass(frozen=True)
class TokenBatches:
    """Random batches of a corpus: call it with a generator.

    Parameters
    ----------
    draw : callable ``Generator -> (x, y)``
        Draws one batch.
    corpus_hash : str
        SHA-256 of the corpus.
    tokenizer : str
        Name of the way in which its tokens are made.

    Examples
    --------
    >>> batches = TokenBatches(lambda rng: (rng.integers(5, size=3), np.zeros(3)), "a1", "digits")
    >>> batches(np.random.default_rng(0))[0]
    array([4, 3, 2])
    """

    draw: Draw
    corpus_hash: str = ""
    tokenizer: str = ""

    def __call__(self, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.draw(rng)


@dataclass(frozen=True, eq=False)
class TextCorpus:
    """A text as token ids, the first nine tenths of its characters for training, the rest for validation.

    Parameters
    ----------
    name : str
        Name of text and tokenizer.
    ids : ndarray of int64, shape (n,)
        The whole text.
    cut : int
        Number of ids that belong to the training part.
    symbols : tuple of str
        Text of each id; the first 96 are single characters.
    merges : tuple of pair of int
        Pairs that ids from 96 on stand for.
    hash : str
        SHA-256 of the text, after it was mapped to ASCII.

    Examples
    --------
    >>> corpus = text_corpus("A cat sat on a mat. " * 20)
    >>> corpus.decode(corpus.ids[:5]), corpus.cut
    ('A cat', 360)
    """

    name: str
    ids: NDArray[np.int64]
    cut: int
    symbols: tuple[str, ...]
    merges: tuple[Pair, ...]
    hash: str

    @property
    def vocab(self) -> int:
        """Number of token ids."""
        return len(self.symbols)

    @property
    def train(self) -> NDArray[np.int64]:
        """Training part."""
        return self.ids[: self.cut]

    @property
    def validation(self) -> NDArray[np.int64]:
        """Validation part."""
        return self.ids[self.cut :]

    @property
    def characters_per_token(self) -> float:
        """Mean number of characters of a token of the whole text."""
        return float(np.array([len(symbol) for symbol in self.symbols])[self.ids].mean())

    def encode(self, text: str) -> NDArray[np.int64]:
        """Turn a text into ids.

        Parameters
        ----------
        text : str
            Any text; it is mapped to ASCII first, what has no counterpart becomes "?".

        Returns
        -------
        ndarray of int64, shape (n,)
            Ids.
        """
        text = to_ascii(text)
        if not self.merges:
            return _ids(text)
        rank = {pair: i for i, pair in enumerate(self.merges)}
        known: dict[str, list[int]] = {}
        for word in set(_WORD.findall(text)):
            ids = _ids(word).tolist()
            while len(ids) > 1:
                first = min(pairwise(ids), key=lambda pair: rank.get(pair, len(rank)))
                if first not in rank:
                    break
                ids = _join(ids, first, len(SYMBOLS) + rank[first])
            known[word] = ids
        return np.array([i for word in _WORD.findall(text) for i in known[word]], dtype=np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into a text.

        Parameters
        ----------
        ids : iterable of int
            Ids below `vocab`.

        Returns
        -------
        str
            Text.

        Raises
        ------
        ValueError
            If an id is out of range.
        """
        wanted = [int(i) for i in ids]
        if wanted and not 0 <= min(wanted) <= max(wanted) < self.vocab:
            got = f"{min(wanted)}..{max(wanted)}"
            raise ValueError(f"ids must be in 0..{self.vocab - 1}, got {got}; encode with the same corpus")
        return "".join(self.symbols[i] for i in wanted)

    def batches(self, batch: int = 16, length: int = 128) -> TokenBatches:
        """Draw windows of the training part.

        Parameters
        ----------
        batch : int, default 16
            Number of windows, >= 1.
        length : int, default 128
            Tokens a window, >= 1.

        Returns
        -------
        TokenBatches
            x and y of shape (batch, length) each, y one token later; starts are uniform.

        Raises
        ------
        ValueError
            If the training part is not longer than a window.
        """
        batch, length = integer("batch", batch, 1), self._fits(length, self.train)

        def draw(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
            return _windows(self.train, rng.integers(0, len(self.train) - length, size=batch), length)

        return TokenBatches(draw, self.hash, self.name)

    def windows(self, length: int = 128, count: int = 64) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cut the fixed windows of the validation part.

        Parameters
        ----------
        length : int, default 128
            Tokens a window, >= 1.
        count : int, default 64
            Number of windows, >= 1; their starts are drawn from seed 1.

        Returns
        -------
        x, y : ndarray of int64, shape (count, length)
            Inputs, and the same one token later.

        Raises
        ------
        ValueError
            If the validation part is not longer than a window.
        """
        part, length = self.validation, self._fits(length, self.validation)
        starts = np.random.default_rng(1).integers(0, len(part) - length, size=integer("count", count, 1))
        return _windows(part, starts, length)

    def _fits(self, length: int, part: NDArray[np.int64]) -> int:
        if integer("length", length, 1) >= len(part):
            raise ValueError(
                f"length must be below the {len(part)} tokens of the part it is cut from, got {length}; "
                "take shorter windows or a longer text"
            )
        return length


def _windows(ids: NDArray[np.int64], starts: NDArray[np.int64], length: int) -> Any:
    window = ids[starts[:, None] + np.arange(length + 1)]
    return window[:, :-1], window[:, 1:]


def to_ascii(text: str) -> str:
    """Map a text to the 96 symbols."""
    text = text.translate(_TYPOGRAPHIC)
    return "".join(c if c == "\n" or " " <= c <= "~" else "?" for c in text)


def _ids(text: str) -> NDArray[np.int64]:
    codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8).astype(np.int64)
    return np.maximum(codes - 31, 0)


def make_text(text: str, name: str, vocab: int) -> TextCorpus:
    """Make a corpus of characters, or of byte pairs where `vocab` exceeds their number."""
    text = to_ascii(text)
    cut = int(0.9 * len(text))
    symbols, ids = list(SYMBOLS), _ids(text)
    merges: tuple[Pair, ...] = ()
    if vocab > len(SYMBOLS):
        words = _WORD.findall(text)
        merges, pieces = learn_merges(Counter(words), vocab)
        symbols += [""] * len(merges)
        for new, (a, b) in enumerate(merges, len(SYMBOLS)):
            symbols[new] = symbols[a] + symbols[b]
        ids = np.array([i for word in words for i in pieces[word]], dtype=np.int64)
        ends = np.cumsum(np.array([len(symbol) for symbol in symbols])[ids])
        cut = int(np.searchsorted(ends, cut, side="right"))
    return TextCorpus(name, frozen_array(ids), cut, tuple(symbols), merges, sha256(text.encode()))


def learn_merges(words: Counter[str], vocab: int) -> tuple[tuple[Pair, ...], dict[str, list[int]]]:
    """Merge the most frequent pair within words, ties to the smaller ids, until there are `vocab` ids."""
    pieces = {word: _ids(word).tolist() for word in words}
    counts: Counter[Pair] = Counter()
    where: dict[Pair, set[str]] = defaultdict(set)

    def count(word: str, sign: int) -> None:
        ids = pieces[word]
        for pair in pairwise(ids):
            counts[pair] += sign * words[word]
            where[pair].add(word)

    for word in words:
        count(word, 1)
    merges: list[Pair] = []
    for new in range(len(SYMBOLS), vocab):
        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=(0, 0))
        if counts[pair] <= 0:
            raise ValueError(f"vocab must be <= {new} for so short a text, got {vocab}; no pair is left")
        merges.append(pair)
        for word in where.pop(pair):
            if pair in pairwise(pieces[word]):
                count(word, -1)
                pieces[word] = _join(pieces[word], pair, new)
                count(word, 1)
        del counts[pair]
    return tuple(merges), pieces


def _join(ids: list[int], pair: Pair, new: int) -> list[int]:
    out, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


def frozen_array(values: NDArray[Any]) -> NDArray[Any]:
    """Forbid writing to an array that many share."""
    values.flags.writeable = False
    return values


def sha256(*parts: bytes | NDArray[Any]) -> str:
    """Hash bytes and arrays, the latter with shape and in little-endian order."""
    state = hashlib.sha256()
    for part in parts:
        if isinstance(part, bytes):
            state.update(part)
        else:
            state.update(f"{part.dtype.name}{part.shape}".encode())
            state.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).tobytes())
    return state.hexdigest()
