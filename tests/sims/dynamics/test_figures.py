"""Figures show what the theory says."""

import numpy as np
import pytest
from helpers import curves, panel

from porism.theory.dynamics import DelegationModel


def test_portraits(draw):
    ax = draw("F1")
    for q in (0.5, 0.7, 0.85):
        model = DelegationModel(1, 0.6, 1, q)
        place = panel(ax, f"q = {q:g}: {100 * model.low_skill_area():.1f} %")
        found = curves(place)
        s, d = found["border d_sep(s)"].get_data()
        np.testing.assert_array_equal(d, model.separatrix()(s))
        saddle = np.column_stack(found["saddle"].get_data())
        np.testing.assert_allclose(saddle, [[q, (1 - q) / (1 - q + 0.6 * q)]], atol=1e-12)
        assert np.column_stack(found["attracts"].get_data()).tolist() == [[0, 1], [1, 0]]
        x, y = found["ds/dt = 0"].get_data()
        np.testing.assert_allclose((1 - y) * (1 - x), 0.6 * y * x, atol=1e-9)


def test_quality(draw):
    ax = draw("F2")
    left, right = panel(ax, "grows with q"), panel(ax, "cost does not")
    for name, law in (("law A", {}), ("law B, γ = 12", {"law": "logistic", "gain": 12})):
        q, area = curves(left)[name].get_data()
        expected = [DelegationModel(1, 0.6, 1, x, **law).low_skill_area() for x in q]
        np.testing.assert_array_equal(area, expected)
        assert np.diff(area).min() >= 0
        np.testing.assert_array_equal(curves(right)[name].get_ydata(), area * (1 - q))
    assert right.texts[0].get_text() == "q = 0.62"  # on the grid of eighths


def test_speed(draw):
    ax = draw("F3")
    for q in (0.7, 0.6):
        k, area = curves(ax)[f"q = {q:g}"].get_data()
        expected = [DelegationModel(1, 0.6, x, q).low_skill_area() for x in k]
        np.testing.assert_array_equal(area, expected)
        assert (np.diff(area) > 0).all() == (q == 0.6)
    hollow = [line.get_ydata() for line in ax.lines if line.get_markerfacecolor() == "white"]
    limits = [y[0] for y in hollow if len(y)]
    assert limits == pytest.approx([0.42 / 0.72, 0.7, 0.36 / 0.76, 0.6])
    assert [text.get_text() for text in ax.texts] == ["0.723 at k = 10"]


def test_folds(draw):
    ax = draw("F4")
    left, right = panel(ax, "law B"), panel(ax, "only in this window")
    for gamma in (12.0, 6.0, 3.9):
        q, s = curves(left)[f"γ = {gamma:g}"].get_data()
        solid = np.isfinite(q)
        assert solid.all() == (gamma < 4)
        assert (gamma * s[solid] * (1 - s[solid]) <= 1).all()
        for x, y in list(zip(q[solid], s[solid], strict=True))[::20]:
            stable = [e.point[0] for e in DelegationModel(1, 0.6, 1, x, "logistic", gamma).equilibria()]
            assert np.abs(np.array(stable) - y).min() < 1e-9
    bars = [line.get_xdata() for line in right.lines if line.get_marker() == "o"]
    windows = [DelegationModel(1, 0.6, 1, 0.5, "logistic", g).bistable_window() for g in (12, 6)]
    np.testing.assert_array_equal(bars, windows)


def test_performance(draw):
    ax = draw("F5")
    left, right = panel(ax, "q = 0.7"), panel(ax, "three")
    model = DelegationModel(1, 0.6, 1, 0.7)
    for s, d in ((0.45, 0.5), (0.3, 0.2)):
        t, values = curves(left)[f"with AI, from s = {s:g}, d = {d:g}"].get_data()
        np.testing.assert_array_equal(values, model.performance(s, d, t))
        np.testing.assert_allclose(
            curves(left)[f"alone, from s = {s:g}"].get_ydata(), 1 - (1 - s) * np.exp(-t)
        )
    spots = [line.get_xdata()[0] for line in left.lines if line.get_marker() == "o"]
    assert spots == pytest.approx([0.31108038, 0.35602902], abs=1e-8)
    t, gain = curves(right)["with AI less alone"].get_data()
    turns = curves(right)["sign changes"].get_xdata()
    np.testing.assert_allclose(turns, [0.1846128039, 2.2002117585, 6.8189923554], atol=1e-9)
    signs = np.sign(gain[1:])
    assert (np.diff(signs) != 0).sum() == 3
    assert [text.get_text() for text in right.texts] == ["0.18", "2.20", "6.82"]
