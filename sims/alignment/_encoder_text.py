"""Windows of real text with a label, and an encoder that has learned the text by filling in masks."""

import dataclasses
import functools
import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, require
from porism.sims.corpora import TokenBatches, topics_bpe
from porism.sims.tiny_transformer import TinyConfig

__all__ = [
    "CANDIDATES",
    "TASKS",
    "Windows",
    "frequent_words",
    "longest_topics",
    "pretrained",
    "windows",
]

VERSION, MERGED = 1, 512
MASK, CLS = MERGED, MERGED + 1
TASKS = ("topic", "token")
CANDIDATES = 8
"""Topics, and words, that a task's two classes are drawn from."""

Ids = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Windows:
    """Token windows, the position that is read, and the class."""

    x: Ids
    position: Ids
    y: Ids

    def tensors(self) -> tuple[Any, Any, Any]:
        """All three as tensors."""
        import torch

        return torch.from_numpy(self.x), torch.from_numpy(self.position), torch.from_numpy(self.y)


@functools.cache
def longest_topics() -> tuple[tuple[str, Ids], ...]:
    """Name and ids of the longest topics, longest first."""
    from pydoc_data.topics import topics

    corpus = topics_bpe(MERGED)
    longest = sorted(topics, key=lambda name: (-len(topics[name]), name))[:CANDIDATES]
    return tuple((name, corpus.encode(topics[name])) for name in longest)


@functools.cache
def frequent_words() -> tuple[int, ...]:
    """Ids of the most frequent tokens that are a space and at least two letters."""
    corpus = topics_bpe(MERGED)
    counts = np.bincount(corpus.ids, minlength=corpus.vocab)
    words = [i for i, s in enumerate(corpus.symbols) if s[0] == " " and len(s) > 2 and s[1:].isalpha()]
    return tuple(sorted(words, key=lambda i: (-counts[i], i))[:CANDIDATES])


def windows(
    task: str, n_train: int, n_test: int, length: int, rng: np.random.Generator
) -> tuple[Windows, Windows]:
    """Two classes drawn from the candidates; training and test windows come from different text.

    A topic's first half gives training windows and its second half test windows, read at the first token. A
    word's occurrences in the first nine tenths of the text give training windows, those in the last tenth
    test windows; the word is masked and its place, uniform in the window, is read.
    """
    pair = sorted(rng.choice(CANDIDATES, 2, replace=False).tolist())
    corpus = topics_bpe(MERGED)
    found = []
    for part, count in ((0, n_train), (1, n_test)):
        rows, places, classes = [], [], []
        for label, choice in enumerate(pair):
            if task == "topic":
                ids = longest_topics()[choice][1]
                half = ids[: len(ids) // 2] if part == 0 else ids[len(ids) // 2 :]
                starts = rng.integers(0, len(half) - length + 2, size=count // 2)
                place = np.zeros(count // 2, dtype=np.int64)
            else:
                half = corpus.train if part == 0 else corpus.validation
                where = np.flatnonzero(half == frequent_words()[choice])
                where = where[(where >= length) & (where < len(half) - length)]
                occurrences = rng.choice(where, count // 2, replace=len(where) < count // 2)
                place = rng.integers(1, length, size=count // 2)
                starts = occurrences - (place - 1)
            body = half[starts[:, None] + np.arange(length - 1)]
            row = np.concatenate([np.full((count // 2, 1), CLS), body], axis=1)
            if task == "token":
                row[np.arange(len(row)), place] = MASK
            rows.append(row)
            places.append(place)
            classes.append(np.full(count // 2, label))
        found.append(Windows(np.concatenate(rows), np.concatenate(places), np.concatenate(classes)))
    return found[0], found[1]


def pretrained(width: int, length: int, steps: int, seed: int, batch: int = 32, lr: float = 2e-3) -> Any:
    """The encoder and its training run: from the cache where it is, else trained and put there."""
    length = integer("length", length, 4)
    steps, seed = integer("pretrain_steps", steps, 1), integer("pretrain_seed", seed, 0)
    torch = require("torch", "torch")
    require("safetensors", "hf")
    from porism.sims._recipes import remember
    from porism.sims.fit import FitResult, cache_dir, fit
    from porism.sims.tiny_transformer import TinyTransformer

    corpus = topics_bpe(MERGED)
    config = TinyConfig(vocab=MERGED + 2, d=width, layers=2, heads=4, max_len=length, causal=False)
    parts = [
        VERSION,
        config.to_json(),
        steps,
        batch,
        lr,
        seed,
        corpus.hash,
        torch.__version__.partition("+")[0],
    ]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    path = cache_dir() / "checkpoints" / f"topics_masked-{width}-{seed}-{key}.safetensors"
    try:
        return TinyTransformer.load(path), FitResult.load(path.with_suffix(".npz"))
    except (OSError, ValueError):
        pass
    model = TinyTransformer(config, seed)

    def draw(rng: np.random.Generator) -> tuple[Ids, Ids]:
        return _masked(corpus.train, rng, batch, length)

    held_out = _masked(corpus.validation, np.random.default_rng(1), 128, length)

    def validation(m: Any) -> float:
        x, y = (torch.from_numpy(part) for part in held_out)
        return float(torch.nn.functional.cross_entropy(m(x).flatten(0, 1), y.flatten()))

    batches = TokenBatches(draw, corpus.hash, corpus.name)
    result = fit(model, batches, steps=steps, lr=lr, rng=seed, eval_fn=validation)
    remember(path, model, result)
    return model, result


def _masked(part: Ids, rng: np.random.Generator, batch: int, length: int) -> tuple[Ids, Ids]:
    """Windows after a first token of their own; 15 % of the rest are masked, and only they are scored."""
    starts = rng.integers(0, len(part) - length + 2, size=batch)
    ids = np.concatenate([np.full((batch, 1), CLS), part[starts[:, None] + np.arange(length - 1)]], axis=1)
    chosen = rng.random(ids.shape) < 0.15
    chosen[:, 0] = False
    return np.where(chosen, MASK, ids), np.where(chosen, ids, -100)
