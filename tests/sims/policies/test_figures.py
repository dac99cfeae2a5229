"""Figures show what the theory says."""

import math

import numpy as np
import pytest
from helpers import curves, panel

from porism.sims.policies import _figure_data as data
from porism.sims.policies._advantage_figures import SHOWN
from porism.sims.policies.benchmarks import monte_carlo_scale, sum_one_mix
from porism.sims.policies.worlds import tilt_world
from porism.theory.policies import combine, direction_scale, implied_utility, tilt


def test_prediction(draw):
    lines = curves(draw("F1"))
    x, bound = lines["certificate Δ²/8"].get_xydata().T
    np.testing.assert_allclose(bound, x**2 / 8)
    width, kl = lines["predicted, least squares"].get_xydata().T
    assert (kl <= width**2 / 8).all()
    assert (kl > width**2 / 8000).all()  # second order in the distance
    moment = lines["predicted, moment match"].get_ydata()
    assert (moment <= kl * (1 + 1e-6) + 1e-18).all()
    trained = lines["policy gradient, 200 steps"].get_ydata()
    assert trained.min() > 1e4 * kl[0]
    assert lines["mirror descent, 200 steps"].get_ydata().max() < 1e-9


def test_rank(draw):
    lines = curves(draw("F2"))
    one, own = (lines[name].get_ydata() for name in ("one reference", "references of their own, off by 0.3"))
    assert one[0] == own[0] == 1
    assert one[2] > 1e-3
    assert one[3:].max() < 1e-12
    assert own[3:].min() > 1e-3


def test_cliff(draw):
    ax = draw("F3")
    for words, enough in (("none redundant", 5), ("one of them", 4)):
        prediction = curves(panel(ax, words))["prediction, total variation"].get_ydata()
        assert prediction[enough - 2] > 1e-3
        assert prediction[enough - 1 :].max() < 1e-9
    off = curves(panel(ax, "one of them"))["coefficients, largest"].get_ydata()
    assert off.min() > 1e-2


def test_token_mix(draw):
    ax = draw("F4")
    found = data.token_gaps(np.random.default_rng(0), 40)
    whole, dependent, exact = found.values()
    assert exact.max() < 1e-14
    assert min(whole.min(), dependent.min()) > 1e-6
    counts = sum(bar.get_height() for bar in ax.patches)
    assert counts == 120


def test_rules(draw):
    ax = draw("F5")
    scale, utility = curves(ax), curves(panel(ax, "what is climbed"))
    assert list(scale) == list(SHOWN)
    for name, (rule, options) in SHOWN.items():
        p, s = scale[name].get_xydata().T
        np.testing.assert_allclose(s, direction_scale(p, 8, rule, **options))
        climbed = implied_utility(p, 8, rule, **options)
        np.testing.assert_allclose(utility[name].get_ydata(), climbed, atol=1e-12)


def test_collapse(draw):
    ax = draw("F6")
    flow = curves(ax)["expected flow"]
    p, number = flow.get_xydata().T
    for name in ("λ = 0", "λ = 0.6", "λ = 0.9"):
        x, y = curves(ax)[name].get_xydata().T
        # 12 runs with steps of .1: their mean is off by up to a tenth
        np.testing.assert_allclose(y, np.interp(x, p, number), rtol=0.12)
    by_step = curves(panel(ax, "by step"))
    middle = [line.get_ydata()[100] for line in by_step.values()]
    assert middle[0] < middle[1] < middle[2]


def test_drift(draw):
    ax = draw("F7")
    lines = curves(ax)
    for low in (1, 2, 3, 4):
        name = f"{low} or {8 - low} right" if low < 4 else "4 right"
        ahead, change = lines[name].get_xydata().T
        slope = math.sqrt(low * (8 - low)) / 8
        np.testing.assert_allclose(change, slope * ahead, atol=1e-14)


def test_token_gradients(draw):
    ax = draw("F8")
    assert [label.get_text().replace("\n", " ") for label in ax.get_xticklabels()] == [
        "mean within each sequence",
        "mean over all tokens",
        "plain sum",
    ]
    found = data.token_gradients(np.random.default_rng(0), 25)
    for how, (first, later) in found.items():
        assert later.min() > 1e-5
        assert (first.max() < 1e-15) == (how != "seq_mean")


def test_peers_do_their_best():
    """The mix that sums to one is exact where the right coefficients do; sampling finds s(p)."""
    world = tilt_world(50, 3, 0)
    a = np.array([0.7, 0.6, -0.3])
    optimum = combine(world.log_ref, world.log_experts, a)
    reward = world.beta * (optimum - world.log_ref)
    twin = type(world)(
        world.log_ref, world.rewards, world.betas, world.log_experts, world.weights, world.beta, reward
    )
    found = sum_one_mix(twin, np.arange(0, 50, 2))
    np.testing.assert_allclose(found, optimum, atol=1e-9)
    far = sum_one_mix(world, np.arange(0, 50, 2))
    best = tilt(world.log_ref, world.target, world.beta)
    assert np.abs(np.exp(far) - np.exp(best)).sum() / 2 > 0.01
    value, error = monte_carlo_scale(0.4, 6, 20_000, np.random.default_rng(1), "hard")
    assert abs(value - direction_scale(0.4, 6, "hard")) < 4 * error
    fewer = monte_carlo_scale(0.4, 6, 5000, np.random.default_rng(2), "hard")[1]
    assert fewer == pytest.approx(2 * error, rel=0.1)
