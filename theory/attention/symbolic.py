"""Derivations behind virtual heads as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING, Any

from porism.checks import require

if TYPE_CHECKING:
    import sympy

__all__ = ["across_frequencies", "guard", "on_one_frequency", "pays", "rounding"]


def _turn(sy: Any, angle: "sympy.Symbol") -> "sympy.Matrix":
    """Rotation of a pair of dimensions."""
    cos, sin = sy.cos(angle), sy.sin(angle)
    return sy.Matrix([[cos, -sin], [sin, cos]])


def on_one_frequency() -> "tuple[sympy.Eq, sympy.Eq]":
    """What commutes with the rotation of one pair (VH-2).

    Solves ``R N = N R`` for a 2 x 2 block.

    Returns
    -------
    tuple of two sympy.Eq
        ``R N - N R`` for any block, and the solution for ``sin(theta) != 0``: a complex number.

    Examples
    --------
    >>> on_one_frequency()[1].rhs.tolist()  # doctest: +SKIP
    [[x, -y], [y, x]]
    """
    sy = require("sympy", "symbolic")
    theta = sy.Symbol("theta", real=True)
    a, b, c, d, x, y = sy.symbols("a b c d x y", real=True)
    N, R = sy.Matrix([[a, b], [c, d]]), _turn(sy, theta)
    apart = (R * N - N * R).applyfunc(sy.factor)
    found = sy.solve([entry.subs(sy.sin(theta), 1) for entry in apart], [b, d], dict=True)[0]
    return (
        sy.Eq(sy.Symbol("R N - N R"), apart, evaluate=False),
        sy.Eq(sy.Symbol("N"), N.subs(found).subs({a: x, c: y}), evaluate=False),
    )


def across_frequencies() -> "tuple[sympy.Eq, sympy.Eq]":
    """Why nothing passes between two frequencies, and between a pair and dimensions that do not turn (VH-2).

    ``R_1 N = N R_2`` is linear in N; it has a solution other than 0 only where its determinant vanishes.

    Returns
    -------
    tuple of two sympy.Eq
        The determinant for two pairs, 0 only for equal frequencies up to sign and full turns; and for a pair
        and a dimension that does not turn, 0 only where the pair does not turn either.

    Examples
    --------
    >>> across_frequencies()[0].rhs  # doctest: +SKIP
    4*(cos(omega_1) - cos(omega_2))**2
    """
    sy = require("sympy", "symbolic")
    first, second = sy.symbols("omega_1 omega_2", real=True)
    R1, R2 = _turn(sy, first), _turn(sy, second)
    entries = sy.symbols("n_1:5")
    N = sy.Matrix(2, 2, entries)
    system = sy.Matrix(list(R1 * N - N * R2)).jacobian(entries)
    between = sy.factor(sy.simplify(system.det()))
    beside = sy.expand((R1 - sy.eye(2)).det())
    beside = sy.factor(sy.trigsimp(beside))
    target = 4 * (sy.cos(first) - sy.cos(second)) ** 2
    if sy.simplify(between - target) != 0:  # pragma: no cover
        raise ArithmeticError("the determinant is another")
    name = sy.Function("det")
    return (
        sy.Eq(name(*sy.symbols("R_1 R_2")), target, evaluate=False),
        sy.Eq(name(sy.Symbol("R_1"), 1), beside, evaluate=False),
    )


def guard() -> "tuple[sympy.Eq, sympy.Eq]":
    """The guard is the mean error (VH-2): on one pair, and between two.

    Averages ``|R_1 N - N R_2|^2`` over all angles: over one for the same pair, over two for two pairs.

    Returns
    -------
    tuple of two sympy.Eq
        Mean squares: twice the squared distance from the complex numbers; and twice the squared norm.

    Examples
    --------
    >>> guard()[0].rhs  # doctest: +SKIP
    (a - d)**2 + (b + c)**2
    """
    sy = require("sympy", "symbolic")
    s, t = sy.symbols("s t", real=True)
    entries = sy.symbols("a b c d", real=True)
    a, b, c, d = entries
    N = sy.Matrix(2, 2, entries)

    def mean(left: "sympy.Matrix", right: "sympy.Matrix") -> "sympy.Expr":
        square = sum(entry**2 for entry in left * N - N * right)
        for angle in (s, t):
            square = sy.integrate(sy.expand(square), (angle, 0, 2 * sy.pi)) / (2 * sy.pi)
        return sy.expand(sy.simplify(square))

    same, apart = mean(_turn(sy, s), _turn(sy, s)), mean(_turn(sy, s), _turn(sy, t))
    nice = (a - d) ** 2 + (b + c) ** 2
    if sy.expand(same - nice) != 0:  # pragma: no cover
        raise ArithmeticError("the mean is another")
    return (
        sy.Eq(sy.Symbol(r"E\|R N - N R\|^2"), nice, evaluate=False),
        sy.Eq(sy.Symbol(r"E\|R_1 N - N R_2\|^2"), sy.factor(apart), evaluate=False),
    )


def pays() -> "tuple[sympy.Eq, sympy.Eq]":
    """How many physical heads make folding cheaper (VH-5).

    Solves ``P (D + G) = G D`` for P.

    Returns
    -------
    tuple of two sympy.Eq
        Operations folded over unfolded, and the P from which on folding is cheaper.

    Examples
    --------
    >>> pays()[1].rhs  # doctest: +SKIP
    D*G/(D + G)
    """
    sy = require("sympy", "symbolic")
    n, d, P, G, D = sy.symbols("n d_h P G D", positive=True)
    unfolded, folded = 2 * n * d * P * D + 2 * n * d * P * G, 2 * n * d * G * D
    (edge,) = sy.solve(sy.Eq(unfolded, folded), P)
    return (
        sy.Eq(sy.Symbol("folded/unfolded"), sy.factor(folded / unfolded), evaluate=False),
        sy.Eq(sy.Symbol("P^*"), edge, evaluate=False),
    )


def rounding() -> "sympy.Eq":
    """Mean square of the relative error of rounding once, averaged over scales (VH-6).

    Numbers m in [1, 2) have the spacing ``2 u``: the error is uniform in (-u, u), and the scale makes m
    uniform in the logarithm.

    Returns
    -------
    sympy.Eq
        ``e^2`` in terms of the unit roundoff u, 2^-8 for bfloat16. Rounding k times gives ``k e^2``.

    Examples
    --------
    >>> rounding().rhs  # doctest: +SKIP
    u**2/(8*log(2))
    """
    sy = require("sympy", "symbolic")
    u, m, x = sy.symbols("u m x", positive=True)
    error = sy.integrate(x**2, (x, -u, u)) / (2 * u)
    law = 1 / (m * sy.log(2))
    return sy.Eq(sy.Symbol("e^2"), sy.simplify(sy.integrate(error / m**2 * law, (m, 1, 2))), evaluate=False)
