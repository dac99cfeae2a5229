"""Exact arithmetic on floating-point scores: every double is an integer times a power of two.

Scores are written as ``x = 2^e * sum_k limb_k 2^(31 k)`` with signed 31-bit limbs, so that sums over
2^28 coalitions stay inside int64 and one Python integer a limb is all that is left to combine.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Grid", "exact_dot", "rational", "size_sums"]

Number = int | float | str | Fraction

BITS = 31
CHUNK = 1 << 18


class Grid:
    """The coarsest dyadic grid that holds all given finite doubles exactly.

    Parameters
    ----------
    x : float64 array
        Finite numbers.

    Examples
    --------
    >>> grid = Grid(np.array([0.5, 3.0]))
    >>> grid.fraction([7]), grid.limbs(np.array([0.5, 3.0])).tolist()
    (Fraction(7, 2), [[1, 6]])
    """

    def __init__(self, x: NDArray[np.float64]) -> None:
        low, high = 1100, -1100
        for part in _chunks(x):
            part = part[part != 0]
            if part.size:
                mantissa, exponent = np.frexp(part)
                whole = (mantissa * 2.0**53).astype(np.int64)
                trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
                low = min(low, int((exponent - 53 + trailing).min()))
                high = max(high, int(exponent.max()))
        self.exponent = low if high > low else 0
        self.count = max(1, -(-(high - low) // BITS))

    def limbs(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Signed limbs of numbers on the grid, shape (count, len(x)), lowest first."""
        out = np.empty((self.count, x.size), np.int64)
        rest = x.astype(np.float64)
        for k in range(self.count - 1, -1, -1):
            shift = self.exponent + BITS * k
            out[k] = np.trunc(np.ldexp(rest, -shift)).astype(np.int64) if k else np.ldexp(rest, -shift)
            rest = rest - np.ldexp(out[k].astype(np.float64), shift)
        return out

    def fraction(self, sums: list[int]) -> Fraction:
        """The rational whose limb sums are given."""
        total = sum(int(value) << (BITS * k) for k, value in enumerate(sums))
        return (
            Fraction(total << self.exponent) if self.exponent >= 0 else Fraction(total, 1 << -self.exponent)
        )

    def integers(self, x: NDArray[np.float64]) -> NDArray[Any]:
        """Numbers in units of ``2**exponent``: int64, or Python integers where they are wider."""
        limbs = self.limbs(x)
        if self.count <= 2:
            return np.asarray(limbs[0] + (limbs[-1] << BITS if self.count == 2 else 0))
        return sum((v.astype(object) << (BITS * k) for k, v in enumerate(limbs)), np.zeros(x.size, object))


def rational(name: str, value: Number) -> Fraction:
    """A finite number as the exact rational it is; strings such as "1/3" as written."""
    plain = (
        value.item() if isinstance(value, np.generic) else value
    )  # Fractions of NumPy integers can overflow
    if isinstance(plain, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        if isinstance(plain, str) and len(plain.lower().partition("e")[2].strip()) > 5:
            raise ValueError  # 1e999999999 would be written out
        return Fraction(plain.strip()) if isinstance(plain, str) else Fraction(plain)
    except TypeError:
        raise TypeError(f"{name} must be a number or a fraction such as '1/3', got {value!r}") from None
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(
            f"{name} must be finite, a number or a fraction such as '1/3', got {value!r}"
        ) from None


def size_sums(scores: NDArray[np.float64], n: int) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Exact sums of scores: ``[i][s]`` over coalitions of size s with i, and ``[s]`` over all of size s."""
    from porism.kernels.coalition import size_totals

    grid = Grid(scores)
    totals = np.zeros((grid.count, n + 1, n + 1), np.int64)
    for start in range(0, scores.size, CHUNK):
        limbs = grid.limbs(scores[start : start + CHUNK])
        for k in range(grid.count):
            size_totals(limbs[k], start, totals[k])
    table = [[grid.fraction(list(totals[:, i, s])) for s in range(n + 1)] for i in range(n + 1)]
    return table[:n], table[n]


def exact_dot(weights: NDArray[np.int64], x: NDArray[np.float64]) -> Fraction:
    """Exact ``sum_t w_t x_t`` of integers, as 32-bit limbs (count, len) lowest first, with doubles."""
    grid, total = Grid(x), 0
    for start in range(0, x.size, 1 << 14):  # 16 + 31 + 14 bits stay below 63
        limbs = grid.limbs(x[start : start + (1 << 14)])
        for w, row in enumerate(weights[:, start : start + (1 << 14)]):
            for shift in (0, 16, 32, 48):
                piece = row >> 48 if shift == 48 else (row >> shift) & 0xFFFF
                if piece.any():
                    for k, limb in enumerate(limbs):
                        total += int(piece @ limb) << (BITS * k + 32 * w + shift)
    return grid.fraction([total])


def _chunks(x: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    for start in range(0, max(x.size, 1), CHUNK):
        yield x[start : start + CHUNK]
