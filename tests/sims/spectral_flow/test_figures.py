"""Figures show what the data functions return, and the data functions what the theory says."""

import numpy as np
import pytest
from helpers import curves, panel

from porism.sims.spectral_flow import aligned_init, lora_init, random_target, simulate_flow
from porism.sims.spectral_flow._convergence_figure import AMOUNTS, FLOOR, SHOWN, _power
from porism.sims.spectral_flow._drawing import panels
from porism.sims.spectral_flow.figure_data import (
    RACERS,
    SPECTRUM,
    START_KINDS,
    arrival_races,
    effective_starts,
    growth_pair,
    lora_runs,
    order_violations,
    random_flows,
    ridge_flows,
    saddle_flows,
)
from porism.theory.spectral_flow import (
    discrete_arrival_step,
    gradient_flow_arrival_time,
    spectral_flow_arrival_bounds,
    spectral_flow_arrival_time,
)


def test_panels_of_axes_that_stand_in_no_grid():
    from matplotlib.figure import Figure

    found = panels(Figure().add_axes((0.1, 0.1, 0.2, 0.2)), 2, 2)
    assert len({axes.get_position().bounds for axes in found}) == 4


def test_power():
    assert [_power(x) for x in (1e-14, 4e-15, 1.1e-14, 0.0, 0.5)] == [
        "10⁻¹⁴",
        "10⁻¹⁴",
        "10⁻¹³",
        "10⁻¹⁶",
        "10⁻⁰",
    ]


def test_effective_starts():
    """The residual of Gram and Schmidt, and the times of a run that knows nothing of either."""
    Y, (_, A0) = random_target(6, 7, [4.0, 2.0, 1.0], 0), lora_init(6, 7, 3, 1e-4, 1)
    starts = effective_starts(Y, A0)
    columns = A0 @ np.linalg.svd(Y)[2][:3].T
    for i in range(3):
        other, *_ = np.linalg.lstsq(columns[:, :i], columns[:, i], rcond=None)
        left = columns[:, i] - columns[:, :i] @ other
        assert starts[i] == pytest.approx(left @ left / 4, rel=1e-9)
    flow = simulate_flow(Y, np.zeros((6, 3)), A0, kind="gradient", t_end=30.0, t_eval=[0.0])
    expected = gradient_flow_arrival_time([4.0, 2.0, 1.0], starts)
    # corrections are powers of s0 / sigma: (1e-8)^(1/2) for targets in the ratio 1 : 2
    np.testing.assert_allclose(flow.arrival_times, expected, rtol=1e-3)
    naive = gradient_flow_arrival_time([4.0, 2.0, 1.0], (columns**2).sum(axis=0) / 4)
    assert abs(naive / expected - 1)[1:].max() > 5e-3
    with pytest.raises(ValueError, match="A0 must have as many columns as Y"):
        effective_starts(Y, A0.T)


@pytest.mark.full
def test_growth(draw, needs):
    ax = draw("F1", 5)
    descent, flow, starts = growth_pair("smoke", 5)
    left, right = (panel(ax, title) for title in ("smallest first", "largest first"))
    assert descent.arrival_order == ((2,), (1,), (0,))
    assert flow.arrival_order == ((0,), (1,), (2,))
    for place, run in ((left, descent), (right, flow)):
        lines = curves(place)
        for mode, sigma in enumerate((9, 4, 1)):
            drawn = lines[f"σ = {sigma}"].get_ydata()
            np.testing.assert_array_equal(drawn, np.sqrt(run.singular_values[:, mode]))
        laws = [line for line in place.lines if line.get_color() == "black"]
        for mode, law in enumerate(laws):
            # the first step moves B alone, and steps of 0.01 stay within 0.01 of a target's root; the
            # formula of the gradient flow is of leading order in the start, 1e-3
            np.testing.assert_allclose(law.get_ydata(), np.sqrt(run.singular_values[:, mode]), atol=0.02)
        assert len(laws) == 3
    arrived = gradient_flow_arrival_time(flow.sigma, starts)
    np.testing.assert_allclose(flow.arrival_times, arrived, rtol=5e-3)


def test_arrivals(draw):
    ax = draw("F2", 3)
    sigma = np.geomspace(16.0, 0.25, 3)
    lines = curves(ax)
    (bars,) = ax.containers
    x, times = bars.lines[0].get_data()
    np.testing.assert_allclose(x, sigma)
    np.testing.assert_allclose(times, spectral_flow_arrival_time(sigma, 1e-6, 0.99, 0.01), rtol=1e-6)
    bounds = spectral_flow_arrival_bounds(sigma, 1e-6, 0.99, 0.01)
    ends = np.array([segment[:, 1] for segment in bars.lines[2][0].get_segments()])
    np.testing.assert_allclose(ends, np.stack([bounds.lower, bounds.upper], axis=1), rtol=1e-9)
    assert (ends[:, 0] < times).all()
    assert (times < ends[:, 1]).all()
    plain = lines["gradient flow"].get_ydata()
    np.testing.assert_allclose(plain, gradient_flow_arrival_time(sigma, 1e-6), rtol=1e-6)
    x, short = lines["no smoothing: slope ½"].get_data()
    assert np.polyfit(np.log(x[x > 1]), np.log(short[x > 1]), 1)[0] == pytest.approx(0.5, abs=1e-3)
    x, slow = lines["formula, gradient flow: slope −1"].get_data()
    # log(sigma / s0) adds 1 / log(1e6), about 0.05, to the slope
    assert np.polyfit(np.log(x), np.log(slow), 1)[0] == pytest.approx(-1, abs=0.07)


def test_smoothing(draw):
    ax = draw("F3")
    left, right = panel(ax, "delay"), panel(ax, "change places")
    lines, times = curves(left), curves(right)
    for sigma in (4, 1, 0.25):
        beta, drawn = times[f"σ = {sigma}"].get_data()
        np.testing.assert_allclose(drawn, spectral_flow_arrival_time(sigma, 1e-6, 0.99, beta))
        delay = lines[f"σ = {sigma}"].get_ydata()
        np.testing.assert_allclose(delay, drawn - (np.sqrt(0.99 * sigma) - 1e-3), atol=1e-12)
    for pair, critical in (((4, 1), 0.186041), ((4, 0.25), 0.0557615), ((1, 0.25), 0.0252723)):
        (mark,) = (line for name, line in times.items() if name.startswith(f"{pair[0]} and {pair[1]}:"))
        (x,), (y,) = mark.get_data()
        assert x == pytest.approx(critical, rel=1e-5)
        np.testing.assert_allclose(spectral_flow_arrival_time(pair, 1e-6, 0.99, x), y, rtol=1e-9)
    bands = [path.vertices for part in left.collections for path in part.get_paths() if len(path.vertices)]
    assert len(bands) == 3
    for sigma, band in zip((4, 1, 0.25), bands, strict=True):
        delay = lines[f"σ = {sigma}"]
        assert band[:, 1].min() < delay.get_ydata().min()
        assert band[:, 1].max() > delay.get_ydata().max()


def test_random_flows():
    flows = random_flows("smoke", 3)
    assert random_flows("smoke", 3) is flows
    assert len(flows) == len(START_KINDS)
    for flow, (_, smoothing) in zip(flows, START_KINDS, strict=True):
        assert flow.smoothing == smoothing
        np.testing.assert_allclose(flow.sigma, SPECTRUM[:3])
        assert flow.best_loss == pytest.approx((2**2 + 1**2) / 2)
        # losses are sums of about 60 squares, at most 30 in all: rounding of 60 * 30 * 1.1e-16
        assert abs(flow.excess_loss[-1]) < 1e-12
    norms = [flow.factor_norms[0].mean() for flow in flows]
    assert norms[0] < 0.1 < norms[1] < norms[2]
    assert not np.array_equal(random_flows("smoke", 4)[0].loss, flows[0].loss)


def test_ridge_flows():
    flows = ridge_flows("smoke", 1)
    assert [round(flow.ridge, 2) for flow in flows] == [0.25, 2.05, 3.85]
    for flow in flows:
        expected = np.maximum(np.array(SPECTRUM) - flow.ridge, 0)
        np.testing.assert_allclose(flow.singular_values[-1], expected, atol=1e-7)  # the integrator's 1e-8


def test_saddle_flows():
    stays, *moved = saddle_flows(AMOUNTS, 2)
    assert not stays.B[0].any()
    assert not stays.A[:, 0].any()
    assert stays.excess_loss[-1] == pytest.approx(8, abs=1e-9)
    half = []
    for flow in moved:
        assert abs(flow.excess_loss[-1]) < 1e-9
        down = np.flatnonzero(flow.excess_loss < 4)[0]
        ends = flow.excess_loss[[down, down - 1]]
        half.append(np.interp(4.0, ends, flow.t[[down, down - 1]]))
    # small amounts grow as exp(sigma t / beta), so each factor 1e4 takes log(1e4) * 0.3 / 4; the largest
    # amount is not small while the other modes still move
    assert half[0] - half[1] == pytest.approx(np.log(1e4) * 0.3 / 4, rel=0.02)
    assert half[1] - half[2] > 0.3


def test_convergence(draw):
    ax = draw("F4", 6)
    flows = random_flows("smoke", 6)
    for time in SHOWN:
        x, share = curves(ax)[f"time {time:g}"].get_data()
        excess = np.sort([max(flow.excess_loss[flow.t == time][0], FLOOR) for flow in flows])
        np.testing.assert_array_equal(x[1:-1], excess)
        assert share[-2:].tolist() == [1, 1]
        assert x[-1] >= x[-2]
    worst = max(abs(flow.excess_loss[-1]) for flow in flows)
    assert ax.get_title(loc="left") == f"4 random starts: at most {_power(worst)} at time 40"
    middle = curves(panel(ax, "without the first mode"))
    np.testing.assert_array_equal(middle["on the saddle"].get_ydata(), saddle_flows([0.0], 6)[0].excess_loss)
    right = panel(ax, "ridge")
    for mode, sigma in enumerate(SPECTRUM):
        x, y = curves(right)[f"σ = {sigma:g}"].get_data()
        assert y.tolist() == [flow.singular_values[-1, mode] for flow in ridge_flows("smoke", 6)]
        np.testing.assert_allclose(y, np.maximum(sigma - x, 0), atol=1e-7)


def test_order_violations():
    found = order_violations([[5, 4, 3], [4, 5, 3], [4, 4, -1], [-1, 3, 2]])
    assert found.tolist() == [[False, False], [True, False], [False, True], [False, False]]


@pytest.mark.full
def test_races(draw, needs):
    needs("torch")
    found = arrival_races("smoke", 2)
    assert tuple(found) == RACERS
    aligned = discrete_arrival_step(SPECTRUM, 0.01, 1e-3, 0.0, level=0.99 * np.array(SPECTRUM))
    # random starts shorten or lengthen the way by their own size, 1e-3 * (sqrt(60) + sqrt(5)), a step
    np.testing.assert_allclose(found["spectral"][0], aligned, atol=2)
    for optimizer in RACERS:
        assert order_violations(found[optimizer])[0].any() == (optimizer in ("newton_schulz", "muon"))
    ax = draw("F5", 2)
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(len(RACERS), 5)
    np.testing.assert_array_equal(heights, [found[optimizer][0] for optimizer in RACERS])
    words = [label.get_text() for label in ax.get_xticklabels()]
    assert [word.split("broken in ")[1] for word in words] == ["0 of 1", "0 of 1", "1 of 1", "1 of 1"]
    assert [text.get_text() for text in ax.texts] == ["passed\nby 5"] * 2
    assert arrival_races("smoke", 2, ("spectral",))["spectral"].tolist() == found["spectral"].tolist()


@pytest.mark.full
def test_lora(draw, needs):
    ax = draw("F6")
    runs = lora_runs("smoke", 0)
    assert lora_runs("smoke", 0) is runs
    assert [run.optimizer for run in runs] == ["muon", "adamw", "sgd", "spectral_muon"]
    uniform = panel(ax, "equal growth")
    clouds = [line.get_ydata() for line in uniform.lines if line.get_marker() == "."]
    for run, cloud, text in zip(runs, clouds, uniform.texts, strict=True):
        found = run.growth()
        np.testing.assert_array_equal(cloud, found.per_module)
        assert text.get_text() == f"{found.mean:.2f}"
    ranks = panel(ax, "values count")
    for run, line in zip(runs, ranks.lines, strict=True):
        assert line.get_ydata()[-1] == pytest.approx(run.stable_ranks().mean())
    losses = curves(panel(ax, "held-out"))
    assert set(losses) == {
        f"{name}: {run.loss_after:.3f}"
        for name, run in zip(("Muon", "AdamW", "SGD", "SpectralMuon"), runs, strict=True)
    }
    for run, line in zip(runs, losses.values(), strict=True):
        assert line.get_xdata()[-1] == len(run.losses)
        assert line.get_ydata()[-1] == pytest.approx(run.losses[-3:].mean())
    for title, run in zip(("Muon", "AdamW", "SGD"), runs, strict=False):
        place = panel(ax, f"torch {title}: 4")
        assert len(place.lines) == 4
        mean = np.mean([rows[-1] for rows in run.history.spectra.values()], axis=0)
        np.testing.assert_allclose([line.get_ydata()[-1] for line in place.lines], mean)


def test_aligned_start_of_the_figure_is_balanced():
    """What the brackets of F2 assume."""
    Y = random_target(5, 6, [4.0, 1.0], 0)
    B0, A0 = aligned_init(Y, 1e-3, 1e-3, 0)
    np.testing.assert_allclose(B0.T @ B0, A0 @ A0.T, atol=1e-18)
