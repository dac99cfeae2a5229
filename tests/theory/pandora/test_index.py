"""Preposterior spread, index and inspection band: oracle case 3, their equations, their limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pandora import (
    inspection_halfwidth,
    log_psi,
    preposterior_sd,
    psi,
    psi_inv,
    reservation_index,
    voi,
)

calm = settings(deadline=None)  # the machine may be busy

sds = st.floats(1e-3, 1e3)
shares = st.floats(1e-6, 3)  # c/nu
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def excess(m, nu, threshold):
    """E(M - threshold)^+ by 200 nodes over ten standard deviations: an oracle of its own."""
    low, high = max(threshold, m - 10 * nu), max(threshold, m + 10 * nu)
    x = (low + high) / 2 + (high - low) / 2 * NODES
    density = np.exp(-0.5 * ((x - m) / nu) ** 2) / (nu * math.sqrt(2 * math.pi))
    return float(((high - low) / 2 * WEIGHTS * (x - threshold) * density).sum())


def test_oracle():
    nu = preposterior_sd(0.8, 0.6)
    assert nu == pytest.approx(0.64, rel=1e-15)
    assert reservation_index(0.5, nu, 0.05) == pytest.approx(1.1614815378969538, rel=1e-12)
    assert inspection_halfwidth(nu, 0.05) == pytest.approx(0.6614815378969538, rel=1e-12)
    # case 5 names three more indices
    sigma = reservation_index([0.2, 0.5, -0.1], [0.8, 0.4, 1.1], [0.05, 0.02, 0.1])
    expected = [1.1174707241786812, 1.0022326861207291, 0.94917006914094951]
    np.testing.assert_allclose(sigma, expected, rtol=1e-12)


def test_spread_by_simulation():
    """PB-1: after y = 1.1 the mean is .884 and the variance .2304, and M has standard deviation nu."""
    m, s, tau = 0.5, 0.8, 0.6
    weight = s**2 / (s**2 + tau**2)
    assert m + weight * (1.1 - m) == pytest.approx(0.884)
    assert s**2 * tau**2 / (s**2 + tau**2) == pytest.approx(0.2304)
    rng = np.random.default_rng(0)
    value = m + s * rng.normal(size=200_000)
    mean = m + weight * (value + tau * rng.normal(size=value.size) - m)
    # standard error of a standard deviation: nu/sqrt(2n) = .001; of the covariance about .0017
    assert mean.std() == pytest.approx(preposterior_sd(s, tau), abs=0.005)
    assert np.cov(mean - m, value - m)[0, 1] == pytest.approx(preposterior_sd(s, tau) ** 2, abs=0.008)


def test_spread_at_its_ends():
    found = preposterior_sd([0.8, 0.8, 1e-200, 1e200], [0.0, np.inf, 1e-200, 1e200])
    np.testing.assert_allclose(found, [0.8, 0.0, 1e-200 / math.sqrt(2), 1e200 / math.sqrt(2)], rtol=1e-15)


@calm
@given(st.floats(-10, 10), sds, shares)
def test_index_solves_its_equation(m, nu, share):
    c = share * nu
    sigma = reservation_index(m, nu, c)
    # sigma is off by eps (|m| + |sigma|), which moves the excess by at most that; the quadrature by 1e-13 nu
    rounding = 1e-15 * (abs(m) + abs(sigma)) + 2e-13 * nu
    assert excess(m, nu, sigma) == pytest.approx(c, abs=4 * rounding, rel=1e-12)
    assert (sigma > m) == (c < nu / math.sqrt(2 * math.pi)) or abs(sigma - m) < 1e-13 * nu + 1e-15 * abs(m)


@calm
@given(sds, shares)
def test_band_is_where_the_gain_pays(nu, share):
    c = share * nu
    w = inspection_halfwidth(nu, c)
    assert (w > 0) == (share < 1 / math.sqrt(2 * math.pi)) or abs(w) < 1e-13 * nu
    for factor in (0.5, 0.999, 1.001, 2.0):
        gap = factor * abs(w)
        pays = voi(gap, nu) > c
        assert pays == (gap < w) or abs(w) < 1e-10 * nu
        assert voi(-gap, nu) == voi(gap, nu)


@calm
@given(sds, shares, st.floats(1.001, 3), st.floats(1.001, 3))
def test_band_grows_with_spread_and_shrinks_with_cost(nu, share, more, dearer):
    c = share * nu
    assert inspection_halfwidth(more * nu, c) > inspection_halfwidth(nu, c)
    assert inspection_halfwidth(nu, dearer * c) < inspection_halfwidth(nu, c)


def test_limits():
    nu, c = [0.5, 0.0, 0.0, 0.5, 1e-310, 0.5], [0.0, 0.0, 0.1, np.inf, 1.0, 1e3]
    expected = [np.inf, 0.0, -0.1, -np.inf, -1.0, -1e3]
    np.testing.assert_array_equal(inspection_halfwidth(nu, c), expected)
    np.testing.assert_array_equal(reservation_index(2.0, nu, c), np.array(expected) + 2.0)
    # a cost whose quotient underflows: the band follows log c - log nu
    w = inspection_halfwidth(1e3, 1e-322)
    assert log_psi(w / 1e3) + math.log(1e3) == pytest.approx(math.log(1e-322), rel=1e-12)
    # the linear branch joins at c = 40 nu
    near, far = inspection_halfwidth(0.1, [4 - 1e-12, 4 + 1e-12])
    assert near == pytest.approx(far, abs=1e-11)
    # large means, tiny spread: the rounding of 1e6 is all that is lost
    sigma = reservation_index([1e6, -1e6], 1e-3, 1e-5)
    np.testing.assert_allclose(sigma, np.array([1e6, -1e6]) + 1e-3 * psi_inv(0.01), rtol=0, atol=2e-10)


def test_shapes():
    assert type(reservation_index(0, 1, 0.1)) is type(preposterior_sd(1, 1)) is float
    assert reservation_index(np.zeros((5, 1)), [1.0, 2.0], 0.1).shape == (5, 2)
    assert inspection_halfwidth(np.zeros((0, 3)), 0.1).shape == (0, 3)
    single = inspection_halfwidth(np.float32([0.5, 0.25]), np.float32(0.125))
    assert single.dtype == np.float64
    assert float(psi(single[0] / 0.5)) == pytest.approx(0.25, rel=1e-13)


@pytest.mark.full
def test_torch(needs):
    torch = needs("torch")
    nu = torch.tensor([0.3, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    c = torch.tensor([0.2, 0.05, 0.01], dtype=torch.float64, requires_grad=True)
    m = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    found = reservation_index(m, nu, c)
    expected = reservation_index(*(x.detach().numpy() for x in (m, nu, c)))
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-13)
    assert torch.autograd.gradcheck(reservation_index, (m, nu, c))
    assert torch.autograd.gradcheck(preposterior_sd, (nu, c))
    assert reservation_index(m.detach().float(), 0.5, 0.1).dtype == torch.float32
    edges = inspection_halfwidth(torch.tensor([0.5, 0.0, 0.0]), torch.tensor([0.0, 0.1, 0.0]))
    assert edges.tolist() == pytest.approx([np.inf, -0.1, 0.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reservation_index(0, 1, [-0.5, 0.1]), "cost must be >= 0; got min -0.5"),
        (lambda: inspection_halfwidth(1, np.nan), "cost must be >= 0; got min nan"),
        (lambda: inspection_halfwidth(-1, 0.1), "nu must be >= 0 and finite; got -1.0"),
        (lambda: inspection_halfwidth(np.inf, 0.1), "nu must be >= 0 and finite; got inf"),
        (lambda: inspection_halfwidth([1, np.nan], 0.1), "nu must be >= 0 and finite; got nan"),
        (lambda: reservation_index(np.inf, 1, 0.1), "m must be finite; got inf"),
        (lambda: reservation_index(np.nan, 1, 0.1), "m must be finite; got nan"),
        (lambda: preposterior_sd([1, 0], 1), "s must be > 0 and finite; got 0.0, use nu=0"),
        (lambda: preposterior_sd(np.nan, 1), "s must be > 0"),
        (lambda: preposterior_sd(1, -1), "tau must be >= 0; got -1.0"),
        (lambda: preposterior_sd(1, np.nan), "tau must be >= 0; got nan"),
        (lambda: inspection_halfwidth([1, 2], [1, 2, 3]), r"nu of shape \(2,\) and c of shape \(3,\) do not"),
        (lambda: inspection_halfwidth([1, None], 1), "nu must hold real numbers, got dtype object"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
