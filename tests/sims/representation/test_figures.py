"""What the figures show, against the functions behind them."""

import numpy as np
import pytest
from helpers import curves, panel

from porism.sims.representation._figure_data import (
    MEASURES,
    digits_pairs,
    lowest_draws,
    measures_by_primitive,
    scrambled_pairs,
    two_units,
)


def test_scrambled_pairs():
    """PS-6: 1 for the complete form; for parallel units merged only while no group of six is there."""
    without, groups = (scrambled_pairs(12, linear, 0) for linear in (False, True))
    np.testing.assert_allclose(without[1:], 1, atol=1e-9)
    np.testing.assert_allclose(groups[2], 1, atol=1e-9)
    assert groups[1].max() < 0.95
    assert max(np.median(without[0]), np.median(groups[0])) < 0.6


def test_scrambles(draw):
    ax = draw("F1")
    right = panel(ax, "groups of six")
    for axes, merged_last in ((ax, 8), (right, 0)):
        heights = np.array([[bar.get_height() for bar in bars] for bars in axes.containers])
        assert heights.shape == (3, 20)
        np.testing.assert_array_equal(heights.sum(1), 8)
        assert heights[2, -1] == 8
        assert heights[1, -1] == merged_last


def test_addition(draw):
    ax = draw("F2", 1)
    lines = curves(ax)
    assert list(lines) == ["1 unit", "4 units", "40 units", "1 unit of noise"]
    unlabelled = [line for line in ax.lines if line.get_label().startswith("_")]
    marks, limits = unlabelled[::2], unlabelled[1::2]
    for line, mark, limit in zip(lines.values(), marks, limits, strict=True):
        t, law = line.get_xydata().T
        x, seen = mark.get_xydata().T
        assert (np.diff(law) < 0).all()
        np.testing.assert_allclose(np.interp(np.log(x), np.log(t), law), seen, atol=0.03)
        assert law[-1] == pytest.approx(limit.get_ydata()[0], abs=0.02)
        assert law[-1] >= limit.get_ydata()[0]


def test_bounds(draw):
    ax = draw("F3")
    x, y = curves(ax)["two scalings of one layer"].get_xydata().T
    assert (y >= x - 1e-12).all()
    right = curves(panel(ax, "seven units"))
    for line in right.values():
        bound, found = line.get_xydata().T
        assert (found >= bound * (1 - 1e-9)).all()
        assert np.median(found / bound) < 2


def test_bounds_are_reached():
    bound, found = two_units(20, 60, 1)
    assert np.median(found.min(1) - bound) < 0.02
    both, one = lowest_draws(6, 3000, 1)
    # draws near a ray weigh the others by e^-12 on the median, and pairs of rays are met many times
    np.testing.assert_allclose(one[1], one[0], rtol=0.01, atol=1e-6)
    np.testing.assert_allclose(both[1], both[0], rtol=0.1, atol=1e-4)


def test_measures(draw):
    ax = draw("F4", 0)
    names, found = measures_by_primitive(2, 0)
    np.testing.assert_allclose(ax.images[0].get_array(), found)
    words = np.array([text.get_text() for text in ax.texts]).reshape(6, 6)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(MEASURES)
    column = {name: k for k, name in enumerate(names)}
    rows = dict(zip(MEASURES, words, strict=True))
    assert (rows["privileged CKA"] == "1").all()
    blind = [column[name] for name in ("scale", "duplicate", "add null,\none side")]
    assert (rows["CCA"][blind] == "1").all()
    assert (np.delete(rows["CCA"], blind) != "1").all()  # PS-4: additions on both sides
    for fooled in ("CKA", "Procrustes", "RSA"):
        assert (rows[fooled] != "1").all()
    assert (rows["CKA, parallel merged"] != "1").sum() == 2  # where there are groups of six


@pytest.mark.full
def test_digits(draw):
    ax = draw("F5", 0)
    found = digits_pairs(2, 3, 0, 15)
    shown = [line.get_ydata() for line in ax.lines]
    np.testing.assert_allclose(np.concatenate(shown), np.concatenate([x.ravel() for x in found.values()]))
    independent, scrambled, other = found.values()
    assert np.abs(independent[0] - independent[1]).max() < 0.06
    np.testing.assert_allclose(scrambled[1], 1, atol=1e-9)
    assert scrambled[0].max() < 0.95
    np.testing.assert_allclose(other[0], 1, atol=1e-12)
    assert other[1].max() < 0.9
