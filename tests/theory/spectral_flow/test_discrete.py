"""Steps of arrival against the plain recursion, and the cycle that is left."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.theory.spectral_flow import discrete_arrival_step, discrete_floor, ideal_arrival_time

# multiples of 1/64: every sum and product of the recursion is exact, so ties are decided alike
GRID = st.integers(-128, 128).map(lambda k: k / 64)
STEPS = st.sampled_from([1 / 64, 3 / 64, 5 / 64, 1 / 8, 0.5, 3.0])


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 256), STEPS, GRID, GRID, st.sampled_from([0, 0.25, 0.5, 1]))
def test_against_the_recursion(plain, sigma, lr, a, b, share):
    sigma /= 64
    expected = plain.arrival_step(sigma, lr, a, b, share * sigma, 2000)
    assert discrete_arrival_step(sigma, lr, a, b, level=share * sigma) == expected


def test_known_run():
    assert discrete_arrival_step(2.0, 0.1, 0.05, 0.05) == 14
    assert discrete_arrival_step(2.0, 0.1, 0.05, 0.05, level=1.98) == 14
    a = b = 0.05
    s = [a * b]
    for _ in range(20):
        step = 0.1 * np.sign(2 - a * b)
        a, b = a + step, b + step
        s.append(a * b)
    assert s[14:18] == pytest.approx([2.1025, 1.8225, 2.1025, 1.8225])
    assert max(abs(x - 2) for x in s[14:]) <= discrete_floor(2.0, 0.1)


@settings(deadline=None)
@given(st.floats(0.01, 9), st.floats(1e-4, 0.3), st.floats(0, 1))
def test_lora_start(sigma, lr, share):
    a0 = lr * share
    step = discrete_arrival_step(sigma, lr, a0, 0.0)
    if a0 == 0:
        assert step == -1  # both factors are zero
        return
    k = np.arange(1, step + 1)
    s = k * lr * (a0 + (k - 1) * lr)
    assert s[-1] >= sigma
    assert (s[:-1] < sigma).all()
    # SF-11: the number of steps of a balanced start, or one more
    assert step - np.ceil(sigma**0.5 / lr) in (0, 1)


@settings(deadline=None)
@given(st.floats(0.01, 9), st.floats(1e-5, 0.1), st.floats(1e-6, 2), st.floats(1e-6, 2))
def test_follows_the_ideal_flow(sigma, lr, a, b):
    time = ideal_arrival_time(sigma, a, b)
    step = discrete_arrival_step(sigma, lr, a, b)
    assert step - 1 - 1e-6 <= time / lr <= step + 1e-6


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 4), st.floats(0.2, 0.99), st.floats(1, 1.5), st.booleans())
def test_gain_bracket(seed, sigma, low, high, lora):
    """Any gains in the range, drawn anew for each factor and step, arrive between the two steps."""
    rng, lr = np.random.default_rng(seed), 0.05
    a, b = rng.uniform(0.001, 0.3, 2) * [1, not lora]
    assume(a * b <= sigma)
    first, last = discrete_arrival_step(sigma, lr, a, b, gain=(low, high))
    step = 0
    while a * b < sigma:
        g = rng.uniform(low, high, 2)
        a, b = a + lr * g[0] * np.sign(b), b + lr * g[1] * np.sign(a)
        step += 1
    assert first <= step <= last
    assert discrete_arrival_step(sigma, lr, 0.1, 0.1, gain=(low, low)) == discrete_arrival_step(
        sigma, lr * low, 0.1, 0.1
    )


@settings(deadline=None)
@given(st.floats(0.01, 4), st.floats(1.01, 9), st.floats(0.3, 0.99))
def test_order_with_a_gain(small, ratio, low):
    """Ranges of two targets stay apart where their ratio is below the square of the gains' ratio."""
    lr = 1e-5
    steps = discrete_arrival_step([small * ratio, small], lr, 1e-3, 1e-3, gain=(low, 1.0))
    separated = steps[1, 1] < steps[0, 0]
    # the start 1e-3 and one step move the square roots by a hundredth of the smallest
    if 1 / ratio < (low - 0.03) ** 2:
        assert separated
    if 1 / ratio > (low + 0.03) ** 2:
        assert not separated


@settings(deadline=None)
@given(st.floats(0.05, 9), st.floats(1e-3, 0.2), st.floats(1e-3, 0.2))
def test_floor(sigma, lr, start):
    a = start * sigma**0.5
    late = []
    for _ in range(int(4 * sigma**0.5 / lr) + 20):
        late.append(abs(a * a - sigma))
        a += lr * np.sign((sigma - a * a) * a)
    assert max(late[-6:]) <= discrete_floor(sigma, lr) * (1 + 1e-12)
    assert discrete_floor(sigma, lr) == pytest.approx((sigma**0.5 + lr) ** 2 - sigma, rel=1e-9)


def test_shapes_and_corners():
    steps = discrete_arrival_step([[1.0], [4.0]], [0.1, 0.01], 0.001, 0)
    assert steps.shape == (2, 2)
    assert steps.dtype == np.int64
    assert discrete_arrival_step([1.0, 4.0], 0.1, 0.001, 0, gain=(0.7, 1.2)).shape == (2, 2)
    assert isinstance(discrete_arrival_step(1.0, 0.1, 0.1, 0.1), np.int64)
    assert discrete_arrival_step(0.0, 0.1, 0.0, 0.0) == 0
    assert discrete_arrival_step(1.0, 0.1, 0.25, -0.25) == -1
    assert discrete_arrival_step(1e-300, 1e-160, 1e-170, 0) == pytest.approx(1e10, rel=1e-9)


def test_bad_input():
    with pytest.raises(ValueError, match="lr must be finite and > 0"):
        discrete_arrival_step(1, 0, 0.1, 0.1)
    with pytest.raises(ValueError, match="gain must be"):
        discrete_arrival_step(1, 0.1, 0.1, 0.1, gain=(2, 1))
    with pytest.raises(ValueError, match=r"level must lie in \[0, sigma\]"):
        discrete_arrival_step(1, 0.1, 0.1, 0.1, level=2)
    with pytest.raises(ValueError, match="lr must be larger"):
        discrete_arrival_step(1, 1e-20, 0.1, 0.1)
    for a, b in ((0.1, -0.2), (2, 1)):
        with pytest.raises(AssumptionError, match="a0 and b0 must have one sign and start below sigma"):
            discrete_arrival_step(1, 0.1, a, b, gain=(0.5, 1))
    with pytest.raises(ValueError, match="lr must be a finite number >= 0"):
        discrete_floor(1, -1)
