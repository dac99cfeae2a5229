"""Principal angles are right to rounding at both ends, and the vectors belong to them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.theory.linalg import Frame, PrincipalAngles, orthonormal, principal_angles

EPS = np.finfo(np.float64).eps
# sizes from 1e-16 to pi/2 and their complements, so that both ends are met
ANGLE = st.one_of(
    st.just(0.0),
    st.just(np.pi / 2),
    st.floats(-16, 0).map(lambda e: 10**e),
    st.floats(-16, 0).map(lambda e: np.pi / 2 - 10**e),
    st.floats(0, np.pi / 2),
)


def pair(angles, extra, seed):
    """Orthonormal columns of a pair of subspaces with these angles; `extra` more columns in the first."""
    rng = np.random.default_rng(seed)
    k = len(angles)
    q = np.linalg.qr(rng.standard_normal((2 * k + extra + 1, 2 * k + extra + 1)))[0]
    u = q[:, :k]
    v = u * np.cos(angles) + q[:, k : 2 * k] * np.sin(angles)
    u = np.concatenate([u, q[:, 2 * k : 2 * k + extra]], axis=1)
    turn = [np.linalg.qr(rng.standard_normal((m, m)))[0] for m in (k + extra, k)]
    return u @ turn[0], v @ turn[1]


@settings(deadline=None)
@given(st.lists(ANGLE, min_size=1, max_size=5), st.integers(0, 3), st.booleans(), st.integers(0, 2**32 - 1))
def test_known_angles_and_vectors(angles, extra, swap, seed):
    angles = np.sort(angles)
    u, v = pair(angles, extra, seed)
    if swap:
        u, v = v, u
    found = principal_angles(u, v)
    # Householder factors and products of d rows are off by a modest multiple of d eps each
    slack = 10 * len(u) * EPS
    np.testing.assert_allclose(found.angles, angles, rtol=0, atol=slack)
    np.testing.assert_allclose(found.left.T @ found.right, np.diag(np.cos(angles)), rtol=0, atol=slack)
    for columns, whole in ((found.left, u), (found.right, v)):
        np.testing.assert_allclose(columns.T @ columns, np.eye(len(angles)), rtol=0, atol=slack)
        np.testing.assert_allclose(whole @ (whole.T @ columns), columns, rtol=0, atol=slack)


@pytest.mark.parametrize("t", [1e-300, 1e-20, 1e-12, 1e-8, 1e-3])
def test_relative_accuracy_of_one_small_angle(t):
    (angle,) = principal_angles([[1.0], [0.0]], [[math.cos(t)], [math.sin(t)]]).angles
    assert angle == pytest.approx(t, rel=4 * EPS)
    (angle,) = principal_angles([[1.0], [0.0]], [[math.sin(t)], [math.cos(t)]]).angles
    assert np.pi / 2 - angle == pytest.approx(t, rel=1e-12, abs=2 * EPS)


def test_against_scipy():
    from scipy.linalg import subspace_angles

    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.standard_normal((9, k)))[0] for k in (4, 3))
    np.testing.assert_allclose(principal_angles(u, v).angles, subspace_angles(u, v)[::-1], atol=20 * EPS)


def test_whole_space_and_single_precision():
    q = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0]
    assert principal_angles(q, q[:, :2]).angles == pytest.approx(0, abs=10 * EPS)
    half = principal_angles(q[:, :2].astype(np.float32), q[:, 1:4]).angles
    np.testing.assert_allclose(half, [0, np.pi / 2], atol=1e-6)  # the float32 columns span other planes


def test_saved(tmp_path):
    found = principal_angles(np.eye(3)[:, :2], np.eye(3)[:, 1:])
    found.save(tmp_path / "angles.npz")
    back = Result.load(tmp_path / "angles.npz")
    assert isinstance(back, PrincipalAngles)
    np.testing.assert_array_equal(back.angles, found.angles)
    assert back.dims == (2, 2)


def test_dimensions_of_both():
    assert principal_angles(np.eye(4)[:, :3], np.eye(4)[:, :1]).dims == (3, 1)
    assert principal_angles(np.eye(4)[:, :1], np.eye(4)[:, :3]).dims == (1, 3)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 3), st.floats(-300, 300), st.integers(0, 2**32 - 1))
def test_frame(r, extra, power, seed):
    rng = np.random.default_rng(seed)
    d = r + extra
    columns = np.linalg.qr(rng.standard_normal((d, r)))[0] @ np.triu(rng.uniform(0.5, 2, (r, r)))
    columns *= 10.0 ** (power * rng.choice([-1, 1], r))
    frame = Frame(columns)
    assert (frame.ambient, frame.dim) == (d, r)
    np.testing.assert_allclose(frame.U.T @ frame.U, np.eye(r), atol=20 * d * EPS)
    unit = columns / np.abs(columns).max(axis=0)
    unit /= np.linalg.norm(unit, axis=0)
    triangle = frame.U.T @ unit
    # the same span: R is upper triangular of positive diagonal, and nothing is left outside
    np.testing.assert_allclose(frame.U @ triangle, unit, atol=20 * d * EPS)
    np.testing.assert_allclose(np.tril(triangle, -1), 0, atol=20 * d * EPS)
    assert (np.diag(triangle) > 0).all()
    again = Frame(frame)
    np.testing.assert_array_equal(again.U, frame.U)
    assert orthonormal("U", frame) is frame.U


def test_a_frame_is_an_array_that_stays():
    given = np.eye(3)[:, :2]
    frame = Frame(given)
    given[0, 0] = 5.0
    assert frame.U[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        frame.U[0, 0] = 2.0
    assert np.asarray(frame) is frame.U
    assert np.array(frame, dtype=np.float32).dtype == np.float32
    np.array(frame)[0, 0] = 2.0  # a copy
    assert principal_angles(frame, [[0.0], [0.0], [1.0]]).angles == pytest.approx(np.pi / 2)


def test_oracle_for_columns_of_any_length():
    found = principal_angles(Frame(np.eye(4)[:, :2]), Frame(np.array([[1, 0, 1, 0], [0, 1, 0, 2.0]]).T))
    np.testing.assert_allclose(found.angles, [math.pi / 4, math.atan(2)], rtol=4 * EPS)
    with pytest.raises(ValueError, match=r"V' V off the identity by 4; .*linalg\.Frame\(V\)"):
        principal_angles(np.eye(4)[:, :2], np.array([[1, 0, 1, 0], [0, 1, 0, 2.0]]).T)


def test_frame_saved(tmp_path):
    frame = Frame([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], tol=1e-6)
    frame.save(tmp_path / "frame.npz")
    back = Frame.load(tmp_path / "frame.npz")
    np.testing.assert_array_equal(back.U, frame.U)
    assert back.tol == 1e-6


@pytest.mark.parametrize(
    ("columns", "tol", "text"),
    [
        ([[1.0, 2.0], [1.0, 2.0]], 1e-8, "linearly independent columns"),
        ([[1.0, 0.0], [1.0, 0.0]], 1e-8, "linearly independent columns"),
        ([[1.0, 1.0], [0.0, 1e-3]], 0.01, "tol=0.01; drop columns"),
        (np.ones((1, 2)), 1e-8, "1..d columns"),
        ([[np.inf]], 1e-8, "finite"),
        (np.eye(2), 0.0, "tol must be"),
        (np.eye(2), 1.0, "tol must be below 1"),
    ],
)
def test_bad_frame(columns, tol, text):
    with pytest.raises(ValueError, match=text):
        Frame(columns, tol)


@pytest.mark.parametrize(
    ("u", "v", "text"),
    [
        (np.eye(3)[:, :1], np.eye(4)[:, :1], "same number of rows, got 3 and 4"),
        (np.eye(3)[:2], np.eye(3)[:, :1], "pass basis.T"),
        ([[1.0], [1.0]], [[1.0], [0.0]], "orthonormal columns"),
        ([[1e200, 1e200], [1e200, -1e200]], np.eye(2), "orthonormal columns"),  # U'U overflows to NaN
        ([[1.0], [np.nan]], [[1.0], [0.0]], "finite"),
        (np.zeros((3, 0)), np.eye(3), "1..d columns"),
        (np.zeros(3), np.eye(3), "2 axes"),
    ],
)
def test_bad_input(u, v, text):
    with pytest.raises(ValueError, match=text):
        principal_angles(u, v)
