"""Routing to the end: against the reference, its own steps, and exact gains."""

import numpy as np
import pytest

from porism.kernels import voi
from porism.kernels.voi import cpu
from porism.theory.pandora import inspection_halfwidth, voi_net

BACKENDS = ["cpu", "reference"]


def routing_problem(n, K, seed=0, coarse=False, each=False):
    """Means, refined estimates that fail here and there, parameters; coarse: many ties."""
    rng = np.random.default_rng([seed, n, K])
    shape = (n, K) if each else K
    nu = rng.uniform(0.0, 0.6, shape)
    c = nu * rng.uniform(0.0, 0.45, shape)  # some never pay: 0.45 > psi(0)
    m = rng.normal(size=(n, K))
    rng = np.random.default_rng([seed, K])
    nu += 0.1
    if coarse:
        m, nu, c = np.round(m, 1), np.full_like(nu, 0.5), np.full_like(c, 0.03)
    refined = m + nu * rng.normal(size=(n, K))
    refined = np.round(refined, 1) if coarse else refined
    refined[rng.random((n, K)) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
    return m, refined, nu, c, inspection_halfwidth(nu, c)


@pytest.mark.parametrize("rule", ["net", "index"])
@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(("n", "K"), [(40, 1), (60, 2), (0, 3), (40, 7), (6, 64), (5, 65), (2, 129)])
def test_routes_agree(n, K, each, coarse, rule):
    args = routing_problem(n, K, 3, coarse, each)
    rng = np.random.default_rng(K)
    for options in (
        {},
        {"price": np.round(rng.random(K), 1), "fee": rng.random(K), "outside": 0.2, "rounds": 2},
        {"outside": 1.0, "rounds": 0},
    ):
        found, expected = (voi.voi_route(*args, rule=rule, backend=b, **options) for b in BACKENDS)
        for got, wanted in zip(found, expected, strict=True):
            assert np.array_equal(got, wanted)
    assert [part.dtype for part in found] == [np.int64, float, np.int64, np.int64, float, np.int64]


@pytest.mark.parametrize("rule", ["net", "index"])
@pytest.mark.parametrize("coarse", [False, True])
def test_a_route_is_its_steps(coarse, rule):
    """All queries in step, one call a round, bits for what is done: the same to the last digit."""
    n, K = 3000, 20
    m, refined, *rest = routing_problem(n, K, 5, coarse)
    m, refined = m.astype(np.float32), refined.astype(np.float32)
    fee = np.linspace(0.1, 0.7, K)
    mean, rows = m.astype(float), np.arange(n)
    good, bad, paid, done = np.zeros(n, int), np.zeros(n, int), np.zeros(n), np.zeros(n, np.int64)
    while True:
        arg, top = voi.voi_argmax(mean, *rest, done=done, outside=-0.5, rule=rule)[1:3]
        at = rows[arg >= 0]
        if not at.size:
            break
        i = arg[at].astype(int)
        assert not (done[at] >> i & 1).any()
        done[at] |= 1 << i
        fine = np.isfinite(refined[at, i])
        good[at] += fine
        bad[at] += ~fine
        paid[at] += np.where(fine, fee[i], 0.0)
        mean[at[fine], i[fine]] = refined[at[fine], i[fine]]
    found = voi.voi_route(m, refined, *rest, fee=fee, outside=-0.5, rule=rule)
    value = np.where(top >= 0, mean[rows, top], -0.5)
    for got, wanted in zip(found, (top, value, good, bad, paid), strict=False):
        assert np.array_equal(got, wanted)
    assert found[5].sum() == good.sum()
    assert good.max() > 3
    assert bad.max() > 1


def test_near_ties_are_decided_by_exact_gains():
    """Gains apart by less than the slack of the bounds, and by rounding at least: the larger wins."""
    rng = np.random.default_rng(4)
    n = 2000
    m = np.zeros((n, 3))
    m[:, 1:] = -0.3 - rng.uniform(-1, 1, (n, 2)) * 10.0 ** rng.uniform(-12, -5, (n, 2))
    m[:, 0] = rng.choice([-5.0, 0.0], n)
    nu, c = np.array([0.0, 0.5, 0.5]), np.array([9.0, 0.01, 0.01])
    w = inspection_halfwidth(nu, c)
    gains = voi_net(m, nu, c)
    arg = voi.voi_argmax(m, nu, c, w)[1]
    assert np.array_equal(arg, gains.argmax(axis=1))
    assert (np.sort(gains)[:, -1] - np.sort(gains)[:, -2]).max() < cpu.SLACK
    first = voi.voi_route(m, m, nu, c, w, rounds=1, fee=[1, 2, 4])
    assert np.array_equal(first[4], np.array([1, 2, 4])[arg])


def test_a_route_with_nan_is_flagged():
    m, *rest = routing_problem(3, 65)
    m[1, 64] = np.nan
    for backend in BACKENDS:
        choice, value, good, bad, paid, _ = voi.voi_route(m, *rest, fee=np.ones(65), backend=backend)
        assert (choice[1], good[1], bad[1], paid[1]) == (-1, 0, 0, 0.0)
        assert np.isnan(value).tolist() == [False, True, False]


def test_routes_from_any_layout_and_dtype():
    m, refined, *rest = routing_problem(20, 6, seed=7)
    expected = voi.voi_route(m, refined, *rest)
    wide = np.stack([refined, refined], -1)[..., 1]
    wide.flags.writeable = False
    for got, wanted in zip(voi.voi_route(np.asfortranarray(m), wide, *rest), expected, strict=True):
        assert np.array_equal(got, wanted)
    half = voi.voi_route(m.astype(np.float16), refined.astype(np.float32), *rest)
    same_ = voi.voi_route(m.astype(np.float16).astype(float), refined.astype(np.float32).astype(float), *rest)
    for got, wanted in zip(half, same_, strict=True):
        assert np.array_equal(got, wanted)
