"""Sample-conditional certificates: each estimator against the linear functional that it is (PR-17)."""

import math
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from scipy.optimize import linprog

from porism.theory.partition import (
    BoundaryTieError,
    Certificate,
    CertificateMismatch,
    DegenerateUtilityError,
    MonotoneClass,
    OrderedPartition,
    RelativeThreshold,
    Semivalue,
    ShiftVariantEstimatorError,
    Sign,
    SmallCoalitions,
    Threshold,
    TopK,
    UtilityTable,
    certify_partition,
    semivalues,
)

BZ, SH = Semivalue.banzhaf(), Semivalue.shapley()


def msr(members):
    """Mean in minus mean out, as weights of the rows."""
    inside = members.sum(axis=0)
    m = len(members)
    return [
        [F(1, int(inside[i])) if members[r, i] else -F(1, m - int(inside[i])) for r in range(m)]
        for i in range(members.shape[1])
    ]


def walk(members, unit):
    """Mean marginal along the permutations."""
    m, n = members.shape
    count = len(set(unit.tolist()))
    weights = [[F(0)] * m for _ in range(n)]
    for r in range(1, m):
        if unit[r] == unit[r - 1]:
            (player,) = np.flatnonzero(members[r] != members[r - 1])
            weights[player][r] += F(1, count)
            weights[player][r - 1] -= F(1, count)
    return weights


def curve(weights, scores, row):
    """[(level, D_l)] of a row (i, j) of a linear estimator."""
    i, j = row
    return [
        (s, sum((weights[i][r] - weights[j][r] for r in range(len(scores)) if scores[r] >= s), F(0)))
        for s in sorted(set(map(float, scores)))[1:]
    ]


def worst(weights, scores, row, shape="increasing", ratio=None):
    """Least estimated difference over transforms from 0 to 1, by a linear programme."""
    sigma = sorted(set(map(float, scores)))
    at, n, width = {s: k for k, s in enumerate(sigma)}, len(sigma), np.diff(sigma)
    cost = np.zeros(n + 1)
    for r, s in enumerate(scores):
        cost[at[float(s)]] += float(weights[row[0]][r] - weights[row[1]][r])
    slope = np.zeros((n - 1, n + 1))
    for k, w in enumerate(width):
        slope[k, k], slope[k, k + 1] = -1 / w, 1 / w
    low = np.zeros(n + 1)
    low[n] = 1
    left = [-slope]
    if ratio is not None:
        left += [low - slope, slope - ratio * low]
    if shape == "concave":
        left.append(slope[1:] - slope[:-1])
    if shape == "convex":
        left.append(slope[:-1] - slope[1:])
    left = np.concatenate(left)
    ends = np.zeros((2, n + 1))
    ends[0, 0] = ends[1, n - 1] = 1
    found = linprog(cost, left, np.zeros(len(left)), ends, [0, 1], bounds=(None, None))
    assert found.status == 0
    return found.fun


def permutations(rng, n, count):
    members, unit = [], []
    for u in range(count):
        row = np.zeros(n, bool)
        members.append(row.copy())
        for player in rng.permutation(n):
            row[player] = True
            members.append(row.copy())
        unit += [u] * (n + 1)
    return np.array(members), np.array(unit)


def samples(rng, number, n=None):
    """A sampled table with its exact weights, and its arrays."""
    n = n or int(rng.integers(2, 6))
    if number % 2:
        members, unit = permutations(rng, n, int(rng.integers(1, 5)))
        weights, design = walk(members, unit), "permutation"
    else:
        members = rng.random((int(rng.integers(4, 14)), n)) < 0.5
        members[0], members[1] = True, False
        unit, weights, design = None, msr(members), "uniform"
    scores = rng.integers(0, 5, len(members)) + (members @ np.arange(n)) * rng.choice((0.0, 1.0, 2.5))
    if number % 3 == 0:
        scores = scores + rng.normal(size=len(scores))
    return UtilityTable.from_samples(members, scores, design=design, unit=unit), weights, scores


def test_margins_radii_and_classes():
    rng, seen = np.random.default_rng(0), set()
    for number in range(60):
        t, weights, scores = samples(rng, number)
        n = t.n_players
        if np.ptp(scores) == 0:
            continue
        psi = [sum(w * F(float(s)) for w, s in zip(row, scores, strict=True)) for row in weights]
        k = int(rng.integers(1, n))
        order = sorted(range(n), key=lambda i: (-psi[i], i))
        rows = [(i, j) for i in sorted(order[:k]) for j in sorted(order[k:])]
        sv = SH if number % 2 else BZ
        c = certify_partition(t, sv, TopK(k), target="estimate", ties="weak")
        assert c.semivalues == tuple(float(x) for x in psi)
        assert c.members == tuple(sorted(order[:k]))
        curves = {row: curve(weights, scores, row) for row in rows}
        least, level, pair = min((d, s, row) for row, points in curves.items() for s, d in points)
        assert (c.level_margin, c.level, c.pair) == (least, level, pair)
        assert c.robust is (least >= 0)
        tied = any(psi[i] == psi[j] for i, j in rows)
        assert c.strict is (least >= 0 and not tied)
        gaps = [F(b) - F(a) for a, b in zip(sorted(set(scores)), sorted(set(scores))[1:], strict=False)]
        kappa = math.inf
        for points in curves.values():
            minus = sum(g * -min(d, 0) for g, (_, d) in zip(gaps, points, strict=True))
            plus = sum(g * max(d, 0) for g, (_, d) in zip(gaps, points, strict=True))
            kappa = min(kappa, plus / minus if minus else math.inf)
        assert c.slope_radius == float(kappa)
        assert c.score_margin is None
        seen.add(c.robust)
        c.verify(t)
        assert Certificate.from_json(c.to_json()) == c
        if not c.robust:
            phi = [F(float(x)) for x in c.witness.transform(scores)]
            new = [sum(w * s for w, s in zip(row, phi, strict=True)) for row in weights]
            assert new[c.witness.pair[0]] < new[c.witness.pair[1]]
        for shape, ratio in (("concave", None), ("convex", None), ("increasing", 2.0)):
            shaped = certify_partition(
                t,
                sv,
                TopK(k),
                target="estimate",
                ties="weak",
                transforms=MonotoneClass(shape, ratio or math.inf),
            )
            bound = min(worst(weights, scores, row, shape, ratio) for row in rows)
            if abs(bound) > 1e-8:
                assert shaped.robust is (bound > 0)
            shaped.verify(t)
    assert seen == {True, False}


def test_thresholds_of_estimates():
    rng, seen = np.random.default_rng(1), set()
    for number in range(40):
        t, weights, scores = samples(rng, number)
        if np.ptp(scores) == 0:
            continue
        psi = [sum(w * F(float(s)) for w, s in zip(row, scores, strict=True)) for row in weights]
        span = F(float(max(scores))) - F(float(min(scores)))
        for decision in (Sign(), RelativeThreshold(), Threshold(0.25)):
            c = certify_partition(
                t,
                SH if number % 2 else BZ,
                decision,
                target="estimate",
                transforms=MonotoneClass(range_normalised=True),
            )
            mean = isinstance(decision, RelativeThreshold)
            cut = sum(psi) / len(psi) if mean else getattr(decision, "tau", F(0))
            assert c.members == tuple(i for i, x in enumerate(psi) if x > cut)
            margins = []
            for s in sorted(set(map(float, scores)))[1:]:
                level = [
                    sum((w for w, x in zip(row, scores, strict=True) if x >= s), F(0)) for row in weights
                ]
                shift = sum(level) / len(level) if mean else cut / span
                margins += [x - shift if i in c.members else shift - x for i, x in enumerate(level)]
            assert c.level_margin == min(margins)
            seen.add(c.robust)
            c.verify(t)
    assert seen == {True, False}


def test_all_permutations_give_the_shapley_value():
    import itertools

    rng = np.random.default_rng(2)
    v = rng.normal(size=16)
    members, unit = [], []
    for u, order in enumerate(itertools.permutations(range(4))):
        row = np.zeros(4, bool)
        members.append(row.copy())
        for player in order:
            row[player] = True
            members.append(row.copy())
        unit += [u] * 5
    members = np.array(members)
    t = UtilityTable.from_samples(members, v[members @ (1 << np.arange(4))], design="permutation", unit=unit)
    dense = UtilityTable.from_array(v)
    a = certify_partition(t, SH, TopK(2), target="estimate")
    b = certify_partition(dense, SH, TopK(2))
    assert (a.verdict, a.level_margin, a.level, a.pair, a.slope_radius) == (
        b.verdict,
        b.level_margin,
        b.level,
        b.pair,
        b.slope_radius,
    )
    assert a.semivalues == pytest.approx(b.semivalues, abs=1e-15)
    # and mean in minus mean out over all coalitions is the Banzhaf value
    a, b = (certify_partition(dense, BZ, TopK(2), target=target) for target in ("estimate", "exact"))
    assert (a.verdict, a.level_margin, a.level, a.pair) == (b.verdict, b.level_margin, b.level, b.pair)
    # so is the stratified estimator, for every semivalue
    for sv in (SH, BZ, Semivalue.beta(4, 1), Semivalue.weighted_banzhaf("1/3")):
        a = certify_partition(dense, sv, TopK(2), target="estimate", estimator="stratified")
        b = certify_partition(dense, sv, TopK(2))
        assert (a.verdict, a.level_margin, a.level, a.pair, a.slope_radius) == (
            b.verdict,
            b.level_margin,
            b.level,
            b.pair,
            b.slope_radius,
        )
        a.verify(dense)


@pytest.mark.parametrize("seed", range(4))
def test_a_matrix_gives_what_its_name_gives(seed):
    rng = np.random.default_rng(seed)
    t, weights, _ = samples(rng, 0, n=4)
    matrix = np.array([[float(w) for w in row] for row in weights])
    a = certify_partition(t, BZ, TopK(2), target="estimate", ties="weak")
    b = certify_partition(t, BZ, TopK(2), target="estimate", ties="weak", estimator=matrix)
    assert b.assumptions["estimator"] == "matrix"
    assert (a.verdict, a.members, a.level) == (b.verdict, b.members, b.level)
    assert float(b.level_margin) == pytest.approx(float(a.level_margin), abs=1e-14)
    with pytest.raises(CertificateMismatch, match="matrix"):
        b.verify(t)


def test_matrices_of_many_bits_stay_exact():
    """Entries of 60 bits: their cumulated sums leave int64."""
    rng = np.random.default_rng(5)
    n, m = 3, 64
    scores = np.arange(float(m))
    matrix = rng.uniform(2**-8, 2**-7, size=(n, m))
    for row, start in enumerate((30, 5, 10)):
        matrix[row, start : start + 20] = rng.uniform(0.5, 1, size=20)
    matrix[:, -8:] += (1 - np.array([math.fsum(row) for row in matrix]))[:, None] / 8
    members = rng.random((m, n)) < 0.5
    t = UtilityTable.from_samples(members, scores)
    c = certify_partition(t, BZ, TopK(1), target="estimate", estimator=matrix)
    weights = [[F(float(x)) for x in row] for row in matrix]
    psi = [sum(w * F(s) for w, s in zip(row, scores, strict=True)) for row in weights]
    assert c.semivalues == tuple(float(x) for x in psi)
    (i,) = c.members
    assert i == max(range(n), key=lambda i: psi[i])
    least = min(d for j in range(n) if j != i for _, d in curve(weights, scores, (i, j)))
    assert c.level_margin == least


def test_horvitz_thompson_is_refused():
    """Weights by inclusion probabilities: the row sums are random, so a constant changes the ranking."""
    rng = np.random.default_rng(3)
    members = rng.random((40, 4)) < 0.5
    scores = rng.random(40)
    t = UtilityTable.from_samples(members, scores, design="uniform")
    ht = np.where(members, 2, -2).T / 40
    with pytest.raises(
        ShiftVariantEstimatorError, match="adding a constant to all scores changes the ranking"
    ):
        certify_partition(t, BZ, TopK(2), target="estimate", estimator=ht)
    normalised = ht - ht.mean(axis=1, keepdims=True)
    certify_partition(t, BZ, TopK(2), target="estimate", estimator=normalised)
    for bad, words in ((ht[:, :5], r"\(4, 40\)"), (np.full((4, 40), np.nan), "finite"), (ht.T, r"\(40, 4\)")):
        with pytest.raises(ValueError, match=words):
            certify_partition(t, BZ, TopK(2), target="estimate", estimator=bad)
    with pytest.raises(ValueError, match="estimator must be one of"):
        certify_partition(t, BZ, TopK(2), target="estimate", estimator="ht")


def test_refusals():
    members = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]], bool)
    t = UtilityTable.from_samples(members, [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="player 0 has no rows without"):
        certify_partition(t, BZ, TopK(1), target="estimate")
    with pytest.raises(ValueError, match="player 0 has no rows with "):
        certify_partition(UtilityTable.from_samples(~members, np.arange(4.0)), BZ, TopK(1), target="estimate")
    with pytest.raises(ValueError, match="player 0 has no rows without it of size"):
        certify_partition(t, SH, TopK(1), target="estimate", estimator="stratified")
    with pytest.raises(ValueError, match="needs design='permutation'"):
        certify_partition(t, SH, TopK(1), target="estimate", estimator="permutation")
    with pytest.raises(ValueError, match="small must be left out"):
        certify_partition(t, SH, TopK(1), target="estimate", small=SmallCoalitions(2))
    flat = UtilityTable.from_samples(np.array([[1, 0], [0, 1]], bool), [2.0, 2.0])
    with pytest.raises(DegenerateUtilityError):
        certify_partition(flat, BZ, TopK(1), target="estimate")
    good = UtilityTable.from_samples(np.array([[1, 0], [0, 1], [0, 0]], bool), [2.0, 2.0, 0.0])
    with pytest.raises(BoundaryTieError, match=r"\[0, 1\]"):
        certify_partition(good, BZ, TopK(1), target="estimate")
    for k in (0, 2):
        with pytest.raises(ValueError, match=f"got k={k}, n=2"):
            certify_partition(good, BZ, TopK(k), target="estimate")


@pytest.mark.parametrize("change", ["first", "order", "end", "unit", "two"])
def test_rows_that_are_no_permutations(change):
    rng = np.random.default_rng(4)
    members, unit = permutations(rng, 3, 2)
    if change == "first":
        members, unit = members[1:], unit[1:]
    if change == "order":
        members[[1, 2]] = members[[2, 1]]
    if change == "end":
        members, unit = members[:-1], unit[:-1]
    if change == "unit":
        unit = np.zeros(len(unit), int)
    if change == "two":
        members, unit = np.delete(members, 1, 0), np.delete(unit, 1)
    t = UtilityTable.from_samples(members, rng.random(len(members)), design="permutation", unit=unit)
    with pytest.raises(ValueError, match="design='permutation' needs"):
        certify_partition(t, SH, TopK(1), target="estimate")


def test_packed_sweep_agrees_with_all_pairs(monkeypatch):
    """Above DENSE_LIMIT one sweep over packed bits takes over; it must say the same."""
    rng, seen = np.random.default_rng(6), set()
    from porism.theory.partition import _sampled as module

    for number in range(60):
        t, _, scores = samples(rng, number, n=int(rng.integers(2, 19)))
        if np.ptp(scores) == 0:
            continue
        n = t.n_players
        sv = SH if number % 2 else BZ
        decision = TopK(int(rng.integers(1, n)))
        dense = certify_partition(t, sv, decision, target="estimate", ties="weak")
        if number % 5 == 0:
            decision = OrderedPartition([dense.members, [i for i in range(n) if i not in dense.members]])
        monkeypatch.setattr(module, "DENSE_LIMIT", 0)
        packed = certify_partition(t, sv, decision, target="estimate", ties="weak")
        packed.verify(t)
        monkeypatch.undo()
        assert (packed.verdict, packed.members, packed.level_margin) == (
            dense.verdict,
            dense.members,
            dense.level_margin,
        )
        assert packed.semivalues == pytest.approx(dense.semivalues, abs=1e-12)
        assert dense.level <= packed.level  # several minimisers: floats may find another one
        points = dict(
            curve(
                walk(t.sampled.dense(), t.sampled.unit) if number % 2 else msr(t.sampled.dense()),
                scores,
                packed.pair,
            )
        )
        assert points[packed.level] == packed.level_margin
        if packed.base_gap > 1e-9:
            assert packed.strict is dense.strict
        seen.add((number % 2, packed.robust))
    assert len(seen) == 4


def test_errors_come_before_the_work_for_many_players():
    """k out of range at ten thousand players must not first allocate an n x m matrix of weights."""
    rng = np.random.default_rng(7)
    n, m = 10_000, 3_000
    packed = rng.integers(0, 256, (m, n // 8), dtype=np.uint8)
    t = UtilityTable.from_samples(packed, rng.random(m), n=n, design="uniform")
    import tracemalloc

    tracemalloc.start()
    try:
        for k in (0, n, n + 1):
            with pytest.raises(ValueError, match=f"k must be in 1..n-1, got k={k}"):
                certify_partition(t, BZ, TopK(k), target="estimate")
        c = certify_partition(t, BZ, TopK(5_000), target="estimate")
        assert (
            tracemalloc.get_traced_memory()[1] < 60e6
        )  # the bits themselves are 3.75 MB, a float matrix 240 MB
    finally:
        tracemalloc.stop()
    assert c.verdict == "not_robust"
    assert len(c.members) == 5_000
    i, j = c.pair
    bits = np.unpackbits(packed, axis=1, count=n, bitorder="little")[:, [i, j]].astype(bool)
    top = t.sampled.scores >= c.level
    inside = bits.sum(axis=0)
    d = [
        F(int(bits[top, a].sum()), int(inside[a])) - F(int((~bits[top, a]).sum()), m - int(inside[a]))
        for a in (0, 1)
    ]
    assert c.level_margin == d[0] - d[1]


def test_many_counts_have_a_common_denominator_beyond_float64():
    """Mean in minus mean out of 150 players: the least common multiple of the counts has 1000s of bits."""
    rng = np.random.default_rng(9)
    n, m = 150, 2_000
    members = rng.random((m, n)) < 0.5
    scores = members[:, 0] * 2.0 + rng.integers(0, 4, m)
    t = UtilityTable.from_samples(members, scores, design="uniform")
    c = certify_partition(t, BZ, TopK(1), target="estimate")
    d = np.array(
        [[(scores[c] >= s).mean() - (scores[~c] >= s).mean() for c in members.T] for s in range(1, 6)]
    )
    assert c.members == (0,)
    assert float(c.level_margin) == pytest.approx((d[:, [0]] - d[:, 1:]).min(), abs=1e-12)
    assert c.level_margin.denominator < 10**30
    assert c.robust
    assert c.slope_radius == math.inf


def test_decimals_round_the_rows():
    rng = np.random.default_rng(8)
    t, _, scores = samples(rng, 0, n=3)
    rounded = UtilityTable.from_samples(t.sampled.dense(), np.round(scores, 1), design="uniform")
    a = certify_partition(
        t, BZ, TopK(1), target="estimate", ties="weak", transforms=MonotoneClass(decimals=1)
    )
    b = certify_partition(rounded, BZ, TopK(1), target="estimate", ties="weak")
    assert (a.level_margin, a.semivalues, a.level) == (b.level_margin, b.semivalues, b.level)
    a.verify(t)


def test_decimals_beyond_floats_change_nothing():
    rng = np.random.default_rng(8)
    t, _, scores = samples(rng, 0, n=3)
    large = UtilityTable.from_samples(t.sampled.dense(), scores * 1e300, design="uniform")
    options = {"target": "estimate", "ties": "weak"}
    a = certify_partition(large, BZ, TopK(1), transforms=MonotoneClass(decimals=10), **options)
    assert a.level_margin == certify_partition(large, BZ, TopK(1), **options).level_margin
    a.verify(large)


@pytest.mark.parametrize("target", ["estimate", "population"])
def test_an_altered_certificate_of_rows_is_refused(target):
    t, _, _ = samples(np.random.default_rng(8), 0, n=3)
    c = certify_partition(t, BZ, TopK(1), target=target, ties="weak")
    c.verify(t)
    changes = {
        "members": (),
        "semivalues": c.semivalues[:2],
        "base_gap": c.base_gap + 1,
        "permanent_ties": ((0, 1),),
        "slope_pair": (2, 0),
        "score_margin": 1.0,
        "assumptions": {**c.assumptions, "decimals": 3},
    }
    for name, lie in changes.items():
        with pytest.raises(CertificateMismatch, match=name):
            replace(c, **{name: lie}).verify(t)
    for text in (None, replace(c.witness, epsilon=F(7))) if c.witness else ():
        with pytest.raises(CertificateMismatch, match="witness"):
            replace(c, witness=text).verify(t)
    with pytest.raises(TypeError, match="table must be a UtilityTable, got list"):
        c.verify([1.0, 2.0])


def test_a_dense_table_is_used_row_by_row():
    v = np.array([0, 1, 1, 1, 4, 5, 5, 6, 4, 5, 5, 6, 9, 10, 10, 11.0])
    keep = [m for m in range(16) if m not in (3, 12)]
    part = UtilityTable.from_pairs(np.array(keep), v[keep], 4)
    c = certify_partition(part, BZ, TopK(2), target="estimate", ties="weak")
    members = np.array([[m >> i & 1 for i in range(4)] for m in keep], bool)
    assert c.semivalues == pytest.approx([v[keep][col].mean() - v[keep][~col].mean() for col in members.T])
    assert c.statistics["m"] == 14
    assert semivalues(UtilityTable.from_array(v), BZ).shape == (4,)
