"""The closed law against 30-digit oracles, dense matrices and decimals; mixtures against eigenvalues."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.results import Result
from porism.sims.subspace import latent_covariance, sample_pair
from porism.sims.subspace._exact import decimal_error
from porism.theory.linalg import Frame, principal_angles
from porism.theory.subspace import crossover_angle, mixture_spectrum, reuse_error, shared_dimension

EPS = np.finfo(float).eps
THETA = st.lists(
    st.one_of(st.just(0.0), st.just(np.pi / 2), st.floats(1e-3, np.pi / 2)), min_size=1, max_size=4
)
SIGNAL, NOISE = st.floats(0.1, 10), st.one_of(st.just(0.0), st.floats(1e-3, 1))
ALPHA2 = st.floats(0.05, 1)
SETTINGS = settings(deadline=None, max_examples=60)
ORACLES = [  # angles, signal, noise, alpha2, h2, D; noise floor, misalignment, total, calibrated
    (
        ([0.5], 1, 0.04, 0.8, 0.2, 3),
        (0.2206896552, 4.386892039, 4.607581695, 3.206217819, 9.589681903),
    ),
    (([0.2, 1.1], 2, 0.1, 0.5, 0.05, 6), (40, 331.0926302, 371.0926302, 80.97661173, None)),
]


def plain(U, S, outside):
    """E|s* - s|^2 by the two score matrices."""
    B = U @ np.linalg.inv(U.T @ S @ U) @ U.T + (np.eye(len(S)) - U @ U.T) / outside
    E = np.linalg.inv(S) - B
    return np.trace(E @ S @ E)


@pytest.mark.parametrize(("case", "expected"), ORACLES)
def test_oracles(case, expected):
    found = reuse_error(*case, dim=len(case[0]))
    mended = reuse_error(*case, dim=len(case[0]), calibrated=True)
    noise, misalignment, total, calibrated, energy = expected
    assert found.noise == pytest.approx(noise, rel=1e-9)
    assert found.misalignment.sum() == pytest.approx(misalignment, rel=1e-9)
    assert found.total == pytest.approx(total, rel=1e-9)
    assert (mended.noise, mended.total) == (0, pytest.approx(calibrated, rel=1e-9))
    if energy:
        assert found.score_energy == mended.score_energy == pytest.approx(energy, rel=1e-9)
        assert found.ratio == pytest.approx(total / energy, rel=1e-9)


@SETTINGS
@given(THETA, SIGNAL, NOISE, ALPHA2, st.floats(-1.5, 0), st.integers(0, 6), st.integers(0, 99), st.booleans())
def test_lr1_and_lr3_dense(theta, signal, noise, alpha2, power, extra, seed, calibrated):
    d, h2 = len(theta), 10.0**power
    D = 2 * d + extra
    U, V = sample_pair(D, d, theta, seed)
    S = alpha2 * latent_covariance(V, signal, noise) + h2 * np.eye(D)
    outside = h2 + alpha2 * noise if calibrated else h2
    found = reuse_error(theta, signal, noise, alpha2, h2, D, d, calibrated)
    # the trace of three products of matrices up to 1/h^2, 10/h^2 and 11, of D^2 sums, rounded
    assert found.total == pytest.approx(plain(U, S, outside), rel=1e-11, abs=100 * D * EPS / h2)
    assert found.score_energy == pytest.approx(np.trace(np.linalg.inv(S)), rel=1e-11)
    assert found.total == pytest.approx(found.noise + found.misalignment.sum(), rel=4 * EPS)


@SETTINGS
@given(THETA, SIGNAL, NOISE, ALPHA2, st.floats(-8, 8), st.booleans())
def test_lr1_and_lr3_keep_all_digits(theta, signal, noise, alpha2, power, calibrated):
    case = (theta, signal, noise, alpha2, 10.0**power, 2 * len(theta) + 3)
    found = reuse_error(*case, dim=len(theta), calibrated=calibrated)
    exact = decimal_error(*case, calibrated=calibrated)
    # some twenty operations on positive numbers, each right to half an eps
    assert found.total == pytest.approx(exact, rel=20 * EPS, abs=0)


@SETTINGS
@given(
    THETA.filter(lambda t: max(t) > 0), SIGNAL, st.floats(1e-3, 1), st.floats(0.02, 0.9), st.floats(1.01, 2)
)
def test_lr2_both_parts_fall(theta, signal, noise, h2, factor):
    d, D = len(theta), 2 * len(theta) + 1
    low, high = (reuse_error(theta, signal, noise, 1, h, D, d) for h in (h2, factor * h2))
    assert high.noise < low.noise
    assert (high.misalignment[np.array(theta) > 0] < low.misalignment[np.array(theta) > 0]).all()
    later = h2 + (factor - 1) * (1 - h2) / 2  # variance preserving
    low, high = (reuse_error(theta, signal, noise, 1 - h, h, D, d) for h in (h2, later))
    assert high.noise < low.noise
    assert high.misalignment.sum() < low.misalignment.sum()


@SETTINGS
@given(SIGNAL, st.floats(1e-3, 1), st.integers(1, 5), st.integers(1, 30))
def test_lr2_crossover(signal, noise, d, extra):
    angle = crossover_angle(signal, noise, d + extra, d)
    ratio = extra * noise / (d * signal)
    if ratio > 1:
        assert angle is None
        return
    assert math.sin(angle) ** 2 == pytest.approx(ratio, rel=1e-13)
    found = reuse_error([angle] * d, signal, noise, 1, 1e-12, d + max(extra, d), d)
    floor = found.noise * extra / max(extra, d)  # D must hold the angles
    assert found.misalignment.sum() == pytest.approx(floor, rel=1e-8)  # h^2/n is the next order


def test_crossover_ends():
    assert crossover_angle(1, 0, 9, 2) == 0
    assert crossover_angle(1, 1, 4, 2) == pytest.approx(np.pi / 2)
    assert crossover_angle(1, 1.01, 4, 2) is None
    assert crossover_angle(1, 1, 2, 2) == 0


def test_lr3_floor_and_its_control():
    found = reuse_error([0, 0], 1, 0.1, 0.8, 0.1, 10, 2)
    assert found.total == found.noise == pytest.approx(8 * 0.08**2 / (0.01 * 0.18))
    assert reuse_error([0, 0], 1, 0.1, 0.8, 0.1, 10, 2, calibrated=True).total == 0
    U = np.eye(10)[:, :2]
    S = 0.8 * latent_covariance(U, 1.0, 0.1) + 0.1 * np.eye(10)
    assert plain(U, S, 0.1 + 0.16) == pytest.approx(4.21, abs=0.005)
    assert plain(U, S, 0.1) == pytest.approx(28.4, abs=0.05)
    # without noise both are one law, and the calibrated one stays finite as h goes to 0
    assert reuse_error([0.3], 1, 0, 1, 0.2, 2, 1).total == reuse_error([0.3], 1, 0, 1, 0.2, 2, 1, True).total
    limit = np.sin(0.3) ** 2 * (100 - 1 / (1.1 * (0.1 + np.cos(0.3) ** 2)))
    assert reuse_error([0.3], 1, 0.1, 1, 1e-300, 2, 1, True).total == pytest.approx(limit, rel=1e-12)


def test_shared_directions_need_no_room():
    assert reuse_error([0.0, 0.4], 1, 0.1, 1, 0.1, ambient=3, dim=2).noise > 0
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0][:, :2]
    turned = U @ np.array([[0.6, -0.8], [0.8, 0.6]])
    found = reuse_error(principal_angles(U, turned), 1, 0.1, 1, 0.1, ambient=2, dim=2)  # angles are rounding
    assert found.total < 1e-20


@SETTINGS
@given(THETA, st.floats(0, 1), st.integers(0, 99), st.floats(0, 1))
def test_lr7_mixture(theta, weight, seed, tol):
    d = len(theta)
    U, V = sample_pair(2 * d + 2, d, theta, seed)
    dense = np.linalg.eigvalsh(weight * U @ U.T + (1 - weight) * V @ V.T)[::-1]
    found = mixture_spectrum(theta, weight)
    # a symmetric matrix of norm at most 1
    np.testing.assert_allclose(dense, [*found, 0, 0], atol=50 * EPS)
    assert (np.diff(found) <= 0).all()
    assert found.sum() == pytest.approx(d)
    if tol > 1e-12 and np.abs(found - tol).min() > 1e-12:  # rounding decides closer by
        assert shared_dimension(theta, tol, weight) == (dense > tol).sum()
    if tol < 0.5:
        assert d <= shared_dimension(theta, tol, weight) <= 2 * d


def test_mixture_oracles():
    assert mixture_spectrum([0.9]) == pytest.approx([0.8108049841, 0.1891950159], abs=1e-10)
    assert mixture_spectrum([0.9], 0.3) == pytest.approx([0.8480571506, 0.1519428494], abs=1e-10)
    counts = [shared_dimension([0.1, 0.5, 0.9, 1.4], tol) for tol in (0.05, 0.1, 0.2)]
    assert counts == [7, 6, 5]
    assert mixture_spectrum([1e-9])[1] == pytest.approx(2.5e-19, rel=1e-12)  # no difference of ones
    assert shared_dimension([0.9], float(mixture_spectrum([0.9])[1])) == 1


def test_angles_of_frames():
    """Columns of any length through `Frame`: pi/4 and atan 2."""
    found = principal_angles(Frame(np.eye(4)[:, :2]), Frame(np.array([[1, 0, 1, 0], [0, 1, 0, 2.0]]).T))
    assert found.angles == pytest.approx([np.pi / 4, 1.10714872], abs=1e-8)
    assert found.angles[1] == pytest.approx(math.atan(2), rel=4 * EPS)
    assert reuse_error(found, 1, 0.1, 1, 0.1, 4, 2).total > 0
    right = np.float32([np.pi / 2])  # above pi/2 by 4e-8
    assert mixture_spectrum(right).tolist() == mixture_spectrum([np.pi / 2]).tolist()


def test_saved(tmp_path):
    found = reuse_error([0.5, 1.0], 1, 0.1, 1, 0.1, 8, 2)
    found.save(tmp_path / "error.npz")
    back = Result.load(tmp_path / "error.npz")
    assert back.total == found.total
    np.testing.assert_array_equal(back.misalignment, found.misalignment)


GOOD = {"angles": [0.5], "signal": 1.0, "noise": 0.1, "alpha2": 0.5, "h2": 0.1, "ambient": 3, "dim": 1}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"h2": 0}, ValueError, "h2 must be finite and > 0"),
        ({"h2": -1.0}, ValueError, "h2 must be finite and > 0"),
        ({"h2": 1e-200}, ValueError, "h2 must be large enough"),
        ({"alpha2": 0}, ValueError, "alpha2 must be finite and > 0"),
        ({"alpha2": 1.01}, ValueError, r"alpha2 must be in \(0, 1\], got 1.01"),
        ({"signal": 0}, ValueError, "signal must be finite and > 0"),
        ({"noise": -0.1}, ValueError, "noise must be a finite number >= 0, got -0.1"),
        ({"noise": math.nan}, ValueError, "noise must be a finite number >= 0"),
        ({"noise": True}, TypeError, "noise must be a real number"),
        ({"ambient": 1}, AssumptionError, "which is 2, got 1"),
        ({"ambient": 0}, ValueError, "ambient must be >= 1"),
        ({"ambient": 3.0}, TypeError, "ambient must be an int"),
        ({"dim": 2}, ValueError, "dim must be the number of angles, got dim=2 and 1"),
        ({"angles": [-0.1]}, ValueError, r"angles must lie in \[0, pi/2\], got -0.1"),
        ({"angles": [90.0]}, ValueError, "pass radians"),
        ({"angles": []}, ValueError, "at least one angle"),
        ({"angles": [[0.1]]}, ValueError, "1 axes"),
        (
            {"angles": principal_angles(np.eye(3)[:, :1], np.eye(3)[:, :2])},
            AssumptionError,
            "reuse_error_general",
        ),
    ],
)
def test_bad_input(change, error, text):
    with pytest.raises(error, match=text):
        reuse_error(**GOOD | change)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mixture_spectrum([0.1], 1.5), "weight must be in"),
        (lambda: mixture_spectrum([2.0]), "angles must lie"),
        (lambda: shared_dimension([0.1], -0.1), "tol must be in"),
        (lambda: crossover_angle(0, 0.1, 3, 1), "signal must be"),
        (lambda: crossover_angle(1, -0.1, 3, 1), "noise must be"),
        (lambda: crossover_angle(1, 0.1, 1, 2), "ambient must be >= 2"),
    ],
)
def test_other_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()
