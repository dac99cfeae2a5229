"""Joint refinement: one step at a time against closed forms, Gaussian conditioning, and limits."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pandora import signal_slopes
from porism.theory.pandora.innovation import Innovation


def law(K, seed=0, rank=None):
    """Innovations q - m and values V - m of one Gaussian world: joint covariance by a random factor."""
    rng = np.random.default_rng([seed, K])
    F = rng.normal(size=(2 * K, rank or 3 * K)) / np.sqrt(K)
    C = F @ F.T
    return C[:K, :K], C[K:, :K]


def mask_of(S):
    return sum(1 << i for i in S)


@pytest.mark.parametrize("K", [1, 2, 4])
def test_slopes_are_those_of_the_formula(K):
    A, B = law(K)
    found = Innovation(A, B)
    for size in range(K + 1):
        for S in itertools.combinations(range(K), size):
            S = list(S)
            slopes = found.slopes(mask_of(S))
            for i in range(K):
                if i in S:
                    assert (slopes[i] == 0).all()
                    continue
                weight = np.linalg.solve(A[np.ix_(S, S)], A[S, i])
                expected = (B[:, i] - B[:, S] @ weight) / np.sqrt(A[i, i] - A[i, S] @ weight)
                assert slopes[i] == pytest.approx(expected, abs=1e-12)


def test_the_order_in_which_sets_grow_does_not_matter():
    A, B = law(6)
    expected = Innovation(A, B).slopes(0b111010)
    found = Innovation(A, B)
    for i in (5, 1, 4, 3):  # asks for 0b100000, 0b100010, ...
        mask = sum(1 << j for j in (5, 1, 4, 3)[: (5, 1, 4, 3).index(i) + 1])
        found.slopes(mask)
    assert found.slopes(0b111010) == pytest.approx(expected, abs=1e-13)
    assert Innovation(A, B).residual(0b111010)[0] == pytest.approx(found.residual(0b111010)[0], abs=1e-13)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_steps_end_at_the_closed_form(order):
    A, B = law(4)
    joint, rng = Innovation(A, B), np.random.default_rng(1)
    m, q = rng.normal(size=(7, 4)), rng.normal(size=(7, 4))
    mean, expected, mask = m.copy(), np.zeros_like(m), 0
    known = np.full_like(m, np.nan)
    for i in order:
        joint.update(mean, expected, q[:, i] - m[:, i], i, mask)
        mask |= 1 << i
        known[:, i] = q[:, i]
        assert mean == pytest.approx(joint.means(m, known), abs=1e-11)
        S = np.flatnonzero(~np.isnan(known[0]))
        fresh = m + (q - m)[:, S] @ np.linalg.inv(A[np.ix_(S, S)]) @ B[:, S].T
        assert mean == pytest.approx(fresh, abs=1e-11)
    assert expected == pytest.approx(q - m, abs=1e-11)


def test_closed_form_takes_another_set_for_each_query():
    A, B = law(3)
    m = np.zeros((4, 3))
    q = np.array([[1.0, np.nan, 2.0], [np.nan] * 3, [1.0, 1.0, 1.0], [np.nan, -1.0, np.nan]])
    found = Innovation(A, B).means(m, q)
    assert (found[1] == 0).all()
    assert found[3] == pytest.approx(-B[:, 1] / A[1, 1])
    assert found[2] == pytest.approx(B @ np.linalg.solve(A, np.ones(3)))
    assert found[0] == pytest.approx(B[:, [0, 2]] @ np.linalg.solve(A[np.ix_([0, 2], [0, 2])], [1.0, 2.0]))


def test_signals_with_noise_have_the_slopes_of_the_theory():
    """V ~ N(m, Sigma), q_i = E[V_i | Y_i]: the innovation form is PB-15's without its noise levels."""
    Sigma = np.array([[0.5, 0.3, 0.1], [0.3, 0.6, 0.2], [0.1, 0.2, 0.4]])
    tau2 = np.array([0.2, 0.1, 0.3])
    gain = Sigma.diagonal() / (Sigma.diagonal() + tau2)
    A = gain[:, None] * (Sigma + np.diag(tau2)) * gain
    B = Sigma * gain
    found = Innovation(A, B).slopes()
    assert found == pytest.approx(Sigma / np.sqrt(Sigma.diagonal() + tau2)[:, None], rel=1e-12)
    assert found == pytest.approx(signal_slopes(Sigma, np.sqrt(tau2)), rel=1e-12)


def test_independent_specialists():
    nu2 = np.array([0.3, 0.2, 0.0])
    found = Innovation(np.diag(nu2), np.diag(nu2))
    assert found.slopes() == pytest.approx(np.diag(np.sqrt(nu2)), rel=1e-15)
    assert found.slopes(0b001) == pytest.approx(np.diag(np.sqrt([0, 0.2, 0])), rel=1e-15)
    q = np.array([[0.4, np.nan, 5.0]])
    assert found.means(np.full((1, 3), 0.1), q) == pytest.approx(np.array([[0.4, 0.1, 0.1]]), abs=1e-15)


def test_scales_do_not_matter():
    A, B = law(3)
    d = np.array([1.0, 1e-6, 1e6])
    scaled = Innovation(A * d * d[:, None], B * d * d[:, None])
    assert scaled.slopes(0b010) / d == pytest.approx(Innovation(A, B).slopes(0b010), rel=1e-9)


def test_redundant_innovations_stay_finite():
    A = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])  # 0 and 1 say the same
    found = Innovation(A, A)
    assert np.linalg.eigvalsh(found.A)[0] > 0
    assert np.abs(found.A - A).max() < 1e-7
    slopes = found.slopes(0b001)
    assert np.isfinite(slopes).all()
    assert np.abs(slopes[1]).max() < 1e-3  # sd of what is left: sqrt of the floor
    mean, expected = np.zeros((1, 3)), np.zeros((1, 3))
    for i, mask in ((0, 0), (1, 1), (2, 3)):
        found.update(mean, expected, [0.7], i, mask)
    assert mean[0] == pytest.approx([0.7, 0.7, 0.7], abs=1e-6)


def test_many_sets_are_forgotten_not_kept(monkeypatch):
    from porism.theory.pandora import innovation

    A, B = law(8)
    monkeypatch.setattr(innovation, "CACHE", 20 * 16 * 64)
    few = Innovation(A, B)
    many = Innovation(A, B)
    for mask in np.random.default_rng(0).integers(0, 256, 200):
        assert few.slopes(int(mask)) == pytest.approx(many.slopes(int(mask)), abs=1e-11)
        assert len(few._states) <= 20 + 1 + 8


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(0, 50), st.data())
def test_any_set(K, seed, data):
    A, B = law(K, seed, rank=data.draw(st.integers(1, 3 * K)))
    mask = data.draw(st.integers(0, (1 << K) - 1))
    joint = Innovation(A, B)
    left, cross = joint.residual(mask)
    S = [i for i in range(K) if mask >> i & 1]
    assert (left[S] == 0).all()
    assert (cross[:, S] == 0).all()
    assert (left.diagonal() >= 0).all()
    assert left == pytest.approx(left.T, abs=1e-12)
    assert np.isfinite(joint.slopes(mask)).all()
    assert (left.diagonal() <= joint.A.diagonal() + 1e-15).all()


@pytest.mark.parametrize(
    ("A", "B", "words"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], np.eye(2), r"covariance not positive semidefinite \(min eigenvalue -1\)"),
        ([[1.0, 0.1], [0.2, 1.0]], np.eye(2), "covariance not symmetric"),
        (np.eye(2), np.eye(3), r"A of shape \(2, 2\) and B of shape \(3, 3\)"),
        (np.ones((2, 3)), np.ones((2, 3)), r"A of shape \(2, 3\)"),
        (np.eye(2) * np.nan, np.eye(2), "A must be finite"),
        ([[-1.0]], [[1.0]], "min eigenvalue -1"),
    ],
)
def test_bad_laws(A, B, words):
    with pytest.raises(ValueError, match=words):
        Innovation(A, B)


def test_bad_sets():
    joint = Innovation(np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=r"refined must be in 0\.\.3"):
        joint.slopes(4)
    with pytest.raises(ValueError, match=r"must both be \(n, 2\)"):
        joint.means(np.zeros((1, 3)), np.zeros((1, 3)))
