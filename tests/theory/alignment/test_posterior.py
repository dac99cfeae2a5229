"""The posterior share: against sums over a grid, in its limits, and the covariance it is given."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from porism.theory.alignment import _crossfit, _posterior, _ustatistic


@pytest.mark.parametrize("z", [-60.0, -20.5, -19.5, -3.0, -1e-9, 0.0, 2.0, 30.0])
def test_half_moment(z):
    shift = max(z, 0.0)  # where the integrand is largest, taken out
    value = quad(
        lambda t: t * math.exp(-t * t / 2 + z * t - shift**2 / 2), 0, shift + 12 if z > -1 else 40 / -z
    )[0]
    found = float(_posterior._log_half_moment(np.array([z]))[0])
    # the first term left out of the expansion is 945 / z^8 = 4e-8 at -20
    assert found == pytest.approx(math.log(value) + shift**2 / 2, abs=1e-7)


@pytest.mark.parametrize("inside", [-2.0, 0.3, 4.0, 9.0])
@pytest.mark.parametrize("total", [-3.0, 1.0, 9.0, 40.0])
@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_against_a_grid(plain, inside, total, correlation):
    covariance = np.array([[1.0, correlation * 3], [correlation * 3, 9.0]])
    found = _posterior.share(inside, total, covariance, 0.02)
    # trapezoids of step 0.02 standard errors; the corner of the plane is worth a cell of it
    assert found == pytest.approx(plain.posterior(inside, total, covariance, 0.02), abs=3e-3)


def test_limits():
    tiny = 1e-8 * np.array([[1.0, 0.5], [0.5, 2.0]])
    assert _posterior.share(2.0, 8.0, tiny, 0.02) == pytest.approx(0.25, abs=1e-3)
    assert _posterior.share(2.0, 8.0, 0 * tiny, 0.02) == 0.25
    assert _posterior.share(9.0, 8.0, 0 * tiny, 0.02) == 1
    assert math.isnan(_posterior.share(-1.0, -2.0 + 0.5, 0 * tiny, 0.02))
    wide = 1e8 * np.array([[1.0, 1.0], [1.0, 50.0]])
    some = _posterior.share(2.0, 8.0, wide, 0.02)
    assert 0.02 < some < 0.25  # half of the prior lies at r/d, and is not refuted
    scaled = _posterior.share(2e-20, 8e-20, 1e-40 * np.array([[1.0, 0.5], [0.5, 2.0]]), 0.02)
    same = _posterior.share(2.0, 8.0, np.array([[1.0, 0.5], [0.5, 2.0]]), 0.02)
    assert scaled == pytest.approx(same, rel=1e-9)


def test_covariance_of_noise():
    """Of both scatters at a fixed subspace over many samples of pure noise, uneven in its directions."""
    rng = np.random.default_rng(8)
    counts, d, r = np.array([6, 8]), 5, 2
    codes, scales = np.repeat([0, 1], counts), np.array([2.0, 1, 1, 0.5, 3])
    folds = _crossfit.folds(codes, counts, 2, rng)
    shares, weights = _ustatistic.class_weights(counts, "share")
    size = np.bincount(codes[folds[0]])
    members = np.zeros((2, len(folds), len(codes)), dtype=bool)
    for k, held in enumerate(folds):
        members[codes[held], k, held] = True
    factors = _posterior.weight_products(shares, weights, size, counts, members)
    values, traces, draws = [], np.zeros((2, 2)), 4000
    for _ in range(draws):
        x = rng.standard_normal((len(codes), d)) * scales
        parts = [float(_ustatistic.scatter(x[held][:, :r], codes[held], shares, weights)) for held in folds]
        values.append([np.mean(parts), float(_ustatistic.scatter(x, codes, shares, weights))])
        traces += _posterior.traces(x[folds[0]][:, :r], x[folds[0]], codes[folds[0]], 2) / draws
    powers = scales**4
    exact = np.array([[powers[:r].sum(), powers[:r].sum()], [powers[:r].sum(), powers.sum()]])
    np.testing.assert_allclose(traces, exact, rtol=0.15)  # 4 products a draw, of relative spread 2 to 3
    # fourth moments of such sums: relative errors of variances are about sqrt(8 / draws) = 4.5 %
    np.testing.assert_allclose(np.cov(np.array(values).T), 2 * exact * factors, rtol=0.2)
