"""Value under obligatory inspection: printed digits, nested sums, simulation, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from porism.theory.pandora.index import reservation_index
from porism.theory.pandora.obligatory import obligatory_value
from porism.theory.pandora.policies import policy_value

ROUNDING = 1e-12
THREE = np.array([0.2, 0.5, -0.1]), np.array([0.8, 0.4, 1.1]), np.array([0.05, 0.02, 0.1])


def test_printed_values():
    assert obligatory_value(*THREE, outside=0) == pytest.approx(0.74485548843895718, rel=1e-12)
    assert obligatory_value(*THREE[:2], 0) - THREE[2].sum() == pytest.approx(0.72817088736, abs=1e-10)
    trap = np.array([0.0266, 0.0634, 0.0284])
    free = obligatory_value([0.866, -0.194, 0.522], [0.311, 0.645, 0.31], 0)
    assert free - trap.sum() == pytest.approx(0.8183899667, abs=1e-10)


def test_one_specialist_has_closed_forms(brute):
    # free: E max(o, M); costly: refine if sigma > o, for E max(o, M) - c
    for m, nu, c, o in ((0.3, 0.5, 0.05, 0.1), (0.3, 0.5, 0.0, 0.6), (-1.0, 0.7, 0.1, 0.2)):
        refined = max(m, o) + brute.gain(abs(m - o), nu) - c
        assert obligatory_value([m], nu, c, o) == pytest.approx(max(o, refined), abs=ROUNDING)
    assert obligatory_value([0.3], 0.5, 0.1) == pytest.approx(0.2, abs=ROUNDING)


def test_equal_to_the_recursion_that_opens_boxes(brute):
    """PB-5: nested sums over all orders of opening, each stopped where it should be."""
    reference = brute.Naive(*THREE, points=401)
    value = reference.value("weitzman", (0, 1, 2), np.zeros(1))[0]
    # points every 0.04 nu, three levels: kinks 3 * 0.04^2/24 * 0.4 nu; E kappa is continuous at sigma
    assert obligatory_value(*THREE, outside=0.0) == pytest.approx(value, abs=1e-4)


def test_simulation_of_kappa():
    rng, n = np.random.default_rng(7), 400_000
    m, nu, c = rng.normal(size=6), rng.uniform(0.2, 1, 6), rng.uniform(0.01, 0.2, 6)
    kappa = np.minimum(m + nu * rng.normal(size=(n, 6)), reservation_index(m, nu, c))
    best = np.maximum(0.1, kappa.max(axis=1))
    assert abs(obligatory_value(m, nu, c, 0.1) - best.mean()) < 4 * best.std() / math.sqrt(n)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_agrees_with_the_grid_and_is_above_it_nowhere(brute, data):
    m, nu, c, outside = data.draw(brute.problems(5))
    exact, grid = obligatory_value(m, nu, c, outside), policy_value("weitzman", m, nu, c, outside, grid=1001)
    # each opening interpolates a convex function: from above, by at most h^2/8 times its curvature
    h = 11 * len(nu) * nu.max() / 1001
    assert -ROUNDING * 10 <= grid - exact <= len(nu) * h**2 / 8 * 0.4 / nu.min() + ROUNDING


@settings(max_examples=60, deadline=None)
@given(st.data(), st.floats(-5, 5), st.floats(0.01, 100), st.randoms(use_true_random=False))
def test_invariances_and_order(brute, data, shift, scale, random):
    m, nu, c, outside = data.draw(brute.problems(5))
    value = obligatory_value(m, nu, c, outside)
    moved = obligatory_value(scale * m + shift, scale * nu, scale * c, scale * outside + shift)
    assert moved == pytest.approx(scale * value + shift, abs=1e-12 * (scale * 10 + abs(shift)))
    order = list(range(len(m)))
    random.shuffle(order)
    assert obligatory_value(m[order], nu[order], c[order], outside) == pytest.approx(value, abs=ROUNDING)
    assert obligatory_value(m, nu, 1.1 * c + 0.01, outside) <= value + ROUNDING
    assert value >= max(outside, (m - c).max()) - ROUNDING
    assert value <= obligatory_value(m, nu, 0 * c, outside) + ROUNDING


def test_degenerate_specialists():
    assert obligatory_value([0.0, 1.0], [0.0, 0.0], [0.1, 0.2]) == pytest.approx(0.8, abs=ROUNDING)
    assert obligatory_value([0.0], 1.0, 50.0) == pytest.approx(-50.0, abs=ROUNDING)
    assert obligatory_value([0.0], 1.0, 50.0, outside=-1.0) == -1.0
    assert obligatory_value([0.0, 1.0], 1.0, math.inf) == -math.inf
    assert obligatory_value([0.0, 1.0], 1.0, math.inf, outside=0.3) == 0.3
    assert obligatory_value([0.0, 1.0], 1.0, [math.inf, 0.1]) == pytest.approx(0.9, abs=ROUNDING)
    far = obligatory_value([1e6, 1e6], 1e-3, 1e-5)
    assert far - 1e6 == pytest.approx(obligatory_value([0.0, 0.0], 1e-3, 1e-5), abs=1e-9)
    # thirty equal free specialists: the mean of the largest of thirty normals, by an independent sum
    z = np.linspace(-9, 9, 200_001)
    mean = np.sum(z * 30 * norm.pdf(z) * norm.cdf(z) ** 29) * (z[1] - z[0])
    assert obligatory_value(np.zeros(30), 1.0, 0.0) == pytest.approx(mean, abs=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], 1.0, -0.1), "cost must be >= 0"),
        (([0.0], -1.0, 0.1), "nu must be >= 0 and finite"),
        (([], 1.0, 0.1), "need at least 1 specialist"),
        (([0.0], 1.0, 0.1, math.nan), "outside must be a number or -inf"),
        (([0.0, 1.0], [1.0], 0.1), "vectors of one length"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        obligatory_value(*arguments)
