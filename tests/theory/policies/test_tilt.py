"""Tilts and their combinations: numbers found with 30 digits, and properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.policies import (
    SoftmaxPolicy,
    certificate,
    coefficients_for,
    combine,
    expert_error,
    fit_coefficients,
    log_ratio_rank,
    objective,
    tilt,
)

REF = np.log([0.5, 0.3, 0.2])
R1, R2 = np.array([1.0, 0, 2]), np.array([0.0, 1, -1])
TARGET = 0.6 * R1 - 0.4 * R2 + 7
EXPERTS = [[0.2477195183, 0.0201151147, 0.732165367], [0.4480597838, 0.4432354177, 0.1087047985]]
OPTIMUM = [0.4791236511, 0.1475941708, 0.3732821781]

SEEDS = st.integers(0, 2**32 - 1)


def variation(log_p, log_q):
    return np.abs(np.exp(log_p) - np.exp(log_q)).sum() / 2


def drawn(seed, K=3, V=20):
    rng = np.random.default_rng(seed)
    ref = tilt(np.full(V, -np.log(V)), rng.normal(size=V), 1.0)
    return rng, ref, rng.normal(size=(K, V)), rng.uniform(0.3, 3, K)


def test_oracle():
    experts = tilt(REF, [R1, R2], [0.5, 2])
    np.testing.assert_allclose(np.exp(experts), EXPERTS, atol=5e-11)
    a = coefficients_for([0.6, -0.4], [0.5, 2], 1.5)
    np.testing.assert_allclose(a, [0.2, -0.8 / 1.5], rtol=1e-15)
    best = tilt(REF, TARGET, 1.5)
    np.testing.assert_allclose(np.exp(best), OPTIMUM, atol=5e-11)
    np.testing.assert_allclose(combine(REF, experts, a), best, atol=1e-14)
    assert objective(best, REF, TARGET, 1.5) == pytest.approx(7.663974085, abs=5e-10)
    assert variation(combine(REF, experts, a, base=False), best) == pytest.approx(0.2483909853, abs=5e-11)
    assert variation(combine(REF, experts, a / a.sum()), best) == pytest.approx(0.6603108689, abs=2e-10)
    assert SoftmaxPolicy(best).kl(SoftmaxPolicy(REF)) == pytest.approx(0.1078092816, abs=5e-11)


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_gap_is_divergence(seed):
    """PO-1, with log Z and the divergence by plain sums."""
    rng, ref, (r, *_), (beta, *_) = drawn(seed)
    pi = np.log(rng.dirichlet(np.ones(len(ref))))
    pi -= np.log(np.exp(pi).sum())
    top = beta * math.log(np.exp(ref) @ np.exp(r / beta))
    best = tilt(ref, r, beta)
    assert objective(best, ref, r, beta) == pytest.approx(top, rel=1e-12, abs=1e-12)
    direct = np.exp(pi) @ (pi - best)
    assert top - objective(pi, ref, r, beta) == pytest.approx(beta * direct, rel=1e-10, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_mixture(seed):
    """PO-2, any signs and any sum."""
    rng, ref, rewards, betas = drawn(seed)
    w, beta = rng.normal(size=3), float(rng.uniform(0.3, 3))
    found = combine(ref, tilt(ref, rewards, betas), coefficients_for(w, betas, beta))
    assert variation(found, tilt(ref, w @ rewards + rng.normal(), beta)) < 1e-12


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.floats(-5, 5))
def test_certificate_bounds_everything(seed, shift):
    """PO-5; a constant error costs nothing."""
    rng, ref, (r, e, _), (beta, *_) = drawn(seed)
    e = e * rng.uniform(0.01, 2) + shift
    one, two = SoftmaxPolicy(tilt(ref, r + e, beta)), SoftmaxPolicy(tilt(ref, r, beta))
    bound = certificate(e, beta)
    assert np.abs(one.log_prob - two.log_prob).max() <= bound.log_ratio + 1e-12
    assert max(one.kl(two), two.kl(one)) <= bound.kl + 1e-12
    assert variation(one.log_prob, two.log_prob) <= bound.tv + 1e-12
    lost = objective(one.log_prob, ref, r + e, beta) - objective(two.log_prob, ref, r + e, beta)
    assert lost == pytest.approx(beta * two.kl(one), abs=1e-11)
    assert lost <= bound.regret + 1e-11


def test_certificate_oracles():
    pi = SoftmaxPolicy(np.log([0.2, 0.5, 0.3]))
    other = pi.tilt([-1.0, 0.0, 1.0], 1.0)
    bound = certificate([1.0, 0.0, -1.0], 1.0)
    assert pi.kl(other) == pytest.approx(0.2286275738, abs=5e-11)
    assert bound.kl == 0.5
    assert variation(pi.log_prob, other.log_prob) == pytest.approx(0.2870763625, abs=5e-11)
    assert bound.tv == pytest.approx(0.4621171573, abs=5e-11)
    p = 1 / (1 + math.e)
    pair = SoftmaxPolicy(np.log([p, 1 - p]))
    worst, best = (pair.tilt([s, -s], 1.0).log_prob for s in (1.0, -1.0))
    assert variation(pair.log_prob, worst) == pytest.approx(bound.tv, abs=1e-15)
    assert variation(pair.log_prob, best) == pytest.approx(1 / (1 + math.e) - 1 / (1 + math.e**3), abs=1e-15)
    half = certificate([0.0, 3.0], 2.0)
    assert (half.log_ratio, half.regret) == (1.5, 2 * 1.5**2 / 8)


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_expert_error(seed):
    """PO-7, and it is attained where the errors agree."""
    rng, ref, rewards, betas = drawn(seed)
    a, e = rng.normal(size=3), rng.normal(size=(3, len(ref)))
    experts = tilt(ref, rewards, betas)
    off = tilt(ref, experts - ref + e, 1.0)
    osc = np.ptp(combine(ref, off, a) - combine(ref, experts, a))
    bound = expert_error(a, np.ptp(e, axis=1))
    assert osc <= bound + 1e-12
    shared = np.sign(a)[:, None] * e[0]
    off = tilt(ref, experts - ref + shared, 1.0)
    osc = np.ptp(combine(ref, off, a) - combine(ref, experts, a))
    assert osc == pytest.approx(expert_error(a, np.ptp(shared, axis=1)), rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.integers(1, 4))
def test_rank_is_that_of_the_rewards(seed, q):
    """PO-4, against the rank of the centred rewards; a reference of its own breaks it."""
    rng, ref, rewards, _ = drawn(seed, q, 30)
    mixed = rng.normal(size=(9, q)) @ rewards
    found = log_ratio_rank(ref, tilt(ref, mixed, rng.uniform(0.5, 2, 9)))
    assert found.rank == np.linalg.matrix_rank(mixed - mixed.mean(axis=1, keepdims=True), rtol=1e-9)
    assert len(found.singular_values) == 9
    wrong = tilt(ref, 0.3 * rng.normal(size=30), 1.0)
    policies = np.concatenate([tilt(ref, mixed[:6], 1.0), tilt(wrong, mixed[6:], 1.0)])
    assert log_ratio_rank(ref, policies).rank == min(q + 1, 9)


def test_zeros_stay_zeros():
    ref = np.log([0.5, 0.5, 1.0]) - np.log([1, 1, np.inf])
    found = tilt(ref, [[1, 2, 900], [0, 1, -900]], 1.0)
    assert np.isneginf(found[:, 2]).all()
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1)
    mixed = combine(ref, found, [0.5, -2.0])
    assert np.isneginf(mixed[2])
    assert variation(mixed, tilt(ref, [0.5, -1.0, 0.0], 1.0)) < 1e-14
    assert log_ratio_rank(ref, found).rank == 1
    assert objective(ref, ref, [1, 1, 5], 1.0) == pytest.approx(1)
    assert objective(np.log([0.2, 0.3, 0.5]), ref, [1, 1, 5], 1.0) == -math.inf


def test_large_rewards_do_not_overflow():
    found = tilt(REF, [1e6, 0, 0], 1e-3)
    assert np.exp(found).tolist() == [1, 0, 0]
    assert found[1] == pytest.approx(-1e9, rel=1e-6)
    bounds = certificate([1e300, -1e300], 1.0)  # its square is no float
    assert (bounds.kl, bounds.tv, bounds.regret) == (math.inf, 1.0, math.inf)


def test_no_policies_at_all():
    none = np.zeros((0, 3))
    np.testing.assert_allclose(combine(REF, none, []), REF, atol=1e-15)
    assert log_ratio_rank(REF, none).rank == 0
    assert tilt(REF, none, 1.0).shape == (0, 3)
    for method in ("least_squares", "moment"):
        fit = fit_coefficients(REF, none, [1.0, 2.0, 0.0], [0, 1, 2], 1.0, method)
        assert (fit.rank, fit.identifiable, fit.residual_oscillation) == (1, True, 2.0)
        np.testing.assert_allclose(fit.predict(), REF, atol=1e-15)


def test_bad_input():
    experts = tilt(REF, [R1, R2], 1.0)
    for beta in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="beta must be"):
            tilt(REF, R1, beta)
    with pytest.raises(ValueError, match="beta must be > 0"):
        tilt(REF, [R1, R2], [1.0, 0.0])
    with pytest.raises(ValueError, match="beta must be one number, or one a row"):
        tilt(REF, [R1, R2], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="reward must be finite"):
        tilt(REF, [np.inf, 0, 0], 1.0)
    with pytest.raises(ValueError, match="reward must have shape"):
        tilt(REF, [0, 0], 1.0)
    with pytest.raises(ValueError, match="log_ref must hold log-probabilities with logsumexp 0"):
        tilt(REF + 1e-3, R1, 1.0)
    with pytest.raises(ValueError, match="log_ref must be finite, got nan"):
        tilt([np.nan, 0, 0], R1, 1.0)
    with pytest.raises(ValueError, match="row 1 is zero at outcome 0, where the reference is positive"):
        combine(REF, [experts[0], np.log([1e-300, 0.5, 0.5]) - [np.inf, 0, 0]], [1, 1])
    hole = np.log([0.5, 0.5, 1]) - [0, 0, np.inf]
    with pytest.raises(ValueError, match="row 0 is positive at outcome 2, where the reference is zero"):
        combine(hole, experts[:1], [1])
    with pytest.raises(ValueError, match="log_policies must have the support of log_ref"):
        log_ratio_rank(hole, experts)
    for call in (tilt, lambda ref, r, beta: SoftmaxPolicy(ref).tilt(r, beta)):
        with pytest.raises(ValueError, match="reward / beta must be finite, got an overflow"):
            call(REF, [1e300, 0, 0], 1e-10)
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"coefficients must be small enough .* got one of 1e\+308"),
    ):
        combine(REF, tilt(REF, [[1000.0, 0, 0]], 1.0), [-1e308])
    with pytest.raises(ValueError, match="oscillation must be a finite number >= 0, got inf"):
        certificate([1.7e308, -1.7e308], 1.0)
    with pytest.raises(ValueError, match="coefficients must have one entry an expert, 2, got 3"):
        combine(REF, experts, [1, 1, 1])
    with pytest.raises(ValueError, match="log_experts must have 3 outcomes"):
        combine(REF, np.log([[0.5, 0.5]]), [1])
    with pytest.raises(ValueError, match="expert_betas must be one number"):
        coefficients_for([1, 2], [1, 2, 3], 1.0)
    with pytest.raises(ValueError, match="oscillations must be >= 0"):
        expert_error([1.0], [-1.0])
    with pytest.raises(ValueError, match="oscillations must have one entry"):
        expert_error([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="residual must have at least one entry"):
        certificate([], 1.0)
    with pytest.raises(ValueError, match="must have one length"):
        objective(REF, REF, [1, 2], 1.0)
    with pytest.raises(ValueError, match="rtol must be finite and > 0"):
        log_ratio_rank(REF, experts, 0.0)
