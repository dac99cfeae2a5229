"""Cost-quality curves: hull against brute force and a linear program, published scores against closed
forms."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from porism.theory.pandora import (
    CostQualityCurve,
    aiq,
    apgr,
    arena_score,
    cost_quality_curve,
    nondecreasing_hull,
)

POINTS = [[0.5, 0.2], [1, 0.6], [1.5, 0.55], [2.5, 0.62], [3, 0.7]]
ROUNDING = 1e-9
"""Slopes of drawn points reach 1e3, so that interpolating loses up to 1e3 eps; the rest is room."""

clouds = st.integers(1, 12).flatmap(
    lambda n: arrays(float, (n, 2), elements=st.integers(0, 40).map(lambda i: i / 40))
)


def best_mixture(points, cost):
    """Greatest mean quality of a mixture whose mean cost is at most `cost`, by linear programming."""
    found = linprog(
        -points[:, 1], A_ub=points[:, :1].T, b_ub=[cost], A_eq=np.ones((1, len(points))), b_eq=[1]
    )
    return -found.fun


@given(clouds)
def test_hull_is_the_best_mixture(points):
    curve = cost_quality_curve(points)
    for cost in np.linspace(points[:, 0].min(), points[:, 0].max() + 0.5, 7):
        assert curve.quality_at(cost) == pytest.approx(best_mixture(points, cost), abs=ROUNDING)


@given(clouds)
@example(np.array([[0.325, 0.275], [0.1, 0.125], [0.0, 0.0], [0.85, 0.625]]))
def test_hull_is_concave_and_increasing(points):
    hull = nondecreasing_hull(points)
    slopes = np.diff(hull[:, 1]) / np.diff(hull[:, 0])
    assert (slopes > 0).all()
    assert (np.diff(slopes) < ROUNDING).all()  # fortieths on a line may lie off it by rounding
    assert {*map(tuple, hull)} <= {*map(tuple, points)}
    assert hull[0, 0] == points[:, 0].min()
    assert hull[-1, 1] == points[:, 1].max()


@given(clouds, st.randoms())
def test_order_and_dominated_points_do_not_matter(points, random):
    hull = nondecreasing_hull(points)
    again = [*points.tolist(), [points[:, 0].max() + 1, points[:, 1].min()], *points.tolist()]
    random.shuffle(again)
    assert np.array_equal(nondecreasing_hull(again), hull)


def test_published_areas():
    assert nondecreasing_hull(POINTS).tolist() == [[0.5, 0.2], [1, 0.6], [3, 0.7]]
    assert aiq(POINTS, "routerbench", cmax=4) == pytest.approx(0.55, abs=1e-15)
    assert aiq(POINTS, "range", cmax=4) == pytest.approx(0.62857142857142857, abs=1e-15)
    assert aiq(POINTS) == pytest.approx(1.5 / 2.5, abs=1e-15)
    # the curve ends inside a segment: 0.5 to 2 holds .2 + .625
    assert aiq(POINTS, cmax=2) == pytest.approx((0.2 + 0.625) / 1.5, abs=1e-15)
    assert aiq([[1, 0.3]]) == 0.3
    assert aiq(POINTS, cmax=0.5) == 0.2


@given(clouds, st.floats(0.1, 3))
def test_area_is_that_of_a_fine_grid(points, more):
    high = points[:, 0].max() + more
    low = points[:, 0].min()
    grid = low + (high - low) * (np.arange(20000) + 0.5) / 20000
    mean = cost_quality_curve(points).quality_at(grid).mean()
    # the midpoint rule errs at corners only: by at most |change of slope| h^2 / 8 each,
    # slopes <= 40, h <= 4/20000
    assert aiq(points, cmax=high) == pytest.approx(mean, abs=1e-5)
    assert aiq(points, "routerbench", cmax=high) == pytest.approx(mean * (high - low) / high, abs=1e-5)


def brute_apgr(order, weak, strong):
    """Mean over random tie breaks of the trapezoid over all shares."""
    totals = []
    for seed in range(400):
        ranked = np.lexsort((np.random.default_rng(seed).random(len(order)), -order))
        shares = [
            np.where(np.isin(np.arange(len(order)), ranked[:j]), strong, weak).mean()
            for j in range(len(order) + 1)
        ]
        totals.append(
            np.trapezoid((np.array(shares) - weak.mean()) / (strong.mean() - weak.mean()), dx=1 / len(order))
        )
    return np.mean(totals), np.std(totals) / 20


def test_recovered_gap():
    rng = np.random.default_rng(0)
    weak, strong = rng.random(9), rng.random(9) + 0.5
    order = np.array([0, 3, 1, 1, 1, 2, 2, 0, 5.0])
    mean, error = brute_apgr(order, weak, strong)
    assert apgr(order, weak, strong) == pytest.approx(mean, abs=5 * error + 1e-12)
    assert apgr(np.zeros(9), weak, strong) == pytest.approx(0.5, abs=1e-12)
    perfect, worst = apgr(strong - weak, weak, strong), apgr(weak - strong, weak, strong)
    assert perfect > 0.5 > worst
    assert perfect + worst == pytest.approx(1, abs=1e-12)  # reversed order: the curve is its mirror image
    shuffled = rng.permutation(9)
    assert apgr(order[shuffled], weak[shuffled], strong[shuffled]) == pytest.approx(apgr(order, weak, strong))


def test_arena_score():
    assert arena_score(1.0, 0.001) == 1.0  # below the cheapest
    assert arena_score(0.0, 1.0) == arena_score(0.9, 300.0) == arena_score(0.0, 200.0) == 0.0
    middle = np.sqrt(200 * 0.0044)  # cheapness one half
    assert arena_score(0.5, middle) == pytest.approx(1.1 * 0.25 / 0.55, abs=1e-12)
    assert arena_score([0.2, 0.4], middle).shape == (2,)
    assert np.all(np.diff(arena_score(0.7, np.geomspace(0.01, 100, 9))) < 0)
    assert np.all(np.diff(arena_score(np.linspace(0.1, 1, 9), 1.0)) > 0)


def test_curve_saves_and_shows(tmp_path, needs):
    curve = cost_quality_curve(POINTS)
    curve.save(tmp_path / "curve.npz")
    assert np.array_equal(CostQualityCurve.load(tmp_path / "curve.npz").hull, curve.hull)
    assert np.isnan(curve.quality_at(0.1))
    assert curve.quality_at(9) == 0.7
    assert curve.cost_at(0.71) == np.inf
    assert curve.cost_at(0.1) == 0.5
    assert "5 points, 3 corners" in repr(curve)
    needs("matplotlib").use("agg")
    assert curve.plot(unit="$").get_xlabel() == "mean cost ($)"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nondecreasing_hull([[1.0, 2.0, 3.0]]), r"shape \(n, 2\).*column_stack"),
        (lambda: nondecreasing_hull(np.zeros((0, 2))), r"shape \(n, 2\)"),
        (lambda: nondecreasing_hull([[-1.0, 2.0]]), "must be >= 0; got min -1"),
        (lambda: nondecreasing_hull([[np.nan, 2.0]]), "points"),
        (lambda: aiq(POINTS, cmax=0.2), "at least the least cost 0.5, got 0.2"),
        (lambda: aiq(POINTS, "area"), "mode"),
        (lambda: aiq([[0.0, 1.0]], "routerbench"), "cmax must be > 0"),
        (lambda: apgr([1.0, 2], [0.0, 1], [1.0, 0]), "no gap"),
        (lambda: apgr([1.0], [0.0, 1], [1.0, 0]), "one shape"),
        (lambda: apgr([], [], []), "no gap"),
        (lambda: arena_score(1.2, 1.0), "not percent"),
        (lambda: arena_score(0.2, -1.0), "cost must be >= 0"),
        (lambda: arena_score(0.2, 1.0, beta=0), "beta"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
