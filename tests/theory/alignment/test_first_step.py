"""First-step laws: worked values, the flow and the networks they describe, simulation."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.alignment import (
    first_step,
    frozen_a_risk,
    haar_moments,
    head_gradient,
    head_start,
    linear_drop,
    predicted_accuracy,
    predicted_accuracy_gain,
    random_energy,
    residual_variance,
    token_energy,
)

SEED = st.integers(0, 2**32 - 1)


def test_worked_step():
    found = first_step([[1, 2, 0], [0, -1, 1]], [[0.6, 0.8, 0]], 2)
    np.testing.assert_allclose(found.grad_b, [[4.4], [-1.6]])
    assert found.sgd_drop == pytest.approx(21.92)
    assert found.adam_drop == pytest.approx(6)
    assert found.energy == pytest.approx(0.78285714, abs=5e-9)
    np.testing.assert_allclose(found.update, [[-5.28, -7.04, 0], [1.92, 2.56, 0]])


def test_worked_laws():
    assert predicted_accuracy(0.5, 4, 4, 16) == pytest.approx(0.71814857, abs=5e-9)
    assert predicted_accuracy(1 / 96, 9, 8, 32) == pytest.approx(0.51787504, abs=5e-9)
    assert predicted_accuracy(0.6, 9, 8, 32) == pytest.approx(0.85707474, abs=5e-9)
    gain = predicted_accuracy_gain(0.6, 9, 768, 8, 32)
    assert gain == pytest.approx(0.85707474 - 0.51787504, abs=1e-8)
    assert head_start(0.4, 0.01, 1, 2) == pytest.approx(0.92221986, abs=5e-9)
    assert frozen_a_risk(1.5, 20, 6) == pytest.approx(2.19230769, abs=5e-9)


def test_worked_head():
    x, y = [[1, 0], [3, 2], [-1, 1], [0, -2]], [0, 0, 0, 1]
    found = head_gradient(x, y)
    np.testing.assert_allclose(found, [[-0.1875, -0.5625], [0.1875, 0.5625]])
    assert np.sum(found**2) == pytest.approx(0.703125)
    assert first_step(found, [[1, 0]]).energy == pytest.approx(0.1)


@settings(deadline=None, max_examples=30)
@given(SEED, st.sampled_from(["share", "uniform"]))
def test_head_gradient_is_the_derivative(seed, head):
    rng = np.random.default_rng(seed)
    y = np.concatenate([[0, 1, 2], rng.integers(0, 3, 6)])
    x = rng.standard_normal((9, 4)) + 2
    bias = np.log(np.bincount(y) / 9) if head == "share" else np.zeros(3)

    def loss(w):
        z = x @ w.T + bias
        return np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(9), y])

    h = 1e-5
    numeric = np.zeros((3, 4))
    for place in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[place] = h
        numeric[place] = (loss(step) - loss(-step)) / (2 * h)
    # central differences: third derivative times h^2, and rounding over h
    np.testing.assert_allclose(head_gradient(x, y, head), numeric, atol=1e-8)


@settings(deadline=None, max_examples=30)
@given(SEED)
def test_step_on_a_loss(seed):
    """One small step on a quadratic loss loses what is said, and B starts from gradient s G A'."""
    rng = np.random.default_rng(seed)
    w, a = rng.standard_normal((3, 5)), rng.standard_normal((2, 5))
    target, s = rng.standard_normal((3, 5)), 1.7
    loss = lambda b: 0.5 * np.sum((w + s * b @ a - target) ** 2)
    found = first_step(w - target, a, s)
    for lr in (1e-4, 1e-5):
        drop = loss(np.zeros((3, 2))) - loss(-lr * found.grad_b)
        assert drop == pytest.approx(lr * found.sgd_drop, rel=200 * lr * s * s)
        drop = loss(np.zeros((3, 2))) - loss(-lr * np.sign(found.grad_b))
        # the curvature term is lr^2 s^2 |sign A|^2 / 2, at most lr s^2 (2 |a|_1)^2 m / 2 over the drop
        assert drop == pytest.approx(lr * found.adam_drop, abs=lr * lr * s * s * 6 * np.sum(a**2))
    np.testing.assert_allclose(found.update, -s * found.grad_b @ a)


@settings(deadline=None, max_examples=30)
@given(SEED)
def test_token_kernel_form(seed):
    rng = np.random.default_rng(seed)
    g, x, a = rng.standard_normal((6, 3)), rng.standard_normal((6, 5)), rng.standard_normal((2, 5))
    direct = np.sum((g.T @ x @ a.T) ** 2)
    assert token_energy(g, x, a) == pytest.approx(direct, rel=1e-10)


def test_sgd_turns_freely_and_adam_does_not():
    rng = np.random.default_rng(0)
    g, a = rng.standard_normal((4, 6)), rng.standard_normal((3, 6))
    q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    plain, turned = first_step(g, a), first_step(g, q @ a)
    assert turned.sgd_drop == pytest.approx(plain.sgd_drop)
    assert abs(turned.adam_drop - plain.adam_drop) > 1e-3 * plain.adam_drop
    assert math.isnan(first_step(np.zeros((2, 3)), np.eye(3)).energy)


def test_random_starts():
    rng = np.random.default_rng(1)
    d, r, v = 24, 3, np.eye(24)[0]
    haar = [np.sum(np.linalg.qr(rng.standard_normal((d, r)))[0][0] ** 2) for _ in range(4000)]
    mean, variance = haar_moments(d, r)
    assert np.mean(haar) == pytest.approx(mean, abs=4 * math.sqrt(variance / 4000))
    # the fourth moment of this Beta law makes the variance of the variance at most 4 variance^2 / n
    assert np.var(haar) == pytest.approx(variance, rel=5 * math.sqrt(6 / 4000))
    assert random_energy(d, r) == mean
    kaiming = np.sum((rng.uniform(-1, 1, (4000, r, d)) / math.sqrt(d) @ v) ** 2, axis=1)
    assert np.mean(kaiming) == pytest.approx(random_energy(d, r, "kaiming"), abs=4 * np.std(kaiming) / 63)
    assert haar_moments(5, 5) == (1, 0)


def test_drop_solves_the_flow():
    from scipy.integrate import solve_ivp

    s, g, share = 0.7, 1.3, 0.2
    flow = solve_ivp(
        lambda _, z: [-s * g * z[1], -s * g * z[0]], (0, 2), [math.sqrt(share), 0], rtol=1e-11, atol=1e-13
    )
    a, b = flow.y[:, -1]
    assert linear_drop(2, share, s, g) == pytest.approx(-s * g * a * b, rel=1e-8)
    assert linear_drop([0, 1e6], share, s, g).tolist() == [0, math.inf]
    # at a large common drop the better start is ahead by the time stated
    late = 12.0
    delay = head_start(0.4, 0.01, s, g)
    assert linear_drop(late, 0.4, s, g) == pytest.approx(linear_drop(late + delay, 0.01, s, g), rel=1e-9)
    assert head_start(0.01, 0.4, s, g) == -delay


def test_accuracy_limits():
    delta = np.array([0, 1e-8, 1e8])
    assert predicted_accuracy(0, delta, 4, 16).tolist() == [0.5, 0.5, 0.5]
    gains = predicted_accuracy_gain(0.5, delta, 100, 4, 16)
    np.testing.assert_allclose(gains, 0, atol=1e-8)
    assert predicted_accuracy_gain(0.04, 9, 100, 4, 16) == 0
    assert (np.diff(predicted_accuracy(np.linspace(0, 1, 9), 4, 4, 16)) > 0).all()


def test_accuracy_by_simulation():
    rng = np.random.default_rng(2)
    c, delta, r, n, runs = 0.5, 4.0, 4, 64, 3000
    # projected world: r coordinates, class means apart by sqrt(c delta) along the first
    shift = math.sqrt(c * delta) * np.eye(r)[0]
    noise = rng.standard_normal((runs, 2, r)) / math.sqrt(n / 2)
    low, high = noise[:, 0], noise[:, 1] + shift
    w, middle = high - low, (low + high) / 2
    from scipy.special import ndtr

    size = np.linalg.norm(w, axis=1)
    right = ndtr(np.sum(w * middle, 1) / size) / 2 + ndtr(np.sum(w * (shift - middle), 1) / size) / 2
    # first order in 1/n: off by .003 at n = 16
    assert predicted_accuracy(c, delta, r, n) == pytest.approx(right.mean(), abs=0.002)


def test_frozen_risk_by_simulation():
    rng = np.random.default_rng(3)
    d, r, n, noise = 8, 3, 14, 0.5
    root = rng.standard_normal((d, d)) / 3
    cov, a, beta = root @ root.T + np.eye(d), rng.standard_normal((r, d)), rng.standard_normal(d)
    x = rng.multivariate_normal(np.zeros(d), cov, (4000, n))
    y = x @ beta + math.sqrt(noise) * rng.standard_normal((4000, n))
    z = x @ a.T
    fit = np.linalg.solve(z.transpose(0, 2, 1) @ z, (z.transpose(0, 2, 1) @ y[..., None]))[..., 0]
    gap = fit @ a - beta
    risk = noise + np.einsum("id,de,ie->i", gap, cov, gap)
    expected = frozen_a_risk(residual_variance(beta, cov, a, noise), n, r)
    assert np.mean(risk) == pytest.approx(expected, abs=4 * np.std(risk) / math.sqrt(4000))
    # the residual variance is the least over all coefficients on A x
    best = np.linalg.solve(a @ cov @ a.T, a @ cov @ beta) @ a - beta
    assert residual_variance(beta, cov, a, noise) == pytest.approx(noise + best @ cov @ best)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: first_step(np.eye(2), np.eye(3)), "equally many columns"),
        (lambda: first_step(np.eye(2), np.eye(2), 0), "scaling must be finite and > 0"),
        (lambda: token_energy(np.eye(2), np.eye(3), np.eye(3)), "must fit"),
        (lambda: head_gradient(np.eye(2), [0, 1], "soft"), "head must be one of"),
        (lambda: head_gradient(np.eye(2), [0, 1, 1]), "3 labels for 2 rows"),
        (lambda: haar_moments(3, 4), "r must be in 1..3"),
        (lambda: random_energy(3, 4), "r must be in 1..3"),
        (lambda: random_energy(3, 1, "he"), "init must be one of"),
        (lambda: linear_drop(-1, 0.1, 1, 1), "time must be >= 0"),
        (lambda: head_start(0, 0.1, 1, 1), "captured_1 must be finite and > 0"),
        (lambda: predicted_accuracy(1.1, 1, 1, 8), "captured must be in [0, 1]"),
        (lambda: predicted_accuracy(0.5, -1, 1, 8), "delta must be >= 0"),
        (lambda: predicted_accuracy_gain(0.5, 1, 3, 4, 8), "r must be at most d"),
        (lambda: residual_variance([1, 1], np.eye(2), np.zeros((1, 2)), 1), "full row rank"),
        (lambda: residual_variance([1, 1], np.eye(3), np.eye(2), 1), "must fit"),
        (lambda: residual_variance([1, 1], [[1, 5], [0, 1]], np.eye(2), 1), "cov must be symmetric"),
        (lambda: predicted_accuracy([0.1, 0.2], [1, 2, 3], 4, 16), "broadcast, got shapes (2,), (3,), ()"),
        (lambda: predicted_accuracy_gain(0.1, 1, [8, 9], [1, 2, 3], 16), "r, d must broadcast"),
        (lambda: frozen_a_risk(1, 4, 3), "n must be >= 5"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        call()
