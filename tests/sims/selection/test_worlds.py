"""Worlds keep what they promise: exact effects of steps, families of matrices, models with their peers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.sims.selection import (
    attention_world,
    biclique_matrix,
    centred_world,
    draw_matrix,
    improvement,
    linear_world,
    random_starts,
    removal_effects,
    tanh_world,
)
from porism.sims.selection._estimates import gradients_along, pooled, quadrature_errors, removal_estimates
from porism.sims.selection._models import multiplications, perceptron, transformer
from porism.sims.selection._scores import flat, jacobian, score_matrix, val_curvature, val_gradient
from porism.theory.selection import dual_scores


@pytest.fixture(autouse=True)
def torch(needs):
    return needs("torch")


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), lr=st.floats(0.01, 2))
def test_effects_of_least_squares_by_hand(seed, lr):
    rng = np.random.default_rng(seed)
    X, y, A, b, theta = (rng.normal(size=s) for s in ((5, 2), 5, (4, 2), 4, 2))
    world = linear_world(X, y, A, b, theta)

    def val(t):
        return ((A @ t - b) ** 2).mean() / 2

    def after(weights):
        return val(theta - lr / 5 * X.T @ (weights * (X @ theta - y)))

    w = rng.uniform(0, 2, 5)
    size = 1e-12 * (val(theta) + after(w) + after(np.ones(5)) + 1)
    assert improvement(world, lr, w) == pytest.approx(val(theta) - after(w), abs=size)
    effects = [after(np.arange(5) != i) - after(np.ones(5)) for i in range(5)]
    assert removal_effects(world, lr) == pytest.approx(np.array(effects), abs=10 * size)
    g = X.T @ (X @ theta - y) / 5
    np.testing.assert_allclose(jacobian(world).mean(0), g, atol=1e-12)
    np.testing.assert_allclose(val_gradient(world), A.T @ (A @ theta - b) / 4, atol=1e-12)
    np.testing.assert_allclose(val_curvature(world, g), A.T @ A @ g / 4, atol=1e-11)
    errors = quadrature_errors(world, lr, jacobian(world))
    assert np.abs(errors[1:]).max() < 1e-9 * max(1, 1 / np.linalg.norm(g) / lr)


@pytest.mark.parametrize("make", [tanh_world, attention_world])
def test_removal_is_a_step_without_the_sample(make):
    world = make(rng=3)
    effects, whole = removal_effects(world, 0.5), improvement(world, 0.5)
    for i in range(world.n):
        without = improvement(world, 0.5, np.arange(world.n) != i)
        assert effects[i] == pytest.approx(whole - without, abs=1e-14)


def test_worlds_are_the_same_again():
    for make in (tanh_world, attention_world):
        one, two, other = (flat(make(rng=seed).params) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, two)
        assert (one != other).any()


def test_a_centred_world_is_refused():
    with pytest.raises(AssumptionError, match="must not depend on the rest"):
        dual_scores(*centred_world(tanh_world(rng=0)).arguments)


def test_estimates():
    world = tanh_world(rng=0)
    found = removal_estimates(world, 0.5)
    G, J = score_matrix(world), jacobian(world)
    assert found["first"] == pytest.approx(0.5 / 24 * G.sum(1))
    start, end = gradients_along(world, 0.5, J, (0.0, 1.0))
    assert start == pytest.approx(val_gradient(world))
    assert found["end point"] == pytest.approx(0.5 / 24 * J @ end)
    errors = pooled([world], 0.5)
    expected = np.linalg.norm(found["shares"] - found["exact"]) / np.linalg.norm(found["exact"])
    assert errors["shares"] == pytest.approx(expected)
    one = linear_world([[1.0]], [0.0], [[1.0]], [0.0], [1.0])  # L = theta^2 / 2 at 1: 1/2 for 3/8
    assert quadrature_errors(one, 0.5, np.ones((1, 1))) == [0.25, 0, 0, 0]
    ends = dual_scores(*world.arguments, order="endpoint", lr=0.5)
    assert found["end point"] == pytest.approx(ends.rows.numpy())


def test_families():
    for family in ("signed", "positive"):
        assert np.linalg.matrix_rank(draw_matrix(family, 5, 6, 0)) == 1
    assert (draw_matrix("signed", 5, 6, 0) < 0).any()
    assert np.linalg.matrix_rank(draw_matrix("gaussian", 5, 6, 0)) == 5
    assert draw_matrix("gradients", 5, 6, 0).shape == (5, 6)
    assert biclique_matrix([[1, 0]], 3.0).tolist() == [[1, -3]]
    starts = random_starts(9, 4, 20, 0)
    assert len({tuple(start) for start in starts}) > 10
    assert all(len(set(start.tolist())) == 4 for start in starts)
    for call, words in (
        (lambda: draw_matrix("cauchy", 2, 2), "family must be one of"),
        (lambda: draw_matrix("gradients", 2, 50), "P must be in 1..49"),
        (lambda: biclique_matrix([[2.0]]), "0 and 1 only"),
        (lambda: random_starts(3, 4), "n_cols must be in 1..3"),
        (lambda: tanh_world(gain=0), "gain must be finite and > 0"),
        (lambda: improvement(tanh_world(rng=0), -1.0), "lr must be finite and > 0"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.parametrize("make", [perceptron, transformer])
def test_benchmarks_compare_equal_answers(make):
    small = {"sizes": (5, 4, 3)} if make is perceptron else {"length": 4, "d": 8, "layers": 1, "vocab": 7}
    work = make(4, n_val=3, **small).double()
    found = work.ours()
    assert not found.fallbacks
    for method in ("vmap", "loop"):
        rows, columns = work.peer(method)
        assert found.rows.numpy() == pytest.approx(rows.numpy(), rel=1e-6, abs=1e-9)  # data is float32
        for name, value in columns.items():
            np.testing.assert_allclose(found.columns[name].numpy(), value.numpy(), rtol=1e-6, atol=1e-9)


def test_multiplications(torch):
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    assert multiplications(lambda: a @ b) == 60
