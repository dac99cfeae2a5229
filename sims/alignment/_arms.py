"""Paired runs of the linear layer: the same data and head, a different start."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer
from porism.sims.alignment.fewshot import LoraPath, lora_start, random_head, train_lora
from porism.sims.alignment.spiked import ClassTask

__all__ = [
    "CHUNK",
    "WIDTH",
    "accuracies",
    "even",
    "nuisance_spectrum",
    "paired",
    "paired_runs",
    "stacked",
    "standard_error",
]

Floats = NDArray[np.float64]

WIDTH = 32
"""Outputs of the layer."""

CHUNK = 64
"""Runs trained side by side: bounds memory at about CHUNK n d numbers."""


def even(name: str, value: Any, low: int = 2) -> int:
    """Accept an even number of rows."""
    number = integer(name, value, low)
    if number % 2:
        raise ValueError(f"{name} must be even, got {number}; half of the rows are of each class")
    return number


def nuisance_spectrum(rng: np.random.Generator, most: int = 12) -> Floats:
    """Up to `most` strengths ``top j^-p``: their number uniform, top log-uniform in 1..40, p in 0..1."""
    k = int(rng.integers(0, most + 1))
    top, power = float(np.exp(rng.uniform(0, np.log(40)))), float(rng.uniform())
    return top * np.arange(1, k + 1, dtype=np.float64) ** -power


def stacked(
    tasks: Sequence[ClassTask], r: int, kinds: Sequence[str], rngs: Sequence[np.random.Generator]
) -> tuple[Floats, NDArray[np.int64], Floats, dict[str, Floats]]:
    """Rows, classes, heads and starts of tasks of one shape, each with a generator of its own."""
    heads = np.stack([random_head(len(tasks[0].means), WIDTH, rng) for rng in rngs])
    starts = {
        kind: np.stack(
            [lora_start(kind, t.x, r, random_state=rng) for t, rng in zip(tasks, rngs, strict=True)]
        )
        for kind in kinds
    }
    return np.stack([t.x for t in tasks]), np.stack([t.y for t in tasks]), heads, starts


def paired_runs(
    tasks: Sequence[ClassTask],
    r: int,
    kinds: Sequence[str],
    rngs: Sequence[np.random.Generator],
    **options: Any,
) -> dict[str, list[LoraPath]]:
    """Train every task from every kind of start, with the same rows and head."""
    x, y, heads, starts = stacked(tasks, r, kinds, rngs)
    parts = [slice(i, i + CHUNK) for i in range(0, len(tasks), CHUNK)]
    return {
        kind: [train_lora(x[part], y[part], a[part], heads[part], **options) for part in parts]
        for kind, a in starts.items()
    }


def accuracies(tasks: Sequence[ClassTask], paths: Sequence[LoraPath]) -> Floats:
    """Population accuracy at every recorded step, shape (tasks, k)."""
    runs = [run for path in paths for run in zip(path.weights().swapaxes(0, 1), path.bias, strict=True)]
    return np.array(
        [
            [task.accuracy(w, bias) for w in weights]
            for task, (weights, bias) in zip(tasks, runs, strict=True)
        ]
    )


def standard_error(values: Floats, axis: int = 0) -> Floats:
    """Standard error of the mean."""
    return np.asarray(np.std(values, axis=axis, ddof=1) / np.sqrt(values.shape[axis]))


def paired(values: Floats, base: int) -> dict[str, Floats]:
    """Each row of values (k, runs) less the row `base`, in the mean with its error, and runs won and lost."""
    gap = values - values[base]
    return {
        "difference": gap.mean(axis=1),
        "difference_se": standard_error(gap, axis=1),
        "won": (gap > 0).sum(axis=1),
        "lost": (gap < 0).sum(axis=1),
    }
