"""Speed limit on runs of every kind, and the minimum with a ridge against a proximal iteration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.spectral_flow import ideal_arrival_time, soft_threshold_target, speed_limit

SEEDS = st.integers(0, 2**32 - 1)


def singular_values(B, A):
    s = np.linalg.svd(B @ A, compute_uv=False)
    return np.pad(s, (0, max(0, A.shape[0] - len(s))))[: A.shape[0]]


@settings(deadline=None)
@given(SEEDS, st.tuples(*[st.integers(1, 5)] * 3), st.floats(-3, 0.5), st.sampled_from([0, 0.01, 1]))
def test_no_descent_breaks_the_limit(plain, seed, shape, scale, smoothing):
    m, n, r = shape
    rng = np.random.default_rng(seed)
    Y, B, A = rng.normal(size=(m, n)) * 3, rng.normal(size=(m, r)) * 10**scale, rng.normal(size=(r, n))
    start, lr, ridge = (A, B), 0.1, float(rng.choice([0, 0.5]))
    bounds = speed_limit(lr * np.arange(12), *start)
    assert bounds.shape == (12, r)
    assert (np.diff(bounds, axis=1) <= 0).all()
    for bound in bounds:
        assert (singular_values(B, A) <= bound * (1 + 1e-9) + 1e-12).all()
        steps = plain.gradients(Y, B, A, ridge)
        B, A = (X - lr * plain.polar(G, smoothing) for X, G in zip((B, A), steps, strict=True))


@settings(deadline=None)
@given(SEEDS, st.tuples(*[st.integers(1, 5)] * 3), st.floats(0, 2), st.floats(0.5, 2))
def test_no_step_at_all_breaks_the_limit(seed, shape, t, gain):
    """Any two steps of norm gain * t, not only those along gradients."""
    m, n, r = shape
    rng = np.random.default_rng(seed)
    B, A, E, F = (rng.normal(size=size) for size in ((m, r), (r, n), (m, r), (r, n)))
    E, F = (gain * t * X / np.linalg.norm(X, 2) for X in (E, F))
    bound = speed_limit(t, A, B, gain)
    assert (singular_values(B + E, A + F) <= bound * (1 + 1e-9) + 1e-12).all()


def test_limit_of_one_mode_is_the_ideal_flow():
    t = ideal_arrival_time([1.0, 2.0, 3.0], 0.3, 0.7)
    np.testing.assert_allclose(speed_limit(t, [[0.3]], [[0.7]])[:, 0], [1, 2, 3], rtol=1e-12)
    assert speed_limit(t, [[0.3]], [[0.7]], gain=2)[0, 0] > 1


def test_limit_on_known_matrices():
    A, B = np.diag([2.0, 1.0]), np.diag([0.5, 0.1])
    # (0.5 + 1)(s_i(A) + 1) and (s_i(B) + 1)(2 + 1)
    np.testing.assert_allclose(speed_limit(1.0, A, B), [min(4.5, 4.5), min(3.0, 3.3)])
    assert speed_limit(np.zeros((2, 3)), A, B).shape == (2, 3, 2)
    # no more singular values than the smallest side has
    assert speed_limit(1.0, np.ones((3, 4)), np.ones((2, 3)))[2] == 0
    assert speed_limit(1.0, np.ones((0, 4)), np.ones((2, 0))).shape == (0,)


def test_a_wrong_orthogonaliser_is_caught(plain):
    rng = np.random.default_rng(0)
    Y, B, A = rng.normal(size=(6, 6)) * 20, np.zeros((6, 3)), rng.normal(size=(3, 6)) * 1e-3
    bounds = speed_limit(0.1 * np.arange(10), A, B)
    seen = []
    for bound in bounds:
        seen.append((singular_values(B, A) <= bound * (1 + 1e-9)).all())
        B, A = (X - 0.12 * plain.polar(G) for X, G in zip((B, A), plain.gradients(Y, B, A), strict=True))
    assert not all(seen)


def test_known_soft_threshold():
    Y = [[3, 1, 0], [1, 2, 1], [0, 1, 1]]
    W = soft_threshold_target(Y, 0.7)
    known = [
        [2.31929461, 0.94728614, 0.07200847],
        [0.94728614, 1.44401694, 0.80326921],
        [0.07200847, 0.80326921, 0.56873926],
    ]
    np.testing.assert_allclose(W, known, atol=6e-9)
    s = np.linalg.svd(W, compute_uv=False)
    assert ((W - Y) ** 2).sum() / 2 + 0.7 * s.sum() == pytest.approx(3.55833395016, abs=5e-12)
    assert (s > 1e-12).sum() == 2


@given(SEEDS, st.integers(1, 5), st.integers(1, 5), st.floats(0, 3), st.integers(0, 5))
def test_soft_threshold_cannot_be_improved(seed, m, n, ridge, rank):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(m, n))
    W = soft_threshold_target(Y, ridge, rank)

    def objective(X):
        return ((X - Y) ** 2).sum() / 2 + ridge * np.linalg.svd(X, compute_uv=False).sum()

    assert np.linalg.matrix_rank(W, tol=1e-10) <= rank
    inner = max(rank, 1)
    for scale in (1e-3, 0.1, 1):
        U, s, Vt = np.linalg.svd(W + scale * rng.normal(size=(m, n)), full_matrices=False)
        other = (U[:, :rank] * s[:rank]) @ Vt[:rank]
        assert objective(other) >= objective(W) - 1e-12
        # and over factors, where the ridge is that of the factors
        B, A = scale * rng.normal(size=(m, inner)), scale * rng.normal(size=(inner, n))
        if rank:
            value = ((B @ A - Y) ** 2).sum() / 2 + ridge * ((A**2).sum() + (B**2).sum()) / 2
            assert value >= objective(W) - 1e-12


def test_soft_threshold_corners():
    Y = np.diag([5.0, 4.0, 3.0, 2.0, 1.0])
    s = np.linalg.svd(soft_threshold_target(Y, 1.5), compute_uv=False)
    np.testing.assert_allclose(s, [3.5, 2.5, 1.5, 0.5, 0], atol=1e-14)
    np.testing.assert_allclose(soft_threshold_target(Y, 0, 2), np.diag([5, 4, 0, 0, 0]), atol=1e-14)
    assert soft_threshold_target(np.zeros((0, 3)), 1).shape == (0, 3)


@pytest.mark.full
def test_tensors(needs):
    torch = needs("torch")
    Y = torch.tensor([[3.0, 1.0], [1.0, 2.0]], requires_grad=True)
    np.testing.assert_allclose(soft_threshold_target(Y, 0.5), soft_threshold_target(Y.detach().numpy(), 0.5))
    A, B = torch.eye(2, dtype=torch.bfloat16), torch.zeros(3, 2)
    np.testing.assert_allclose(speed_limit(1.0, A, B), [2, 2])


def test_bad_input():
    with pytest.raises(ValueError, match=r"A0 must be \(r, n\) and B0 \(m, r\), got shapes \(3, 2\)"):
        speed_limit(1, np.ones((3, 2)), np.ones((2, 4)))
    with pytest.raises(ValueError, match="t must be a finite number >= 0"):
        speed_limit(-1, np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match="gain must be finite and > 0"):
        speed_limit(1, np.eye(2), np.eye(2), gain=0)
    with pytest.raises(ValueError, match="Y must have 2 axes"):
        soft_threshold_target([1, 2], 0.1)
    with pytest.raises(ValueError, match="ridge must be a finite number >= 0"):
        soft_threshold_target(np.eye(2), -1)
    with pytest.raises(ValueError, match="rank must be"):
        soft_threshold_target(np.eye(2), 1, -1)
    with pytest.raises(ValueError, match="Y must be finite"):
        soft_threshold_target([[np.nan]], 1)
