"""Derivations of the laws of latent reuse as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING, Any

from porism.checks import require

if TYPE_CHECKING:
    import sympy

__all__ = [
    "bisector",
    "decreasing",
    "limits",
    "mixture",
    "plane_error",
    "shrinkage",
    "stable_form",
    "tweedie",
]


def _symbols() -> "tuple[Any, tuple[sympy.Symbol, ...]]":
    """Module sympy; a, n, h^2, and the angle."""
    sy = require("sympy", "symbolic")
    return sy, (*sy.symbols("a n h", positive=True), sy.Symbol("theta", real=True))


def _excess(a: Any, kappa: Any, cut: Any, outside: Any) -> Any:
    """Misalignment over ``a sin^2``, for a variance assumed outside."""
    return 1 / outside**2 - 1 / ((kappa + a) * (kappa + a * cut))


def plane_error() -> "tuple[sympy.Eq, sympy.Eq]":
    """Error in the plane of one principal pair: noise and misalignment separate (LR-1, LR-3).

    There ``S = kappa I + a u u'`` with ``u = (cos t, sin t)`` and the latent along the first axis; the reused
    score is ``-B x`` with ``B = diag(1/S_11, 1/v)``, and the error ``tr S^-1 - 2 tr B + tr B S B``.

    Returns
    -------
    tuple of two sympy.Eq
        The trace for ``v = h^2``, and for ``v = kappa``, each beside its closed form.

    Raises
    ------
    ArithmeticError
        If the two sides differ.

    Examples
    --------
    >>> plane_error()[1].rhs  # doctest: +SKIP
    a*(-1/((a + kappa)*(a*cos(theta)**2 + kappa)) + kappa**(-2))*sin(theta)**2
    """
    sy, (a, n, h, theta) = _symbols()
    kappa, outside = sy.symbols("kappa v", positive=True)
    u = sy.Matrix([sy.cos(theta), sy.sin(theta)])
    S = kappa * sy.eye(2) + a * u * u.T
    B = sy.diag(1 / S[0, 0], 1 / outside)
    trace = (S.inv() - 2 * B + B * S * B).trace()
    found = []
    for assumed, floor in ((h**2, n**2 / (h**4 * (h**2 + n))), (kappa, 0)):
        law = floor + a * sy.sin(theta) ** 2 * _excess(a, kappa, sy.cos(theta) ** 2, assumed)
        left = trace.subs(outside, assumed)
        if assumed != kappa:
            left, law = left.subs(kappa, h**2 + n), law.subs(kappa, h**2 + n)
        if sy.simplify(left - law) != 0:  # pragma: no cover
            raise ArithmeticError("the trace is not the closed form")
        found.append(sy.Eq(sy.Symbol(r"\mathrm{tr}\,(S^{-1} - 2B + BSB)"), law, evaluate=False))
    return found[0], found[1]


def stable_form() -> "sympy.Eq":
    """The misalignment on one denominator, where every term is positive (LR-1).

    Returns
    -------
    sympy.Eq
        Difference of two fractions, and ``[n (2 h^2 + n) + a kappa (1 + c^2) + a^2 c^2]`` over their product.

    Raises
    ------
    ArithmeticError
        If the two sides differ.

    Examples
    --------
    >>> stable_form().rhs.as_numer_denom()[1]  # doctest: +SKIP
    h**4*(a + kappa)*(a*c^2 + kappa)
    """
    sy, (a, n, h, _) = _symbols()
    kappa, cut = sy.symbols("kappa c^2", positive=True)
    left = _excess(a, kappa, cut, h**2)
    top = n * (2 * h**2 + n) + a * kappa * (1 + cut) + a**2 * cut
    right = top / (h**4 * (kappa + a) * (kappa + a * cut))
    if sy.simplify((left - right).subs(kappa, h**2 + n)) != 0:  # pragma: no cover
        raise ArithmeticError("the fractions do not add up")
    return sy.Eq(left, right, evaluate=False)


def limits() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """Leading order as h goes to 0, and where both parts are equal (LR-2).

    Returns
    -------
    tuple of three sympy.Eq
        ``h^4`` times misalignment and floor at h = 0, and the mean of ``sin^2`` that makes the sums equal.

    Examples
    --------
    >>> limits()[2].rhs  # doctest: +SKIP
    sigma**2*(D - d)/(d*lambda)
    """
    sy, (a, n, h, theta) = _symbols()
    signal, sigma, D, d, alpha, mean = sy.symbols("lambda sigma D d alpha s", positive=True)
    aligned = a * sy.sin(theta) ** 2 * _excess(a, h**2 + n, sy.cos(theta) ** 2, h**2)
    floor = n**2 / (h**4 * (h**2 + n))
    first, second = (sy.limit(sy.cancel(h**4 * part), h, 0) for part in (aligned, floor))
    sums = d * alpha**2 * signal * mean - (D - d) * second.subs(n, alpha**2 * sigma**2)
    (solved,) = sy.solve(sums, mean)
    return (
        sy.Eq(sy.Symbol(r"\lim h^4 \cdot \mathrm{misalignment}"), sy.simplify(first), evaluate=False),
        sy.Eq(sy.Symbol(r"\lim h^4 \cdot \mathrm{noise}"), second, evaluate=False),
        sy.Eq(sy.Symbol(r"\overline{\sin^2\theta}"), solved, evaluate=False),
    )


def decreasing() -> "tuple[sympy.Eq, sympy.Eq]":
    """Both parts fall as the variance of the noise grows (LR-2).

    Returns
    -------
    tuple of two sympy.Eq
        Minus the derivatives in ``H = h^2`` of misalignment over ``a sin^2`` and of the floor, on one
        denominator: polynomials of positive coefficients over squares.

    Raises
    ------
    ArithmeticError
        If a coefficient is not positive.

    Notes
    -----
    Where variance is preserved, ``alpha^2 = 1 - h^2`` falls too, and both parts grow with a and n.

    Examples
    --------
    >>> decreasing()[1].rhs  # doctest: +SKIP
    n**2*(3*H + 2*n)/(H**3*(H + n)**2)
    """
    sy, (a, n, _, _) = _symbols()
    H, cut = sy.symbols("H c^2", positive=True)
    found = []
    for name, part in (
        (r"-\partial_H \mathrm{misalignment} / a \sin^2\theta", _excess(a, H + n, cut, H)),
        (r"-\partial_H \mathrm{noise}", n**2 / (H**2 * (H + n))),
    ):
        top, bottom = sy.fraction(sy.factor(-sy.diff(part, H)))
        coefficients = sy.Poly(sy.expand(top), a, n, H, cut).coeffs()
        if not all(c > 0 for c in coefficients):  # pragma: no cover
            raise ArithmeticError("the sign is not settled by the coefficients")
        found.append(sy.Eq(sy.Symbol(name), top / bottom, evaluate=False))
    return found[0], found[1]


def shrinkage() -> "sympy.Eq":
    """One eigenvalue of the score and of the optimal denoiser (LR-4).

    Returns
    -------
    sympy.Eq
        ``1 / (delta + h^2) = (1 - delta / (delta + h^2)) / h^2``, delta the variance of the scaled data.

    Examples
    --------
    >>> shrinkage().lhs  # doctest: +SKIP
    1/(delta + h**2)
    """
    sy, (_, _, h, _) = _symbols()
    delta = sy.Symbol("delta", positive=True)
    return sy.Eq(1 / (delta + h**2), (1 - delta / (delta + h**2)) / h**2, evaluate=False)


def tweedie() -> "tuple[sympy.Eq, sympy.Eq]":
    """Score and posterior mean of signs r = -1, +1 (LR-6).

    Returns
    -------
    tuple of two sympy.Eq
        The score of ``x = alpha r + h z`` by differentiating its log density, as ``-(x - alpha E[r|x]) /
        h^2``; and the posterior mean.

    Raises
    ------
    ArithmeticError
        If the two sides differ.

    Examples
    --------
    >>> tweedie()[1].rhs  # doctest: +SKIP
    tanh(alpha*x/h**2)
    """
    sy, (_, _, h, _) = _symbols()
    alpha, x = sy.Symbol("alpha", positive=True), sy.Symbol("x", real=True)
    density = sum(sy.exp(-((x - sign * alpha) ** 2) / (2 * h**2)) for sign in (1, -1)) / 2
    mean = sy.tanh(alpha * x / h**2)
    score = -(x - alpha * mean) / h**2
    if sy.simplify((sy.diff(density, x) / density - score).rewrite(sy.exp)) != 0:  # pragma: no cover
        raise ArithmeticError("the derivative of the log density is not Tweedie's formula")
    return (
        sy.Eq(sy.Derivative(sy.log(sy.Function("p")(x)), x), score, evaluate=False),
        sy.Eq(sy.Symbol(r"\mathrm{E}[r \mid x]"), mean, evaluate=False),
    )


def mixture() -> "sympy.Eq":
    """Eigenvalues of the mixture in the plane of one principal pair (LR-7).

    Returns
    -------
    sympy.Eq
        The set of both, from the characteristic polynomial of ``w P_s + (1 - w) P_t``.

    Examples
    --------
    >>> len(mixture().rhs)  # doctest: +SKIP
    2
    """
    sy, (_, _, _, theta) = _symbols()
    w, value = sy.Symbol("w", positive=True), sy.Symbol("mu")
    u = sy.Matrix([sy.cos(theta), sy.sin(theta)])
    M = w * sy.diag(1, 0) + (1 - w) * u * u.T
    determinant = sy.factor(sy.trigsimp(M.det()))
    trace = sy.trigsimp(sy.expand(M.trace()))
    roots = sy.solve(value**2 - trace * value + determinant, value)
    root = sy.sqrt(1 - 4 * w * (1 - w) * sy.sin(theta) ** 2)
    closed = [(1 + sign * root) / 2 for sign in (1, -1)]
    for pair in (sum(roots) - sum(closed), roots[0] * roots[1] - closed[0] * closed[1]):
        if sy.simplify(pair) != 0:  # pragma: no cover
            raise ArithmeticError("the roots are not the closed form")
    return sy.Eq(value, sy.FiniteSet(*closed), evaluate=False)


def bisector() -> "tuple[sympy.Eq, sympy.Eq]":
    """At equal weights the top direction is the bisector, and each domain loses the minor eigenvalue (LR-8).

    Returns
    -------
    tuple of two sympy.Eq
        The mixture applied to ``(cos t/2, sin t/2)``; and what either domain loses.

    Raises
    ------
    ArithmeticError
        If it is no eigenvector.

    Examples
    --------
    >>> bisector()[1].rhs  # doctest: +SKIP
    sin(theta/2)**2
    """
    sy, (_, _, _, theta) = _symbols()
    half = theta / 2
    middle = sy.Matrix([sy.cos(half), sy.sin(half)])
    u = sy.Matrix([sy.cos(theta), sy.sin(theta)])
    M = (sy.diag(1, 0) + u * u.T) / 2
    value = sy.cos(half) ** 2
    source, target = 1 - middle[0] ** 2, 1 - (u.T * middle)[0] ** 2
    lost = sy.sin(half) ** 2
    residual = list(M * middle - value * middle)
    if any(
        sy.simplify(sy.expand_trig(part.subs(theta, 2 * theta))) != 0 for part in residual
    ):  # pragma: no cover
        raise ArithmeticError("the bisector is no eigenvector")
    if any(sy.simplify(part - lost) != 0 for part in (source, target)):  # pragma: no cover
        raise ArithmeticError("the domains do not lose the minor eigenvalue")
    return (
        sy.Eq(
            sy.MatMul(sy.Symbol("M"), middle, evaluate=False),
            sy.MatMul(value, middle, evaluate=False),
            evaluate=False,
        ),
        sy.Eq(sy.Symbol(r"1 - (u' m)^2"), lost, evaluate=False),
    )
