"""Worlds and trainers: what they promise of themselves."""

import itertools

import numpy as np
import pytest

from porism.sims.policies.invariants import Invariants, invariant_table
from porism.sims.policies.training import mirror_descent, policy_gradient
from porism.sims.policies.worlds import PrefixTree, tilt_world, token_world
from porism.theory.policies import AGGREGATIONS, RULES, group_advantages, objective, root_drift, tilt


def test_tilt_world():
    world = tilt_world(40, 4, 0, redundant=2)
    assert world.log_experts.shape == world.rewards.shape == (4, 40)
    assert np.linalg.matrix_rank(world.rewards) == 2
    np.testing.assert_allclose(np.exp(world.log_ref).sum(), 1)
    for expert, reward, beta in zip(world.log_experts, world.rewards, world.betas, strict=True):
        np.testing.assert_allclose(expert, tilt(world.log_ref, reward, beta))
    assert np.ptp(world.target - world.weights @ world.rewards) < 1e-12
    with pytest.raises(ValueError, match=r"redundant must be in 0\.\.3"):
        tilt_world(40, 4, 0, redundant=4)


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("independent", [False, True])
def test_token_world(additive, independent):
    conditionals, rewards = token_world(3, 3, 2, 0, additive, independent)
    assert [c.shape for c in conditionals] == [(3,), (3, 3), (3, 3, 3)]
    assert rewards.shape == (2, 3, 3, 3)
    for c in conditionals:
        np.testing.assert_allclose(np.exp(c).sum(axis=-1), 1)
    same = np.ptp(conditionals[2].reshape(9, 3), axis=0).max() < 1e-15
    assert same == independent
    # second differences across positions vanish for sums
    mixed = rewards[:, 1:, 1:, 0] - rewards[:, :-1, 1:, 0] - rewards[:, 1:, :-1, 0] + rewards[:, :-1, :-1, 0]
    assert (np.abs(mixed).max() < 1e-12) == additive


def test_tree_by_loops():
    """Probabilities and scores of sequences, token by token."""
    tree = PrefixTree(3, 2)
    assert len(tree.sequences) == 15
    assert sorted(tree.lengths.tolist()) == [1, 2, 2] + [3] * 12
    theta = np.random.default_rng(0).normal(size=(7, 3))
    table = dict(zip(tree.prefixes, tree.conditionals(theta), strict=True))
    index = {x: i for i, x in enumerate(tree.prefixes)}
    assert tree.probabilities(theta).sum() == pytest.approx(1)
    for i, x in enumerate(tree.sequences):
        chance, score = 1.0, np.zeros((7, 3))
        for t, token in enumerate(x):
            chance *= table[x[:t]][token]
            score[index[x[:t]]] += np.eye(3)[token] - table[x[:t]]
        assert tree.probabilities(theta)[i] == pytest.approx(chance, rel=1e-12)
        np.testing.assert_allclose(tree.scores(theta)[i], score, atol=1e-15)


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_group_gradient_of_the_loss(how):
    """By differences of the loss that the aggregation stands for."""
    tree, rng = PrefixTree(3, 2), np.random.default_rng(1)
    theta, group = rng.normal(size=(7, 3)), np.array([0, 3, 9, 14])
    A = group_advantages([[1.0, 0, 0, 1]])[0]
    L = tree.lengths[group]

    def loss(x):
        log = np.log(tree.conditionals(x))
        token = np.array([(tree.passes[i] * log).sum() for i in group])
        means = {"seq_mean": (A * token / L).mean(), "token_mean": A @ token / L.sum(), "sum": A @ token / 4}
        return means[how]

    found = tree.group_gradient(theta, group, A, how)
    for place in itertools.product(range(7), range(3)):
        step = np.zeros((7, 3))
        step[place] = 1e-5
        slope = (loss(theta + step) - loss(theta - step)) / 2e-5
        assert found[place] == pytest.approx(slope, abs=1e-9)
    free = np.setdiff1d(range(3), tree.first[group])
    root = root_drift(tree.conditionals(theta)[0][free], A, L, how)
    np.testing.assert_allclose(found[0][free], root, atol=1e-15)
    with pytest.raises(ValueError, match=r"logits must have shape \(7, 3\), one row a prefix, got \(7, 2\)"):
        tree.group_gradient(theta[:, :2], group, A, how)
    with pytest.raises(ValueError, match=r"group must be in 0\.\.14, got 15"):
        tree.group_gradient(theta, [0, 15], [1.0, -1.0], how)


def test_trainers_climb_to_the_tilt():
    world = tilt_world(30, 2, 0)
    best = tilt(world.log_ref, world.target, world.beta)
    top = objective(best, world.log_ref, world.target, world.beta)
    mirror = mirror_descent(world.log_ref, world.target, world.beta, 300, marks=5)
    np.testing.assert_allclose(mirror.log_policy, best, atol=1e-7)  # .93^300 = 4e-10, times the start
    assert (np.diff(mirror.kl) < 0).all()
    assert mirror.steps[0] == 1
    assert mirror.steps[-1] == 300
    # log-ratio errors shrink by .93 a step, KL by its square once small
    late = mirror.steps >= 50
    rate = np.diff(np.log(mirror.kl[late])) / np.diff(mirror.steps[late])
    np.testing.assert_allclose(rate, 2 * np.log(0.93), rtol=1e-2)
    gradient = policy_gradient(world.log_ref, world.target, world.beta, 4000, marks=6)
    assert (np.diff(gradient.kl) < 0).all()
    for run in (mirror, gradient):
        gap = top - objective(run.log_policy, world.log_ref, world.target, world.beta)
        assert gap == pytest.approx(world.beta * run.kl[-1], rel=1e-6, abs=1e-13)
    with pytest.raises(ValueError, match="rate must be in"):
        mirror_descent(world.log_ref, world.target, world.beta, rate=1.5)
    for train in (mirror_descent, policy_gradient):
        with pytest.raises(ValueError, match="log_ref must be finite, got -inf"):
            train([0.0, -np.inf], [1.0, 0.0], 1.0)


def test_invariants(tmp_path):
    """Which pairs keep what: AG-5 and AG-7 for all rules at once."""
    table = invariant_table(rng=2, trials=1)
    assert len(table.rule) == len(RULES) * len(AGGREGATIONS)
    plain = table.aggregation == "sum"
    assert (table.direction[plain] > 1 - 1e-12).all()
    assert (table.direction[~plain] < 1 - 1e-6).all()
    balanced = ~np.isin(table.rule, ["asymmetric", "a_grae"])
    stays = balanced & (table.aggregation != "seq_mean")
    assert table.first_token[stays].max() < 1e-12
    assert table.first_token[~stays].min() > 1e-3
    assert table.later_token.min() > 1e-3
    focus = dict(zip(table.rule.tolist(), table.focus.tolist(), strict=True))
    assert focus["zscore"] == focus["centred"] == 0.5
    assert focus["hard"] < 0.5 < focus["easy"]
    assert "zscore: direction of the success rate under sum; unsampled first tokens stay" in table.summary()
    table.save(tmp_path / "table.npz")
    assert Invariants.load(tmp_path / "table.npz").summary() == table.summary()
    with pytest.raises(ValueError, match=r"group_size must be in 2\.\.4"):
        invariant_table(group_size=5)


@pytest.mark.full
def test_invariants_as_a_table(needs):
    needs("pandas")
    frame = invariant_table(trials=1).to_frame()
    assert list(frame.columns) == ["rule", "aggregation", "direction", "first_token", "later_token", "focus"]
