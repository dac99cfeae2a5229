import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.sims.pandora import binary_irt, gaussian, levels, market
from porism.theory.pandora import (
    best_draws,
    bidder_statics,
    obligatory_value,
    pooled_sd,
    preposterior_sd,
    reservation_index,
    voi_correlated,
)

# Bands below are 5 standard errors: a true mean misses one with probability 6e-7.


def within(x, expected, errors=5):
    x = np.asarray(x, float)
    return abs(x.mean() - expected) <= errors * x.std() / math.sqrt(len(x)) + 1e-12


def test_gaussian_moments_are_those_of_the_draws():
    s, tau = np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.5, 0.0])
    world = gaussian(40000, 3, 0.5, s=s, tau=tau, mu=[0.0, 0.1, 0.2], spread=0.6, seed=0)
    r, e = world.refined - world.m, world.scores - world.m
    for i in range(3):
        assert within(world.m[:, i], [0.0, 0.1, 0.2][i])
        assert within(e[:, i] ** 2, s[i] ** 2)
        assert within(r[:, i] ** 2, world.nu[i] ** 2)
        for j in range(3):
            assert within(r[:, i] * r[:, j], world.A[i, j])
            assert within(e[:, i] * r[:, j], world.B[i, j])
            assert within(e[:, i] * e[:, j], s[i] * s[j] * (1 if i == j else 0.5))
    assert world.nu == pytest.approx(preposterior_sd(s, tau))
    assert np.array_equal(world.s, s)
    assert np.array_equal(world.tau, tau)


def test_gaussian_is_prior_and_cheap_signal():
    """PB-1: with rho = 0 the mean m is that of a noisy signal under the prior N(mu, spread^2 + s^2)."""
    s, spread, mu = 0.5, 0.6, 0.3
    world = gaussian(40000, 1, s=s, spread=spread, mu=mu, seed=1)
    prior = s**2 + spread**2
    noise = 1 / (1 / s**2 - 1 / prior)  # s^2 = prior w^2/(prior + w^2)
    x = mu + (world.m - mu) * (prior + noise) / prior
    error = (x - world.scores).ravel()
    assert within(error, 0)
    assert within(error**2, noise)
    assert within(error * (world.scores.ravel() - mu), 0)


def test_refined_estimates_are_calibrated():
    """Residuals are uncorrelated with what an estimate was made of; jointly for the joint estimate."""
    for world in (gaussian(40000, 3, 0.7, seed=2), binary_irt(40000, 3, difficulty=1.5, known=0.2, seed=2)):
        left, joint = world.scores - world.refined, world.scores - world.refined_joint
        for i in range(3):
            assert within(left[:, i] * (world.refined - world.m)[:, i], 0)
            assert within(left[:, i] * world.m[:, i], 0)
            for j in range(3):
                assert within(joint[:, i] * (world.refined - world.m)[:, j], 0)
        # and the marginal one is not, beside others' signals
        assert not within(left[:, 0] * (world.refined - world.m)[:, 1], 0)


def test_independent_gaussian_joint_is_marginal():
    world = gaussian(100, 4, tau=[0.1, 0.2, 0.3, 0.0], seed=0)
    assert world.refined_joint == pytest.approx(world.refined, abs=1e-12)


def test_gaussian_joint_by_conditioning():
    """The same conditional mean from the covariance of values and signals."""
    s, tau, rho = np.array([0.5, 0.7]), np.array([0.4, 0.2]), 0.6
    world = gaussian(20, 2, rho, s=s, tau=tau, seed=5)
    cov = np.outer(s, s) * np.array([[1, rho], [rho, 1]])
    share = s**2 / (s**2 + tau**2)
    y = (world.refined - world.m) / share
    direct = world.m + y @ np.linalg.solve(cov + np.diag(tau**2), cov)
    assert world.refined_joint == pytest.approx(direct, abs=1e-12)


def test_one_step_gain_of_a_correlated_world():
    """PB-15: the mean realised gain of refining one specialist is the correlated value of information."""
    m = np.array([0.3, 0.1, -0.2])
    world = gaussian(60000, 3, 0.5, s=0.7, tau=0.3, mu=m, spread=0.0, seed=3)
    r = world.refined - world.m
    after = m + r[:, :1] * (world.B[:, 0] / world.A[0, 0])
    gain = world.value(after.argmax(1)) - world.scores[:, 0]
    expected = float(voi_correlated(m, world.B[:, 0] / np.sqrt(world.A[0, 0])))
    assert expected == pytest.approx(0.05237, abs=5e-6)  # the published number
    assert within(gain, expected)


def test_weitzman_value_by_simulation():
    """PB-5's coupling: E max min(M, sigma) over a simulated world with obligatory refinement."""
    m, c = np.array([0.2, 0.5, -0.1]), np.array([0.05, 0.02, 0.1])
    s = np.array([0.9, 0.5, 1.3])
    nu = np.array([0.8, 0.4, 1.1])
    tau = s * np.sqrt(s**2 / nu**2 - 1)
    world = gaussian(60000, 3, s=s, tau=tau, mu=m, spread=0.0, seed=4)
    assert world.nu == pytest.approx(nu)
    capped = np.minimum(world.refined, reservation_index(m, nu, c)).max(1)
    value = obligatory_value(m, nu, c, outside=0.0)
    assert value == pytest.approx(0.74485548843895718, abs=1e-9)
    assert within(np.maximum(capped, 0.0), value)


def test_binary_world_truth():
    world = binary_irt(60000, 3, ability=[1.0, 0.0, -0.5], tau=[0.5, 1.0, 3.0], known=0.3, seed=0)
    assert set(np.unique(world.scores)) == {0.0, 1.0}
    r = world.refined - world.m
    for k in range(3):
        assert within(world.scores[:, k] - world.m[:, k], 0)
        assert within((world.scores[:, k] - world.m[:, k]) ** 2 - world.s[:, k] ** 2, 0)
        assert within(r[:, k] ** 2 - world.nu[:, k] ** 2, 0)
        assert within(r[:, k] ** 2 - r[:, k] * (world.scores[:, k] - world.m[:, k]), 0)
    assert preposterior_sd(world.s, world.tau) == pytest.approx(world.nu, abs=1e-12)
    share = np.corrcoef((world.scores - world.m).T)[0, 1]
    assert share > 0.2  # difficulty is shared
    alone = binary_irt(60000, 2, difficulty=0.0, seed=0)
    assert within(np.prod(alone.scores - alone.m, axis=1), 0)


def test_binary_nu_by_quadrature():
    """nu^2 = E[q^2] - m^2 for one query, by Gauss-Hermite over the signal."""
    from scipy.special import ndtr

    ability, tau, known, difficulty = 0.4, 0.7, 0.25, 1.2
    world = binary_irt(3, 1, ability=[ability], tau=tau, known=known, difficulty=difficulty, seed=0)
    total = difficulty**2 * (1 - known) + 1
    g = total / (total + tau**2)
    x, w = np.polynomial.hermite_e.hermegauss(120)
    from scipy.special import ndtri

    for i in range(3):
        t = ndtri(world.m[i, 0])
        q = ndtr((t - math.sqrt(g) * x) / math.sqrt(1 - g))
        mean, square = (w @ q**p / w.sum() for p in (1, 2))
        assert mean == pytest.approx(world.m[i, 0], abs=1e-9)
        assert square - mean**2 == pytest.approx(world.nu[i, 0] ** 2, abs=1e-9)


def test_binary_marginals_can_mislead_though_calibrated():
    """PB-17 in a world with a known law: unequal signals, shared difficulty."""
    world = binary_irt(40000, 4, ability=[2.0, 0.0, 0.0, 0.0], tau=[2.0, 9.0, 9.0, 9.0], known=0.0,
                       difficulty=3.0, seed=0)  # fmt: skip
    cheap, marginal, joint = (world.value(x.argmax(1)) for x in (world.m, world.refined, world.refined_joint))
    predicted = world.refined.max(1)
    gap = predicted - marginal
    assert gap.mean() > 5 * gap.std() / math.sqrt(len(gap))  # optimistic
    loss = cheap - marginal
    assert loss.mean() > 5 * loss.std() / math.sqrt(len(loss))  # and worse than not refining
    assert within(world.refined_joint.max(1) - joint, 0)  # the joint one keeps its promise
    assert within(joint - cheap, 0) or joint.mean() > cheap.mean()


def test_levels_truth():
    world = levels(40000, 2, draws=9, s=[1.0, 0.5], tau=[3.0, 0.5], seed=0)
    assert world.draws.shape == (40000, 2, 9)
    assert np.array_equal(world.refined[..., 0], world.m)
    assert world.nu == pytest.approx(
        np.array([pooled_sd(a, b, np.arange(10.0)) for a, b in ((1.0, 3.0), (0.5, 0.5))])
    )
    for k in range(2):
        for count in (1, 4, 9):
            move = world.refined[:, k, count] - world.m[:, k]
            assert within(move**2, world.nu[k, count] ** 2)
            assert within((world.scores[:, k] - world.refined[:, k, count]) * move, 0)


def test_best_number_of_draws_pays_what_it_promises():
    """PB-16: the gain of the best number of draws over an alternative at a gap, by simulation."""
    gap, cost = 1.5, 0.0004
    number, net = best_draws(gap, 1.0, 3.0, cost, max_draws=30)
    world = levels(60000, 1, draws=30, spread=0.0, seed=1)
    gain = np.maximum(world.refined[:, 0, number] - gap, 0.0)
    assert within(gain, net + cost * number)


def test_market_with_one_competitor_is_the_closed_form():
    for price in ("raw", "shrunk"):
        for omega in (0.0, 0.5):
            found = market(60000, 1, omega, seed=3).change(price)
            exact = bidder_statics(0.0, 0.5, 0.02, 1.2, 0.3, omega, price=price)
            for key in ("dU", "dA", "dW"):
                assert abs(getattr(found, key) - exact[key]) <= 5 * getattr(found, key + "_se")
            rate = exact["refine_rate"]
            assert abs(found.refine_rate - rate) <= 5 * math.sqrt(rate * (1 - rate) / 60000)


def test_market_conditional_means_agree_with_raw_outcomes():
    """The changes by conditional means are those of the realised values."""
    world = market(60000, 5, 0.6, m=1.5, mu=0.0, seed=0)
    change = world.change("raw")
    assert change.dU > 0 > change.dA > change.dW  # PB-22, five competitors
    winner = world.competitors[np.arange(60000), world.estimates.argmax(1)]
    assert within(winner - world.shrunk, 0)
    from porism.theory.pandora import bidder_decision

    buys = np.asarray(bidder_decision(world.m, world.nu, world.c, world.raw).refine)
    after = np.where(np.where(buys, world.refined, world.m) >= world.raw, world.value, winner)
    before = np.where(world.m >= world.raw, world.value, winner)
    assert within(after - before, change.dA)
    shrunk = world.change("shrunk")
    assert shrunk.dU == pytest.approx(shrunk.dW, abs=1e-15)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 6),
    K=st.integers(1, 5),
    rho=st.floats(0, 1),
    tau=st.floats(0, 5),
)
def test_worlds_are_finite_and_repeat(seed, n, K, rho, tau, tmp_path_factory):
    for make in (
        lambda: gaussian(n, K, rho, tau=tau, seed=seed),
        lambda: binary_irt(n, K, tau=tau + 1e-3, known=rho, difficulty=tau, seed=seed),
        lambda: levels(n, K, draws=2, tau=tau, seed=seed),
        lambda: market(n, K, omega=rho, tau=tau, seed=seed),
    ):
        world, again = make(), make()
        for name, value in vars(world).items():
            same = getattr(again, name)
            assert np.array_equal(value, same) if isinstance(value, np.ndarray) else value == same
            if isinstance(value, np.ndarray) and name != "tau":
                assert np.isfinite(value).all(), name
    if n > 1:
        assert not np.array_equal(gaussian(n, K, seed=seed).m, gaussian(n, K, seed=seed + 1).m)


def test_worlds_save(tmp_path):
    for name, world in (("g", gaussian(5, 2, seed=0)), ("l", levels(5, 2, seed=0)), ("m", market(5, seed=0))):
        world.save(tmp_path / name)
        assert np.array_equal(Result.load(tmp_path / name).refined, world.refined)
    with pytest.raises(AttributeError):
        world.m = 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian(0, 2), "n must be >= 1"),
        (lambda: gaussian(5, 0), "K must be >= 1"),
        (lambda: gaussian(5, 3, -0.6), r"rho must be in \[-0.5, 1\] for K=3, got -0.6"),
        (lambda: gaussian(5, 3, math.nan), "rho must be in"),
        (lambda: gaussian(5, 2, s=0.0), "s must be > 0; got 0"),
        (lambda: gaussian(5, 2, tau=-1.0), "tau must be >= 0; got -1"),
        (lambda: gaussian(5, 2, s=[1.0, 1.0, 1.0]), r"s must be a number or have shape \(2,\)"),
        (lambda: gaussian(5, 2, mu=math.inf), "mu must be finite"),
        (lambda: binary_irt(5, 2, known=1.5), "known must be in"),
        (lambda: binary_irt(5, 2, difficulty=-1.0), "difficulty must be finite and >= 0"),
        (lambda: binary_irt(5, 2, tau=0.0), "tau must be > 0"),
        (lambda: levels(5, 2, draws=0), "draws must be >= 1"),
        (lambda: market(5, 1, -0.1), "omega must be >= 0"),
        (lambda: market(5, 0), "K must be >= 1"),
        (lambda: market(5, 1, s=0.0), "s must be > 0"),
        (lambda: market(5, seed=0).change("mean"), "price must be one of 'raw', 'shrunk'"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
