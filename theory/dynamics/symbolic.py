"""Derivations behind skill and delegation as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING, Any

from porism.checks import require

if TYPE_CHECKING:
    import sympy

__all__ = [
    "crossing_bound",
    "divergence",
    "fixed_delegation",
    "folds",
    "monotone",
    "nodes_and_saddle",
    "slow_trust",
    "symmetry",
]


def _flow(law: str = "replicator") -> "tuple[Any, ...]":
    """Symbols s, d, a, b, k, q, gamma, and the two velocities."""
    sy = require("sympy", "symbolic")
    s, d, a, b, k, q, gamma = sy.symbols("s d a b k q gamma", positive=True)
    trust = d * (1 - d) * (q - s) if law == "replicator" else 1 / (1 + sy.exp(-gamma * (q - s))) - d
    return s, d, a, b, k, q, gamma, a * (1 - d) * (1 - s) - b * d * s, k * trust


def fixed_delegation() -> "tuple[sympy.Eq, sympy.Eq]":
    """Skill under constant delegation (SD-1).

    Returns
    -------
    tuple of two sympy.Eq
        The skill s* at rest, and s(t), which is checked to solve the equation from s_0.

    Examples
    --------
    >>> fixed_delegation()[0].rhs  # doctest: +SKIP
    a*(1 - d)/(a*(1 - d) + b*d)
    """
    sy = require("sympy", "symbolic")
    s, d, a, b, *_, rise, _ = _flow()
    t, start = sy.symbols("t s_0", positive=True)
    rate, name = a * (1 - d) + b * d, sy.Symbol("s^*")
    rest = a * (1 - d) / rate
    solution = name + (start - name) * sy.exp(-rate * t)
    left = sy.diff(solution, t) - rise.subs(s, solution)
    if sy.simplify(left.subs(name, rest)) != 0 or solution.subs(t, 0) != start:  # pragma: no cover
        raise ArithmeticError("this does not solve the equation")
    return sy.Eq(name, rest, evaluate=False), sy.Eq(sy.Function("s")(t), solution, evaluate=False)


def nodes_and_saddle() -> "tuple[sympy.Eq, ...]":
    """Linear parts of law A at its three points of rest (SD-2).

    Returns
    -------
    tuple of five sympy.Eq
        The Jacobian at (1, 0) and at (0, 1), the delegation of the saddle (q, d), and trace and determinant
        of its Jacobian; for 0 < q < 1 the determinant is negative.

    Examples
    --------
    >>> nodes_and_saddle()[2].rhs  # doctest: +SKIP
    a*(1 - q)/(a*(1 - q) + b*q)
    """
    sy = require("sympy", "symbolic")
    s, d, a, b, k, q, _, rise, trust = _flow()
    J = sy.Matrix([rise, trust]).jacobian([s, d])
    (rest,) = sy.solve(rise.subs(s, q), d)
    bottom = a * (1 - q) + b * q
    saddle = J.subs({s: q, d: rest})
    name = sy.Function("J")
    shown = {
        sy.Symbol(r"\hat{d}"): (rest, a * (1 - q) / bottom),
        sy.Symbol(r"\mathrm{tr}"): (saddle.trace(), -a * b / bottom),
        sy.Symbol(r"\mathrm{det}"): (saddle.det(), -a * b * k * q * (1 - q) / bottom),
    }
    for found, form in shown.values():
        if sy.simplify(found - form) != 0:  # pragma: no cover
            raise ArithmeticError("the short form is another expression")
    nodes = [
        sy.Eq(name(x, y), J.subs({s: x, d: y}).applyfunc(sy.factor), evaluate=False)
        for x, y in ((1, 0), (0, 1))
    ]
    return (*nodes, *(sy.Eq(left, form, evaluate=False) for left, (_, form) in shown.items()))


def divergence() -> "tuple[sympy.Eq, sympy.Eq]":
    """No cycles: the divergence of law A weighted by 1 / (d (1 - d)), and of law B as it is (SD-3).

    Returns
    -------
    tuple of two sympy.Eq
        Both are negative inside the square.

    Examples
    --------
    >>> divergence()[1].rhs  # doctest: +SKIP
    -a*(1 - d) - b*d - k
    """
    sy = require("sympy", "symbolic")
    found = []
    for law in ("replicator", "logistic"):
        s, d, a, b, k, _, _, rise, trust = _flow(law)
        weight = 1 / (d * (1 - d)) if law == "replicator" else sy.Integer(1)
        value = sy.diff(weight * rise, s) + sy.diff(sy.cancel(weight * trust), d)
        form = -(a * (1 - d) + b * d) * weight - (0 if law == "replicator" else k)
        if sy.simplify(value - form) != 0:  # pragma: no cover
            raise ArithmeticError("the divergence is another expression")
        # the velocities as one symbol
        name = sy.Function("div")(sy.Symbol("f") if weight == 1 else weight * sy.Symbol("f"))
        found.append(sy.Eq(name, form, evaluate=False))
    return found[0], found[1]


def monotone() -> "tuple[sympy.Eq, ...]":
    """Why order is kept: more delegation lowers the growth of skill, more skill that of delegation (SD-4).

    Kamke's condition in (s, -d); for the third, ``sigma' > 0`` under law B too.

    Returns
    -------
    tuple of three sympy.Eq
        The derivative of ds/dt in d, of dd/dt in s, and of dd/dt in q under law A: at most 0, at most 0 and
        at least 0 on the square. The last gives SD-5 by comparison.

    Examples
    --------
    >>> monotone()[2].rhs  # doctest: +SKIP
    d*k*(1 - d)
    """
    sy = require("sympy", "symbolic")
    s, d, a, b, k, q, _, rise, trust = _flow()
    forms = ((r"\dot{s}", rise, d, -a * (1 - s) - b * s), (r"\dot{d}", trust, s, -k * d * (1 - d)),
             (r"\dot{d}", trust, q, k * d * (1 - d)))  # fmt: skip
    found = []
    for name, velocity, variable, form in forms:
        if sy.expand(sy.diff(velocity, variable) - form) != 0:  # pragma: no cover
            raise ArithmeticError("the derivative is another expression")
        found.append(sy.Eq(sy.Derivative(sy.Symbol(name), variable), form, evaluate=False))
    return tuple(found)


def slow_trust() -> "tuple[sympy.Eq, sympy.Eq]":
    """The basin of low skill when trust adapts infinitely slowly, or fast (SD-6).

    Slow: skill follows delegation as s*(d), and trust falls iff s*(d) > q. Fast: delegation goes to 0 or 1
    before skill moves, and the sign of q - s at the start decides.

    Returns
    -------
    tuple of two sympy.Eq
        The area for k to 0, one minus the solution of ``s*(d) = q``, and for k to infinity.

    Examples
    --------
    >>> slow_trust()[0].rhs  # doctest: +SKIP
    b*q/(a*(1 - q) + b*q)
    """
    sy = require("sympy", "symbolic")
    s, d, a, b, _, q, _, rise, _ = _flow()
    (rest,) = sy.solve(rise, s)
    (border,) = sy.solve(sy.Eq(rest, q), d)
    form = b * q / (a * (1 - q) + b * q)
    if sy.simplify(1 - border - form) != 0:  # pragma: no cover
        raise ArithmeticError("the area is another expression")
    slow, fast = (sy.Symbol(rf"\lim_{{k\to {end}}} A") for end in ("0", r"\infty"))
    return sy.Eq(slow, form, evaluate=False), sy.Eq(fast, sy.integrate(1, (s, 0, q)), evaluate=False)


def symmetry() -> "tuple[sympy.Eq, sympy.Eq]":
    """Law A seen from the other corner: 1 - s and 1 - d obey it with a and b exchanged and 1 - q (SD-7).

    Returns
    -------
    tuple of two sympy.Eq
        The velocities of ``S = 1 - s`` and ``D = 1 - d``.

    Examples
    --------
    >>> symmetry()[1].rhs  # doctest: +SKIP
    D*k*(1 - D)*(-S - q + 1)
    """
    sy = require("sympy", "symbolic")
    s, d, a, b, _, q, _, rise, trust = _flow()
    S, D = sy.symbols("S D", positive=True)
    other = {a: b, b: a, q: 1 - q, s: S, d: D}
    found = []
    for name, velocity in ((r"\dot{S}", rise), (r"\dot{D}", trust)):
        form = velocity.subs(other, simultaneous=True)
        if sy.expand(-velocity.subs({s: 1 - S, d: 1 - D}) - form) != 0:  # pragma: no cover
            raise ArithmeticError("the flow is not symmetric")
        found.append(sy.Eq(sy.Symbol(name), form, evaluate=False))
    return found[0], found[1]


def folds() -> "tuple[sympy.Eq, ...]":
    """Points of rest of law B: the quality at which skill s rests, its folds, and stability (SD-8).

    Returns
    -------
    tuple of four sympy.Eq
        q(s); dq/ds; its zeros s- and s+ as a set; and the determinant of the Jacobian along the curve, whose
        sign is that of ``-dq/ds`` whatever k is; the trace is always negative.

    Examples
    --------
    >>> folds()[1].rhs  # doctest: +SKIP
    1 - 1/(gamma*s*(1 - s))
    """
    sy = require("sympy", "symbolic")
    s, d, a, b, k, q, gamma, rise, trust = _flow("logistic")
    (rest,) = sy.solve(rise, d)
    quality = s + sy.log(a * (1 - s) / (b * s)) / gamma
    slope = 1 - 1 / (gamma * s * (1 - s))
    zeros = sy.FiniteSet(*sy.solve(gamma * s * (1 - s) - 1, s))
    det = sy.Matrix([rise, trust]).jacobian([s, d]).det()
    odds = a * (1 - s) / (b * s)  # exp(gamma (q - s)) at rest
    along = det.subs(q, quality).subs(d, rest)
    form = k * a * b / (a * (1 - s) + b * s) * (1 - gamma * s * (1 - s))
    at_rest = sy.simplify(trust.subs({q: quality, d: odds / (1 + odds)}))
    if at_rest != 0 or sy.simplify(rest - odds / (1 + odds)) != 0:  # pragma: no cover
        raise ArithmeticError("q(s) is not where both velocities vanish")
    if sy.simplify(sy.diff(quality, s) - slope) != 0 or sy.simplify(along - form) != 0:  # pragma: no cover
        raise ArithmeticError("the short form is another expression")
    return (
        sy.Eq(sy.Function("q")(s), quality, evaluate=False),
        sy.Eq(sy.Derivative(sy.Function("q")(s), s), slope, evaluate=False),
        sy.Eq(sy.Symbol(r"s_\pm"), zeros, evaluate=False),
        sy.Eq(sy.Symbol(r"\mathrm{det}"), form, evaluate=False),
    )


def crossing_bound() -> "tuple[sympy.Eq, sympy.Eq]":
    """Why the AI is a loss once the person alone would have reached its quality (SD-9).

    From ``ds/dt <= a (1 - s)`` follows ``s <= s_no``, so both terms of the difference are negative once
    ``s_no > q``.

    Returns
    -------
    tuple of two sympy.Eq
        Performance less that without AI as a sum of two terms, and the time at which s_no(t) = q.

    Examples
    --------
    >>> crossing_bound()[1].rhs  # doctest: +SKIP
    log((1 - s_0)/(1 - q))/a
    """
    sy = require("sympy", "symbolic")
    s, d, a, _, _, q, *_ = _flow()
    t, start, alone = sy.symbols("t s_0 s_{no}", positive=True)
    difference = (1 - d) * s + d * q - alone
    form = (1 - d) * (s - alone) + d * (q - alone)
    bound = sy.log((1 - start) / (1 - q)) / a
    without = 1 - (1 - start) * sy.exp(-a * t)
    if sy.expand(difference - form) != 0 or sy.simplify(without.subs(t, bound) - q) != 0:  # pragma: no cover
        raise ArithmeticError("the short form is another expression")
    return sy.Eq(difference, form, evaluate=False), sy.Eq(sy.Symbol("t_{max}"), bound, evaluate=False)
