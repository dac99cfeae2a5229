"""Which masses change places under a null, drawing such matrices, and the moments of their values."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of

__all__ = [
    "CHUNK",
    "NULLS",
    "TOLERANCE",
    "Shuffle",
    "admissible_cells",
    "fixed_nulls",
    "judge",
    "shuffle_of",
    "strip_sinks",
]

NULLS = ("rows", "columns", "entries", "symmetric_entries", "rows_without_sinks(k)")
CHUNK = 2**22
"""Cells of shuffled matrices held at a time."""

TOLERANCE = 1e-12
"""A null within this of the observed mass outside counts as no larger: for constant masks all are equal."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shuffle:
    """Masses (m, n), and the groups of flat cell indices within which they are permuted.

    With `mirrored`, the first group holds cells above the diagonal, and those below follow them.
    """

    masses: Array
    groups: tuple[NDArray[np.intp], ...]
    mirrored: bool = False

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Independent shuffles (count, m, n)."""
        m, n = self.masses.shape
        flat = self.masses.ravel()
        out = np.repeat(flat[None], count, axis=0)
        by_size: dict[int, list[NDArray[np.intp]]] = {}
        for group in self.groups:
            by_size.setdefault(group.size, []).append(group)
        for size, groups in by_size.items():
            if size > 1:
                cells = np.stack(groups)
                out[:, cells] = rng.permuted(np.repeat(flat[cells][None], count, axis=0), axis=2)
        out = out.reshape(count, m, n)
        if self.mirrored:
            i, j = np.triu_indices(n, 1)
            out[:, j, i] = out[:, i, j]
        return out

    def moments(self, W: Array) -> tuple[float, float]:
        """Mean and variance of ``sum(W * shuffled)`` over all shuffles.

        A group pairs its weights with its masses by a uniform permutation: mean ``c mean(w) mean(b)``,
        variance ``sum (w - mean w)^2 sum (b - mean b)^2 / (c - 1)``. Groups are independent.
        """
        weights = W + np.triu(W.T, 1) if self.mirrored else W
        w, b = weights.ravel(), self.masses.ravel()
        moved = np.zeros(b.size, dtype=bool)
        mean = variance = 0.0
        for group in self.groups:
            x, y = w[group], b[group]
            moved[group] = True
            mean += x.mean() * y.sum()
            if group.size > 1:
                variance += ((x - x.mean()) ** 2).sum() * ((y - y.mean()) ** 2).sum() / (group.size - 1)
        if self.mirrored:
            moved[:] = True
        return float(mean + w[~moved] @ b[~moved]), float(variance)


def shuffle_of(null: str, B: Array, admissible: NDArray[np.bool_] | None, mass: str) -> Shuffle:
    """The null by its name, on masses that sum to 1; sinks are stripped first where the name says so."""
    found = re.fullmatch(r"rows_without_sinks\((\d+)\)", null) if isinstance(null, str) else None
    m, n = B.shape
    cells = np.ones((m, n), dtype=bool) if admissible is None else admissible
    if found:
        B, gone = strip_sinks(B, int(found[1]), mass)
        cells, null = cells & ~gone, "rows"
    one_of("null", null, NULLS)
    if admissible is not None and B[~admissible].any():
        i, j = (int(k) for k in np.argwhere((B > 0) & ~admissible)[0])
        raise ValueError(
            f"A must vanish outside the admissible cells, but does not at [{i}, {j}]; widen them"
        )
    index = np.arange(m * n).reshape(m, n)
    if null == "symmetric_entries":
        if m != n or not np.allclose(B, B.T, rtol=0, atol=1e-12 * float(B.max())):
            raise ValueError(
                "null='symmetric_entries' needs |A| symmetric, got one that is not; use 'entries'"
            )
        if not np.array_equal(cells, cells.T):
            raise ValueError("null='symmetric_entries' needs symmetric admissible cells; use 'entries'")
        upper = index[np.triu(cells, 1)]
        return Shuffle((B + B.T) / 2, (upper, np.diag(index)[np.diag(cells)]), True)
    if null == "entries":
        groups = [index[cells]]
    elif null == "rows":
        groups = [index[i, cells[i]] for i in range(m)]
    else:
        groups = [index[cells[:, j], j] for j in range(n)]
    return Shuffle(B, tuple(group for group in groups if group.size))


def strip_sinks(B: Array, k: int, mass: str) -> tuple[Array, NDArray[np.bool_]]:
    """Empty the k heaviest columns and give each row of |A| its former sum; ties go to the left column.

    Returns masses that sum to 1, and which columns were emptied. A row with nothing left stays empty.
    """
    n = B.shape[1]
    if not 1 <= k < n:
        raise ValueError(f"the number of sinks must be in 1..{n - 1}, got {k}; leave a column to look at")
    gone = np.zeros(n, dtype=bool)
    gone[np.argsort(-B.sum(0), kind="stable")[:k]] = True
    a = np.sqrt(B) if mass == "squared" else B.copy()
    before = a.sum(1, keepdims=True)
    a[:, gone] = 0
    after = a.sum(1, keepdims=True)
    a *= np.divide(before, after, out=np.zeros_like(before), where=after > 0)
    masses = a * a if mass == "squared" else a
    total = masses.sum()
    if total == 0:
        raise ValueError(
            f"A has zero mass: the distance is undefined without its {k} heaviest columns; strip fewer"
        )
    return masses / total, gone


def admissible_cells(value: Any, shape: tuple[int, int]) -> NDArray[np.bool_] | None:
    """None, "causal" (j <= i) or a boolean array, as an array or None."""
    if value is None:
        return None
    if isinstance(value, str):
        one_of("admissible", value, ("causal",))
        return np.tri(*shape, dtype=bool)
    cells = np.asarray(value)
    if cells.dtype != bool or cells.shape != shape:
        raise ValueError(
            f"admissible must be None, 'causal' or a bool array of shape {shape}, got "
            f"{cells.dtype} {cells.shape}"
        )
    return cells


def judge(observed: float, nulls: Array) -> tuple[float, float]:
    """P-value and effect of an observed value among those of a null."""
    p_value = float((1 + (nulls <= observed + TOLERANCE).sum()) / (1 + nulls.size))
    mean = math.fsum(nulls) / nulls.size
    return p_value, 1.0 - observed / mean if mean > 0 else 0.0


def fixed_nulls(
    shuffle: Shuffle, W: NDArray[np.float64], count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Values (count, k) of shuffled matrices at fixed order, for k penalties (k, m, n)."""
    flat = W.reshape(len(W), -1).T
    step = max(1, CHUNK // flat.shape[0])
    parts = [
        shuffle.draw(rng, min(step, count - begun)).reshape(-1, flat.shape[0]) @ flat
        for begun in range(0, count, step)
    ]
    return np.concatenate(parts)
