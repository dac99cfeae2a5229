"""Advantages of groups: numbers of the specification, enumeration of groups, and exact rationals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError, NumericalWarning
from porism.theory.policies import (
    AGGREGATIONS,
    RULES,
    SoftmaxPolicy,
    aggregate_weights,
    direction_scale,
    effective_number,
    expected_mass,
    group_advantages,
    implied_utility,
    logit_gradient,
    outcome_weights,
    root_drift,
    unsampled_drift,
)

SUPPRESSED = {"asymmetric": {"suppress": 0.6}}
EIGHT = [[1] * 3 + [0] * 5]


def enumerated(p, G, rule, **options):
    """s(p) from all 2^G groups: the gradient on one logit of a coin, over p (1 - p)."""
    total = 0.0
    for group in itertools.product((0, 1), repeat=G):
        r = np.array(group, dtype=float)
        A = group_advantages(r[None], rule, **options)[0]
        total += p ** r.sum() * (1 - p) ** (G - r.sum()) * A @ (r - p) / G
    return total / (p * (1 - p))


def test_oracle_of_advantages():
    np.testing.assert_allclose(group_advantages(EIGHT)[0, [0, -1]], [1.290994449, -0.7745966692], atol=5e-10)
    released = group_advantages(EIGHT, ddof=1, eps=1e-6)[0, [0, -1]]
    np.testing.assert_allclose(released, [1.207612396, -0.7245674373], atol=5e-10)
    assert group_advantages(EIGHT, "centred")[0, [0, -1]].tolist() == [0.625, -0.375]
    less = group_advantages(EIGHT, "asymmetric", suppress=0.25)[0, [0, -1]]
    np.testing.assert_allclose(less, [0.75 * 1.290994449, -0.7745966692], atol=5e-10)


def test_oracle_of_the_released_rule():
    batch = [[1] * 2 + [0] * 6, [1] * 6 + [0] * 2]
    found = group_advantages(batch, "a_grae", ddof=1, eps=1e-6)[:, [0, -1]]
    np.testing.assert_allclose(found[0], [0.8100892171, -0.5400594781], atol=5e-11)
    np.testing.assert_allclose(found[1], [0.5818305367, -3.49098322], atol=5e-9)
    smaller = group_advantages(batch, "a_grae", ddof=1, eps=1e-6, alpha=0.25)[:, [0, -1]]
    np.testing.assert_allclose(smaller, found * [2, 1])  # min(1, .5 / .25) in place of .5


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 40), st.data())
def test_mass_is_balanced(G, data):
    """AG-1, and exactly: (G A)^2 is rational."""
    k = data.draw(st.integers(1, G - 1))
    A = group_advantages([[1] * k + [0] * (G - k)])[0]
    up = Fraction(G - k, k)
    assert A[0] ** 2 == pytest.approx(float(up), rel=1e-12)
    assert A[-1] ** 2 == pytest.approx(float(1 / up), rel=1e-12)
    assert abs(A.sum()) < 1e-12 * G
    assert A[A > 0].sum() == pytest.approx(math.sqrt(k * (G - k)), rel=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.sampled_from(RULES), st.integers(0, 1))
def test_rules_by_their_words(rewards, rule, ddof):
    """Graded rewards, written out with loops."""
    G, eps, lam = len(rewards), 1e-3, 0.3
    mean = math.fsum(rewards) / G
    std = math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / (G - ddof))
    expected = []
    for r in rewards:
        z = (r - mean) / (std + eps)
        hard, easy = z / (2 * (math.sqrt(mean) + eps)), z / (2 * (1 - math.sqrt(mean) + eps))
        mixed = mean * hard + (1 - mean) * easy
        expected.append(
            {
                "zscore": z,
                "centred": r - mean,
                "asymmetric": z * (1 - lam if z > 0 else 1),
                "hard": hard,
                "easy": easy,
                "easy_sqrt": z / (2 * (math.sqrt(1 - mean) + eps)),
                "a_grae": mixed * (min(1, mean / 0.8) if z > 0 else 1),
            }[rule]
        )
    options = {"asymmetric": {"suppress": lam}, "a_grae": {"alpha": 0.8}}.get(rule, {})
    found = group_advantages([rewards], rule, ddof=ddof, eps=eps, **options)[0]
    np.testing.assert_allclose(found, expected if len(set(rewards)) > 1 else 0.0, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
def test_equal_rewards_give_zeros(rule, value):
    assert not group_advantages(np.full((2, 7), value), rule).any()


@pytest.mark.parametrize("rule", RULES)
def test_tables_are_the_advantages(rule):
    options = SUPPRESSED.get(rule, {}) | {"ddof": 1, "eps": 1e-4}
    plus, minus = outcome_weights(6, rule, **options)
    for k in range(7):
        A = group_advantages([[1] * k + [0] * (6 - k)], rule, **options)[0]
        if k:
            assert A[0] == pytest.approx(plus[k], abs=1e-12)
        if k < 6:
            assert A[-1] == pytest.approx(minus[k], abs=1e-12)


def test_oracle_of_scales():
    assert direction_scale(0.3, 4) == pytest.approx(1.634589468, abs=5e-10)
    less = direction_scale(0.3, 4, "asymmetric", suppress=0.6)
    assert less == pytest.approx(0.9480618917, abs=5e-11)
    assert less / direction_scale(0.3, 4) == pytest.approx(0.58, rel=1e-12)
    assert direction_scale(0.3, 4, "hard") == pytest.approx(1.384182168, abs=5e-10)
    assert direction_scale(0.3, 4, "easy") == pytest.approx(2.505951313, abs=5e-10)
    assert expected_mass(0.3, 4) == pytest.approx(0.6865275767, abs=5e-11)
    tops = [float(expected_mass(0.5, G)) for G in (4, 8, 16)]
    assert tops == pytest.approx([0.8080, 0.9278, 0.9671], abs=5e-5)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.01, 0.99), st.integers(2, 7), st.sampled_from(RULES))
def test_direction_law(p, G, rule):
    """AG-5 on a coin, all groups."""
    options = SUPPRESSED.get(rule, {}) | {"ddof": 1, "eps": 1e-6}
    found = direction_scale(p, G, rule, **options)
    assert found == pytest.approx(enumerated(p, G, rule, **options), rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_direction_law_of_any_weights(seed):
    """AG-5 on five actions: every coordinate of the expected update."""
    rng = np.random.default_rng(seed)
    pi, right = SoftmaxPolicy(rng.normal(size=4)).probabilities, np.array([True, False, True, False])
    tables = rng.normal(size=(2, 4))
    mean = np.zeros(4)
    for group in itertools.product(range(4), repeat=3):
        actions = np.array(group)
        k = right[actions].sum()
        A = np.where(right[actions], tables[0][k], tables[1][k])
        mean += pi[actions].prod() * logit_gradient(pi, actions, A)
    p = pi[right].sum()
    np.testing.assert_allclose(mean, direction_scale(p, 3, tuple(tables)) * pi * (right - p), atol=1e-14)


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 600))
def test_suppression_multiplies_the_scale(p, lam, G):
    """AG-5: by 1 - lambda (1 - p), also where binomials go through log-gamma."""
    plain, less = direction_scale(p, G), direction_scale(p, G, "asymmetric", suppress=lam)
    assert less == pytest.approx(plain * (1 - lam * (1 - p)), rel=1e-9, abs=1e-12)


def test_log_gamma_joins():
    """On both sides of G = 500 with binomials from exact rationals; for large G the limit is near."""
    p = Fraction(37, 100)
    for G in (500, 501, 502):
        plus, minus = outcome_weights(G)
        chance = [float(math.comb(G - 1, K) * p**K * (1 - p) ** (G - 1 - K)) for K in range(G)]
        exact = math.fsum(c * (plus[K + 1] - minus[K]) for K, c in enumerate(chance))
        assert direction_scale(0.37, G) == pytest.approx(exact, rel=1e-11)  # 500 roundings in log-gamma
    place = [0.2, 0.5, 0.8]
    np.testing.assert_allclose(direction_scale(place, 4000), [2.4995, 1.9997, 2.4995], atol=6e-5)
    hard = direction_scale(place, 4000, "hard")
    np.testing.assert_allclose(hard, [2.79506, 1.41417, 1.39737], atol=6e-6)
    np.testing.assert_allclose(direction_scale(place, math.inf), [2.5, 2, 2.5])
    exact = direction_scale(place, math.inf, "hard")
    np.testing.assert_allclose(exact, [2.79509, 1.41421, 1.39754], atol=6e-6)


def test_coupled_prompts():
    """The batch mean couples prompts; conditioning on the other one gives s, enumerated here."""
    p, q, G = 0.3, 0.6, 3
    total = 0.0
    for mine in itertools.product((0, 1), repeat=G):
        for other in itertools.product((0, 1), repeat=G):
            r, o = np.array(mine, dtype=float), np.array(other, dtype=float)
            chance = p ** r.sum() * (1 - p) ** (G - r.sum()) * q ** o.sum() * (1 - q) ** (G - o.sum())
            A = group_advantages([r, o], "a_grae", ddof=1, eps=1e-6)[0]
            total += chance * A @ (r - p) / G
    options = {"ddof": 1, "eps": 1e-6}
    found = direction_scale(p, G, "a_grae", others=[q], **options)
    assert found == pytest.approx(total / (p * (1 - p)), rel=1e-12)
    assert abs(found - direction_scale(p, G, "a_grae", **options)) > 0.01


@settings(deadline=None, max_examples=30)
@given(st.floats(0.02, 0.98), st.integers(2, 12), st.sampled_from(RULES))
def test_mass_by_counts(p, G, rule):
    options = SUPPRESSED.get(rule, {})
    total = sum(
        math.comb(G, k) * p**k * (1 - p) ** (G - k)
        * np.abs(group_advantages([[1] * k + [0] * (G - k)], rule, **options)).mean()
        for k in range(G + 1)
    )  # fmt: skip
    assert expected_mass(p, G, rule, **options) == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("G", [2, 3, 8, 31])
def test_mass_of_the_z_score(G):
    """AG-4: concave, symmetric, largest in the middle; without the std a parabola."""
    p = np.linspace(0, 1, 101)
    found = expected_mass(p, G)
    assert np.diff(found, 2).max() < 1e-12
    np.testing.assert_allclose(found, found[::-1], atol=1e-12)
    assert found.argmax() == 50 or G == 2
    np.testing.assert_allclose(expected_mass(p, G, "centred"), 2 * p * (1 - p) * (G - 1) / G, atol=1e-12)


def test_difficulty():
    """AG-8: what the released divisor does at 7/8 and 15/16."""
    for k, G, easy, mild in ((7, 8, 5.12, 0.935), (15, 16, 7.62, math.sqrt(15 / 16))):
        rewards = [[1] * k + [0] * (G - k)]
        masses = [np.abs(group_advantages(rewards, rule)).mean() for rule in ("easy", "easy_sqrt", "hard")]
        assert masses == pytest.approx([easy, mild, math.sqrt(1 - k / G)], abs=5e-3)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.05, 0.95), st.sampled_from([2, 5, 16, 700, math.inf]), st.sampled_from(RULES[:6]))
def test_utility_has_the_scale_as_slope(p, G, rule):
    """AG-9, by central differences."""
    options, h = SUPPRESSED.get(rule, {}), 1e-4
    up, down = (float(implied_utility(p + s * h, G, rule, **options)) for s in (1, -1))
    # third derivatives reach 6e5 at .95 in the limit: 1e-8 / 6 times that
    assert (up - down) / (2 * h) == pytest.approx(direction_scale(p, G, rule, **options), rel=1e-3)
    assert implied_utility(0.5, G, rule, **options) == pytest.approx(0, abs=1e-12)


def test_utilities_of_infinite_groups():
    p = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(implied_utility(p, math.inf), 2 * np.arcsin(np.sqrt(p)) - math.pi / 2)
    hard = -np.arctanh(np.sqrt(1 - p))
    np.testing.assert_allclose(implied_utility(p, math.inf, "hard"), hard - hard[1], atol=1e-15)
    np.testing.assert_allclose(implied_utility(p, math.inf, "centred"), p - 0.5)
    for rule in RULES[:6]:
        options = SUPPRESSED.get(rule, {})
        large, limit = (implied_utility(p, G, rule, **options) for G in (4000, math.inf))
        np.testing.assert_allclose(large, limit, atol=5e-3)


@pytest.mark.parametrize("rule", RULES[:6])
@pytest.mark.parametrize("G", [4, math.inf])
def test_ends_of_the_range(rule, G):
    """At 0 and 1 values are finite or infinite, never NaN; finite groups have polynomials."""
    for share in (0.0, 0.6, 1.0) if rule == "asymmetric" else (0.0,):
        s = direction_scale([0.0, 1.0], G, rule, suppress=share)
        F = implied_utility([0.0, 1.0], G, rule, suppress=share)
        assert not np.isnan(s).any()
        assert F[0] < 0 < F[1]
        assert np.isfinite(s).all() or math.inf == G


def test_oracle_of_gradients():
    pi, actions = [0.4, 0.3, 0.2, 0.1], [0, 0, 1, 2]
    g = logit_gradient(pi, actions, [1, 1, -1, -1])
    np.testing.assert_allclose(g, [0.5, -0.25, -0.25, 0], atol=1e-15)
    assert unsampled_drift(pi, actions, [1, 1, -1, -1]) == pytest.approx(-0.075, abs=1e-15)
    g = logit_gradient(pi, actions, [0.5, 0.5, -1, -1])
    np.testing.assert_allclose(g, [0.35, -0.175, -0.2, 0.025], atol=1e-15)
    assert unsampled_drift(pi, actions, [0.5, 0.5, -1, -1]) == pytest.approx(-0.05, abs=1e-15)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_unsampled_actions(seed, lam):
    """AG-2 and AG-3, by differences of the policy itself."""
    rng = np.random.default_rng(seed)
    policy = SoftmaxPolicy(rng.normal(size=9))
    pi, right = policy.probabilities, np.arange(9) < 4
    actions = rng.choice(9, 6, p=pi)
    hit = right[actions]
    free = np.ones(9, dtype=bool)
    free[actions] = False
    share = hit.mean()
    A = group_advantages(hit[None].astype(float))[0]
    less = group_advantages(hit[None].astype(float), "asymmetric", suppress=lam)[0]
    assert np.abs(logit_gradient(pi, actions, A)[free]).max() < 1e-15
    up = lam * pi[free] * math.sqrt(share * (1 - share))
    np.testing.assert_allclose(logit_gradient(pi, actions, less)[free], up, atol=1e-15)
    g, t = logit_gradient(pi, actions, A), 1e-4
    up, down = (SoftmaxPolicy(policy.logits + s * t * g).log_prob[free] for s in (1, -1))
    np.testing.assert_allclose((up - down) / (2 * t), unsampled_drift(pi, actions, A), atol=1e-7)
    if 0 < share < 1:
        ahead = pi[actions[~hit]].mean() - pi[actions[hit]].mean()
        law = math.sqrt(share * (1 - share)) * ahead
        assert unsampled_drift(pi, actions, A) == pytest.approx(law, abs=1e-15)


def test_aggregation():
    """AG-7: weights add up to the loss they stand for; the root by the specification."""
    A, L = [1, 1, -1, -1], [2, 4, 8, 8]
    assert root_drift(0.1, A, L) == pytest.approx(-0.0125, abs=1e-16)
    assert root_drift(0.1, A, L, "token_mean") == 0
    assert root_drift([0.1, 0.5], A, L, "sum").tolist() == [0, 0]
    assert root_drift(0.3, A, [5, 5, 5, 5]) == 0
    sums = {"seq_mean": np.sum(A) / 4, "token_mean": np.dot(A, L) / 22, "sum": np.dot(A, L) / 4}
    for how in AGGREGATIONS:
        assert aggregate_weights(A, L, how) @ L == pytest.approx(sums[how], abs=1e-15)


def test_effective_number():
    assert effective_number([0.1, 0.1, 0.8], [True, True, False]) == pytest.approx(2)
    found = effective_number([[0.2, 0, 0.8], [0.3, 0.1, 0.6]], [True, True, False])
    p = np.array([0.75, 0.25])
    assert found == pytest.approx([1, float(np.prod(p**-p))])


@pytest.mark.parametrize("rule", RULES)
def test_one_sample_gives_no_direction(rule):
    for ask in (direction_scale, implied_utility, expected_mass):
        with pytest.warns(NumericalWarning, match="groups of one sample .* give no direction") as seen:
            assert not ask([0.2, 0.5], 1, rule).any()
        assert seen[0].filename == __file__
    assert direction_scale(0.2, 1, ([0, 3], [-1, 0])) == 4  # REINFORCE: rewards 3 and -1, nothing to compare


def test_units():
    """A z-score has no unit; short ints of lengths do not overflow, nor do sums of large weights."""
    rewards = np.array([[0.3, -1.2, 2.0, 0.1]])
    for ddof in (0, 1):
        for unit in (2.0**-900, 2.0**-500, 2.0**500, 2.0**1000):
            found = group_advantages(rewards * unit, ddof=ddof)
            np.testing.assert_array_equal(found, group_advantages(rewards, ddof=ddof))
    for offset in (-(2.0**50), 1e8, 3e15):  # nor an origin: these sums and differences are exact
        shifted = np.array([[3.0, 1.0, 1.0, 4.0, 1.0]]) + offset
        for rule in ("zscore", "centred"):
            found = group_advantages(shifted, rule)
            np.testing.assert_allclose(found, group_advantages(shifted - offset, rule), rtol=1e-14)
            assert abs(found.sum()) < 1e-14
    A, lengths = [1.0, 1.0, -1.0, -1.0], np.array([100, 120, 250, 200])
    for how in AGGREGATIONS:
        np.testing.assert_array_equal(
            aggregate_weights(A, lengths.astype(np.uint8), how), aggregate_weights(A, lengths, how)
        )
    for weight in (5e-324, 1e308):
        assert effective_number([weight, weight, weight], [True, True, False]) == pytest.approx(2)


def test_bad_input():
    for rule in ("hard", "easy", "easy_sqrt", "a_grae"):
        for rewards in ([[0, 1.5]], [[-0.1, 1]]):
            with pytest.raises(ValueError, match=f"rewards must be in .0, 1. for rule '{rule}'"):
                group_advantages(rewards, rule)
    assert group_advantages([[-3, 5]]).tolist() == [[-1, 1]]
    with pytest.warns(NumericalWarning, match="groups of one sample have no advantages"):
        assert not group_advantages([[1.0], [0.0]], "a_grae", eps=1e-6).any()
    with pytest.raises(ValueError, match="ddof must be < the group size 4, got 4"):
        group_advantages([[1, 0, 0, 1]], ddof=4)
    with pytest.raises(ValueError, match="eps must be a finite number >= 0"):
        group_advantages([[1, 0]], eps=-1e-6)
    with pytest.raises(ValueError, match="suppress must be 0 with rule 'zscore'"):
        group_advantages([[1, 0]], suppress=0.1)
    with pytest.raises(ValueError, match="alpha must be 1 with rule 'hard'"):
        group_advantages([[1, 0]], "hard", alpha=0.5)
    with pytest.raises(ValueError, match="suppress must be in"):
        group_advantages([[1, 0]], "asymmetric", suppress=1.1)
    with pytest.raises(ValueError, match="rule must be one of"):
        group_advantages([[1, 0]], "rloo")
    with pytest.raises(ValueError, match="rewards must have 2 axes"):
        group_advantages([1, 0])
    with pytest.raises(ValueError, match="rewards must have at least one sample"):
        group_advantages(np.zeros((3, 0)))
    with pytest.raises(AssumptionError, match="levels must be 0 and 1"):
        direction_scale(0.5, 4, levels=[0, 0.5, 1])
    for ask in (direction_scale, implied_utility, expected_mass):
        with pytest.raises(ValueError, match=r"must be in \[0, 1\], got 1.5"):
            ask(1.5, 4)
        with pytest.raises(ValueError, match="group_size must be >= 1"):
            ask(0.5, 0)
        with pytest.raises(TypeError, match="unknown option 'lam'"):
            ask(0.5, 4, lam=0.1)
        with pytest.raises(ValueError, match="rule must have tables of length 5"):
            ask(0.5, 4, ([0, 1], [0, 1]))
        with pytest.raises(ValueError, match="suppress acts on a named rule only"):
            ask(0.5, 1, ([0, 1], [0, 1]), suppress=0.1)
    with pytest.raises(TypeError, match="rule must be a name or a pair"):
        direction_scale(0.5, 4, 7)
    with pytest.raises(ValueError, match="others must be probabilities"):
        direction_scale(0.5, 4, "a_grae", others=[1.5])
    with pytest.raises(ValueError, match="eps acts in finite groups only"):
        direction_scale(0.5, math.inf, eps=0.1)
    with pytest.raises(ValueError, match="suppress must be 0 with rule 'hard'"):
        implied_utility(0.5, math.inf, "hard", suppress=0.1)
    with pytest.raises(ValueError, match="rule must be one of"):
        direction_scale(0.5, math.inf, "a_grae")
    with pytest.raises(ValueError, match="pi must be probabilities that sum to 1"):
        logit_gradient([0.5, 0.4], [0], [1.0])
    with pytest.raises(ValueError, match=r"actions must be in 0\.\.1, got 2"):
        logit_gradient([0.5, 0.5], [2], [1.0])
    with pytest.raises(TypeError, match="pi must hold real numbers"):
        unsampled_drift(["a", "b"], [0, 1], [1.0, -1.0])
    with pytest.raises(ValueError, match="actions and advantages must have one length"):
        unsampled_drift([0.5, 0.5], [0, 1], [1.0])
    with pytest.raises(TypeError, match="lengths must be ints"):
        aggregate_weights([1.0], [2.0])
    with pytest.raises(ValueError, match="lengths must be >= 1"):
        aggregate_weights([1.0], [0])
    with pytest.raises(ValueError, match="lengths must have one entry an advantage"):
        aggregate_weights([1.0], [1, 2])
    with pytest.raises(ValueError, match="how must be one of"):
        root_drift(0.1, [1.0], [1], "mean")
    with pytest.raises(ValueError, match="correct must be"):
        effective_number([0.5, 0.5], [0, 1])
    with pytest.raises(ValueError, match="probability on right actions"):
        effective_number([0.0, 1.0], [True, False])
