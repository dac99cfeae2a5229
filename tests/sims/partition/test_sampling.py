"""Designs against their laws: exact facts exactly, random ones by chi-square at level 1e-6."""

import itertools
import tracemalloc
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.sims.partition import (
    SAMPLED_DESIGNS,
    draw_coalitions,
    modular_game,
    modular_utility,
    random_game,
    sample_table,
    shapley_size_law,
    threshold_utility,
)
from porism.theory.partition import Semivalue, UtilityTable

LEVEL = 1e-6  # a correct sampler fails a test of this file once in a million seeds


def draw(design, n, m, rng=0):
    packed, unit = draw_coalitions(n, m, design=design, w=0.3 if design == "msr" else None, rng=rng)
    return np.unpackbits(packed, axis=1, count=n, bitorder="little").astype(bool), unit


def law(design, n):
    """Probability of every coalition under one row of the design."""
    sizes = np.array([mask.bit_count() for mask in range(1 << n)])
    if design == "uniform":
        return np.full(1 << n, 0.5**n)
    if design == "msr":
        return 0.3**sizes * 0.7 ** (n - sizes)
    binomial = np.array([comb(n, size) for size in sizes])
    if design == "permutation":  # of one of the n+1 prefixes
        return 1.0 / binomial / (n + 1)
    return np.pad(shapley_size_law(n), 1)[sizes] / binomial


@pytest.mark.parametrize("design", SAMPLED_DESIGNS)
def test_every_coalition_has_its_probability(design):
    from scipy.stats import chisquare

    n, m = 4, 6000
    members, unit = draw(design, n, m, rng=1)
    if design == "permutation":  # rows of one unit depend on each other: look at one size of each
        for size in range(1, n):
            masks = members[np.arange(m) * (n + 1) + size] @ (1 << np.arange(n))
            counts = np.bincount(masks, minlength=1 << n)
            possible = [mask for mask in range(1 << n) if mask.bit_count() == size]
            assert counts[possible].sum() == m
            assert chisquare(counts[possible]).pvalue > LEVEL
        return
    counts, expected = np.bincount(members @ (1 << np.arange(n)), minlength=1 << n), m * law(design, n)
    assert counts[expected == 0].sum() == 0
    assert chisquare(counts[expected > 0], expected[expected > 0]).pvalue > LEVEL
    assert unit.tolist() == list(range(m))


@pytest.mark.parametrize(
    ("design", "sv"),
    [
        ("uniform", Semivalue.banzhaf()),
        ("msr", Semivalue.weighted_banzhaf(Fraction(3, 10))),
        ("shapley-size", Semivalue.shapley()),
        ("permutation", Semivalue.shapley()),
    ],
    ids=["uniform", "msr", "shapley-size", "permutation"],
)
def test_pairs_follow_the_law_of_their_semivalue(design, sv):
    """Exactly: given i in and j out, the size of the coalition has the pair mass, for every pair."""
    n = 5
    probability = law(design, n)
    for i, j in itertools.permutations(range(n), 2):
        masks = [m for m in range(1 << n) if m >> i & 1 and not m >> j & 1]
        mass = np.zeros(n - 1)
        for mask in masks:
            mass[mask.bit_count() - 1] += probability[mask]
        if design == "permutation":  # each prefix counts once, so weights are those of one row
            np.testing.assert_allclose(mass / mass.sum(), _prefix_mass(n), atol=1e-14)
            continue
        np.testing.assert_allclose(mass / mass.sum(), sv.pair_mass(n), atol=1e-14)


def _prefix_mass(n):
    """Law of the size of a prefix that holds i and not j."""
    chance = np.array([s * (n - s) for s in range(1, n)], dtype=float)
    return chance / chance.sum()


@pytest.mark.parametrize("n", [2, 3, 8, 50, 1000])
def test_size_law_makes_all_rows_weigh_the_same(n):
    r = shapley_size_law(n)
    assert r.shape == (n - 1,)
    assert (r == r[::-1]).all()
    assert r.sum() == pytest.approx(1, abs=1e-13)
    q = np.array(
        [1 / ((n - 1) * Fraction(comb(n - 2, s - 1)) / comb(n, s)) for s in range(1, n)], dtype=float
    )
    harmonic = float(sum(Fraction(1, k) for k in range(1, n)))
    np.testing.assert_allclose(q / r, 2 * harmonic, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 9, 64, 700])
def test_sizes_are_drawn_by_their_law(n):
    from scipy.stats import chisquare

    members, _ = draw("shapley-size", n, 4000, rng=2)
    sizes = members.sum(axis=1)
    assert sizes.min() >= 1
    assert sizes.max() <= n - 1
    edges = np.unique(np.searchsorted(np.cumsum(shapley_size_law(n)), np.linspace(0, 1, 9)[1:-1]))
    expected = np.add.reduceat(shapley_size_law(n), np.r_[0, edges[(edges > 0) & (edges < n - 1)]])
    counts = np.add.reduceat(
        np.bincount(sizes, minlength=n)[1:n], np.r_[0, edges[(edges > 0) & (edges < n - 1)]]
    )
    if n > 2:
        assert chisquare(counts, 4000 * expected).pvalue > LEVEL


@pytest.mark.parametrize("design", SAMPLED_DESIGNS)
def test_every_player_is_in_equally_often(design):
    """Inclusion counts of n players; a chi-square of their spread, by player and by byte."""
    from scipy.stats import binom

    n, m = 21, 3000
    members, _ = draw(design, n, m, rng=4)
    if design == "permutation":
        members = members[np.arange(m) * (n + 1) + 7]  # 7 of 21
    p = {"msr": 0.3, "permutation": 1 / 3}.get(design, 0.5)
    counts = members.sum(axis=0)
    tails = np.minimum(binom.cdf(counts, m, p), binom.sf(counts - 1, m, p))
    assert tails.min() > LEVEL / (2 * n)
    pairs = (members[:, :, None] & ~members[:, None, :]).sum(axis=0)
    assert pairs[~np.eye(n, dtype=bool)].min() > 0


@given(n=st.integers(1, 20), m=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_permutations_grow_by_one_player(n, m, seed):
    members, unit = draw("permutation", n, m, seed)
    assert unit.tolist() == [number for number in range(m) for _ in range(n + 1)]
    blocks = members.reshape(m, n + 1, n)
    assert not blocks[:, 0].any()
    assert blocks[:, -1].all()
    assert (np.diff(blocks.astype(int), axis=1).sum(axis=2) == 1).all()
    assert (np.diff(blocks.astype(int), axis=1) >= 0).all()


@pytest.mark.parametrize("design", SAMPLED_DESIGNS)
@pytest.mark.parametrize("n", [2, 7, 8, 9, 17])
def test_sampled_scores_are_those_of_the_table(design, n):
    exact = random_game(n, rng=0)
    w = 0.4 if design == "msr" else None
    sampled = sample_table(exact, 20, design=design, w=w, rng=3).sampled
    assert sampled.design == design
    assert sampled.members.shape == (sampled.n_rows, (n + 7) // 8)
    assert sampled.n_units == 20
    assert sampled.n_rows == 20 * (n + 1 if design == "permutation" else 1)
    assert (sampled.scores == exact.scores[sampled.dense() @ (1 << np.arange(n))]).all()
    by_call = sample_table(
        lambda members: exact.scores[members @ (1 << np.arange(n))], 20, design=design, n=n, w=w, rng=3
    )
    assert (by_call.sampled.members == sampled.members).all()
    assert (by_call.sampled.scores == sampled.scores).all()


@pytest.mark.parametrize("design", SAMPLED_DESIGNS)
def test_chunks_do_not_show(design, monkeypatch):
    from porism.sims.partition import sampling

    w = np.random.default_rng(0).normal(size=19)
    options = {"design": design, "n": 19, "w": 0.2 if design == "msr" else None, "rng": 5}
    whole = sample_table(modular_utility(w), 40, **options).sampled
    monkeypatch.setattr(sampling, "CELLS", 19 * 3)
    parts = sample_table(modular_utility(w), 40, **options).sampled
    assert (whole.members == parts.members).all()
    assert (whole.scores == parts.scores).all()  # bit for bit: else equal coalitions would make two levels
    assert (
        sample_table(modular_utility(w), 40, **(options | {"rng": 6})).sampled.members != whole.members
    ).any()


@pytest.mark.parametrize("design", ["uniform", "msr", "shapley-size"])
def test_ten_thousand_players_fit_in_memory(design):
    n, m = 10_000, 3_000
    w = np.arange(n) % 7.0
    tracemalloc.start()
    sampled = sample_table(
        threshold_utility(w, 3.0 * n / 2), m, design=design, n=n, w=0.5 if design == "msr" else None, rng=0
    ).sampled
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sampled.members.nbytes == m * 1250
    assert peak < 8 * n * m / 2  # an n x m float matrix takes 240 MB
    assert set(np.unique(sampled.scores)) == {0.0, 1.0}
    rows = slice(0, 5)
    weights = np.unpackbits(sampled.members[rows], axis=1, bitorder="little")[:, :n] @ w
    assert (sampled.scores[rows] == (weights >= 3.0 * n / 2)).all()


def test_utilities_agree_with_their_games():
    w = [3, 5, 1, 2]
    members = (np.arange(16)[:, None] >> np.arange(4) & 1).astype(bool)
    assert (modular_utility(w)(members) == modular_game(w).scores).all()
    assert (threshold_utility(w, 6)(members) == (modular_game(w).scores >= 6)).all()


def test_score_range_is_declared():
    sampled = sample_table(modular_utility([1, 2]), 5, n=2, score_range=(0.0, 3.0), rng=0).sampled
    assert sampled.score_range == (0.0, 3.0)
    with pytest.raises(ValueError, match="score_range"):
        sample_table(modular_utility([1, 2]), 50, n=2, score_range=(0.0, 2.0), rng=0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: draw_coalitions(3, 0), ValueError, "m must be >= 1, got 0"),
        (lambda: draw_coalitions(0, 3), ValueError, "n must be >= 1, got 0"),
        (lambda: draw_coalitions(1, 3, design="shapley-size"), ValueError, "n must be >= 2, got 1"),
        (
            lambda: draw_coalitions(3, 3, design="unknown"),
            ValueError,
            "design must be one of 'msr', 'permutation'",
        ),
        (lambda: draw_coalitions(3, 3, design="msr"), ValueError, "w must be given for design='msr'"),
        (lambda: draw_coalitions(3, 3, w=0.5), ValueError, "w must be given for design='msr' and only there"),
        (
            lambda: draw_coalitions(3, 3, design="msr", w=1.0),
            ValueError,
            "w must be strictly between 0 and 1",
        ),
        (lambda: draw_coalitions(3, 2.0), TypeError, "m must be an int"),
        (lambda: draw_coalitions(3, 2, rng=-1), ValueError, "rng must be >= 0"),
        (lambda: sample_table(modular_utility([1, 2]), 3), ValueError, "n must be given"),
        (
            lambda: sample_table("v", 3, n=2),
            TypeError,
            "utility must be a callable or a UtilityTable, got str",
        ),
        (
            lambda: sample_table(modular_game([1, 2]), 3, n=3),
            ValueError,
            "n must be 2 as in the table, got 3",
        ),
        (
            lambda: sample_table(UtilityTable.from_pairs([[0], [1]], [1, 2]), 3),
            ValueError,
            "utility must be a complete table",
        ),
        (lambda: sample_table(lambda s: 1.0, 3, n=2), ValueError, r"one score a row, shape \(3,\), got \(\)"),
        (
            lambda: sample_table(lambda s: s[:, 0] * np.nan, 3, n=2),
            ValueError,
            "utility\\(members\\) must be finite",
        ),
        (lambda: modular_utility([[1.0]]), ValueError, "w must have 1 axes"),
        (lambda: threshold_utility([1.0], np.inf), ValueError, "quota must be finite"),
        (lambda: shapley_size_law(1), ValueError, "n must be >= 2"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
