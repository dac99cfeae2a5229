"""Sine theorems: worked cases, the tight case, and no violation anywhere."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.theory.alignment import davis_kahan_bound, wedin_bound

SEED = st.integers(0, 2**32 - 1)


def test_worked_case():
    hat = np.diag([4.0, 1, 1])
    hat[0, 1] = hat[1, 0] = 0.5
    found = davis_kahan_bound(np.diag([4, 1, 1]), hat, 1)
    assert found.sin_op == pytest.approx(0.16018224, abs=5e-9)
    assert found.sin_f == pytest.approx(found.sin_op, rel=1e-14)
    assert (found.err_op, found.err_f) == pytest.approx((0.5, math.sqrt(0.5)))
    assert found.davis_kahan == pytest.approx(1 / 6)
    assert found.yu_wang_samworth == pytest.approx(1 / 3)


def test_rotation_of_the_plane():
    """A turn by t: the error is gap times sin t, and the sample gap is the gap itself."""
    for t in (1e-6, 0.1, 0.7):
        turn = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
        found = davis_kahan_bound(np.diag([3, 1]), turn @ np.diag([3, 1]) @ turn.T, 1)
        assert found.sin_op == pytest.approx(math.sin(t), rel=1e-9)
        assert found.davis_kahan == pytest.approx(math.sin(t), rel=1e-9)  # the theorem is tight here
        assert found.yu_wang_samworth == pytest.approx(2 * math.sin(t), rel=1e-9)


@settings(deadline=None)
@given(st.integers(2, 8), SEED, st.floats(-4, 1), st.booleans())
def test_never_violated(d, seed, log_noise, spiked):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, d))
    a = rng.standard_normal((d, d))
    cov = a @ a.T if not spiked else np.eye(d) + 4 * np.outer(a[0], a[0])
    e = rng.standard_normal((d, d)) * 10**log_noise
    hat = cov + (e + e.T) / 2
    found = davis_kahan_bound(cov, hat, r)
    # eigenvectors carry an error of eps |cov| over the gap, against a bound of error over gap
    slack = 1 + 100 * np.finfo(float).eps * np.linalg.norm(hat) / found.err_op
    assert found.sin_op <= found.davis_kahan * slack
    assert found.sin_f <= found.yu_wang_samworth * slack
    assert found.sin_op <= found.sin_f * (1 + 1e-12) <= found.sin_op * math.sqrt(r) * (1 + 1e-11)


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(2, 8), SEED, st.floats(-4, 1))
def test_wedin_never_violated(p, q, seed, log_noise):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, min(p, q) + 1))
    m = rng.standard_normal((p, r)) @ rng.standard_normal((r, q))
    if np.linalg.matrix_rank(m, rtol=1e-9) < r:
        return
    noise = rng.standard_normal((p, q)) * 10**log_noise
    found = wedin_bound(m, m + noise, r)
    s = np.linalg.svd(m)[1]
    # singular vectors of m err by eps s_1 / s_r, the numerator by eps times the entries
    slack = 1e-13 * s[0] / s[r - 1]
    assert found.joint <= found.bound * (1 + 1e-12) + slack
    assert found.joint == pytest.approx(math.hypot(found.sin_u, found.sin_v))


def test_wedin_formula():
    """Both sides against a computation with projectors."""
    rng = np.random.default_rng(0)
    m = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4))
    x = m + 0.1 * rng.standard_normal((5, 4))
    u, _, v = np.linalg.svd(m)
    u_hat, s_hat, v_hat = np.linalg.svd(x)
    found = wedin_bound(m, x, 2)
    # |P - Q|_F^2 is twice the sum of squared sines
    gaps = [a[:, :2] @ a[:, :2].T - b[:, :2] @ b[:, :2].T for a, b in ((u, u_hat), (v.T, v_hat.T))]
    assert [found.sin_u, found.sin_v] == pytest.approx([np.linalg.norm(g) / math.sqrt(2) for g in gaps])
    n = x - m
    top = np.linalg.norm(n @ v_hat[:2].T) ** 2 + np.linalg.norm(n.T @ u_hat[:, :2]) ** 2
    assert found.bound == pytest.approx(math.sqrt(top) / s_hat[1])


def test_no_gap_and_whole_space():
    found = davis_kahan_bound(np.diag([2, 1, 1]), np.diag([1, 3, 3]), 1)
    assert found.davis_kahan == math.inf
    assert davis_kahan_bound(np.eye(3), np.diag([3, 2, 1]), 1).yu_wang_samworth == math.inf
    whole = davis_kahan_bound(np.eye(3), np.diag([3, 2, 1]), 3)
    assert (whole.sin_op, whole.sin_f, whole.davis_kahan, whole.yu_wang_samworth) == (0, 0, 0, 0)
    assert whole.err_op == 2
    assert wedin_bound(np.diag([1, 0]), np.zeros((2, 2)), 1).bound == math.inf


@pytest.mark.parametrize("scale", [1e-170, 1e160])
def test_bounds_do_not_depend_on_the_scale(scale):
    """Squares of the entries would vanish, and with them a bound, or overflow."""
    cov, hat = np.diag([4.0, 1, 1]), np.diag([4.0, 1, 1]) + 0.1
    found, same = davis_kahan_bound(cov * scale, hat * scale, 1), davis_kahan_bound(cov, hat, 1)
    assert found.yu_wang_samworth == pytest.approx(same.yu_wang_samworth, rel=1e-12)
    assert found.davis_kahan == pytest.approx(same.davis_kahan, rel=1e-12)
    assert found.err_f == pytest.approx(same.err_f * scale, rel=1e-12)
    m = np.diag([2.0, 0])
    found, same = (wedin_bound(m * s, (m + 0.1) * s, 1) for s in (scale, 1.0))
    assert found.bound == pytest.approx(same.bound, rel=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="symmetric"):
        davis_kahan_bound([[1, 2], [0, 1]], np.eye(2), 1)
    with pytest.raises(ValueError, match="square"):
        davis_kahan_bound(np.ones((2, 3)), np.ones((2, 3)), 1)
    with pytest.raises(ValueError, match="one shape"):
        davis_kahan_bound(np.eye(2), np.eye(3), 1)
    with pytest.raises(ValueError, match=r"r must be in 1\.\.2"):
        davis_kahan_bound(np.eye(2), np.eye(2), 3)
    with pytest.raises(ValueError, match="finite"):
        davis_kahan_bound([[np.nan, 0], [0, 1]], np.eye(2), 1)
    with pytest.raises(AssumptionError, match="rank r=1, got rank 2"):
        wedin_bound(np.eye(2), np.eye(2), 1)
    with pytest.raises(AssumptionError, match="rank r=2, got rank 1"):
        wedin_bound(np.diag([1, 0]), np.eye(2), 2)
    with pytest.raises(ValueError, match="one shape"):
        wedin_bound(np.eye(2), np.eye(3), 1)
