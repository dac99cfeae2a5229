"""The online router: decisions as in bulk and as the exact tables, and nothing lost on the way."""

import asyncio
import copy
import math
import pickle
import threading

import numpy as np
import pytest

from porism.errors import NumericalWarning
from porism.theory.pandora import Decision, Router, fit_router, optimal_value, route_batch


def world(n=2000, K=4, rho=0.0, seed=0):
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(n, K))
    shared = np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, K))
    q = m + 0.5 * shared
    return m, q, q + 0.3 * rng.normal(size=(n, K))


def fitted(dependence="independent", **options):
    m, q, y = world(**options)
    return fit_router(y, m, q, dependence=dependence)


COSTS = np.array([0.02, 0.01, 0.05, 0.03])
PRICES = np.array([0.0, 0.1, 0.2, 0.0])


@pytest.mark.parametrize("policy", ["cheap", "exhaustive", "weitzman", "kg", "kg_sigma", "kg_joint"])
@pytest.mark.parametrize("dependence", ["independent", "joint"])
def test_single_queries_go_where_the_bulk_goes(policy, dependence):
    fit = fitted(dependence, rho=0.5)
    m, q, _ = world(60, rho=0.5, seed=1)
    router = Router(fit, COSTS, PRICES, lam=1.5, policy=policy, outside=0.1)
    joint = dependence == "joint" or policy == "kg_joint"
    law = fit.innovation if joint else None
    bulk = route_batch(m, fit.nu, COSTS, PRICES, 1.5, policy, refined=q, innovation=law, outside=0.1)
    for i in range(60):
        decision = router.route(m[i], refine=lambda k, i=i: q[i, k])
        assert decision.choice == bulk.choice[i]
        assert len(decision.refined) == bulk.n_refine[i]
        assert decision.spend == pytest.approx(bulk.spend[i], abs=1e-12)
        assert decision.value == pytest.approx(bulk.value_est[i], abs=1e-12)
    counters = router.counters()
    assert counters["queries"] == 60
    assert tuple(counters["refined"].values()) == bulk.per_specialist
    assert counters["spend_mean"] == pytest.approx(bulk.spend.mean())
    assert counters["spend_se"] == pytest.approx(bulk.spend.std(ddof=1) / np.sqrt(60))


@pytest.mark.parametrize("policy", ["rollout", "optimal", "two_step", "recommit", "commit", "top_index"])
def test_plans_earn_what_the_recursion_says(policy):
    from porism.theory.pandora import policy_value

    fit = fitted()
    m = np.array([0.3, 0.1, -0.1, 0.25])
    rng = np.random.default_rng(0)
    router = Router(fit, COSTS, policy=policy, outside=0.0)
    earned = []
    for q in m + fit.nu * rng.normal(size=(300, 4)):
        decision = router.route(m, refine=q.__getitem__)
        earned.append(max(decision.value, 0.0) - COSTS[list(decision.refined)].sum())
    if policy == "optimal":
        exact = optimal_value(m, fit.nu, COSTS, 0.0).value
    else:
        exact = policy_value(policy, m, fit.nu, COSTS, 0.0)
    assert np.mean(earned) == pytest.approx(exact, abs=5 * np.std(earned) / np.sqrt(300) + 1e-3)


def test_default_policies():
    assert Router(fitted("joint"), 0.1).policy == "kg_joint"
    assert Router(fitted(K=8), 0.1).policy == "rollout"
    assert Router(fitted(K=9), 0.1).policy == "kg_sigma"


@pytest.mark.parametrize("policy", ["kg_joint", "rollout", "kg_sigma", "exhaustive", "weitzman"])
def test_failures_do_not_stop_a_query(policy):
    fit = fitted(rho=0.3)
    m, q, _ = world(50, rho=0.3, seed=2)
    router = Router(fit, 0.001, policy=policy)

    def refine(i, k):
        if k == 0:
            raise ConnectionError("no answer")
        return {1: math.nan, 2: None}.get(k, q[i, k])

    for i in range(50):
        decision = router.route(m[i], refine=lambda k, i=i: refine(i, k))
        assert set(decision.refined) <= {3}
        assert len({step["specialist"] for step in decision.trace}) == len(decision.trace)
        if policy != "weitzman":  # which may use only what it refined
            means = m[i].copy()
            if 3 in decision.refined and router._law is None:
                means[3] = q[i, 3]
                assert decision.value == means.max()
    assert router.counters()["refine_failed"] > 0
    assert router.counters()["queries"] == 50


def test_a_failed_specialist_stays_usable():
    router = Router(fitted(), 0.0, policy="optimal")
    decision = router.route([5.0, 4.9, 0.0, 0.0], refine=lambda k: 1 / 0)
    assert decision.choice == 0
    assert decision.value == 5.0
    assert decision.spend == 0.0
    assert {step["status"] for step in decision.trace} == {"failed"}


def test_impossible_refinements_are_not_asked_for():
    asked = []
    router = Router(fitted(), [0.0, math.inf, 0.0, math.inf], policy="exhaustive")
    router.route([0.0, 0.1, 0.0, 0.1], refine=lambda k: asked.append(k) or 0.05)
    assert sorted(asked) == [0, 2]


async def lossy(i, q, k, rng):
    """An answer that may fail, come late, or not at all."""
    kind = (i * 7 + k * 3) % 11
    if kind == 0:
        raise RuntimeError("refused")
    if kind == 1:
        await asyncio.sleep(30)
    if kind == 2:
        return math.nan
    await asyncio.sleep(0 if kind < 8 else 1e-4)
    return q[i % len(q), k]


def run_many(n, fit, policy, timeout, concurrency=1):
    m, q, _ = world(500, K=4, rho=0.3, seed=3)
    router = Router(fit, 0.01, policy=policy)
    done = np.zeros(n, np.int64)

    async def one(i):
        decision = await router.aroute(
            m[i % 500], refine=lambda k: lossy(i, q, k, None), timeout=timeout, concurrency=concurrency
        )
        done[i] += 1
        return decision

    async def everything():
        return await asyncio.gather(*(one(i) for i in range(n)))

    decisions = asyncio.run(everything())
    assert (done == 1).all()
    counters = router.counters()
    assert counters["queries"] == n == sum(counters["chosen"].values())
    assert sum(counters["refined"].values()) == sum(len(d.refined) for d in decisions)
    assert counters["refine_failed"] == sum(step["status"] != "ok" for d in decisions for step in d.trace)
    assert counters["refine_timeout"] == sum(
        step["status"] == "timeout" for d in decisions for step in d.trace
    )
    assert counters["refine_timeout"] > 0
    assert all(0 <= d.choice < 4 for d in decisions)
    return router, decisions, m, q


@pytest.mark.parametrize(("policy", "n"), [("kg_joint", 300), ("rollout", 60)])
def test_concurrent_queries_lose_nothing(policy, n):
    # a timeout shorter than the loop's own latency would count honest answers as late
    router, decisions, m, q = run_many(n, fitted("joint", rho=0.3), policy, timeout=3)
    again = Router(router.fitted, 0.01, policy=policy)
    for i in range(0, n, 7):  # the same as one at a time, with the same failures
        bad = {k for k in range(4) if (i * 7 + k * 3) % 11 < 3}
        alone = again.route(m[i], refine=lambda k, i=i, bad=bad: math.nan if k in bad else q[i, k])
        assert (alone.choice, alone.refined, alone.spend) == (
            decisions[i].choice,
            decisions[i].refined,
            decisions[i].spend,
        )


@pytest.mark.full
@pytest.mark.slow
def test_a_hundred_thousand_concurrent_queries():
    run_many(100_000, fitted("joint", rho=0.3), "kg_joint", timeout=20)


def test_several_at_once_are_the_best_of_the_round():
    fit = fitted()
    m, q, _ = world(40, seed=4)
    router, twin = (Router(fit, 0.01, policy="kg") for _ in range(2))

    async def ask(i, k):
        return q[i, k]

    for i in range(40):
        both = asyncio.run(router.aroute(m[i], lambda k, i=i: ask(i, k), concurrency=2))
        alone = twin.route(m[i], refine=q[i].__getitem__)
        if both.trace:
            assert both.trace[0]["specialist"] == alone.trace[0]["specialist"]
        assert len(both.refined) >= len(alone.refined)
    assert (
        asyncio.run(router.aroute(m[0], q[0].__getitem__)).choice == twin.route(m[0], q[0].__getitem__).choice
    )


def test_cancelling_a_query_cancels_it():
    router = Router(fitted(), 0.0, policy="kg")

    async def main():
        task = asyncio.create_task(router.aroute([0.0] * 4, lambda k: asyncio.sleep(60)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert router.counters()["queries"] == 0


def test_threads_share_counters():
    fit = fitted("joint", rho=0.5)
    m, q, _ = world(400, rho=0.5, seed=5)
    router = Router(fit, 0.01)
    router.set_budget(0.02, calibrate=False)

    def work(part):
        for i in range(part, 400, 4):
            router.route(m[i], refine=q[i].__getitem__)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counters = router.counters()
    assert counters["queries"] == 400 == sum(counters["chosen"].values())
    assert counters["spend_mean"] * 400 == pytest.approx(sum(counters["refined"].values()) * 0.01)


@pytest.mark.parametrize("budget", [0.01, 0.015])
@pytest.mark.parametrize("policy", ["kg_joint", "kg"])
def test_spend_settles_at_the_budget(budget, policy):
    fit = fitted("joint", rho=0.3)
    n = 1000
    m, q, _ = world(n, rho=0.3, seed=6)
    router = Router(fit, 0.01, policy=policy)
    router.set_budget(budget)
    path = [router.lam]
    for i in range(n):
        router.route(m[i], refine=q[i].__getitem__)
        path.append(router.lam)
    spend = router.counters()["spend_mean"]
    # the steps of lam telescope; where lam is clipped at 0, less is spent
    over = (path[-1] - path[0]) / (0.02 * router._scale() / budget * n)
    assert spend - budget <= over + 1e-12
    if min(path) > 0:
        assert spend - budget == pytest.approx(over, abs=1e-12)
    assert spend == pytest.approx(budget, rel=0.1)
    router.set_budget(None)
    held = router.lam
    router.route(m[0], refine=q[0].__getitem__)
    assert router.lam == held


def test_a_budget_out_of_reach_leaves_money_unspent():
    m, q, _ = world(300, seed=6)
    router = Router(fitted(), 0.01, policy="exhaustive")
    router.set_budget(1.0)
    for i in range(300):
        router.route(m[i], refine=q[i].__getitem__)
    assert router.lam == 0
    assert router.counters()["spend_mean"] == pytest.approx(0.04)


def test_a_calibrated_start_keeps_to_the_budget_on_the_fitted_queries():
    fit = fitted("joint", rho=0.3)
    router = Router(fit, 0.01)
    router.set_budget(0.015)
    known = {"refined": fit.q_hat, "innovation": fit.innovation}
    routes = route_batch(fit.m_hat, fit.nu, 0.01, lam=router.lam, policy="kg_joint", **known)
    assert 0.01 < routes.spend.mean() <= 0.015


def test_saved_router_goes_on(tmp_path):
    fit = fitted("joint", rho=0.3)
    m, q, _ = world(40, rho=0.3, seed=7)
    costs = np.array([0.01, math.inf, 0.02, 0.01])
    router = Router(fit, costs, PRICES, outside=-1.0, names=["a", "b", "c", "d"])
    costs[:] = 0.0  # the router keeps its own
    router.set_budget(0.02)
    for i in range(20):
        router.route(m[i], refine=q[i].__getitem__)
    router.save(tmp_path / "router.npz")
    again = Router.load(tmp_path / "router.npz")
    assert again.counters() == router.counters()
    assert again.costs.tolist() == [0.01, math.inf, 0.02, 0.01]
    assert (again.prices.tolist(), again.outside) == (PRICES.tolist(), -1.0)
    for i in range(20, 40):
        first, second = (r.route(m[i], refine=q[i].__getitem__) for r in (router, again))
        assert (first.choice, first.refined, first.spend) == (second.choice, second.refined, second.spend)
    assert again.lam == router.lam
    first.save(tmp_path / "decision.npz")
    assert Decision.load(tmp_path / "decision.npz").name == first.name


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_a_copy_goes_on_by_itself(twin):
    m, q, _ = world(20, rho=0.3, seed=7)
    router = Router(fitted("joint", rho=0.3), 0.01, PRICES)
    router.set_budget(0.02)
    router.route(m[0], refine=q[0].__getitem__)
    again, before = twin(router), router.counters()
    assert again.counters() == before
    found = [again.route(x, refine=y.__getitem__).choice for x, y in zip(m, q, strict=True)]
    assert router.counters() == before
    assert found == [router.route(x, refine=y.__getitem__).choice for x, y in zip(m, q, strict=True)]
    assert again.lam == router.lam


def test_features_go_through_both_estimators(needs):
    needs("sklearn")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5))
    y = np.tanh(X[:, :3] * X[:, 3:4])
    fit = fit_router(y, features=X)
    decision = Router(fit, 0.001).route(X[0])
    for k, value in decision.refined.items():
        assert value == pytest.approx(fit.refined(X[0])[k])
    with pytest.raises(ValueError, match=r"5 columns, the columns of the fit, got shape \(4,\)"):
        Router(fit, 0.001).route(X[0, :4])


def test_binary_values_use_their_own_gain():
    """PB-14: at p = .97 against .99 the Gaussian gain exceeds what a value in {0, 1} can give."""
    rng = np.random.default_rng(0)
    n = 20_000
    p = np.tile([0.97, 0.99], (n, 1))
    spread = math.sqrt(0.97 * 0.03 / 4)
    k = 0.97 * 0.03 / spread**2 - 1
    q = np.stack([rng.beta(0.97 * k, 0.03 * k, n), np.full(n, 0.99)], 1)
    y = (rng.random((n, 2)) < q).astype(float)
    cost = 0.015  # between the exact gain .0069 and the Gaussian .0250
    policies = {}
    for returns in ("binary", "gaussian"):
        fit = fit_router(y, p, q, returns=returns, dependence="independent")
        policies[returns] = Router(fit, cost, policy="kg").route([0.97, 0.99], refine=lambda k: 0.5).trace
    assert len(policies["binary"]) == 0
    assert policies["gaussian"][0]["specialist"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"costs": -1.0}, "cost must be >= 0; got min -1"),
        ({"costs": [0.1, 0.1]}, r"costs must be a number or have shape \(4,\), got shape \(2,\)"),
        ({"costs": math.nan}, "cost must be >= 0; got min nan"),
        ({"costs": "free"}, "costs must hold real numbers"),
        ({"prices": math.inf}, "prices must be finite; got inf"),
        ({"lam": -1.0}, "lam must be >= 0"),
        ({"lam": math.nan}, "lam must be >= 0"),
        ({"outside": math.nan}, "outside must be a number or -inf"),
        ({"policy": "best"}, "policy"),
        ({"names": ["a"]}, "names must name the 4"),
        ({"names": ["a", "b", "a", "c"]}, "must differ from each other and from 'outside', got 'a'"),
        ({"names": ["a", "b", "outside", "c"]}, "got 'outside'"),
    ],
)
def test_bad_construction(change, message):
    with pytest.raises(ValueError, match=message):
        Router(**({"fitted": fitted(), "costs": 0.1} | change))


def test_bad_calls():
    router = Router(fitted(), 0.1)
    with pytest.raises(TypeError, match="must come from fit_router"):
        Router(object(), 0.1)
    with pytest.raises(ValueError, match="exponential in K; K=15 > 14"):
        Router(fitted(K=15), 0.1, policy="rollout")
    with pytest.raises(ValueError, match="no expensive estimator: pass refine="):
        router.route([0.0] * 4)
    with pytest.raises(TypeError, match="function of the specialist, got list"):
        router.route([0.0] * 4, refine=[1, 2])
    for awaited in (asyncio.sleep, lambda k: asyncio.sleep(k)):
        with pytest.raises(TypeError, match="use await router"):
            router.route([0.0] * 4, refine=awaited)
    with pytest.raises(ValueError, match="describe one query"):
        router.route(np.zeros((2, 4)), refine=lambda k: 0.0)
    with pytest.raises(ValueError, match="cheap estimates must be finite"):
        router.route([math.nan] * 4, refine=lambda k: 0.0)
    for bad in ({"concurrency": 0}, {"timeout": 0.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            asyncio.run(router.aroute([0.0] * 4, lambda k: 0.0, **bad))
    for bad in ({"spend_per_query": 0.0}, {"spend_per_query": 1.0, "rate": math.nan}):
        with pytest.raises(ValueError, match="must be finite and > 0"):
            router.set_budget(**bad)
    with pytest.raises(ValueError, match="lam must be"):
        router.lam = math.inf


def test_one_specialist():
    m, q, y = world(K=1)
    with pytest.warns(NumericalWarning, match="one specialist"):
        fit = fit_router(y, m, q)
    with pytest.warns(NumericalWarning, match="one specialist"):
        router = Router(fit, 0.1)
    assert router.route([0.2], refine=lambda k: 1.0).choice == 0
    outside = Router(fit, 0.01, outside=0.1)
    assert outside.route([0.0], refine=lambda k: -1.0).choice == -1
    assert outside.route([0.0], refine=lambda k: -1.0).name == "outside"
