"""Orders of the groups that leave a mask as it is: closed forms, and a search for all other masks.

The search is the stabiliser chain of individualisation and refinement: colour refinement along a base, then,
from the deepest level up, one search for every image of a base point that the generators found so far do not
reach. The order is the product of the orbit lengths.

References
----------
McKay and Piperno (2014), "Practical graph isomorphism, II", doi:10.1016/j.jsc.2013.09.003.
"""

from collections import Counter
from collections.abc import Callable
from math import factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.theory.pattern import masks
from porism.theory.pattern.mask import Mask

__all__ = ["aut_order", "count"]

WORK = 500_000_000
"""Matrix cells the search may look at before it gives up; a few seconds."""

Index = NDArray[np.intp]


def aut_order(mask: Mask, mode: str) -> int | None:
    """Order of the group of pairs (mode "independent") or of single permutations (mode "common")."""
    order = _CLOSED[mask.name](common=mode == "common", **mask.params) if _of_its_family(mask) else None
    return count(mask.S, mode) if order is None else order


def _of_its_family(mask: Mask) -> bool:
    """Whether name and parameters say what the mask is: a user may give any to any weights."""
    try:
        return mask.name in _CLOSED and mask == getattr(masks, mask.name)(**mask.params)
    except (TypeError, ValueError):
        return False


# ---- closed forms; None where the family has none


def _band(n: int, w: int, common: bool) -> int:
    if w == 0:
        return factorial(n)
    if w == n - 1:
        return _full(n, common)
    return 2 * _power(factorial(max(1, 2 * w + 2 - n)), common)


def _circulant_band(n: int, w: int, common: bool) -> int:
    if w == 0:
        return factorial(n)
    if 2 * w + 1 >= n:
        return _full(n, common)
    if 2 * w + 1 == n - 1:  # the free cells of each row but one: i and i + n/2 are apart
        return 2 ** (n // 2) * factorial(n // 2) if common else factorial(n)
    return 2 * n


def _block_diagonal(row_sizes: tuple[int, ...], col_sizes: tuple[int, ...], common: bool) -> int | None:
    shapes = Counter(zip(row_sizes, col_sizes, strict=True))
    swaps = prod(factorial(times) for times in shapes.values())
    if common:
        return prod(map(factorial, row_sizes)) * swaps if row_sizes == col_sizes else None
    return prod(map(factorial, row_sizes + col_sizes)) * swaps


def _arrowhead(n: int, k: int, common: bool) -> int:
    return _full(n, common) if k >= n - 1 else _power(factorial(k), common) * factorial(n - k)


def _hub(n: int, k: int, common: bool) -> int:
    return _power(factorial(k) * factorial(n - k), common)


def _lower_triangular(n: int, common: bool) -> int:
    return 1


def _staircase(m: int, n: int, heights: tuple[int, ...], common: bool) -> int | None:
    rows = Counter(heights)
    columns = Counter(sum(height > j for height in heights) for j in range(n))
    order = prod(factorial(times) for times in (*rows.values(), *columns.values()))
    return order if not common or order == 1 else None


def _anti_diagonal(n: int, common: bool) -> int:
    return 2 ** (n // 2) * factorial(n // 2) if common else factorial(n)


def _bipartite(a: int, b: int, common: bool) -> int:
    return _power(factorial(a) * factorial(b), common) * (2 if a == b else 1)


def _checkerboard(m: int, n: int, common: bool) -> int:
    columns = factorial(n // 2) * factorial((n + 1) // 2)
    if common:
        return columns * (1 if n % 2 else 2)
    return factorial(m // 2) * factorial((m + 1) // 2) * columns * (1 if m % 2 or n % 2 else 2)


def _sink(m: int, n: int, k: int, common: bool) -> int:
    return (1 if common else factorial(m)) * factorial(k) * factorial(n - k)


def _full(n: int, common: bool) -> int:
    return _power(factorial(n), common)


def _power(order: int, common: bool) -> int:
    return order if common else order**2


_CLOSED: dict[str, Callable[..., int | None]] = {
    "anti_diagonal": _anti_diagonal,
    "arrowhead": _arrowhead,
    "band": _band,
    "bipartite": _bipartite,
    "block_diagonal": _block_diagonal,
    "checkerboard": _checkerboard,
    "circulant_band": _circulant_band,
    "hub": _hub,
    "lower_triangular": _lower_triangular,
    "sink": _sink,
    "staircase": _staircase,
}


# ---- the search


def count(S: NDArray[np.float64], mode: str, work: int = WORK) -> int | None:
    """Order of the group of any mask, or None if that takes more than `work` cells.

    In mode "independent" equal rows, and equal columns, are first drawn together: the group is that of the
    reduced mask, which keeps multiplicities, times the permutations inside each class.
    """
    if mode == "common":
        codes = _codes(S)
        pairs = _codes(codes * (codes.max() + 1) + codes.T)
        return _Search(pairs, _codes(np.diag(S)), work).order()
    rows, row_times = np.unique(S, axis=0, return_counts=True)
    columns, column_times = np.unique(rows.T, axis=0, return_counts=True)
    reduced = columns.T
    m, n = reduced.shape
    pairs = np.zeros((m + n, m + n), dtype=np.intp)
    pairs[:m, m:] = _codes(reduced) + 1
    pairs[m:, :m] = pairs[:m, m:].T
    kinds = _codes(np.r_[row_times, -column_times])
    order = _Search(pairs, kinds, work).order()
    twins = prod(factorial(int(times)) for times in (*row_times, *column_times))
    return None if order is None else order * twins


class _TooLong(Exception):
    pass


class _Search:
    """Permutations g of 0..N-1 with ``pairs[g][:, g] == pairs`` and ``kinds[g] == kinds``."""

    def __init__(self, pairs: Index, kinds: Index, work: int) -> None:
        self.pairs, self.kinds, self.work = pairs, kinds, work
        self.size = len(pairs)

    def order(self) -> int | None:
        try:
            return self._order()
        except _TooLong:
            return None

    def _order(self) -> int:
        base: list[int] = []
        colours = [self._refine(self.kinds)]
        while (cell := _first_cell(colours[-1])) is not None:
            base.append(int(cell[0]))
            colours.append(self._refine(_single_out(colours[-1], base[-1])))
        generators: list[Index] = []
        order = 1
        for level in reversed(range(len(base))):
            point, colour = base[level], colours[level]
            orbit, missed = _orbit({point}, generators), set[int]()
            for image in np.flatnonzero(colour == colour[point]).tolist():
                if image in orbit or image in missed:
                    continue
                found = self._swap(point, image)  # most images are twins of the point
                if found is None:
                    found = self._map(colour, colour, point, image)
                if found is None:
                    missed |= _orbit({image}, generators)
                else:
                    generators.append(found)
                    orbit = _orbit(orbit, generators)
            order *= len(orbit)
        return order

    def _map(self, left: Index, right: Index, point: int, image: int) -> Index | None:
        """An automorphism that takes one colouring to the other and `point` to `image`."""
        both = self._refine(np.r_[_single_out(left, point), _single_out(right, image)])
        left, right = both[: self.size], both[self.size :]
        if not np.array_equal(np.sort(left), np.sort(right)):
            return None
        cell = _first_cell(left)
        if cell is None:
            found = np.empty(self.size, dtype=np.intp)
            found[np.argsort(left)] = np.argsort(right)
            return found if self._keeps(found) else None
        for candidate in np.flatnonzero(right == left[cell[0]]):
            found_deeper = self._map(left, right, int(cell[0]), int(candidate))
            if found_deeper is not None:
                return found_deeper
        return None

    def _swap(self, u: int, v: int) -> Index | None:
        """The exchange of u and v, if it is an automorphism that keeps the kinds."""
        self._spend(self.size)
        swap = np.arange(self.size)
        swap[[u, v]] = v, u
        T = self.pairs
        same = np.array_equal(T[u][swap], T[v]) and np.array_equal(T[:, u][swap], T[:, v])
        return swap if same and self.kinds[u] == self.kinds[v] else None

    def _keeps(self, g: Index) -> bool:
        self._spend(self.size**2)
        return np.array_equal(self.kinds[g], self.kinds) and np.array_equal(
            self.pairs[np.ix_(g, g)], self.pairs
        )

    def _refine(self, colour: Index) -> Index:
        """Split colours by the multiset of (relation, colour) that a vertex sees, until nothing splits.

        With two colourings end to end (2N entries) both get the same names, so that they can be compared. The
        multiset is hashed by a sum modulo 2^64: a collision leaves a class unsplit, which costs time only.
        """
        copies = len(colour) // self.size
        colour = _codes(colour)
        number = int(colour.max()) + 1
        while True:
            self._spend(copies * self.size**2)
            table = _mix(np.arange((int(self.pairs.max()) + 1) * number, dtype=np.uint64))
            seen = [table[self.pairs * number + part].sum(1) for part in colour.reshape(copies, self.size)]
            rows = np.c_[colour.astype(np.uint64), np.concatenate(seen)]
            colour = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
            finer = int(colour.max()) + 1
            if finer == number:
                return colour
            number = finer

    def _spend(self, cells: int) -> None:
        self.work -= cells + 10_000  # the calls themselves cost something too
        if self.work < 0:
            raise _TooLong


def _codes(values: NDArray[Any]) -> Index:
    return np.unique(values, return_inverse=True)[1].reshape(values.shape)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: neighbouring numbers become unrelated ones."""
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _first_cell(colour: Index) -> Index | None:
    """The smallest colour class with more than one member (the first of several)."""
    sizes = np.bincount(colour)
    sizes[sizes < 2] = len(colour) + 1
    smallest = int(np.argmin(sizes))
    return None if sizes[smallest] > len(colour) else np.flatnonzero(colour == smallest)


def _single_out(colour: Index, point: int) -> Index:
    split = 2 * colour
    split[point] += 1
    return split


def _orbit(points: set[int], generators: list[Index]) -> set[int]:
    reached, fresh = set(points), list(points)
    while fresh:
        point = fresh.pop()
        for g in generators:
            image = int(g[point])
            if image not in reached:
                reached.add(image)
                fresh.append(image)
    return reached
