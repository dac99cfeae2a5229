"""Each derivation as an identity, and against the numeric function that uses it."""

import numpy as np
import pytest

from porism.theory.token_capacity import (
    coverage,
    effective_rank,
    interchange_bound,
    position_ntk,
    symbolic,
)

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]


def put(sy, expression, **arrays):
    values = {
        sy.Symbol(f"{name}_{i}", real=True): sy.Rational(str(v))
        for name, a in arrays.items()
        for i, v in enumerate(a)
    }
    return float(expression.subs(values))


def test_hadamard_identity(sy):
    equation = symbolic.hadamard_identity(3, 2)
    assert sy.expand(equation.lhs - equation.rhs) == 0
    rng = np.random.default_rng(0)
    (x, y), (g, h) = rng.integers(-5, 6, (2, 3)), rng.integers(-5, 6, (2, 2))
    K = position_ntk(np.array([[x], [y]], float), np.array([[g], [h]], float))
    assert put(sy, equation.lhs, x=x, y=y, g=g, h=h) == K[0, 0, 1]
    with pytest.raises(ValueError, match="d_in must be in"):
        symbolic.hadamard_identity(5)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_tied_gap(sy, count):
    equation = symbolic.tied_gap(count)
    assert sy.expand(equation.lhs - equation.rhs) == 0
    rng = np.random.default_rng(1)
    x, g = rng.integers(-5, 6, count), rng.integers(-5, 6, count)
    X, G = x.astype(float).reshape(1, -1, 1), g.astype(float).reshape(1, -1, 1)
    gap = count * position_ntk(X, G).sum() - position_ntk(X, G, tied=True)[0, 0]
    assert put(sy, equation.rhs, J=x * g) == gap >= 0


def test_interchange_residual(sy):
    equation = symbolic.interchange_residual()
    assert sy.expand(equation.lhs - equation.rhs) == 0
    rng = np.random.default_rng(2)
    Xs, Xt, G = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), np.ones((5, 1))
    found = interchange_bound(Xs, Xt, G, G)  # the gradients agree, so that only the inputs' term is left
    a, rho = sy.Symbol("a", positive=True), sy.Symbol("rho", real=True)
    squared = equation.rhs.subs({a: np.linalg.norm(Xs @ Xs.T), rho: found.input_alignment})
    assert found.bound == pytest.approx(float(squared) ** 0.5, rel=1e-9)


@pytest.mark.parametrize("m", [1, 3, 8])
def test_participation_counterexample(sy, m):
    found = [
        float(e.rhs.subs(sy.Symbol("m", positive=True), m)) for e in symbolic.participation_counterexample()
    ]
    assert found == pytest.approx([4 * m / (m + 1), 2 * m, 2 * m**0.5], rel=1e-14)
    unit = np.eye(m + 1)
    X, G = np.concatenate([unit[[0] * m], unit[1:]]), np.concatenate([unit[1:], unit[[0] * m]])
    A, B = X @ X.T, G @ G.T
    numbers = [effective_rank(A, kind="participation"), effective_rank(A * B, kind="participation")]
    assert [*map(float, numbers), float(effective_rank(A))] == pytest.approx(found, rel=1e-12)


def test_ridge_increment(sy):
    equation = symbolic.ridge_increment()
    assert sy.simplify(equation.lhs.doit() - equation.rhs) == 0
    s, lam = sy.symbols("s lam", positive=True)
    assert equation.rhs.is_positive
    # one dimension: energy 1 of the first position out of 4 in all, ridge 0.5 of the total
    curve = [coverage(np.array([[[1 + d]], [[3 - d]]]), [0, 1], ridge=0.5)[0] for d in (-1e-5, 1e-5)]
    slope = float(equation.rhs.subs({s: 1, lam: 2}))
    assert (curve[1] - curve[0]) / 2e-5 == pytest.approx(slope, rel=1e-8)


def test_width_law(sy):
    equation = symbolic.width_law()
    N, d = sy.symbols("N d", positive=True)
    assert sy.simplify(equation.rhs - N * d / (N + d + 1)) == 0
    rng = np.random.default_rng(3)
    for width in (4, 64, 512):
        X = rng.normal(size=(400, 24, width))
        A = X @ X.swapaxes(1, 2)
        ratio = np.trace(A, axis1=1, axis2=2).mean() ** 2 / (A**2).sum((1, 2)).mean()
        spread = (A**2).sum((1, 2)).std() / (A**2).sum((1, 2)).mean() / 400**0.5
        trace = np.trace(A, axis1=1, axis2=2).std() / np.trace(A, axis1=1, axis2=2).mean() / 400**0.5
        expected = float(equation.rhs.subs({N: 24, d: width}))
        assert ratio == pytest.approx(expected, rel=5 * (spread + 2 * trace))
