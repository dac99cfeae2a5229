"""Symmetries and implications that hold for every game, searched by Hypothesis."""

import math
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from porism.theory.partition import (
    Certificate,
    MonotoneClass,
    OrderedPartition,
    Semivalue,
    TopK,
    UtilityTable,
    certify_partition,
    desirability_matrix,
    is_coalitionally_dominant,
    semivalues,
)

SEMIVALUES = st.one_of(
    st.sampled_from([Semivalue.shapley(), Semivalue.banzhaf(), Semivalue.leave_one_out()]),
    st.fractions(F(1, 20), F(19, 20), max_denominator=50).map(Semivalue.weighted_banzhaf),
    st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda ab: Semivalue.beta(*ab)),
)


@st.composite
def tables(draw, low=-6, high=6, sizes=(2, 3, 4)):
    n = draw(st.sampled_from(sizes))
    scores = draw(st.lists(st.integers(low, high), min_size=2**n, max_size=2**n))
    assume(min(scores) < max(scores))
    return np.array(scores, float)


def count(v):
    return len(v).bit_length() - 1


def sizes(n):
    return np.array([m.bit_count() for m in range(2**n)])


def relabelled(v, order):
    """The game in which player i is player order[i] of v."""
    masks = np.arange(len(v))
    return v[sum((masks >> new & 1) << old for new, old in enumerate(order))]


@settings(max_examples=40, deadline=None)
@given(tables(), SEMIVALUES, st.data())
def test_relabelling_permutes_everything(v, sv, data):
    n = count(v)
    order = data.draw(st.permutations(range(n)))
    t, u = UtilityTable.from_array(v), UtilityTable.from_array(relabelled(v, order))
    psi = semivalues(t, sv, exact=True)
    assert semivalues(u, sv, exact=True) == [psi[old] for old in order]
    blocks = OrderedPartition(
        [sorted(range(n), key=lambda i: -psi[i])[:1], sorted(range(n), key=lambda i: -psi[i])[1:]]
    )
    new = OrderedPartition([[order.index(p) for p in block] for block in blocks.blocks])
    a, b = (certify_partition(x, sv, d, ties="weak") for x, d in ((t, blocks), (u, new)))
    assert (a.verdict, a.strict, a.level_margin, a.level, a.slope_radius, a.score_margin, a.base_gap) == (
        b.verdict,
        b.strict,
        b.level_margin,
        b.level,
        b.slope_radius,
        b.score_margin,
        b.base_gap,
    )
    assert desirability_matrix(u).tolist() == desirability_matrix(t)[np.ix_(order, order)].tolist()
    if a.robust:
        assert {tuple(order[p] for p in pair) for pair in b.permanent_ties} == set(a.permanent_ties)


@settings(max_examples=40, deadline=None)
@given(tables(), SEMIVALUES, st.lists(st.integers(-9, 9), min_size=5, max_size=5))
def test_size_only_terms_leave_differences(v, sv, h):
    n = count(v)
    w = v + np.array(h, float)[sizes(n)]
    a, b = (semivalues(UtilityTable.from_array(x), sv, exact=True) for x in (v, w))
    assert len({x - y for x, y in zip(a, b, strict=True)}) == 1  # PR-2


@settings(max_examples=40, deadline=None)
@given(tables(), SEMIVALUES, st.data())
def test_affine_changes_leave_margin_and_slope_radius(v, sv, data):
    k = data.draw(st.integers(1, count(v) - 1))
    a, b = (certify_partition(UtilityTable.from_array(x), sv, TopK(k), ties="weak") for x in (v, 3 * v - 7))
    assert (a.verdict, a.strict, a.members, a.level_margin, a.slope_radius, a.pair, a.slope_pair) == (
        b.verdict,
        b.strict,
        b.members,
        b.level_margin,
        b.slope_radius,
        b.pair,
        b.slope_pair,
    )
    assert b.score_margin == 3 * a.score_margin
    assert b.level == 3 * a.level - 7


@settings(max_examples=60, deadline=None)
@given(tables(), SEMIVALUES, st.data())
def test_the_three_forms_of_robustness_agree(v, sv, data):
    k = data.draw(st.integers(1, count(v) - 1))
    t = UtilityTable.from_array(v)
    c = certify_partition(t, sv, TopK(k), ties="weak")
    assert c.robust == (c.level_margin >= 0) == (c.slope_radius == math.inf) == (c.score_margin >= 0)
    assert c.slope_radius >= 1
    assert c.slope_radius > 1 or c.base_gap == 0  # not the other way round where a tie is permanent
    for shape in ("concave", "convex"):
        shaped = certify_partition(
            t, sv, TopK(k), ties="weak", transforms=MonotoneClass(shape=shape), radii=("slope",)
        )
        assert shaped.robust >= c.robust
        assert shaped.slope_radius >= c.slope_radius
        assert shaped.level_margin == c.level_margin
    assert Certificate.from_json(c.to_json()) == c
    c.verify(t)
    if is_coalitionally_dominant(t, c.members)[0]:
        assert c.robust


@settings(max_examples=40, deadline=None)
@given(tables(low=0, high=30, sizes=(3, 4)), SEMIVALUES, st.data())
def test_a_coarser_table_is_at_least_as_robust(v, sv, data):
    """PR-21: T robust at fine resolution stays weakly valid and robust when levels merge."""
    k = data.draw(st.integers(1, count(v) - 1))
    c = certify_partition(UtilityTable.from_array(v), sv, TopK(k), ties="weak", radii=())
    width = data.draw(st.integers(2, 8))
    merged = np.floor(v / width)
    assume(c.robust)
    assume(merged.min() < merged.max())
    rest = [i for i in range(count(v)) if i not in c.members]
    coarse = certify_partition(
        UtilityTable.from_array(merged), sv, OrderedPartition([c.members, rest]), ties="weak"
    )
    assert coarse.robust
    assert coarse.base_gap >= 0


@settings(max_examples=30, deadline=None)
@given(tables(low=-40, high=40, sizes=(2, 3, 4)), st.data())
def test_score_margin_is_tight(brute, v, data):
    """PR-9: errors up to half the margin keep the partition for all transforms, 1.01 of it break it."""
    name = data.draw(st.sampled_from(["shapley", "banzhaf", "quarter", "loo"]))
    n, p = count(v), brute.weights(name, count(v))
    good = sum((np.arange(2**n) >> i & 1) for i in range(1, 1 + n // 2)) * data.draw(
        st.sampled_from([0, 20, 81])
    )
    v = v + good
    assume(v.min() < v.max())
    c = certify_partition(
        UtilityTable.from_array(v), brute.semivalue(name), TopK(max(1, n // 2)), ties="weak"
    )
    rows = brute.pairs(c.blocks)
    assert c.score_margin == brute.quantile_margin(v, p, rows)
    assume(c.score_margin > 0)
    eta = F(c.score_margin) / 2
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(2):
        signs = rng.choice((-1, 1), 2**n) if rng.random() < 0.5 else 2 * rng.random(2**n) - 1
        moved = [F(x) + eta * F(float(s)) for x, s in zip(v, signs, strict=True)]
        assert brute.quantile_margin(moved, p, rows) >= 0
        assert is_robust(moved, p, rows)
    i, j = next(row for row in rows if brute.quantile_margin(v, p, [row]) == c.score_margin)
    beyond = eta * F(101, 100)
    worst = [F(x) - beyond * ((m >> i & 1) - (m >> j & 1)) for m, x in enumerate(v)]
    assert not is_robust(worst, p, rows)


def is_robust(v, p, rows):
    """All D_l >= 0 over rational scores."""
    n = len(p)
    q = [0, *(p[s - 1] + p[s] for s in range(1, n)), 0]
    return all(
        sum(q[m.bit_count()] * ((m >> i & 1) - (m >> j & 1)) for m in range(2**n) if v[m] >= s) >= 0
        for s in sorted(set(v))[1:]
        for i, j in rows
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), SEMIVALUES, st.data())
def test_modular_games_are_dominant(n, sv, data):
    """PR-13c, for a transformed modular game."""
    w = data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    total = np.array([sum(x for i, x in enumerate(w) if m >> i & 1) for m in range(2**n)], float)
    v = data.draw(st.sampled_from([lambda x: x, lambda x: x**3, lambda x: np.minimum(x, 6), np.sqrt]))(total)
    assume(v.min() < v.max())
    t = UtilityTable.from_array(v)
    k = data.draw(st.integers(1, n - 1))
    members = sorted(range(n), key=lambda i: (-w[i], i))[:k]
    assert is_coalitionally_dominant(t, members) == (True, None)
    rest = [i for i in range(n) if i not in members]
    with_ties = certify_partition(t, sv, OrderedPartition([members, rest]), ties="weak")
    assert with_ties.robust
    assert with_ties.score_margin >= 0


@settings(max_examples=25, deadline=None)
@given(tables(), SEMIVALUES, st.data())
def test_strict_flag_against_random_transforms(brute, v, sv, data):
    n = count(v)
    k = data.draw(st.integers(1, n - 1))
    c = certify_partition(UtilityTable.from_array(v), sv, TopK(k), ties="weak", radii=())
    phi = np.array(
        [float(x) for x in brute.increasing(np.random.default_rng(data.draw(st.integers(0, 999))), v)]
    )
    psi = semivalues(UtilityTable.from_array(phi), sv, exact=True)
    least = min(psi[i] - psi[j] for i, j in brute.pairs(c.blocks))
    if c.robust:
        assert least >= 0
    if c.strict:
        assert least > 0


@pytest.mark.parametrize("number", range(3))
def test_workers_and_backends_do_not_matter(number):
    rng = np.random.default_rng(number)
    t = UtilityTable.from_array(rng.integers(0, 50, 1 << 9))
    a = certify_partition(t, Semivalue.shapley(), TopK(4), ties="weak")
    b = certify_partition(UtilityTable.from_array(t.scores.copy()), Semivalue.shapley(), TopK(4), ties="weak")
    assert a == b
    assert a.to_json() == b.to_json()


def test_a_permanent_tie_bounds_no_slope():
    """Players 1 and 2 are symmetric, on both sides of the boundary; 0 and 2 set the radius."""
    t = UtilityTable.from_array([0, -4, -2, 0, -2, 0, -3, 0])
    c = certify_partition(t, Semivalue.shapley(), TopK(2), ties="weak")
    assert (c.verdict, c.base_gap, c.slope_radius, c.slope_pair) == ("not_robust", 0.0, 2.0, (0, 2))
    c.verify(t)
