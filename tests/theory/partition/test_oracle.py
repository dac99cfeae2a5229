"""The worked cases, with the numbers that a hand calculation in rationals gives."""

import math
from fractions import Fraction as F

import numpy as np
import pytest

from porism.theory.partition import (
    BoundaryTieError,
    MonotoneClass,
    OrderedPartition,
    Semivalue,
    Sign,
    SmallCoalitions,
    TopK,
    UtilityTable,
    certify_partition,
    is_coalitionally_dominant,
    robust_ks,
    semivalues,
    value_intervals,
)

SH, BZ = Semivalue.shapley(), Semivalue.banzhaf()
O3 = [0, 3, 2, 5, 1, 4, 5, 8, 1, 6, 3, 8, 2, 7, 7, 10]
O13 = [0, 0, 0, 10, 0, 10, 0, 10]
O14 = [0, 1, 1, 1, 4, 5, 5, 6, 4, 5, 5, 6, 9, 10, 10, 11]
MODULAR = [sum(w for i, w in enumerate((4, 3, 2, 1)) if m >> i & 1) for m in range(16)]
INF = math.inf

# name, scores, semivalue, k, values, members, verdict, margin, failing level and pair, kappa, score margin
CASES = [
    ("O1", [0, 1, 3, 4], SH, 1, "1 3", {1}, True, 0, None, None, INF, 2),
    ("O2 Sh", [0, 2, 5, 6, 0, 5, 1, 7], SH, 1, "11/3 19/6 1/6", {0}, True, 0, None, None, INF, 0),
    ("O2 Bz", [0, 2, 5, 6, 0, 5, 1, 7], BZ, 1, "7/2 3 0", {0}, True, 0, None, None, INF, 0),
    ("O3 k=1", O3, SH, 1, "7/2 17/6 11/6 11/6", {0}, True, 0, None, None, INF, 0),
    ("O3 Bz", O3, BZ, 1, "15/4 3 2 2", {0}, True, 0, None, None, INF, 0),
    ("O3 k=2", O3, SH, 2, "7/2 17/6 11/6 11/6", {0, 1}, False, "-1/6", 6, (1, 3), 7, -1),
    (
        "O3 w=1/4",
        O3,
        Semivalue.weighted_banzhaf("1/4"),
        2,
        "111/32 81/32 49/32 49/32",
        {0, 1},
        False,
        "-3/16",
        6,
        (1, 3),
        "19/3",
        None,
    ),
    ("O4 Sh", MODULAR, SH, 2, "4 3 2 1", {0, 1}, True, 0, None, None, INF, 1),
    ("O4 Beta", MODULAR, Semivalue.beta(4, 1), 2, "4 3 2 1", {0, 1}, True, 0, None, None, INF, 1),
    ("O4 squared", [x * x for x in MODULAR], SH, 2, "40 30 20 10", {0, 1}, True, 0, None, None, INF, 5),
    ("O5", [0, 5, 0, 7, 0, 7, 10, 12], SH, 1, "14/3 11/3 11/3", {0}, False, "-1/2", 10, (0, 1), "5/3", -3),
    (
        "O9",
        [0, 1, 3, 2, 5, 4, 6, 7],
        Semivalue.leave_one_out(),
        1,
        "1 3 5",
        {2},
        True,
        0,
        None,
        None,
        INF,
        None,
    ),
    ("O11", [0, 9, 4, 5, 8, 0, 7, 12], SH, 1, "7/2 9/2 4", {1}, False, "-1/2", 7, (1, 2), "4/3", -3),
    ("O12", [0, 3, 0, 2, 1, 5, 7, 12], SH, 1, "11/3 19/6 31/6", {2}, False, "-1/2", 2, (2, 0), 4, -1),
    ("O15 k=1", [0, 8, 4, 12, 1, 9, 5, 14], SH, 1, "25/3 13/3 4/3", {0}, True, 0, None, None, INF, None),
    ("O15 k=2", [0, 8, 4, 12, 1, 9, 5, 14], SH, 2, "25/3 13/3 4/3", {0, 1}, True, 0, None, None, INF, None),
]


def table(v):
    return UtilityTable.from_array(v)


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_values_verdict_margin_and_radii(case):
    _, v, sv, k, psi, members, robust, margin, level, pair, kappa, score = case
    t = table(v)
    expected = [F(x) for x in psi.split()]
    assert semivalues(t, sv, exact=True) == expected
    assert semivalues(t, sv).tolist() == pytest.approx([float(x) for x in expected], abs=1e-14)
    c = certify_partition(t, sv, TopK(k))
    assert c.semivalues == tuple(float(x) for x in expected)
    assert set(c.members) == members
    assert (c.verdict, c.robust, c.strict) == (
        ("robust", True, True) if robust else ("not_robust", False, False)
    )
    assert c.level_margin == F(margin)
    if not robust:
        assert (c.level, c.pair, c.slope_pair) == (level, pair, pair)
    assert c.slope_radius == float(F(kappa) if kappa != INF else INF)
    if score is not None:
        assert c.score_margin == score
    assert c.permanent_ties == ()
    c.verify(t)


@pytest.mark.parametrize(
    ("v", "sv", "k", "concave", "convex"),
    [
        (O3, SH, 2, True, True),
        (O3, Semivalue.weighted_banzhaf(0.25), 2, True, False),
        ([0, 5, 0, 7, 0, 7, 10, 12], SH, 1, True, False),
        ([0, 9, 4, 5, 8, 0, 7, 12], SH, 1, True, False),
        ([0, 3, 0, 2, 1, 5, 7, 12], SH, 1, False, True),
    ],
    ids=["O3", "O3 w=1/4", "O5", "O11", "O12"],
)
def test_concave_and_convex(v, sv, k, concave, convex):
    for shape, robust in (("concave", concave), ("convex", convex)):
        c = certify_partition(table(v), sv, TopK(k), transforms=MonotoneClass(shape=shape))
        assert c.robust is robust
        c.verify(table(v))
        if not robust:
            assert c.witness.check(table(v), sv)[2] < 0


def test_base_gaps():
    assert certify_partition(table([0, 2, 5, 6, 0, 5, 1, 7]), SH, TopK(1)).base_gap == 0.5
    assert certify_partition(table([0, 5, 0, 7, 0, 7, 10, 12]), SH, TopK(1)).base_gap == 1.0


def test_dominance_of_the_worked_cases():
    assert is_coalitionally_dominant(table([0, 1, 3, 4]), [1]) == (True, None)
    answer, example = is_coalitionally_dominant(table([0, 2, 5, 6, 0, 5, 1, 7]), [0])
    assert (answer, example) == (False, (0, 1, ()))
    # the first contradiction of O3 is S={2}: v{0,2} = 4 < v{1,2} = 5
    assert is_coalitionally_dominant(table(O3), [0]) == (False, (0, 1, (2,)))
    assert is_coalitionally_dominant(table(MODULAR), [0, 1]) == (True, None)
    assert is_coalitionally_dominant(table(O14), [2, 3]) == (True, None)


def test_witness_of_o5():
    t = table([0, 5, 0, 7, 0, 7, 10, 12])
    w = certify_partition(t, SH, TopK(1)).witness
    assert (w.level, w.epsilon, w.pair) == (10.0, F(1, 4), (0, 1))
    new, pair, gap = w.check(t, SH)
    assert pair == (0, 1)
    assert gap == -0.25  # half of D_l
    assert new[1] - new[0] == pytest.approx(0.25, abs=1e-15)
    assert w.partition(t, SH)[0] != (0,)
    # phi = 1[x >= 10] + x/4, linear between the levels 7 and 10, of slope 1/4 outside
    assert w.transform([0, 5, 7, 10, 12, 14, -4]).tolist() == [0, 1.25, 1.75, 3.5, 4, 4.5, -1]


def test_ties():
    for v, k, players in (
        ([0, 4, 0, 6, 0, 6, 10, 12], 1, "[0, 1, 2]"),
        (O3, 3, "[2, 3]"),
        ([0, 3, 3, 5, 1, 4, 4, 6], 1, "[0, 1]"),
        ([0, 3, 1, 4, 0, 2, 4, 6], 1, "[0, 1]"),
    ):
        with pytest.raises(BoundaryTieError, match="ties='weak'") as caught:
            certify_partition(table(v), SH, TopK(k))
        assert players in str(caught.value)

    o6 = certify_partition(table([0, 4, 0, 6, 0, 6, 10, 12]), SH, TopK(1), ties="weak")
    assert o6.semivalues == (4.0, 4.0, 4.0)
    assert (o6.members, o6.verdict, o6.level_margin, o6.slope_radius) == ((0,), "not_robust", F(-1, 2), 1.0)

    o7 = certify_partition(table([0, 3, 3, 5, 1, 4, 4, 6]), SH, TopK(1), ties="weak")
    assert o7.semivalues == (2.5, 2.5, 1.0)
    assert (o7.members, o7.verdict, o7.strict, o7.score_margin) == ((0,), "robust", False, 0.0)
    assert o7.permanent_ties == ((0, 1),)
    two = certify_partition(table([0, 3, 3, 5, 1, 4, 4, 6]), SH, TopK(2))
    assert (two.verdict, two.strict, two.score_margin) == ("robust", True, 1.0)

    v = [0, 3, 1, 4, 0, 2, 4, 6]
    o8 = certify_partition(table(v), SH, TopK(1), ties="weak")
    assert (o8.members, o8.verdict, o8.level_margin, o8.level, o8.pair) == (
        (0,),
        "not_robust",
        F(-1, 2),
        4.0,
        (0, 1),
    )
    assert o8.permanent_ties == ()
    named = certify_partition(table(v), SH, OrderedPartition([[0], [1, 2]]), ties="weak")
    assert (named.level_margin, named.pair, named.members) == (o8.level_margin, o8.pair, (0,))


def test_o10_sign_and_intervals():
    v = [2, 3, 0, 4, 2, 5, 1, 6]
    t = table(v)
    assert semivalues(t, SH, exact=True) == [F(19, 6), F(-1, 3), F(7, 6)]
    expected = {
        1: "1/6 -1/3 1/6",
        2: "1/2 -1/2 0",
        3: "1 0 0",
        4: "2/3 1/6 1/6",
        5: "1/2 0 1/2",
        6: "1/3 1/3 1/3",
    }
    for level, psi in expected.items():
        simple = table([float(x >= level) for x in v])
        assert semivalues(simple, SH, exact=True) == [F(x) for x in psi.split()]
    assert value_intervals(t, SH).tolist() == [[1, 6], [-3, 2], [0, 3]]
    c = certify_partition(t, SH, Sign())
    assert (c.members, c.blocks, c.verdict) == ((0, 2), ((0, 2), (1,)), "not_robust")
    assert (c.level_margin, c.level, c.pair) == (F(-1, 3), 6.0, (1,))  # player 1 is positive at 4 and 6
    assert c.slope_radius is None
    assert c.score_margin is None
    new, pair, _ = c.witness.check(t, SH)
    assert pair == (1,)
    assert new[1] > 0
    assert 1 in c.witness.partition(t, SH)[0]
    c.verify(t)


@pytest.mark.parametrize(
    ("sv", "f1", "f2", "f4"),
    [(SH, 0, 0, F(1, 2)), (Semivalue.beta(1, 4), F(3, 5), 6, F(4, 5))],
    ids=["Shapley", "Beta(1,4)"],
)
def test_o13_small_coalitions(sv, f1, f2, f4):
    t = table(O13)
    free = certify_partition(t, sv, TopK(1), small=SmallCoalitions(2))
    assert (free.members, free.verdict, free.level_margin) == ((0,), "robust", f1)
    assert free.strict is (f1 > 0)
    fixed = certify_partition(
        t, sv, TopK(1), small=SmallCoalitions(2), transforms=MonotoneClass(max_slope_ratio=1)
    )
    assert (fixed.robust, fixed.strict) == (f2 >= 0, f2 > 0)
    assert 10 * fixed.level_margin == f2  # the only gap is 10
    ordered = certify_partition(t, sv, TopK(1), small=SmallCoalitions(2, "monotone"))
    assert (ordered.verdict, ordered.strict, ordered.level_margin) == ("robust", True, f4)
    unbounded = certify_partition(t, sv, TopK(1), small=SmallCoalitions(2, "free"))
    assert unbounded.verdict == "not_robust"
    assert unbounded.slope_radius == 0.0
    size = certify_partition(t, sv, TopK(1), small=SmallCoalitions(2, "size-only"))
    assert (size.verdict, size.strict) == ("robust", True)
    for c in (free, fixed, ordered, unbounded, size):
        c.verify(t)


@pytest.mark.parametrize(
    ("sv", "mass", "f2", "kappa"),
    [(SH, F(1, 3), -1, F(1, 3)), (BZ, F(1, 4), F(1, 4), F(3, 2))],
    ids=["Sh", "Bz"],
)
def test_o14_small_coalitions(sv, mass, f2, kappa):
    t = table(O14)
    plain = certify_partition(t, sv, TopK(2))
    assert (plain.members, plain.verdict) == ((2, 3), "robust")
    for values in ("range", "monotone"):
        c = certify_partition(t, sv, TopK(2), small=SmallCoalitions(2, values))
        assert (c.verdict, c.level_margin) == ("not_robust", -mass)
        assert c.witness.check(t, sv)[2] < 0
        c.verify(t)
    c = certify_partition(t, sv, TopK(2), small=SmallCoalitions(2))
    assert c.slope_radius == float(kappa)  # kappa*_2, class F3
    fixed = certify_partition(
        t, sv, TopK(2), small=SmallCoalitions(2), transforms=MonotoneClass(max_slope_ratio=1)
    )
    assert fixed.robust is (f2 >= 0)
    # the utility that class F2 fears: small coalitions without player 1 at 0, with it at 11
    worst = np.array(O14, float)
    worst[[0, 1, 4, 8]], worst[2] = 0, 11
    psi = semivalues(table(worst), sv, exact=True)
    assert psi[2] - psi[1] == f2
    for ratio, robust in ((kappa * F(999, 1000), True), (kappa, True), (kappa * F(1001, 1000), False)):
        if ratio >= 1:
            c = certify_partition(
                t,
                sv,
                TopK(2),
                small=SmallCoalitions(2),
                transforms=MonotoneClass(max_slope_ratio=float(ratio)),
            )
            assert c.robust is robust
            c.verify(t)


def test_o14_values_and_score_margin():
    t = table(O14)
    assert semivalues(t, SH, exact=True) == [F(11, 12), F(11, 12), F(55, 12), F(55, 12)]
    assert certify_partition(t, SH, TopK(2)).score_margin == 3


@pytest.mark.parametrize(
    ("absent", "lower"), [((0,), F(-1, 3)), ((0, 2), F(-1, 6)), ((2, 3), F(-1, 6)), ((0, 1), F(-1, 6))]
)
def test_o14_one_missing_coalition(absent, lower):
    gone = sum(1 << i for i in absent)
    masks = [m for m in range(16) if m != gone]
    t = UtilityTable.from_pairs(np.array(masks), np.array(O14)[masks], 4)
    assert t.missing() == [absent]
    c = certify_partition(t, SH, TopK(2), missing="range")
    assert c.verdict == "undecided"
    assert c.level_margin == lower
    assert c.statistics["lower"] == str(lower)
    assert c.statistics["upper"] == "0"
    assert c.members == (2, 3)
    assert c.assumptions["completion"] == "midpoint"
    assert c.witness is None
    c.verify(t)


def test_o15_all_k():
    t = table([0, 8, 4, 12, 1, 9, 5, 14])
    assert robust_ks(t, SH).tolist() == [True, True]
    blocks = certify_partition(t, SH, OrderedPartition([[0], [1], [2]]))
    assert (blocks.verdict, blocks.strict) == ("robust", True)
