"""Row sweeps and quantile margins against sums in Python integers, for one limb and for many."""

from fractions import Fraction as F

import numpy as np
import pytest

from porism.kernels import coalition
from porism.kernels.coalition import reference

LIMB = 32


def split(values, limbs):
    """Integers as 32-bit limbs, lowest first; the top one keeps the sign."""
    out = np.empty((limbs, len(values)), np.int64)
    for w in range(limbs):
        out[w] = [x >> (LIMB * w) if w == limbs - 1 else (x >> (LIMB * w)) & 0xFFFFFFFF for x in values]
    return out


def join(limbs):
    return sum(int(x) << (LIMB * w) for w, x in enumerate(limbs))


def program(rng, n, limbs, pairs):
    """Random weights of all four kinds, and rows among the players and the boundary n."""
    top = 1 << (20 if limbs == 1 else 32 * limbs - 30)
    kinds = [[int(rng.integers(0, 1 << 30)) * top >> 30 for _ in range(n + 1)] for _ in range(4)]
    start = [0] * n + [int(rng.integers(-(1 << 18), 1 << 18))]
    arrays = [split(k, limbs) for k in kinds]
    upper, lower = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    return kinds, start, (*arrays, upper, lower), split(start, limbs)


def differences(order, kinds, values, weights, start, pair, n):
    """[(position, D)] at the ends of the levels."""
    player, virtual, inside, outside = weights
    a, b = pair
    count = {a: start[a], b: start[b]}
    extra, out = 0, []
    for t in range(len(order) - 1):
        m, s, kind = int(order[t]), int(order[t]).bit_count(), int(kinds[t]) if len(kinds) else 0
        has = [x < n and m >> x & 1 for x in (a, b)]
        if kind == 0:
            for x in (a, b):
                count[x] += virtual[s] if x == n else player[s] * (m >> x & 1)
        elif kind == 1:
            extra += inside[s] if has[0] and not has[1] else outside[s] if a == n and not has[1] else 0
        else:
            extra -= inside[s] if has[1] and not has[0] else outside[s] if b == n and not has[0] else 0
        if values[t] != values[t + 1]:
            out.append((t, count[a] - count[b] + extra))
    return out


@pytest.mark.parametrize("limbs", [1, 2, 3, 33])
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("boxed", [False, True])
def test_row_sweep_and_trace(limbs, ascending, boxed):
    rng = np.random.default_rng([limbs, ascending, boxed])
    for n in (2, 3, 4):
        size = 1 << n
        v = rng.integers(0, 5, size).astype(float) if n % 2 else rng.normal(size=size)
        masks, keys, kinds = np.arange(size), v, np.zeros(size, np.uint8)
        if boxed:
            box = masks[rng.random(size) < 0.4]
            known = np.setdiff1d(masks, box)
            masks = np.concatenate([known, box, box])
            keys = np.concatenate([v[known], v[box], v[box] + rng.integers(0, 3, box.size)])
            kinds = np.repeat([0, 1, 2], [known.size, box.size, box.size]).astype(np.uint8)
        at = np.argsort(keys, kind="stable")[:: 1 if ascending else -1]
        order, values, kinds = (
            masks[at].astype(np.int32),
            keys[at],
            kinds[at] if boxed else np.zeros(0, np.uint8),
        )
        pairs = [(0, 1), (1, 0), (n - 1, 0), (0, n), (n, 1)]
        weights, start, arrays, origin = program(rng, n, limbs, pairs)
        tolerance = 4.0 * (order.size + 8) * 2.0**-53
        for running in (False, True):
            least, where, low, high, total, error = coalition.row_sweep(
                order, kinds, values, arrays, origin, running=running, tolerance=tolerance
            )
            for r, pair in enumerate(pairs):
                curve = differences(order, kinds, values, weights, start, pair, n)
                smallest = min(d for _, d in curve)
                assert join(least[r]) == smallest
                hits = [t for t, d in curve if d == smallest]
                assert where[r] == (hits[0] if ascending else hits[-1])  # the lowest level
                unit = 1 << (LIMB * (limbs - 1))  # the floats are in units of the top limb
                terms = [F(abs(values[t] - values[t + 1])) * F(d, unit) for t, d in curve]
                sums = [sum(terms[: k + 1]) for k in range(len(terms))]
                worst = min(sums) if running else sum(x for x in terms if x < 0)
                assert F(low[r]) <= worst <= F(high[r])
                assert abs(F(total[r]) - sum(terms)) <= F(error[r])
                assert F(error[r]) <= 10 * F(tolerance) * sum(abs(x) for x in terms)
                one = (*arrays[:4], arrays[4][r : r + 1], arrays[5][r : r + 1])
                numbers, positions = coalition.row_trace(order, kinds, values, one, origin)
                assert positions.tolist() == [t for t, _ in curve]
                assert [join(numbers[:, k]) for k in range(len(curve))] == [d for _, d in curve]


@pytest.mark.parametrize("seed", range(4))
def test_quantile_margin_against_the_ladder(seed):
    rng = np.random.default_rng(seed)
    for n in (2, 3, 4):
        for boxed in (False, True):
            low = rng.integers(-3, 6, 1 << n).astype(float) if seed % 2 else rng.normal(size=1 << n)
            high = low + rng.integers(0, 3, 1 << n) if boxed else low
            q = [0, *rng.integers(0, 4, n - 1).tolist(), 0]
            q[int(rng.integers(1, n))] = 2
            pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
            expected = [reference.quantile_margin(low, high, q, pair) for pair in pairs]
            for limbs, factor in ((1, 1), (2, 1 << 31), (4, 3**70)):
                wide = split([x * factor for x in q], limbs)
                for workers in (1, 2, 5):
                    found = coalition.quantile_margin(low, high, wide, pairs, workers=workers)
                    assert found.tolist() == expected


def test_quantile_margin_without_changing_its_input():
    v = np.random.default_rng(0).normal(size=64)
    v.setflags(write=False)
    q = split([0, 5, 3, 2, 3, 5, 0], 1)
    a = coalition.quantile_margin(v, v, q, [(0, 1)])
    assert coalition.quantile_margin(v, v.copy(), q, [(0, 1)]).tolist() == a.tolist()
    assert coalition.quantile_margin(v, v, q, [(0, 1), (1, 0)])[0] == a[0]
