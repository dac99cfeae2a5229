"""Missing coalitions against all completions on the levels, and the monotone bounds."""

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

from porism.theory.partition import (
    DegenerateUtilityError,
    MissingCoalitionsError,
    MonotoneClass,
    NotMonotoneError,
    OrderedPartition,
    Semivalue,
    Sign,
    SmallCoalitions,
    TopK,
    UtilityTable,
    certify_partition,
)


def incomplete(v, gone):
    masks = np.array([m for m in range(len(v)) if m not in gone])
    return UtilityTable.from_pairs(masks, np.asarray(v, float)[masks], len(v).bit_length() - 1)


def completions(v, gone, monotone):
    """All completions whose missing scores are levels of the known ones."""
    known = [m for m in range(len(v)) if m not in gone]
    levels = sorted({float(v[m]) for m in known})
    for filling in itertools.product(levels, repeat=len(gone)):
        full = [float(x) for x in v]
        for m, x in zip(gone, filling, strict=True):
            full[m] = x
        if not monotone or all(
            full[a] <= full[b] for a in range(len(v)) for b in range(len(v)) if a & b == a
        ):
            yield full


def spread(brute, v, gone, p, rows, monotone):
    """Least D over completions, levels and rows; and least over levels and rows of the greatest D."""
    known = [float(v[m]) for m in range(len(v)) if m not in gone]
    sigma = sorted(set(known))[1:]
    lower, greatest = F(10), {}
    for full in completions(v, gone, monotone):
        for s in sigma:
            psi = brute.values([F(int(x >= s)) for x in full], p)
            for i, j in rows:
                d = psi[i] - psi[j]
                lower = min(lower, d)
                greatest[s, i, j] = max(greatest.get((s, i, j), F(-10)), d)
    return lower, min(greatest.values())


@pytest.mark.parametrize("kind", ["range", "monotone"])
@pytest.mark.parametrize("name", ["shapley", "banzhaf", "loo"])
def test_missing_against_all_completions(brute, name, kind):
    rng, seen = np.random.default_rng([1, len(name)]), set()
    sv = brute.semivalue(name)
    for number in range(60 if kind == "monotone" else 30):
        n = int(rng.choice((2, 3, 4), p=(0.1, 0.5, 0.4)))
        masks = np.arange(2**n)
        v = rng.integers(0, 4, 2**n).astype(float)
        if number % 2:
            v += 3 * (masks >> (n - 1) & 1)
        if kind == "monotone":
            for i in range(n):
                v = np.where(masks >> i & 1, np.maximum(v, v[masks & ~(1 << i)]), v)
        gone = sorted(int(x) for x in rng.choice(2**n, size=1 + number % 2 * (n < 4), replace=False))
        t = incomplete(v, gone)
        if len(np.unique(t.scores[~np.isnan(t.scores)])) < 2:
            continue
        p = brute.weights(name, n)
        c = certify_partition(t, sv, TopK(int(rng.integers(1, n))), missing=kind, ties="weak")
        rows = brute.pairs(c.blocks)
        lower, upper = spread(brute, v, gone, p, rows, kind == "monotone")
        assert c.level_margin == lower
        assert (F(c.statistics["lower"]), F(c.statistics["upper"])) == (lower, upper)
        assert c.verdict == ("robust" if lower >= 0 else "not_robust" if upper < 0 else "undecided")
        assert c.robust is (c.score_margin >= 0)
        full = list(completions(v, gone, kind == "monotone"))
        everywhere = [brute.margin(x, p, rows)[0] >= 0 for x in full]
        assert all(everywhere) is c.robust
        if c.verdict == "not_robust":
            assert not any(everywhere)
            assert c.witness.check(t, sv)[2] < 0
        # the decision is the one of the midpoint of the bounds (PR-12)
        boxes = {m: ([x[m] for x in full]) for m in gone}
        middle = [float(x) for x in v]
        for m in gone:
            middle[m] = (min(boxes[m]) + max(boxes[m])) / 2
        assert c.semivalues == tuple(float(x) for x in brute.values(middle, p))
        seen.add(c.verdict)
        c.verify(t)
    assert seen == {"robust", "not_robust", "undecided"} or name == "loo"


def test_sign_with_missing_and_small(brute):
    rng, seen = np.random.default_rng(2), set()
    for number in range(40):
        n = 3
        v = rng.integers(0, 3, 8).astype(float) + (number % 3) * np.array([m.bit_count() for m in range(8)])
        gone = [int(rng.integers(8))]
        small = number % 2 == 0
        p, sv = brute.weights("shapley", n), brute.semivalue("shapley")
        if np.ptp(np.delete(v, gone)) == 0:
            continue
        if small:
            gone = [0]
            t = UtilityTable.from_array(v)
            c = certify_partition(t, sv, Sign(), small=SmallCoalitions(1))
        else:
            t = incomplete(v, gone)
            c = certify_partition(t, sv, Sign(), missing="range")
        known = [x for m, x in enumerate(v) if m not in gone] + ([v[0]] if small else [])
        lower = []
        for full in (
            completions([*v], gone, False) if not small else ([x, *v[1:]] for x in sorted(set(known)))
        ):
            for s in sorted(set(known))[1:]:
                psi = brute.values([F(int(x >= s)) for x in full], p)
                lower.append(min(x if i in c.members else -x for i, x in enumerate(psi)))
        assert c.level_margin == min(lower)
        assert c.robust is (min(lower) >= 0)
        seen.add(c.verdict)
        c.verify(t)
    assert "robust" in seen
    assert len(seen) > 1


def test_missing_under_a_slope_bound(brute):
    """A slope bound can decide what arbitrary transforms leave open."""
    rng, gained = np.random.default_rng(3), 0
    for _ in range(60):
        v = rng.integers(0, 5, 8) + 3.0 * (np.arange(8) & 1)
        gone = [int(rng.integers(8))]
        t, sv, p = incomplete(v, gone), brute.semivalue("shapley"), brute.weights("shapley", 3)
        box = (float(np.nanmin(t.scores)), float(np.nanmax(t.scores)))
        for ratio in (1.0, 2.0):
            c = certify_partition(
                t,
                sv,
                TopK(1),
                missing="range",
                ties="weak",
                transforms=MonotoneClass(max_slope_ratio=ratio),
                radii=("slope",),
            )
            worst = min(
                brute.worst(v, p, row, ratio=ratio, free=gone, bounds=box) for row in brute.pairs(c.blocks)
            )
            if abs(worst) > 1e-8:
                assert c.robust is (worst > 0)
                assert c.robust is (c.slope_radius >= ratio)
                gained += c.robust and c.level_margin < 0
            c.verify(t)
            if c.verdict == "not_robust":
                assert c.witness.check(t, sv)[2] < 0
    assert gained > 3


def test_missing_refused_by_default_but_not_for_small_ones():
    v = [0, 1, 1, 1, 4, 5, 5, 6, 4, 5, 5, 6, 9, 10, 10, 11]
    t = incomplete(v, [0, 4, 12])
    from porism.theory.partition import Semivalue

    sh = Semivalue.shapley()
    with pytest.raises(MissingCoalitionsError) as caught:
        certify_partition(t, sh, TopK(2))
    for word in ("lacks 3 of 16", "{}, {2}, {2, 3}", "use missing='range' or target='estimate'"):
        assert word in str(caught.value)
    with pytest.raises(MissingCoalitionsError, match=r"lacks 1 of 16 coalitions: \{2, 3\};"):
        certify_partition(t, sh, TopK(2), small=SmallCoalitions(2))
    certify_partition(incomplete(v, [0, 4]), sh, TopK(2), small=SmallCoalitions(2))
    many = UtilityTable.from_pairs([[], [4]], [0.0, 1.0])
    with pytest.raises(MissingCoalitionsError) as caught:
        certify_partition(many, sh, TopK(2))
    assert "lacks 30 of 32" in str(caught.value)
    assert str(caught.value).count("{") == 10
    assert "…" in str(caught.value)


def test_monotone_needs_a_monotone_table():
    v = [0, 1, 2, 3, 4, 5, 1, 7]  # {2} scores 4, {1, 2} scores 1
    from porism.theory.partition import Semivalue

    sh = Semivalue.shapley()
    with pytest.raises(NotMonotoneError) as caught:
        certify_partition(incomplete(v, [0]), sh, TopK(1), missing="monotone")
    for word in ("{2}", "{1, 2}", "4.0", "1.0", "missing='range'"):
        assert word in str(caught.value)
    with pytest.raises(NotMonotoneError):
        certify_partition(
            UtilityTable.from_array([0, 1, 2, 9, 4, 5, 6, 7]),
            sh,
            TopK(1),
            small=SmallCoalitions(1, "monotone"),
        )
    # violations among the free coalitions do not count
    certify_partition(
        UtilityTable.from_array([9, 1, 2, 3, 4, 5, 6, 7]), sh, TopK(1), small=SmallCoalitions(1, "monotone")
    )
    with pytest.raises(NotMonotoneError, match="floor"):
        certify_partition(
            UtilityTable.from_array([0, 1, 2, 3, 4, 5, 6, 7]),
            sh,
            TopK(1),
            small=SmallCoalitions(2, "monotone", (3.5, 8)),
        )
    certify_partition(incomplete(v, [0]), sh, OrderedPartition([[2], [0, 1]]), missing="range")


@pytest.mark.parametrize("shape", ["increasing", "concave", "convex"])
def test_bounds_that_leave_one_level_are_a_constant_utility(shape):
    t = UtilityTable.from_array([1, 1, 0, 0, 0, 1, 1, 1])
    small = SmallCoalitions(3, "monotone", (1, 8))
    with pytest.raises(DegenerateUtilityError, match="constant utility"):
        certify_partition(
            t, Semivalue.shapley(), TopK(1), ties="weak", transforms=MonotoneClass(shape), small=small
        )
