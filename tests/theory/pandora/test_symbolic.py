"""Each derivation as an identity, and against the numeric function that uses it."""

import math

import numpy as np
import pytest

from porism.theory.pandora import bidder_statics, psi, symbolic, voi, wedge_threshold

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]


def same(sy, equation):
    return sy.simplify(equation.lhs - equation.rhs) == 0


def test_psi_slope(sy):
    slope, reflection = symbolic.psi_slope()
    assert same(sy, slope)
    assert same(sy, reflection)
    z = sy.Symbol("z", real=True)
    for at in (-1.3, 0.0, 0.8):
        h = 1e-5  # truncation h^2/6, rounding 1e-16/h: 1e-10 in all
        numeric = (psi(at + h) - psi(at - h)) / (2 * h)
        assert float(slope.lhs.subs(z, at)) == pytest.approx(numeric, abs=1e-9)
        assert psi(-at) - psi(at) == pytest.approx(float(reflection.rhs.subs(z, at)), abs=1e-15)


def test_voi_slopes(sy):
    by_nu, by_gap = symbolic.voi_slopes()
    assert same(sy, by_nu)
    assert same(sy, by_gap)
    d, nu = sy.Symbol("d", real=True), sy.Symbol("nu", positive=True)
    at, h = {d: 0.4, nu: 0.7}, 1e-5
    numeric = (voi(0.4, 0.7 + h) - voi(0.4, 0.7 - h)) / (2 * h)
    assert float(by_nu.lhs.subs(at)) == pytest.approx(numeric, abs=1e-9)
    numeric = (voi(0.4 + h, 0.7) - voi(0.4 - h, 0.7)) / (2 * h)
    assert float(by_gap.lhs.subs(at)) == pytest.approx(numeric, abs=1e-9)


def test_band_symmetry(sy):
    upper, lower = symbolic.band_symmetry()
    assert same(sy, upper)
    assert same(sy, lower)
    assert upper.rhs == lower.rhs
    d, nu = sy.Symbol("d", positive=True), sy.Symbol("nu", positive=True)
    for equation in (upper, lower):
        assert float(equation.lhs.subs({d: 0.3, nu: 0.5})) == pytest.approx(voi(0.3, 0.5), rel=1e-12)


def test_two_specialists(sy):
    """The witness of PB-8: refining the second first is worth 1.53416919, the first first 1.49323730."""
    closed, optimum = symbolic.two_specialists()
    names = {name: sy.Symbol(name, real=True) for name in ("x", "o", "m_i", "m_j", "c_i", "c_j")}
    names |= {name: sy.Symbol(name, positive=True) for name in ("nu_i", "nu_j")}
    means, spreads, costs = (0.666, 1.524), (0.565, 0.648), (0.0828, 0.0306)
    z = np.linspace(-8, 8, 4001)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    for i, expected in ((0, 1.4932372964943778), (1, 1.5341691909079226)):
        j = 1 - i
        numbers = {"o": -50, "m_j": means[j], "nu_j": spreads[j], "c_j": costs[j]}
        inserted = closed.rhs.subs({names[k]: v for k, v in numbers.items()})
        value = sy.lambdify(names["x"], inserted, ["scipy", "numpy"])
        left = [value(x) for x in means[i] + spreads[i] * z]
        integral = float(np.dot(left, density)) * 16 / 4000
        # kinks of V make the trapezoid O(h^2), h = .004
        assert integral - costs[i] == pytest.approx(expected, abs=1e-5)
        leaf = optimum.rhs.subs({names["o"]: 0, names["m_i"]: 9, names["m_j"]: 1})
        assert leaf.has(sy.Integral)


def test_aligned_price(sy):
    wedge = symbolic.aligned_price()
    assert same(sy, wedge)
    p, e = sy.symbols("p e", real=True)
    assert sy.simplify(wedge.lhs.subs(e, p)) == 0
    # dA - (dU + c rate) is the wedge averaged over prices: at a price that is nearly a point, one value
    d, nu = sy.Symbol("d", positive=True), sy.Symbol("nu", positive=True)
    tiny = 1e-5
    change = bidder_statics(0.0, 0.5, 0.02, 0.4, tiny, tiny)
    average = change["dA"] - change["dU"] - 0.02 * change["refine_rate"]
    # p - e = (p - mu)/2 has mean 0: to first order the average is slope(Phibar) Var(p)/2, of size 1e-10
    slope = sy.diff(wedge.rhs / (p - e), d).subs({d: 0.4, nu: 0.5})
    assert average == pytest.approx(float(slope) * 2 * tiny**2 / 2, rel=1e-3, abs=1e-16)


def test_wedge_law(sy):
    change, distance = symbolic.wedge_law()
    assert same(sy, change)
    S, omega, D, nu = sy.symbols("S omega D nu", positive=True)
    at = {S: sy.sqrt(sy.Rational(34, 100)), omega: sy.Rational(1, 2)}
    assert float(distance.rhs.subs(at)) == pytest.approx(wedge_threshold(0.3, 0.5), rel=1e-12)
    small = 1e-3
    numeric = bidder_statics(0, small, 1e-12, 1.0, 0.3, 0.5)["dA"]
    spread = math.sqrt(0.34)
    density = math.exp(-0.5 / 0.34) / (spread * math.sqrt(2 * math.pi))
    assert float(change.lhs.subs({**at, D: 1, nu: small})) * density == pytest.approx(numeric, rel=1e-3)
