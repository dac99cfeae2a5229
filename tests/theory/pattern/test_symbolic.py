"""Each derivation against the numeric function that uses it, and as an identity of its own."""

import itertools

import numpy as np
import pytest

from porism.kernels import lap, pattern_cost
from porism.theory.pattern import masks, pattern_distance, symbolic
from porism.theory.pattern._anneal import Layout
from porism.theory.pattern._common import frank_wolfe
from porism.theory.pattern.low_rank import pattern_plus_low_rank
from porism.theory.pattern.nulls import null_moments

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]


def insert(sy, expression, **arrays):
    """Numbers for the symbols of matrices."""
    values = {
        sy.Symbol(f"{name}_{{{i}{j}}}"): sy.Rational(str(x))
        for name, X in arrays.items()
        for (i, j), x in np.ndenumerate(X)
    }
    return expression.subs(values)


def whole(seed, *shape):
    return np.random.default_rng(seed).integers(0, 9, shape)


def value(W, B, p, q):
    return (W * B[np.ix_(p, q)]).sum()


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 2), (3, 2)])
def test_mean_independent(sy, shape):
    W, B = whole(0, *shape), whole(1, *shape)
    pairs = itertools.product(*(itertools.permutations(range(k)) for k in shape))
    mean = np.mean([value(W, B, p, q) for p, q in pairs])
    found = insert(sy, symbolic.mean_independent(*shape).rhs, w=W, b=B)
    assert float(found) == pytest.approx(mean, rel=1e-12)
    assert float(found) == pytest.approx(W.mean() * B.sum(), rel=1e-12)
    with pytest.raises(ValueError, match="n must be in 1"):
        symbolic.mean_independent(2, 4)


def test_mean_independent_bounds_the_solver(sy):
    A, mask = np.random.default_rng(3).normal(size=(3, 3)).round(3), masks.band(3, 0)
    mean = insert(sy, symbolic.mean_independent(3, 3).rhs, w=mask.penalty, b=A**2) / (A**2).sum()
    assert pattern_distance(A, mask).mass_outside < float(mean) == pytest.approx(1 - mask.density)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_mean_common(sy, n):
    W, B = whole(2, n, n), whole(3, n, n)
    mean = np.mean([value(W, B, p, p) for p in itertools.permutations(range(n))])
    found = insert(sy, symbolic.mean_common(n).rhs, w=W, b=B)
    assert float(found) == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_swap_delta(sy, n):
    W, B = whole(4, n, n), whole(5, n, n)
    p = np.random.default_rng(6).permutation(n)
    found = pattern_cost.swap_deltas(B, W, p)
    for a, b in itertools.product(range(n), repeat=2):
        equation = symbolic.swap_delta(n, a, b)
        assert sy.expand(equation.lhs - equation.rhs) == 0
        for side in (equation.lhs, equation.rhs):
            assert float(insert(sy, side, w=W, b=B[np.ix_(p, p)])) == pytest.approx(found[a, b], abs=1e-9)


@pytest.mark.parametrize(("cells", "inside"), [(2, 1), (4, 1), (5, 3), (6, 6)])
def test_row_null(sy, cells, inside):
    row = whole(7, cells) + 1.0
    S = np.r_[np.ones(inside), np.zeros(cells - inside)]
    outside = [(1 - S) @ row[list(p)] ** 2 for p in itertools.permutations(range(cells))]
    b = row**2
    names = {"c": cells, "s": inside, "M": b.sum(), "Q": (b**2).sum()}
    numbers = {sy.Symbol(name, positive=True): sy.Rational(str(x)) for name, x in names.items()}
    mean, variance = (float(equation.rhs.subs(numbers)) for equation in symbolic.row_null())
    assert mean == pytest.approx(np.mean(outside), rel=1e-12)
    assert variance == pytest.approx(np.var(outside), rel=1e-12, abs=1e-9)
    moments = null_moments(row[None], S[None])
    assert moments == pytest.approx((mean / b.sum(), variance / b.sum() ** 2), rel=1e-12, abs=1e-12)


def test_low_rank_bound(sy):
    left, bound = symbolic.low_rank_bound()
    assert sy.simplify(left.lhs - left.rhs) == 0
    assert sy.expand(left.rhs - bound.rhs) == 0
    A, mask = np.random.default_rng(8).normal(size=(6, 5)), masks.block_diagonal([3, 3], [3, 2])
    fit = pattern_plus_low_rank(A, mask, 2, random_state=0)
    U, s, V = np.linalg.svd(A)
    residual = (U[:, 2:5] * s[2:]) @ V[2:]
    names = {"m": 6, "n": 5, "|S|": 15, "e_r": fit.svd_error}
    numbers = {sy.Symbol(name, positive=True): x for name, x in names.items()}
    promised = float(bound.rhs.subs(numbers))
    # the mean over orders of what is left of A beside the truncated SVD
    rng = np.random.default_rng(9)
    drawn = [value(mask.penalty, residual**2, rng.permutation(6), rng.permutation(5)) for _ in range(4000)]
    share = np.array(drawn) / (A**2).sum()
    assert promised == pytest.approx(share.mean(), abs=5 * share.std() / 4000**0.5)
    assert fit.error < promised


def test_line_search(sy):
    line, step = symbolic.line_search()
    rng = np.random.default_rng(10)
    n, everyone = 6, np.arange(6)
    W, B = rng.random((2, n, n))
    X, p = np.full((n, n), 1 / n), rng.permutation(n)
    Y = np.zeros((n, n))
    Y[everyone, p] = 1

    def gradient(Z):
        return W @ Z @ B.T + W.T @ Z @ B

    def f(Z):
        return (W * (Z @ B @ Z.T)).sum()

    products = {
        "tilt": (gradient(X) * X).sum(),
        "end": (gradient(Y) * Y).sum(),
        "cross": (gradient(X) * Y).sum(),
    }
    numbers = {sy.Symbol(name): x for name, x in products.items()}
    t = sy.Symbol("t")
    for at in (0.0, 0.3, 1.0):
        assert float(line.rhs.subs(numbers | {t: at})) == pytest.approx(f(X + at * (Y - X)), rel=1e-9)
    best = float(step.rhs.subs(numbers))
    slope = sy.diff(line.rhs, t).subs(numbers | {t: best})
    assert float(slope) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_frank_wolfe_takes_that_step(sy, seed):
    rng = np.random.default_rng(seed)
    n, everyone = 5, np.arange(5)
    W, B = rng.random((2, n, n))
    X = 0.6 * np.eye(n)[rng.permutation(n)] + 0.4 / n

    def gradient(Z):
        return W @ Z @ B.T + W.T @ Z @ B

    Y = np.zeros((n, n))
    Y[everyone, lap.solve(gradient(X).T)] = 1
    tilt, cross = (gradient(X) * X).sum(), (gradient(X) * Y).sum()
    end = (gradient(Y) * Y).sum()
    numbers = {sy.Symbol(name): x for name, x in (("tilt", tilt), ("cross", cross), ("end", end))}
    bend = (tilt + end) / 2 - cross
    step = min(1.0, float(symbolic.line_search()[1].rhs.subs(numbers))) if bend > 0 else 1.0
    if cross - tilt > -1e-9 or (bend <= 0 and cross - tilt + bend > 0):
        step = 0.0
    expected = lap.solve(-np.round((X + step * (Y - X)).T, 9))
    np.testing.assert_array_equal(frank_wolfe(Layout(B, W), X.copy(), iterations=1), expected)
