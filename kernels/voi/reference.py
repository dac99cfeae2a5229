"""Truth for the value-of-information kernels: the definitions, in loops over queries and specialists."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

__all__ = ["joint_argmax", "psi", "voi_argmax", "voi_route"]

Floats = NDArray[np.float64]
Four = tuple[Floats, NDArray[np.int32], NDArray[np.int32], Floats]


def psi(z: float) -> float:
    """``E(Z - z)^+`` of a standard normal Z, for z >= 0, to a relative 1e-12 where it does not underflow."""
    if z > 39.0:
        return 0.0
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    if z <= 12.0:
        return density * (1 - z * math.sqrt(math.pi / 2) * float(erfcx(z / math.sqrt(2))))
    total, term = 0.0, 1.0
    for k in range(17):  # (-1)^k (2k+1)!! z^(-2k)
        total += term
        term *= -(2 * k + 3) / (z * z)
    return density / (z * z) * total


def voi_argmax(
    x: Floats, nu: Floats, c: Floats, w: Floats, done: NDArray[np.int64], outside: float, rule: str
) -> Four:
    """One query after the other; `nu`, `c`, `w` have one row, or one a query; `x` is net of prices."""
    n, K = x.shape
    out = _empty(n)
    for q in range(n):
        a, b, half = (v[q if len(v) > 1 else 0].tolist() for v in (nu, c, w))
        now = x[q].tolist()
        others = [max([outside, *now[:i], *now[i + 1 :]]) for i in range(K)]
        gaps = [abs(now[i] - others[i]) for i in range(K)]
        open_ = [i for i in range(K) if gaps[i] < half[i] and not _bit(done[q], i)]
        nets = {i: (a[i] * psi(gaps[i] / a[i]) if a[i] else 0.0) - b[i] for i in open_}
        key: Any = nets.__getitem__ if rule == "net" else lambda i: now[i] + half[i]  # noqa: B023
        i = max(open_, key=key, default=-1)  # the first of equals
        _write(out, q, x[q], outside, i, nets.get(i, 0.0))
    return out


def voi_route(
    m: Floats,
    refined: Floats,
    price: Floats,
    nu: Floats,
    c: Floats,
    w: Floats,
    fee: Floats,
    outside: float,
    rule: str,
    rounds: int,
) -> tuple[NDArray[Any], ...]:
    """Round after round for one query after the other: refine what `voi_argmax` picks, until it stops."""
    n, K = m.shape
    choice, value, good, bad, paid = (
        np.zeros(n, kind) for kind in (np.int64, float, np.int64, np.int64, float)
    )
    counts = np.zeros(K, np.int64)
    for q in range(n):
        mean, left = m[q].astype(float), w[q if len(w) > 1 else 0].copy()
        a, b = (v[q if len(v) > 1 else 0][None] for v in (nu, c))
        none = np.zeros((1, (K + 63) // 64), np.int64)
        for _ in range(rounds):
            i = voi_argmax((mean - price)[None], a, b, left[None], none, outside, rule)[1][0]
            if i < 0:
                break
            left[i] = -math.inf
            if not math.isfinite(refined[q, i]):
                bad[q] += 1
                continue
            mean[i] = refined[q, i]
            good[q] += 1
            paid[q] += fee[i]
            counts[i] += 1
        top = voi_argmax((mean - price)[None], a, b, left[None], none, outside, rule)[2][0]
        choice[q] = top
        value[q] = np.nan if np.isnan(mean).any() else mean[top] if top >= 0 else outside
    return choice, value, good, bad, paid, counts


def joint_argmax(
    x: Floats, slope: Floats, group: NDArray[np.int64], c: Floats, done: NDArray[np.int64], outside: float
) -> Four:
    """Integrates ``E max_j(x_j + slope_ij Z)`` between all crossings of two lines."""
    n, K = x.shape
    out = _empty(n)
    for q in range(n):
        gains, moves = zip(*(_gain(x[q], slope[group[q], i], outside) for i in range(K)), strict=True)
        nets = [gains[i] - c[i] for i in range(K)]
        free = [not _bit(done[q], i) for i in range(K)]
        open_ = [i for i in range(K) if free[i] and (nets[i] > 0 or (c[i] == 0 and moves[i]))]
        i = max(open_, key=nets.__getitem__, default=-1)
        _write(out, q, x[q], outside, i, nets[i] if i >= 0 else 0.0)
    return out


def _gain(x: Floats, slope: Floats, outside: float) -> tuple[float, bool]:
    """Value of a standard normal Z that moves mean j by slope_j Z, and whether Z can change the best."""
    lines = [(float(a), float(b)) for a, b in zip(x, slope, strict=True) if a > -math.inf]
    lines += [(outside, 0.0)] if outside > -math.inf else []
    if not lines:
        return 0.0, False
    cross = {(a - s) / (t - b) for a, b in lines for s, t in lines if b != t}
    edges = [-math.inf, *sorted(cross), math.inf]
    best = max(lines)  # at z = 0
    gain = 0.0
    for low, high in itertools.pairwise(edges):
        middle = (max(low, -1e9) + min(high, 1e9)) / 2
        a, b = max(lines, key=lambda line: line[0] + line[1] * middle)
        # E[(a - a0 + (b - b0) Z) 1{low < Z < high}]
        mass = _tail(low) - _tail(high)
        gain += (a - best[0]) * mass + (b - best[1]) * (_density(low) - _density(high))
    steepest, flattest = max(lines, key=lambda u: (u[1], u[0])), min(lines, key=lambda u: (u[1], -u[0]))
    return gain, steepest[1] != flattest[1]


def _density(z: float) -> float:
    return math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _tail(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2))


def _bit(words: Any, i: int) -> int:
    return int(words[i // 64]) >> (i % 64) & 1


def _empty(n: int) -> Four:
    return np.zeros(n), np.full(n, -1, np.int32), np.full(n, -1, np.int32), np.full(n, np.nan)


def _write(out: Four, q: int, x: Floats, outside: float, i: int, net: float) -> None:
    if np.isnan(x).any():
        out[0][q] = np.nan
        return
    ranked = sorted([*x, outside], reverse=True)
    out[0][q], out[1][q] = max(net, 0.0), i
    out[2][q] = -1 if outside > x.max() else int(x.argmax())
    out[3][q] = np.inf if ranked[1] == -np.inf else ranked[0] - ranked[1]
