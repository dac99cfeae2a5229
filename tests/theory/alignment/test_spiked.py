"""Laws of the spiked model: worked values, the equations they solve, and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.theory.alignment import (
    bbp_threshold,
    certificate_threshold,
    covariance_error,
    spike_eigenvalue,
    spike_overlap,
    subcritical_enrichment,
)

GAMMA = st.floats(-3, 3).map(lambda e: 10**e)


@pytest.mark.parametrize(
    ("ell", "gamma", "overlap", "eigenvalue"),
    [
        (3, 2, 0.4666667, 6.6666667),
        (1, 2, 0, 5.8284271),
        (6, 8, 0.3333333, 16.3333333),
        (5, 0.1, 0.9764706, 6.12),
        (0.5, 0.25, 0, 2.25),
        (0, 4, 0, 9),
    ],
)
def test_worked_values(ell, gamma, overlap, eigenvalue):
    assert spike_overlap(ell, gamma) == pytest.approx(overlap, abs=5e-8)
    assert spike_eigenvalue(ell, gamma) == pytest.approx(eigenvalue, abs=5e-8)


def test_enrichment_values():
    found = subcritical_enrichment([1, 1, 2, 0], [4, 10, 16, 9])
    np.testing.assert_allclose(found, [8, 4.2776680, 12, 1], atol=5e-8)
    assert subcritical_enrichment(1, 4, 4) == pytest.approx(4 / 3)
    assert subcritical_enrichment(0, 4, 6) == 1
    assert subcritical_enrichment(2, 4) == np.inf
    assert subcritical_enrichment(1, 4, 100) == subcritical_enrichment(1, 4)  # clamped to the bulk
    assert subcritical_enrichment(1, 4, 0) == subcritical_enrichment(1, 4, 1)
    assert np.isfinite(subcritical_enrichment(0.5, 1, 0))  # the bulk of gamma = 1 begins at 0


@given(GAMMA, st.floats(0, 0.999), st.floats(0, 1))
def test_enrichment_is_the_transform_formula(gamma, share, place):
    ell, root = share * np.sqrt(gamma), np.sqrt(gamma)
    x = (1 - root) ** 2 + place * 4 * root
    if x < 1e-9 or place in (0, 1):
        return
    b = x + 1 - gamma
    m = (-b + 1j * np.sqrt(max(4 * x - b * b, 0))) / (2 * x)
    expected = gamma * (1 + ell) / (x * abs(1 + (1 + ell) * m) ** 2)
    # the complex form cancels near the edge: terms of size (1 + ell)^2 + x leave (root - ell)^2
    scale = ((1 + ell) ** 2 + x) / ((root - ell) ** 2 + ell * (root + 1) ** 2 * (1 - place) * 1e-3 + 1e-300)
    assert subcritical_enrichment(ell, gamma, x) == pytest.approx(expected, rel=1e-12 * (1 + scale))


@given(GAMMA)
def test_enrichment_averages_to_one(gamma):
    """Over all sample eigenvectors a direction is captured once: a sum rule (null directions included)."""
    nodes, weights = np.polynomial.chebyshev.chebgauss(400)
    root, ell = np.sqrt(gamma), 0.5 * np.sqrt(gamma)
    x = 1 + gamma + 2 * root * nodes
    # Marchenko-Pastur density times sqrt(1 - t^2), for the Chebyshev weight 1 / sqrt(1 - t^2)
    density = 4 * gamma * (1 - nodes**2) / (2 * np.pi * gamma * x)
    bulk = np.sum(weights * density * subcritical_enrichment(ell, gamma, x))
    null = 0.0
    if (
        gamma > 1
    ):  # a direction in the null space: gamma - 1 over gamma - 1 + (1 + ell) times ... of the spike
        m0 = 1 / (gamma - 1)
        null = (1 - 1 / gamma) * gamma / (gamma - 1) / (1 + (1 + ell) * m0)
        assert 0 < null < 1
    if abs(np.log10(gamma)) > 0.2:  # at gamma near 1 the density has a pole that the nodes miss
        assert bulk + null == pytest.approx(1, rel=1e-6)


def test_limits_of_certificates():
    ratios = [0.1, 1, 10, 100]
    assert [certificate_threshold(g) for g in ratios] == pytest.approx([1.47, 7.42, 61.6, 602], rel=4e-3)
    found = [certificate_threshold(g, "davis_kahan") for g in ratios]
    assert found == pytest.approx([1.47, 6.59, 43.3, 369], rel=4e-3)
    for g in ratios:
        ell = certificate_threshold(g)
        assert 2 * covariance_error(ell, g) == pytest.approx(ell, rel=1e-10)
        assert ell > bbp_threshold(g)
    # in the limits: error 2 sqrt(gamma), and ell = c gamma with c = 1 + sqrt(1 + 4 c) or 2 c - 3 the root
    for bound, most in (("yu_wang_samworth", 6.0), ("davis_kahan", 2 + np.sqrt(2))):
        assert certificate_threshold(1e-30, bound) == pytest.approx(4e-15, rel=1e-9)
        assert certificate_threshold(1e160, bound) == pytest.approx(most * 1e160, rel=1e-9)


@given(GAMMA, st.floats(0.01, 100))
def test_error_solves_its_equation(gamma, excess):
    root = np.sqrt(gamma)
    ell = 1 + root + excess
    x = covariance_error(ell, gamma)
    y = x - gamma
    outside = (
        -(1 + ell) * (-y + np.sqrt(max(y * y - 4 * gamma, 0))) / 2
    )  # (1 + x) m(1 + x) + 1 in closed form
    # the difference cancels y / b times
    assert outside == pytest.approx(x, rel=1e-6)
    assert covariance_error(1 + root, gamma) == pytest.approx(gamma + 2 * root, rel=1e-12)


def test_shapes_and_monotonicity():
    ell, gamma = np.linspace(0, 20, 201), np.array([[0.1], [1], [10]])
    overlap = spike_overlap(ell, gamma)
    assert overlap.shape == (3, 201)
    assert (np.diff(overlap, axis=1) >= 0).all()
    assert (np.diff(overlap, axis=0) <= 0).all()
    assert (np.diff(spike_eigenvalue(ell, gamma), axis=1) >= 0).all()
    assert np.ndim(spike_overlap(1, 1)) == 0
    assert bbp_threshold([4, 9]).tolist() == [2, 3]


@pytest.mark.parametrize("law", [spike_overlap, spike_eigenvalue, subcritical_enrichment, covariance_error])
def test_bad_input(law):
    for gamma in (0, -1):
        with pytest.raises(ValueError, match="gamma must be > 0"):
            law(1, gamma)
    with pytest.raises(ValueError, match="ell must be >= 0"):
        law(-1, 1)
    with pytest.raises(ValueError, match="broadcast"):
        law([1, 1], [1, 1, 1])
    with pytest.raises(ValueError, match="finite"):
        law(np.nan, 1)


def test_more_bad_input():
    with pytest.raises(AssumptionError, match="spike_overlap"):
        subcritical_enrichment([0, 3], 4)
    with pytest.raises(ValueError, match="eigenvalue, ell and gamma must broadcast"):
        subcritical_enrichment([0.5, 1], 4, [1, 2, 3])
    with pytest.raises(ValueError, match="gamma"):
        bbp_threshold(0)
    with pytest.raises(ValueError, match="bound"):
        certificate_threshold(1, "wedin")


def draw(d, n, ells, rng):
    """Top sample directions' overlaps with spikes along the first axes, and the eigenvalues."""
    x = rng.standard_normal((n, d))
    x[:, : len(ells)] *= np.sqrt(1 + np.array(ells))
    if n <= d:
        w, u = np.linalg.eigh(x @ x.T / n)
        v = x.T @ u[:, -len(ells) :] / np.sqrt(n * w[-len(ells) :])
    else:
        w, v = np.linalg.eigh(x.T @ x / n)
        v = v[:, -len(ells) :]
    return (v[: len(ells)] ** 2).sum(1), w[::-1][: len(ells)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("d", "n", "ells"),
    [
        (400, 800, [1.5]),
        (800, 400, [3.0]),
        (800, 100, [6.0]),
        (1600, 200, [4.0]),
        (800, 400, [8.0, 5.0, 3.0]),
    ],
)
def test_overlap_by_simulation(d, n, ells):
    rng = np.random.default_rng(20)
    found = [draw(d, n, ells, rng) for _ in range(20)]
    overlaps, values = (np.array(part) for part in zip(*found, strict=True))
    error = overlaps.std(0, ddof=1) / np.sqrt(20)
    # three standard errors, and the finite-size correction of order 1 / n
    assert (np.abs(overlaps.mean(0) - spike_overlap(ells, d / n)) <= 3 * error + 1 / n).all()
    error = values.std(0, ddof=1) / np.sqrt(20)
    gap = np.abs(values.mean(0) - spike_eigenvalue(ells, d / n))
    assert (gap <= 3 * error + (1 + np.array(ells)) * 4 / n).all()


@pytest.mark.full
@pytest.mark.parametrize(("d", "n", "ell"), [(1000, 100, 1.0), (2000, 100, 2.0)])
def test_enrichment_by_simulation(d, n, ell):
    rng = np.random.default_rng(21)
    seen, theory = [], []
    for _ in range(60):
        x = rng.standard_normal((n, d))
        x[:, 0] *= np.sqrt(1 + ell)
        w, u = np.linalg.eigh(x @ x.T / n)
        v = x.T @ u[:, -8:] / np.sqrt(n * w[-8:])
        seen.append(d / 8 * (v[0] ** 2).sum())
        theory.append(subcritical_enrichment(ell, d / n, w[-8:]).mean())
    error = np.std(seen, ddof=1) / np.sqrt(60)
    assert abs(np.mean(seen) - np.mean(theory)) <= 3 * error
    assert np.mean(theory) < subcritical_enrichment(ell, d / n)
    assert np.mean(seen) > 2  # far better than a random subspace
