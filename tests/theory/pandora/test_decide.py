"""Certificates: they never contradict a decision inside the box, and are as strong as a box allows."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pandora import certify_decision, inspection_halfwidth, voi

calm = settings(deadline=None)  # the machine may be busy

WORDS = ("refine", "stop", "undecided")


def interval(low, high):
    return st.tuples(st.floats(low, high), st.floats(low, high)).map(sorted)


def decide(gap, nu, c):
    return "refine" if abs(gap) < inspection_halfwidth(nu, c) else "stop"


def near_the_edge(gap, nu, c):
    """Within what rounding of the band's half-width can move: 1e-14 of |w|/nu or 1, times nu."""
    w = inspection_halfwidth(nu, c)
    return np.isfinite(w) and abs(abs(gap) - w) <= 1e-13 * (nu + abs(w))


@calm
@given(interval(-3, 3), interval(0, 1), interval(0, 0.5), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_never_contradicts_a_point_of_the_box(gap, nu, cost, at):
    word = certify_decision(gap, nu, cost)
    assert word in WORDS
    inner = [low + share * (high - low) for (low, high), share in zip((gap, nu, cost), at, strict=True)]
    inner = [min(max(x, low), high) for x, (low, high) in zip(inner, (gap, nu, cost), strict=True)]
    for point in (inner, *itertools.product(gap, nu, cost)):
        if word != "undecided" and not near_the_edge(*point):
            assert decide(*point) == word


@calm
@given(interval(-3, 3), interval(0, 1), interval(0, 0.5))
def test_undecided_boxes_hold_both_decisions(gap, nu, cost):
    if certify_decision(gap, nu, cost) != "undecided":
        return
    near = 0.0 if gap[0] <= 0 <= gap[1] else min(map(abs, gap))
    far = max(map(abs, gap))
    corners = [(near, nu[1], cost[0]), (far, nu[0], cost[1])]
    if not any(near_the_edge(*corner) for corner in corners):
        assert [decide(*corner) for corner in corners] == ["refine", "stop"]


@calm
@given(st.floats(-3, 3), st.floats(0, 1), st.floats(0, 0.5))
def test_a_point_is_always_decided(gap, nu, c):
    assert certify_decision((gap, gap), (nu, nu), (c, c)) == decide(gap, nu, c)


def test_signs_of_the_net_gain():
    """By the gain itself, an oracle that does not use the inverse."""
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(300):
        gap, nu = np.sort(rng.normal(0, 0.5, 2)), np.sort(rng.uniform(0.05, 1, 2))
        cost = np.sort(rng.uniform(0, 0.2, 2))
        low = 0.0 if gap[0] < 0 < gap[1] else np.abs(gap).min()
        worst, best = voi(np.abs(gap).max(), nu[0]) - cost[1], voi(low, nu[1]) - cost[0]
        expected = "refine" if worst > 0 else "stop" if best <= 0 else "undecided"
        assert certify_decision(gap, nu, cost) == expected
        seen.add(expected)
    assert seen == set(WORDS)


def test_folding():
    """A gap of either sign: the largest gain is at 0, the smallest at the farther end."""
    assert certify_decision((-0.1, 0.3), (0.5, 0.5), (0.05, 0.05)) == "refine"
    assert certify_decision((-0.1, 3.0), (0.5, 0.5), (0.05, 0.05)) == "undecided"
    assert certify_decision((-3.0, -2.0), (0.5, 0.5), (0.05, 0.05)) == "stop"
    assert certify_decision((-0.3, -0.1), (0.5, 0.5), (0.05, 0.05)) == "refine"
    same = [certify_decision(g, (0.4, 0.6), (0.04, 0.05)) for g in ((0.1, 0.2), (-0.2, -0.1))]
    assert same[0] == same[1]


def test_ends():
    assert certify_decision((1, 2), (0.5, 0.5), (0, 0)) == "refine"  # free, if far in the tail
    assert certify_decision((30, 40), (0.5, 0.5), (0, 0)) == "refine"
    assert certify_decision((0, 0), (0, 0), (0, 0)) == "stop"  # nothing to learn
    assert certify_decision((0, 0), (0, 0.1), (0, 0)) == "undecided"
    assert certify_decision((0, 1), (0.1, 0.5), (0.4, np.inf)) == "stop"  # cost above nu/sqrt(2 pi)
    assert certify_decision((np.inf, np.inf), (0.5, 0.5), (0, 0)) == "stop"  # no alternative


def test_arrays():
    gap = np.array([[0.0, 1.0, -3.0], [0.1, 2.0, 3.0]])
    found = certify_decision(gap, (0.4, 0.5), ([[0.01], [0.3]], 0.3))
    assert found.shape == (2, 3)
    for row, low in enumerate((0.01, 0.3)):
        for k in range(3):
            assert found[row, k] == certify_decision(gap[:, k], (0.4, 0.5), (low, 0.3))
    assert type(certify_decision((0, 1), (0, 1), (0, 1))) is str
    assert certify_decision(np.zeros((2, 0)), (0.4, 0.5), (0, 1)).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 0), (0, 1), (0, 1)), "lower end of gap_interval must not exceed"),
        (((0, 1), (1, 0), (0, 1)), "lower end of nu_interval must not exceed"),
        (((0, 1), (0, 1), (1, 0)), "lower end of cost_interval must not exceed"),
        (((0, np.nan), (0, 1), (0, 1)), "gap_interval must not be NaN"),
        (((0, 1), (-1, 1), (0, 1)), "nu must be >= 0 and finite; got -1"),
        (((0, 1), (0, np.inf), (0, 1)), "nu must be >= 0 and finite; got inf"),
        (((0, 1), (0, 1), (-1, 1)), "cost must be >= 0; got min -1"),
        (((0, 1), (0, 1), (0, np.nan)), "cost must be >= 0; got min nan"),
        ((0.5, (0, 1), (0, 1)), "gap_interval must be a pair"),
        (((0, 1), (0, 1, 2), (0, 1)), "nu_interval must be a pair"),
        ((([1, 2], 3), (0, [1, 2, 3]), (0, 1)), r"shape \(2,\).*shape \(3,\)"),
        (((0, "1"), (0, 1), (0, 1)), "high end of gap_interval must hold real numbers"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        certify_decision(*arguments)
