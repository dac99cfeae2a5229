"""Figures show what the theory says."""

import numpy as np
import pytest
from helpers import curves, panel

from porism.sims.attention import minilm_queries
from porism.theory.attention import virtual_rank


def test_guard(draw):
    ax = draw("F1")
    lines = curves(ax)
    for kind in ("half", "interleaved"):
        distance, error = lines[f"pairs: {kind}"].get_data()
        # a mean over 1024 positions; the slowest beat of two frequencies has a period of 92
        np.testing.assert_allclose(error, 2**0.5 * distance, rtol=0.05)
        assert distance[0] < 1e-5
        assert distance[-1] > 1
    right = curves(panel(ax, "what the layout"))
    assert right["projected"].get_ydata().max() < 1e-13
    for name in ("any mix", "projected for the other layout"):
        assert right[name].get_ydata().min() > 0.1


def test_cost(draw):
    ax = draw("F2")
    ratio = ax.collections[0].get_array().reshape(8, 8)
    for P in range(1, 9):
        for G in range(1, 9):
            assert ratio[P - 1, G - 1] == pytest.approx(G * 1024 / (P * (1024 + G)))
    G, P = curves(ax)["equal: P = G D / (D + G)"].get_data()
    assert pytest.approx(G * 1024 / (1024 + G)) == P
    assert "P = 4, G = 8: 1.98" in curves(ax)
    right = curves(panel(ax, "nearly as many"))
    D, share = right["G = 32"].get_data()
    assert share == pytest.approx(D / (D + 32))


def test_real_heads(draw):
    ax = draw("F3")
    found = virtual_rank(minilm_queries())
    layers = [line for line in ax.lines if line.get_color() == "#0072B2"]
    assert len(layers) == 6
    for line, values in zip(layers, found.singular_values, strict=True):
        assert line.get_ydata() == pytest.approx(values / values[0])
    right = curves(panel(ax, "fewer heads"))
    assert right["planted, 9 of 12"].get_ydata()[9] < 1e-12
    assert right["Gaussian"].get_ydata()[9] == pytest.approx(0.49, abs=0.02)
    assert right["MiniLM, layers 0 to 5"].get_ydata()[9] == pytest.approx(found.error_at(9)[5])


def test_rounding(draw):
    ax = draw("F4")
    lines = curves(ax)
    kept, folded = lines["weights of full precision"].get_data()
    assert (folded < kept).all()
    stored = np.array(lines["weights stored in bfloat16"].get_data())
    assert stored[0].mean() == pytest.approx(stored[1].mean(), rel=0.02)
    stars = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "*"]
    once = 2.0**-8 / (8 * np.log(2)) ** 0.5 * 1000
    np.testing.assert_allclose(stars, [[5**0.5 * once, 3**0.5 * once], [2**0.5 * once] * 2])
    np.testing.assert_allclose([kept.mean(), folded.mean()], stars[0], rtol=0.03)
