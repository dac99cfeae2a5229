"""Every class of utilities against a linear programme over the class."""

import math
from fractions import Fraction as F

import numpy as np
import pytest

from porism.theory.partition import MonotoneClass, SmallCoalitions, TopK, UtilityTable, certify_partition

NAMES = ["shapley", "banzhaf", "beta41"]
SLACK = 1e-8  # of the solver; the scores below keep every nonzero margin far above it


def games(brute, name, count, seed, sizes=(2, 3, 4), kinds=2):
    rng = np.random.default_rng([seed, NAMES.index(name)])
    for v in brute.games(rng, count, sizes):
        if v.size < 2**5 and not (kinds == 2 and np.any(v % 1)):
            n = v.size.bit_length() - 1
            p = brute.weights(name, n)
            psi = brute.values(v, p)
            k = int(rng.integers(1, n))
            yield rng, v, p, k, brute.pairs(brute.top(psi, k))


@pytest.mark.parametrize("name", NAMES)
def test_level_margin_is_the_least_difference_over_all_transforms(brute, name):
    for _, v, p, k, rows in games(brute, name, 12, 0):
        c = certify_partition(
            UtilityTable.from_array(v), brute.semivalue(name), TopK(k), ties="weak", radii=()
        )
        least = min(brute.worst(v, p, row) for row in rows)
        assert float(c.level_margin) == pytest.approx(least, abs=SLACK)


@pytest.mark.parametrize("shape", ["increasing", "concave", "convex"])
@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_slope_radius(brute, name, shape):
    radii = 0
    for rng, v, p, k, rows in games(brute, name, 36, 1):
        t, sv = UtilityTable.from_array(v), brute.semivalue(name)
        c = certify_partition(
            t, sv, TopK(k), ties="weak", transforms=MonotoneClass(shape=shape), radii=("slope",)
        )
        least = min(brute.worst(v, p, row, shape) for row in rows)
        assert c.robust is (least >= -SLACK)
        if shape != "increasing":
            assert c.robust is brute.shaped(v, p, rows, shape)
        ratio = float(rng.choice((1.0, 1.5, 4.0)))
        bounded = certify_partition(
            t,
            sv,
            TopK(k),
            ties="weak",
            radii=("slope",),
            transforms=MonotoneClass(shape=shape, max_slope_ratio=ratio),
        )
        assert bounded.robust is (ratio <= c.slope_radius)
        assert bounded.slope_radius == c.slope_radius
        least = min(brute.worst(v, p, row, shape, ratio) for row in rows)
        if abs(least) > SLACK:
            assert bounded.robust is (least > 0)
        if not bounded.robust:
            phi = bounded.witness.transform(np.unique(v))
            slopes = np.diff(phi) / np.diff(np.unique(v))
            assert slopes.max() <= ratio * slopes.min() * (1 + 1e-9)
            new = brute.values(bounded.witness.transform(v), p)
            assert new[bounded.witness.pair[0]] < new[bounded.witness.pair[1]]
        bounded.verify(t)
        if 1 < c.slope_radius < math.inf:
            radii += 1
            rows = [
                row for row in rows if any(d for _, d in brute.differences(v, p, [row])[row])
            ]  # no lasting ties
            if 0.999 * c.slope_radius >= 1:
                assert min(brute.worst(v, p, row, shape, 0.999 * c.slope_radius) for row in rows) > 0
            assert min(brute.worst(v, p, row, shape, 1.001 * c.slope_radius) for row in rows) < 0
    assert radii >= 2


def test_slope_bound_at_the_radius_itself(brute):
    """kappa = kappa* is weakly valid and not strictly."""
    t = UtilityTable.from_array([0, 3, 0, 2, 1, 5, 7, 12])  # kappa* = 4 exactly
    sv = brute.semivalue("shapley")
    for ratio, verdict, strict in (
        (4, "robust", False),
        (math.nextafter(4, 5), "not_robust", False),
        (math.nextafter(4, 3), "robust", True),
        (1, "robust", True),
    ):
        c = certify_partition(t, sv, TopK(1), transforms=MonotoneClass(max_slope_ratio=ratio))
        assert (c.verdict, c.strict) == (verdict, strict)
        c.verify(t)


@pytest.mark.parametrize("values", ["range", "monotone"])
@pytest.mark.parametrize("name", NAMES)
def test_free_small_coalitions(brute, name, values):
    seen = set()
    for rng, v, p, k, _ in games(brute, name, 18, 2, sizes=(3, 4)):
        n = len(p)
        masks = np.arange(2**n)
        if rng.random() < 0.6:  # games where a certificate is possible
            v = (masks.astype(float) // 2 ** (n - k)) * 3 + v / 4
            k = k if values == "range" else int(rng.integers(1, n))
        if values == "monotone":  # close upwards
            for i in range(n):
                v = np.where(masks >> i & 1, np.maximum(v, v[masks & ~(1 << i)]), v)
        if v[-1] == v[0]:
            continue
        rows = brute.pairs(brute.top(brute.values(v, p), k))
        t, sv = UtilityTable.from_array(v), brute.semivalue(name)
        below = int(rng.integers(1, n))
        bounds = None
        if rng.random() < 0.5:
            low, high = v.min() - 1, float(np.quantile(v, 0.7))
            bounds = (low, high) if values == "range" else (float(v.min()) - 0.5, float(v.max()) + 1)
        small = SmallCoalitions(below, values, bounds)
        free = brute.small_masks(n, below)
        box = bounds or (float(v.min()), float(v.max()))
        c = certify_partition(t, sv, TopK(k), ties="weak", small=small, radii=("slope",))
        least = min(
            brute.worst(v, p, row, free=free, bounds=box, monotone=values == "monotone") for row in rows
        )
        assert float(c.level_margin) == pytest.approx(least, abs=SLACK)
        assert c.robust is (c.level_margin >= 0)
        seen.add(c.robust)
        c.verify(t)
        if not c.robust:
            filled = v.copy()
            for mask, score in c.witness.completion:
                assert mask in free
                assert box[0] <= score <= box[1]
                filled[mask] = score
            new = brute.values(c.witness.transform(filled), p)
            assert new[c.witness.pair[0]] < new[c.witness.pair[1]]
            if values == "monotone":
                assert all(filled[a] <= filled[b] for a in range(2**n) for b in range(2**n) if a & b == a)
        for ratio in (1.0, 2.5):
            bounded = certify_partition(
                t,
                sv,
                TopK(k),
                ties="weak",
                small=small,
                radii=("slope",),
                transforms=MonotoneClass(max_slope_ratio=ratio),
            )
            assert bounded.slope_radius == c.slope_radius
            least = min(
                brute.worst(v, p, row, ratio=ratio, free=free, bounds=box, monotone=values == "monotone")
                for row in rows
            )
            if abs(least) > SLACK:
                assert bounded.robust is (least > 0)
            bounded.verify(t)
        shape = str(rng.choice(("concave", "convex")))
        shaped = certify_partition(
            t, sv, TopK(k), ties="weak", small=small, radii=(), transforms=MonotoneClass(shape=shape)
        )
        least = min(
            brute.worst(v, p, row, shape, free=free, bounds=box, monotone=values == "monotone")
            for row in rows
        )
        if abs(least) > SLACK:
            assert shaped.robust is (least > 0)
        shaped.verify(t)
    assert seen == {True, False}


@pytest.mark.parametrize("name", NAMES)
def test_f1_is_the_mass_of_the_small_coalitions(brute, name):
    """D restricted to |S| >= m against W_m, the closed form of class F1."""
    for rng, v, p, k, rows in games(brute, name, 12, 3):
        n = len(p)
        below = int(rng.integers(2, n + 1))
        c = certify_partition(
            UtilityTable.from_array(v),
            brute.semivalue(name),
            TopK(k),
            ties="weak",
            radii=(),
            small=SmallCoalitions(below),
        )
        mass = sum((math.comb(n - 2, s - 1) * (p[s - 1] + p[s]) for s in range(1, min(below, n))), F(0))
        large = [float(x) if m.bit_count() >= below else v.min() for m, x in enumerate(v)]
        d = [x for curve in brute.differences(v, p, rows).values() for x in curve]
        assert len(d) >= len(rows)
        cut = []
        for s in sorted(set(v.tolist()))[1:]:
            simple = [F(int(x >= s and m.bit_count() >= below)) for m, x in enumerate(large)]
            psi = brute.values(simple, p)
            cut += [psi[i] - psi[j] for i, j in rows]
        assert c.level_margin == min(cut) - mass


def test_size_only_is_the_truncated_semivalue(brute):
    rng = np.random.default_rng(7)
    for v in brute.games(rng, 30, sizes=(3, 4)):
        n = v.size.bit_length() - 1
        p = brute.weights("shapley", n)
        below = int(rng.integers(1, n + 1))
        rows = brute.pairs(brute.top(brute.values(v, p), 1))
        flat = [v.min() if m.bit_count() < below else x for m, x in enumerate(v)]
        t = UtilityTable.from_array(v)
        if min(flat) == max(flat):
            continue
        c = certify_partition(
            t,
            brute.semivalue("shapley"),
            TopK(1),
            ties="weak",
            radii=("slope",),
            small=SmallCoalitions(below, "size-only"),
        )
        assert c.level_margin == brute.margin(flat, p, rows)[0]
        gap = min(brute.values(flat, p)[i] - brute.values(flat, p)[j] for i, j in rows)
        kappa = brute.slope_radius(flat, p, rows)
        assert c.slope_radius == (math.inf if kappa == math.inf else float(kappa))
        assert (c.slope_radius < 1) is (gap < 0)
        c.verify(t)


def test_unbounded_free_coalitions_need_weightless_sizes(brute):
    rng = np.random.default_rng(8)
    for v in brute.games(rng, 20, sizes=(3, 4)):
        n = v.size.bit_length() - 1
        t = UtilityTable.from_array(v)
        loo = brute.semivalue("loo")
        plain = certify_partition(t, loo, TopK(1), ties="weak", radii=())
        for below in range(1, n - 1):  # q_1 .. q_{n-2} = 0
            free = certify_partition(
                t, loo, TopK(1), ties="weak", radii=(), small=SmallCoalitions(below, "free")
            )
            assert (free.verdict, free.level_margin) == (plain.verdict, plain.level_margin)
        for sv, below in ((loo, n), (brute.semivalue("shapley"), 2)):
            for ratio in (1, math.inf):
                c = certify_partition(
                    t,
                    sv,
                    TopK(1),
                    ties="weak",
                    small=SmallCoalitions(below, "free"),
                    transforms=MonotoneClass(max_slope_ratio=ratio),
                )
                assert (c.verdict, c.slope_radius) == ("not_robust", 0.0)
                assert c.witness.check(t, sv)[2] < 0
                c.verify(t)
        only_empty = certify_partition(
            t, brute.semivalue("shapley"), TopK(1), ties="weak", radii=(), small=SmallCoalitions(1, "free")
        )
        plain = certify_partition(t, brute.semivalue("shapley"), TopK(1), ties="weak", radii=())
        assert only_empty.verdict == plain.verdict  # v(empty) never matters for a comparison


def test_rounding_merges_levels_and_can_only_help(brute):
    rng, gained = np.random.default_rng(9), 0
    sv = brute.semivalue("shapley")
    for v in brute.games(rng, 60, sizes=(3, 4)):
        if not np.any(v % 1):
            continue
        t, rounded = UtilityTable.from_array(v), np.round(v, 1) + 0.0
        c = certify_partition(t, sv, TopK(1), ties="weak", transforms=MonotoneClass(decimals=1))
        by_hand = certify_partition(UtilityTable.from_array(rounded), sv, TopK(1), ties="weak")
        assert (c.verdict, c.level_margin, c.level, c.slope_radius, c.score_margin, c.semivalues) == (
            by_hand.verdict,
            by_hand.level_margin,
            by_hand.level,
            by_hand.slope_radius,
            by_hand.score_margin,
            by_hand.semivalues,
        )
        assert c.table_sha256 == t.sha256 != by_hand.table_sha256
        assert c.assumptions["decimals"] == 1
        c.verify(t)
        if c.witness is not None:
            assert c.witness.check(t, sv)[2] < 0
        fine = certify_partition(t, sv, TopK(1), radii=())
        if fine.robust and fine.members == c.members:
            assert c.robust
            gained += 1
    assert gained > 3
