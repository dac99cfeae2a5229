"""Derivations behind the laws on policies as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING

from porism.checks import require

if TYPE_CHECKING:
    import sympy

__all__ = [
    "bounded_tilt",
    "bregman",
    "direction_law",
    "drift",
    "gap_identity",
    "suppressed_direction",
    "token_law",
    "utilities",
    "worst_variation",
]


def gap_identity() -> "tuple[sympy.Eq, sympy.Eq]":
    """What a policy falls short in J is its distance from the tilt (PO-1).

    One outcome's share of ``J(pi) = sum pi (r - beta log(pi / pi0))``, with ``r = beta log(pi_r Z / pi0)``.

    Returns
    -------
    tuple of two sympy.Eq
        The reward in terms of its tilt; and the share, which sums to ``beta log Z - beta KL(pi || pi_r)``.

    Examples
    --------
    >>> gap_identity()[1].rhs  # doctest: +SKIP
    beta*pi*log(Z) - beta*pi*log(pi/pi_r)
    """
    sy = require("sympy", "symbolic")
    pi, base, tilted, beta, Z = sy.symbols("pi pi_0 pi_r beta Z", positive=True)
    r = sy.Symbol("r", real=True)
    (reward,) = sy.solve(sy.Eq(tilted, base * sy.exp(r / beta) / Z), r)
    share = pi * (reward - beta * sy.log(pi / base))
    wanted = beta * pi * sy.log(Z) - beta * pi * sy.log(pi / tilted)
    reward = beta * sy.log(Z * tilted / base)  # sympy leaves beta inside the logarithm
    if sy.simplify(sy.expand_log(sy.expand(share - wanted), force=True)) != 0:  # pragma: no cover
        raise ArithmeticError("the identity does not hold")
    return sy.Eq(r, reward), sy.Eq(pi * (r - beta * sy.log(pi / base)), wanted, evaluate=False)


def bounded_tilt() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """Divergence of a tilt from its cumulants, and why an eighth (PO-5).

    For two outcomes with errors 0 and D and weight p on the second, ``K(t) = log(1 - p + p e^(t D))`` has as
    second derivative D^2 times a product of two weights that sum to one.

    Returns
    -------
    tuple of three sympy.Eq
        K''(t) with the weight w = K'(t)/D; the quarter less ``w (1 - w)``, a square; and
        ``integral_0^1 t D^2/4 dt``, the bound on ``KL = integral_0^1 t K''(t) dt``.

    Examples
    --------
    >>> bounded_tilt()[2].rhs  # doctest: +SKIP
    D**2/8
    """
    sy = require("sympy", "symbolic")
    t, w = sy.symbols("t w", real=True)
    p, D = sy.symbols("p D", positive=True)
    K = sy.log(1 - p + p * sy.exp(t * D))
    weight = sy.diff(K, t) / D
    if sy.simplify(sy.diff(K, t, 2) - D**2 * weight * (1 - weight)) != 0:  # pragma: no cover
        raise ArithmeticError("the second derivative is no variance")
    spare = sy.Rational(1, 4) - w * (1 - w)
    bound = sy.Integral(t * D**2 / 4, (t, 0, 1))
    second = sy.Derivative(sy.Function("K")(t), (t, 2))
    return (
        sy.Eq(second, D**2 * w * (1 - w), evaluate=False),
        sy.Eq(spare, sy.factor(spare), evaluate=False),
        sy.Eq(bound, bound.doit(), evaluate=False),
    )


def worst_variation() -> "tuple[sympy.Eq, sympy.Eq]":
    """Largest total variation of a tilt with log-ratio range D (PO-5).

    Two outcomes, ``pi = (p, 1 - p)``, tilted by ``e^(D)`` on the first; stationary in p.

    Returns
    -------
    tuple of two sympy.Eq
        The worst p, and the variation there, which is ``tanh(D / 4)``.

    Examples
    --------
    >>> worst_variation()[0].rhs  # doctest: +SKIP
    1/(exp(D/2) + 1)
    """
    sy = require("sympy", "symbolic")
    p, D, u = sy.symbols("p D u", positive=True)  # u = e^(D/2)
    variation = p * u**2 / (p * u**2 + 1 - p) - p
    roots = sy.solve(sy.numer(sy.together(sy.diff(variation, p))), p)
    (worst,) = (root for root in roots if root.subs(u, 2) > 0)
    worst = sy.simplify(worst)
    value = sy.simplify(variation.subs(p, worst))
    half = sy.tanh(D / 4).rewrite(sy.exp)
    if sy.simplify(value.subs(u, sy.exp(D / 2)) - half) != 0:  # pragma: no cover
        raise ArithmeticError("the worst variation is not tanh(D/4)")
    return (
        sy.Eq(sy.Symbol("p^*"), worst.subs(u, sy.exp(D / 2)), evaluate=False),
        sy.Eq(sy.Symbol(r"\mathrm{TV}^*"), sy.tanh(D / 4), evaluate=False),
    )


def bregman() -> "tuple[sympy.Eq, sympy.Eq]":
    """Moment matching makes divergences add (PO-6), for one statistic.

    With ``pi_a ~ pi0 e^(a ell)`` and ``A(a) = log Z(a)``, ``KL(pi || pi_b) = KL(pi || pi0) - b m + A(b)`` and
    ``KL(pi_a || pi_b) = (a - b) A'(a) - A(a) + A(b)``, where m is the mean of ell under pi.

    Returns
    -------
    tuple of two sympy.Eq
        The condition on the minimum in a; and ``KL(pi||pi_b) - KL(pi||pi_a) - KL(pi_a||pi_b)``, which
        vanishes for every b if it holds.

    Examples
    --------
    >>> bregman()[1].rhs  # doctest: +SKIP
    (a - b)*(m - Derivative(A(a), a))
    """
    sy = require("sympy", "symbolic")
    a, b, m, k = sy.symbols("a b m k", real=True)
    A = sy.Function("A")
    slope = sy.diff(A(a), a)

    def to(x: "sympy.Expr") -> "sympy.Expr":
        return k - x * m + A(x)

    spare = to(b) - to(a) - ((a - b) * slope - A(a) + A(b))
    wanted = (a - b) * (m - slope)
    if sy.expand(spare - wanted) != 0:  # pragma: no cover
        raise ArithmeticError("the three divergences do not add up")
    return sy.Eq(sy.diff(to(a), a), 0, evaluate=False), sy.Eq(
        sy.Symbol(r"\mathrm{gap}"), wanted, evaluate=False
    )


def token_law() -> "tuple[sympy.Eq, sympy.Eq]":
    """Why mixed next-token logits miss the optimum (PO-8), for two binary tokens.

    The first token's weight under the optimum sums over continuations; under the token mix it is a product of
    sums. Uniform reference, beta 1, two rewards that are zero but for x at sequence 00 and y at 01.

    Returns
    -------
    tuple of two sympy.Eq
        Odds of the first token, 0 against 1: optimum, and token mix. They agree to first order only.

    Examples
    --------
    >>> token_law()[0].rhs  # doctest: +SKIP
    exp(x)/2 + exp(y)/2
    """
    sy = require("sympy", "symbolic")
    x, y = sy.symbols("x y", real=True)
    rewards = ((x, 0, 0, 0), (0, y, 0, 0))

    def odds(r: "tuple[sympy.Expr, ...]") -> "sympy.Expr":
        first, second = (sy.exp(r[i]) + sy.exp(r[i + 1]) for i in (0, 2))
        return sy.expand(first / second)

    optimum = odds(tuple(sum(pair) for pair in zip(*rewards, strict=True)))
    mixed = odds(rewards[0]) * odds(rewards[1])
    name = sy.Symbol(r"\mathrm{odds}")
    return sy.Eq(name, optimum, evaluate=False), sy.Eq(name, sy.factor(mixed), evaluate=False)


def drift() -> "tuple[sympy.Eq, sympy.Eq]":
    """Unsampled actions under the z-score (AG-2, AG-3).

    With share h of right samples, the weights are ``A+ = sqrt((1 - h)/h)`` and ``A- = -sqrt(h/(1 - h))``; the
    right samples have mean probability u, the wrong ones v.

    Returns
    -------
    tuple of two sympy.Eq
        ``-(1/G) sum_i A_i pi(o_i)``, the change of log-probability; and ``-pi sum(A)/G`` if positives are
        scaled by ``1 - lambda``, the logit's change.

    Examples
    --------
    >>> drift()[0].rhs  # doctest: +SKIP
    sqrt(h)*sqrt(1 - h)*(-u + v)
    """
    sy = require("sympy", "symbolic")
    c, s, u, v, pi = sy.symbols("c s u v pi", positive=True)  # h = s^2, 1 - h = c^2
    lam = sy.Symbol("lambda", positive=True)
    h = sy.Symbol("h", positive=True)
    plus, minus = c / s, -s / c
    change = c * s * (v - u)
    if sy.expand(change + s**2 * plus * u + c**2 * minus * v) != 0:  # pragma: no cover
        raise ArithmeticError("the drift is another one")
    logit = -pi * sy.expand(s**2 * (1 - lam) * plus + c**2 * minus)
    back = {s: sy.sqrt(h), c: sy.sqrt(1 - h)}
    return (
        sy.Eq(sy.Symbol(r"\Delta\log\pi_u"), change.subs(back), evaluate=False),
        sy.Eq(sy.Symbol("g_u"), sy.factor(logit).subs(back), evaluate=False),
    )


def direction_law(group_size: int = 3) -> "tuple[sympy.Eq, sympy.Eq]":
    """Expected weight of one right and one wrong sample, by sums over all groups (AG-5).

    ``E g = E[c+] grad p - E[c-] grad p``, the two by conditioning on the correctness of one sample.

    Parameters
    ----------
    group_size : int, default 3
        Samples a group, 2 to 8.

    Returns
    -------
    tuple of two sympy.Eq
        s(p) for any weights c+_k, c-_k; and for the z-score, as a polynomial.

    Examples
    --------
    >>> direction_law(3)[1].rhs  # doctest: +SKIP
    sqrt(2)
    """
    sy = require("sympy", "symbolic")
    p = sy.Symbol("p", positive=True)
    plus = [sy.Symbol(f"c^+_{k}") for k in range(group_size + 1)]
    minus = [sy.Symbol(f"c^-_{k}") for k in range(group_size + 1)]
    rest = group_size - 1
    law = sum(
        sy.binomial(rest, K) * p**K * (1 - p) ** (rest - K) * (plus[K + 1] - minus[K])
        for K in range(group_size)
    )
    score: dict[sympy.Symbol, sympy.Expr] = {}
    for k in range(group_size + 1):
        inside = 0 < k < group_size
        score[plus[k]] = sy.sqrt(sy.Rational(group_size - k, k)) if inside else sy.Integer(0)
        score[minus[k]] = -sy.sqrt(sy.Rational(k, group_size - k)) if inside else sy.Integer(0)
    name = sy.Function("s")(p)
    return sy.Eq(name, law, evaluate=False), sy.Eq(
        name, sy.factor(sy.expand(law.subs(score))), evaluate=False
    )


def suppressed_direction() -> "tuple[sympy.Eq, sympy.Eq]":
    """Suppressing positives by lambda multiplies s by ``1 - lambda (1 - p)`` (AG-5).

    Positive and negative mass are equal in every group, so that ``p E c+ = (1 - p) E|c-|``.

    Returns
    -------
    tuple of two sympy.Eq
        ``E c+`` in terms of s; and the new scalar.

    Examples
    --------
    >>> suppressed_direction()[0].rhs  # doctest: +SKIP
    s*(1 - p)
    """
    sy = require("sympy", "symbolic")
    p, s, lam = sy.symbols("p s lambda", positive=True)
    plus, minus = (sy.Symbol(rf"\mathbb{{E}}\,{name}", positive=True) for name in ("c^+", "|c^-|"))
    found = sy.solve([plus + minus - s, p * plus - (1 - p) * minus], [plus, minus], dict=True)[0]
    new = (1 - lam) * found[plus] + found[minus]
    wanted = s * (1 - lam * (1 - p))
    right = s * (1 - p)
    if sy.expand(new - wanted) != 0 or sy.expand(found[plus] - right) != 0:  # pragma: no cover
        raise ArithmeticError("the scalar is another one")
    return (
        sy.Eq(plus, right, evaluate=False),
        sy.Eq(sy.Symbol(r"s_\lambda"), wanted, evaluate=False),
    )


def utilities() -> "dict[str, sympy.Eq]":
    """Utilities of infinite groups: each differentiates to its rule's s (AG-9).

    Returns
    -------
    dict of str to sympy.Eq
        By rule: ``s(p) = F'(p)`` with F written out.

    Notes
    -----
    ``s = A+ - A-`` of the rule at ``p_hat = p``; the derivative of F is checked against it.

    Examples
    --------
    >>> utilities()["zscore"].rhs  # doctest: +SKIP
    2*asin(sqrt(p))
    """
    sy = require("sympy", "symbolic")
    p, lam = sy.Symbol("p", positive=True), sy.Symbol("lambda", positive=True)
    q = 1 - p
    plus, minus = sy.sqrt(q / p), -sy.sqrt(p / q)
    root = sy.sqrt(p)
    pairs = {
        "zscore": (plus - minus, 2 * sy.asin(root)),
        "centred": (sy.Integer(1), p),
        "asymmetric": ((1 - lam) * plus - minus, 2 * sy.asin(root) - lam * (sy.sqrt(p * q) + sy.asin(root))),
        "hard": ((plus - minus) / (2 * root), -sy.atanh(sy.sqrt(q))),
        "easy": ((plus - minus) / (2 * (1 - root)), (1 + root) / sy.sqrt(q)),
        "easy_sqrt": ((plus - minus) / (2 * sy.sqrt(q)), sy.atanh(root)),
    }
    angle = sy.Symbol("phi", positive=True)  # p = sin^2: every root becomes rational in sine and cosine
    found = {}
    for rule, (scale, utility) in pairs.items():
        spare = (sy.diff(utility, p) - scale).subs(p, sy.sin(angle) ** 2)
        spare = sy.simplify(spare.subs(sy.sqrt(1 - sy.sin(angle) ** 2), sy.cos(angle)))
        for place in (sy.Rational(1, 3), sy.Rational(1, 2), sy.Rational(6, 5)):
            if abs(sy.N(spare.subs({angle: place, lam: sy.Rational(2, 7)}), 30)) > 1e-25:  # pragma: no cover
                raise ArithmeticError(f"the utility of {rule} does not differentiate to its s")
        found[rule] = sy.Eq(sy.Function("F")(p), utility, evaluate=False)
    return found
