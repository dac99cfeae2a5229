"""Exact certificates against brute force from the definitions, on random games with and without ties."""

import itertools
import math
import sys
import warnings
from fractions import Fraction as F

import numpy as np
import pytest

from porism.errors import NumericalWarning
from porism.theory.partition import (
    MonotoneClass,
    OrderedPartition,
    Semivalue,
    TopK,
    UtilityTable,
    certify_partition,
    desirability_matrix,
    is_coalitionally_dominant,
    robust_ks,
    semivalues,
)

NAMES = ["shapley", "banzhaf", "quarter", "tenth", "beta41", "beta32", "loo"]


def cases(brute, name, count, seed=0):
    """Games with their brute values and every top-k partition."""
    rng = np.random.default_rng([seed, NAMES.index(name)])
    for v in brute.games(rng, count):
        p = brute.weights(name, v.size.bit_length() - 1)
        psi = brute.values(v, p)
        for k in range(1, len(p)):
            blocks = brute.top(psi, k)
            yield v, p, psi, k, blocks, brute.is_tied(psi, blocks)


@pytest.mark.parametrize("name", NAMES)
def test_values_margins_radii_and_strictness(brute, name):
    sv, seen = brute.semivalue(name), set()
    for v, p, psi, k, blocks, tied in cases(brute, name, 15):
        t, rows = UtilityTable.from_array(v), brute.pairs(blocks)
        assert semivalues(t, sv, exact=True) == psi
        assert np.abs(semivalues(t, sv) - [float(x) for x in psi]).max() <= 1e-12 * np.abs(v).max()
        c = certify_partition(t, sv, TopK(k), ties="weak")
        margin, level, pair = brute.margin(v, p, rows)
        assert c.members == blocks[0]
        assert (c.level_margin, c.level, c.pair) == (margin, level, pair)
        assert c.robust is (margin >= 0)
        kappa = brute.slope_radius(v, p, rows)
        assert c.slope_radius == (math.inf if kappa == math.inf else float(kappa))
        assert c.score_margin == float(brute.quantile_margin(v, p, rows))
        assert c.robust is (c.slope_radius == math.inf) is (c.score_margin >= 0)
        # strict: every pair above 0 at v and no level below (PR-4)
        assert c.strict is (margin >= 0 and not tied)
        ties = [row for row in rows if psi[row[0]] == psi[row[1]]]
        assert c.permanent_ties == (tuple(ties) if c.robust else ())
        if c.robust and ties:  # PR-5: a tie of a robust partition is there at every level
            assert all(d == 0 for row in ties for _, d in brute.differences(v, p, [row])[row])
        weakly = certify_partition(t, sv, TopK(k), ties="weak", strict="weakly-increasing", radii=())
        assert weakly.strict is (margin > 0)  # PR-4b
        assert (weakly.slope_radius, weakly.score_margin) == (None, None)
        seen.add((c.robust, c.strict, bool(ties)))
        c.verify(t)
    assert name == "loo" or {robust for robust, _, _ in seen} == {True, False}
    assert name in ("tenth", "beta32", "beta41") or any(ties for _, _, ties in seen)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_witnesses_reverse_the_pair(brute, name):
    sv, found = brute.semivalue(name), 0
    for v, p, psi, k, _, _ in cases(brute, name, 12, seed=1):
        t = UtilityTable.from_array(v)
        for shape in ("increasing", "concave", "convex"):
            c = certify_partition(
                t, sv, TopK(k), ties="weak", transforms=MonotoneClass(shape=shape), radii=()
            )
            if c.robust:
                assert c.witness is None
                continue
            w, found = c.witness, found + 1
            levels = np.unique(v)
            phi = w.transform(levels)
            assert (np.diff(phi) > 0).all()
            slopes = np.diff(phi) / np.diff(levels)
            if shape == "concave":
                assert (np.diff(slopes) <= 1e-9 * slopes.max()).all()
            if shape == "convex":
                assert (np.diff(slopes) >= -1e-9 * slopes.max()).all()
            new = brute.values(w.transform(v), p)
            i, j = w.pair
            assert new[i] < new[j]
            assert i in c.members
            assert j not in c.members
            values, pair, gap = w.check(t, sv)
            assert pair == (i, j)
            assert gap == float(new[i] - new[j])
            assert values.tolist() == [float(x) for x in new]
            if shape == "increasing":  # PR-6: half of D_l, or D_l + (psi_i - psi_j) where the base is tied
                gap0 = psi[i] - psi[j]
                assert w.epsilon == (abs(c.level_margin) / (2 * gap0) if gap0 > 0 else 1)
                assert gap == pytest.approx(
                    float(c.level_margin / 2 if gap0 > 0 else c.level_margin + gap0), abs=1e-9
                )
                assert w.level == c.level
            assert w.partition(t, sv) == brute.top(new, k)
    assert found > 20


@pytest.mark.parametrize("name", ["shapley", "banzhaf", "beta32"])
def test_strictly_robust_survives_random_transforms(brute, name):
    rng, checked = np.random.default_rng(2), 0
    for v, p, _, k, blocks, _ in cases(brute, name, 20, seed=2):
        c = certify_partition(
            UtilityTable.from_array(v), brute.semivalue(name), TopK(k), ties="weak", radii=()
        )
        for _ in range(3 if c.robust else 0):
            psi = brute.values(brute.increasing(rng, v), p)
            differences = [psi[i] - psi[j] for i, j in brute.pairs(blocks)]
            assert min(differences) >= 0
            if c.strict:
                assert min(differences) > 0
            checked += 1
    assert checked > 30


@pytest.mark.parametrize("name", NAMES)
def test_all_k_in_one_sweep(brute, name):
    rng = np.random.default_rng(3)
    for v in brute.games(rng, 12, sizes=(2, 3, 4, 6)):
        t, n = UtilityTable.from_array(v), v.size.bit_length() - 1
        p = brute.weights(name, n)
        psi = brute.values(v, p)
        one = []
        for k in range(1, n):
            blocks = brute.top(psi, k)
            tied = brute.is_tied(psi, blocks)
            one.append(not tied and brute.margin(v, p, brute.pairs(blocks))[0] >= 0)
        assert robust_ks(t, brute.semivalue(name)).tolist() == one


@pytest.mark.parametrize("name", ["shapley", "quarter"])
def test_ordered_partitions_of_random_blocks(brute, name):
    rng = np.random.default_rng(4)
    wrong = 0
    for v in brute.games(rng, 25, sizes=(3, 4, 5)):
        n = v.size.bit_length() - 1
        p = brute.weights(name, n)
        psi = brute.values(v, p)
        order = (
            sorted(range(n), key=lambda i: (-psi[i], i)) if rng.random() < 0.6 else list(rng.permutation(n))
        )
        cuts = sorted(rng.choice(np.arange(1, n), size=rng.integers(1, n), replace=False))
        blocks = [tuple(sorted(int(i) for i in order[a:b])) for a, b in itertools.pairwise([0, *cuts, n])]
        c = certify_partition(
            UtilityTable.from_array(v), brute.semivalue(name), OrderedPartition(blocks), ties="weak"
        )
        rows = brute.pairs(blocks)
        assert c.blocks == tuple(blocks)
        assert (c.level_margin, c.level, c.pair) == brute.margin(v, p, rows)
        kappa = brute.slope_radius(v, p, rows)
        assert c.slope_radius == (math.inf if kappa == math.inf else float(kappa))
        assert c.base_gap == float(min(psi[i] - psi[j] for i, j in rows))
        wrong += c.base_gap < 0
        if not c.robust:
            new = brute.values(c.witness.transform(v), p)
            assert new[c.witness.pair[0]] < new[c.witness.pair[1]]
        c.verify(UtilityTable.from_array(v))
    assert wrong > 3  # an order that the table itself contradicts is not robust, with kappa* < 1


def test_dominance_and_what_follows(brute):
    rng, answers = np.random.default_rng(5), set()
    names = ["shapley", "banzhaf", "tenth", "beta32"]
    for number in range(60):
        n = int(rng.integers(2, 6))
        masks = np.arange(2**n)
        good = sum(masks >> i & 1 for i in range(max(1, n // 2)))
        v = (
            good * 2.0
            + rng.integers(0, 4, 2**n) * (number % 2 + 0.0)
            + rng.random(2**n) * rng.choice((0.0, 1.9))
        )
        t = UtilityTable.from_array(v)
        better = [
            [
                all(v[m | 1 << i] >= v[m | 1 << j] for m in masks if not m >> i & 1 and not m >> j & 1)
                for j in range(n)
            ]
            for i in range(n)
        ]
        assert desirability_matrix(t).tolist() == better
        for size in range(1, n):
            for members in itertools.combinations(range(n), size):
                rest = [j for j in range(n) if j not in members]
                expected = all(better[i][j] for i in members for j in rest)
                answer, example = is_coalitionally_dominant(t, members)
                assert answer is expected
                answers.add(answer)
                if not answer:
                    i, j, s = example
                    assert i in members
                    assert j in rest
                    mask = sum(1 << x for x in s)
                    assert not mask & (1 << i | 1 << j)
                    assert v[mask | 1 << i] < v[mask | 1 << j]
                    continue
                assert example is None
                assert v[sum(1 << i for i in members)] == max(
                    v[m] for m in masks.tolist() if m.bit_count() == size
                )  # PR-13b
                for name in names:
                    c = certify_partition(
                        t,
                        brute.semivalue(name),
                        OrderedPartition([members, rest]),
                        ties="weak",
                        radii=("score",),
                    )
                    assert c.robust
                    assert c.level_margin >= 0
                    assert c.score_margin >= 0
    assert answers == {True, False}


@pytest.mark.parametrize("number", range(3))
def test_dominant_games_of_twelve_players_have_margin_exactly_zero(number):
    """PR-20: float sweeps report a negative margin on most of these games."""
    rng = np.random.default_rng(number)
    masks = np.arange(1 << 12)
    v = sum(masks >> i & 1 for i in range(6)) + rng.random(1 << 12) * 0.999
    t = UtilityTable.from_array(v)
    for sv in (Semivalue.shapley(), Semivalue.weighted_banzhaf(0.1), Semivalue.beta(1, 32)):
        c = certify_partition(t, sv, TopK(6), radii=())
        assert c.members == tuple(range(6))
        assert c.level_margin == 0
        assert (c.robust, c.strict) == (True, True)
        assert robust_ks(t, sv)[5]
    q, acc, negative = (
        np.array([float(x) for x in Semivalue.shapley().exact_pair_weights(12)]),
        np.zeros(12),
        False,
    )
    for mask in np.argsort(-v):
        acc[[i for i in range(12) if mask >> i & 1]] += q[int(mask).bit_count()]
        negative |= acc[:6].min() < acc[6:].max()
    assert negative, "the float sweep is wrong on this game, which is why verdicts are made of integers"


def test_degenerate_semivalues_are_always_robust(brute):
    rng = np.random.default_rng(6)
    for v in brute.games(rng, 30, sizes=(2, 3, 4, 5)):
        n = v.size.bit_length() - 1
        single = Semivalue.from_weights([1] + [0] * (n - 1))
        for sv in (Semivalue.leave_one_out(), single, *([Semivalue.shapley()] if n == 2 else [])):
            psi = semivalues(UtilityTable.from_array(v), sv, exact=True)
            for k in range(1, n):
                if not brute.is_tied(psi, brute.top(psi, k)):
                    assert certify_partition(UtilityTable.from_array(v), sv, TopK(k)).strict


def test_wide_weights_stay_exact(brute):
    """Float weights are rationals of a thousand bits: no level difference is lost, however small."""
    n = 8
    v = np.zeros(1 << n)
    v[1 << 0 | 0b11111100] = 3.0  # all but player 1: the heaviest of w = 0.9
    v[1 << 1] = 3.0  # player 1 alone: the lightest
    v[-1] = 4.0
    t = UtilityTable.from_array(v)
    sv = Semivalue.weighted_banzhaf(0.9)
    assert sv.integer_pair_weights(n) is None
    w = F(0.9)
    c = certify_partition(
        t, sv, OrderedPartition([[0], [1], [2, 3, 4, 5, 6, 7]]), ties="weak", radii=("slope", "score")
    )
    p = [w**s * (1 - w) ** (n - 1 - s) for s in range(n)]
    heavy, light = p[n - 2] + p[n - 1], p[0] + p[1]
    d = brute.differences(v, p, [(0, 1)])[0, 1]
    assert [x for _, x in d] == [heavy - light, 0]
    rows = [(0, 1), *((1, j) for j in range(2, n))]
    assert (c.level_margin, c.level, c.pair) == brute.margin(v, p, rows)
    assert c.level_margin.denominator > 2**250
    assert c.slope_radius == float(brute.slope_radius(v, p, rows))
    c.verify(t)


@pytest.mark.parametrize("shape", ["increasing", "concave", "convex"])
@pytest.mark.parametrize("digits", [40, 170])
def test_weights_beyond_the_range_of_float64(brute, digits, shape):
    """Denominators of 10^400 and more: no float may decide, overflow or underflow."""
    rng, seen = np.random.default_rng(digits), set()
    w = F(1, 10**digits)
    sv = Semivalue.weighted_banzhaf(w)
    for number in range(24):
        n = 4 if digits > 100 else int(rng.integers(3, 6)) if number else 12
        v = rng.integers(0, 4, 2**n).astype(float)
        if n == 12:
            masks = np.arange(1 << 12)
            v = 2.0 * (masks & 1) + 0.5 * (masks >> 1 & 1)
            v[-2], v[-1] = 3.0, 3.5
        p = [w**s * (1 - w) ** (n - 1 - s) for s in range(n)]
        t = UtilityTable.from_array(v)
        k = 1 if n == 12 else int(rng.integers(1, n))
        c = certify_partition(
            t, sv, TopK(k), ties="weak", transforms=MonotoneClass(shape=shape), radii=("slope",)
        )
        if n == 12:
            assert (c.robust, c.level_margin) == (shape == "concave", -(w**10))
            assert c.slope_radius == math.inf if c.robust else c.slope_radius > 1e300
            continue
        rows = brute.pairs(c.blocks)
        assert c.level_margin == brute.margin(v, p, rows)[0]
        if shape == "increasing":
            assert c.robust is (c.level_margin >= 0)
            kappa = brute.slope_radius(v, p, rows)
            assert c.slope_radius == (
                kappa if kappa == math.inf else float(min(kappa, F(sys.float_info.max)))
            )
        else:
            assert c.robust is brute.shaped(v, p, rows, shape)
        seen.add(c.robust)
        c.verify(t)
    assert seen == {True, False}


def test_a_difference_below_float_resolution_decides():
    """One coalition of weight 1e-17 against many: floats cannot see it."""
    n = 18
    sv = Semivalue.weighted_banzhaf("1/10")
    masks = np.arange(1 << n)
    v = 2.0 * (masks & 1) + 0.5 * (masks >> 1 & 1)
    bad = (1 << n) - 2  # everyone but player 0
    v[bad] = 1.75  # a level that every coalition with player 0 reaches
    c = certify_partition(
        UtilityTable.from_array(v), sv, OrderedPartition([[0], list(range(1, n))]), radii=("slope",)
    )
    assert c.robust
    v[bad], v[-1] = 3.0, 3.5
    t = UtilityTable.from_array(v)
    c = certify_partition(t, sv, TopK(1), radii=("slope",))
    assert c.verdict == "not_robust"
    assert c.level_margin == -(F(1, 10) ** (n - 2))
    assert c.level == 2.5  # from here up no coalition with player 0 and without player 1
    assert c.slope_radius > 1e15
    assert c.witness.check(t, sv)[2] < 0


@pytest.mark.parametrize("shape", ["increasing", "concave", "convex"])
def test_witnesses_of_scores_far_from_zero(brute, shape):
    """At 2^52 the scores are whole numbers and values differ by a sixtieth: the witness must not drown."""
    rng, found = np.random.default_rng(11), 0
    sv = brute.semivalue("shapley")
    for _ in range(60):
        t = UtilityTable.from_array(2.0**52 + rng.integers(0, 4, 16))
        c = certify_partition(t, sv, TopK(2), ties="weak", transforms=MonotoneClass(shape=shape), radii=())
        if not c.robust:
            found += 1
            assert c.witness.check(t, sv)[2] < 0
            c.verify(t)
    assert found > 10


@pytest.mark.parametrize("shape", ["increasing", "concave", "convex"])
def test_witnesses_of_values_that_almost_tie(brute, shape):
    """A gap of 1e-15 between two values asks for a slope beside which float64 would lose the jump."""
    rng, found = np.random.default_rng(12), 0
    sv = brute.semivalue("shapley")
    for _ in range(40):
        v = rng.integers(0, 4, 16).astype(float)
        half = (v + v[[m & 12 | (m & 1) << 1 | m >> 1 & 1 for m in range(16)]]) / 2  # players 0 and 1 alike
        noise = np.where(half == half.max(), 0, rng.normal(size=16) * 1e-14)
        v = half + noise + np.array([(m & 1) * (1 - (m >> 1 & 1)) * (1 - (m >> 2 & 1)) for m in range(16)])
        v -= np.array([(m & 1) * (1 - (m >> 1 & 1)) * (m >> 2 & 1) for m in range(16)])
        t = UtilityTable.from_array(v)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            c = certify_partition(
                t, sv, TopK(1), ties="weak", transforms=MonotoneClass(shape=shape), radii=()
            )
        found += not c.robust and c.base_gap < 1e-12
        if not c.robust:
            assert c.witness.check(t, sv)[2] < 0
            c.verify(t)
    assert found > 5
