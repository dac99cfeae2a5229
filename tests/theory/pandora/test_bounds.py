"""Bounds for every law and the Beta formula: oracle case 12, tightness, simulation, limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pandora import voi, voi_binary, voi_bounds

calm = settings(deadline=None)  # the machine may be busy

CASES = [  # p, concentration, b, exact gain
    (0.9, 5, 0.8, 0.021360318076013031),
    (0.97, 3, 0.99, 0.0068765394607724071),
    (0.5, 4, 0.6, 0.0512),
]
chances = st.floats(0.001, 0.999)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def spread(p, k):
    return math.sqrt(p * (1 - p) / (k + 1))


@pytest.mark.parametrize(("p", "k", "b", "exact"), CASES)
def test_oracle(p, k, b, exact):
    assert voi_binary(p, spread(p, k), b) == pytest.approx(exact, rel=1e-12)


def test_oracle_of_the_gaussian_and_the_cap():
    assert voi(0.9 - 0.8, spread(0.9, 5)) == pytest.approx(0.014299090908218211, rel=1e-12)
    assert voi(0.5 - 0.6, spread(0.5, 4)) == pytest.approx(0.047981070634839241, rel=1e-12)
    bounds = voi_bounds(0.97 - 0.99, spread(0.97, 3), p=0.97, b=0.99)
    assert bounds.binary_cap == pytest.approx(0.0097, rel=1e-13)
    gaussian = voi(0.97 - 0.99, spread(0.97, 3))
    assert gaussian == pytest.approx(0.02496, abs=5e-6)
    assert gaussian > bounds.binary_cap > voi_binary(0.97, spread(0.97, 3), 0.99)
    # it may also understate: p = .2, concentration 8, b = .5
    assert voi_binary(0.2, spread(0.2, 8), 0.5) == pytest.approx(0.00219, abs=5e-6)
    z = 0.3 / spread(0.2, 8)
    tail = math.erfc(z / math.sqrt(2)) / 2
    gaussian = spread(0.2, 8) * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * tail)
    assert voi(0.3, spread(0.2, 8)) == pytest.approx(gaussian, rel=1e-12)
    assert gaussian < 0.0006 < 0.002 < voi_binary(0.2, spread(0.2, 8), 0.5)


@pytest.mark.parametrize(
    ("p", "k", "b"), [(0.3, 2.0, 0.1), (0.3, 2.0, 0.6), (0.8, 0.4, 0.5), (0.05, 30.0, 0.06)]
)
def test_beta_by_simulation(p, k, b):
    q = np.random.default_rng(1).beta(p * k, (1 - p) * k, 400_000)
    gains = np.maximum(q, b) - max(p, b)
    assert voi_binary(p, spread(p, k), b) == pytest.approx(gains.mean(), abs=4 * gains.std() / len(q) ** 0.5)


@pytest.mark.parametrize(("p", "b"), [(0.3, 0.3), (0.5, 0.51), (0.2, 0.1999)])
def test_beta_by_quadrature(p, b):
    """Integer exponents make the density a polynomial: 60 nodes are exact."""
    k = 100
    a, c = round(p * k), round((1 - p) * k)
    q, weights = b / 2 * (NODES + 1), WEIGHTS * b / 2
    log_density = (a - 1) * np.log(q) + (c - 1) * np.log1p(-q)
    log_density += math.lgamma(k) - math.lgamma(a) - math.lgamma(c)
    expected = (weights * (b - q) * np.exp(log_density)).sum() + min(0.0, p - b)
    # lgamma of 100 is 359, a rounding of 6e-14 of the density; where b > p the difference of two numbers
    # of size .01 adds nothing
    assert voi_binary(p, spread(p, k), b) == pytest.approx(expected, rel=1e-11)


@calm
@given(chances, st.floats(0.0, 1.0), chances)
def test_every_bound_holds(p, share, b):
    nu = share * math.sqrt(p * (1 - p))
    bounds = voi_bounds(p - b, nu, p, b)
    gain = voi_binary(p, nu, b)
    assert 0 == bounds.lower <= gain <= bounds.binary_cap
    assert gain <= bounds.scarf * (1 + 1e-12) + 1e-15
    # relabelling success and failure: q -> 1 - q turns max(q, b) - b into the loss avoided; gains agree
    mirrored = voi_binary(1 - p, nu, 1 - b)
    assert mirrored == pytest.approx(gain, rel=1e-9, abs=1e-14)


@calm
@given(st.floats(-5, 5), st.floats(0.01, 3))
def test_scarf_is_attained_by_two_points(d, nu):
    """Mass on b +- r, r = sqrt(nu^2 + d^2): the gap has mean d and deviation nu, the gain is the bound."""
    r = math.hypot(nu, d)
    up = (1 + d / r) / 2
    mean, variance = up * r - (1 - up) * r, r * r - d * d
    assert mean == pytest.approx(d, abs=1e-14)
    assert variance == pytest.approx(nu * nu, rel=1e-6)
    gain = up * r - max(d, 0)
    assert voi_bounds(d, nu).scarf == pytest.approx(gain, rel=1e-9, abs=1e-13)
    assert voi(d, nu) <= voi_bounds(d, nu).scarf * (1 + 1e-14)


def test_limits():
    # all is learned, and more than all
    np.testing.assert_array_equal(voi_binary(0.5, [0.5, 0.7], 0.4), 0.4 * 0.5)
    assert voi_binary(0.5, 0.5 * (1 - 1e-12), 0.4) == pytest.approx(0.2, rel=1e-6)
    # nothing is learned, nothing is open, or the alternative is out of reach
    found = voi_binary([0.5, 0.0, 1.0, 0.5, 0.5, 0.5, 0.5], [0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
                       [0.5, 0.5, 0.5, 0.0, 1.0, -0.2, 1.3])  # fmt: skip
    np.testing.assert_array_equal(found, 0)
    # b = p: gain nu/sqrt(2 pi) (1 + O(1/k)) at every concentration, up to where k overflows
    for k in (1e6, 1e9, 1e12, 1e14, 1e16, 1e30):
        ratio = voi_binary(0.3, spread(0.3, k), 0.3) / voi(0.0, spread(0.3, k))
        assert ratio == pytest.approx(1, abs=1 / k + 1e-12)
    assert voi_binary(0.3, 1e-200, 0.3) == pytest.approx(voi(0.0, 1e-200), rel=1e-12)
    np.testing.assert_allclose(voi_bounds([np.inf, 0.0, 1e6], [1.0, 0.0, 1e-3]).scarf, [0, 0, 2.5e-13])
    assert voi_bounds(0.0, 0.5) == (0.0, 0.25, None)


def test_prices_move_the_alternative():
    """Net of prices b' = b + lam p_i on the gross scale: a price lowers the mean as it raises b."""
    p, nu, price, other = 0.6, 0.2, 0.1, 0.45
    q = np.random.default_rng(2).beta(0.6 * 5, 0.4 * 5, 400_000)
    gain = np.maximum(q - price, other) - max(p - price, other)
    assert voi_binary(p, spread(p, 5), other + price) == pytest.approx(gain.mean(), abs=4 * gain.std() / 632)
    assert voi_bounds(p - price - other, nu, p, other + price).binary_cap == pytest.approx(0.55 * 0.4)


def test_shapes():
    p = np.array([[0.2], [0.7]])
    found = voi_binary(p, 0.1, [0.1, 0.5, 0.9])
    assert found.shape == (2, 3)
    assert found[1, 1] == voi_binary(0.7, 0.1, 0.5)
    assert type(voi_binary(0.5, 0.1, 0.4)) is type(voi_bounds(1, 1, 0.5, 0.5).binary_cap) is float
    assert voi_bounds(np.zeros((0, 2)), 1.0).scarf.shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: voi_binary(1.2, 0.1, 0.5), r"p must be in \[0, 1\], got 1.2"),
        (lambda: voi_binary(np.nan, 0.1, 0.5), r"p must be in \[0, 1\], got nan"),
        (lambda: voi_binary(0.5, -0.1, 0.5), "nu must be >= 0 and finite"),
        (lambda: voi_binary(0.5, 0.1, np.nan), "b must not be NaN"),
        (lambda: voi_binary([0.5, 0.5], 0.1, [0.1, 0.2, 0.3]), r"p of shape \(2,\)"),
        (lambda: voi_bounds(0.1, 0.1, p=0.5), "p and b must be given together"),
        (lambda: voi_bounds(0.1, 0.1, b=0.5), "p and b must be given together"),
        (lambda: voi_bounds(np.nan, 0.1), "gap must not be NaN"),
        (lambda: voi_bounds(0.1, np.inf), "nu must be >= 0 and finite"),
        (lambda: voi_bounds(0.1, 0.1, -0.1, 0.5), r"p must be in \[0, 1\]"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
