"""Each derivation against the numeric function that uses it, and as an identity of its own."""

import numpy as np
import pytest
from helpers import number

from porism.theory.spectral_flow import (
    discrete_arrival_step,
    discrete_floor,
    gradient_flow_arrival_time,
    gradient_flow_singular_value,
    ideal_arrival_time,
    local_decay_rate,
    smoothing_delay,
    symbolic,
)

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]


def test_ideal_arrival():
    below, opposite, above = (equation.rhs for equation in symbolic.ideal_arrival())
    for x, y, c in ((0.1, 0.1, 4.0), (1.0, 0.01, 0.5), (0.7, 0.2, 2.0)):
        assert number(below, x=x, y=y, c=c) == pytest.approx(ideal_arrival_time(c, x, y), rel=1e-12)
        assert number(opposite, x=x + 1, y=y, c=c) == pytest.approx(
            ideal_arrival_time(c, -x - 1, y), rel=1e-12
        )
    assert number(above, x=3, y=2, c=1) == pytest.approx(ideal_arrival_time(1, 3, 2), rel=1e-12)


def test_gradient_flow(sy):
    rate, curve, time = symbolic.gradient_flow()
    s, t = sy.Symbol("s", positive=True), sy.Symbol("t", positive=True)
    assert sy.simplify(sy.diff(curve.rhs, t) - rate.rhs.subs(s, curve.rhs)) == 0
    assert sy.simplify(curve.rhs.subs(t, 0)) == sy.Symbol("s_0", positive=True)
    values = {"g": 2.0, "s_0": 1e-3}
    assert number(curve.rhs, t=1.0, **values) == pytest.approx(
        gradient_flow_singular_value(1, 2, 1e-3), rel=1e-12
    )
    assert number(time.rhs, s=1.98, **values) == pytest.approx(gradient_flow_arrival_time(2, 1e-3), rel=1e-9)


def test_smoothed_arrival(sy):
    pace, upper, lower = symbolic.smoothed_arrival()
    assert number(pace.rhs, x=3.0, beta=4.0) == pytest.approx(5 / 3)
    for equation in (upper, lower):
        assert sy.expand(equation.lhs - equation.rhs) == 0
        assert equation.rhs.is_nonnegative  # all symbols are positive


def test_delay(sy):
    first, last, integral = symbolic.delay()
    sigma, s0, beta = 4.0, 1e-6, 1e-2
    start = beta / number(first.rhs, a=1, sigma=sigma)
    end = beta / number(last.rhs, d=1, sigma=sigma)
    left = sigma**0.5 * (1 - 0.99**0.5)
    total = number(integral.rhs, c=start, p=s0**0.5) + number(integral.rhs, c=end, p=left)
    assert smoothing_delay(sigma, s0, 0.99, beta) == pytest.approx(total, rel=1e-9)
    a = sy.Symbol("a", positive=True)
    from scipy.integrate import quad

    inside = sy.lambdify((a, sy.Symbol("c", positive=True)), integral.lhs.function)
    found = quad(lambda u: inside(np.exp(u), 0.7) * np.exp(u), np.log(0.3), 18)[0]
    assert number(integral.rhs, c=0.7, p=0.3) == pytest.approx(
        found, rel=1e-6
    )  # the rest is 0.7^2/2 exp(-18)


def test_descent(plain):
    rate = symbolic.descent().rhs
    a, b, sigma, ridge, beta, h = 0.4, -1.1, 2.0, 0.3, 0.2, 1e-6
    x, y = (g.item() for g in plain.gradients(*(np.array([[v]]) for v in (sigma, b, a)), ridge)[::-1])
    moved = (np.array([[v - h * g / np.hypot(g, beta)]]) for v, g in ((b, y), (a, x)))
    before = plain.loss(*(np.array([[v]]) for v in (sigma, b, a)), ridge)
    slope = (plain.loss(np.array([[sigma]]), *moved, ridge) - before) / h
    assert number(rate, x=x, y=y, beta=beta) == pytest.approx(slope, rel=1e-5)
    assert rate.subs(dict.fromkeys(rate.free_symbols, 1)) < 0


def test_ridge_shift(sy):
    for equation in symbolic.ridge_shift():
        assert sy.expand(equation.lhs - equation.rhs) == 0
    gradient, spare = symbolic.ridge_shift()
    assert sy.Symbol("lambda", positive=True) not in gradient.rhs.free_symbols
    assert spare.rhs.is_nonnegative


def test_discrete_arrival():
    step, over = symbolic.discrete_arrival()
    for sigma, lr, a0 in ((2.0, 0.1, 0.05), (1.0, 0.01, 1e-3)):
        real = number(step.rhs, a=a0, c=sigma, eta=lr)
        assert np.ceil(real) == discrete_arrival_step(sigma, lr, a0, 0)
        assert number(over.rhs, sigma=sigma, eta=lr) == pytest.approx(discrete_floor(sigma, lr), rel=1e-12)


def test_decay(plain):
    H, values = symbolic.decay()
    Y, B = np.diag([3.0, 2.0]), np.array([[3.0**0.5], [0.0]])
    numbers = {"sigma_1": 3.0, "sigma_2": 2.0}
    found = sorted(number(value, **numbers) for value in values.rhs)
    assert found == [0, 1, 5, 6]
    np.testing.assert_allclose(np.linalg.eigvalsh(plain.hessian(Y, B, B.T, 0.0)), found, atol=1e-12)
    dense = np.array(H.rhs.subs({s: numbers[s.name] for s in H.rhs.free_symbols})).astype(float)
    np.testing.assert_allclose(dense, plain.hessian(Y, B, B.T, 0.0), atol=1e-12)
    assert local_decay_rate(Y, B, B.T, 0.5) == pytest.approx(2 * found[1] / 0.5)
