"""Pairs have their angles, samples their law, quadrature its definitions; plain twins agree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.sims.subspace import (
    digits_by_class,
    few_atoms,
    latent_covariance,
    sample_pair,
    score_error_monte_carlo,
)
from porism.sims.subspace._exact import decimal_error, dense_error, factored_error, trace_error
from porism.theory.linalg import principal_angles
from porism.theory.subspace import off_latent_error, reuse_error

E1 = np.array([[1.0], [0.0]])


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-6, np.pi / 2)), min_size=1, max_size=5), st.integers(0, 99)
)
def test_sample_pair(theta, seed):
    d = len(theta)
    D = d + sum(t > 0 for t in theta)  # no room to spare
    U, V = sample_pair(D, d, theta, seed)
    assert U.shape == V.shape == (D, d)
    np.testing.assert_allclose(U.T @ V, np.diag(np.cos(theta)), atol=1e-14)
    np.testing.assert_allclose(principal_angles(U, V).angles, np.sort(theta), atol=1e-13)
    np.testing.assert_array_equal(sample_pair(D, d, theta, seed)[0], U)


def test_positions_are_random():
    places = np.array([sample_pair(3, 1, [0.3], seed)[0].ravel() for seed in range(400)])
    # second moments of a uniform direction are 1/3, their sd sqrt(4/45); five standard errors
    np.testing.assert_allclose((places**2).mean(0), 1 / 3, atol=5 * np.sqrt(4 / 45 / 400))


def test_covariance():
    U = np.array([[0.6], [0.8]])
    np.testing.assert_allclose(latent_covariance(U, [2.0], 0.5), 2 * U @ U.T + 0.5 * np.eye(2))


@pytest.mark.parametrize("outside", [None, 0.38])
def test_monte_carlo(outside):
    theta, rng = [0.3, 1.1], np.random.default_rng(3)
    U, V = sample_pair(7, 2, theta, rng)
    C = latent_covariance(V, 1.0, 0.1)
    found = score_error_monte_carlo(U, C, 0.8, 0.3, 20_000, rng, outside)
    law = reuse_error(theta, 1, 0.1, 0.8, 0.3, 7, 2, calibrated=outside is not None)
    assert abs(found.mean - law.total) < 5 * found.se
    assert found.se < 0.03 * found.mean
    assert dense_error(U, 0.8 * C + 0.3 * np.eye(7), outside or 0.3) == pytest.approx(law.total, rel=1e-12)


def test_standard_error_shrinks_with_the_root_of_n():
    U, V = sample_pair(4, 1, [0.7], 0)
    C = latent_covariance(V, 1.0, 0.1)
    few, many = (score_error_monte_carlo(U, C, 1.0, 0.2, n, 1).se for n in (1000, 16_000))
    assert few / many == pytest.approx(4, rel=0.25)


def test_plain_twins():
    theta = [0.3, 0.9, 1.2]
    U, V = sample_pair(9, 3, theta, 0)
    S = 0.7 * latent_covariance(V, 2.0, 0.2) + 0.4 * np.eye(9)
    law = decimal_error(theta, 2.0, 0.2, 0.7, 0.4, 9)
    for twin in (dense_error, trace_error, factored_error):
        assert twin(U, S, 0.4) == pytest.approx(law, rel=1e-12)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5]])
def test_few_atoms_by_sampling(weights):
    rng = np.random.default_rng(0)
    atoms, a, h2, n = rng.standard_normal((3, 2)), 0.9, 0.3, 100_000
    found = few_atoms(atoms, E1, a**2, h2, weights)
    share = np.ones(3) / 3 if weights is None else np.array(weights) / 3.5
    x = a * atoms[rng.choice(3, n, p=share)] + np.sqrt(h2) * rng.standard_normal((n, 2))
    belief = share * np.exp(-np.square(x[:, None] - a * atoms).sum(-1) / (2 * h2))
    mean = belief @ atoms / belief.sum(1, keepdims=True)
    squares = a**2 * mean[:, 1] ** 2 / h2**2
    assert abs(squares.mean() - found.off_latent) < 5 * squares.std() / np.sqrt(n)
    assert found.second_moment == pytest.approx((atoms.T * share) @ atoms)
    assert off_latent_error(E1, found.posterior, a**2, h2) == pytest.approx(found.off_latent, rel=1e-10)


@pytest.mark.full
def test_digits(needs):
    needs("sklearn")
    low, high = digits_by_class(0, 4), digits_by_class(5, 9)
    assert len(low) + len(high) == len(digits_by_class()) == 1797
    assert low.max() == high.max() == 1.0
    assert low.min() == 0.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: sample_pair(3, 2, [0.1, 0.1], 0), AssumptionError, "D must be at least 4, got 3"),
        (lambda: sample_pair(3, 2, [0.1], 0), ValueError, "angles must hold d=2"),
        (lambda: sample_pair(3, 1, [2.0], 0), ValueError, "radians"),
        (lambda: sample_pair(3, 1, [0.1], -1), ValueError, "rng must be"),
        (lambda: latent_covariance(E1, [1.0, 2.0], 0.1), ValueError, "one a column"),
        (lambda: latent_covariance(E1, -1.0, 0.1), ValueError, "pass variances"),
        (lambda: latent_covariance(E1, 1.0, "a"), TypeError, "noise must hold real numbers"),
        (lambda: latent_covariance(2 * E1, 1.0, 0.1), ValueError, "orthonormal"),
        (lambda: score_error_monte_carlo(E1, np.eye(2), 1.0, 0.1, 1), ValueError, "n must be >= 2"),
        (lambda: score_error_monte_carlo(E1, np.eye(2), 1.0, 0.1, 9, 0, 0.0), ValueError, "outside must be"),
        (lambda: score_error_monte_carlo(E1, -np.eye(2), 1.0, 0.1), ValueError, "semidefinite"),
        (lambda: few_atoms(np.ones((2, 3)), E1, 1.0, 0.1), ValueError, "made for the plane"),
        (lambda: few_atoms(np.ones((2, 2)), E1, 1.0, 0.1, [1.0]), ValueError, "weights must be 2"),
        (lambda: few_atoms(np.ones((2, 2)), E1, 1.0, 0.0), ValueError, "h2 must be"),
        (lambda: digits_by_class(5, 4), ValueError, "high must be in 5..9"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()
