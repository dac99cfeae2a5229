"""Derivations behind the arrival laws as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING

from porism.checks import require

if TYPE_CHECKING:
    import sympy

__all__ = [
    "decay",
    "delay",
    "descent",
    "discrete_arrival",
    "gradient_flow",
    "ideal_arrival",
    "ridge_shift",
    "smoothed_arrival",
]


def ideal_arrival() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """Arrival time of an aligned mode at unit speed (SF-1).

    Solves ``(x + t)(y + t) = c`` from below, ``(x - t)(y - t) = c`` from above; with opposite signs the
    smaller factor y reaches its axis at ``t = y``, where ``x - y`` and 0 start anew.

    Returns
    -------
    tuple of three sympy.Eq
        t* from below with one sign, with opposite signs, and from above; x >= y are the sizes of the factors.

    Notes
    -----
    Of the two roots the one is taken that vanishes where the level is reached at the start, ``c = x y``.

    Examples
    --------
    >>> ideal_arrival()[0].rhs  # doctest: +SKIP
    -x/2 - y/2 + sqrt(4*c + (x - y)**2)/2
    """
    sy = require("sympy", "symbolic")
    t, c = sy.Symbol("t"), sy.Symbol("c", positive=True)
    x, y = sy.symbols("x y", positive=True)

    def root(sign: int) -> "sympy.Expr":
        roots = sy.solve((x + sign * t) * (y + sign * t) - c, t)
        inside = 4 * c + sy.expand((x - y) ** 2)
        # at c = x y the root of the discriminant is x + y
        (chosen,) = (r for r in roots if sy.expand(r.subs(sy.sqrt(inside), x + y)) == 0)
        return sy.expand(chosen).subs(sy.sqrt(inside), sy.sqrt(4 * c + (x - y) ** 2))

    below, above = root(1), root(-1)
    crossing = sy.Add(y, below.subs({x: x - y, y: 0}, simultaneous=True), evaluate=False)
    name = sy.Symbol("t^*")
    return sy.Eq(name, below), sy.Eq(name, crossing), sy.Eq(name, above)


def gradient_flow() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """Gradient flow of a balanced mode: the equation, its solution, and the time it takes (SF-2).

    ``ds/dt = 2 s (g - s)`` by separation of variables, with ``g = sigma - ridge``.

    Returns
    -------
    tuple of three sympy.Eq
        The equation, from ``s = a^2`` and ``da/dt = (g - a^2) a``; s(t); and the time from s_0 to s.

    Examples
    --------
    >>> gradient_flow()[0].rhs  # doctest: +SKIP
    2*s*(g - s)
    """
    sy = require("sympy", "symbolic")
    s, start, g, t, a = sy.symbols("s s_0 g t a", positive=True)
    rate = (2 * a * (g - a**2) * a).subs(a, sy.sqrt(s))
    # partial fractions integrate to logarithms of positive numbers, as s stays below g
    parts = sy.apart(1 / rate, s)
    antiderivative = sy.log(s) * sy.limit(parts * s, s, 0) - sy.log(g - s) * sy.limit(parts * (g - s), s, g)
    if sy.simplify(sy.diff(antiderivative, s) - 1 / rate) != 0:  # pragma: no cover
        raise ArithmeticError("the antiderivative does not differentiate back")
    time = antiderivative - antiderivative.subs(s, start)
    ratio = start / (g - start) * sy.exp(2 * g * t)
    (solved,) = sy.solve(sy.Eq(s / (g - s), ratio), s)
    function = sy.Function("s")(t)
    return (
        sy.Eq(sy.Derivative(function, t), rate, evaluate=False),
        sy.Eq(function, solved, evaluate=False),
        sy.Eq(
            sy.Symbol("T_{GF}"), sy.logcombine(sy.expand(2 * g * time), force=True) / (2 * g), evaluate=False
        ),
    )


def smoothed_arrival() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """Time with smoothing as an integral, and the identities behind its two bounds (SF-3).

    With ``y = beta / x`` the time for a piece da is ``sqrt(1 + y^2) da``. Upper bound:
    ``sqrt(1 + y^2) <= 1 + y``, integrated. Lower bound: by Cauchy and Schwarz
    ``sqrt(1 + y^2) sqrt(T0^2 + G^2) >= T0 + y G``; integrated with ``T0 = int da``, ``G = int y da`` it
    reads ``T sqrt(T0^2 + G^2) >= T0^2 + G^2``.

    Returns
    -------
    tuple of three sympy.Eq
        dt/da; the square of the upper bound less that of the integrand; the square of the lower bound's left
        side less that of the right. The last two are not negative.

    Examples
    --------
    >>> smoothed_arrival()[2].rhs  # doctest: +SKIP
    (-G + T_0*y)**2
    """
    sy = require("sympy", "symbolic")
    x, beta, y, short, slow = sy.symbols("x beta y T_0 G", positive=True)
    speed = x / sy.sqrt(x**2 + beta**2)
    pace = sy.sqrt(sy.expand((1 / speed) ** 2))
    upper = (1 + y) ** 2 - (1 + y**2)
    lower = (1 + y**2) * (short**2 + slow**2) - (short + y * slow) ** 2
    return (
        sy.Eq(sy.Symbol("dt/da"), pace, evaluate=False),
        sy.Eq(upper, sy.factor(upper), evaluate=False),
        sy.Eq(lower, sy.factor(lower), evaluate=False),
    )


def delay() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """What smoothing adds at the start and at the end of the way (SF-4).

    The gradient ``x(a) = (sigma - a^2) a`` is linear at both ends, so both delays are one integral.

    Returns
    -------
    tuple of three sympy.Eq
        x near ``a = 0``, x at distance d before ``sqrt(sigma)``, both to first order, and the integral of
        ``sqrt(1 + (c/a)^2) - 1`` from p to infinity.

    Notes
    -----
    The closed form vanishes as p grows, and its derivative in p is minus the integrand.

    Examples
    --------
    >>> delay()[1].rhs  # doctest: +SKIP
    2*d*sigma
    """
    sy = require("sympy", "symbolic")
    a, d, sigma, c, p = sy.symbols("a d sigma c p", positive=True)
    x = (sigma - a**2) * a
    first = sy.diff(x, a).subs(a, 0) * a
    last = -sy.simplify(sy.diff(x, a).subs(a, sy.sqrt(sigma))) * d
    integrand = sy.sqrt(1 + (c / a) ** 2) - 1
    value = c * sy.asinh(c / p) + p - sy.sqrt(p**2 + c**2)
    slope = sy.simplify(sy.diff(value, p) + integrand.subs(a, p))
    if slope != 0 or sy.limit(value, p, sy.oo) != 0:  # pragma: no cover
        raise ArithmeticError("the closed form is not the integral")
    name = sy.Function("x")
    return (
        sy.Eq(name(a), first, evaluate=False),
        sy.Eq(name(sy.sqrt(sigma) - d), last, evaluate=False),
        sy.Eq(sy.Integral(integrand, (a, p, sy.oo)), value, evaluate=False),
    )


def descent() -> "sympy.Eq":
    """The loss never rises along the smoothed flow, with or without a ridge (SF-8a).

    For one mode, ``L = (sigma - a b)^2 / 2 + ridge (a^2 + b^2) / 2``; for matrices the same holds for each
    singular value of either gradient, as ``<G, T(G)> = sum s^2 / sqrt(s^2 + beta^2)``.

    Returns
    -------
    sympy.Eq
        dL/dt by the chain rule, in the two partial derivatives x and y.

    Examples
    --------
    >>> descent().rhs  # doctest: +SKIP
    -x**2/sqrt(beta**2 + x**2) - y**2/sqrt(beta**2 + y**2)
    """
    sy = require("sympy", "symbolic")
    a, b, sigma, weight, x, y = sy.symbols("a b sigma lambda x y", real=True)
    beta = sy.Symbol("beta", positive=True)
    loss = (sigma - a * b) ** 2 / 2 + weight * (a**2 + b**2) / 2
    rate = 0
    for factor, name in ((a, x), (b, y)):
        slope = sy.diff(loss, factor)
        velocity = -slope / sy.sqrt(slope**2 + beta**2)
        rate += (slope * velocity).subs(slope, name)
    return sy.Eq(sy.Symbol("dL/dt"), rate, evaluate=False)


def ridge_shift() -> "tuple[sympy.Eq, sympy.Eq]":
    """A ridge acts on balanced modes like a smaller target, and on the product like a nuclear norm (SF-9).

    Returns
    -------
    tuple of two sympy.Eq
        The gradient of a balanced mode with ridge lambda, from which lambda drops out when ``sigma = g +
        lambda``; and the ridge on two factors less lambda times their product, a square.

    Examples
    --------
    >>> ridge_shift()[1].rhs  # doctest: +SKIP
    lambda*(a - b)**2/2
    """
    sy = require("sympy", "symbolic")
    a, b, sigma, weight, g = sy.symbols("a b sigma lambda g", positive=True)
    gradient = ((sigma - a**2) * a - weight * a).subs(sigma, g + weight)
    shifted = sy.collect(sy.expand(gradient), a).subs(a * g - a**3, a * (g - a**2))
    spare = weight * (a**2 + b**2) / 2 - weight * a * b
    return sy.Eq(gradient, shifted, evaluate=False), sy.Eq(spare, sy.factor(spare), evaluate=False)


def discrete_arrival() -> "tuple[sympy.Eq, sympy.Eq]":
    """Step of arrival from a LoRA start, and the width of the cycle after it (SF-11).

    Solves ``k lr (a + (k - 1) lr) = c``; the step is the next whole number.

    Returns
    -------
    tuple of two sympy.Eq
        The real k, and the largest overshoot ``(sqrt(sigma) + lr)^2 - sigma`` of balanced factors.

    Examples
    --------
    >>> discrete_arrival()[1].rhs  # doctest: +SKIP
    eta**2 + 2*eta*sqrt(sigma)
    """
    sy = require("sympy", "symbolic")
    k = sy.Symbol("k")
    a, c, lr, sigma = sy.symbols("a c eta sigma", positive=True)
    roots = sy.solve(k * lr * (a + (k - 1) * lr) - c, k)
    (real,) = (r for r in roots if r.subs({a: 1, c: 1, lr: 1}) > 0)
    over = (sy.sqrt(sigma) + lr) ** 2 - sigma
    return sy.Eq(sy.Symbol("k^*"), real, evaluate=False), sy.Eq(over, sy.expand(over), evaluate=False)


def decay() -> "tuple[sympy.Eq, sympy.Eq]":
    """Hessian of two modes that share one balanced factor pair, at the minimum (SF-8d).

    ``Y = diag(sigma_1, sigma_2)``, r = 1, ``B = A' = (sqrt(sigma_1), 0)``.

    Returns
    -------
    tuple of two sympy.Eq
        The Hessian, and its eigenvalues: 0 along the rescaling of B against A, ``2 sigma_1``, and
        ``sigma_1 -+ sigma_2``, whose difference is the mu of the decay rate ``2 mu / beta``.

    Examples
    --------
    >>> sorted(decay()[1].rhs, key=str)  # doctest: +SKIP
    [0, 2*sigma_1, sigma_1 + sigma_2, sigma_1 - sigma_2]
    """
    sy = require("sympy", "symbolic")
    first, second = sy.symbols("sigma_1 sigma_2", positive=True)
    factors = sy.symbols("b_1 b_2 a_1 a_2", real=True)
    B, A = sy.Matrix(factors[:2]), sy.Matrix([factors[2:]])
    R = sy.diag(first, second) - B * A
    loss = sum(entry**2 for entry in R) / 2
    point = dict(zip(factors, (sy.sqrt(first), 0, sy.sqrt(first), 0), strict=True))
    H = sy.hessian(loss, factors).subs(point)
    values = sy.FiniteSet(*(sy.expand(value) for value in H.eigenvals()))
    return sy.Eq(sy.Symbol("H"), H, evaluate=False), sy.Eq(sy.Symbol(r"\mu"), values, evaluate=False)
