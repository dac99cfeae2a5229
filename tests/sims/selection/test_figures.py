"""Figures show what the theory says."""

import numpy as np
import pytest
from helpers import curves, panel


@pytest.fixture(autouse=True)
def torch(needs):
    return needs("torch")


def test_orders(draw):
    lines = curves(draw("F1"))
    slopes = {}
    for name, line in lines.items():
        x, y = (np.log(values) for values in line.get_data())
        slopes[name] = (y[2] - y[0]) / (x[2] - x[0])  # 1e-3 to 3e-2
    assert slopes.pop("first order") == pytest.approx(1, abs=0.1)
    assert lines["path, 8 nodes: rounding"].get_ydata().max() < 1e-11
    del slopes["path, 8 nodes: rounding"]
    assert list(slopes.values()) == pytest.approx([2, 2, 2], abs=0.2)
    ratio = lines["trapezoid of v"].get_ydata()[0] / lines["midpoint of v"].get_ydata()[0]
    assert ratio == pytest.approx(2, rel=0.01)


def test_removal(draw):
    ax = draw("F2")
    lines = curves(ax)
    (x, end), first = lines["end point"].get_data(), lines["first order"].get_ydata()
    assert len(x) == 12
    assert np.linalg.norm(end - x) < np.linalg.norm(first - x)
    # shares by the trapezoid lie half way
    assert lines["shares"].get_ydata() == pytest.approx((end + first) / 2)
    errors = {name: line.get_ydata() for name, line in curves(panel(ax, "together")).items()}
    assert (errors["end point"] < errors["shares"]).all()
    assert (errors["shares"] < errors["first order"]).all()


def test_joint(draw):
    ax = draw("F3")
    marks = [line for line in ax.lines if len(line.get_xdata()) == 8]
    assert len(marks) == 12  # four families, three ways
    values = [line.get_ydata() for line in marks]
    for once, step, many in zip(values[::3], values[1::3], values[2::3], strict=True):
        assert (once <= step + 1e-12).all()
        assert (step <= many + 1e-12).all()
        assert (many <= 1 + 1e-12).all()
    assert values[6] == pytest.approx(1)  # products of non-negative vectors


def test_cost(draw):
    ax = draw("F4")
    lines = {name: line.get_ydata() for name, line in curves(ax).items()}
    matrix = lines["n P numbers of 4 bytes"]
    assert matrix[1] == 4 * matrix[0]
    assert (lines["gradients of each sample, vmap"] > matrix).all()
    assert lines["dual scores"][1] < 2 * lines["dual scores"][0]
    work = {name: line.get_ydata() for name, line in curves(panel(ax, "matrix products")).items()}
    assert (work["dual scores"] > work["gradients of each sample, vmap"]).all()
