"""Figures show what the theory says."""

import numpy as np
import pytest
from helpers import curves, panel

from porism.sims.subspace.figures import ANGLES
from porism.theory.subspace import crossover_angle, mixture_spectrum, reuse_error


def test_error_by_angle(draw):
    ax = draw("F1")
    lines = curves(ax)
    for h2 in (1e-3, 1e-2, 1e-1):
        x, y = lines[f"law, h² = {h2:g}"].get_data()
        law = [reuse_error([t] * 4, 1, 0.01, 1, h2, 20, 4).total for t in x]
        assert y == pytest.approx(law)
        assert lines[f"(D − d) n / h⁴, h² = {h2:g}"].get_ydata()[0] == pytest.approx(16 * 0.01 / h2**2)
        x, y = lines[f"a Σ sin²θ / h⁴, h² = {h2:g}"].get_data()
        assert y == pytest.approx(4 * np.sin(x) ** 2 / h2**2)
    dots = [line for line in ax.lines if line.get_marker() in ("o", "s", "D") and len(line.get_xdata()) == 1]
    assert len(dots) == 9
    for dot, h2 in zip(dots, np.repeat([1e-3, 1e-2, 1e-1], 3), strict=True):
        (x,), (y,) = dot.get_data()
        # 500 samples of a sum of some four squares or more: a relative standard error below 4 %
        assert y == pytest.approx(reuse_error([x] * 4, 1, 0.01, 1, h2, 20, 4).total, rel=0.2)
    (mark,) = (t for t in ax.texts if "both equal" in t.get_text())
    assert mark.get_position()[0] == pytest.approx(crossover_angle(1, 0.01, 20, 4) * 1.07)


def test_slopes(draw):
    ax = draw("F2")
    lines = curves(ax)
    for name, start in (("misalignment, θ = 0.5", -2), ("noise floor", -2)):
        slope = np.diff(np.log(lines[name].get_ydata())) / np.diff(np.log(lines[name].get_xdata()))
        assert slope[0] == pytest.approx(start, abs=0.02)
        assert slope[-1] == pytest.approx(-3, abs=0.02)
        assert (slope < 0).all()
    ratios = curves(panel(ax, "variance preserving"))
    at = [ratios[f"θ = {angle:g}"].get_ydata()[5] for angle in (0, 0.1, 0.5, 1.4)]
    assert at == sorted(at)


def test_calibrated(draw):
    lines = curves(draw("F3"))
    for angle in (0.1, 0.5, 1.4):
        naive, mended = (lines[f"{word}, θ = {angle:g}"] for word in ("naive", "calibrated"))
        assert (mended.get_ydata() <= naive.get_ydata()).all()
        assert mended.get_ydata()[0] == pytest.approx(mended.get_ydata()[1], rel=0.01)
        assert naive.get_ydata()[0] > 1e3 * mended.get_ydata()[0]


def test_sharing(draw):
    ax = draw("F4")
    x, y = curves(ax)["share of the source 0.5"].get_data()
    minor = mixture_spectrum(ANGLES)[4:]
    assert y.tolist() == [4 + (minor > t).sum() for t in x]
    lines = curves(panel(ax, "sharing never"))
    frozen = lines["frozen source latent: target loses sin²θ"].get_ydata()
    both = lines["shared latent: both together, 2 sin²(θ/2)"].get_ydata()
    assert (both <= frozen + 1e-15).all()
    assert lines["either domain"].get_ydata() == pytest.approx(both / 2)


def test_beyond_angles(draw):
    ax = draw("F5")
    lines = curves(ax)
    ends = [lines[f"variances {pair}"].get_ydata()[0] for pair in ("4, 1", "1, 4")]
    s2 = np.sin(1) ** 2
    assert ends == pytest.approx([s2 + 0.04, 4 * s2 + 0.04], rel=0.01)
    signs = curves(panel(ax, "any law"))
    exact, bound = (
        signs[n].get_ydata() for n in ("exact, signs −1 and 1", "bound, x₀ in place of E[x₀ | x]")
    )
    assert bound == pytest.approx(0.9 * np.sin(0.6) ** 2)
    assert (exact <= bound * (1 + 1e-12)).all()
    assert exact[-1] < 0.5 * bound[-1]


@pytest.mark.full
def test_digits(draw, needs):
    needs("sklearn")
    ax = draw("F6")
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == sorted(heights)
    assert heights[0] == pytest.approx(14.9, abs=0.1)
    assert "53%" in ax.get_title(loc="left")
    lines = curves(panel(ax, "the price"))
    reuse, own = (lines[n].get_ydata() for n in ("latent of 0–4, reused", "the target's own ten directions"))
    assert (own < reuse).all()
    assert reuse[0] > lines["predicting zero"].get_ydata()[0]
    assert reuse[-1] < lines["predicting zero"].get_ydata()[-1]
