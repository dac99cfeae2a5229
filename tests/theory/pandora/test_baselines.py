"""Baselines against loops over queries, and the order in which they must stand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.theory.pandora import Innovation, baselines, route_batch


def estimates(n=200, K=5, seed=0):
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(n, K))
    return m, m + 0.6 * rng.normal(size=(n, K))


@given(st.integers(0, 100), st.floats(0, 2), st.sampled_from(["refined", "all"]))
def test_margin_threshold_is_its_definition(seed, eps, choose):
    m, q = estimates(20, 4, seed)
    costs, prices, lam = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 0.1, 0.2, 0.0]), 0.5
    routes = baselines.margin_threshold(m, q, eps, choose, costs, prices, lam)
    for i in range(20):
        net = m[i] - lam * prices
        near = [k for k in range(4) if net[k] >= max(net) - eps]
        if len(near) == 1:
            near = []
        means = {k: (q[i, k] if k in near else m[i, k]) for k in range(4)}
        allowed = near if near and choose == "refined" else range(4)
        best = max(means[k] - lam * prices[k] for k in allowed)
        k = routes.choice[i]
        assert k in allowed
        assert means[k] - lam * prices[k] == best
        assert routes.value_est[i] == means[k]
        assert routes.n_refine[i] == len(near)
        assert routes.spend[i] == pytest.approx(costs[near].sum() + prices[k], abs=1e-12)


def test_ends_of_the_threshold_and_of_random():
    m, q = estimates()
    nothing, everything = baselines.cheap(m), baselines.exhaustive(m, q)
    assert (baselines.margin_threshold(m, q, 0.0).choice == nothing.choice).all()
    for choose in ("refined", "all"):
        assert (baselines.margin_threshold(m, q, np.inf, choose).choice == everything.choice).all()
    assert (baselines.random(m, q, 0, rng=0).choice == nothing.choice).all()
    assert (baselines.random(m, q, 5, rng=0).choice == everything.choice).all()
    assert (baselines.random(m, q, 2, rng=0).n_refine == 2).all()
    assert everything.per_specialist == (200,) * 5


def test_bulk_routing_has_the_same_ends():
    m, q = estimates()
    for name, ours in (("cheap", baselines.cheap(m)), ("exhaustive", baselines.exhaustive(m, q))):
        routes = route_batch(m, 0.6 * np.ones(5), 0.01, refined=q, policy=name)
        assert (routes.choice == ours.choice).all()
        assert (routes.value_est == ours.value_est).all()


def test_joint_update_of_random_is_the_conditional_mean():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    A = root @ root.T
    m = rng.normal(size=(1, 3))
    q = m + rng.normal(size=(1, 3))
    law = Innovation(A, A)
    for k in (1, 2):
        routes = baselines.random(m, q, k, innovation=law, rng=3)
        opened = np.random.default_rng(3).random((1, 3)).argsort(1)[0] < k
        S = np.flatnonzero(opened)
        mean = m[0] + A[:, S] @ np.linalg.solve(A[np.ix_(S, S)], (q - m)[0, S])
        assert routes.choice[0] == mean.argmax()
        assert routes.value_est[0] == pytest.approx(mean.max(), rel=1e-9)


def test_oracle_and_single_best_bound_everything():
    rng = np.random.default_rng(0)
    y, prices = rng.normal(size=(300, 4)), np.array([0.0, 0.3, 0.1, 0.0])
    net = y - prices
    oracle, single = baselines.oracle(y, prices), baselines.single_best(y, prices)
    rows = np.arange(300)
    assert net[rows, oracle.choice].mean() == pytest.approx(net.max(1).mean())
    assert len({*single.choice}) == 1
    assert net[rows, single.choice].mean() == pytest.approx(net.mean(0).max())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, q: baselines.cheap(np.zeros((3, 0))), "need at least 1 specialist"),
        (lambda m, q: baselines.exhaustive(m, q[:, :2]), "one shape"),
        (lambda m, q: baselines.exhaustive(m, q, costs=-1.0), "cost must be >= 0; got min -1"),
        (lambda m, q: baselines.exhaustive(m, q, costs=np.inf), "costs must be finite; got inf"),
        (lambda m, q: baselines.cheap(m, prices=[0.1]), r"prices must be a number or have shape \(5,\)"),
        (lambda m, q: baselines.margin_threshold(m, q, 0.1, prices=[0.1]), r"prices must .* shape \(5,\)"),
        (lambda m, q: baselines.cheap(m, lam=-1), "lam must be >= 0"),
        (lambda m, q: baselines.cheap(m, lam=np.nan), "lam must be >= 0"),
        (lambda m, q: baselines.random(m, q, 6), "k must be"),
        (lambda m, q: baselines.margin_threshold(m, q, -0.1), "eps must be >= 0"),
        (lambda m, q: baselines.margin_threshold(m, q, 0.1, "some"), "choose"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(*estimates())
