"""Paired runs of the linear layer: the same data and head, a different start."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.alignment.fewshot import LoraPath, lora_start, random_head, train_lora
from porism.sims.alignment.spiked import ClassTask

__all__ = ["CHUNK", "WIDTH", "accuracies", "nuisance_spectrum", "paired_runs", "standard_error"]

Floats = NDArray[np.float64]

WIDTH = 32
"""Outputs of the layer."""

CHUNK = 64
"""Runs trained side by side: bounds memory at about CHUNK n d numbers."""


def nuisance_spectrum(rng: np.random.Generator, most: int = 12) -> Floats:
    """Up to `most` strengths ``top j^-p``: their number uniform, top log-uniform in 1..40, p in 0..1."""
    k = int(rng.integers(0, most + 1))
    top, power = float(np.exp(rng.uniform(0, np.log(40)))), float(rng.uniform())
    return top * np.arange(1, k + 1, dtype=np.float64) ** -power


def paired_runs(
    tasks: Sequence[ClassTask],
    r: int,
    kinds: Sequence[str],
    rngs: Sequence[np.random.Generator],
    **options: Any,
) -> dict[str, list[LoraPath]]:
    """Train every task from every kind of start; tasks have one shape, and one head and generator each."""
    C = len(tasks[0].means)
    heads = np.stack([random_head(C, WIDTH, rng) for rng in rngs])
    starts = {
        kind: [lora_start(kind, t.x, r, random_state=rng) for t, rng in zip(tasks, rngs, strict=True)]
        for kind in kinds
    }
    x, y = np.stack([t.x for t in tasks]), np.stack([t.y for t in tasks])
    found: dict[str, list[LoraPath]] = {kind: [] for kind in kinds}
    for kind in kinds:
        a = np.stack(starts[kind])
        for i in range(0, len(tasks), CHUNK):
            part = slice(i, i + CHUNK)
            found[kind].append(train_lora(x[part], y[part], a[part], heads[part], **options))
    return found


def accuracies(tasks: Sequence[ClassTask], paths: Sequence[LoraPath]) -> Floats:
    """Population accuracy at every recorded step, shape (tasks, k)."""
    rows, i = [], 0
    for path in paths:
        weights = path.weights()
        for j in range(weights.shape[1]):
            rows.append([tasks[i].accuracy(w, path.bias[j]) for w in weights[:, j]])
            i += 1
    return np.array(rows)


def standard_error(values: Floats, axis: int = 0) -> Floats:
    """Standard error of the mean."""
    return np.asarray(np.std(values, axis=axis, ddof=1) / np.sqrt(values.shape[axis]))
