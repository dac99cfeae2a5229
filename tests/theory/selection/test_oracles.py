"""Cases in exact arithmetic: one least-squares problem by fractions, three matrices by hand."""

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

from porism.theory.selection import dual_scores, joint_select

X, Y = [[1, 2], [0, 1], [2, -1]], [1, 0, 3]
A, B = [[1, 1], [1, -1]], [2, 1]
THETA, LR = [1, 1], F(1, 4)


def dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def residuals(rows, targets, theta):
    return [dot(row, theta) - y for row, y in zip(rows, targets, strict=True)]


def val(theta):
    return sum(F(r) ** 2 for r in residuals(A, B, theta)) / 4


def slope(theta):
    found = residuals(A, B, theta)
    return [sum(F(r) * row[j] for r, row in zip(found, A, strict=True)) / 2 for j in range(2)]


def moved(weights):
    found = residuals(X, Y, THETA)
    mean = [sum(F(w) * r * x[j] for w, r, x in zip(weights, found, X, strict=True)) / 3 for j in range(2)]
    return [F(t) - LR * g for t, g in zip(THETA, mean, strict=True)]


@pytest.fixture
def problem(needs):
    torch = needs("torch")

    def tensor(values):
        return torch.tensor(values, dtype=torch.float64)

    def loss(p, batch):
        return 0.5 * (batch[0] @ p["theta"] - batch[1]) ** 2

    held = tensor(A), tensor(B)
    params = {"theta": tensor(THETA)}
    return loss, lambda p: loss(p, held).mean(), params, (tensor(X), tensor(Y))


def test_the_fractions():
    """What the expected numbers below are made of."""
    v = slope(THETA)
    G = [[r * x[j] * v[j] for j in range(2)] for r, x in zip(residuals(X, Y, THETA), X, strict=True)]
    assert v == [F(-1, 2), F(1, 2)]
    assert [[-1, 2], [0, F(1, 2)], [2, 1]] == G
    assert val(THETA) - val(moved([1, 1, 1])) == F(55, 288)
    gains = [val(THETA) - val(moved([i != k for i in range(3)])) for k in range(3)]
    assert [F(55, 288) - gain for gain in gains] == [F(-1, 72), F(-1, 288), F(1, 6)]


@pytest.mark.parametrize("method", ["jvp", "double_backward", "per_sample", "central"])
def test_first_order(problem, method):
    found = dual_scores(*problem, lr=float(LR), method=method)
    # differences of a quadratic are exact but for rounding: 1e-16 over a step of 1e-6
    assert found.rows.tolist() == pytest.approx([1, 0.5, 3], rel=1e-8 if method == "central" else 1e-14)
    assert found.columns["theta"].tolist() == pytest.approx([1, 3.5], rel=1e-14)
    assert found.total == pytest.approx(4.5, rel=1e-14)
    assert found.predicted == pytest.approx(3 / 8, rel=1e-14)
    assert found.actual == pytest.approx(55 / 288, rel=1e-14)
    assert found.method == method
    assert not found.fallbacks


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_path(problem, nodes):
    found = dual_scores(*problem, lr=float(LR), order="path", nodes=nodes)
    assert found.rows.tolist() == pytest.approx([0, 5 / 288, 25 / 144], abs=1e-15)
    assert found.columns["theta"].tolist() == pytest.approx([5 / 72, 35 / 288], rel=1e-13)
    assert found.total == found.predicted == pytest.approx(55 / 288, rel=1e-14)


def test_removal(problem):
    """End-point rows and the half of each sample's own curvature, which is |x r|^2 here as H = 1."""
    found = dual_scores(*problem, lr=float(LR), order="endpoint")
    own = [(r * np.array(x, float)) @ (r * np.array(x, float)) for r, x in zip([2, 1, -2], X, strict=True)]
    exact = found.rows.numpy() + np.array(own) * (1 / 12) ** 2 / 2
    assert exact == pytest.approx([-1 / 72, -1 / 288, 1 / 6], rel=1e-13)
    assert found.predicted is None


def test_nothing_to_move(problem):
    for order in ("first", "path", "endpoint"):
        for nothing in ({"mask": {"theta": 0.0}}, {"weights": [0, 0, 0]}):
            for method in ("jvp", "double_backward", "central", "per_sample"):
                found = dual_scores(*problem, lr=0.25, order=order, method=method, norms="exact", **nothing)
                assert found.rows.tolist() == [0, 0, 0]
                assert found.columns["theta"].tolist() == [0, 0]
                assert found.total == 0
                assert found.imbalance == 0
                assert found.cosines.isfinite().all()


CROSS = [[10, -10, 0.1], [-10, 10, 0.1], [0.2, 0.2, 0.2]]
FOUR = [[3, -2, 1, 0], [-1, 4, -2, 2], [2, 1, 0, -3], [0, -1, 5, 1]]


def test_three_by_three():
    once = joint_select(CROSS, 1, 1)
    assert (once.rows.tolist(), once.cols.tolist(), once.value) == ([2], [2], 0.2)
    step = joint_select(CROSS, 1, 1, "alternating")
    assert (step.value, step.sweeps) == (10, 3)
    assert joint_select(CROSS, 1, 1, "exact").value == 10
    assert once.upper_bound == step.upper_bound == 10


def test_four_by_four():
    once = joint_select(FOUR, 2, 2)
    assert (once.rows.tolist(), once.cols.tolist(), once.value) == ([1, 3], [0, 2], 2)
    for method in ("alternating", "exact"):
        found = joint_select(FOUR, 2, 2, method)
        assert (found.rows.tolist(), found.cols.tolist(), found.value) == ([0, 3], [0, 2], 9)
    G = np.array(FOUR)
    pairs = list(itertools.combinations(range(4), 2))
    assert max(G[np.ix_(r, c)].sum() for r in pairs for c in pairs) == 9
    assert once.upper_bound == 11  # rows: 6 + 6 and columns: 6 + 5
