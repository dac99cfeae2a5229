"""Arguments of the coalition kernels: arrays as compiled loops need them, or an error."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer
from porism.kernels._arrays import integers, reals

__all__ = ["by_size", "players", "table"]


def table(name: str, scores: Any, n: int | None = None) -> tuple[NDArray[np.float64], int]:
    """Scores of all coalitions, contiguous, and the number of players."""
    scores = reals(name, scores)
    count = max(scores.size.bit_length() - 1, 0) if n is None else n
    if scores.shape != (1 << count,):
        rule = "(2**n,)" if n is None else f"({1 << n},) as weights are for {n} players"
        raise ValueError(f"{name} must have shape {rule}, got {scores.shape}; pass one score a coalition")
    return scores, count


def by_size(name: str, weights: Any, n: int | None, whole: bool = False) -> NDArray[Any]:
    """Weights by size, of a game of n players or of any: float64, or int64."""
    array: NDArray[Any] = (integers if whole else reals)(name, weights)
    if array.ndim != 1 or (n is not None and array.size != n + 1):
        rule = "(n+1,)" if n is None else f"({n + 1},) for {n} players"
        raise ValueError(f"{name} must have shape {rule}, got {array.shape}; pass one weight a size")
    return array


def players(n: int, i: int, j: int) -> None:
    """Refuse what are not two different players."""
    if integer("i", i, 0, n - 1) == integer("j", j, 0, n - 1):
        raise ValueError(f"i and j must be two different players, got {i} twice; pass two of 0..{n - 1}")
