"""Derivations behind the dual scores as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING, Any

from porism.checks import integer, require

if TYPE_CHECKING:
    import sympy

__all__ = ["bilinear", "path_identity", "quadrature", "two_rows"]


def bilinear(n: int = 2, P: int = 2) -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """First-order improvement as a bilinear form, and its two marginals (DS-1, DS-2).

    ``-d/d eta L(theta - eta m * gbar) = w' G m / n`` at ``eta = 0``; its derivative in w_1 is the first row
    under the mask over n, that in m_1 the first column under the weights.

    Parameters
    ----------
    n, P : int, default 2
        Samples and parameters, 1 to 4.

    Returns
    -------
    tuple of three sympy.Eq
        The form, a row, a column, in symbols g, v, w and m.

    Raises
    ------
    TypeError, ValueError
        If a size is out of range.

    Examples
    --------
    >>> bilinear(1, 1)[0].rhs  # doctest: +SKIP
    g_11*m_1*v_1*w_1
    """
    sy = require("sympy", "symbolic")
    n, P = integer("n", n, 1, 4), integer("P", P, 1, 4)
    g = sy.Matrix(n, P, lambda i, j: sy.Symbol(f"g_{i + 1}{j + 1}"))
    w, m, v, theta = (
        sy.Matrix(sy.symbols(f"{name}_1:{size + 1}")) for name, size in zip("wmva", (n, P, P, P), strict=True)
    )
    eta, loss = sy.Symbol("eta"), sy.Function("L")
    step = sy.Matrix([m[j] * sum(w[i] * g[i, j] for i in range(n)) / n for j in range(P)])
    # the chain rule on a loss that is linear near theta, with gradient v
    near = sum(v[j] * (theta[j] - eta * step[j]) for j in range(P))
    form = sy.expand(-sy.diff(near, eta))
    scores = sy.Matrix(n, P, lambda i, j: g[i, j] * v[j])
    side = sy.expand((w.T * scores * m)[0] / n)
    if sy.expand(form - side) != 0:  # pragma: no cover
        raise ArithmeticError("the chain rule and the bilinear form differ")
    name = -sy.Derivative(loss(eta), eta)
    return (
        sy.Eq(name, form, evaluate=False),
        sy.Eq(sy.Symbol("n") * sy.Symbol("r_1"), sy.factor(n * sy.diff(form, w[0])), evaluate=False),
        sy.Eq(sy.Symbol("n") * sy.Symbol("c_1"), sy.factor(n * sy.diff(form, m[0])), evaluate=False),
    )


def path_identity(degree: int = 4) -> "tuple[sympy.Eq, sympy.Eq]":
    """Shares along the path add up to the improvement at any learning rate (DS-4).

    Along the step L is a function f of ``t`` in [0, 1] with ``f'(t) = -s . grad L``: the sum of all shares is
    ``s . v-bar = -int f' dt = f(0) - f(1)``.

    Parameters
    ----------
    degree : int, default 4
        Degree of the polynomial f, 1 to 6; q nodes of Gauss and Legendre are exact up to ``2 q``.

    Returns
    -------
    tuple of two sympy.Eq
        The identity for a general polynomial, and what is left at ``ceil(degree / 2)`` nodes, which is 0.

    Raises
    ------
    TypeError, ValueError
        If the degree is out of range.

    Examples
    --------
    >>> path_identity(2)[0].rhs  # doctest: +SKIP
    -f_1 - f_2
    """
    sy = require("sympy", "symbolic")
    degree = integer("degree", degree, 1, 6)
    t, x = sy.symbols("t x")
    f = sum(sy.Symbol(f"f_{k}") * t**k for k in range(degree + 1))
    slope = -sy.diff(f, t)
    if sy.expand(sy.integrate(slope, (t, 0, 1)) - f.subs(t, 0) + f.subs(t, 1)) != 0:  # pragma: no cover
        raise ArithmeticError("the shares do not add up")
    gain = f.subs(t, 0) - f.subs(t, 1)
    nodes = -(-degree // 2)
    legendre = sy.legendre(nodes, x)
    quadrature: Any = 0
    for root in sy.real_roots(sy.Poly(legendre, x)) if nodes > 1 else [sy.Integer(0)]:
        weight = 2 / ((1 - root**2) * sy.diff(legendre, x).subs(x, root) ** 2)
        quadrature += weight / 2 * slope.subs(t, (1 + root) / 2)
    left = sy.simplify(sy.expand(sy.radsimp(sy.expand(quadrature - gain))))
    return (
        sy.Eq(sy.Integral(slope, (t, 0, 1)), sy.expand(gain), evaluate=False),
        sy.Eq(sy.Symbol(f"Q_{nodes}") - sy.Symbol("I"), left, evaluate=False),
    )


def quadrature() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq, sympy.Eq]":
    """Leading errors of four estimates of the improvement (DS-3).

    For ``f(eta) = L(theta - eta gbar)`` with derivatives f_1, f_2, f_3 at 0, each estimate less ``f(0) -
    f(eta)``, to its leading order.

    Returns
    -------
    tuple of four sympy.Eq
        v at the start; with the Hessian; trapezoid; midpoint. The third is minus twice the fourth.

    Examples
    --------
    >>> quadrature()[3].rhs  # doctest: +SKIP
    eta**3*f_3/24
    """
    sy = require("sympy", "symbolic")
    eta, f1, f2, f3 = sy.symbols("eta f_1 f_2 f_3")

    def slope(x: Any) -> Any:  # f' up to the order that counts
        return f1 + f2 * x + f3 * x**2 / 2

    gain = -(f1 * eta + f2 * eta**2 / 2 + f3 * eta**3 / 6)
    estimates = {
        "first": -eta * slope(0),
        "Hessian": -eta * (f1 + eta / 2 * f2),
        "trapezoid": -eta * (slope(0) + slope(eta)) / 2,
        "midpoint": -eta * slope(eta / 2),
    }
    found = []
    for name, value in estimates.items():
        error = sy.Poly(sy.expand(value - gain), eta)
        power = min(k for (k,) in error.monoms())
        found.append(sy.Eq(sy.Symbol(f"e_{{{name}}}"), error.coeff_monomial(eta**power) * eta**power))
    return found[0], found[1], found[2], found[3]


def two_rows() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """Shares and marginal effects of two samples for a quadratic loss in one dimension (DS-5).

    ``I(w) = L(theta) - L(theta - eta (w_1 g_1 + w_2 g_2)/n)`` with gradient v and curvature H.

    Returns
    -------
    tuple of three sympy.Eq
        Sum of the shares less I, which is 0; sum of ``w_i dI/dw_i`` less I, which is minus the curvature's
        half; and removal of the first sample less its row at the end point.

    Notes
    -----
    I has a part of degree 1 in w and one of degree 2: Euler's theorem counts the second twice, shares once.

    Examples
    --------
    >>> two_rows()[0].rhs  # doctest: +SKIP
    0
    """
    sy = require("sympy", "symbolic")
    eta, n, v, H, g1, g2, w1, w2 = sy.symbols("eta n v H g_1 g_2 w_1 w_2")
    mean = (w1 * g1 + w2 * g2) / n

    def gain(step: Any) -> Any:
        return step * v - H * step**2 / 2

    value = gain(eta * mean)
    shares = [eta * w * g / n * (v - eta * H * mean / 2) for w, g in ((w1, g1), (w2, g2))]
    rows = [w * sy.diff(value, w) for w in (w1, w2)]
    ends = [eta * w * g / n * (v - eta * H * mean) for w, g in ((w1, g1), (w2, g2))]
    if any(sy.expand(a - b) != 0 for a, b in zip(rows, ends, strict=True)):  # pragma: no cover
        raise ArithmeticError("the derivative in a weight is not the row at the end point")
    removed = value - value.subs(w1, 0)
    total, row, cost = sy.symbols("I r_1 Delta_1")
    a, b = sy.Symbol("s_1") + sy.Symbol("s_2") - total, sy.Symbol("r_1") + sy.Symbol("r_2") - total
    return (
        sy.Eq(a, sy.expand(sum(shares) - value), evaluate=False),
        sy.Eq(b, sy.factor(sum(rows) - value), evaluate=False),
        sy.Eq(cost - row, sy.factor(sy.expand(removed - ends[0])), evaluate=False),
    )
