"""The debiased scatter: its definition over pairs, its exact mean over all samples, its deletions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.alignment import _ustatistic

SIZES = st.lists(st.integers(2, 4), min_size=2, max_size=4)


def world(sizes, seed, k=3, offset=0.0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.standard_normal((len(y), k)) + offset + y[:, None], y


@settings(deadline=None, max_examples=40)
@given(SIZES, st.integers(0, 2**32 - 1), st.sampled_from(["share", "gradient"]), st.booleans())
def test_pairs(plain, sizes, seed, kind, foreign):
    x, y = world(sizes, seed)
    shares, weights = plain.shares_of(y, kind)
    if foreign:  # shares of another sample, as in a fold
        shares = np.random.default_rng(seed).dirichlet(np.ones(len(sizes)))
        weights = shares if kind == "share" else shares**2
    P = np.eye(x.shape[1])
    found = _ustatistic.scatter(x, y, shares, weights)
    assert found == pytest.approx(plain.statistic(x, y, P, shares, weights), rel=1e-12, abs=1e-13)
    raw = _ustatistic.scatter(x, y, shares, weights, debiased=False)
    assert raw == pytest.approx(plain.in_sample(x, y, P, shares, weights), rel=1e-12)


@pytest.mark.parametrize("kind", ["share", "gradient"])
def test_unbiased_over_all_samples(plain, kind):
    """Every sample of 2 and 3 rows from classes of 3 points each, equally likely: the mean is exact."""
    points = np.array([[[0.0, 1], [2, -1], [5, 3]], [[1.0, 1], [-2, 0], [0, 4]]])
    P = np.array([[0.36, 0.48], [0.48, 0.64]])
    y = np.array([0, 0, 1, 1, 1])
    shares, weights = plain.shares_of(y, kind)
    means = points.mean(1)
    truth = weights @ [gap @ P @ gap for gap in means - shares @ means]
    found, biased = [], []
    for draw in itertools.product(range(3), repeat=5):
        x = points[y, list(draw)] @ [[0.6], [0.8]]
        found.append(_ustatistic.scatter(x, y, shares, weights))
        biased.append(_ustatistic.scatter(x, y, shares, weights, debiased=False))
    assert np.mean(found) == pytest.approx(truth, rel=1e-12)
    assert np.mean(biased) > truth * 1.1


@settings(deadline=None, max_examples=40)
@given(SIZES, st.integers(0, 2**32 - 1), st.sampled_from(["share", "gradient"]))
def test_deletions(plain, sizes, seed, kind):
    x, y = world(sizes, seed)
    shares, weights = _ustatistic.after_deletion(np.bincount(y), kind)
    found = _ustatistic.delete_one(x, y, shares, weights)
    for i in range(len(y)):
        left = np.arange(len(y)) != i
        if np.bincount(y[left], minlength=len(sizes)).min() < 2 and sizes[y[i]] == 2:
            assert np.isnan(found[i])
            continue
        p, w = plain.shares_of(y[left], kind)
        expected = _ustatistic.scatter(x[left], y[left], p, w)
        assert found[i] == pytest.approx(expected, rel=1e-10, abs=1e-11)


def test_offset_costs_no_digits(plain):
    x, y = world([3, 4, 5], 0)
    x = np.round(x * 1024) / 1024
    shares, weights = plain.shares_of(y)
    near, far = (_ustatistic.scatter(x + shift, y, shares, weights) for shift in (0.0, 2.0**20))
    assert far == pytest.approx(near, rel=1e-8)  # 2^20 eps = 2e-10 a coordinate


def test_jackknife_of_a_mean():
    values = np.random.default_rng(0).standard_normal(12)
    leave = (values.sum() - values) / 11
    assert _ustatistic.jackknife_error(leave) == pytest.approx(values.std(ddof=1) / 12**0.5)
