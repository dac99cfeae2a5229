"""Bands, coverage and the three-valued verdict of population certificates (PR-16, PR-18, PR-19)."""

import math
from fractions import Fraction as F

import numpy as np
import pytest
from scipy.stats import binom

from porism.theory.partition import (
    MonotoneClass,
    OrderedPartition,
    Semivalue,
    Sign,
    TopK,
    UtilityTable,
    certify_partition,
    pair_radius,
    permutation_radius,
    player_radius,
    sequential_delta,
)

SH, BZ = Semivalue.shapley(), Semivalue.banzhaf()


def draw(rng, n, m, design, w=0.5):
    """Rows of a design, and their units."""
    if design == "permutation":
        members = np.zeros((m, n + 1, n), bool)
        for u in range(m):
            order = rng.permutation(n)
            for step in range(n):
                members[u, step + 1 :, order[step]] = True
        return members.reshape(-1, n), np.repeat(np.arange(m), n + 1)
    if design == "shapley-size":
        sizes = np.arange(1, n)
        law = 1 / (sizes * (n - sizes))
        chosen = rng.choice(sizes, size=m, p=law / law.sum())
        members = np.argsort(np.argsort(rng.random((m, n)), axis=1), axis=1) < chosen[:, None]
        return members, None
    return rng.random((m, n)) < w, None


def sample(rng, v, m, design, w=0.5, **options):
    n = len(v).bit_length() - 1
    members, unit = draw(rng, n, m, design, w)
    return UtilityTable.from_samples(
        members, v[members @ (1 << np.arange(n))], design=design, unit=unit, **options
    )


def block_game(n, k, spread=0.5, seed=0):
    masks = np.arange(2**n)
    return sum(masks >> i & 1 for i in range(k)) + spread * np.random.default_rng(seed).random(2**n)


def test_radii_by_their_formulas():
    n, delta = 12, 0.05
    log = math.log(2 * 12 * 11 / 0.05)
    assert pair_radius(n, delta, 500, 700) == pytest.approx(math.sqrt(log / 1000) + math.sqrt(log / 1400))
    assert pair_radius(n, delta, 0, 700) == math.inf
    assert player_radius(n, delta, 2000, 4.0) == pytest.approx(4 * math.sqrt(math.log(24 / 0.05) / 4000))
    assert permutation_radius(n, delta, 300) == pytest.approx(2 * math.sqrt(math.log(48 / 0.05) / 600))
    assert sequential_delta(0, 0.05) == pytest.approx(0.3 / math.pi**2)
    assert sequential_delta(2, 0.05) == pytest.approx(0.3 / math.pi**2 / 9)
    shares = [sequential_delta(r, 0.1) for r in range(100_000)]
    assert 0.1 - 1e-6 < math.fsum(shares) < 0.1
    for radius in (
        lambda d: pair_radius(12, d, 5, 5),
        lambda d: player_radius(12, d, 5, 4.0),
        lambda d: permutation_radius(12, d, 5),
        lambda d: sequential_delta(0, d),
    ):
        for wrong in (0, 1, 5, math.nan):
            with pytest.raises(ValueError, match="delta must be strictly between 0 and 1"):
                radius(wrong)
    with pytest.raises(ValueError, match="m must be >= 1, got 0"):
        player_radius(12, 0.05, 0, 4.0)


@pytest.mark.parametrize(
    ("design", "sv", "w", "band"),
    [
        ("uniform", BZ, 0.5, "pair"),
        ("msr", Semivalue.weighted_banzhaf(F(1, 4)), 0.25, "pair"),
        ("shapley-size", SH, 0.5, "pair"),
        ("permutation", SH, 0.5, "permutation"),
        ("msr", BZ, 0.5, "pair"),
    ],
)
def test_reported_numbers(design, sv, w, band):
    rng = np.random.default_rng(1)
    n, m, delta = 6, 400, 0.1
    v = np.round(block_game(n, 3, 2.0), 1)
    t = sample(rng, v, m, design, w, inclusion=w if design == "msr" else None)
    c = certify_partition(t, sv, TopK(3), target="population", delta=delta, epsilon=0.01)
    members, scores = t.sampled.dense(), t.sampled.scores
    lower, upper, radius = math.inf, math.inf, None
    for i in c.members:
        for j in c.blocks[1]:
            if band == "pair":
                a, b = members[:, i] & ~members[:, j], members[:, j] & ~members[:, i]
                d = [np.mean(scores[a] >= s) - np.mean(scores[b] >= s) for s in np.unique(scores)]
                rad = pair_radius(n, delta, int(a.sum()), int(b.sum()))
            else:
                change = np.diff(members.reshape(m, n + 1, n).astype(int), axis=1)
                d = []
                for s in np.unique(scores):
                    hit = np.diff((scores >= s).reshape(m, n + 1).astype(int), axis=1)
                    d.append((change[:, :, i] * hit).sum() / m - (change[:, :, j] * hit).sum() / m)
                rad = 2 * permutation_radius(n, delta, m)
            upper = min(upper, min(d) + rad)
            if min(*d, 0) - rad < lower:
                lower, radius = min(*d, 0) - rad, rad
    s = c.statistics
    assert (s["m"], s["delta"], s["epsilon"], s["band"]) == (m, delta, 0.01, band)
    assert (s["lower"], s["upper"], s["radius"]) == pytest.approx((lower, upper, radius), abs=1e-12)
    assert c.verdict == ("robust" if lower >= -0.01 else "not_robust" if upper < 0 else "undecided")
    assert s["samples_needed"] is None or s["samples_needed"] > 0
    assert (c.witness, c.level_margin, c.strict) == (None, None, False)
    c.verify(t)
    assert type(c).from_json(c.to_json()) == c


@pytest.mark.parametrize(("design", "sv"), [("uniform", BZ), ("permutation", SH), ("shapley-size", SH)])
def test_coverage(brute, design, sv):
    """All true D_l inside the band in at least 1 - delta of the runs: rejected only at a p-value of 1e-6."""
    rng, n, delta, runs, m = np.random.default_rng(2), 4, 0.2, 60, 40
    v = np.random.default_rng(3).integers(0, 4, 2**n).astype(float)
    p = brute.weights("banzhaf" if sv == BZ else "shapley", n)
    games = brute.level_values(v, p)
    truth = {
        (i, j): min([0.0, *(float(x[i] - x[j]) for _, x in games)])
        for i in range(n)
        for j in range(n)
        if i != j
    }
    misses = 0
    for _ in range(runs):
        t = sample(rng, v, m, design)
        order = rng.permutation(n).tolist()
        c = certify_partition(
            t, sv, OrderedPartition([order[:2], order[2:]]), target="population", delta=delta, ties="weak"
        )
        pairs = [(i, j) for i in c.blocks[0] for j in c.blocks[1]]
        least = min(truth[pair] for pair in pairs)
        strictly = min(min(float(x[i] - x[j]) for _, x in games) for i, j in pairs)
        misses += not (c.statistics["lower"] <= least and strictly <= c.statistics["upper"])
    assert binom.sf(misses - 1, runs, delta) > 1e-6
    assert c.statistics["upper"] < 1  # the band says something


def test_three_verdicts():
    rng = np.random.default_rng(4)
    n = 4
    masks = np.arange(2**n)
    good = (masks & 1) + 0.0 + 0.2 * (masks >> 1 & 1)
    t = sample(rng, good, 20_000, "uniform")
    assert certify_partition(t, BZ, TopK(1), target="population").verdict == "undecided"  # PR-16: empty tails
    close = certify_partition(t, BZ, TopK(1), target="population", epsilon=0.08)
    assert close.verdict == "robust"
    assert -0.08 <= close.statistics["lower"] <= -close.statistics["radius"]
    wrong = certify_partition(t, BZ, OrderedPartition([[1], [0, 2, 3]]), target="population")
    assert wrong.verdict == "not_robust"
    assert wrong.statistics["upper"] < 0
    assert wrong.pair == (1, 0)
    few = sample(rng, good, 30, "uniform")
    undecided = certify_partition(
        few, BZ, OrderedPartition([[1], [0, 2, 3]]), target="population", delta=0.001
    )
    assert undecided.verdict == "undecided"
    assert undecided.statistics["samples_needed"] > 30
    none = UtilityTable.from_samples(
        np.array([[1, 1], [0, 0], [1, 0]], bool), [1.0, 0.0, 2.0], design="uniform"
    )
    c = certify_partition(none, BZ, TopK(1), target="population")
    assert (c.verdict, c.statistics["lower"]) == ("undecided", -math.inf)  # player 1 never alone
    assert type(c).from_json(c.to_json()) == c


def test_slope_bound_over_the_declared_range():
    rng = np.random.default_rng(5)
    n = 4
    v = (np.arange(2**n) & 1) + 0.0
    members, _ = draw(rng, n, 5_000, "uniform")
    scores = v[members @ (1 << np.arange(n))]
    make = lambda span: UtilityTable.from_samples(members, scores, design="uniform", score_range=span)
    with pytest.raises(ValueError, match="score_range"):
        certify_partition(
            make(None), BZ, TopK(1), target="population", transforms=MonotoneClass(max_slope_ratio=2)
        )
    base = certify_partition(make((0, 1)), BZ, TopK(1), target="population", epsilon=0.5)
    rad = base.statistics["radius"]
    # one level with D = 1 on (0, 1], nothing above: P = 1 - rad, M = rad * (hi - 1)
    hi = 3.0
    bound = (1 - rad) / (rad * (hi - 1))
    rads = []
    dense = make((0, hi)).sampled.dense()
    for j in (1, 2, 3):
        rads.append(
            pair_radius(
                n, 0.05, int((dense[:, 0] & ~dense[:, j]).sum()), int((dense[:, j] & ~dense[:, 0]).sum())
            )
        )
    bound = min((1 - r) / (r * (hi - 1)) for r in rads)
    for ratio, verdict in ((bound * 0.999, "robust"), (bound * 1.001, "undecided")):
        c = certify_partition(
            make((0, hi)), BZ, TopK(1), target="population", transforms=MonotoneClass(max_slope_ratio=ratio)
        )
        assert c.verdict == verdict
        c.verify(make((0, hi)))
    assert (
        certify_partition(
            make((0, 1)), BZ, TopK(1), target="population", transforms=MonotoneClass(max_slope_ratio=1e6)
        ).verdict
        == "robust"
    )
    reverse = certify_partition(
        make((0, hi)),
        BZ,
        OrderedPartition([[1], [0, 2, 3]]),
        target="population",
        transforms=MonotoneClass(max_slope_ratio=1),
    )
    assert reverse.verdict == "not_robust"
    rounded = certify_partition(
        make((0, hi)),
        BZ,
        TopK(1),
        target="population",
        transforms=MonotoneClass(max_slope_ratio=bound * 0.999, decimals=2),
    )
    assert rounded.verdict == "robust"  # rounding keeps the declared range


@pytest.mark.parametrize(
    ("design", "sv", "options", "words"),
    [
        ("unknown", BZ, {}, "needs an i.i.d. design"),
        ("uniform", BZ, {"truncated": True}, "needs an i.i.d. design"),
        ("permutation", SH, {"truncated": True}, "needs an i.i.d. design"),
        ("uniform", SH, {}, "does not fit shapley"),
        ("uniform", Semivalue.weighted_banzhaf("1/4"), {}, "does not fit wbanzhaf:1/4"),
        ("shapley-size", BZ, {}, "does not fit banzhaf"),
        ("permutation", BZ, {}, "does not fit banzhaf"),
        ("msr", Semivalue.beta(4, 1), {}, "does not fit beta:4,1"),
        ("msr", Semivalue.weighted_banzhaf("1/4"), {}, "does not fit wbanzhaf:1/4"),
        ("msr", BZ, {"inclusion": 0.25}, "does not fit banzhaf"),
    ],
)
def test_designs_that_do_not_fit(design, sv, options, words):
    t = sample(np.random.default_rng(6), block_game(3, 1), 30, design, **options)
    with pytest.raises(ValueError, match=words):
        certify_partition(t, sv, TopK(1), target="population")
    dense = UtilityTable.from_array(block_game(3, 1))
    with pytest.raises(ValueError, match=r"needs an i\.i\.d\. design"):
        certify_partition(dense, BZ, TopK(1), target="population")


def test_other_questions_are_refused():
    t = sample(np.random.default_rng(7), block_game(3, 1), 60, "uniform")
    for decision, options in ((Sign(), {}), (TopK(1), {"transforms": MonotoneClass("concave")})):
        with pytest.raises(ValueError, match="target='estimate'"):
            certify_partition(t, BZ, decision, target="population", **options)


def test_rows_of_one_unit_are_not_independent():
    """The bands count rows: a design of independent rows must have one unit a row."""
    rng = np.random.default_rng(8)
    members, _ = draw(rng, 3, 60, "uniform")
    t = UtilityTable.from_samples(members, rng.random(60), design="uniform", unit=np.arange(60) // 6)
    with pytest.raises(ValueError, match="unit"):
        certify_partition(t, BZ, TopK(1), target="population")


def test_shapley_sizes_rank_by_the_shapley_value():
    """Under sizes ~ 1/(s(n-s)) mean in minus mean out, times H_{n-1}/2, is the Shapley difference."""
    rng = np.random.default_rng(9)
    n = 8
    v = np.array([sum(n - i for i in range(n) if m >> i & 1) for m in range(2**n)], float)
    t = sample(rng, v, 100_000, "shapley-size")
    c = certify_partition(t, SH, TopK(3), target="population")
    assert np.diff(c.semivalues) == pytest.approx([-1] * (n - 1), abs=0.5)
    assert c.semivalues[0] - c.semivalues[-1] == pytest.approx(n - 1, abs=0.4)
    assert c.members == (0, 1, 2)
