"""Games against their closed forms, brute force and the symmetries they claim."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.sims.partition import (
    block_game,
    modular_game,
    mtm_game,
    noisy_symmetric_game,
    random_game,
    random_monotone_game,
    saturating_game,
)
from porism.theory.partition import Semivalue, semivalues

SEMIVALUES = [
    Semivalue.shapley(),
    Semivalue.banzhaf(),
    Semivalue.beta(4, 1),
    Semivalue.weighted_banzhaf(Fraction(1, 3)),
    Semivalue.leave_one_out(),
]


def relabel(scores, order):
    """Scores after player i of the new game is player order[i] of the old one."""
    masks = np.arange(len(scores))
    old = sum((masks >> new & 1) << player for new, player in enumerate(order))
    return scores[old]


def subset_sum(mask, w):
    return sum(x for i, x in enumerate(w) if mask >> i & 1)


@pytest.mark.parametrize("sv", SEMIVALUES, ids=str)
@given(w=st.lists(st.integers(-50, 50), min_size=1, max_size=7))
@settings(max_examples=25, deadline=None)
def test_modular_game_gives_back_its_weights(sv, w):
    table = modular_game(w)
    assert table.scores.tolist() == [subset_sum(mask, w) for mask in range(1 << len(w))]
    assert semivalues(table, sv, exact=True) == w


def test_block_game_counts_good_members_and_bounds_the_noise():
    clean, noisy = block_game(7, 3, 0.0).scores, block_game(7, 3, 1.5, rng=1).scores
    assert clean.tolist() == [(mask & 0b111).bit_count() for mask in range(128)]
    noise = (noisy - clean) / 1.5
    assert ((noise >= 0) & (noise < 1)).all()
    # 128 independent uniforms: the mean is within 6 standard errors but for 2e-9
    assert abs(noise.mean() - 0.5) < 6 / np.sqrt(12 * 128)
    assert len(np.unique(noise)) == 128


@given(seed=st.integers(0, 10**6), k=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_little_noise_leaves_good_players_dominant(seed, k):
    scores = block_game(5, k, 1.0, rng=seed).scores
    for good, bad in itertools.product(range(k), range(k, 5)):
        rest = [mask for mask in range(32) if not mask >> good & 1 and not mask >> bad & 1]
        assert all(scores[mask | 1 << good] >= scores[mask | 1 << bad] for mask in rest)


def test_much_noise_does_not():
    def dominant(seed):
        scores = block_game(4, 2, 3.0, rng=seed).scores
        return all(scores[m | 1] >= scores[m | 8] for m in (0, 2, 4, 6))

    assert sum(dominant(seed) for seed in range(50)) < 25


@given(w=st.lists(st.integers(0, 9), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_mtm_game_transforms_the_sums(w):
    scores = mtm_game(w, np.square).scores
    assert scores.tolist() == [subset_sum(mask, w) ** 2 for mask in range(1 << len(w))]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_saturating_game_has_its_banzhaf_value(n):
    w = np.linspace(0.1, 1.3, n)
    table = saturating_game(w, rate=0.7)
    success = -np.expm1(-0.7 * w)
    others = np.array([np.prod(np.delete(1 - success / 2, i)) for i in range(n)])
    # at most 2^n roundings of numbers below 1
    np.testing.assert_allclose(semivalues(table, Semivalue.banzhaf()), success * others, atol=2**n * 1e-15)


def test_saturating_game_has_diminishing_returns():
    scores = saturating_game([0.3, 0.8, 0.1, 0.5]).scores
    for small, big, player in itertools.product(range(16), range(16), range(4)):
        if small & ~big == 0 and not big >> player & 1:
            bit = 1 << player
            assert scores[small | bit] - scores[small] >= scores[big | bit] - scores[big] - 1e-15


@pytest.mark.parametrize("levels", [None, 2, 5, 64])
@pytest.mark.parametrize("seed", range(5))
def test_random_monotone_game_never_falls(levels, seed):
    scores = random_monotone_game(6, levels, rng=seed).scores
    for mask, player in itertools.product(range(64), range(6)):
        assert scores[mask | 1 << player] >= scores[mask]
    if levels is None:
        assert scores[0] == 0
        assert all(scores[m | 1 << i] > scores[m] for m in range(64) for i in range(6) if not m >> i & 1)
    else:
        _, counts = np.unique(scores, return_counts=True)
        assert len(counts) == levels
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("draw", [random_game, random_monotone_game], ids=["any", "monotone"])
def test_laws_do_not_prefer_a_player(draw):
    """Exchangeable players: the top singleton is uniform, chi-square at level 1e-6."""
    from scipy.stats import chisquare

    tops = [int(np.argmax(draw(4, rng=seed).scores[[1, 2, 4, 8]])) for seed in range(800)]
    assert chisquare(np.bincount(tops, minlength=4)).pvalue > 1e-6


def test_random_game_is_uniform_on_its_levels():
    from scipy.stats import chisquare

    scores = random_game(12, 4, rng=3).scores
    assert chisquare(np.bincount(scores.astype(int), minlength=4)).pvalue > 1e-6
    assert len(np.unique(random_game(12, rng=3).scores)) == 4096


@given(seed=st.integers(0, 10**6), order=st.permutations(range(4)))
@settings(max_examples=25, deadline=None)
def test_symmetric_world_without_noise_survives_relabelling(seed, order):
    curve = np.random.default_rng(seed).normal(size=5)
    scores = noisy_symmetric_game(4, 0.0, curve=curve).scores
    assert (relabel(scores, order) == scores).all()
    assert scores[[0, 1, 3, 7, 15]].tolist() == curve.tolist()


@given(w=st.lists(st.integers(-20, 20), min_size=5, max_size=5), order=st.permutations(range(5)))
@settings(max_examples=25, deadline=None)
def test_modular_game_follows_relabelling(w, order):
    assert (modular_game([w[i] for i in order]).scores == relabel(modular_game(w).scores, order)).all()


def test_curve_moves_no_difference():
    flat = noisy_symmetric_game(5, 1.0, rng=2, curve=np.zeros(6))
    steep = noisy_symmetric_game(5, 1.0, rng=2, curve=[0, 9, 9, 2, 4, 100])
    values = [semivalues(table, Semivalue.shapley()) for table in (flat, steep)]
    differences = [v - v[0] for v in values]
    np.testing.assert_allclose(differences[0], differences[1], atol=1e-12)  # rounding of scores near 100
    assert abs(values[0][0] - values[1][0]) > 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: block_game(6, 2, 1.0, rng),
        lambda rng: random_game(6, None, rng),
        lambda rng: random_game(6, 3, rng),
        lambda rng: random_monotone_game(6, 7, rng),
        lambda rng: noisy_symmetric_game(6, 2.0, rng),
    ],
)
def test_same_seed_same_game(draw):
    first, second = draw(5).scores, draw(np.random.default_rng(5)).scores
    assert (first == second).all()
    assert (draw(6).scores != first).any()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: block_game(0, 0, 1.0), ValueError, r"n must be in 1..24, got 0"),
        (lambda: block_game(25, 0, 1.0), ValueError, r"n must be in 1..24, got 25"),
        (lambda: block_game(3, 4, 1.0), ValueError, r"k must be in 0..3, got 4"),
        (lambda: block_game(3, True, 1.0), TypeError, r"k must be an int"),
        (lambda: block_game(3, 1, -0.5), ValueError, r"noise must be >= 0, got -0.5"),
        (lambda: block_game(3, 1, float("nan")), ValueError, r"noise must be finite"),
        (lambda: modular_game([]), ValueError, r"len\(w\) must be in 1..24, got 0"),
        (lambda: modular_game([1.0, np.inf]), ValueError, r"w must be finite, got inf at index 1"),
        (lambda: modular_game(["a"]), TypeError, r"w must hold real numbers"),
        (lambda: mtm_game([1, 2], np.negative), ValueError, r"phi must be a nondecreasing function"),
        (lambda: mtm_game([1, 1], lambda s: np.arange(4)), ValueError, r"phi must be a nondecreasing"),
        (lambda: mtm_game([1, 2], np.sum), ValueError, r"phi must return one score a sum, shape \(4,\)"),
        (lambda: saturating_game([1, -2]), ValueError, r"w must be >= 0, got -2.0 for player 1"),
        (lambda: saturating_game([1], rate=0), ValueError, r"rate must be finite and > 0"),
        (lambda: random_game(3, 1), ValueError, r"levels must be >= 2, got 1"),
        (lambda: random_monotone_game(2, 5), ValueError, r"levels must be in 2..4, got 5"),
        (lambda: noisy_symmetric_game(3, 0.0, curve=[1, 2]), ValueError, r"curve must have n\+1 = 4 entries"),
        (lambda: random_game(3, rng="x"), TypeError, r"rng must be an int"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
