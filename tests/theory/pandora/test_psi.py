"""ψ, its logarithm and its inverse against mpmath, the oracle values and the properties of PB-2 and PB-3."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pandora import log_psi, psi, psi_inv, psi_inv_log

calm = settings(deadline=None)  # the machine may be busy

PSI = {
    -40: 40.0,
    -5: 5.0000000534616553,
    -1: 1.0833154705876863,
    0: 0.39894228040143268,
    0.5: 0.19779655740130603,
    1: 0.083315470587686298,
    3: 3.821543170477236e-4,
    8: 7.5502624119464989e-17,
    12: 1.4605201169845548e-34,
    20: 1.3700124947295799e-90,
    37: 1.5451991905122025e-301,
}
INVERSE = {
    1e-300: 36.949568054037773,
    1e-100: 21.129673280216516,
    1e-12: 6.7571594604253289,
    1e-3: 2.7178055152317572,
    0.1: 0.90234634751003452,
    0.25: 0.34486746399902441,
    0.39: 0.018014015975721885,
    0.4: -0.0021136569050038008,
    1: -0.89947156125374355,
    10: -10.0,
    1000: -1000.0,
}
POINTS = np.concatenate([np.linspace(-40, 40, 161), [1e-9, -1e-9, 11.999, 12.001, 37.4]])
reals = st.floats(-40, 40)


def exact(mp, z):
    """E(Z - z)^+ in 60 digits; the difference loses at most (z^2 + 2) of them, far less than 60."""
    mp.mp.dps = 60
    z = mp.mpf(z)
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) - z * mp.erfc(z / mp.sqrt(2)) / 2


@pytest.mark.parametrize("z", PSI)
def test_oracle(z):
    assert psi(z) == pytest.approx(PSI[z], rel=1e-12)
    assert psi(np.array([z, z]))[1] == psi(z)


@pytest.mark.parametrize("kappa", INVERSE)
def test_oracle_of_the_inverse(kappa):
    # near the root of psi(0) only the absolute error is bounded: 1e-14 by the specification
    assert psi_inv(kappa) == pytest.approx(INVERSE[kappa], rel=1e-12, abs=1e-14)
    assert psi_inv_log(math.log(kappa)) == pytest.approx(INVERSE[kappa], rel=1e-12, abs=1e-14)


def test_oracle_of_the_logarithm():
    assert log_psi(40) == pytest.approx(-808.29856835661996, rel=1e-12)
    assert log_psi(20) == pytest.approx(-206.9178385094251, rel=1e-12)


@pytest.mark.full
def test_against_mpmath(needs):
    mp = needs("mpmath")
    for z, value, logarithm in zip(POINTS, psi(POINTS), log_psi(POINTS), strict=True):
        truth = exact(mp, float(z))
        # 1e-13 relative: z^2/2 <= 800 has a rounding error of 1.1e-13/2, 1 - aR loses a^2 eps <= 3e-14
        if z < 37.5:
            assert abs(value / truth - 1) < 1.5e-13
        # log psi(0-) passes 0 at z = -0.9, so the error is absolute
        assert abs(logarithm - mp.log(truth)) < 3e-13
        if z < 37:  # the inverse of a subnormal knows only its few digits
            assert psi_inv(float(truth)) == pytest.approx(float(z), abs=2e-14, rel=1e-14)
        assert psi_inv_log(float(mp.log(truth))) == pytest.approx(float(z), abs=2e-14 * max(1, abs(z)))


def test_by_quadrature():
    """An oracle without mpmath: the mean excess itself, on 400 nodes over 12 standard deviations."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    for z in (-3.0, -0.4, 0.0, 0.7, 2.5):
        x = z + 6 * (nodes + 1)
        value = (6 * weights * (x - z) * np.exp(-x * x / 2)).sum() / math.sqrt(2 * math.pi)
        assert psi(z) == pytest.approx(value, rel=1e-12)


def test_ends_of_the_line():
    np.testing.assert_array_equal(psi([np.inf, -np.inf, 1e200, -1e200]), [0, np.inf, 0, 1e200])
    np.testing.assert_array_equal(log_psi([np.inf, -np.inf]), [-np.inf, np.inf])
    assert np.isnan(psi(np.nan))
    assert np.isnan(log_psi([np.nan]))[0]
    # far out log psi = -z^2/2 - 2 log z - log sqrt(2 pi) to all digits
    assert log_psi(1e100) == pytest.approx(-0.5e200, rel=1e-15)
    np.testing.assert_array_equal(psi_inv([0, np.inf]), [np.inf, -np.inf])
    np.testing.assert_array_equal(psi_inv_log([-np.inf, np.inf, 800.0]), [np.inf, -np.inf, -np.inf])
    assert psi_inv_log(-1e300) == pytest.approx(math.sqrt(2e300), rel=1e-14)
    assert psi_inv(5e-324) == pytest.approx(38.3725, abs=1e-3)
    assert psi_inv(1e300) == -1e300
    assert psi_inv(psi(0)) == pytest.approx(0, abs=1e-15)


@calm
@given(reals, reals)
def test_decreasing_convex_log_concave(a, b):
    low, high = min(a, b), max(a, b)
    middle = (low + high) / 2
    if high - low > 1e-6:
        assert psi(low) > psi(high) or high > 37.5
        assert log_psi(low) > log_psi(high)
    # rounding of the three values: a few eps of the largest
    assert psi(middle) <= (psi(low) + psi(high)) / 2 + 1e-14 * psi(low)
    assert log_psi(middle) >= (log_psi(low) + log_psi(high)) / 2 - 1e-13 * max(1, abs(log_psi(high)))


@calm
@given(reals)
def test_reflection_and_bounds(z):
    # psi(-z) = z + psi(z), exact up to one rounding of the sum
    assert psi(-z) == pytest.approx(z + psi(z), rel=1e-15, abs=1e-15 * max(1.0, abs(z)))
    if 0 <= z <= 37:
        ceiling = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / (1 + z * z)
        # equality at z = 0; relative rounding z^2 eps/2 of each exponential
        assert 0 < psi(z) <= ceiling * (1 + 3e-13)


@calm
@given(st.floats(-5, 5))
def test_slope_is_minus_the_tail(z):
    # central difference: truncation h^2/6 max|phi'| < 4e-12, rounding eps psi/h < 2e-10
    h = 1e-5
    slope = (psi(z + h) - psi(z - h)) / (2 * h)
    assert slope == pytest.approx(-0.5 * math.erfc(z / math.sqrt(2)), abs=1e-9)


@calm
@given(st.floats(-700, 6))
def test_inverse(log_kappa):
    z = psi_inv_log(log_kappa)
    # log psi has slope -1/R of size up to 38, and z itself an error up to 1e-14 max(1, |z|)
    assert log_psi(z) == pytest.approx(log_kappa, abs=1e-12 * max(1, abs(log_kappa)))
    # kappa below the normal range has few digits
    kappa = math.exp(log_kappa)
    assert psi_inv(kappa) == pytest.approx(z, rel=1e-13, abs=1e-13)


def test_shapes_and_types():
    assert type(psi(0)) is type(psi_inv(1)) is type(log_psi(np.float32(1))) is float
    assert psi(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    grid = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    assert psi(grid).dtype == np.float64
    np.testing.assert_array_equal(psi(grid), [[psi(float(x)) for x in row] for row in grid])
    assert psi_inv(psi([[0.5], [1.5]])).shape == (2, 1)
    assert isinstance(psi(np.array(1.0)), np.ndarray)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: psi_inv([0.1, -0.5]), "kappa must be >= 0, got -0.5"),
        (lambda: psi_inv(np.nan), "kappa must be >= 0, got nan"),
        (lambda: psi_inv_log([0.0, np.nan]), "log_kappa must not be NaN"),
        (lambda: psi(np.array([1.0, None])), "z must hold real numbers, got dtype object"),
        (lambda: psi("1"), "z must hold real numbers"),
        (lambda: psi([1j]), "z must hold real numbers, got dtype complex128"),
        (lambda: psi([[1, 2], [3]]), "z must be a rectangular array"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_settling_is_an_error(monkeypatch):
    monkeypatch.setattr("porism.theory.pandora._gain.MAX_ITERATIONS", 1)
    with pytest.raises(RuntimeError, match="did not settle in 1 steps"):
        psi_inv(0.2)


@pytest.mark.full
@pytest.mark.parametrize("function", [psi, log_psi, psi_inv, psi_inv_log])
def test_torch(needs, function):
    torch = needs("torch")
    points = [1e-8, 0.3, 0.39894, 0.7, 5.0] if function is psi_inv else [-12.0, -1.0, 0.0, 0.5, 3.0, 5.0]
    expected = function(np.array(points))
    single = torch.tensor(points)
    found = function(single)
    assert found.dtype == torch.float32
    # computed in float64 from the float32 input, then rounded once
    np.testing.assert_array_equal(found.numpy(), function(single.double().numpy()).astype(np.float32))
    double = torch.tensor(points, dtype=torch.float64, requires_grad=True)
    np.testing.assert_allclose(function(double).detach().numpy(), expected, rtol=1e-12, atol=1e-14)
    if function is not psi_inv:
        assert torch.autograd.gradcheck(function, double)
    assert torch.autograd.gradcheck(function, double[1:].detach().requires_grad_())
    assert function(torch.tensor([], dtype=torch.float64)).shape == (0,)
    with pytest.raises(ValueError, match="z must hold real numbers, got dtype"):
        psi(torch.tensor([1j]))


@pytest.mark.full
def test_slopes_far_in_the_tail(needs):
    """Where 1 - Phi is 0 in float64: -Phibar, and -1/Phibar for the inverse."""
    torch = needs("torch")
    tails = {9.0: 1.1285884059538407e-19, 20.0: 2.753624118606233e-89}
    z = torch.tensor(list(tails), dtype=torch.float64, requires_grad=True)
    psi(z).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), [-p for p in tails.values()], rtol=1e-12)
    kappa = torch.tensor(psi(np.array(list(tails))), requires_grad=True)
    psi_inv(kappa).sum().backward()
    np.testing.assert_allclose(kappa.grad.numpy(), [-1 / p for p in tails.values()], rtol=1e-11)
