"""Derivations behind token capacity as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING

from porism.checks import integer, require

if TYPE_CHECKING:
    import sympy

__all__ = [
    "hadamard_identity",
    "interchange_residual",
    "participation_counterexample",
    "ridge_increment",
    "tied_gap",
    "width_law",
]


def hadamard_identity(d_in: int = 2, d_out: int = 2) -> "sympy.Eq":
    """Inner product of two weight gradients: it splits into inputs and gradients (TC-1).

    ``<g x', h y'>_F = (x . y)(g . h)``.

    Parameters
    ----------
    d_in, d_out : int, default 2
        Sizes, 1 to 4.

    Returns
    -------
    sympy.Eq
        The sum over all entries on the left, the product on the right, in symbols x, y, g and h.

    Raises
    ------
    TypeError, ValueError
        If a size is out of range.

    Examples
    --------
    >>> hadamard_identity(1, 1).rhs  # doctest: +SKIP
    g_0*h_0*x_0*y_0
    """
    sy = require("sympy", "symbolic")
    x, y = (_vector(name, integer("d_in", d_in, 1, 4)) for name in "xy")
    g, h = (_vector(name, integer("d_out", d_out, 1, 4)) for name in "gh")
    left, right = g * x.T, h * y.T
    entries = sum(a * b for a, b in zip(left, right, strict=True))
    return sy.Eq(sy.expand(entries), (x.T * y)[0] * (g.T * h)[0], evaluate=False)


def tied_gap(count: int = 3) -> "sympy.Eq":
    """What the untied kernel has on top of the tied one: a sum of squares (TC-1).

    ``|S| sum J_t^2 - (sum J_t)^2 = sum over s < t of (J_s - J_t)^2`` for every direction, hence
    ``K_S <= |S| K_S^+``.

    Parameters
    ----------
    count : int, default 3
        Number of positions, 1 to 6.

    Returns
    -------
    sympy.Eq
        The two sides in symbols J, one a position: the derivative of one example in one direction.

    Raises
    ------
    TypeError, ValueError
        If the count is out of range.

    Examples
    --------
    >>> tied_gap(2).rhs  # doctest: +SKIP
    (J_0 - J_1)**2
    """
    sy = require("sympy", "symbolic")
    J = list(_vector("J", integer("count", count, 1, 6)))
    left = len(J) * sum(a**2 for a in J) - sum(J) ** 2
    pairs = [(J[s] - J[t]) ** 2 for t in range(len(J)) for s in range(t)]
    return sy.Eq(left, sum(pairs, sy.Integer(0)), evaluate=False)


def interchange_residual() -> "sympy.Eq":
    """Part of one Gram matrix that the best multiple of another leaves (TC-3).

    ``min over alpha of |A - alpha B|^2 = |A|^2 (1 - rho^2)``.

    Returns
    -------
    sympy.Eq
        ``|A|^2 - 2 alpha <A, B> + alpha^2 |B|^2`` at its minimum, in symbols a = |A|, b = |B| and rho.

    Examples
    --------
    >>> interchange_residual().rhs  # doctest: +SKIP
    a**2*(1 - rho**2)
    """
    sy = require("sympy", "symbolic")
    a, b = sy.symbols("a b", positive=True)
    rho, alpha = sy.symbols("rho alpha", real=True)
    squared = a**2 - 2 * alpha * rho * a * b + alpha**2 * b**2
    best = sy.solve(sy.diff(squared, alpha), alpha)[0]
    return sy.Eq(sy.expand(squared.subs(alpha, best)), a**2 * (1 - rho**2), evaluate=False)


def participation_counterexample() -> tuple["sympy.Eq", "sympy.Eq", "sympy.Eq"]:
    """Ranks of the rows that show the participation ratio to be no bound (TC-2).

    Inputs are m times e_0 and then e_1 ... e_m, gradients the other way round: each Gram matrix has
    eigenvalue m once and 1 m times, their product is the identity of size 2 m.

    Returns
    -------
    tuple of sympy.Eq
        Participation ratio of either Gram matrix, that of the product, and the entropy effective rank of
        either one, in the symbol m.

    Examples
    --------
    >>> participation_counterexample()[1].rhs  # doctest: +SKIP
    2*m
    """
    sy = require("sympy", "symbolic")
    m = sy.Symbol("m", positive=True)
    spectrum = [(m, sy.Integer(1)), (sy.Integer(1), m)]  # eigenvalue, multiplicity
    trace = sum(value * times for value, times in spectrum)
    ratio = sy.simplify(trace**2 / sum(value**2 * times for value, times in spectrum))
    entropy = -sum(times * value / trace * sy.log(value / trace) for value, times in spectrum)
    rank = sy.simplify(sy.exp(sy.expand_log(sy.simplify(entropy))))
    product = (2 * m) ** 2 / (2 * m)
    names = (r"\mathrm{PR}(A)", r"\mathrm{PR}(A\circ B)", r"\mathrm{rank}_e(A)")
    values = (ratio, sy.simplify(product), rank)
    first, second, third = (
        sy.Eq(sy.Symbol(name), value, evaluate=False) for name, value in zip(names, values, strict=True)
    )
    return first, second, third


def ridge_increment() -> "sympy.Eq":
    """What a direction adds to the ridge coverage as its energy grows: never less than nothing (TC-6).

    ``d/ds s / (s + lam) = lam / (s + lam)^2``.

    Returns
    -------
    sympy.Eq
        The derivative, in symbols s and lam.

    Examples
    --------
    >>> ridge_increment().rhs  # doctest: +SKIP
    lam/(lam + s)**2
    """
    sy = require("sympy", "symbolic")
    s, lam = sy.symbols("s lam", positive=True)
    filter_ = s / (s + lam)
    return sy.Eq(sy.Derivative(filter_, s), sy.factor(sy.diff(filter_, s)), evaluate=False)


def width_law() -> "sympy.Eq":
    """Participation ratio of independent Gaussian states: it grows with the width until N (TC-2).

    ``(E tr A)^2 / E |A|_F^2 = N d / (N + d + 1)`` for A = X X' with N by d standard normal entries.

    Returns
    -------
    sympy.Eq
        The ratio, in symbols N and d.

    Examples
    --------
    >>> width_law().rhs  # doctest: +SKIP
    N*d/(N + d + 1)
    """
    sy = require("sympy", "symbolic")
    N, d = sy.symbols("N d", positive=True)
    z = sy.Symbol("z", real=True)
    normal = sy.exp(-(z**2) / 2) / sy.sqrt(2 * sy.pi)
    second, fourth = (sy.integrate(z**power * normal, (z, -sy.oo, sy.oo)) for power in (2, 4))
    diagonal = N * (d * fourth + d * (d - 1) * second**2)  # N squared lengths, each squared
    beside = N * (N - 1) * d * second**2  # inner products of different rows, squared
    ratio = (N * d * second) ** 2 / (diagonal + beside)
    return sy.Eq(sy.Symbol(r"\mathrm{PR}"), sy.factor(ratio), evaluate=False)


def _vector(name: str, size: int) -> "sympy.Matrix":
    sy = require("sympy", "symbolic")
    return sy.Matrix([sy.Symbol(f"{name}_{i}", real=True) for i in range(size)])
