"""Decay rates against dense Hessians, known cases, and slopes of the integrated loss."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError, NumericalWarning
from porism.theory.spectral_flow import _hessian, local_decay_rate

SEEDS = st.integers(0, 2**32 - 1)


def minimum(rng, m, n, sigma, r, ridge=0.0, spread=0.0):
    """Target, and a minimum with factors that are balanced up to `spread`, in random bases."""
    U, V = (np.linalg.qr(rng.normal(size=(k, k)))[0] for k in (m, n))
    k = len(sigma)
    Y = (U[:, :k] * sigma) @ V[:, :k].T
    s = np.zeros(r)
    s[: min(k, r)] = np.maximum(np.array(sigma[:r]) - ridge, 0)
    Q = np.linalg.qr(rng.normal(size=(r, r)))[0]
    M = Q @ np.diag(np.exp(spread * rng.normal(size=r))) @ np.linalg.qr(rng.normal(size=(r, r)))[0]
    left, right = U[:, :r] * np.sqrt(s[: U.shape[1]]), np.sqrt(s[: V.shape[1], None]) * V[:, :r].T
    return Y, left @ M, np.linalg.inv(M) @ right


def smallest(plain, Y, B, A, ridge, zero):
    values = np.linalg.eigvalsh(plain.hessian(Y, B, A, ridge))
    assert values[0] > -zero
    return values[values > zero][0]


@settings(deadline=None, max_examples=60)
@given(
    SEEDS,
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.3, 1.7]),
    st.floats(0, 1),
)
def test_against_the_dense_hessian(plain, seed, r, more, wider, ridge, spread):
    rng = np.random.default_rng(seed)
    rank = r + more
    sigma = np.sort(rng.permutation(rank) + rng.uniform(0.6, 1.3, rank))[::-1]  # 0.3 apart at least
    if np.abs(np.diff(sigma)).min(initial=1) < 0.1 or np.abs(sigma - ridge).min() < 0.05:
        return
    Y, B, A = minimum(rng, rank + wider, rank + 2, sigma, r, ridge, 0 if ridge else spread)
    expected = smallest(plain, Y, B, A, ridge, 1e-7)
    # eigenvalues of order ten in both, each with an error of some ten eps
    assert local_decay_rate(Y, B, A, 0.1, ridge) == pytest.approx(20 * expected, rel=1e-9)
    if not ridge and not spread and more:
        assert expected == pytest.approx(min(sigma[r - 1] - sigma[r], 2 * sigma[r - 1]))


@pytest.mark.parametrize(
    ("sigma", "r", "ridge", "mu"),
    [
        ([5, 4, 3, 2, 1], 3, 0, 1),  # the gap
        ([5, 3, 2], 3, 0, 2),  # r = rank Y: the last one
        ([5, 4, 3, 2, 1], 3, 0.5, 1),  # 2 ridge and the gap
        ([3, 2, 1], 3, 0.2, 0.4),  # 2 ridge
        ([3, 2, 1], 3, 1.2, 0.2),  # ridge - sigma_3, switched off
        ([3, 3, 1], 2, 0, 2),  # equal values within the top r do no harm
    ],
)
def test_known_balanced_rates(sigma, r, ridge, mu):
    Y, B, A = minimum(np.random.default_rng(0), 6, 7, sigma, r, ridge)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert local_decay_rate(Y, B, A, 0.25, ridge) == pytest.approx(8 * mu, rel=1e-9)


@pytest.mark.parametrize(("m", "n", "r"), [(3, 3, 2), (6, 2, 2), (2, 6, 2), (2, 2, 2), (1, 1, 1), (4, 5, 4)])
@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_every_shape(plain, m, n, r, ridge):
    sigma = [3.0, 2.0][: min(m, n)]
    Y, B, A = minimum(np.random.default_rng(1), m, n, sigma, r, ridge)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # (4, 5, 4) has two spare modes
        found = local_decay_rate(Y, B, A, 1.0, ridge)
    assert found == pytest.approx(2 * smallest(plain, Y, B, A, ridge, 1e-7), rel=1e-9)


@pytest.mark.parametrize(("ridge", "mu"), [(0.0, 2.0), (0.5, 1.0)])
def test_loss_decays_at_that_rate(plain, ridge, mu):
    rng = np.random.default_rng(2)
    beta, sigma = 0.5, np.array([6.0, 4.0, 2.0])
    # r = rank Y; nearly balanced, which the flow with no ridge keeps
    Y, B, A = minimum(rng, 4, 5, sigma, 3, ridge)
    rate = local_decay_rate(Y, B, A, beta, ridge)
    assert rate == pytest.approx(2 * mu / beta, rel=1e-9)
    best = plain.loss(Y, B, A, ridge)
    B, A = (X + 1e-3 * rng.normal(size=X.shape) for X in (B, A))
    # the next eigenvalue is 3 or 2 mu at least: by then it is 1e-2 of the loss, and the loss 1e-9
    times = np.linspace(0, 3 / rate * 2, 40)
    excess = [plain.loss(Y, *factors, ridge) - best for factors in plain.flow(Y, B, A, beta, times, ridge)]
    slope = np.polyfit(times[-12:], np.log(excess[-12:]), 1)[0]
    assert -slope == pytest.approx(rate, rel=0.05)


def test_end_of_a_run(plain):
    """From a random start, with the factors the flow itself ends at."""
    rng = np.random.default_rng(3)
    Y = np.diag([5.0, 3.0, 2.0])
    B, A = 0.3 * rng.normal(size=(3, 2)), 0.3 * rng.normal(size=(2, 3))
    beta, times = 0.5, np.linspace(0, 14, 141)
    run = plain.flow(Y, B, A, beta, times)
    excess = np.array([plain.loss(Y, *factors) for factors in run]) - 2.0
    rate = local_decay_rate(Y, *run[-1], beta)
    assert rate == pytest.approx(
        2 / beta * smallest(plain, Y, *run[-1], 0.0, 1e-4), rel=1e-4
    )  # the end is 1e-5 or so from the minimum
    tail = (excess < 1e-5) & (excess > 1e-10)
    assert tail.sum() > 5
    assert -np.polyfit(times[tail], np.log(excess[tail]), 1)[0] == pytest.approx(rate, rel=0.03)


def test_zero_gap():
    Y, B, A = minimum(np.random.default_rng(4), 4, 4, [2, 2, 1], 1)
    with pytest.warns(NumericalWarning, match="zero gap"):
        found = local_decay_rate(Y, B, A, 1.0)
    assert found == pytest.approx(2)  # sigma_1 - sigma_3 = 1
    Y, B, A = minimum(np.random.default_rng(4), 4, 4, [2, 2, 1], 1, ridge=0.5)
    with pytest.warns(NumericalWarning, match="zero gap"):
        assert local_decay_rate(Y, B, A, 1.0, 0.5) == pytest.approx(2)  # the same, and 2 ridge


def test_spare_modes():
    Y = np.diag([3.0, 2.0, 0.0, 0.0])
    B, A = np.diag([3.0, 2.0, 0.0, 0.0])[:, :3] ** 0.5, np.diag([3.0, 2.0, 0.0, 0.0])[:3] ** 0.5
    with pytest.warns(NumericalWarning, match="flat direction"):
        assert local_decay_rate(Y, B, A, 1.0) == pytest.approx(4)
    # unbalanced, a = 0.7 and b = 0: its own eigenvalue a^2 - b^2, and no slow direction
    A = A + 0.7 * np.outer([0, 0, 1], [0, 0, 1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert local_decay_rate(Y, B, A, 1.0) == pytest.approx(2 * 0.49)
    # a mode exactly as strong as the ridge; the modes of Y at zero are pulled back by the ridge itself
    Y, B, A = minimum(np.random.default_rng(5), 4, 4, [3, 1], 2, ridge=1)
    with pytest.warns(NumericalWarning, match="flat direction"):
        assert local_decay_rate(Y, B, A, 1.0, 1.0) == pytest.approx(2)


def test_nothing_there():
    Z = np.zeros((2, 2))
    with pytest.warns(NumericalWarning, match="flat direction"):
        assert local_decay_rate(Z, Z, Z, 1.0) == 0
    assert local_decay_rate(Z, np.zeros((2, 0)), np.zeros((0, 2)), 1.0) == 0
    assert local_decay_rate(Z, Z, Z, 1.0, ridge=0.5) == pytest.approx(1)


def test_scale():
    Y, B, A = minimum(np.random.default_rng(6), 4, 5, [3, 2, 1], 2, spread=0.5)
    rate = local_decay_rate(Y, B, A, 1.0)
    for q in (1e-150, 1e-6, 1e6, 1e150):
        assert local_decay_rate(q * q * Y, q * B, q * A, 1.0) == pytest.approx(q * q * rate, rel=1e-9)
    with pytest.raises(AssumptionError, match=r"eigenvalue -3e\+200; this is a saddle"):
        local_decay_rate(np.diag([3e200, 1e200]), np.zeros((2, 1)), np.zeros((1, 2)), 1.0)


def test_no_large_hessian_is_formed():
    """Order r (m + n) = 9 600: the dense Hessian would take 0.7 GB and a minute."""
    rng = np.random.default_rng(7)
    sigma = np.linspace(20, 1, 40)
    Y, B, A = minimum(rng, 150, 150, sigma, 32)
    assert local_decay_rate(Y, B, A, 1.0) == pytest.approx(2 * (sigma[31] - sigma[32]), rel=1e-9)


def test_not_a_minimum():
    Y, B, A = minimum(np.random.default_rng(8), 4, 4, [3, 2, 1], 1)
    with pytest.raises(AssumptionError, match="close to a minimum, got a relative gradient"):
        local_decay_rate(Y, 1.1 * B, A, 1.0)
    U, s, Vt = np.linalg.svd(Y)
    saddle = U[:, 1:2] * s[1] ** 0.5, s[1] ** 0.5 * Vt[1:2]
    with pytest.raises(AssumptionError, match=r"must be a minimum, got a Hessian with eigenvalue -1"):
        local_decay_rate(Y, *saddle, 1.0)
    with pytest.raises(AssumptionError, match="must be a minimum"):
        local_decay_rate(Y, 0 * B, 0 * A, 1.0)


def test_bad_input():
    Y, B, A = minimum(np.random.default_rng(9), 3, 4, [3, 2, 1], 2)
    with pytest.raises(
        ValueError, match=r"must have shapes \(m, n\), \(m, r\), \(r, n\), got \(3, 4\), \(2, 4\)"
    ):
        local_decay_rate(Y, A, B, 1.0)
    with pytest.raises(ValueError, match="smoothing must be a finite number > 0"):
        local_decay_rate(Y, B, A, 0.0)
    with pytest.raises(ValueError, match="ridge must be a finite number >= 0"):
        local_decay_rate(Y, B, A, 1.0, -1.0)


def test_multiplicity_of_the_gauge(plain):
    """What the block form leaves out at zero is the tangent space of (B K, K^-1 A), no more."""
    Y, B, A = minimum(np.random.default_rng(10), 5, 4, [4, 3, 2, 1], 2, spread=0.3)
    values = np.linalg.eigvalsh(plain.hessian(Y, B, A, 0.0))
    assert (np.abs(values) < 1e-9).sum() == 4  # r^2
    assert _hessian.spectrum(Y, B, A, 0.0).smallest == pytest.approx(values[4])
    Y, B, A = minimum(np.random.default_rng(11), 5, 4, [4, 3, 2, 1], 2, ridge=0.5)
    values = np.linalg.eigvalsh(plain.hessian(Y, B, A, 0.5))
    assert (np.abs(values) < 1e-9).sum() == 1  # rotations of the two modes
