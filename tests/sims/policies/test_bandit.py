"""Bandits: one step by hand, the mean of many against the flow, levels, early stop."""

import numpy as np
import pytest

from porism.results import Result
from porism.sims.policies.bandit import BanditRun, mean_field, run_bandit
from porism.theory.policies import (
    SoftmaxPolicy,
    direction_scale,
    effective_number,
    group_advantages,
    logit_gradient,
)


def test_one_step_is_one_group_gradient():
    """The same uniform numbers, one run at a time, through the theory's functions."""
    theta, right, G, lr = np.array([0.5, -1.0, 0.2, 0.0]), np.array([True, True, False, False]), 5, 0.3
    run = run_bandit(4, right, "asymmetric", lr, 1, G, 6, np.random.default_rng(3), theta, suppress=0.4)
    u = np.random.default_rng(3).random((6, G, 1))[..., 0]
    pi = SoftmaxPolicy(theta).probabilities
    for row in range(6):
        actions = np.searchsorted(np.cumsum(pi)[:-1], u[row])
        A = group_advantages(right[actions][None].astype(float), "asymmetric", suppress=0.4)[0]
        after = SoftmaxPolicy(theta + lr * logit_gradient(pi, actions, A)).probabilities
        assert run.p_correct[1, row] == pytest.approx(after[right].sum(), abs=1e-14)
        assert run.effective_arms[1, row] == pytest.approx(effective_number(after, right), abs=1e-13)
    assert run.p_correct[0] == pytest.approx(pi[right].sum())


@pytest.mark.parametrize("rule", ["zscore", "hard", "a_grae"])
def test_the_mean_of_many_runs_is_the_flow(rule):
    theta = np.array([0.5, -0.5, 0.2, 0.0, -0.3])
    many = run_bandit(5, [0, 1], rule, 0.01, 20, 4, 4000, 0, theta)
    flow = mean_field(theta, [0, 1], rule, 0.01, 20, 4)
    error = many.p_correct[-1].std() / 4000**0.5
    # four standard errors, and the curvature that noise of 20 steps of .01 sees
    assert abs(many.p_correct[-1].mean() - flow.p_correct[-1, 0]) < 4 * error + 1e-4


def test_flow_by_hand():
    theta = np.array([0.5, -0.5, 0.2])
    found = mean_field(theta, [0], "hard", 0.2, 1, 6)
    pi = SoftmaxPolicy(theta).probabilities
    slope = pi * (np.array([1, 0, 0]) - pi[0])
    after = SoftmaxPolicy(theta + 0.2 * direction_scale(pi[0], 6, "hard") * slope).probabilities
    assert found.p_correct[:, 0] == pytest.approx([pi[0], after[0]])
    assert found.effective_arms[:, 0] == pytest.approx([1, 1])


def test_paths_of_all_rules_are_one(tmp_path):
    """The flow's diversity is a function of its progress, whatever the rule, up to Euler's steps."""
    theta = np.array([0.5, -0.5, 0.2, 1.0, -0.3])
    levels = [0.5, 0.7, 0.9]
    found = [
        mean_field(theta, [0, 1, 2], rule, 0.01, 4000, 4, **options).at_level(levels)[:, 0]
        for rule, options in (("zscore", {}), ("easy", {}), ("asymmetric", {"suppress": 0.9}))
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=2e-3)
    np.testing.assert_allclose(found[2], found[0], rtol=2e-3)
    run = mean_field(theta, [0, 1, 2], steps=3)
    run.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(Result.load(tmp_path / "run.npz").p_correct, run.p_correct)


def test_at_level():
    run = BanditRun(
        np.array([[0.2, 0.5], [0.6, 0.4], [0.5, 0.45]]), np.array([[3.0, 2.0], [2.0, 1.9], [1.5, 1.8]])
    )
    found = run.at_level([0.2, 0.4, 0.5, 0.6, 0.7])
    np.testing.assert_allclose(found[:4, 0], [3.0, 2.5, 2.25, 2.0])
    assert found[:3, 1].tolist() == [2, 2, 2]  # there from the start
    assert np.isnan(found[3:, 1]).all()
    assert np.isnan(found[4]).all()


def test_until():
    whole = run_bandit(6, [0, 1], steps=400, n_runs=5, rng=1)
    short = run_bandit(6, [0, 1], steps=400, n_runs=5, rng=1, until=0.8)
    T = len(short.p_correct)
    assert T < 401
    np.testing.assert_array_equal(short.p_correct, whole.p_correct[:T])
    assert (short.p_correct.max(axis=0) >= 0.8).all()
    assert not (short.p_correct[:-1].max(axis=0) >= 0.8).all()


def test_bad_input():
    for correct in ([], [0, 1, 2], [3], [-1], np.zeros(3, dtype=bool), np.ones(3, dtype=bool), [0.5]):
        with pytest.raises(ValueError, match="correct must"):
            run_bandit(3, correct)
    with pytest.raises(ValueError, match="theta0 must have one logit an arm, 3, got 2"):
        run_bandit(3, [0], theta0=[0, 1])
    with pytest.raises(ValueError, match="lr must be finite and > 0"):
        run_bandit(3, [0], lr=0)
    with pytest.raises(ValueError, match="group_size must be >= 2"):
        run_bandit(3, [0], group_size=1)
    with pytest.raises(ValueError, match="steps must be >= 1"):
        mean_field([0, 1], [0], steps=0)
