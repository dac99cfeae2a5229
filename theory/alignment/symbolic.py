"""Derivations behind the alignment module as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING

from porism.checks import require

if TYPE_CHECKING:
    import sympy

__all__ = ["captured_moments", "debiased_scatter", "enrichment", "head_start", "overlap", "sample_error"]


def overlap() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """Sample eigenvalue, overlap and threshold of a spike from the noise's transform (DK-4).

    An outlier x solves ``m(x) = -1 / (1 + ell)`` with m the root of ``x m^2 + (x + 1 - gamma) m + 1 = 0``.
    The residue of the resolvent there makes the overlap ``d log x / d log (1 + ell)``; it vanishes at the
    threshold.

    Returns
    -------
    tuple of three sympy.Eq
        Eigenvalue, squared overlap, and the threshold for ell.

    References
    ----------
    Benaych-Georges and Nadakuditi (2011), doi:10.1016/j.aim.2011.02.007, theorem 2.2.

    Examples
    --------
    >>> overlap()[2].rhs  # doctest: +SKIP
    sqrt(gamma)
    """
    sy = require("sympy", "symbolic")
    ell, gamma = sy.symbols("ell gamma", positive=True)
    x = sy.Symbol("lambda", positive=True)
    m = -1 / (1 + ell)
    (value,) = sy.solve(x * m**2 + (x + 1 - gamma) * m + 1, x)
    value = sy.factor(value)
    share = sy.factor(sy.simplify((1 + ell) * sy.diff(value, ell) / value))
    (threshold,) = sy.solve(sy.numer(sy.together(share)), ell)
    return (
        sy.Eq(x, value),
        sy.Eq(sy.Symbol(r"\|\hat{P} v\|^2"), share),
        sy.Eq(ell, threshold, evaluate=False),
    )


def enrichment() -> "sympy.Eq":
    """Enrichment of a bulk eigenvector as a rational function of its eigenvalue (DK-5).

    Puts ``|m|^2 = 1/x`` and ``Re m = -(x + 1 - gamma) / (2 x)``, product and half sum of the two conjugate
    roots, into ``gamma t / (x |1 + t m|^2)``, t = 1 + ell.

    Returns
    -------
    sympy.Eq
        O in ell, gamma and the eigenvalue lambda; its denominator is ell times the distance of lambda to the
        outlier formula.

    References
    ----------
    Ledoit and Péché (2011), doi:10.1007/s00440-010-0298-3, theorem 3.

    Examples
    --------
    >>> enrichment().lhs  # doctest: +SKIP
    O
    """
    sy = require("sympy", "symbolic")
    ell, gamma, x = sy.symbols("ell gamma lambda", positive=True)
    t, z = 1 + ell, sy.Symbol("m")
    quadratic = sy.Poly(x * z**2 + (x + 1 - gamma) * z + 1, z)
    lead, linear, constant = quadratic.all_coeffs()
    real, square = -linear / (2 * lead), constant / lead
    denominator = sy.expand(x * (1 + 2 * t * real + t**2 * square))
    shown = sy.collect(denominator, x)
    return sy.Eq(sy.Symbol("O"), gamma * t / shown, evaluate=False)


def sample_error() -> "tuple[sympy.Eq, sympy.Eq]":
    """Largest eigenvalue of sample minus true covariance of one spike (DK-6).

    An eigenvalue x outside the noise solves ``x = -(1 + ell)(1 + (1 + x) m(1 + x))``. With
    ``b = -(1 + (1 + x) m)`` the equation of m reads ``b + gamma / b = x - gamma``.

    Returns
    -------
    tuple of two sympy.Eq
        The error x, and the strength from which on it leaves the noise, where ``b = sqrt(gamma)``.

    Examples
    --------
    >>> sample_error()[1].rhs  # doctest: +SKIP
    sqrt(gamma) + 1
    """
    sy = require("sympy", "symbolic")
    ell, gamma, x, b = sy.symbols("ell gamma x b", positive=True)
    m = -(1 + b) / (1 + x)
    quadratic = sy.numer(sy.together((1 + x) * m**2 + (1 + x + 1 - gamma) * m + 1))
    equation = sy.factor(quadratic.subs(x, (1 + ell) * b))
    roots = [root for root in sy.solve(equation, b) if root.subs({ell: 8, gamma: 4}) > 0]
    (chosen,) = roots
    (start,) = (s for s in sy.solve(equation.subs(b, sy.sqrt(gamma)), ell) if s.subs(gamma, 4) > 0)
    return sy.Eq(x, (1 + ell) * chosen), sy.Eq(ell, sy.expand(start), evaluate=False)


def head_start() -> "tuple[sympy.Eq, sympy.Eq]":
    """Decrease of a linear loss under gradient flow, and the delay between two starts (DK-12).

    ``a' = -s g b``, ``b' = -s g a`` for the components a of A and b of B along the one gradient direction,
    from b = 0; the loss falls at the rate ``a'^2 + b'^2``.

    Returns
    -------
    tuple of two sympy.Eq
        Decrease at time t, and the time between equal large decreases from captured shares a_1 and a_2.

    Examples
    --------
    >>> head_start()[1].rhs  # doctest: +SKIP
    (log(a_1) - log(a_2))/(2*g*s)
    """
    sy = require("sympy", "symbolic")
    s, g, t, u, share = sy.symbols("s g t u a", positive=True)
    system = sy.Matrix([[0, -s * g], [-s * g, 0]])
    path = (system * u).exp() * sy.Matrix([sy.sqrt(share), 0])
    speed = sy.expand(sum(entry**2 for entry in path.diff(u)))
    drop = sy.integrate(speed, (u, 0, t)).rewrite(sy.sinh)
    closed = s * g * share * sy.sinh(2 * s * g * t) / 2
    if sy.simplify((drop - closed).rewrite(sy.exp)) != 0:  # pragma: no cover
        raise ArithmeticError("the integral of the flow is not the closed form")
    first, second = sy.symbols("a_1 a_2", positive=True)
    ahead = sy.Symbol("D", positive=True)
    # sinh z is exp(z) / 2 at large z
    times = [sy.solve(s * g * a * sy.exp(2 * s * g * t) / 4 - ahead, t)[0] for a in (second, first)]
    delay = sy.simplify(sy.expand_log(times[0] - times[1], force=True))
    return sy.Eq(sy.Symbol("D"), closed), sy.Eq(sy.Symbol(r"\Delta t"), delay, evaluate=False)


def captured_moments() -> "tuple[sympy.Eq, sympy.Eq]":
    """Mean and variance of what a random subspace captures of a direction (DK-10).

    Moments of the Beta density with parameters r/2 and (d - r)/2, by the ratio of two Beta functions.

    Returns
    -------
    tuple of two sympy.Eq
        Mean and variance in d and r.

    Examples
    --------
    >>> captured_moments()[0].rhs  # doctest: +SKIP
    r/d
    """
    sy = require("sympy", "symbolic")
    d, r = sy.symbols("d r", positive=True)
    p, q = r / 2, (d - r) / 2

    def moment(k: int) -> "sympy.Expr":
        ratio = sy.gamma(p + k) / sy.gamma(p) * sy.gamma(p + q) / sy.gamma(p + q + k)
        return sy.simplify(sy.gammasimp(ratio))

    mean = moment(1)
    variance = sy.factor(sy.simplify(moment(2) - mean**2))
    c = sy.Symbol("c")
    return (
        sy.Eq(sy.Function(r"\mathbb{E}")(c), mean, evaluate=False),
        sy.Eq(sy.Function(r"\operatorname{Var}")(c), variance, evaluate=False),
    )


def debiased_scatter() -> "sympy.Eq":
    """Pairs of different rows against the in-sample scatter less its noise, two classes of two rows (DK-18).

    Left ``sum p a_cc - sum p p a_ce`` from products of different rows; right
    ``sum p |m_c - m|^2 - sum p (1 - p) s_c^2 / n_c``.

    Returns
    -------
    sympy.Eq
        The two sides in four symbols, each as it is computed; their difference expands to 0.

    Examples
    --------
    >>> equation = debiased_scatter()  # doctest: +SKIP
    >>> (equation.lhs - equation.rhs).expand()  # doctest: +SKIP
    0
    """
    sy = require("sympy", "symbolic")
    x = sy.symbols("x_1:5")
    half = sy.Rational(1, 2)
    groups = (x[:2], x[2:])
    means = [half * sum(group) for group in groups]
    own = [group[0] * group[1] for group in groups]
    cross = means[0] * means[1]
    pairs = half * (own[0] + own[1]) - half**2 * (own[0] + own[1] + 2 * cross)
    centre = half * (means[0] + means[1])
    between = half * sum((mean - centre) ** 2 for mean in means)
    noise = sum(
        half * half * sum((value - mean) ** 2 for value in group) * half
        for group, mean in zip(groups, means, strict=True)
    )
    return sy.Eq(pairs, between - noise, evaluate=False)
