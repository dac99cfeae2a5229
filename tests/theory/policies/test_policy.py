"""A softmax policy: gradients by differences, divergences by their sum, edges of the support."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.theory.policies import SoftmaxPolicy

LOGITS = st.lists(st.floats(-30, 30), min_size=2, max_size=8)


def test_by_hand(tmp_path):
    policy = SoftmaxPolicy(np.log([0.5, 0.25, 0.25]) + 700)
    np.testing.assert_allclose(policy.probabilities, [0.5, 0.25, 0.25], rtol=1e-12)
    assert policy.gradient([1, 0, 0]).tolist() == pytest.approx([0.5, -0.25, -0.25])
    assert policy.kl(SoftmaxPolicy([0, 0, 0])) == pytest.approx(math.log(3) - 1.5 * math.log(2))
    assert policy.tilt([0, math.log(2), 0], 1.0).probabilities == pytest.approx([0.4, 0.4, 0.2])
    policy.save(tmp_path / "policy.npz")
    assert Result.load(tmp_path / "policy.npz").kl(policy) == 0


@settings(deadline=None, max_examples=50)
@given(LOGITS, st.data())
def test_gradient_is_that_of_the_weighted_log_probability(logits, data):
    w = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=len(logits), max_size=len(logits))))
    found = SoftmaxPolicy(logits).gradient(w)
    h = 1e-5
    for j in range(len(logits)):
        up, down = (SoftmaxPolicy(np.array(logits) + s * h * np.eye(len(logits))[j]) for s in (1, -1))
        slope = w @ (up.log_prob - down.log_prob) / (2 * h)
        assert found[j] == pytest.approx(slope, abs=1e-7)  # rounding of logs up to 60, over 1e-5
    assert found.sum() == pytest.approx(0, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(LOGITS, st.data())
def test_divergence_is_its_sum(logits, data):
    other = data.draw(st.lists(st.floats(-30, 30), min_size=len(logits), max_size=len(logits)))
    p, q = SoftmaxPolicy(logits), SoftmaxPolicy(other)
    direct = p.probabilities @ (p.log_prob - q.log_prob)
    assert p.kl(q) == pytest.approx(direct, rel=1e-9, abs=1e-12)
    assert p.kl(q) >= 0


def test_divergence_of_close_policies_is_not_rounding():
    """Second order in the difference; the plain sum gives noise of 1e-17."""
    e = 1e-9
    p, q = SoftmaxPolicy([0.0, 0.0]), SoftmaxPolicy([e, -e])
    assert p.kl(q) == pytest.approx(e * e / 2, rel=1e-6)


def test_divergence_where_a_probability_is_no_float():
    """p = e^-800 is zero in float64, and e^800 is infinite: their product is a probability all the same."""
    for least in (-800.0, -1e5, -1e150):
        p, q = SoftmaxPolicy([0.0, least]), SoftmaxPolicy([0.0, 0.0])
        assert p.kl(q) == pytest.approx(math.log(2), rel=1e-15)
        assert q.kl(p) == pytest.approx(-least / 2 - math.log(2), rel=1e-15)


def test_outside_the_support():
    full, part = SoftmaxPolicy([0.0, 0.0]), SoftmaxPolicy([0.0, -np.inf])
    assert full.kl(part) == math.inf
    assert part.kl(full) == pytest.approx(math.log(2))
    assert part.gradient([0, 1]).tolist() == [-1, 1]
    assert part.tilt([0, 5], 1.0).probabilities.tolist() == [1, 0]


def test_bad_input():
    policy = SoftmaxPolicy([0.0, 1.0])
    with pytest.raises(ValueError, match="logits must have a finite entry"):
        SoftmaxPolicy([-np.inf, -np.inf])
    with pytest.raises(ValueError, match="logits must be finite"):
        SoftmaxPolicy([np.nan, 0])
    with pytest.raises(ValueError, match="logits must be finite"):
        SoftmaxPolicy([np.inf, 0])
    with pytest.raises(ValueError, match="other must have 2 outcomes, got 3"):
        policy.kl(SoftmaxPolicy([0, 0, 0]))
    with pytest.raises(ValueError, match="weights must have one entry an outcome"):
        policy.gradient([1])
    with pytest.raises(ValueError, match="beta must be finite and > 0"):
        policy.tilt([0, 1], 0)
