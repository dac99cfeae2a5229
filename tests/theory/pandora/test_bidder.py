"""The bidder: oracle case 11, a simulation of the market (PB-19 to PB-22), quadrature, sweeps and laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pandora import (
    bidder_decision,
    bidder_sign_map,
    bidder_statics,
    inspection_halfwidth,
    psi,
    small_signal_change,
    voi,
    wedge_threshold,
)

calm = settings(deadline=None)  # the machine may be busy

CASE = (0.0, 0.5, 0.02, 1.2, 0.3)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)


def simulate(m, nu, c, mu, s_other, omega, price="raw", draws=1_000_000, seed=0):
    """The market itself, with common random numbers: changes of utility and welfare with standard errors.

    Written from the story, not from the formulas: the specialist sees the posted price, refines if a gain
    beyond the cost is expected, takes the query iff its estimate reaches the price; else the competitor
    answers.
    """
    rng = np.random.default_rng(seed)
    other = mu + s_other * rng.normal(size=draws)
    posted = other + omega * rng.normal(size=draws)
    if price == "shrunk":
        posted = mu + s_other**2 / (s_other**2 + omega**2) * (posted - mu)
    refined = m + nu * rng.normal(size=draws)
    refine = nu * psi(np.abs(m - posted) / nu) > c
    estimate = np.where(refine, refined, m)

    def outcome(takes):
        return np.where(takes, refined - posted, 0.0), np.where(takes, refined, other)

    with_voi, without = outcome(estimate >= posted), outcome(np.full(draws, m) >= posted)
    utility = with_voi[0] - c * refine - without[0]
    gross = with_voi[1] - without[1]
    columns = {"dU": utility, "dA": gross, "dW": gross - c * refine, "refine_rate": refine.astype(float)}
    return {key: (x.mean(), x.std() / math.sqrt(draws)) for key, x in columns.items()}


def naive(m, nu, c, mu, s_other, omega, price="raw"):
    """The integrals of PB-21 with 4000 midpoints on each side of m: error O(h^2), some 1e-7."""
    w = inspection_halfwidth(nu, c)
    spread = math.hypot(s_other, omega)
    rho = (s_other / spread) ** 2
    sd = spread if price == "raw" else rho * spread
    out = np.zeros(3)
    for low, high in ((m - w, m), (m, m + w)):
        p = low + (high - low) * (np.arange(4000) + 0.5) / 4000
        f = np.exp(-0.5 * ((p - mu) / sd) ** 2) / (sd * math.sqrt(2 * math.pi)) * (high - low) / 4000
        z = np.abs(m - p) / nu
        tail = np.array([math.erfc(x / math.sqrt(2)) / 2 for x in z])
        e = mu + rho * (p - mu) if price == "raw" else p
        gain = nu * (np.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * tail)
        out += [(f * (gain - c)).sum(), (f * (gain + np.sign(p - m) * (p - e) * tail)).sum(), f.sum()]
    return {"dU": out[0], "dA": out[1], "dW": out[1] - c * out[2], "refine_rate": out[2]}


def test_decision():
    bid = bidder_decision(0.0, 0.5, 0.02, 0.3)
    assert (bid.refine, bid.accept_without) == (True, False)
    assert bid.gain == pytest.approx(voi(0.3, 0.5) - 0.02, rel=1e-14)
    assert bidder_decision(0.0, 0.5, 0.02, -0.3) == (True, True, bid.gain)
    assert bidder_decision(0.0, 0.5, 0.2, 0.3) == (False, False, 0.0)
    assert bidder_decision(1.0, 0.5, 0.1, 1.0).accept_without is True  # accepts at its own mean
    assert bidder_decision(0.0, 0.1, 0.0, 30.0) == (True, False, 0.0)  # free, the gain underflows
    assert bidder_decision(0.0, 0.0, 0.0, 0.0) == (False, True, 0.0)
    assert bidder_decision(0.0, 0.5, np.inf, 0.1) == (False, False, 0.0)


@calm
@given(st.floats(-2, 2), st.floats(0.05, 1), st.floats(0, 0.3), st.floats(-2, 2))
def test_decision_is_the_better_of_two(m, nu, c, price):
    """PB-19, by quadrature: E(M - p)^+ - c against (m - p)^+."""
    start = min(max((price - m) / nu, -9.0), 9.0)  # M passes the price here
    z = start + (9 - start) * (NODES + 1) / 2
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    refined = float(((9 - start) / 2 * WEIGHTS * (m + nu * z - price) * density).sum()) - c
    bid = bidder_decision(m, nu, c, price)
    change = refined - max(m - price, 0.0)
    assert bid.gain == pytest.approx(max(change, 0.0), abs=1e-13)
    assert bid.refine == (change > 0) or abs(change) < 1e-13
    assert bid.accept_without == (m >= price)


def test_oracle():
    found = bidder_statics(*CASE, 0.5)
    assert found["dU"] == pytest.approx(0.0092770603806828412, rel=1e-12)
    assert found["dA"] == pytest.approx(-0.002310612992214068, rel=1e-12)
    assert found["dW"] == pytest.approx(-0.0060241105899383958, rel=1e-12)
    assert found["refine_rate"] == pytest.approx(0.18567487988621639, rel=1e-12)
    exact = bidder_statics(*CASE, 0.0)
    assert exact["dU"] == pytest.approx(6.6389777354577677e-4, rel=1e-12)
    assert exact["dW"] == pytest.approx(6.6389777354577677e-4, rel=1e-12)
    assert exact["dA"] == pytest.approx(1.4949588767706039e-3, rel=1e-12)
    third = bidder_statics(0, 0.6, 0.05, 1, 0.4, 0.6)
    assert third["dU"] == pytest.approx(0.02042311963976784, rel=1e-12)
    assert third["dA"] == pytest.approx(0.024540419723762637, rel=1e-12)
    # PB-22, to the digits printed there
    sweep = bidder_statics(*CASE, [0.0, 0.2, 0.3, 0.5, 0.8])
    np.testing.assert_allclose(sweep["dA"], [0.00150, 0.00068, -0.00109, -0.00231, 0.01043], atol=6e-6)
    np.testing.assert_allclose(sweep["dU"][[0, 2, 3]], [0.00066, 0.0035, 0.0093], atol=6e-5)
    easy = bidder_statics(0, 0.5, 0.02, 1.0, 0.3, 0.4)
    assert (round(easy["dA"], 4), round(easy["dW"], 4)) == (0.0031, -0.0022)
    assert (bidder_statics(0, 0.5, 0.02, 0.0, 0.3, np.linspace(0, 3, 31))["dA"] > 0).all()


PARAMETERS = [
    (*CASE, 0.5),
    (*CASE, 0.0),
    (0.3, 0.6, 0.05, 1.0, 0.4, 0.6),
    (1.0, 0.8, 0.0, 0.2, 0.9, 1.2),
    (-0.5, 0.3, 0.1, -0.2, 0.1, 0.4),
]


@pytest.mark.parametrize("price", ["raw", "shrunk"])
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_against_the_market(parameters, price):
    exact, drawn = bidder_statics(*parameters, price), simulate(*parameters, price)
    for key, (mean, error) in drawn.items():
        # 40 comparisons at a fixed seed: beyond 4.5 standard errors is one in 4000
        assert exact[key] == pytest.approx(mean, abs=4.5 * error + 1e-15), key


@pytest.mark.parametrize("price", ["raw", "shrunk"])
@pytest.mark.parametrize("parameters", [p for p in PARAMETERS if p[2] > 0])
def test_against_midpoints(parameters, price):
    exact, slow = bidder_statics(*parameters, price), naive(*parameters, price)
    for key in exact:
        assert exact[key] == pytest.approx(slow[key], rel=1e-5, abs=1e-8), key


@pytest.mark.full
def test_against_mpmath(needs):
    """Narrow prices, wide prices, far tails: the panels have to follow the integrand."""
    mp = needs("mpmath")
    mp.mp.dps = 20
    cases = [
        (0, 0.5, 0.02, 0.4, 0.003, 0.002),
        (0, 0.01, 1e-4, 0.3, 0.5, 0.8),
        (0, 0.5, 1e-30, 4.0, 0.2, 0.1),
        (0, 0.5, 0.19, 0.05, 0.3, 0.1),
        (0, 0.1, 1e-195, 2.9, 0.04, 0.03),  # the integrand peaks far from both 0 and mu
    ]
    for m, nu, c, mu, s, omega in cases:
        found = bidder_statics(m, nu, c, mu, s, omega)
        w = mp.mpf(inspection_halfwidth(nu, c))
        S = mp.sqrt(mp.mpf(s) ** 2 + mp.mpf(omega) ** 2)
        noise = mp.mpf(omega) ** 2 / S**2

        def parts(p, m=m, nu=nu, c=c, mu=mu, S=S, noise=noise):
            z = abs(p - m) / nu
            tail = mp.erfc(z / mp.sqrt(2)) / 2
            gain = nu * (mp.npdf(z) - z * tail)
            f = mp.npdf(p, mu, S)
            return f * (gain - c), f * (gain + mp.sign(p - m) * noise * (p - mu) * tail)

        near = [mu + k * S for k in range(-12, 13) if -w < mu + k * S < w]
        cuts = sorted({-w, mp.mpf(0), w, *(k * w / 8 for k in range(-7, 8)), *near})
        for key, i in (("dU", 0), ("dA", 1)):
            scale = abs(mp.mpf(found[key]))  # quad stops by absolute error
            value = mp.quad(lambda p, i=i, scale=scale: parts(p)[i] / scale, cuts)
            size = mp.quad(lambda p, i=i, scale=scale: abs(parts(p)[i]) / scale, cuts)
            assert abs(found[key] / scale - value) < 1e-11 * size, (m, nu, c, key)


def test_random_markets():
    """PB-20 and PB-22: the shrunk price aligns, the raw one may not; the specialist never loses."""
    rng = np.random.default_rng(0)
    n = 600
    nu = rng.uniform(0.05, 1, n)
    market = (rng.normal(size=n), nu, nu * rng.uniform(0.005, 0.39, n), rng.normal(size=n))
    market = (*market, rng.uniform(0.05, 1, n), rng.uniform(0, 1.5, n))
    shrunk, raw = bidder_statics(*market, "shrunk"), bidder_statics(*market, "raw")
    np.testing.assert_allclose(shrunk["dU"], shrunk["dW"], rtol=0, atol=1e-15)
    assert shrunk["dU"].min() >= 0
    assert raw["dU"].min() >= 0
    assert (raw["dA"] < 0).any()
    assert ((raw["dW"] < 0) >= (raw["dA"] < 0)).all()
    aligned = bidder_statics(*market[:5], 0.0)
    np.testing.assert_allclose(aligned["dU"], aligned["dW"], rtol=0, atol=1e-15)


def test_small_signal_law():
    threshold = wedge_threshold(0.3, 0.5)
    assert threshold == pytest.approx(0.896, abs=5e-4)
    crossings = []
    for nu, c in ((0.05, 1e-4), (0.5, 0.02)):
        low, high = 0.7, 1.5
        for _ in range(40):
            middle = (low + high) / 2
            negative = bidder_statics(0, nu, c, middle, 0.3, 0.5)["dA"] < 0
            low, high = (low, middle) if negative else (middle, high)
        crossings.append(low)
    assert crossings[0] == pytest.approx(0.9034, abs=5e-5)
    assert crossings[1] == pytest.approx(1.13, abs=5e-3)
    # the law is the limit: the next order in nu is nu^2/S^2, and the cost matters as c/nu
    for distance in (0.0, 0.5, 1.2):
        leading = small_signal_change(0, 1e-3, distance, 0.3, 0.5)
        exact = bidder_statics(0, 1e-3, 1e-12, distance, 0.3, 0.5)["dA"]
        assert exact == pytest.approx(leading, rel=1e-4)
        assert (leading < 0) == (distance > threshold)


def test_threshold():
    omega = np.linspace(0.05, 1, 400)
    least = wedge_threshold(0.3, omega)
    assert least.min() == pytest.approx((1 + math.sqrt(2)) * 0.3, rel=1e-5)
    assert omega[least.argmin()] == pytest.approx(0.3 / 2**0.25, abs=0.003)
    assert wedge_threshold(0.3, 0.0) == np.inf
    assert wedge_threshold(0.0, 0.5) == pytest.approx(0.5 * math.sqrt(2))
    assert small_signal_change(0, 0.1, wedge_threshold(0.3, 0.5), 0.3, 0.5) == pytest.approx(0, abs=1e-17)


def test_sign_map():
    distance, omega = np.linspace(-2, 2, 9), np.linspace(0, 1, 5)
    found = bidder_sign_map(distance, omega)
    change = bidder_statics(0, 0.5, 0.02, distance[:, None], 0.3, omega)
    for key, signs in found.items():
        assert signs.shape == (9, 5)
        assert signs.dtype == np.int8
        large = np.abs(change[key]) > 1e-14
        np.testing.assert_array_equal(signs[large], np.sign(change[key][large]))
        np.testing.assert_array_equal(signs, signs[::-1])
    assert (found["dU"] >= 0).all()
    assert {-1, 1} <= set(found["dA"].flat)
    assert (found["dA"][:, 0] >= 0).all()
    shrunk = bidder_sign_map(distance, omega, price="shrunk")
    assert all((signs >= 0).all() for signs in shrunk.values())
    np.testing.assert_array_equal(shrunk["dU"], shrunk["dW"])


def test_degenerate_markets():
    """No noise and no spread: the price is a point; nothing to learn; a cost above every gain; no cost."""
    point = bidder_statics(0, 0.5, 0.02, 0.1, 0.0, 0.0)
    assert point["dU"] == pytest.approx(voi(0.1, 0.5) - 0.02, rel=1e-14)
    assert point["dA"] == pytest.approx(voi(0.1, 0.5), rel=1e-14)
    assert point["refine_rate"] == 1
    assert bidder_statics(0, 0.5, 0.02, 5.0, 0.0, 0.0)["refine_rate"] == 0
    # a competitor of known value: the shrunk price is that value, the raw one is noise around it
    known = bidder_statics(0, 0.5, 0.02, 0.1, 0.0, 0.4, "shrunk")
    assert known == pytest.approx(point, rel=1e-14)
    near = bidder_statics(0, 0.5, 0.02, 0.1, 1e-9, 1e-9)
    assert near == pytest.approx(point, rel=1e-7)
    none = bidder_statics(0, [0.0, 0.5, 0.5], [0.1, 0.3, np.inf], 1.2, 0.3, 0.5)
    for value in none.values():
        np.testing.assert_array_equal(value, 0)
    # beyond squares of floats: a price far off, one that is a point by comparison, and other units
    assert set(bidder_statics(0, 1e155, 0.02, 1e200, 0.3, 0.5).values()) == {0.0}
    for scale in (1e10, 1e30, 1e200):
        wide = bidder_statics(0, scale, 0.02, scale, 0.3, 0.5)
        assert wide["dU"] == pytest.approx(scale * voi(1.0, 1.0) - 0.02, rel=1e-12)
        assert wide["refine_rate"] == pytest.approx(1, rel=1e-12)
    scaled = bidder_statics(*(1e200 * np.array(CASE)), 5e199)
    assert scaled["dU"] == pytest.approx(1e200 * bidder_statics(*CASE, 0.5)["dU"], rel=1e-12)
    free = bidder_statics(0, 0.5, 0.0, 1.2, 0.3, 0.5)
    assert free["refine_rate"] == 1
    assert free["dW"] == free["dA"]
    assert free["dU"] == pytest.approx(bidder_statics(0, 0.5, 1e-14, 1.2, 0.3, 0.5)["dU"], rel=1e-9)


def test_shapes_and_chunks():
    omega = np.linspace(0, 2, 700)  # more than two chunks
    sweep = bidder_statics(*CASE, omega)
    for i in (0, 255, 256, 699):
        alone = bidder_statics(*CASE, omega[i])
        for key, value in alone.items():
            # the number of panels may differ, the integral does not
            assert sweep[key][i] == pytest.approx(value, rel=1e-12, abs=1e-17)
    assert type(bidder_statics(*CASE, 0.5)["dU"]) is float
    assert bidder_statics(0, 0.5, 0.02, np.zeros((2, 1)), 0.3, np.zeros(3))["dA"].shape == (2, 3)
    assert bidder_statics(*CASE, np.zeros(0))["dU"].shape == (0,)
    assert bidder_decision([0, 1], 0.5, 0.02, [[0.1], [0.2], [0.3]]).gain.shape == (3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bidder_decision(0, 0.5, 0.02, np.inf), "price must be finite; got inf"),
        (lambda: bidder_decision(0, 0.5, 0.02, np.nan), "price must be finite; got nan"),
        (lambda: bidder_decision(np.nan, 0.5, 0.02, 0), "m must be finite"),
        (lambda: bidder_decision(0, -1, 0.02, 0), "nu must be >= 0 and finite"),
        (lambda: bidder_decision(0, 1, -0.02, 0), "cost must be >= 0; got min -0.02"),
        (lambda: bidder_decision([0, 1], 1, 0.1, [1, 2, 3]), r"m of shape \(2,\).*price of shape \(3,\)"),
        (lambda: bidder_statics(*CASE, -0.5), "omega must be >= 0 and finite; got -0.5"),
        (lambda: bidder_statics(*CASE[:4], np.inf, 0), "s_other must be >= 0 and finite"),
        (lambda: bidder_statics(*CASE, 0.5, price="fair"), "price must be one of 'raw', 'shrunk'"),
        (lambda: bidder_statics(0, 0.5, np.nan, 0, 0.3, 0), "cost must be >= 0; got min nan"),
        (lambda: bidder_statics(0, 0.5, 0.1, np.nan, 0.3, 0), "mu must be finite"),
        (lambda: bidder_statics(0, 0.5, 0.1, [1, 2], 0.3, [1, 2, 3]), r"omega of shape \(3,\)"),
        (lambda: bidder_sign_map(1.0, [0.0]), r"distance must have 1 axes, got shape \(\)"),
        (lambda: wedge_threshold(-1, 0.5), "s_other must be >= 0"),
        (lambda: small_signal_change(0, 0.1, 0, 0, 0), "s_other and omega must not both be 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
