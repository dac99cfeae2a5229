"""Coefficients from few values: when they and the prediction are unique, both fits, the certificate."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError, NumericalWarning, UndecidedError
from porism.results import Result
from porism.theory.policies import (
    SoftmaxPolicy,
    TiltedExperts,
    combine,
    fit_coefficients,
    tilt,
)

SEEDS = st.integers(0, 2**32 - 1)
REF = np.log([0.25, 0.25, 0.5])
ELL = tilt(REF, [0, 1, 2], 1.0)[None]
TARGET = np.log([0.2, 0.1, 0.7]) - REF


def drawn(seed, K=3, V=25, redundant=False):
    rng = np.random.default_rng(seed)
    ref = tilt(np.full(V, -np.log(V)), rng.normal(size=V), 1.0)
    rewards = rng.normal(size=(K, V))
    if redundant:
        rewards[-1] = rng.normal(size=K - 1) @ rewards[:-1]
    betas = rng.uniform(0.5, 2, K)
    return rng, ref, tilt(ref, rewards, betas), rng.normal(size=K) @ rewards, float(rng.uniform(0.5, 2))


def variation(log_p, log_q):
    return np.abs(np.exp(log_p) - np.exp(log_q)).sum() / 2


def condition(ref, experts, samples):
    return np.linalg.cond(np.column_stack([(experts - ref).T[samples], np.ones(len(samples))]))


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_as_many_values_as_unknowns(seed):
    """PO-3: K + 1 values determine all; K do not."""
    rng, ref, experts, target, beta = drawn(seed)
    samples = rng.choice(25, 4, replace=False)
    fit = fit_coefficients(ref, experts, target[samples], samples, beta)
    assert (fit.rank, fit.identifiable, fit.prediction_identifiable) == (4, True, True)
    # 1e-14: rounding of logarithms of order ten
    assert variation(fit.predict(), tilt(ref, target, beta)) < 1e-14 * condition(ref, experts, samples)
    with pytest.warns(NumericalWarning, match="not unique either"):
        less = fit_coefficients(ref, experts, target[samples[:3]], samples[:3], beta)
    assert (less.rank, less.identifiable, less.prediction_identifiable) == (3, False, False)
    for ask in (less.predict, less.certificate):
        with pytest.raises(UndecidedError, match="several policies agree with the sample"):
            ask()


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_redundant_experts(seed):
    """PO-3: the prediction is unique where the coefficients are not; they are the shortest that fit."""
    rng, ref, experts, target, beta = drawn(seed, 4, redundant=True)
    samples = rng.choice(25, 4, replace=False)
    with pytest.warns(NumericalWarning, match="unique all the same"):
        fit = fit_coefficients(ref, experts, target[samples], samples, beta)
    assert (fit.rank, fit.identifiable, fit.prediction_identifiable) == (4, False, True)
    L = (experts - ref).T
    rows = L[samples] - L[samples].mean(axis=0)
    s = np.linalg.svd(rows, compute_uv=False)
    bound = 1e-13 * s[0] / s[2]
    assert variation(fit.predict(), tilt(ref, target, beta)) < bound
    shortest = np.linalg.pinv(rows, rcond=1e-10) @ (target[samples] - target[samples].mean()) / beta
    np.testing.assert_allclose(fit.coefficients, shortest, atol=bound * (1 + np.abs(shortest).max()) * 100)


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_least_squares_solves_its_normal_equations(seed):
    rng, ref, experts, target, beta = drawn(seed)
    target = target + rng.normal(size=25)
    samples = rng.integers(0, 25, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        fit = fit_coefficients(ref, experts, target[samples], samples, beta)
    rows = np.column_stack([(experts - ref).T[samples], np.ones(12)])
    L = experts - ref
    shift = L @ np.exp(ref)  # the fit centres by the mean under the reference
    left = target[samples] / beta - rows[:, :3] @ fit.coefficients - fit.intercept + fit.coefficients @ shift
    normal = rows.T @ (np.exp(ref[samples]) * left)
    assert np.abs(normal).max() < 1e-10
    assert fit.residual_oscillation == pytest.approx(np.ptp(left), abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_moments_match_and_divergences_add(seed):
    """PO-6."""
    rng, ref, experts, target, beta = drawn(seed)
    target = target + rng.normal(size=25)
    fit = fit_coefficients(ref, experts, target, np.arange(25), beta, "moment")
    pi, best = SoftmaxPolicy(tilt(ref, target, beta)), SoftmaxPolicy(fit.predict())
    L = experts - ref
    np.testing.assert_allclose(L @ best.probabilities, L @ pi.probabilities, atol=1e-11)
    b = SoftmaxPolicy(combine(ref, experts, rng.normal(size=3)))
    assert pi.kl(b) == pytest.approx(pi.kl(best) + best.kl(b), abs=1e-10 * (1 + pi.kl(b)))
    squares = fit_coefficients(ref, experts, target, np.arange(25), beta)
    assert pi.kl(best) <= pi.kl(SoftmaxPolicy(squares.predict())) + 1e-12


def test_oracle_of_both_fits():
    moment = fit_coefficients(REF, ELL, TARGET, [0, 1, 2], 1.0, "moment")
    assert moment.coefficients[0] == pytest.approx(math.log(1.5), abs=1e-12)
    np.testing.assert_allclose(np.exp(moment.predict()), [1 / 7, 3 / 14, 9 / 14], rtol=1e-12)
    pi = SoftmaxPolicy(np.log([0.2, 0.1, 0.7]))
    assert pi.kl(SoftmaxPolicy(moment.predict())) == pytest.approx(0.05069090796, abs=5e-12)
    squares = fit_coefficients(REF, ELL, TARGET, [0, 1, 2], 1.0)
    assert squares.coefficients[0] == pytest.approx(0.3682583553, abs=5e-11)
    assert pi.kl(SoftmaxPolicy(squares.predict())) == pytest.approx(0.05106538558, abs=5e-12)
    assert squares.residual_oscillation == pytest.approx(1.061405536, abs=5e-10)
    found = squares.certificate()
    assert found.log_ratio == squares.residual_oscillation
    assert found.kl == pytest.approx(1.061405536**2 / 8, rel=1e-8)
    assert pi.kl(SoftmaxPolicy(squares.predict())) <= found.kl


def test_methods_agree_in_the_span():
    _, ref, experts, target, beta = drawn(5)
    one, two = (
        fit_coefficients(ref, experts, target, np.arange(25), beta, how)
        for how in ("least_squares", "moment")
    )
    np.testing.assert_allclose(one.coefficients, two.coefficients, atol=1e-10)
    np.testing.assert_allclose(one.intercept, two.intercept, atol=1e-10)


def test_moment_with_redundant_experts():
    _, ref, experts, target, beta = drawn(6, 4, redundant=True)
    with pytest.warns(NumericalWarning, match="unique all the same"):
        fit = fit_coefficients(ref, experts, target, np.arange(25), beta, "moment")
    assert variation(fit.predict(), tilt(ref, target, beta)) < 1e-12


def test_experts_that_are_the_reference_say_nothing():
    with pytest.warns(NumericalWarning, match="unique all the same"):
        fit = fit_coefficients(REF, [REF], [1.0, 1.0, 1.0], [0, 1, 2], 1.0, "moment")
    assert fit.rank == 1
    np.testing.assert_allclose(fit.predict(), REF, atol=1e-15)


def test_repeats():
    """Rank decides, not the count; for the moment match repeats of one outcome are averaged."""
    _, ref, experts, target, beta = drawn(7)
    samples = np.array([0, 0, 0, 0, 1, 2])
    with pytest.warns(NumericalWarning, match="rank 3"):
        assert not fit_coefficients(ref, experts, target[samples], samples, beta).identifiable
    twice = np.concatenate([np.arange(25), [3]])
    noisy = target[twice] + np.where(twice == 3, np.where(np.arange(26) == 3, 0.5, -0.5), 0.0)
    fit = fit_coefficients(ref, experts, noisy, twice, beta, "moment")
    assert variation(fit.predict(), tilt(ref, target, beta)) < 1e-12


def test_weights_over_hundreds_of_orders():
    """Rows as faint as 1e-390 of the likeliest count for the rank, and do not spoil the solution."""
    rng = np.random.default_rng(0)
    ref = np.linspace(-900, 0, 50)
    ref -= np.log(np.exp(ref).sum())
    rewards = rng.normal(size=(3, 50))
    experts, a = tilt(ref, rewards, 1.0), np.array([1.0, 2.0, -1.0])
    samples = np.arange(0, 50, 5)
    fit = fit_coefficients(ref, experts, a @ rewards[:, samples], samples, 1.0)
    # logs of size 900 carry 1e-13, times the condition number
    np.testing.assert_allclose(fit.coefficients, a, atol=1e-11)


def test_rank_is_not_lost_to_an_outcome_not_sampled():
    """Logarithms of 1e17 have no digits left for log-ratios of order one, but are not among the samples."""
    rewards, a = np.array([[1.0, 0, 2, 0], [0, 1, 1, 3]]), np.array([0.2, -0.5])
    for least in (-1e3, -1e17, -1e150):
        ref = np.append(np.log([0.5, 0.3, 0.2]), least)
        fit = fit_coefficients(ref, tilt(ref, rewards, 1.0), (a @ rewards)[:3], [0, 1, 2], 1.0)
        assert (fit.rank, fit.identifiable) == (3, True)
        np.testing.assert_allclose(fit.coefficients, a, atol=1e-13)
    with pytest.warns(NumericalWarning, match="the sample has rank 1"):
        assert fit_coefficients(ref, tilt(ref, rewards, 1.0), a @ rewards, range(4), 1.0).rank == 1


def test_support_with_holes():
    ref = np.log([0.4, 0.0001, 0.3, 0.2999]) - [0, np.inf, 0, 0]
    ref -= np.log(np.exp(ref).sum())
    experts = tilt(ref, [[1, 0, 2, 0]], 1.0)
    fit = fit_coefficients(ref, experts, [3.0, 6.0, 0.0], [0, 2, 3], 1.5)
    assert fit.covers
    assert fit.coefficients[0] == pytest.approx(2.0)
    assert np.isneginf(fit.predict()[1])
    assert fit.certificate().kl < 1e-25
    with pytest.raises(ValueError, match="samples must lie in the support of log_ref, got outcome 1"):
        fit_coefficients(ref, experts, [3.0, 6.0], [0, 1], 1.5)


def test_certificate_needs_the_whole_support():
    _, ref, experts, target, beta = drawn(8)
    part = fit_coefficients(ref, experts, target[:10], range(10), beta)
    with pytest.raises(AssumptionError, match="known at sampled outcomes only"):
        part.certificate()
    assert part.certificate(0.5).kl == 0.5**2 / 8
    rng = np.random.default_rng(0)
    off = fit_coefficients(ref, experts, (target + rng.normal(size=25))[:10], range(10), beta)
    with pytest.raises(ValueError, match="oscillation must be >="):
        off.certificate(off.residual_oscillation / 2)


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.booleans())
def test_certificate_from_a_distance(seed, redundant):
    """Whatever the noise within the distance; the worst noise uses a good part of the bound."""
    rng, ref, experts, target, beta = drawn(seed, 3, 25, redundant)
    samples, size = rng.choice(25, 12, replace=False), 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        exact = fit_coefficients(ref, experts, target[samples], samples, beta)

        def oscillation(noise):
            reward = target + noise
            fit = fit_coefficients(ref, experts, reward[samples], samples, beta)
            e = tilt(ref, reward, beta) - fit.predict()
            return np.ptp(e), fit

        signs = size * np.sign(rng.normal(size=25))
        found, fit = oscillation(signs)
        bound = fit.certificate(distance=size)
        assert found <= bound.log_ratio + 1e-12
        best, pi = SoftmaxPolicy(fit.predict()), SoftmaxPolicy(tilt(ref, target + signs, beta))
        assert pi.kl(best) <= bound.kl
        # steepest ascent over signs, from the responses to single values
        for _ in range(6):
            e = tilt(ref, target + signs, beta) - fit.predict()
            top, low = e.argmax(), e.argmin()
            better = signs.copy()
            for i in range(25):
                ends = []
                for s in (size, -size):
                    better[i] = s
                    trial = fit_coefficients(ref, experts, (target + better)[samples], samples, beta)
                    e = tilt(ref, target + better, beta) - trial.predict()
                    ends.append(e[top] - e[low])
                better[i] = size if ends[0] > ends[1] else -size
            if (better == signs).all():
                break
            signs = better
            _, fit = oscillation(signs)
        worst, _ = oscillation(signs)
    assert 0.25 * bound.log_ratio <= worst <= bound.log_ratio + 1e-12
    assert exact.certificate(distance=0.0).kl < 1e-20


def test_distances_that_cannot_be():
    _, ref, experts, target, beta = drawn(10)
    rng = np.random.default_rng(0)
    fit = fit_coefficients(ref, experts, (target + rng.normal(size=25))[:20], range(20), beta)
    with pytest.raises(ValueError, match="distance must explain the sample"):
        fit.certificate(distance=1e-6)
    with pytest.raises(ValueError, match="distance must be a finite number >= 0"):
        fit.certificate(distance=-1.0)
    with pytest.raises(ValueError, match="distance must stand alone"):
        fit.certificate(oscillation=1.0, distance=1.0)
    moment = fit_coefficients(ref, experts, target, range(25), beta, "moment")
    with pytest.raises(ValueError, match="distance must stand alone"):
        moment.certificate(distance=1.0)


def test_checked_once_for_many(tmp_path):
    _, ref, experts, target, beta = drawn(9)
    basis = TiltedExperts(ref, experts)
    one, two = (
        basis.fit(target[:8], range(8), beta),
        fit_coefficients(ref, experts, target[:8], range(8), beta),
    )
    np.testing.assert_array_equal(one.coefficients, two.coefficients)
    one.save(tmp_path / "fit.npz")
    np.testing.assert_array_equal(Result.load(tmp_path / "fit.npz").predict(), two.predict())
    basis.save(tmp_path / "experts.npz")
    again = TiltedExperts.load(tmp_path / "experts.npz").fit(target[:8], range(8), beta)
    np.testing.assert_array_equal(again.coefficients, one.coefficients)


def test_no_finite_coefficients():
    """A reward so large that its policy sits on one outcome: the mean is on the boundary of the hull."""
    for target in ([0, 0, 1e5], [1e5, 0, 0]):
        with pytest.raises(AssumptionError, match="target must have its mean inside the convex hull"):
            fit_coefficients(REF, ELL, target, [0, 1, 2], 1.0, "moment")
    large = fit_coefficients(REF, ELL, [0, 20, 40], [0, 1, 2], 1.0, "moment")
    assert large.coefficients[0] == pytest.approx(20, rel=1e-6)


def test_bad_input():
    def fit(target=(0.0, 1.0), samples=(0, 1), beta=1.0, experts=ELL, **rest):
        return fit_coefficients(REF, experts, target, samples, beta, **rest)

    for beta in (0, -1.0, np.nan):
        with pytest.raises(ValueError, match="beta must be finite and > 0"):
            fit(beta=beta)
    with pytest.raises(ValueError, match=r"samples must be in 0\.\.2, got 3"):
        fit(samples=[0, 3])
    with pytest.raises(ValueError, match=r"samples must be in 0\.\.2, got -1"):
        fit(samples=[0, -1])
    with pytest.raises(TypeError, match="samples must be a 1-D array of ints"):
        fit(samples=[0.0, 1.0])
    with pytest.raises(ValueError, match="one length >= 1, got 1 and 2"):
        fit(target=[1.0])
    with pytest.raises(ValueError, match="one length >= 1, got 0 and 0"):
        fit(target=np.zeros(0), samples=np.zeros(0, dtype=int))
    with pytest.raises(ValueError, match="target must be finite"):
        fit(target=[0.0, np.inf])
    with pytest.raises(ValueError, match="log_experts must hold log-probabilities"):
        fit(experts=ELL + 0.1)
    with pytest.raises(ValueError, match="samples must cover the support for method='moment', got 2 of 3"):
        fit(method="moment")
    with pytest.raises(ValueError, match="method must be one of"):
        fit(method="ridge")
