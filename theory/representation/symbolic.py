"""Derivations behind parameter symmetries as sympy objects, which a notebook shows as mathematics.

Every function raises MissingExtraError where sympy is not installed (extra ``symbolic``).
"""

from typing import TYPE_CHECKING, Any

from porism.checks import require

if TYPE_CHECKING:
    import sympy

__all__ = ["addition_law", "linear_pieces", "null_group", "opposite_units", "rays"]


def opposite_units() -> "tuple[sympy.Eq, sympy.Eq]":
    """A unit and its opposite are one absolute value and one linear piece (PS-5).

    Compares ``a phi(z) + b phi(-z)`` with ``p |z| + q z`` on both half lines, which are two equations for p
    and q; phi has slope 1 for positive and s for negative inputs.

    Returns
    -------
    tuple of two sympy.Eq
        p and q.

    Examples
    --------
    >>> opposite_units()[0].rhs.factor()  # doctest: +SKIP
    -(a + b)*(s - 1)/2
    """
    sy = require("sympy", "symbolic")
    a, b, s = sy.symbols("a b s", real=True)
    p, q = sy.symbols("p q", real=True)
    z = sy.Symbol("z", positive=True)
    right = sy.Eq(a * z - b * s * z, p * z + q * z)  # at z
    left = sy.Eq(-a * s * z + b * z, p * z - q * z)  # at -z
    (found,) = sy.solve([right, left], [p, q], dict=True)
    return sy.Eq(p, sy.factor(found[p])), sy.Eq(q, sy.factor(found[q]))


def null_group() -> "tuple[sympy.Eq, sympy.Eq]":
    """Six units, no two of them parallel, that add up to nothing (PS-5).

    Each pair leaves its linear piece, from `opposite_units` with ``b = -a``, and no absolute value; the
    pieces of ``z_1``, ``z_2`` and minus ``z_1 + z_2`` cancel.

    Returns
    -------
    tuple of two sympy.Eq
        The absolute value and the linear piece of one pair, and the sum over the group.

    Examples
    --------
    >>> null_group()[1].rhs  # doctest: +SKIP
    0
    """
    sy = require("sympy", "symbolic")
    a, b = sy.symbols("a b", real=True)
    z, z1, z2 = sy.symbols("z z_1 z_2", real=True)
    size = sy.Symbol("|z|", positive=True)
    even, odd = (equation.rhs.subs(b, -a) for equation in opposite_units())
    pair = sy.simplify(even) * size + sy.factor(odd) * z
    pieces = [odd * side * value for side, value in ((1, z1), (1, z2), (-1, z1 + z2))]
    total = sy.Add(*pieces, evaluate=False)
    phi = sy.Function("phi")
    return (
        sy.Eq(a * phi(z) - a * phi(-z), pair, evaluate=False),
        sy.Eq(total, sy.expand(sy.Add(*pieces)), evaluate=False),
    )


def linear_pieces() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """Also GELU and SiLU are linear in their odd part: ``phi(z) - phi(-z) = z`` (PS-7).

    All three are ``z g(z)`` with ``g(z) + g(-z) = 1``: the normal distribution function, its approximation by
    a hyperbolic tangent of an odd polynomial, and the logistic function.

    Returns
    -------
    tuple of three sympy.Eq
        The difference for GELU, its approximation and SiLU.

    Raises
    ------
    ArithmeticError
        If a difference is not z.

    Examples
    --------
    >>> [equation.rhs for equation in linear_pieces()]  # doctest: +SKIP
    [z, z, z]
    """
    sy = require("sympy", "symbolic")
    z, k = sy.Symbol("z", real=True), sy.Symbol("k", positive=True)
    gates = (
        (1 + sy.erf(z / sy.sqrt(2))) / 2,
        (1 + sy.tanh(sy.sqrt(2 / sy.pi) * (z + k * z**3))) / 2,
        1 / (1 + sy.exp(-z)),
    )
    found = []
    for gate in gates:
        value = z * gate
        difference = sy.Add(value, -value.subs(z, -z), evaluate=False)
        odd = sy.simplify(value - value.subs(z, -z))
        if sy.simplify(odd - z) != 0:  # pragma: no cover
            raise ArithmeticError(f"the difference is {odd}, not z")
        found.append(sy.Eq(difference, z, evaluate=False))
    return found[0], found[1], found[2]


def addition_law() -> "tuple[sympy.Eq, sympy.Eq, sympy.Eq]":
    """CKA after null units are added with factor t, its limit, and that it falls all the way (PS-3).

    The kernel becomes ``K + t^2 N``; three inner products are left: ``|K|^2``, ``<K, N> = r |K| |N|`` and
    ``|N|^2``.

    Returns
    -------
    tuple of three sympy.Eq
        CKA as a function of ``u = t^2 |N| / |K|`` and r; its limit; and its slope in u, which is not positive
        for r <= 1.

    Examples
    --------
    >>> addition_law()[1].rhs  # doctest: +SKIP
    r
    """
    sy = require("sympy", "symbolic")
    u, k, n = sy.symbols("u k n", positive=True)
    r = sy.Symbol("r", nonnegative=True)
    t2 = u * k / n
    inner, size = k**2 + t2 * r * k * n, sy.sqrt(k**2 + 2 * t2 * r * k * n + t2**2 * n**2)
    law = sy.simplify(inner / (k * size))
    limit = sy.limit(law, u, sy.oo)
    slope = sy.factor(sy.simplify(sy.diff(law, u)))
    cka = sy.Symbol(r"\mathrm{CKA}")
    return (
        sy.Eq(cka, law, evaluate=False),
        sy.Eq(sy.Symbol(r"\mathrm{CKA}_\infty"), limit, evaluate=False),
        sy.Eq(sy.Derivative(cka, u), slope, evaluate=False),
    )


def rays() -> "tuple[sympy.Eq, sympy.Eq]":
    """Why the lowest CKA under scaling is a squared correlation (PS-2).

    A unit alone has the kernel ``h h'``; the cosine of two such kernels is the squared cosine of the units.
    Along ``K_1 + w K_2`` the cosine with L is a mean of the two cosines, with weights that sum to at least 1
    since ``|K_1 + w K_2| <= |K_1| + w |K_2|``: it is never below the smaller one.

    Returns
    -------
    tuple of two sympy.Eq
        The cosine of two rays, for units on three samples, beside the squared cosine of the units; and
        ``(|K_1| + w |K_2|)^2 - |K_1 + w K_2|^2``, which is not negative by Cauchy and Schwarz.

    Raises
    ------
    ArithmeticError
        If the two sides of the first differ.

    Examples
    --------
    >>> rays()[1].rhs  # doctest: +SKIP
    -2*k_1*k_2*w*(r - 1)
    """
    sy = require("sympy", "symbolic")
    g = sy.Matrix(sy.symbols("g_1:4", real=True))
    h = sy.Matrix(sy.symbols("h_1:4", real=True))

    def inner(one: Any, two: Any) -> Any:
        return sum(x * y for x, y in zip(one, two, strict=True))

    K, L = g * g.T, h * h.T
    squared = inner(K, L) ** 2 / (inner(K, K) * inner(L, L))  # no roots, so that it simplifies
    units = inner(g, h) ** 2 / (inner(g, g) * inner(h, h))
    if sy.simplify(squared - units**2) != 0:  # pragma: no cover
        raise ArithmeticError("the cosine of two rays is not the squared cosine of the units")
    k1, k2, w = sy.symbols("k_1 k_2 w", positive=True)
    r = sy.Symbol("r", real=True)
    slack = (k1 + w * k2) ** 2 - (k1**2 + 2 * w * r * k1 * k2 + w**2 * k2**2)
    name = sy.Symbol(r"\mathrm{CKA}_{gh}")
    return (
        sy.Eq(name, units, evaluate=False),
        sy.Eq(sy.Symbol(r"\text{slack}"), sy.factor(sy.expand(slack)), evaluate=False),
    )
