"""Arrival times against known numbers, an event-driven walk, integrators, and 30-digit quadrature."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.spectral_flow import (
    gradient_flow_arrival_time,
    gradient_flow_singular_value,
    ideal_arrival_time,
    spectral_flow_arrival_time,
)

FACTORS = st.floats(-3, 3).map(lambda x: round(x, 3))
TARGETS = st.floats(0.01, 9).map(lambda x: round(x, 3))


def walk(sigma, a, b, level):
    """Time to the level at unit speed, from one event to the next: a factor at zero, or the level."""
    if a * b > sigma and level < sigma:
        return 0.0
    above, time = a * b > sigma, 0.0
    for _ in range(3):
        s = a * b
        if (s <= level) if above else (s >= level):
            return time
        va, vb = np.sign((sigma - s) * b), np.sign((sigma - s) * a)
        if va == vb == 0:
            return np.inf
        if va == 0 or vb == 0:  # the other one leaves zero at once, and then both move
            va, vb = va or vb, vb or va
        # (a + va t)(b + vb t) = level, or a factor at zero
        roots = np.roots([va * vb, va * b + vb * a, s - level])
        hits = [t.real for t in roots if abs(t.imag) < 1e-12 and t.real > 0]
        zeros = [-x * v for x, v in ((a, va), (b, vb)) if x * v < 0]
        ahead = min(zeros, default=np.inf)
        best = min(hits, default=np.inf)
        if best <= ahead:
            return time + best
        time, a, b = time + ahead, a + va * ahead, b + vb * ahead
        a, b = (0.0 if abs(x) < 1e-12 else x for x in (a, b))
    return np.inf


def test_known_ideal_times():
    found = ideal_arrival_time([4, 2.25, 4, 0.5], [0.1, 0.5, 0, 1], [0.1, 0.05, 0.1, 0.01])
    np.testing.assert_allclose(found, [1.9, 1.24178113121, 1.95062490237, 0.358148307071], atol=5e-12)
    # one sign each, both from above and with opposite signs, from the integrator of the specification
    found = ideal_arrival_time([1, 1, 2, 2], [1, 3, -0.5, -1], [-0.1, 2, -0.2, 0.25])
    np.testing.assert_allclose(found, [0.74659, 1.38197, 1.07215, 1.33809], atol=6e-6)


def test_ideal_corners():
    inf = np.inf
    # saddle, origin, opposite signs at sigma = 0, already there, a lower level from above, tiny and huge
    assert ideal_arrival_time(1, [0.3, 0], [-0.3, 0]).tolist() == [inf, inf]
    assert ideal_arrival_time(0, [0.3, 0, 2, 0.5], [-0.3, 0, -1, 0.2]).tolist() == [0.3, 0, 1, 0.2]
    assert ideal_arrival_time(2, [1, 3], 1, level=[0.5, 1]).tolist() == [0, 0]
    assert ideal_arrival_time(2, 1, 2) == 0
    assert ideal_arrival_time(1, 0.3, -0.3, level=0) == pytest.approx(0.3)
    assert ideal_arrival_time(1e-320, 1e-200, 1e-200) == pytest.approx(1e-160, rel=1e-3)
    assert ideal_arrival_time(1e300, 1e-200, 0) == pytest.approx(1e150)
    assert ideal_arrival_time(1e300, 1e200, 1e200) == pytest.approx(1e200)
    assert ideal_arrival_time(0, 1e-200, 1e-200) == 1e-200
    assert isinstance(ideal_arrival_time(1, 0.1, 0.1), np.float64)


@given(TARGETS, FACTORS, FACTORS, st.floats(0.05, 1))
def test_ideal_against_the_walk(sigma, a, b, share):
    level = sigma if share > 0.6 else share * sigma
    # roots of a quadratic near a double root cost half the digits of the oracle
    assert ideal_arrival_time(sigma, a, b, level) == pytest.approx(walk(sigma, a, b, level), abs=1e-6)
    swapped = ideal_arrival_time(sigma, -b, -a, level)
    assert ideal_arrival_time(sigma, a, b, level) == pytest.approx(swapped, rel=1e-12)


@given(TARGETS, st.floats(1e-8, 1), st.floats(1e-8, 1))
def test_ideal_reaches_the_level(sigma, a, b):
    t = ideal_arrival_time(sigma, a, b)
    if a * b < sigma:
        assert (a + t) * (b + t) == pytest.approx(sigma, rel=1e-12)
    assert (
        ideal_arrival_time(sigma, a, a) == pytest.approx(max(0, sigma**0.5 - a), abs=1e-13) or a * a > sigma
    )


@pytest.mark.parametrize(("sigma", "a", "b"), [(1.0, 1.0, -0.1), (2.0, -0.5, -0.2), (2.0, -1.0, 0.25)])
def test_ideal_is_the_limit_of_the_smoothed_flow(plain, sigma, a, b):
    level, beta = 0.9 * sigma, 1e-5
    # the gradient falls below 0.01 only near the axes, for a time of order beta log(1/beta): 1e-4
    assert plain.mode_time(sigma, a, b, level, beta) == pytest.approx(
        ideal_arrival_time(sigma, a, b, level), abs=5e-4
    )


def test_known_gradient_flow():
    found = gradient_flow_arrival_time([9, 4, 1], 1e-6)
    np.testing.assert_allclose(found, [1.14488082635, 2.47461556490, 9.20531470405], atol=5e-12)
    assert gradient_flow_arrival_time(2, 1e-3, 0.5) == pytest.approx(1.90010058363, abs=5e-12)
    assert gradient_flow_singular_value(1, 2, 1e-3) == pytest.approx(0.0531731585678, abs=5e-14)


@given(TARGETS, st.floats(1e-9, 0.99), st.floats(0.01, 0.999), st.floats(0, 10))
def test_gradient_flow_curve_and_time_agree(gap, share, fraction, ridge):
    s0 = share * fraction * gap
    t = gradient_flow_arrival_time(gap + ridge, s0, fraction, ridge)
    found = gradient_flow_singular_value(t, gap + ridge, s0, ridge)
    # gap + ridge - ridge loses 10 eps / gap, and the exponential turns that into 2 t of it
    assert found == pytest.approx(fraction * gap, rel=1e-9)


@pytest.mark.parametrize(
    ("sigma", "ridge", "s0"), [(2, 0, 0.01), (2, 0, 5.0), (1, 1, 0.5), (1, 3, 0.5), (0, 0, 1)]
)
def test_gradient_flow_against_the_integrator(plain, sigma, ridge, s0):
    root = np.array([[s0**0.5]])
    times = np.linspace(0, 3, 5)
    factors = plain.flow(np.array([[sigma]]), root, root, 0, times, ridge, kind="gradient")
    found = gradient_flow_singular_value(times, sigma, s0, ridge)
    np.testing.assert_allclose(found, [(B @ A).item() for B, A in factors], rtol=1e-7)


def test_gradient_flow_far_away():
    assert gradient_flow_singular_value(1e6, [1, 1, 1], [1e-3, 1e-3, 0], [0, 5, 0]).tolist() == [1, 0, 0]
    found = gradient_flow_singular_value(1e300, 1e300, 1e-300, [0, 2e300])
    assert found.tolist() == pytest.approx([1e300, 0], rel=1e-15)  # s0 over sigma is below the least float
    assert gradient_flow_arrival_time([1, 2], 1e-3, ridge=[1, 3]).tolist() == [np.inf, np.inf]
    # log(f g / s0) with the s0 that floats just hold
    assert gradient_flow_arrival_time(1, 1e-320) == pytest.approx((np.log(99) - np.log(1e-320)) / 2, rel=1e-9)


def test_start_and_target_both_next_to_sigma():
    # log(f (1 / s0 - 1) / (1 - f)) with powers of two beside one
    s0, f = 1 - 2.0**-17, 1 - 2.0**-40
    length = 23 * np.log(2) + np.log1p(-(2.0**-40)) - np.log1p(-(2.0**-17))
    assert gradient_flow_arrival_time(1, s0, f) == pytest.approx(length / 2, rel=1e-14)
    # the smoothed time is the delay alone where smoothing is large
    assert spectral_flow_arrival_time(1, s0, f, 1e6) == pytest.approx(1e6 * length / 2, rel=1e-10)


def test_known_smoothed_times():
    found = spectral_flow_arrival_time([1, 4, 0.25, 9], [1e-6] * 3 + [1e-4], 0.99, [0.01] * 3 + [0.001])
    known = [1.01741007271, 1.99148343867, 0.673776680641, 2.97496303812]
    np.testing.assert_allclose(found, known, atol=5e-12)
    assert spectral_flow_arrival_time(4, 1e-6, 0.99, 0.01, 1) == pytest.approx(1.7264552406, abs=5e-11)
    found = spectral_flow_arrival_time([4, 1, 0.25], 1e-6, smoothing=0.1)
    np.testing.assert_allclose(found, [2.07033, 1.53825, 3.48018], atol=5e-6)


@pytest.mark.parametrize(
    ("sigma", "beta", "s0", "ridge"), [(4, 0.01, 1e-6, 1), (1, 0.3, 1e-3, 0), (2, 5, 0.1, 0.5)]
)
def test_smoothed_against_the_integrator(plain, sigma, beta, s0, ridge):
    found = spectral_flow_arrival_time(sigma, s0, 0.99, beta, ridge)
    event = plain.mode_time(sigma, s0**0.5, s0**0.5, 0.99 * (sigma - ridge), beta, ridge)
    assert event == pytest.approx(found, rel=1e-8)  # the integrator's tolerance is 1e-11 a step


@settings(deadline=None, max_examples=60)
@given(TARGETS, st.floats(-12, -0.01), st.sampled_from([0.1, 0.5, 0.99, 0.999999]), st.floats(-6, 2))
def test_smoothed_against_plain_quadrature(plain, sigma, share, fraction, beta):
    s0 = fraction * sigma * 10**share
    found = spectral_flow_arrival_time(sigma, s0, fraction, 10**beta)
    # the oracle subtracts square roots where start and target are close: 0.02 of them are left at most
    assert found == pytest.approx(plain.smoothed_time(sigma, s0, fraction, 10**beta), rel=1e-10)


@pytest.mark.full
def test_smoothed_to_fifteen_digits(needs):
    mp = needs("mpmath")
    rng = np.random.default_rng(0)
    with mp.workdps(30):
        for _ in range(12):
            sigma, beta = (mp.mpf(10 ** rng.uniform(*ends)) for ends in ((-3, 3), (-8, 3)))
            fraction = mp.mpf(float(rng.choice([0.5, 0.99, 1 - 1e-9])))
            s0 = mp.mpf(float(sigma * fraction * 10 ** -rng.uniform(1e-3, 20)))
            start, end, root = mp.sqrt(s0), mp.sqrt(fraction * sigma), mp.sqrt(sigma)
            middle = min(max(mp.sqrt(sigma / 3), start), end)

            def pace(a, beta=beta, sigma=sigma):
                return mp.sqrt(1 + (beta / ((sigma - a * a) * a)) ** 2)

            def pieces(low, high):
                return mp.linspace(low, high, int(mp.ceil((high - low) / 2)) + 2)

            first = mp.quad(lambda u: pace(mp.exp(u)) * mp.exp(u), pieces(mp.log(start), mp.log(middle)))
            last = mp.quad(
                lambda u, root=root: pace(root - mp.exp(u)) * mp.exp(u),
                pieces(mp.log(root - end), mp.log(root - middle)),
            )
            found = spectral_flow_arrival_time(*(float(x) for x in (sigma, s0, fraction, beta)))
            assert found == pytest.approx(float(first + last), rel=2e-15)


def test_shapes():
    found = spectral_flow_arrival_time(np.ones((3, 1)), 1e-3, smoothing=np.array([0, 0.1]), ridge=[0.0])
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found, found[:1].repeat(3, 0), rtol=1e-15)
    assert spectral_flow_arrival_time([], 1e-3).shape == (0,)
    # more modes than one block holds give what one mode gives
    many = spectral_flow_arrival_time(np.linspace(1, 2, 9001), 1e-9, smoothing=0.1)
    alone = [spectral_flow_arrival_time(x, 1e-9, smoothing=0.1) for x in (1.0, 1.5, 2.0)]
    np.testing.assert_allclose(many[[0, 4500, 9000]], alone, rtol=1e-14)


def test_modes_that_a_ridge_switches_off():
    found = spectral_flow_arrival_time([1, 2, 4], [5, 1e300, 1e-3], smoothing=0.1, ridge=2)
    assert found[:2].tolist() == [np.inf, np.inf]
    assert found[2] == pytest.approx(spectral_flow_arrival_time(2, 1e-3, smoothing=0.1), rel=1e-14)


@pytest.mark.parametrize("f", [gradient_flow_arrival_time, spectral_flow_arrival_time])
@pytest.mark.parametrize("s0", [0, -1, 0.99, 2])
def test_bad_starts(f, s0):
    with pytest.raises(
        ValueError, match=r"s0 must lie strictly between 0 and fraction\*\(sigma-ridge\), got"
    ):
        f([4, 1], s0)


def test_bad_input():
    with pytest.raises(ValueError, match="s0 must lie strictly"):
        spectral_flow_arrival_time(1, 0, ridge=2)
    with pytest.raises(ValueError, match="fraction must lie strictly between 0 and 1, got 1"):
        spectral_flow_arrival_time(1, 0.1, 1)
    with pytest.raises(ValueError, match="smoothing must be a finite number >= 0"):
        spectral_flow_arrival_time(1, 0.1, smoothing=-1)
    for nan in (np.nan, np.float32(np.nan), np.array([0.1, np.nan])):
        with pytest.raises(ValueError, match="smoothing must be a finite number >= 0, got nan; pass"):
            spectral_flow_arrival_time(1, 0.1, smoothing=nan)
    with pytest.raises(TypeError, match="smoothing must hold real numbers"):
        spectral_flow_arrival_time(1, 0.1, smoothing="much")
    with pytest.raises(ValueError, match=r"shapes must broadcast, got sigma \(2,\), s0 \(3,\)"):
        spectral_flow_arrival_time([1, 2], [0.1] * 3)
    with pytest.raises(ValueError, match=r"level must lie in \[0, sigma\], got 2"):
        ideal_arrival_time(1, 0, 1, level=2)
    with pytest.raises(ValueError, match="sigma must be a finite number >= 0"):
        ideal_arrival_time(-1, 0, 1)
    for t in (-1, [-1], np.array(-1), np.array([1, -1], dtype=np.int8), np.float32(-1)):
        with pytest.raises(ValueError, match=r"t must be a finite number >= 0, got -1\.0; pass"):
            gradient_flow_singular_value(t, 1, 1)
    with pytest.raises(TypeError, match="a0 must hold real numbers"):
        ideal_arrival_time(1, 1j, 1)
    with pytest.raises(ValueError, match="sigma must be a rectangular array"):
        spectral_flow_arrival_time([[1, 2], [1]], 0.1)
    with pytest.raises(ValueError, match="sigma must be a finite number >= 0, got -2"):
        spectral_flow_arrival_time([1, -2], 0.1)
