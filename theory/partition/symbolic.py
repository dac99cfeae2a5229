"""Derivations behind the certificates as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

import itertools
import math
from typing import TYPE_CHECKING

from porism.checks import integer, require

if TYPE_CHECKING:
    import sympy

__all__ = [
    "abel_summation",
    "beta_weights",
    "level_games",
    "pair_identity",
    "pair_mass",
    "pascal_rule",
    "shapley_pair_weights",
    "size_law",
    "slope_radius",
    "witness_gap",
]


def pascal_rule() -> "sympy.Eq":
    """Pascal's rule, by which the weights of marginal contributions become weights of pairs.

    ``C(n-2, s-1) + C(n-2, s) = C(n-1, s)``

    Returns
    -------
    sympy.Eq
        The rule for symbolic n and s.

    Examples
    --------
    >>> pascal_rule().rhs  # doctest: +SKIP
    binomial(n - 1, s)
    """
    sy = require("sympy", "symbolic")
    n, s = sy.symbols("n s", integer=True, positive=True)
    sum_ = sy.binomial(n - 2, s - 1) + sy.binomial(n - 2, s)
    # both terms over the right-hand side: s/(n-1) and (n-1-s)/(n-1)
    ratio = sy.gammasimp(sum_.rewrite(sy.gamma) / sy.binomial(n - 1, s).rewrite(sy.gamma))
    return sy.Eq(sum_, sy.simplify(ratio) * sy.binomial(n - 1, s), evaluate=False)


def pair_identity(n: int = 3) -> "sympy.Eq":
    """Difference of players 0 and 1 from its definition, collected by coalition (PR-1).

    ``psi_0 - psi_1 = sum over S with 0, without 1, of q_|S| u(S) - sum over S with 1, without 0``

    with ``q_s = p_(s-1) + p_s``: a coalition with both players or with neither cancels.

    Parameters
    ----------
    n : int, default 3
        Number of players, 2 to 6.

    Returns
    -------
    sympy.Eq
        ``psi_0 - psi_1`` on the left, the definition summed up on the right; symbols p0, p1, ... and u with
        the players of the coalition, such as u02.

    Raises
    ------
    TypeError, ValueError
        If n is out of range.

    Examples
    --------
    >>> pair_identity(2)  # doctest: +SKIP
    Eq(psi_0 - psi_1, u_{0}*(p0 + p1) - u_{1}*(p0 + p1))
    """
    sy = require("sympy", "symbolic")
    integer("n", n, 2, 6)
    p = sy.symbols(f"p0:{n}")
    coalitions = [set(c) for size in range(n + 1) for c in itertools.combinations(range(n), size)]
    u = {frozenset(c): sy.Symbol(f"u_{{{''.join(map(str, sorted(c)))}}}") for c in coalitions}

    def value(player: int) -> "sympy.Expr":
        without = [c for c in coalitions if player not in c]
        return sum(p[len(c)] * (u[frozenset(c | {player})] - u[frozenset(c)]) for c in without)

    difference = sy.expand(value(0) - value(1))
    terms = []
    for score in u.values():
        weight = difference.coeff(score)
        terms.append(sy.Mul(-1, -weight, score) if weight.could_extract_minus_sign() else weight * score)
    return sy.Eq(sy.Symbol("psi_0") - sy.Symbol("psi_1"), sy.Add(*terms), evaluate=False)


def pair_mass(n: int = 5) -> "sympy.Eq":
    """The pair weights of any semivalue have total mass one (PR-1).

    ``sum_s C(n-2, s-1) (p_(s-1) + p_s) = sum_s C(n-1, s) p_s = 1`` by Pascal's rule.

    Parameters
    ----------
    n : int, default 5
        Number of players, >= 2.

    Returns
    -------
    sympy.Eq
        The mass of the pair weights on the left, collected by p_s on the right, whose sum is 1 for a
        semivalue.

    Raises
    ------
    TypeError, ValueError
        If n is out of range.

    Examples
    --------
    >>> pair_mass(3)  # doctest: +SKIP
    Eq((p0 + p1) + (p1 + p2), p0 + 2*p1 + p2)
    """
    sy = require("sympy", "symbolic")
    p = sy.symbols(f"p0:{integer('n', n, 2)}")
    counts = [math.comb(n - 2, s - 1) for s in range(1, n)]
    q = [a + b for a, b in itertools.pairwise(p)]
    terms = [sy.Mul(c, x, evaluate=False) if c > 1 else x for c, x in zip(counts, q, strict=True)]
    return sy.Eq(sy.Add(*terms, evaluate=False), sy.expand(sy.Add(*terms)), evaluate=False)


def shapley_pair_weights() -> "tuple[sympy.Eq, sympy.Eq]":
    """Pair weights of the Shapley value, and their mass, which is the same for every size.

    From ``p_s = 1 / (n C(n-1, s))``: ``q_s = 1 / ((n-1) C(n-2, s-1))`` and ``pi_s = 1 / (n-1)``.

    Returns
    -------
    tuple of two sympy.Eq
        The pair weight q_s and the mass pi_s, for symbolic n and s.

    Examples
    --------
    >>> shapley_pair_weights()[1].rhs  # doctest: +SKIP
    1/(n - 1)
    """
    sy = require("sympy", "symbolic")
    n, s = sy.symbols("n s", integer=True, positive=True)

    def p(size: "sympy.Expr") -> "sympy.Expr":
        return 1 / (n * sy.binomial(n - 1, size))

    choices = sy.binomial(n - 2, s - 1)
    mass = sy.simplify(sy.gammasimp(((p(s - 1) + p(s)) * choices).rewrite(sy.gamma)))
    return (
        sy.Eq(p(s - 1) + p(s), mass / choices, evaluate=False),
        sy.Eq(choices * (p(s - 1) + p(s)), mass, evaluate=False),
    )


def beta_weights(n: int = 4) -> "tuple[sympy.Eq, sympy.Eq]":
    """Weights of Beta Shapley as rising factorials, which sum to one.

    ``p_s`` is the mean of ``t^s (1-t)^(n-1-s)`` under the Beta law that has density proportional to
    ``t^(beta-1) (1-t)^(alpha-1)``: a ratio of two Beta functions, each of which is a ratio of Gamma
    functions, and ``Gamma(x + s) / Gamma(x)`` is the rising factorial of x.

    Parameters
    ----------
    n : int, default 4
        Number of players, >= 1.

    Returns
    -------
    tuple of two sympy.Eq
        p_s for symbolic s, and the sum of ``C(n-1, s) p_s`` over s, which is 1 (Vandermonde).

    Raises
    ------
    TypeError, ValueError
        If n is out of range.

    References
    ----------
    Kwon and Zou (2022), "Beta Shapley".

    Examples
    --------
    >>> beta_weights(3)[1].rhs  # doctest: +SKIP
    1
    """
    sy = require("sympy", "symbolic")
    alpha, beta = sy.symbols("alpha beta", positive=True)
    s = sy.Symbol("s", integer=True, nonnegative=True)
    integer("n", n, 1)
    rising = sy.RisingFactorial

    def p(size: "sympy.Expr") -> "sympy.Expr":
        return rising(beta, size) * rising(alpha, n - 1 - size) / rising(alpha + beta, n - 1)

    total = sum(math.comb(n - 1, size) * p(sy.Integer(size)) for size in range(n))
    summed = sy.Sum(sy.binomial(n - 1, s) * p(s), (s, 0, n - 1))
    law = (sy.beta(s + beta, n - 1 - s + alpha) / sy.beta(alpha, beta)).rewrite(sy.gamma)
    return (
        sy.Eq(law, p(s), evaluate=False),
        sy.Eq(summed, sy.simplify(sy.expand_func(total)), evaluate=False),
    )


def abel_summation(levels: int = 3) -> "sympy.Eq":
    """A function of the score as a sum of level games (Abel summation, PR-3).

    ``phi(sigma_m) = phi_0 + sum_l (phi_l - phi_(l-1)) 1[m >= l]`` on the levels 0, 1, ..., L.

    Parameters
    ----------
    levels : int, default 3
        L, the number of levels above the lowest, >= 1.

    Returns
    -------
    sympy.Eq
        Vectors over the levels: phi on the left, the telescoping sum of indicator vectors on the right.

    Raises
    ------
    TypeError, ValueError
        If `levels` is out of range.

    Examples
    --------
    >>> equation = abel_summation(2)  # doctest: +SKIP
    >>> equation.rhs.doit() == equation.lhs  # doctest: +SKIP
    True
    """
    sy = require("sympy", "symbolic")
    integer("levels", levels, 1)
    phi = sy.symbols(f"phi_0:{levels + 1}")
    indicator = [sy.Matrix([int(m >= level) for m in range(levels + 1)]) for level in range(levels + 1)]
    steps = [phi[0], *(phi[level] - phi[level - 1] for level in range(1, levels + 1))]
    terms = [sy.MatMul(step, column, evaluate=False) for step, column in zip(steps, indicator, strict=True)]
    return sy.Eq(sy.Matrix(phi), sy.MatAdd(*terms, evaluate=False), evaluate=False)


def level_games(levels: int = 3) -> "sympy.Eq":
    """Difference of two players under a changed score, as a sum over the level games (PR-3).

    ``d(phi) = sum_l a_l D_l`` with ``a_l = phi_l - phi_(l-1)``: the least value over increasing phi from 0 to
    1 is the least D_l, and it is nonnegative for all phi if and only if every D_l is.

    Parameters
    ----------
    levels : int, default 3
        L, the number of levels above the lowest, >= 1.

    Returns
    -------
    sympy.Eq
        Both sides in the masses m_l that v(S+i) rather than v(S+j) puts on level l, with
        ``D_l = m_l + ... + m_L``. The masses sum to zero, so that phi_0 drops out.

    Raises
    ------
    TypeError, ValueError
        If `levels` is out of range.

    Examples
    --------
    >>> equation = level_games(2)  # doctest: +SKIP
    >>> (equation.lhs - equation.rhs).expand()  # doctest: +SKIP
    0
    """
    sy = require("sympy", "symbolic")
    integer("levels", levels, 1)
    phi, m = sy.symbols(f"phi_0:{levels + 1}"), sy.symbols(f"m_1:{levels + 1}")
    masses = (-sum(m), *m)
    left = sum(value * mass for value, mass in zip(phi, masses, strict=True))
    terms = [
        sy.Mul(phi[level] - phi[level - 1], sum(m[level - 1 :]), evaluate=False)
        for level in range(1, levels + 1)
    ]
    return sy.Eq(left, sy.Add(*terms, evaluate=False), evaluate=False)


def slope_radius() -> "sympy.Eq":
    """The slope radius as the root of the worst case (PR-8).

    Slopes in [1, kappa] hurt a pair most with slope 1 where D_l > 0 and slope kappa where D_l < 0. With P and
    M the sums of ``g_l D_l`` of either sign, the difference is then ``P - kappa M``, and at the table itself
    ``d = P - M``.

    Returns
    -------
    sympy.Eq
        kappa* and the root ``1 + d / M``.

    Examples
    --------
    >>> slope_radius().rhs  # doctest: +SKIP
    1 + d/M
    """
    sy = require("sympy", "symbolic")
    d, loss, kappa = sy.symbols("d M kappa", positive=True)
    gain = sy.solve(sy.Eq(d, sy.Symbol("P") - loss), sy.Symbol("P"))[0]
    (root,) = sy.solve(sy.Eq(gain - kappa * loss, 0), kappa)
    return sy.Eq(sy.Symbol("kappa^*"), sy.expand(root), evaluate=False)


def witness_gap() -> "sympy.Eq":
    """The witness reverses its pair by exactly half the level difference (PR-6).

    ``phi = 1[sigma >= sigma_l] + epsilon sigma`` turns the difference d > 0 into ``D + epsilon d``; with
    D < 0 and ``epsilon = |D| / (2 d)`` that is ``D / 2``.

    Returns
    -------
    sympy.Eq
        ``D + epsilon d`` with the chosen epsilon (unevaluated), and its value.

    Examples
    --------
    >>> witness_gap().rhs  # doctest: +SKIP
    D/2
    """
    sy = require("sympy", "symbolic")
    d, epsilon = sy.symbols("d epsilon", positive=True)
    level = sy.Symbol("D", negative=True)
    chosen = sy.Abs(level) / (2 * d)
    after = level + epsilon * d
    shown = sy.Add(level, sy.Mul(chosen, d, evaluate=False), evaluate=False)
    return sy.Eq(shown, sy.simplify(after.subs(epsilon, chosen)), evaluate=False)


def size_law() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """The size law under which every sampled coalition has the same Shapley weight (PR-18).

    Partial fractions normalise ``r_s`` proportional to ``1 / (s (n-s))``, and ``q_s C(n, s) / r_s`` no longer
    depends on s.

    Returns
    -------
    tuple of three sympy.Eq
        The partial fractions, the law r(s), and the weight ``2 H(n-1)`` of a row, H the harmonic numbers.

    Examples
    --------
    >>> size_law()[2].rhs  # doctest: +SKIP
    2*H(n - 1)
    """
    sy = require("sympy", "symbolic")
    n, s = sy.symbols("n s", integer=True, positive=True)
    r, harmonic = sy.Function("r")(s), sy.Function("H")(n - 1)
    shape = 1 / (s * (n - s))
    split = 1 / (n * s) + 1 / (n * (n - s))
    # the two halves are the same sum, read from either end: sum of 1/(n s) over s = 1..n-1
    half = sy.summation(1 / s, (s, 1, n - 1)).subs(sy.harmonic(n - 1), harmonic) / n
    law = shape / (2 * half)
    q = shapley_pair_weights()[0].rhs
    weight = sy.simplify(sy.gammasimp((q * sy.binomial(n, s) / law).rewrite(sy.gamma)))
    return (
        sy.Eq(shape, split, evaluate=False),
        sy.Eq(r, law, evaluate=False),
        sy.Eq(q * sy.binomial(n, s) / r, weight, evaluate=False),
    )
