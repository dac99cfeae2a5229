"""Routing of one chunk of queries: its state, the rules that pick the next refinement, and the updates."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from porism.kernels import voi
from porism.theory.pandora.index import inspection_halfwidth
from porism.theory.pandora.innovation import Innovation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
BLOCK = 1 << 17  # entries of covariances, or of half-widths, that are worked on together


@dataclasses.dataclass
class Setting:
    """What is the same for all queries, in value units where not said otherwise."""

    cost: Floats  # (K,), net
    price: Floats  # (K,), net
    fee: Floats  # (K,), money for a refinement
    outside: float
    nu: Floats  # (K,), or (n, K)
    law: Innovation | None
    estimates: Callable[[Ints, Ints], Floats] | NDArray[Any]  # where they come from, or all of them
    max_rounds: int

    def __post_init__(self) -> None:
        self.w = self._halfwidth(self.nu) if self.nu.ndim == 1 else None

    def _halfwidth(self, nu: NDArray[Any]) -> Floats:
        return np.asarray(inspection_halfwidth(nu, self.cost))

    def spreads(self, rows: slice) -> Any:
        """The nu of these queries, or that of all."""
        return self.nu if self.nu.ndim == 1 else self.nu[rows]

    def bands(self, rows: slice) -> Floats:
        """Half-widths: one row, or one a query, in blocks: inverting psi takes some 300 bytes an entry."""
        if self.w is not None:
            return self.w
        nu = self.nu[rows]
        w = np.empty(nu.shape)
        step = max(1, BLOCK // (8 * nu.shape[1]))
        for start in range(0, len(nu), step):
            w[start : start + step] = self._halfwidth(nu[start : start + step])
        return w


class Settled(NamedTuple):
    """Where queries went; `paid` is money for refinements, `counts` are refinements of each specialist."""

    choice: Ints
    value: Floats
    refined: Ints
    failed: Ints
    paid: Floats
    counts: Ints


def settle(put: Setting, m: Any, first: int, policy: str) -> Settled:
    """Route queries ``first, first + 1, ...`` to the end: at once where nothing has to be asked for."""
    if policy in PICKS and put.law is None and not callable(put.estimates):
        rows = slice(first, first + len(m))
        return Settled(
            *voi.voi_route(
                _floats(m),
                _floats(put.estimates[rows]),
                put.spreads(rows),
                put.cost,
                put.bands(rows),
                price=put.price,
                fee=put.fee,
                outside=put.outside,
                rule=PICKS[policy],
                rounds=put.max_rounds,
            )
        )
    chunk = Chunk(put, m.astype(np.float64), first)
    chunk.run(policy)
    return chunk.settled(policy)


class Chunk:
    """Queries ``first, first + 1, ...`` with what is known about them."""

    def __init__(self, setting: Setting, m: Floats, first: int) -> None:
        self.set, self.cheap, self.first = setting, m, first
        self.mean = m.copy()
        self.refined = np.zeros(m.shape, dtype=bool)
        self.done = np.zeros(m.shape, dtype=bool)
        self.done[:] = np.isinf(setting.cost)
        self.failed = np.zeros(len(m), dtype=np.int64)
        self.paid = np.zeros(len(m))
        self.expected = None if setting.law is None else np.zeros(m.shape)
        rows = slice(first, first + len(m))
        self.nu, self.w = setting.spreads(rows), setting.bands(rows)

    def run(self, policy: str) -> None:
        """Refine until the policy stops everywhere."""
        choose = RULES[policy]
        active = np.arange(len(self.cheap))
        for round_ in range(self.set.max_rounds):
            pick = choose(self, active, round_).astype(np.int64)
            going = pick >= 0
            active, pick = active[going], pick[going]
            if active.size == 0:
                return
            self._take_in(active, pick)

    def _take_in(self, rows: Ints, pick: Ints) -> None:
        q = self._ask(rows + self.first, pick)
        good = np.isfinite(q)
        self.done[rows, pick] = True
        self.failed[rows[~good]] += 1
        rows, pick, q = rows[good], pick[good], q[good]
        law = self.set.law
        if law is None or self.expected is None:
            self.mean[rows, pick] = q
        else:
            r = q - self.cheap[rows, pick]
            for part, A, B, g in states(law, self.refined[rows]):
                at, i = rows[part], pick[part]
                left = A[g, i, i]
                y = np.divide(r[part] - self.expected[at, i], left, out=np.zeros(len(at)), where=left > 0)
                self.mean[at] += y[:, None] * B[g, :, i]
                self.expected[at] += y[:, None] * A[g, :, i]
        self.refined[rows, pick] = True
        self.paid[rows] += self.set.fee[pick]

    def _ask(self, queries: Ints, specialists: Ints) -> Floats:
        source = self.set.estimates
        q = np.asarray(
            source(queries, specialists) if callable(source) else source[queries, specialists],
            dtype=np.float64,
        )
        if q.shape != queries.shape:
            raise ValueError(
                f"refine must return one value a pair, {queries.shape}, got {q.shape}; NaN says it failed"
            )
        return q

    def settled(self, policy: str) -> Settled:
        """What came of it: the best usable specialist, -1 where the outside option is strictly better."""
        net = self.mean - self.set.price
        if policy == "weitzman":  # may use only what it refined, unless everything failed
            some = self.refined.any(axis=1, keepdims=True) | (self.set.outside > -math.inf)
            net = np.where(some & ~self.refined, -math.inf, net)
        rows, best = np.arange(len(net)), net.argmax(axis=1)
        out = self.set.outside > net[rows, best]
        value = np.where(out, self.set.outside, self.mean[rows, best])
        each, all_ = (self.refined.sum(axis=axis) for axis in (1, 0))
        return Settled(np.where(out, -1, best), value, each, self.failed, self.paid, all_)


def words(flags: Flags) -> NDArray[np.int64]:
    """Pack flags of each row into int64 words: bit ``k % 64`` of word ``k // 64``."""
    n, K = flags.shape
    packed = np.zeros((n, (K + 63) // 64 * 8), dtype=np.uint8)
    packed[:, : (K + 7) // 8] = np.packbits(flags, axis=1, bitorder="little")
    return packed.view("<i8").astype(np.int64, copy=False)


def states(law: Innovation, refined: Flags) -> Iterator[tuple[Ints, Floats, Floats, Ints]]:
    """Queries with the residual covariances of what they have refined.

    Yields blocks of rows, residual A and B of the sets that occur in the block, and the set of each row.
    """
    if not len(refined):
        return
    masks = words(refined)
    order = np.lexsort(masks.T)
    masks = masks[order]
    new = np.append(True, (masks[1:] != masks[:-1]).any(axis=1))
    which, starts = np.cumsum(new) - 1, np.flatnonzero(new)
    size = max(1, BLOCK // law.K**2)
    for first in range(0, len(starts), size):
        heads = starts[first : first + size]
        rows = slice(heads[0], starts[first + size] if first + size < len(starts) else None)
        found = [law.residual(int.from_bytes(masks[head].tobytes(), "little")) for head in heads]
        A, B = (np.stack(parts) for parts in zip(*found, strict=True))
        yield order[rows], A, B, which[rows] - first


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _rows(values: Any, rows: Ints, n: int) -> Any:
    """Rows of an array, without a copy where all are meant."""
    return values if len(rows) == n else values[rows]


def _independent(rule: str) -> Callable[[Chunk, Ints, int], Any]:
    def choose(chunk: Chunk, rows: Ints, round_: int) -> Any:
        n, put = len(chunk.cheap), chunk.set
        each = chunk.nu.ndim == 2
        return voi.voi_argmax(
            _rows(chunk.mean, rows, n),
            _rows(chunk.nu, rows, n) if each else chunk.nu,
            put.cost,
            _rows(chunk.w, rows, n) if each else chunk.w,
            price=put.price,
            done=words(_rows(chunk.done, rows, n)),
            outside=put.outside,
            rule=rule,
        )[1]

    return choose


def _joint(chunk: Chunk, rows: Ints, round_: int) -> Any:
    pick = np.empty(len(rows), dtype=np.int64)
    put = chunk.set
    assert put.law is not None
    for part, A, B, g in states(put.law, chunk.refined[rows]):
        variance = np.diagonal(A, axis1=1, axis2=2)[:, :, None]
        slope = np.zeros_like(B)
        np.divide(B.transpose(0, 2, 1), np.sqrt(variance), out=slope, where=variance > 0)
        at = rows[part]
        pick[part] = voi.joint_argmax(
            chunk.mean[at],
            slope,
            put.cost,
            group=g,
            price=put.price,
            done=words(chunk.done[at]),
            outside=put.outside,
        )[1]
    return pick


def _exhaustive(chunk: Chunk, rows: Ints, round_: int) -> Any:
    if chunk.set.max_rounds < chunk.cheap.shape[1]:
        return _first(chunk.cheap[rows] - chunk.set.price, chunk.done[rows])
    left = ~chunk.done[rows]  # in order: all queries share their sets, which keeps joint updates cheap
    return np.where(left.any(axis=1), left.argmax(axis=1), -1)


def _first(score: Floats, done: Flags) -> Any:
    score = np.where(done, -math.inf, score)
    return np.where(done.all(axis=1), -1, score.argmax(axis=1))


def _sigma(chunk: Chunk, rows: Ints) -> Floats:
    index: Floats = chunk.cheap[rows] - chunk.set.price
    return index + (chunk.w[rows] if chunk.nu.ndim == 2 else chunk.w)


def _weitzman(chunk: Chunk, rows: Ints, round_: int) -> Any:
    index = _sigma(chunk, rows)
    found = np.where(chunk.refined[rows], chunk.mean[rows] - chunk.set.price, -math.inf)
    best = np.maximum(found.max(axis=1), chunk.set.outside)
    pick = _first(index, chunk.done[rows])
    return np.where(index[np.arange(len(rows)), pick] > best, pick, -1)


def _cheap(chunk: Chunk, rows: Ints, round_: int) -> Any:
    return np.full(len(rows), -1)


PICKS = {"kg": "net", "kg_sigma": "index"}
RULES: dict[str, Callable[[Chunk, Ints, int], Any]] = {
    "cheap": _cheap,
    "exhaustive": _exhaustive,
    "weitzman": _weitzman,
    **{policy: _independent(rule) for policy, rule in PICKS.items()},
    "kg_joint": _joint,
}
