"""Routing in bulk: a loop over queries, exact policy values, simulated worlds, failures, memory."""

import math
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pandora import inspection_halfwidth, policy_value, psi, voi_correlated
from porism.theory.pandora.innovation import Innovation
from porism.theory.pandora.routes import Routes, route_batch

POLICIES = ["cheap", "exhaustive", "weitzman", "kg", "kg_sigma", "kg_joint"]


def correlated(K, rng):
    F = rng.normal(size=(2 * K, 2 * K)) * 0.4
    C = F @ F.T / K
    return C[:K, :K], C[K:, :K]


def one_query(m, nu, c, q, policy, price, lam, outside, law, rounds):
    """The policies as one would write them down, for one query: fresh inverses, no bands, no bit masks."""
    K = len(m)
    mean, S, tried = m.copy(), [], []
    cost = lam * c
    w = inspection_halfwidth(nu, cost)
    for _ in range(rounds):
        x = mean - lam * price
        left = [i for i in range(K) if i not in tried]
        if policy == "cheap" or not left:
            break
        other = {i: max([outside, *(x[j] for j in range(K) if j != i)]) for i in left}
        score = {}
        if policy == "exhaustive":
            score = {i: (-i if rounds >= K else (m - lam * price)[i]) for i in left}
        elif policy == "weitzman":
            best = max([outside, *(x[j] for j in S)])
            index = {i: (m - lam * price)[i] + w[i] for i in left}
            score = index if max(index.values()) > best else {}
        elif policy == "kg_joint":
            A, B = law
            for i in left:
                weight = np.linalg.solve(A[np.ix_(S, S)], A[S, i])
                slope = (B[:, i] - B[:, S] @ weight) / math.sqrt(A[i, i] - A[i, S] @ weight)
                usable, moves = (
                    (x, slope) if outside == -math.inf else (np.append(x, outside), np.append(slope, 0))
                )
                gain = voi_correlated(usable, moves) - cost[i]
                if gain > 0:
                    score[i] = gain
        else:
            for i in left:
                if math.isinf(other[i]) or nu[i] == 0:
                    continue
                gain = nu[i] * psi(abs(x[i] - other[i]) / nu[i]) - cost[i]
                if gain > 0:
                    score[i] = gain if policy == "kg" else x[i] + w[i]
        if not score:
            break
        i = max(sorted(score), key=score.__getitem__)
        tried.append(i)
        if not math.isfinite(q[i]):
            continue
        S.append(i)
        if law is None:
            mean[i] = q[i]
        else:
            A, B = law
            mean = m + B[:, S] @ np.linalg.solve(A[np.ix_(S, S)], (q - m)[S])
    x = mean - lam * price
    if policy == "weitzman" and (S or outside > -math.inf):
        x = np.where(np.isin(np.arange(K), S), x, -math.inf)
    choice = -1 if outside > x.max() else int(x.argmax())
    spend = sum(c[i] for i in S) + (price[choice] if choice >= 0 else 0)
    return choice, len(S), spend, mean[choice] if choice >= 0 else outside, len(tried) - len(S)


@pytest.mark.parametrize(
    ("policy", "joint"), [*((p, True) for p in POLICIES), *((p, False) for p in POLICIES[:-1])]
)
@pytest.mark.parametrize("case", range(6))
def test_a_loop_over_queries(policy, joint, case):
    rng = np.random.default_rng(case)
    n, K = 60, [2, 3, 4, 5, 3, 1][case]
    m = rng.normal(size=(n, K)) * 0.7
    nu = rng.uniform(0.1, 0.9, (n, K) if case in (2, 4) else K)
    c, price = rng.uniform(0.005, 0.12, K), rng.uniform(0, 0.5, K)
    lam, outside = [1.0, 0.7, 1.0, 0.3, 2.0, 1.0][case], [-math.inf, 0.1, 0.4, -math.inf, 0.0, 0.2][case]
    q = m + nu * rng.normal(size=(n, K))
    q[rng.random((n, K)) < 0.15] = np.nan
    law = correlated(K, rng) if joint else None
    rounds = max(1, K - 1) if case in (1, 3) else K
    found = route_batch(m, nu, c, price, lam, policy, refined=q, innovation=law, max_rounds=rounds,
                        outside=outside, chunk=23)  # fmt: skip
    rows = np.broadcast_to(nu, (n, K))
    expected = [one_query(m[i], rows[i], c, q[i], policy, price, lam, outside, law, rounds) for i in range(n)]
    choice, count, spend, value, failed = map(np.array, zip(*expected, strict=True))
    assert np.array_equal(found.choice, choice)
    assert np.array_equal(found.n_refine, count)
    assert np.array_equal(found.n_failed, failed)
    assert found.spend == pytest.approx(spend, abs=1e-12)
    assert found.value_est == pytest.approx(value, abs=1e-10)
    assert sum(found.per_specialist) == count.sum()
    assert (found.policy, found.lam) == (policy, lam)


@pytest.mark.parametrize("outside", [-math.inf, 0.3])
def test_a_diagonal_law_routes_as_independent_specialists(outside):
    rng = np.random.default_rng(0)
    m, nu, c = rng.normal(size=(2000, 6)), rng.uniform(0.2, 0.9, 6), rng.uniform(0.01, 0.1, 6)
    q = m + nu * rng.normal(size=m.shape)
    law = np.diag(nu**2), np.diag(nu**2)
    alone = route_batch(m, nu, c, policy="kg", refined=q, outside=outside)
    joint = route_batch(m, nu, c, policy="kg_joint", refined=q, innovation=law, outside=outside)
    assert np.array_equal(alone.choice, joint.choice)
    assert np.array_equal(alone.n_refine, joint.n_refine)
    assert alone.value_est == pytest.approx(joint.value_est, abs=1e-12)
    assert (alone.n_refine > 1).any()


@pytest.mark.parametrize("policy", ["weitzman", "kg", "kg_sigma", "exhaustive"])
def test_mean_value_is_the_exact_one(policy):
    """Independent Gaussian refinements: the mean over draws against the dynamic program."""
    n, rng = 60_000, np.random.default_rng(7)
    m, nu, c = (
        np.array([0.3, 0.5, -0.1, 0.4]),
        np.array([0.8, 0.4, 1.1, 0.2]),
        np.array([0.05, 0.02, 0.1, 0.01]),
    )
    q = m + nu * rng.normal(size=(n, 4))
    routes = route_batch(np.tile(m, (n, 1)), nu, c, policy=policy, refined=q)
    net = routes.value_est - routes.spend
    error = net.std() / math.sqrt(n)
    exact = policy_value(policy, m, nu, c)  # grid error 1e-5
    assert abs(net.mean() - exact) < 4 * error + 1e-5  # false alarm 6e-5
    assert error < 0.003


@pytest.mark.parametrize("policy", ["kg", "kg_sigma", "kg_joint", "exhaustive", "weitzman"])
def test_realised_value_is_the_estimated_one(policy):
    """In a Gaussian world with the true law, estimates of the chosen are not biased."""
    n, K, rng = 40_000, 4, np.random.default_rng(11)
    A, B = correlated(K, rng)
    L = np.linalg.cholesky(A)
    m, r = rng.normal(size=(n, K)), rng.normal(size=(n, K)) @ L.T
    noise = rng.normal(size=(n, K)) * 0.3  # of the value, unknown even after all refinements
    V = m + r @ np.linalg.solve(A, B.T) + noise
    routes = route_batch(m, np.sqrt(A.diagonal()), 0.05, policy=policy, refined=m + r, innovation=(A, B))
    off = routes.value_est - V[np.arange(n), routes.choice]
    assert abs(off.mean()) < 4 * off.std() / math.sqrt(n)
    assert routes.n_refine.mean() > 0.2
    if policy == "exhaustive":  # taking refined estimates one by one is optimistic: the law matters
        naive = route_batch(m, np.sqrt(A.diagonal()), 0.05, policy=policy, refined=m + r)
        off = naive.value_est - V[np.arange(n), naive.choice]
        assert abs(off.mean()) > 10 * off.std() / math.sqrt(n)


def test_joint_routing_beats_independent_routing_where_difficulty_is_shared():
    n, rng = 20_000, np.random.default_rng(3)
    Sigma = 0.25 * (0.1 * np.eye(5) + 0.9)
    m = 0.3 * rng.normal(size=(n, 5))
    V = m + rng.normal(size=(n, 5)) @ np.linalg.cholesky(Sigma).T
    joint, alone = (
        route_batch(m, [0.5] * 5, 0.02, policy=policy, refined=V, innovation=(Sigma, Sigma))
        for policy in ("kg_joint", "kg")
    )
    gain = joint.value_est - joint.spend - alone.value_est + alone.spend
    assert gain.mean() > 4 * gain.std() / math.sqrt(n)
    assert joint.n_refine.mean() < 0.7 * alone.n_refine.mean()


@pytest.mark.parametrize("policy", POLICIES)
def test_chunks_callables_and_precision_do_not_matter(policy):
    rng = np.random.default_rng(5)
    m, nu, c = rng.normal(size=(200, 5)), rng.uniform(0.3, 1, 5), np.full(5, 0.02)
    q = m + nu * rng.normal(size=m.shape)
    law = correlated(5, rng)
    whole = route_batch(m, nu, c, policy=policy, refined=q, innovation=law)
    asked = []

    def refine(queries, specialists):
        assert queries.dtype == specialists.dtype == np.int64
        assert queries.size > 0
        asked.extend(zip(queries.tolist(), specialists.tolist(), strict=True))
        return q[queries, specialists].tolist()

    parts = route_batch(m, nu, c, policy=policy, refine=refine, innovation=Innovation(*law), chunk=7)
    for name in ("choice", "n_refine", "spend", "value_est", "n_failed", "per_specialist"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
    assert len(set(asked)) == len(asked) == whole.n_refine.sum()
    assert np.bincount([k for _, k in asked], minlength=5).tolist() == list(whole.per_specialist)
    again = route_batch(m, nu, c, policy=policy, refine=q, innovation=law)  # a matrix in place of a callable
    assert np.array_equal(again.value_est, whole.value_est)
    single = route_batch(m.astype(np.float32), nu, c, policy=policy, refined=q, innovation=law)
    double = route_batch(m.astype(np.float32).astype(float), nu, c, policy=policy, refined=q, innovation=law)
    assert np.array_equal(single.value_est, double.value_est)


@pytest.mark.parametrize("policy", ["kg", "kg_sigma"])
@pytest.mark.parametrize("case", range(4))
def test_a_matrix_at_once_is_a_callable_round_by_round(policy, case):
    """To the last digit, with ties, failures, free and impossible refinements, and means of every kind."""
    rng = np.random.default_rng(case)
    n, K = 300, [12, 70, 5, 2][case]
    nu = rng.uniform(0.0, 0.8, (n, K) if case % 2 else K)
    m = np.round(rng.normal(size=(n, K)), 1)
    q = np.round(m + nu * rng.normal(size=(n, K)), 1)
    q[rng.random((n, K)) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
    c = np.round(rng.uniform(0, 0.1, K), 2)
    c[0], c[-1] = 0.0, np.inf
    kinds = [np.float64, np.float32, np.int64, bool], [np.float64, np.float32, np.float16, np.float64]
    m, q = m.astype(kinds[0][case]), q.astype(kinds[1][case])
    options = {"policy": policy, "prices": rng.random(K), "lam": [1.0, 0.3, 0.0, 1.0][case],
               "outside": [-math.inf, 0.1, 0.0, 0.5][case], "max_rounds": [K, 3, K, 1][case]}  # fmt: skip
    whole = route_batch(m, nu, c, refined=q, chunk=128, **options)
    asked = route_batch(m, nu, c, refine=lambda queries, k: q[queries, k], **options)
    for name in ("choice", "n_refine", "spend", "value_est", "n_failed"):
        assert np.array_equal(getattr(whole, name), getattr(asked, name)), name
    assert whole.per_specialist == asked.per_specialist
    assert whole.n_refine.sum() > 0
    assert whole.n_failed.sum() > 0


@pytest.mark.parametrize("policy", ["exhaustive", "weitzman", "kg", "kg_sigma", "kg_joint"])
def test_what_fails_is_asked_once_and_not_charged(policy):
    rng = np.random.default_rng(6)
    m, nu, c = rng.normal(size=(50, 3)), np.ones(3), np.full(3, 0.01)
    asked = []

    def refine(queries, specialists):
        asked.extend(zip(queries.tolist(), specialists.tolist(), strict=True))
        return np.where(specialists == 1, [np.nan, np.inf, -np.inf][len(asked) % 3], m[queries, specialists])

    law = np.eye(3), np.eye(3)
    found = route_batch(m, nu, c, policy=policy, refine=refine, innovation=law)
    assert len(set(asked)) == len(asked)
    assert found.n_failed.sum() == sum(k == 1 for _, k in asked) > 0
    assert found.per_specialist[1] == 0
    assert found.spend == pytest.approx(0.01 * found.n_refine)
    if policy in ("exhaustive", "kg"):
        assert np.array_equal(found.choice, m.argmax(axis=1))  # nothing was learned, 1 is still usable
    if policy == "exhaustive":
        assert (found.n_failed == 1).all()
    nothing = route_batch(m, nu, c, policy=policy, refined=np.full_like(m, np.nan), innovation=law)
    assert np.array_equal(nothing.choice, m.argmax(axis=1))
    assert (nothing.spend == 0).all()


def test_rounds():
    rng = np.random.default_rng(8)
    m, q = rng.normal(size=(100, 4)), rng.normal(size=(100, 4))
    for policy in ("exhaustive", "kg", "weitzman"):
        for most in (0, 1, 2):
            found = route_batch(m, np.ones(4), 0.001, policy=policy, refined=q, max_rounds=most)
            assert found.n_refine.max() == most
    top = route_batch(m, np.ones(4), 0.0, policy="exhaustive", refined=q, max_rounds=1)
    lead = m.argmax(axis=1)
    assert list(top.per_specialist) == np.bincount(lead, minlength=4).tolist()
    assert route_batch(m, np.ones(4), 0.0, refined=q, max_rounds=99).n_refine.max() <= 4


def test_money():
    """Only lam times money counts for decisions; spend is money."""
    rng = np.random.default_rng(9)
    m, nu, c, p = rng.normal(size=(300, 3)), np.ones(3), rng.uniform(1, 5, 3), rng.uniform(10, 50, 3)
    q = m + rng.normal(size=m.shape)
    money = route_batch(m, nu, c, p, lam=0.02, policy="kg", refined=q)
    units = route_batch(m, nu, 0.02 * c, 0.02 * p, policy="kg", refined=q)
    assert np.array_equal(money.choice, units.choice)
    assert money.spend * 0.02 == pytest.approx(units.spend)
    assert np.array_equal(money.value_est, units.value_est)
    free = route_batch(m, nu, c, p, lam=0.0, policy="kg", refined=q)
    assert (free.n_refine == 3).all()  # at no cost every gap lies within the band
    assert np.array_equal(free.choice, q.argmax(axis=1))
    assert free.spend == pytest.approx(c.sum() + p[free.choice])


def test_specialists_that_cannot_be_refined():
    rng = np.random.default_rng(10)
    m, q = rng.normal(size=(100, 3)), rng.normal(size=(100, 3))
    for policy in POLICIES:
        found = route_batch(m, np.ones(3), [0.01, np.inf, 0.01], lam=0.5, policy=policy, refined=q,
                            innovation=(np.eye(3), np.eye(3)))  # fmt: skip
        assert found.per_specialist[1] == 0
        assert np.isfinite(found.spend).all()
    never = route_batch(m, [1.0, 0.0, 1.0], 0.01, policy="kg", refined=q)
    assert never.per_specialist[1] == 0


def test_outside_option():
    m = np.array([[0.2, 0.1], [-0.5, -0.9], [0.0, -1.0]])
    found = route_batch(m, np.zeros(2), 0.1, prices=[0.05, 0.0], policy="cheap", outside=0.0)
    assert found.choice.tolist() == [0, -1, -1]
    assert found.value_est.tolist() == [0.2, 0.0, 0.0]
    assert found.spend.tolist() == [0.05, 0.0, 0.0]


def test_more_specialists_than_bits():
    rng = np.random.default_rng(12)
    m, nu = rng.normal(size=(5, 70)), np.full(70, 0.7)
    q = m + nu * rng.normal(size=m.shape)
    law = np.diag(nu**2), np.diag(nu**2)
    for policy in ("kg", "kg_sigma", "exhaustive", "weitzman"):
        found = route_batch(m, nu, 0.02, policy=policy, refined=q)
        expected = [
            one_query(m[i], nu, np.full(70, 0.02), q[i], policy, np.zeros(70), 1, -math.inf, None, 70)
            for i in range(5)
        ]
        assert found.choice.tolist() == [row[0] for row in expected]
        assert found.n_refine.tolist() == [row[1] for row in expected]
    joint = route_batch(m, nu, 0.02, policy="kg_joint", refined=q, innovation=law)
    assert np.array_equal(joint.n_refine, route_batch(m, nu, 0.02, policy="kg", refined=q).n_refine)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_queries(policy):
    law = np.eye(2), np.eye(2)
    found = route_batch(
        np.zeros((0, 2)), [1, 1], 0.1, policy=policy, refined=np.zeros((0, 2)), innovation=law
    )
    assert found.choice.shape == found.spend.shape == (0,)
    assert "no queries" in found.summary()


def test_one_specialist():
    with pytest.warns(UserWarning, match="one specialist: refinement cannot change the choice"):
        found = route_batch([[0.3], [0.1]], [1.0], 0.0, policy="exhaustive", refined=[[1.0], [2.0]])
    assert found.choice.tolist() == [0, 0]
    assert found.n_refine.tolist() == [0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = route_batch([[0.3], [0.1]], [1.0], 0.01, refined=[[1.0], [-2.0]], outside=0.2)
    assert kept.choice.tolist() == [0, -1]


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_world(data):
    n, K = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    policy = data.draw(st.sampled_from(POLICIES))
    m, nu = np.round(rng.normal(size=(n, K)), 1), np.round(rng.uniform(0, 1, K), 1)
    q = np.where(rng.random((n, K)) < 0.2, np.nan, m + nu * rng.normal(size=(n, K)))
    c = data.draw(st.sampled_from([0.0, 0.01, 0.2, 1.0]))
    found = route_batch(m, nu, c, policy=policy, refined=q, innovation=(np.diag(nu**2),) * 2, outside=0.0,
                        chunk=data.draw(st.integers(1, 5)))  # fmt: skip
    assert ((found.choice >= -1) & (found.choice < K)).all()
    assert (found.n_refine + found.n_failed <= K).all()
    assert found.spend == pytest.approx(c * found.n_refine)
    assert (found.value_est >= 0).all()  # never worse than the outside option
    if c == 1.0 and policy not in ("exhaustive", "weitzman"):
        assert (found.n_refine == 0).all()


def test_results(tmp_path, needs):
    rng = np.random.default_rng(13)
    found = route_batch(rng.normal(size=(20, 3)), np.ones(3), 0.05, refined=rng.normal(size=(20, 3)))
    found.save(tmp_path / "routes.npz")
    back = Routes.load(tmp_path / "routes.npz")
    assert np.array_equal(back.choice, found.choice)
    assert np.array_equal(back.value_est, found.value_est)
    assert back.per_specialist == found.per_specialist
    assert found.summary().startswith("policy kg_sigma, lam = 1, 20 queries\nvalue estimated")
    assert "kg_sigma" in found._repr_html_()
    needs("pandas")
    frame = found.to_frame()
    assert list(frame.columns) == ["choice", "n_refine", "spend", "value_est", "n_failed"]
    assert len(frame) == 20


def peak(n, chunk, each, policy, asked):
    """Bytes at the highest point beyond what was there before."""
    rng = np.random.default_rng(0)
    m, q = (rng.normal(size=(n, 32)).astype(np.float32) for _ in range(2))
    nu = np.full((n, 32), 0.5, dtype=np.float32) if each else np.full(32, 0.5)
    law = (np.eye(32) * 0.25,) * 2 if policy == "kg_joint" else None
    tracemalloc.start()
    try:
        refine = (lambda queries, k: q[queries, k]) if asked else q
        route_batch(m, nu, 0.15, policy=policy, refine=refine, innovation=law, chunk=chunk, max_rounds=3)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("policy", "each", "asked"),
    [
        *((p, False, False) for p in ("exhaustive", "weitzman", "kg", "kg_joint")),
        ("kg", False, True),
        ("kg_sigma", True, False),
        ("kg_sigma", True, True),
    ],
)
def test_memory_is_that_of_a_chunk(policy, each, asked, monkeypatch):
    """As the docstring says, beyond results and a constant: a block of entries, the cache of sets."""
    from porism.theory.pandora import _bulk, innovation

    monkeypatch.setattr(innovation, "CACHE", 1 << 18)
    monkeypatch.setattr(_bulk, "BLOCK", 1 << 14)
    n = 4000
    peak(10, 10, each, policy, asked)  # compiled code is loaded, and counted, once
    small, large = (peak(n, chunk, each, policy, asked) for chunk in (200, 2000))
    entry = (70 if policy == "kg_joint" else 50) + (20 if each else 0)
    blocks = 2**20 if policy == "kg_joint" or each else 2**18
    assert blocks < n * 32 * 16  # copies of all means would show
    assert small < 5 * 8 * n + 200 * 32 * entry + blocks
    assert large - small < 1800 * 32 * entry + blocks


M = np.zeros((4, 3))
ONE = np.ones(3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: route_batch(ONE, ONE, 0.1), r"m must have shape \(n, K\), got \(3,\)"),
        (lambda: route_batch(np.zeros((4, 0)), [], 0.1), "need at least 1 specialist"),
        (lambda: route_batch(M.astype(object), ONE, 0.1), "m must hold real numbers, got dtype object"),
        (lambda: route_batch(M * np.nan, ONE, 0.1, refined=M), "m must be finite"),
        (lambda: route_batch(M, ONE[:2], 0.1), r"nu of shape \(2,\) does not fit m of shape \(4, 3\)"),
        (lambda: route_batch(M, -ONE, 0.1, refined=M), "nu must be >= 0 and finite; got -1"),
        (lambda: route_batch(M, ONE * np.nan, 0.1, refined=M), "nu must be >= 0 and finite; got nan"),
        (lambda: route_batch(M, ONE, [0.1, -0.2, 0.1]), r"cost must be >= 0; got min -0\.2"),
        (lambda: route_batch(M, ONE, np.nan), "cost must be >= 0; got min nan"),
        (lambda: route_batch(M, ONE, [0.1, 0.1]), r"c must be a number or have shape \(3,\), got"),
        (lambda: route_batch(M, ONE, 0.1, prices=[1.0]), r"prices must be a number or have shape"),
        (lambda: route_batch(M, ONE, 0.1, prices=np.inf), "prices must be finite; got inf"),
        (lambda: route_batch(M, ONE, 0.1, lam=-1), "lam must be >= 0 and finite, got -1"),
        (lambda: route_batch(M, ONE, 0.1, lam=np.nan), "lam must be >= 0 and finite, got nan"),
        (lambda: route_batch(M, ONE, 0.1, policy="best"), "policy must be one of 'cheap'"),
        (
            lambda: route_batch(M, ONE, 0.1),
            "asks for refined estimates: pass refine=callable or refined=matrix",
        ),
        (lambda: route_batch(M, ONE, 0.1, refine=M, refined=M), "pass refine= or refined=, not both"),
        (
            lambda: route_batch(M, ONE, 0.1, refined=M[:2]),
            r"refined of shape \(2, 3\) does not fit m of shape \(4, 3\)",
        ),
        (lambda: route_batch(M, ONE, 0.1, refine=lambda q, k: 1.0), r"one value a pair, \(4,\), got \(\)"),
        (lambda: route_batch(M, ONE, 0.1, policy="kg_joint", refined=M), r"needs innovation=\(A, B\)"),
        (
            lambda: route_batch(M, ONE, 0.1, refined=M, innovation=(np.eye(2), np.eye(2))),
            r"innovation of shape \(2, 2\)",
        ),
        (
            lambda: route_batch(M, ONE, 0.1, refined=M, innovation=(-np.eye(3), np.eye(3))),
            "covariance not positive semidef",
        ),
        (lambda: route_batch(M, ONE, 0.1, refined=M, chunk=0), "chunk must be >= 1"),
        (lambda: route_batch(M, ONE, 0.1, refined=M, max_rounds=-1), "max_rounds must be >= 0"),
        (lambda: route_batch(M, ONE, 0.1, refined=M, outside=np.nan), "outside must be a number or -inf"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_bad_means_are_found_before_anything_is_asked():
    m = np.zeros((100, 2))
    m[99, 1] = np.nan
    with pytest.raises(ValueError, match="m must be finite"):
        route_batch(m, [1.0, 1.0], 0.01, refine=lambda q, k: pytest.fail("asked"), chunk=10)


def test_an_exception_of_the_callable_reaches_the_caller():
    def refine(queries, specialists):
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        route_batch(M, ONE, 0.01, refine=refine)
