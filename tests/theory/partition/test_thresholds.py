"""Sign, threshold and mean decisions against level games and random transforms."""

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

from porism.theory.partition import (
    MonotoneClass,
    RelativeThreshold,
    Sign,
    Threshold,
    UtilityTable,
    certify_partition,
    value_intervals,
)

NAMES = ["shapley", "banzhaf", "tenth", "beta41"]


def margins(brute, v, p, decision, members):
    """(least margin, level, player) over levels and players, from the level games."""
    r = F(max(v)) - F(min(v))
    out = []
    for s, psi in brute.level_values(v, p):
        shift = (
            sum(psi) / len(psi)
            if isinstance(decision, RelativeThreshold)
            else getattr(decision, "tau", F(0)) / r
        )
        out += [((x - shift) if i in members else (shift - x), s, (i,)) for i, x in enumerate(psi)]
    least = min(d for d, _, _ in out)
    return least, min(s for d, s, _ in out if d == least), out


@pytest.mark.parametrize("name", NAMES)
def test_margins_verdicts_and_members(brute, name):
    rng, sv, seen = np.random.default_rng([7, NAMES.index(name)]), brute.semivalue(name), set()
    for v in brute.games(rng, 24, sizes=(1, 2, 3, 4)):
        n = v.size.bit_length() - 1
        if rng.random() < 0.5:
            v = v + 1.75 * np.array([m.bit_count() for m in range(2**n)])
        p = brute.weights(name, n)
        psi, t = brute.values(v, p), UtilityTable.from_array(v)
        tau = F(float(rng.choice((0.25, -0.5, 1.0, 0.0)))) if rng.random() < 0.7 else psi[0]
        for decision in (Sign(), RelativeThreshold(), Threshold(tau)):
            c = certify_partition(t, sv, decision, transforms=MonotoneClass(range_normalised=True))
            shift = (
                sum(psi) / n if isinstance(decision, RelativeThreshold) else getattr(decision, "tau", F(0))
            )
            assert c.members == tuple(i for i in range(n) if psi[i] > shift)
            assert c.blocks == (c.members, tuple(i for i in range(n) if psi[i] <= shift))
            least, level, everyone = margins(brute, v, p, decision, c.members)
            assert (c.level_margin, c.level) == (least, level)
            assert (least, level, c.pair) in everyone
            assert c.robust is (least >= 0)
            assert (c.slope_radius, c.slope_pair, c.score_margin, c.permanent_ties) == (None, None, None, ())
            assert c.base_gap == float(min(abs(x - shift) for x in psi))
            seen.add((type(decision).__name__, c.robust))
            c.verify(t)
            for _ in range(2 if c.robust else 0):  # kept by random transforms
                phi = brute.increasing(rng, v)
                low, high = min(phi), max(phi)
                scale = (F(max(v)) - F(min(v))) / (high - low)
                new = brute.values([(x - low) * scale + F(min(v)) for x in phi], p)
                cut = sum(new) / n if isinstance(decision, RelativeThreshold) else shift
                assert c.members == tuple(i for i in range(n) if new[i] > cut) or not c.strict
                assert all(new[i] >= cut if i in c.members else new[i] <= cut for i in range(n))
            if not c.robust:
                assert least < 0
                w = c.witness
                new, (player,), gap = w.check(t, sv)
                cut = new.mean() if isinstance(decision, RelativeThreshold) else float(shift)
                assert bool(new[player] < cut) is (player in c.members)
                assert gap == pytest.approx(float(new[player] - cut), abs=1e-12)
                assert w.partition(t, sv) != c.blocks
                phi = w.transform(np.unique(v))
                assert (np.diff(phi) > 0).all()
                assert (phi[0], phi[-1]) == pytest.approx((v.min(), v.max()))  # the class keeps the range
    assert {kind for kind, _ in seen} == {"Sign", "RelativeThreshold", "Threshold"}
    assert len(seen) == 6


@pytest.mark.parametrize("name", NAMES)
def test_value_intervals(brute, name):
    rng = np.random.default_rng([8, NAMES.index(name)])
    for v in brute.games(rng, 10, sizes=(2, 3, 4)):
        n = v.size.bit_length() - 1
        p, sv = brute.weights(name, n), brute.semivalue(name)
        r = F(max(v)) - F(min(v))
        games = brute.level_values(v, p)
        expected = [
            [float(r * min(x[i] for _, x in games)), float(r * max(x[i] for _, x in games))] for i in range(n)
        ]
        found = value_intervals(UtilityTable.from_array(v), sv)
        assert found.tolist() == expected
        for i in range(n):
            assert float(r) * brute.worst(v, p, (i, None)) == pytest.approx(found[i, 0], abs=1e-8)


def test_shapes_and_slopes_of_thresholds(brute):
    """Rows of one player under concave, convex and slope-bounded transforms, against the programme."""
    rng, seen = np.random.default_rng(9), set()
    sv = brute.semivalue("shapley")
    for v in itertools.islice(brute.games(rng, 60, sizes=(3,)), 25):
        p, t = brute.weights("shapley", 3), UtilityTable.from_array(v)
        r = float(max(v) - min(v))
        for tau, shape, ratio in (
            (0.0, "concave", np.inf),
            (0.5, "convex", np.inf),
            (-0.25, "increasing", 2.0),
        ):
            c = certify_partition(t, sv, Threshold(tau), transforms=MonotoneClass(shape, ratio, True))
            bound = None if np.isinf(ratio) else ratio
            worst = [
                brute.worst(v, p, (i, None) if i in c.members else (None, i), shape, bound) * r
                - (tau if i in c.members else -tau)
                for i in range(3)
            ]
            if abs(min(worst)) > 1e-7:
                assert c.robust is (min(worst) > 0)
                seen.add(c.robust)
            if not c.robust:
                assert c.witness.partition(t, sv) != c.blocks
            c.verify(t)
    assert seen == {True, False}


def test_a_value_at_the_threshold_is_on_the_lower_side(brute):
    v = np.array([0, 1, 3, 4.0])  # values 1 and 3
    t, sv = UtilityTable.from_array(v), brute.semivalue("shapley")
    c = certify_partition(t, sv, Threshold(1), transforms=MonotoneClass(range_normalised=True))
    assert c.members == (1,)
    assert c.base_gap == 0.0
    null = UtilityTable.from_array([0, 0, 3, 3.0])  # player 0 adds nothing
    sign = certify_partition(null, sv, Sign())
    assert (sign.members, sign.robust, sign.strict) == ((1,), True, True)


def test_size_only_terms_move_signs(brute):
    """PR-2 is about comparisons: a term h(|S|) changes signs."""
    t = UtilityTable.from_array([2, 3, 0, 4, 2, 5, 1, 6])
    sizes = np.array([m.bit_count() for m in range(8)])
    shifted = UtilityTable.from_array(t.scores - 5 * sizes)
    sv = brute.semivalue("shapley")
    assert certify_partition(t, sv, Sign()).members == (0, 2)
    assert certify_partition(shifted, sv, Sign()).members == ()


def test_of_tied_minima_the_least_player_is_named_whatever_its_side(brute):
    """Players 0 (below the mean) and 1 (above) both reach -1/12 at level 3 first."""
    v = [0, 0, 2, 1, 1, 1, 0, 0, 2, 3, 1, 2, 1, 0, 2, 1]
    t = UtilityTable.from_array(v)
    c = certify_partition(t, brute.semivalue("shapley"), RelativeThreshold())
    assert (c.members, c.level_margin, c.level, c.pair) == ((1, 3), F(-1, 12), 3.0, (0,))
    c.verify(t)
