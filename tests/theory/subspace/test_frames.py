"""The general law by traces, invariances, sampling; Tweedie's part by quadrature; lost energy."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from porism.sims.subspace import few_atoms, latent_covariance, sample_pair, score_error_monte_carlo
from porism.theory.linalg import Frame
from porism.theory.subspace import (
    lost_energy,
    mixture_spectrum,
    off_latent_error,
    reuse_error,
    reuse_error_general,
)

EPS = np.finfo(float).eps
SETTINGS = settings(deadline=None, max_examples=60)
SEED = st.integers(0, 2**32 - 1)
E1 = np.array([[1.0], [0.0]])


def turned(D, rng):
    return np.linalg.qr(rng.standard_normal((D, D)))[0]


def traces(U, C, alpha2, h2, p_term=True):
    D, d = U.shape
    S = alpha2 * C + h2 * np.eye(D)
    P = np.eye(D) - U @ U.T
    inside = np.trace(np.linalg.inv(S)) - np.trace(np.linalg.inv(U.T @ S @ U))
    return inside - 2 * (D - d) / h2 + p_term * np.trace(P @ S) / h2**2


@SETTINGS
@given(SEED, st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.floats(0.1, 1), st.floats(-1, 0))
def test_lr4(seed, D, d, rank, alpha2, power):
    d, rng, h2 = min(d, D), np.random.default_rng(seed), 10.0**power
    root = rng.standard_normal((D, rank))
    C, U = root @ root.T, turned(D, rng)[:, :d]
    found = reuse_error_general(U, C, alpha2, h2)
    # the four terms are up to |C|/h^4
    slack = 100 * EPS * (D / h2 + np.trace(C) / h2**2)
    assert found == pytest.approx(traces(U, C, alpha2, h2), rel=1e-10, abs=slack)
    Q = turned(D, rng)
    assert reuse_error_general(Q @ U, Q @ C @ Q.T, alpha2, h2) == pytest.approx(found, rel=1e-10, abs=slack)
    assert reuse_error_general(U @ turned(d, rng), C, alpha2, h2) == pytest.approx(
        found, rel=1e-10, abs=slack
    )
    if d == D:
        assert found <= slack
    else:
        assume(np.trace(C) > 0.1)
        assert traces(U, C, alpha2, h2, p_term=False) < found - slack


@SETTINGS
@given(SEED, st.lists(st.floats(0.01, 1.5), min_size=1, max_size=4), st.floats(-8, 8))
def test_isotropic_is_the_closed_law_at_every_noise(seed, theta, power):
    d, h2 = len(theta), 10.0**power
    U, V = sample_pair(2 * d + 3, d, theta, seed)
    found = reuse_error_general(U, latent_covariance(V, 1.0, 1e-3), 1.0, h2)
    # eigenvectors are right to a few D eps, and the noise is 1e-3 of the signal
    assert found == pytest.approx(reuse_error(theta, 1, 1e-3, 1, h2, 2 * d + 3, d).total, rel=1e-10)


def test_lr4_digits_where_the_trace_has_none():
    theta = np.random.default_rng(0).uniform(0.1, 1.4, 4)
    U, V = sample_pair(40, 4, theta, 0)
    C = latent_covariance(V, 1.0, 1e-3)
    for h2, loss in ((1e2, 1e-13), (1e4, 1e-9), (1e6, 1e-4)):
        law = reuse_error(theta, 1, 1e-3, 1, h2, 40, 4).total
        assert reuse_error_general(U, C, 1.0, h2) == pytest.approx(law, rel=1e-13)
        assert abs(traces(U, C, 1.0, h2) / law - 1) > loss


def test_lr4_sampled():
    rng = np.random.default_rng(5)
    root = rng.standard_normal((6, 4))
    U = turned(6, rng)[:, :2]
    drawn = score_error_monte_carlo(U, root @ root.T, 0.7, 0.3, 20_000, rng)
    assert abs(drawn.mean - reuse_error_general(U, root @ root.T, 0.7, 0.3)) < 5 * drawn.se


def test_lr5_oracle():
    U, V = np.eye(6)[:, :2], np.zeros((6, 2))
    V[0, 0], V[1:3, 1] = 1, (math.cos(1), math.sin(1))
    C = [latent_covariance(V, spectrum, 0.01) for spectrum in ((4, 1), (1, 4))]
    found = [reuse_error_general(U, one, 1.0, 0.1) for one in C]
    assert found == pytest.approx([69.58386251, 283.0536602], rel=1e-9)
    for one in C:
        outside = np.trace(one[2:, 2:])
        assert reuse_error_general(U, one, 1.0, 1e-10) * 1e-20 == pytest.approx(outside, rel=1e-7)


def test_lr6_oracle():
    from scipy.integrate import quad

    u = np.array([math.cos(0.6), math.sin(0.6)])
    a = math.sqrt(0.9)
    for h2, error, bound in ((0.5, 0.8462817553, 1.1477560420), (0.1, 28.5747904, 28.6939010)):
        h = math.sqrt(h2)
        square = quad(
            lambda z, h=h: math.tanh(a * (a + h * z) / h**2) ** 2 * math.exp(-z * z / 2),
            -12, 12, epsabs=1e-13, limit=300,
        )[0] / math.sqrt(2 * math.pi)  # fmt: skip
        if h2 == 0.5:
            assert square == pytest.approx(0.7373359184, abs=1e-10)
        found = off_latent_error(E1, square * np.outer(u, u), 0.9, h2)
        assert found == pytest.approx(error, rel=1e-8)
        assert off_latent_error(E1, np.outer(u, u), 0.9, h2) == pytest.approx(bound, rel=1e-8)
        assert few_atoms([u, -u], E1, 0.9, h2).off_latent == pytest.approx(found, rel=1e-10)


@SETTINGS
@given(SEED, st.integers(1, 8), st.integers(1, 8), st.floats(0.1, 1), st.floats(0.05, 2))
def test_lr6_gaussian(seed, D, d, alpha2, h2):
    """The Gaussian posterior mean is linear, so the part outside is a trace; the data bound it."""
    d, rng = min(d, D), np.random.default_rng(seed)
    root = rng.standard_normal((D, D))
    C, U = root @ root.T, turned(D, rng)[:, :d]
    S = alpha2 * C + h2 * np.eye(D)
    P = np.eye(D) - U @ U.T
    outside = P @ (np.linalg.inv(S) - np.eye(D) / h2)
    M = alpha2 * C @ np.linalg.inv(S) @ C
    found = off_latent_error(U, (M + M.T) / 2, alpha2, h2)
    slack = 1e3 * EPS * np.trace(C) / h2**2
    assert found == pytest.approx(np.trace(outside @ S @ outside.T), rel=1e-9, abs=slack)
    assert found <= off_latent_error(U, C, alpha2, h2) + slack
    assert found <= reuse_error_general(U, C, alpha2, h2) + slack
    assert off_latent_error(U, C) == pytest.approx(np.trace(P @ C), rel=1e-9, abs=slack)


@SETTINGS
@given(SEED, st.lists(st.floats(0, 1.5), min_size=1, max_size=4))
def test_lr8(seed, theta):
    d = len(theta)
    U, V = sample_pair(2 * d + 1, d, theta, seed)
    vectors = np.linalg.eigh(U @ U.T + V @ V.T)[1][:, ::-1]
    spectrum = mixture_spectrum(theta)
    for m in range(1, 2 * d + 1):
        # eigenvectors at a gap of cos 1.5 = 0.07
        for domain in (U, V):
            assert lost_energy(domain, vectors[:, :m]) == pytest.approx(spectrum[m:].sum(), abs=1e-12)
    shared = 2 * (np.sin(np.array(theta) / 2) ** 2).sum()
    assert 2 * lost_energy(U, vectors[:, :d]) == pytest.approx(shared, abs=1e-12)
    assert shared <= lost_energy(V, U) + 1e-12
    assert lost_energy(V, U) == pytest.approx((np.sin(theta) ** 2).sum(), abs=1e-13)


def test_lr8_oracle():
    U, V = sample_pair(5, 1, [0.9], 0)
    top = np.linalg.eigh(U @ U.T + V @ V.T)[1][:, -1:]
    assert lost_energy(U, top) == pytest.approx(0.1891950159, abs=1e-10)
    assert lost_energy(V, top) == pytest.approx(0.1891950159, abs=1e-10)
    top = np.linalg.eigh(0.3 * U @ U.T + 0.7 * V @ V.T)[1][:, -1:]
    lost = lost_energy(U, top), lost_energy(V, top)
    assert lost == pytest.approx((0.3987533129, 0.04616693654), abs=1e-10)
    assert 0.3 * lost[0] + 0.7 * lost[1] == pytest.approx(0.1519428494, abs=1e-10)


def test_lost_energy_keeps_small_losses():
    t = 1e-9
    assert lost_energy([[1.0], [0.0]], [[math.cos(t)], [math.sin(t)]]) == pytest.approx(1e-18, rel=1e-6)
    assert lost_energy(np.eye(3)[:, :2], np.eye(3)) == 0


def test_frames_and_single_precision():
    U = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 2)))[0]
    C = np.diag([3.0, 2, 1, 0.5, 0.1])
    law = reuse_error_general(U, C, 1.0, 0.1)
    assert reuse_error_general(Frame(U @ [[2.0, 1.0], [0.0, 3.0]]), C, 1.0, 0.1) == pytest.approx(
        law, rel=1e-12
    )
    assert reuse_error_general(U.astype(np.float32), C, 1.0, 0.1) == pytest.approx(law, rel=1e-5)


def test_the_error_has_the_unit_of_one_over_variance():
    """Also where h^4 is no float; powers of two round nothing."""
    U = np.linalg.qr(np.random.default_rng(2).standard_normal((4, 2)))[0]
    C = np.diag([3.0, 2, 1, 0.5])
    for unit in (2.0**-1000, 2.0**-500, 2.0**500, 2.0**1000):
        found = reuse_error_general(U, unit * C, 0.5, unit * 0.1) * unit
        assert found == pytest.approx(reuse_error_general(U, C, 0.5, 0.1), rel=1e-13)


I2 = np.eye(2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: reuse_error_general([[2.0], [0.0]], I2, 1.0, 0.1), r"off the identity by 3; .*Frame\(U_s\)"),
        (lambda: reuse_error_general(E1, I2, 1.0, 0), "h2 must be"),
        (lambda: reuse_error_general(E1, I2, 1.0, 1e-200), "h2 must be large enough"),
        (lambda: reuse_error_general(E1, I2, 1.1, 0.1), "alpha2 must be in"),
        (lambda: reuse_error_general(E1, I2, 0.0, 0.1), "alpha2 must be"),
        (lambda: reuse_error_general(E1, np.eye(3), 1.0, 0.1), r"covariance must have shape \(2, 2\)"),
        (lambda: reuse_error_general(E1, [[1.0, 0.5], [0.0, 1.0]], 1.0, 0.1), "covariance must be symmetric"),
        (lambda: reuse_error_general(E1, np.diag([1, -1e-9]), 1.0, 0.1), "positive semidefinite"),
        (lambda: reuse_error_general(E1, -I2, 1.0, 0.1), "positive semidefinite"),
        (lambda: reuse_error_general(E1, [[np.nan, 0], [0, 1]], 1.0, 0.1), "covariance must be finite"),
        (lambda: off_latent_error([[1.0], [1.0]], I2), "U_s must have orthonormal columns"),
        (
            lambda: off_latent_error(E1, np.diag([1, -1.0])),
            "posterior_mean_cov must be positive semidefinite",
        ),
        (lambda: off_latent_error(E1, I2, 2.0), "alpha2 must be in"),
        (lambda: off_latent_error(E1, I2, 1.0, -1), "h2 must be"),
        (lambda: off_latent_error(E1, I2, 1.0, 1e-200), "h2 must be large enough"),
        (lambda: lost_energy(E1, np.eye(3)), "same number of rows, got 2 and 3"),
        (lambda: lost_energy(2 * E1, E1), "U must have orthonormal columns"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_rounding_below_zero_is_accepted():
    assert reuse_error_general(E1, np.diag([1, -1e-12]), 1.0, 0.1) == pytest.approx(0, abs=1e-12)
