"""Each derivation against the numeric function that uses it, and as an identity of its own."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from porism.sims.partition import shapley_size_law
from porism.theory.partition import Semivalue, TopK, UtilityTable, certify_partition, semivalues, symbolic

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]

KINDS = [Semivalue.shapley(), Semivalue.banzhaf(), Semivalue.beta(4, 1), Semivalue.weighted_banzhaf("1/3")]


def fraction(value):
    return Fraction(int(value.p), int(value.q))


def test_pascal(sy):
    rule = symbolic.pascal_rule()
    n, s = sorted(rule.free_symbols, key=str)
    assert rule.rhs == sy.binomial(n - 1, s)
    for a in range(2, 9):
        for b in range(1, a):
            assert rule.lhs.subs({n: a, s: b}) == rule.rhs.subs({n: a, s: b}) == comb(a - 1, b)


@pytest.mark.parametrize("sv", KINDS, ids=str)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_pair_identity(sy, sv, n):
    scores = np.random.default_rng(n).integers(0, 20, 1 << n)
    identity = symbolic.pair_identity(n)
    p = {sy.Symbol(f"p{s}"): sy.Rational(str(x)) for s, x in enumerate(sv.exact_weights(n))}
    names = {mask: "".join(str(i) for i in range(n) if mask >> i & 1) for mask in range(1 << n)}
    u = {sy.Symbol(f"u_{{{name}}}"): int(scores[mask]) for mask, name in names.items()}
    values = semivalues(UtilityTable.from_array(scores), sv, exact=True)
    assert fraction(identity.rhs.subs(p | u)) == values[0] - values[1]
    q = sv.exact_pair_weights(n)
    for mask, name in names.items():
        sign = (mask & 1) - (mask >> 1 & 1)  # with both or neither the score must not occur
        found = identity.rhs.expand().coeff(sy.Symbol(f"u_{{{name}}}")).subs(p)
        assert fraction(sy.Rational(found)) == sign * q[mask.bit_count()]


@pytest.mark.parametrize("sv", KINDS, ids=str)
@pytest.mark.parametrize("n", [2, 3, 7])
def test_pair_mass(sy, sv, n):
    mass = symbolic.pair_mass(n)
    assert sy.expand(mass.lhs.doit()) == mass.rhs
    p = sy.symbols(f"p0:{n}")
    assert [mass.rhs.coeff(x) for x in p] == [comb(n - 1, s) for s in range(n)]
    weights = dict(zip(p, map(sy.Rational, map(str, sv.exact_weights(n))), strict=True))
    assert mass.lhs.subs(weights) == mass.rhs.subs(weights) == 1


def test_shapley_pair_weights():
    weight, mass = symbolic.shapley_pair_weights()
    n, s = sorted(weight.free_symbols, key=str)
    for a in range(2, 9):
        q = Semivalue.shapley().exact_pair_weights(a)
        for b in range(1, a):
            at = {n: a, s: b}
            assert fraction(weight.lhs.subs(at)) == fraction(weight.rhs.subs(at)) == q[b]
            assert fraction(mass.lhs.subs(at)) == fraction(mass.rhs.subs(at)) == Fraction(1, a - 1)
            assert float(mass.rhs.subs(at)) == pytest.approx(Semivalue.shapley().pair_mass(a)[b - 1])


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_beta_weights(sy, n):
    law, total = symbolic.beta_weights(n)
    alpha, beta, s = (next(x for x in law.free_symbols if x.name == name) for name in ("alpha", "beta", "s"))
    assert total.rhs == 1
    for size in range(n):
        difference = (law.lhs - law.rhs).subs(s, size).rewrite(sy.gamma)
        assert sy.simplify(sy.expand_func(sy.gammasimp(difference))) == 0
        for a, b in ((4, 1), (1, 4), (16, 1), ("1/2", "3/2")):
            at = {alpha: sy.Rational(a), beta: sy.Rational(b), s: size}
            assert fraction(law.rhs.subs(at)) == Semivalue.beta(a, b).exact_weights(n)[size]
    assert sy.simplify(sy.expand_func(total.lhs.doit()) - 1) == 0


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_abel_summation(levels):
    equation = symbolic.abel_summation(levels)
    assert equation.rhs.doit() == equation.lhs
    assert len(equation.rhs.args) == levels + 1


@pytest.mark.parametrize("sv", KINDS, ids=str)
def test_level_games(sy, sv):
    scores = np.array([0, 2, 5, 6, 0, 5, 1, 7])
    sigma = np.unique(scores)
    levels = len(sigma) - 1

    def difference(utility):
        values = semivalues(UtilityTable.from_array(utility), sv, exact=True)
        return values[0] - values[1]

    d = [difference((scores >= level).astype(int)) for level in sigma[1:]]
    m = [a - b for a, b in zip(d, [*d[1:], 0], strict=True)]
    phi = np.random.default_rng(0).integers(-9, 9, levels + 1)  # the identity needs no order
    equation = symbolic.level_games(levels)
    assert sy.expand(equation.lhs - equation.rhs) == 0
    at = {sy.Symbol(f"phi_{k}"): int(x) for k, x in enumerate(phi)}
    at |= {sy.Symbol(f"m_{k}"): sy.Rational(str(x)) for k, x in enumerate(m, 1)}
    assert fraction(equation.rhs.subs(at)) == difference(phi[np.searchsorted(sigma, scores)])


@pytest.mark.parametrize(
    "scores", [[0, 5, 0, 7, 0, 7, 10, 12], [0, 9, 4, 5, 8, 0, 7, 12], [0, 3, 0, 2, 1, 5, 7, 12]]
)
def test_slope_radius_and_witness(sy, scores):
    table, sv = UtilityTable.from_array(scores), Semivalue.shapley()
    found = certify_partition(table, sv, TopK(1))
    i, j = found.slope_pair
    sigma = np.unique(scores)

    def difference(utility, a, b):
        values = semivalues(UtilityTable.from_array(utility), sv, exact=True)
        return values[a] - values[b]

    loss = sum(
        gap * -min(difference((np.array(scores) >= level).astype(int), i, j), 0)
        for gap, level in zip(np.diff(sigma).tolist(), sigma[1:], strict=True)
    )
    radius = symbolic.slope_radius().rhs
    d, big = sorted(radius.free_symbols, key=lambda x: x.name != "d")
    at = {d: sy.Rational(str(difference(scores, i, j))), big: sy.Rational(str(loss))}
    assert float(radius.subs(at)) == pytest.approx(found.slope_radius, rel=1e-15)

    gap = symbolic.witness_gap()
    assert sy.simplify(gap.lhs - gap.rhs) == 0
    level = next(x for x in gap.free_symbols if x.name == "D")
    measured = found.witness.check(table, sv)[2]
    assert float(gap.rhs.subs(level, sy.Rational(str(found.level_margin)))) == pytest.approx(
        measured, rel=1e-14
    )  # phi is rounded


def test_size_law(sy):
    split, law, weight = symbolic.size_law()
    n, s = sorted(split.free_symbols, key=str)

    def at(expression, a, b=1):
        return fraction(expression.subs({n: a, s: b}).replace(sy.Function("H"), sy.harmonic))

    for a in (2, 3, 6, 9):
        q = Semivalue.shapley().exact_pair_weights(a)
        for b in range(1, a):
            assert at(split.lhs, a, b) == at(split.rhs, a, b)
            assert float(at(law.rhs, a, b)) == pytest.approx(shapley_size_law(a)[b - 1], rel=1e-14)
            assert q[b] * comb(a, b) / at(law.rhs, a, b) == at(weight.rhs, a)
        assert at(weight.rhs, a) == 2 * sum(Fraction(1, b) for b in range(1, a))
        assert sum(at(law.rhs, a, b) for b in range(1, a)) == 1


def test_domain():
    for function in (symbolic.pair_identity, symbolic.pair_mass):
        with pytest.raises(ValueError, match="n must be"):
            function(1)
    with pytest.raises(ValueError, match="levels must be"):
        symbolic.abel_summation(0)
    with pytest.raises(TypeError, match="n must be an int"):
        symbolic.beta_weights(3.0)
