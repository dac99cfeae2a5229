"""Figures show what the data functions return, and the data functions what the theory says."""

import numpy as np
import pytest
from helpers import curves, panel

from porism.sims.alignment import sample_spiked
from porism.sims.alignment._adapter_figures import FLOOR
from porism.sims.alignment._drawing import MOMENT_NAMES, PREDICTOR_NAMES, START_LOOKS
from porism.sims.alignment.figure_data import (
    ELLS,
    SHOWN_METHODS,
    bulk_directions,
    encoder_runs,
    energies,
    estimates,
    overlap_curves,
    overlap_grid,
    paths,
    pivot_gains,
    regimes,
    trackings,
)
from porism.sims.alignment.figures import FIGURES, WEAK
from porism.sims.alignment.tracking import PREDICTORS
from porism.sims.drawing import LOOKS, panels, seed_of
from porism.theory.alignment import (
    bbp_threshold,
    certificate_threshold,
    spike_overlap,
    subcritical_enrichment,
)


def bars_of(ax):
    """Centres and half lengths of error bars by label."""
    found = {}
    for container in ax.containers:
        if hasattr(container, "has_yerr"):
            ends = np.array([part[:, 1] for part in container.lines[2][0].get_segments()])
            found.setdefault(container.get_label(), (container.lines[0], np.diff(ends)[:, 0] / 2))
    return found


def test_the_set_is_complete():
    assert list(FIGURES) == [f"F{number}" for number in range(1, 9)]
    assert set(PREDICTOR_NAMES) == set(PREDICTORS)
    assert set(SHOWN_METHODS) <= set(START_LOOKS)
    assert len(LOOKS) == len({look[0] for look in LOOKS})


def test_panels_and_seeds():
    from matplotlib.figure import Figure

    upper, lower = Figure(layout="constrained").subplots(2, 1)
    found = panels(upper, 1, 3, gap=0.1)
    upper.figure.draw_without_rendering()
    assert found[0] is upper
    assert min(axes.get_position().y0 for axes in found) >= lower.get_position().y1
    with pytest.raises(ValueError, match="columns must be"):
        panels(lower, 1, 0)
    assert seed_of(7) == 7
    first, second = (seed_of(np.random.default_rng(1)) for _ in range(2))
    assert first == second != seed_of(np.random.default_rng(2))


def test_thresholds(draw):
    ax = draw("F1", 3)
    gamma, ell, overlap = overlap_grid("smoke", 3)
    assert overlap_grid("smoke", 3) is overlap_grid("smoke", 3)
    (mesh,) = ax.collections
    np.testing.assert_array_equal(np.asarray(mesh.get_array()).reshape(overlap.shape), overlap)
    lines = curves(ax)
    x, y = lines["ℓ = √γ: found above"].get_data()
    np.testing.assert_allclose(y, bbp_threshold(x))
    for start, bound in (("Davis", "davis_kahan"), ("Yu", "yu_wang_samworth")):
        (line,) = (line for name, line in lines.items() if name.startswith(start))
        x, y = line.get_data()
        assert y[3] == certificate_threshold(x[3], bound)
        assert (y > bbp_threshold(x)).all()
    # far from the threshold one draw of 2000 entries is within 0.2 of the limit, on both sides
    limit = spike_overlap(ell[:, None], gamma)
    far = np.abs(np.log(ell[:, None] / np.sqrt(gamma))) > np.log(8)
    assert far.sum() >= 8
    np.testing.assert_allclose(overlap[far], limit[far], atol=0.2)


def test_overlaps(draw):
    ax = draw("F2", 4)
    found = bars_of(ax)
    for ell in ELLS:
        gamma, mean, error = overlap_curves("smoke", 4)[ell]
        line, half = found[f"ℓ = {ell:g}"]
        np.testing.assert_array_equal(line.get_data(), (gamma, mean))
        np.testing.assert_allclose(half, 2 * error, rtol=1e-9)
        assert mean[0] == pytest.approx(spike_overlap(ell, gamma[0]), abs=0.15)
    right = panel(ax, "not random")
    for ell in WEAK:
        value, seen, _ = bulk_directions(ell, "smoke", 4)
        line, _ = bars_of(right)[f"ℓ = {ell:g}, by tenths"]
        np.testing.assert_array_equal(line.get_data(), (value, seen))


def test_bulk_directions_against_the_definition():
    """All shares of a draw add up to what n directions hold of the spike, and follow the law on the mean."""
    value, seen, error = bulk_directions(1.0, "smoke", 1, d=200, n=50)
    assert (np.diff(value) < 0).all()
    rng, total = np.random.default_rng(1), []
    for _ in range(4):
        sample = sample_spiked(50, 200, [1.0], random_state=rng)
        q = np.linalg.qr(sample.x.T)[0]
        total.append(np.sum((q.T @ sample.directions[0]) ** 2) * 200 / 50)
    assert seen.mean() == pytest.approx(np.mean(total), rel=1e-9)
    value, seen, error = bulk_directions(1.0, "paper", 1, d=400, n=100)
    # at the edge the law bends within a tenth; of nine others the mean square score is 1, its deviation
    # sqrt(2 / 9), and four of these make 1.7 squared
    for ell, holds in ((1.0, True), (0.5, False)):
        scores = (seen - subcritical_enrichment(ell, 4.0, value)) / error
        assert (np.sqrt(np.mean(scores[1:] ** 2)) < 1.7) == holds
    assert seen[0] > seen[1] + 3 * error[0]


def test_estimators(draw):
    ax = draw("F3", 5)
    found = estimates("smoke", 5)
    lines = curves(ax)
    for name, word in (("true", "true share"), ("plugin", "in sample"), ("crossfit", "cross-fitted")):
        np.testing.assert_allclose(lines[f"{word}, mean"].get_ydata(), np.nanmean(found[name], axis=1))
    errors = curves(panel(ax, "both estimates"))
    gap = found["plugin"] - found["true"]
    np.testing.assert_allclose(errors["in sample, bias"].get_ydata(), gap.mean(axis=1))
    np.testing.assert_allclose(errors["in sample, rms error"].get_ydata() ** 2, (gap**2).mean(axis=1))
    np.testing.assert_allclose(found["plugin"][0], 1, atol=1e-9)  # r = n
    assert (found["true"][0] < 0.9).all()


def test_tracking(draw):
    ax = draw("F4", 6)
    for run, title in zip(
        trackings("smoke", 6).values(), ("one difficulty", "all difficulties"), strict=True
    ):
        table = run.correlations()
        first, second = (other for other in ax.figure.axes if other.get_title(loc="left").startswith(title))
        for place, predictor in ((first, "true_rho"), (second, "predicted_gain")):
            row = table[PREDICTORS.index(predictor)]
            assert place.get_title(loc="left").endswith(f"r = {row[0]:.2f} and {row[-1]:.2f}")
            x, y = curves(place)["one step"].get_data()
            np.testing.assert_array_equal(x, getattr(run, predictor))
            np.testing.assert_array_equal(y, run.gains[:, 0])
            ends = [line.get_xydata() for name, line in curves(place).items() if "60 steps" in name]
            assert sum(map(len, ends)) == len(run.gains)
            assert sorted(np.concatenate(ends)[:, 1]) == sorted(run.gains[:, -1])
    tables = [other for other in ax.figure.axes if other.images]
    for run, place in zip(trackings("smoke", 6).values(), tables, strict=True):
        np.testing.assert_array_equal(place.images[0].get_array(), run.correlations())


def test_regime(draw):
    ax = draw("F5", 7)
    found = regimes("smoke", 7)
    hard = panel(ax, "hopeless")
    for j, name in ((0, "one step"), (1, "15 steps"), (2, "60 steps")):
        line, half = bars_of(hard)[name]
        np.testing.assert_array_equal(line.get_ydata(), found["difficulty"].gain[:, j])
        np.testing.assert_allclose(half, 2 * found["difficulty"].gain_se[:, j], rtol=1e-9)
    share = bars_of(ax)["ℓ = 6"][0]
    np.testing.assert_array_equal(share.get_ydata(), found["shape 6"].captured[:-1])
    window = bars_of(panel(ax, "that gains"))
    np.testing.assert_array_equal(window["ℓ = 3, 60 steps"][0].get_ydata(), found["shape 3"].gain[:-1, -1])
    long = panel(ax, "long training")
    np.testing.assert_allclose(bars_of(long)["one step"][0].get_xdata(), found["length"].lr * 60 * 768**0.5)


def test_pivots(draw):
    ax = draw("F7", 8)
    runs = {name: paths(name, "smoke", 8) for name in ("sgd", "momentum", "adam")}
    lines = curves(ax)
    # rounding of 20 steps, against changes of some percent
    assert lines["SGD"].get_ydata().max() < 1e-13
    assert lines["momentum, moved along"].get_ydata().max() < 1e-13
    assert lines["Adam, moved along"].get_ydata().max() > 1e-4
    assert lines["momentum, not moved"].get_ydata().max() > 1e-4
    assert lines["SGD"].get_ydata().min() == FLOOR
    losses = curves(panel(ax, "four rules"))
    for rule, values in zip(("no pivot", *runs["adam"].rules), runs["adam"].losses, strict=True):
        np.testing.assert_array_equal(losses[MOMENT_NAMES.get(rule, rule)].get_ydata(), values)
    last = panel(ax, "benefit")
    found = pivot_gains("smoke", 8)
    arms = ("canonical_transport", "canonical_reset", "random_transport", "orthonormal")
    shown = [text.get_text() for text in last.texts]
    assert shown == [f"{100 * found.difference(arm)[0]:+.2f}" for arm in arms]


@pytest.mark.full
def test_modules(draw, needs):
    ax = draw("F6")
    assert energies("smoke") is energies("smoke")
    for title, energy in zip(("topic", "masked"), energies("smoke").values(), strict=True):
        place = panel(ax, title)
        np.testing.assert_allclose([bar.get_width() for bar in place.patches], energy.share.mean(axis=1))
        for rule, name in (
            ("target", "PCA, target token"),
            ("all", "PCA, all tokens"),
            ("auto", "PCA, measured"),
        ):
            x = curves(place)[f"captured by {name}"].get_xdata()
            np.testing.assert_allclose(x, energy.captured[:, energy.rules.index(rule)].mean(axis=1))
        assert energy.share[energy.modules.index("blocks.1.q")].min() == pytest.approx(1, abs=1e-6)


@pytest.mark.full
def test_encoders(draw, needs):
    ax = draw("F8")
    run = encoder_runs("smoke")
    assert encoder_runs("smoke") is run
    assert run.methods == SHOWN_METHODS
    for task, title in zip(run.tasks, ("topic", "masked"), strict=True):
        place = panel(ax, title)
        clouds = [line.get_xdata() for line in place.lines if line.get_marker() == "."]
        np.testing.assert_array_equal(clouds, run.accuracy[run.tasks.index(task)])
    paired = [other for other in ax.figure.axes if other.get_title(loc="left") == "2 seeds"]
    for task, place in zip(run.tasks, paired, strict=True):
        words = [
            f"won {(gap > 0).sum()}, lost {(gap < 0).sum()}"
            for gap in (run.difference(task, method) for method in run.methods[1:])
        ]
        assert [text.get_text() for text in place.texts] == words
