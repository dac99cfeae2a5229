"""CPU kernels against the reference in Python integers and rationals."""

import math
from fractions import Fraction as F

import numpy as np
import pytest

from porism.kernels import coalition
from porism.kernels.coalition import cpu, reference
from porism.theory.partition import Semivalue

SH, BZ = Semivalue.shapley(), Semivalue.banzhaf()


def score_sets(rng, n):
    """Few levels, all distinct, negative, signed zeros, huge and denormal scores."""
    size = 1 << n
    yield rng.integers(0, 3, size).astype(float)
    yield rng.permutation(size).astype(float) - size / 2
    yield rng.normal(size=size)
    yield rng.choice([0.0, -0.0, 1.0, -1.0], size)
    yield rng.choice([-1e300, 1e300, 5e-324, -5e-324, 0.0, 1e-310], size)


def weights(sv, n):
    return sv.integer_pair_weights(n)[0]


def test_popcount():
    masks = [0, 1, 2**31 - 1, 2**28 - 1, 0b1011, 2**32 - 1, 2**31]
    assert [int(cpu.popcount(np.int64(m))) for m in masks] == [m.bit_count() for m in masks]


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("sv", [SH, BZ, Semivalue.beta(4, 1), Semivalue.leave_one_out()], ids=str)
def test_level_margin(n, sv):
    rng = np.random.default_rng(n)
    q = weights(sv, n)
    for v in score_sets(rng, n):
        if v.min() == v.max():
            continue
        sides = rng.integers(0, 3, n)  # some players on neither side
        sides[rng.permutation(n)[:2]] = 0, 1
        upper, lower = (sum(1 << i for i in range(n) if sides[i] == side) for side in (0, 1))
        expected = reference.level_margin(v, q, upper, lower)
        assert coalition.level_margin(v, q, upper, lower) == expected
        assert coalition.level_margin(v, q, upper, lower, backend="cpu") == expected
        assert coalition.level_margin(v, q, upper, lower, backend="reference") == expected
        assert coalition.level_margin(np.repeat(v, 2)[::2], q, upper, lower) == expected
        assert type(expected[0]) is int


@pytest.mark.parametrize("n", [9, 13])
def test_level_margin_of_more_players(n):
    """The definition in int64 matrices: D of all players at every level."""
    rng, q = np.random.default_rng(n), weights(SH, n)
    masks = np.arange(1 << n)
    sizes = np.bitwise_count(masks)
    member = (masks[:, None] >> np.arange(n) & 1) * q[sizes][:, None]
    for v in (rng.integers(0, 4, 1 << n).astype(float), rng.permutation(1 << n).astype(float)):
        order = np.argsort(-v, kind="stable")
        ends = np.flatnonzero(np.append(v[order][1:] != v[order][:-1], False))
        counts = np.cumsum(member[order], axis=0)[ends]
        upper = list(range(0, n, 2))
        lower = list(range(1, n, 2))
        d = counts[:, upper][:, :, None] - counts[:, lower][:, None, :]
        level = np.flatnonzero(d.min(axis=(1, 2)) == d.min())[-1]
        i, j = min((upper[a], lower[b]) for a, b in zip(*np.nonzero(d[level] == d.min()), strict=True))
        found = coalition.level_margin(v, q, sum(1 << x for x in upper), sum(1 << x for x in lower))
        assert found == (int(d.min()), float(v[order[ends[level]]]), (i, j))


def test_ties_go_to_the_lowest_level_and_the_smallest_pair():
    v = np.array([0, 1, 1, 5, 1, 5, 5, 9.0])  # symmetric: D = 0 everywhere
    q = weights(SH, 3)
    assert coalition.level_margin(v, q, 0b110, 0b001) == (0, 1.0, (1, 0))
    assert coalition.level_margin(v, q, 0b100, 0b011) == (0, 1.0, (2, 0))
    assert coalition.level_margin(v, q, 0b001, 0b110) == (0, 1.0, (0, 1))


@pytest.mark.parametrize("n", [2, 3, 5, 6, 11])
def test_all_k_is_every_one_k(n):
    rng, q = np.random.default_rng(n), weights(SH, n)
    for v in score_sets(rng, n):
        if v.min() == v.max():
            continue
        ranking = rng.permutation(n)
        found = coalition.level_margins_all(v, q, ranking)
        one = [
            coalition.level_margin(
                v, q, sum(1 << int(i) for i in ranking[:k]), sum(1 << int(i) for i in ranking[k:])
            )
            for k in range(1, n)
        ]
        assert found.tolist() == [margin for margin, _, _ in one]


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
def test_dominance(n):
    rng = np.random.default_rng(n)
    for v in score_sets(rng, n):
        for w in (v, v + 3.0 * np.bitwise_count(np.arange(1 << n)), np.sort(v)):
            for i in range(n):
                for j in range(n):
                    if i != j:
                        found = coalition.dominance(w, i, j)
                        assert (
                            found
                            == reference.dominance(w, i, j)
                            == coalition.dominance(w, i, j, backend="reference")
                        )


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12])
def test_fold_within_its_bound(n):
    """1e-12 max|v| against rationals, for weights of semivalues."""
    rng = np.random.default_rng(n)
    for v in [*score_sets(rng, n), 1e8 + rng.normal(size=1 << n)]:
        for sv in (SH, BZ, Semivalue.beta(1, 16)):
            q = np.array([float(x) for x in sv.exact_pair_weights(n)])
            p = np.array([*(float(x) for x in sv.exact_weights(n)), 0.0])
            sums, total = coalition.fold(v, q, p)
            exact, exact_total = reference.fold(v, q, p)
            assert sums.shape == (n,)
            assert np.abs(sums - exact).max() <= 1e-12 * np.abs(v).max()
            assert abs(total - exact_total) <= 1e-12 * np.abs(v).max()


@pytest.mark.parametrize("n", [13, 14])
def test_fold_over_several_blocks(n):
    """Above 2^12 coalitions blocks are folded one by one; every bit must land on its player."""
    rng = np.random.default_rng(n)
    v = rng.normal(size=1 << n)
    w, other = rng.normal(size=n + 1), rng.normal(size=n + 1)
    masks = np.arange(1 << n)
    sizes = np.bitwise_count(masks)
    sums, total = coalition.fold(v, w, other)
    for i in range(n):
        assert sums[i] == pytest.approx(math.fsum((w[sizes] * v)[masks >> i & 1 == 1]), abs=1e-9)
    assert total == pytest.approx(math.fsum(other[sizes] * v), abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_size_totals(n):
    rng = np.random.default_rng(n)
    limbs = rng.integers(-(2**31), 2**31, 1 << n)
    found, expected = np.zeros((2, n + 1, n + 1), np.int64)
    for start in range(0, 1 << n, 3):  # in pieces, as it is used
        coalition.size_totals(limbs[start : start + 3], start, found)
        coalition.size_totals(limbs[start : start + 3], start, expected, backend="reference")
    assert np.array_equal(found, expected)
    assert found[n].sum() == limbs.sum()


def test_score_order():
    rng = np.random.default_rng(0)
    for v in score_sets(rng, 8):
        order, values = coalition.score_order(v)
        assert order.dtype == np.int32
        assert sorted(order.tolist()) == list(range(256))
        assert np.array_equal(values, v[order])
        assert (np.diff(values) <= 0).all()


def test_unknown_backend():
    v, q = np.arange(4.0), weights(SH, 2)
    for act in (
        lambda: coalition.fold(v, q * 1.0, q * 1.0, backend="gpu"),
        lambda: coalition.level_margin(v, q, 1, 2, backend="numpy"),
        lambda: coalition.dominance(v, 0, 1, backend="triton"),
        lambda: coalition.size_totals(np.zeros(4, np.int64), 0, np.zeros((3, 3), np.int64), backend=""),
    ):
        with pytest.raises(ValueError, match="backend must be one of"):
            act()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_arguments_that_compiled_loops_cannot_take(backend):
    """Shapes that do not fit would be read out of bounds: numbers from elsewhere, without an error."""
    v, q, on = np.arange(8.0), np.array([0, 1, 1, 0]), {"backend": backend}
    w, totals = q * 1.0, np.zeros((3, 3), np.int64)
    margin, fold = coalition.level_margin, coalition.fold
    for act, error, words in (
        (lambda: fold(v, w[:2], w, **on), ValueError, r"weights must have shape \(4,\) for 3 players"),
        (lambda: fold(v[:7], w, w, **on), ValueError, r"must have shape \(2\*\*n,\), got \(7,\)"),
        (lambda: fold(v, ["a"] * 4, w, **on), TypeError, "weights must hold real numbers"),
        (lambda: margin(v[:7], q, 1, 6, **on), ValueError, r"shape \(8,\).*got \(7,\)"),
        (lambda: margin(v, w, 1, 6, **on), TypeError, "weights must hold integers, got float64"),
        (lambda: margin(v, q[:2], 1, 6, **on), ValueError, r"players must be in 2\.\.30, got 1"),
        (lambda: margin(v, [0] * 32, 1, 6, **on), ValueError, r"players must be in 2\.\.30, got 31"),
        (lambda: margin(v, q, 0, 6, **on), ValueError, r"upper must be in 1\.\.7, got 0"),
        (lambda: margin(v, q, 1, 8, **on), ValueError, r"lower must be in 1\.\.7, got 8"),
        (lambda: margin(v, q, 1, 5, **on), ValueError, "disjoint, got 0b1 and 0b101"),
        (lambda: margin(v * np.nan, q, 1, 6, **on), ValueError, "scores must be finite"),
        (lambda: margin(v * 0, q, 1, 6, **on), ValueError, "scores must have two different"),
        (lambda: coalition.dominance(v, 1, 1, **on), ValueError, "two different players, got 1 twice"),
        (lambda: coalition.dominance(v, 0, 3, **on), ValueError, r"j must be in 0\.\.2, got 3"),
        (lambda: coalition.size_totals(q, 1, totals, **on), ValueError, r"start must be in 0\.\.0"),
        (lambda: coalition.size_totals(q, 0, totals * 1.0, **on), ValueError, "totals must be int64"),
        (lambda: coalition.level_margins_all(v, q, [0, 1, 1]), ValueError, "each of the 3 players once"),
        (lambda: coalition.quantile_margin(v, v, [q[:3]], [(0, 1)]), ValueError, "weights must have shape"),
        (lambda: coalition.quantile_margin(v, v, [q], [(0, 3)]), ValueError, r"j must be in 0\.\.2, got 3"),
    ):
        with pytest.raises(error, match=words):
            act()


def test_lists_are_taken():
    v, q = [0.0, 5, 0, 7, 0, 7, 10, 12], [0, 1, 1, 0]
    for backend in ("cpu", "reference"):
        assert coalition.level_margin(v, q, 0b001, 0b110, backend=backend) == (-1, 10.0, (0, 1))
    assert coalition.fold(v, q, q)[0].tolist() == [19.0, 17.0, 17.0]
    assert coalition.level_margins_all(v, q, [2, 1, 0]).shape == (2,)
    assert coalition.quantile_margin(v, v, [q], []).shape == (0,)
    assert coalition.dominance(v, 2, 0) >= -1


def test_float_sums_would_lose_the_verdict():
    """Why the sweep counts integers: the same differences in float64 come out negative."""
    q = SH.exact_pair_weights(12)
    wrong = sum(float(q[3]) for _ in range(10)) - float(10 * q[3])
    assert wrong != 0
    assert sum((q[3] for _ in range(10)), F(0)) - 10 * q[3] == 0
