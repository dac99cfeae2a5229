"""Each derivation against the numeric function that uses it."""

import math

import numpy as np
import pytest
from helpers import number

from porism.theory.policies import (
    SoftmaxPolicy,
    certificate,
    combine,
    direction_scale,
    group_advantages,
    implied_utility,
    logit_gradient,
    objective,
    outcome_weights,
    symbolic,
    tilt,
    token_mix_gap,
    unsampled_drift,
)

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]


def test_gap_identity():
    reward, share = symbolic.gap_identity()
    ref, r, beta = np.log([0.5, 0.3, 0.2]), np.array([1.0, 0, 2]), 0.7
    best, pi = tilt(ref, r, beta), np.log([0.2, 0.2, 0.6])
    Z = float(np.exp(ref) @ np.exp(r / beta))
    total = 0.0
    for j in range(3):
        values = {
            "pi": math.exp(pi[j]),
            "pi_0": math.exp(ref[j]),
            "pi_r": math.exp(best[j]),
            "beta": beta,
            "Z": Z,
        }
        assert number(reward.rhs, **values) == pytest.approx(r[j], abs=1e-12)
        total += number(share.rhs, **values)
    assert total == pytest.approx(objective(pi, ref, r, beta), abs=1e-12)


def test_bounded_tilt(sy):
    second, spare, bound = symbolic.bounded_tilt()
    assert sy.expand(spare.lhs - spare.rhs) == 0
    assert number(bound.rhs, D=1.3) == pytest.approx(certificate([0, 1.3], 1.0).kl)
    # second derivative of the cumulant function, by differences, with its own weight
    D, p, t, h = 1.3, 0.2, 0.4, 1e-3

    def K(u):
        return math.log(1 - p + p * math.exp(u * D))

    w = p * math.exp(t * D) / (1 - p + p * math.exp(t * D))
    curve = (K(t + h) - 2 * K(t) + K(t - h)) / h**2
    assert number(second.rhs, D=D, w=w) == pytest.approx(curve, rel=1e-5)


@pytest.mark.parametrize("D", [0.1, 2.0, 7.0])
def test_worst_variation(D):
    place, value = symbolic.worst_variation()
    p = number(place.rhs, D=D)
    found = number(value.rhs, D=D)
    assert found == pytest.approx(certificate([0, D], 1.0).tv, rel=1e-12)

    def variation(q):
        pair = SoftmaxPolicy(np.log([q, 1 - q]))
        return abs(pair.tilt([D, 0], 1.0).probabilities - pair.probabilities).sum() / 2

    assert variation(p) == pytest.approx(found, abs=1e-14)
    assert max(variation(q) for q in np.linspace(0.001, 0.999, 999)) <= found + 1e-14


def test_bregman(sy):
    condition, gap = symbolic.bregman()
    ref, ell = np.log([0.25, 0.25, 0.5]), np.array([0.0, 1, 2])
    pi, a, b = SoftmaxPolicy(np.log([0.2, 0.1, 0.7])), 0.3, -1.1
    one, other = (SoftmaxPolicy(tilt(ref, x * ell, 1.0)) for x in (a, b))
    m, slope = pi.probabilities @ ell, one.probabilities @ ell
    value = gap.rhs.subs(dict.fromkeys(gap.rhs.atoms(sy.Derivative), slope))
    wanted = pi.kl(other) - pi.kl(one) - one.kl(other)
    assert number(value, a=a, b=b, m=m) == pytest.approx(wanted, abs=1e-12)
    best = math.log(1.5)  # where the means agree
    one = SoftmaxPolicy(tilt(ref, best * ell, 1.0))
    slope = one.probabilities @ ell
    assert number(
        condition.lhs.subs(dict.fromkeys(condition.lhs.atoms(sy.Derivative), slope)), m=m
    ) == pytest.approx(0, abs=1e-12)


def test_token_law():
    optimum, mixed = symbolic.token_law()
    half, x, y = np.log([0.5, 0.5]), 0.7, -1.3
    gap = token_mix_gap([half, [half, half]], [[[x, 0], [0, 0]], [[0, y], [0, 0]]], [1, 1])
    for law, log in ((optimum, gap.sequence), (mixed, gap.token_mix)):
        first = np.exp(log).sum(axis=1)
        assert number(law.rhs, x=x, y=y) == pytest.approx(first[0] / first[1], rel=1e-12)


def test_drift():
    change, logit = symbolic.drift()
    pi, actions = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0, 1, 1, 2])
    rewards = np.array([[1.0, 0, 0, 0]])
    values = {"h": 0.25, "u": 0.4, "v": (0.3 + 0.3 + 0.2) / 3, "pi": 0.1, "lambda": 0.4}
    A = group_advantages(rewards)[0]
    assert number(change.rhs, **values) == pytest.approx(unsampled_drift(pi, actions, A), abs=1e-14)
    A = group_advantages(rewards, "asymmetric", suppress=0.4)[0]
    assert number(logit.rhs, **values) == pytest.approx(logit_gradient(pi, actions, A)[3], abs=1e-14)


@pytest.mark.parametrize("G", [2, 3, 5])
def test_direction_law(G):
    law, score = symbolic.direction_law(G)
    assert number(score.rhs, p=0.3) == pytest.approx(direction_scale(0.3, G), rel=1e-12)
    plus, minus = outcome_weights(G, "hard")
    values = {"p": 0.3} | {f"c^+_{k}": plus[k] for k in range(G + 1)}
    values |= {f"c^-_{k}": minus[k] for k in range(G + 1)}
    assert number(law.rhs, **values) == pytest.approx(direction_scale(0.3, G, "hard"), rel=1e-12)


def test_suppressed_direction():
    mass, scale = symbolic.suppressed_direction()
    s = float(direction_scale(0.3, 4))
    assert number(scale.rhs, s=s, p=0.3, **{"lambda": 0.6}) == pytest.approx(0.9480618917, abs=5e-11)
    plus, _ = outcome_weights(4)
    mean = sum(math.comb(3, K) * 0.3**K * 0.7 ** (3 - K) * plus[K + 1] for K in range(4))
    assert number(mass.rhs, s=s, p=0.3) == pytest.approx(mean, rel=1e-12)


def test_utilities():
    for rule, equation in symbolic.utilities().items():
        options = {"suppress": 0.6} if rule == "asymmetric" else {}
        values = [number(equation.rhs, p=p, **{"lambda": 0.6}) for p in (0.2, 0.5, 0.9)]
        found = implied_utility([0.2, 0.5, 0.9], math.inf, rule, **options)
        np.testing.assert_allclose(np.diff(found), np.diff(values), rtol=1e-12)


def test_combination_is_what_the_identity_says():
    ref = np.log([0.5, 0.3, 0.2])
    np.testing.assert_allclose(combine(ref, [tilt(ref, [1, 0, 2], 1.0)], [1.0]), tilt(ref, [1, 0, 2], 1.0))
