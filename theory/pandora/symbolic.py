"""Derivations behind Pandora routing as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING

from porism.checks import require

if TYPE_CHECKING:
    import sympy

__all__ = ["aligned_price", "band_symmetry", "psi_slope", "two_specialists", "voi_slopes", "wedge_law"]


def psi_slope() -> "tuple[sympy.Eq, sympy.Eq]":
    """Slope and reflection of psi (PB-2).

    ``psi'(z) = -Phibar(z)`` and ``psi(-z) = z + psi(z)``, from psi = E(Z - z)^+ by integration.

    Returns
    -------
    tuple of two sympy.Eq
        The slope and the reflection; left sides are computed from the integral, in a symbol z.

    Examples
    --------
    >>> psi_slope()[0].rhs  # doctest: +SKIP
    -erfc(sqrt(2)*z/2)/2
    """
    sy = require("sympy", "symbolic")
    z, x = sy.symbols("z x", real=True)
    excess = sy.integrate((x - z) * _phi(sy, x), (x, z, sy.oo))
    slope = _tidy(sy, sy.diff(excess, z))
    reflected = _tidy(sy, excess.subs(z, -z) - excess)
    return (
        sy.Eq(slope, -_tail(sy, z), evaluate=False),
        sy.Eq(reflected, z, evaluate=False),
    )


def voi_slopes() -> "tuple[sympy.Eq, sympy.Eq]":
    """How the gain of a refinement moves with its standard deviation and with the gap (PB-2).

    ``d/dnu [nu psi(d/nu)] = phi(d/nu) > 0`` and ``d/dd [nu psi(d/nu)] = -Phibar(d/nu) < 0``.

    Returns
    -------
    tuple of two sympy.Eq
        The derivatives, computed on the left, in symbols d and nu.

    Examples
    --------
    >>> voi_slopes()[0].rhs  # doctest: +SKIP
    sqrt(2)*exp(-d**2/(2*nu**2))/(2*sqrt(pi))
    """
    sy = require("sympy", "symbolic")
    d, nu = sy.Symbol("d", real=True), sy.Symbol("nu", positive=True)
    gain = nu * _psi(sy, d / nu)
    return (
        sy.Eq(sy.simplify(sy.diff(gain, nu)), _phi(sy, d / nu), evaluate=False),
        sy.Eq(sy.simplify(sy.diff(gain, d)), -_tail(sy, d / nu), evaluate=False),
    )


def band_symmetry() -> "tuple[sympy.Eq, sympy.Eq]":
    """The gain depends on the size of the gap only (PB-4).

    ``E max(b, M) - max(b, m) = nu psi(|m - b|/nu)`` for M ~ N(m, nu^2), by the two cases m >= b and m <= b.

    Returns
    -------
    tuple of two sympy.Eq
        The case m = b + d and the case m = b - d with d > 0; left sides are computed from the integral.

    Examples
    --------
    >>> upper, lower = band_symmetry()  # doctest: +SKIP
    >>> upper.rhs == lower.rhs  # doctest: +SKIP
    True
    """
    sy = require("sympy", "symbolic")
    b, x = sy.symbols("b x", real=True)
    d, nu = sy.Symbol("d", positive=True), sy.Symbol("nu", positive=True)
    cases = []
    for m, best in ((b + d, b + d), (b - d, b)):
        start = (b - m) / nu  # in units of nu, where M passes b
        above = sy.integrate((m + nu * x - b) * _phi(sy, x), (x, start, sy.oo))
        left = _tidy(sy, b + above - best)
        cases.append(sy.Eq(left, nu * _psi(sy, d / nu), evaluate=False))
    return cases[0], cases[1]


def two_specialists() -> "tuple[sympy.Eq, sympy.Eq]":
    """What is left to gain after the first of two specialists is refined (PB-7).

    The last box is worth ``max(t, -c + E max(b, M))``, t = max(b, m); as ``E max(b, M) = t + g`` with
    ``g = nu psi(|m - b|/nu)``, that is ``t + (g - c)^+``, so that one quadrature over the first mean remains.

    Returns
    -------
    tuple of two sympy.Eq
        ``V(x)`` in closed form, with b = max(x, o), and the value of the optimum as one integral over x.

    Examples
    --------
    >>> two_specialists()[0].lhs  # doctest: +SKIP
    V_j(x)
    """
    sy = require("sympy", "symbolic")
    x, o = sy.symbols("x o", real=True)
    m_i, m_j, c_i, c_j = sy.symbols("m_i m_j c_i c_j", real=True)
    nu_i, nu_j = sy.symbols("nu_i nu_j", positive=True)
    b = sy.Max(x, o)
    top = sy.Max(b, m_j)
    gain = nu_j * _psi(sy, sy.Abs(m_j - b) / nu_j)
    V = sy.Function("V_j")
    closed = sy.Eq(V(x), top + sy.Max(0, gain - c_j), evaluate=False)
    first = sy.Integral(V(x) * _phi(sy, (x - m_i) / nu_i) / nu_i, (x, -sy.oo, sy.oo))
    optimum = sy.Max(o, m_i, m_j, -c_i + first)
    return closed, sy.Eq(sy.Symbol("Q_i"), optimum, evaluate=False)


def aligned_price() -> "sympy.Eq":
    """What a refinement adds to welfare beyond what it adds to the bidder's utility (PB-20, PB-21).

    Welfare counts the competitor at its conditional mean e, the bidder pays p. With refining
    ``E[(M - e) 1{M > p}]``, without ``(m - e) 1{m > p}``: the change less the bidder's own is
    ``sign(p - m) (p - e) Phibar(|m - p|/nu)``, which vanishes for p = e.

    Returns
    -------
    sympy.Eq
        Welfare change less utility change for m = p - d on the left, computed from the integrals, the
        wedge on the right; in symbols p, e, d, nu. The case m = p + d has the opposite sign.

    Examples
    --------
    >>> wedge = aligned_price()  # doctest: +SKIP
    >>> (wedge.lhs - wedge.rhs).simplify()  # doctest: +SKIP
    0
    """
    sy = require("sympy", "symbolic")
    p, e, x = sy.symbols("p e x", real=True)
    d, nu = sy.Symbol("d", positive=True), sy.Symbol("nu", positive=True)
    m = p - d
    start = d / nu
    welfare = sy.integrate((m + nu * x - e) * _phi(sy, x), (x, start, sy.oo))
    utility = sy.integrate((m + nu * x - p) * _phi(sy, x), (x, start, sy.oo))
    gap = sy.factor(_tidy(sy, welfare - utility))
    return sy.Eq(gap, (p - e) * _tail(sy, d / nu), evaluate=False)


def wedge_law() -> "tuple[sympy.Eq, sympy.Eq]":
    """The gross change for small cheap refinements, and where it turns negative (PB-22).

    To first order in nu the density of the price is ``f(m) (1 + y (mu - m)/S^2)`` at m + y, and the wedge
    ``(1 - rho)(m - mu + y) sign(y) Phibar(|y|/nu)``.

    Returns
    -------
    tuple of two sympy.Eq
        dA over f(m) to order nu^2, in m - mu = D, S and omega, and the distance D at which it is 0.

    Examples
    --------
    >>> wedge_law()[1].lhs  # doctest: +SKIP
    D^*
    """
    sy = require("sympy", "symbolic")
    y, nu, D, S, omega = sy.symbols("y nu D S omega", positive=True)
    noise = omega**2 / S**2
    total = sy.Integer(0)
    for side in (1, -1):
        tilt = 1 - side * y * D / S**2
        worth = nu * _psi(sy, y / nu) + side * noise * (D + side * y) * _tail(sy, y / nu)
        scaled = sy.expand((worth * tilt).subs(y, nu * y) * nu)
        total += sy.integrate(scaled, (y, 0, sy.oo))
    leading = sy.series(sy.expand(total), nu, 0, 3).removeO()
    shown = nu**2 / 2 * (1 + noise * (1 - D**2 / S**2))
    roots = [root for root in sy.solve(sy.expand(leading), D) if root.is_positive is not False]
    return (
        sy.Eq(sy.simplify(leading), shown, evaluate=False),
        sy.Eq(sy.Symbol("D^*"), sy.simplify(roots[-1]), evaluate=False),
    )


def _phi(sy: "sympy", z: "sympy.Expr") -> "sympy.Expr":
    return sy.exp(-(z**2) / 2) / sy.sqrt(2 * sy.pi)


def _tail(sy: "sympy", z: "sympy.Expr") -> "sympy.Expr":
    return sy.erfc(z / sy.sqrt(2)) / 2


def _psi(sy: "sympy", z: "sympy.Expr") -> "sympy.Expr":
    return _phi(sy, z) - z * _tail(sy, z)


def _tidy(sy: "sympy", expression: "sympy.Expr") -> "sympy.Expr":
    """The expression with every error function as a tail."""
    return sy.simplify(sy.expand(expression.replace(sy.erf, lambda z: 1 - sy.erfc(z))))
