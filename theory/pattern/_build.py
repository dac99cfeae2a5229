"""What the constructors of masks share: index grids and checks of their arguments."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer
from porism.theory.pattern.mask import Mask

__all__ = ["count", "grid", "integers", "make", "members", "sizes", "width"]


def grid(m: int, n: int | None = None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    rows = integer("n" if n is None else "m", m, 1)
    return np.arange(rows)[:, None], np.arange(rows if n is None else integer("n", n, 1))


def make(name: str, S: NDArray[np.bool_], **params: Any) -> Mask:
    whole = {key: int(value) if isinstance(value, np.integer) else value for key, value in params.items()}
    return Mask(S.astype(np.float64), name, whole)


def width(w: int, n: int) -> int:
    if not 0 <= integer("w", w) <= n - 1:
        raise ValueError(f"bandwidth w must be in 0..n-1, got w={w}, n={n}; choose a value in that range")
    return w


def count(k: int, n: int) -> int:
    if not 1 <= integer("k", k) <= n:
        raise ValueError(f"k must be in 1..n, got k={k}, n={n}; choose a value in that range")
    return k


def integers(name: str, values: Iterable[int], low: int, high: int | None = None) -> tuple[int, ...]:
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of ints, got {values!r}; put it into a list")
    return tuple(integer(name, value, low, high) for value in values)


def sizes(name: str, values: Iterable[int]) -> tuple[int, ...]:
    checked = integers(name, values, 1)
    if not checked:
        raise ValueError(f"{name} must name at least one block, got none; pass the size of each block")
    return checked


def members(name: str, values: Iterable[int], low: int, high: int) -> tuple[int, ...]:
    return tuple(sorted(set(integers(name, values, low, high))))
