"""Derivations behind the pattern distance as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from porism.checks import integer, require

if TYPE_CHECKING:
    import sympy

__all__ = ["line_search", "low_rank_bound", "mean_common", "mean_independent", "row_null", "swap_delta"]


def mean_independent(m: int = 2, n: int = 2) -> "sympy.Eq":
    """Mean of f over all pairs of orders: no order is better than all, so one is at least this good (PD-5).

    ``E f = mean(W) sum(B)``: each source cell is uniform over the positions.

    Parameters
    ----------
    m, n : int, default 2
        Rows and columns, 1 to 3.

    Returns
    -------
    sympy.Eq
        The mean on the left; on the right the average over all m! n! pairs, written out and factored, in
        symbols w and b with the cell, such as w01.

    Raises
    ------
    TypeError, ValueError
        If m or n is out of range.

    Examples
    --------
    >>> mean_independent(1, 2).rhs  # doctest: +SKIP
    (b_{00} + b_{01})*(w_{00} + w_{01})/2
    """
    sy = require("sympy", "symbolic")
    W, B = _cells("w", integer("m", m, 1, 3), integer("n", n, 1, 3)), _cells("b", m, n)
    orders = itertools.product(itertools.permutations(range(m)), itertools.permutations(range(n)))
    total = sum(_value(W, B, p, q) for p, q in orders)
    mean = sy.expand(total) / (math.factorial(m) * math.factorial(n))
    return sy.Eq(sy.Symbol(r"\mathbb{E}f"), sy.factor(mean), evaluate=False)


def mean_common(n: int = 3) -> "sympy.Eq":
    """Mean of f over all common orders: diagonal cells stay on the diagonal (PD-5).

    ``E f = mean(diag W) tr B + mean(offdiag W) sum_off B``.

    Parameters
    ----------
    n : int, default 3
        Rows and columns, 1 to 4.

    Returns
    -------
    sympy.Eq
        The mean on the left; on the right the average over all n! orders, the diagonal's share and that of
        the other cells factored one by one.

    Raises
    ------
    TypeError, ValueError
        If n is out of range.

    Examples
    --------
    >>> mean_common(1).rhs  # doctest: +SKIP
    b_{00}*w_{00}
    """
    sy = require("sympy", "symbolic")
    W, B = _cells("w", integer("n", n, 1, 4), n), _cells("b", n, n)
    total = sum(_value(W, B, p, p) for p in itertools.permutations(range(n)))
    mean = sy.expand(total) / math.factorial(n)
    diagonal = {B[i, i]: 0 for i in range(n)}
    others = mean.subs(diagonal)
    parts = [sy.factor(part) for part in (sy.expand(mean - others), others)]
    kept = [part for part in parts if part != 0]
    return sy.Eq(sy.Symbol(r"\mathbb{E}f"), sy.Add(*kept, evaluate=False), evaluate=False)


def swap_delta(n: int = 2, a: int = 0, b: int = 1) -> "sympy.Eq":
    """What exchanging two positions costs, for all pairs at once from two matrix products.

    ``D[a, b] = G[a, b] + G[b, a] - G[a, a] - G[b, b] + dW[a, b] dB[a, b]`` with ``G = W B' + W' B`` and
    ``dX[a, b] = X[a, a] + X[b, b] - X[a, b] - X[b, a]``, B in the present order.

    Parameters
    ----------
    n : int, default 2
        Rows and columns, 2 to 4.
    a, b : int
        The two positions, 0..n-1.

    Returns
    -------
    sympy.Eq
        The difference of two values on the left, written out and collected by the cells of W; the formula
        on the right.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    References
    ----------
    Burkard, Dell'Amico and Martello (2009), "Assignment Problems", section 8.2, for one pair at a time.

    Examples
    --------
    >>> equation = swap_delta(3)  # doctest: +SKIP
    >>> (equation.lhs - equation.rhs).expand()  # doctest: +SKIP
    0
    """
    sy = require("sympy", "symbolic")
    W, B = _cells("w", integer("n", n, 2, 4), n), _cells("b", n, n)
    integer("a", a, 0, n - 1), integer("b", b, 0, n - 1)
    swapped = list(range(n))
    swapped[a], swapped[b] = b, a
    direct = sy.expand(_value(W, B, swapped, swapped) - _value(W, B, range(n), range(n)))
    G = W * B.T + W.T * B

    def corner(X: "sympy.Matrix") -> "sympy.Expr":
        return X[a, a] + X[b, b] - X[a, b] - X[b, a]

    formula = sy.Add(-corner(G), sy.Mul(corner(W), corner(B), evaluate=False), evaluate=False)
    return sy.Eq(sy.collect(direct, list(W)), formula, evaluate=False)


def row_null() -> "tuple[sympy.Eq, sympy.Eq]":
    """Mean and variance of the mass f_i outside the mask when row i is shuffled (PD-19).

    Of c cells s lie in the mask. A mass is outside with probability ``1 - s/c``, two of them with
    ``(c-s)(c-s-1) / (c(c-1))``, and the masses b of the row enter by ``M = sum b`` and ``Q = sum b^2``.

    Returns
    -------
    tuple of two sympy.Eq
        Mean ``M (1 - s/c)`` and variance ``s (c-s) (c Q - M^2) / (c^2 (c-1))``; rows add up, and both are
        divided by the mass of the matrix, the variance by its square.

    Notes
    -----
    For 0/1 masks; c >= 2, as a single cell cannot move.

    References
    ----------
    Cochran (1977), "Sampling Techniques", theorem 2.2, on sampling without replacement.

    Examples
    --------
    >>> row_null()[0].rhs  # doctest: +SKIP
    M*(c - s)/c
    """
    sy = require("sympy", "symbolic")
    c, s, mass, squares = sy.symbols("c s M Q", positive=True)
    outside = (c - s) / c
    both = outside * (c - s - 1) / (c - 1)
    mean = mass * outside
    # sum over i of b_i^2 E x_i, and over i != j of b_i b_j E x_i x_j, less the square of the mean
    variance = squares * outside + (mass**2 - squares) * both - mean**2
    shown = s * (c - s) * (c * squares - mass**2) / (c**2 * (c - 1))
    x = sy.Symbol("f_i")
    return (
        sy.Eq(sy.Function(r"\mathbb{E}")(x), mean, evaluate=False),
        sy.Eq(sy.Function(r"\operatorname{Var}")(x), sy.simplify(variance / shown) * shown, evaluate=False),
    )


def low_rank_bound() -> "tuple[sympy.Eq, sympy.Le]":
    """A pattern on top of the best matrix of rank r saves at least the share of its cells (PD-14).

    The residual of the SVD has mass ``e_r ||A||^2``; a random order puts ``1 - |S|/(mn)`` of it outside a 0/1
    mask, the best one no more, and the optimum over L no more than that.

    Returns
    -------
    (sympy.Eq, sympy.Le)
        Mean share of A's mass that is left, and the bound on E_r; for symbolic m, n, |S| and e_r.

    Examples
    --------
    >>> low_rank_bound()[1].rhs  # doctest: +SKIP
    e_r*(1 - |S|/(m*n))
    """
    sy = require("sympy", "symbolic")
    m, n, total, error, free = sy.symbols("m n ||A||^2 e_r |S|", positive=True)
    mean_penalty = (m * n - free) / (m * n)  # W is 1 on all cells but |S|
    left = mean_penalty * (error * total) / total
    bound = sy.Mul(sy.expand(mean_penalty), error, evaluate=False)
    shown = sy.Mul(mean_penalty, sy.Mul(error, total, evaluate=False), 1 / total, evaluate=False)
    return sy.Eq(shown, sy.factor(left), evaluate=False), sy.Le(sy.Symbol("E_r"), bound, evaluate=False)


def line_search() -> "tuple[sympy.Eq, sympy.Eq]":
    """Exact line search of Frank-Wolfe on ``f(X) = <W, X B X'>``.

    Along ``X + t (Y - X)`` f is a parabola. With ``tilt = <grad(X), X> = 2 f(X)``, ``end = <grad(Y), Y>`` and
    ``cross = <grad(X), Y> = <grad(Y), X>`` its slope at 0 is ``cross - tilt`` and its bend
    ``(tilt + end) / 2 - cross``, so that no further product is needed.

    Returns
    -------
    tuple of two sympy.Eq
        f on the line as a polynomial in t, and the step t* where it is least, if the bend is positive and
        the step at most 1.

    Notes
    -----
    Derived on 2 x 2 matrices of symbols; f is a quadratic form of X in any size.

    References
    ----------
    J. T. Vogelstein et al. (2015), Fast approximate quadratic programming for graph matching,
    doi:10.1371/journal.pone.0121002.

    Examples
    --------
    >>> line_search()[1].rhs  # doctest: +SKIP
    (cross - tilt)/(2*cross - end - tilt)
    """
    sy = require("sympy", "symbolic")
    W, B, X, Y = (_cells(name, 2, 2) for name in "wbxy")
    t, tilt, cross, end = sy.symbols("t tilt cross end")

    def gradient(Z: "sympy.Matrix") -> "sympy.Matrix":
        return W * Z * B.T + W.T * Z * B

    def inner(P: "sympy.Matrix", Q: "sympy.Matrix") -> "sympy.Expr":
        return sum(x * y for x, y in zip(P, Q, strict=True))

    Z = X + t * (Y - X)
    value = sy.Poly(sy.expand(inner(W, Z * B * Z.T)), t)
    named = {tilt: inner(gradient(X), X), cross: inner(gradient(X), Y), end: inner(gradient(Y), Y)}
    # the coefficients of t^2, t and 1 are linear in the three products: their weights follow by matching
    line = []
    for degree in (2, 1, 0):
        weights = sy.symbols("u v z")
        gap = value.coeff_monomial(t**degree) - inner(weights, named.values())
        equations = sy.Poly(sy.expand(gap), *X, *Y, *W, *B).coeffs()
        (solution,) = sy.solve(equations, weights, dict=True)
        line.append(inner([solution[u] for u in weights], named))
    shown = line[2] + line[1] * t + line[0] * t**2
    (step,) = sy.solve(sy.diff(shown, t), t)
    return (
        sy.Eq(sy.Function("f")(t), shown, evaluate=False),
        sy.Eq(sy.Symbol("t^*"), sy.factor(step), evaluate=False),
    )


def _cells(name: str, m: int, n: int) -> "sympy.Matrix":
    sy = require("sympy", "symbolic")
    return sy.Matrix(m, n, lambda i, j: sy.Symbol(f"{name}_{{{i}{j}}}"))


def _value(W: "sympy.Matrix", B: "sympy.Matrix", p: Sequence[int], q: Sequence[int]) -> "sympy.Expr":
    return sum(W[i, j] * B[p[i], q[j]] for i in range(W.rows) for j in range(W.cols))
