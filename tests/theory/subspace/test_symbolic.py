"""Each derivation against the numeric function that uses it, and as an identity of its own."""

import math

import helpers
import numpy as np
import pytest

from porism.sims.subspace import few_atoms
from porism.theory.subspace import crossover_angle, lost_energy, mixture_spectrum, reuse_error, symbolic

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]
THETA, A, N, H2 = 0.7, 1.3, 0.2, 0.15
CASE = ([THETA], A, N, 1.0, H2, 2, 1)
VALUES = {"a": A, "n": N, "h": math.sqrt(H2), "theta": THETA, "kappa": H2 + N, "c^2": math.cos(THETA) ** 2}


def number(expression, **more):
    """Value at VALUES for the symbols of these names."""
    return helpers.number(expression, **VALUES | more)


def test_plane_error():
    naive, mended = symbolic.plane_error()
    assert number(naive.rhs) == pytest.approx(reuse_error(*CASE).total, rel=1e-12)
    assert number(mended.rhs) == pytest.approx(reuse_error(*CASE, calibrated=True).total, rel=1e-12)


def test_stable_form():
    equation = symbolic.stable_form()
    per_angle = reuse_error(*CASE).misalignment[0] / (A * math.sin(THETA) ** 2)
    assert number(equation.lhs) == pytest.approx(per_angle, rel=1e-12)
    assert number(equation.rhs) == pytest.approx(per_angle, rel=1e-12)


def test_limits():
    aligned, floor, cross = symbolic.limits()
    found = reuse_error([THETA], A, N, 1.0, 1e-12, 2, 1)
    assert number(aligned.rhs) == pytest.approx(found.misalignment[0] * 1e-24, rel=1e-10)
    assert number(floor.rhs) == pytest.approx(found.noise * 1e-24, rel=1e-10)
    mean = number(cross.rhs, sigma=0.1, D=20, d=4, **{"lambda": 1.0})
    assert mean == pytest.approx(math.sin(crossover_angle(1.0, 0.01, 20, 4)) ** 2, rel=1e-12)


def test_decreasing():
    step = 1e-6
    low, high = (reuse_error([THETA], A, N, 1.0, H2 + side * step, 2, 1) for side in (-1, 1))
    slopes = [
        (low.misalignment[0] - high.misalignment[0]) / (A * math.sin(THETA) ** 2),
        low.noise - high.noise,
    ]
    for equation, slope in zip(symbolic.decreasing(), slopes, strict=True):
        assert number(equation.rhs, H=H2) == pytest.approx(slope / (2 * step), rel=1e-6)


def test_shrinkage(sy):
    equation = symbolic.shrinkage()
    assert sy.simplify(equation.lhs - equation.rhs) == 0


def test_tweedie():
    score, mean = symbolic.tweedie()
    x, alpha = 0.4, 0.8
    assert number(mean.rhs, x=x, alpha=alpha) == pytest.approx(math.tanh(alpha * x / H2))

    def log_density(t):
        return np.logaddexp(-((t - alpha) ** 2) / (2 * H2), -((t + alpha) ** 2) / (2 * H2))

    slope = (log_density(x + 1e-6) - log_density(x - 1e-6)) / 2e-6
    assert number(score.rhs, x=x, alpha=alpha) == pytest.approx(slope, rel=1e-8)
    # all of the score is off a latent across
    from scipy.integrate import quad

    def square(z):
        return math.tanh(alpha * (alpha + math.sqrt(H2) * z) / H2) ** 2 * math.exp(-z * z / 2)

    second = quad(square, -12, 12, epsabs=1e-13, limit=300)[0] / math.sqrt(2 * math.pi)
    world = few_atoms([[1.0, 0.0], [-1.0, 0.0]], [[0.0], [1.0]], alpha**2, H2)
    assert world.posterior[0, 0] == pytest.approx(second, rel=1e-9)


def test_mixture():
    values = sorted(number(value, w=0.3) for value in symbolic.mixture().rhs)
    assert values[::-1] == pytest.approx(mixture_spectrum([THETA], 0.3).tolist(), rel=1e-12)


def test_bisector():
    _, lost = symbolic.bisector()
    middle = [[math.cos(THETA / 2)], [math.sin(THETA / 2)]]
    assert number(lost.rhs) == pytest.approx(lost_energy([[1.0], [0.0]], middle), rel=1e-12)
    assert number(lost.rhs) == pytest.approx(mixture_spectrum([THETA])[1], rel=1e-12)
