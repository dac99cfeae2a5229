"""Brackets hold wherever one looks, contract as they should, and the delay formula is a good one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.theory.spectral_flow import (
    Bounds,
    _times,
    gradient_flow_arrival_time,
    smoothing_delay,
    spectral_flow_arrival_bounds,
    spectral_flow_arrival_time,
)

WORLD = (
    st.floats(-3, 3),  # log10 of sigma - ridge
    st.floats(-18, -1e-4),  # log10 of s0 over its limit
    st.floats(1e-3, 1 - 1e-9),  # fraction
    st.floats(-9, 5),  # log10 of smoothing
    st.floats(0, 5),  # ridge over sigma - ridge
)


def world(gap, share, fraction, beta, ridge):
    gap = 10**gap
    s0 = fraction * gap * 10**share
    return gap * (1 + ridge), s0, fraction, 10**beta, gap * ridge


def test_known_brackets():
    bounds = spectral_flow_arrival_bounds([1, 4, 0.25], 1e-6, 0.99, 0.01)
    np.testing.assert_allclose(bounds.lower, [0.9982408562, 1.98912881, 0.6020275452], atol=5e-9)
    np.testing.assert_allclose(bounds.upper, [1.086040584, 2.01372103, 0.8369803595], atol=5e-9)
    np.testing.assert_allclose(bounds.ideal, np.sqrt([0.99, 3.96, 0.2475]) - 1e-3, rtol=1e-14)
    np.testing.assert_allclose(bounds.gradient_flow, gradient_flow_arrival_time([1, 4, 0.25], 1e-6))


@settings(deadline=None)
@given(*WORLD)
def test_brackets_hold(gap, share, fraction, beta, ridge):
    m = _times.modes(*world(gap, share, fraction, beta, ridge))
    low, high = _times.bracket(m)
    parts = (np.atleast_1d(x) for x in (m.gap, m.fraction, m.smoothing, _times.logit_length(m)))
    (time,) = _times.quadrature(*parts)  # the public function would clip
    assert low * (1 - 1e-14) <= time <= high * (1 + 1e-14)
    bounds = spectral_flow_arrival_bounds(*world(gap, share, fraction, beta, ridge))
    assert bounds.contains(spectral_flow_arrival_time(*world(gap, share, fraction, beta, ridge)))
    assert bounds.ideal <= bounds.lower
    # the ends are a factor sqrt(2) apart at most
    assert bounds.upper <= bounds.lower * 2**0.5 * (1 + 1e-14)


@settings(deadline=None, max_examples=50)
@given(*WORLD, st.floats(1.01, 5))
def test_monotone(gap, share, fraction, beta, ridge, factor):
    sigma, s0, fraction, beta, ridge = world(gap, share, fraction, beta, ridge)
    time = spectral_flow_arrival_time(sigma, s0, fraction, beta, ridge)
    slack = 1 + 1e-13
    assert spectral_flow_arrival_time(sigma, s0, fraction, beta * factor, ridge) * slack >= time
    assert spectral_flow_arrival_time(sigma, s0 / factor, fraction, beta, ridge) > time
    assert spectral_flow_arrival_time(sigma, s0, 1 - (1 - fraction) / factor, beta, ridge) > time
    # units: factors times q, targets times q^2, smoothing times q^3, time times q
    scaled = spectral_flow_arrival_time(4 * sigma, 4 * s0, fraction, 8 * beta, 4 * ridge)
    assert scaled == pytest.approx(2 * time, rel=1e-12)


@settings(deadline=None, max_examples=50)
@given(*WORLD)
def test_limits_in_smoothing(gap, share, fraction, beta, ridge):
    sigma, s0, fraction, _, ridge = world(gap, share, fraction, beta, ridge)
    bounds = spectral_flow_arrival_bounds(sigma, s0, fraction, 0.0, ridge)
    exact = spectral_flow_arrival_time(sigma, s0, fraction, 0.0, ridge)
    assert bounds.lower == bounds.upper == bounds.ideal == exact
    huge = 1e9 * max(sigma, 1) ** 1.5
    many = spectral_flow_arrival_time(sigma, s0, fraction, huge, ridge)
    assert many / huge == pytest.approx(float(bounds.gradient_flow), rel=1e-6)


@pytest.mark.parametrize(("sigma", "beta"), [(4.0, 1e-2), (1.0, 0.1)])
def test_lag_behind_unit_growth(plain, sigma, beta):
    """SF-4 along a whole trajectory of the integrator."""
    s0, times = 1e-4, np.linspace(0, 3, 61)
    root = np.array([[s0**0.5]])
    s = np.array([(B @ A).item() for B, A in plain.flow(np.array([[sigma]]), root, root, beta, times)])
    keep = (s > s0) & (s < 0.9999 * sigma)
    lag = s0**0.5 + times - np.sqrt(s)
    bound = beta * gradient_flow_arrival_time(1.0, s0 / sigma, s[keep] / sigma) / sigma
    assert keep.sum() > 15
    assert (lag[keep] >= -1e-9).all()
    assert (lag[keep] <= bound + 1e-9).all()
    if beta / sigma > s0**0.5:  # otherwise the gradient exceeds the smoothing from the start
        assert (lag[keep] / bound).max() > 0.5


def test_delay():
    sigma, s0, beta = (
        np.array([1, 4, 0.25, 9]),
        np.array([1e-6, 1e-6, 1e-6, 1e-4]),
        np.array([0.01] * 3 + [1e-3]),
    )
    excess = spectral_flow_arrival_time(sigma, s0, 0.99, beta) - spectral_flow_arrival_time(sigma, s0)
    np.testing.assert_allclose(smoothing_delay(sigma, s0, 0.99, beta), excess, rtol=0.025)
    # it becomes exact as smoothing and start go to zero; terms left out are of relative order s0/sigma and f
    excess = spectral_flow_arrival_time(1, 1e-12, 1 - 1e-8, 1e-4) - spectral_flow_arrival_time(
        1, 1e-12, 1 - 1e-8
    )
    assert smoothing_delay(1, 1e-12, 1 - 1e-8, 1e-4) == pytest.approx(excess, rel=1e-2)
    assert smoothing_delay(1, 1e-6) == 0
    assert smoothing_delay(1, 1e-6, ridge=1) == np.inf
    shifted = smoothing_delay(3, 1e-6, smoothing=0.1, ridge=2)
    assert shifted == pytest.approx(smoothing_delay(1, 1e-6, smoothing=0.1))


def test_bounds_are_a_result(tmp_path):
    bounds = spectral_flow_arrival_bounds([[1.0, 2.0]], 1e-3, smoothing=[[0.1], [0.0]], ridge=1.0)
    assert bounds.lower.shape == (2, 2)
    assert np.isinf(bounds.upper[:, 0]).all()
    assert np.isfinite(bounds.upper[:, 1]).all()
    bounds.save(tmp_path / "bounds.npz")
    for again in (Bounds.load(tmp_path / "bounds.npz"), Result.load(tmp_path / "bounds.npz")):
        np.testing.assert_array_equal(again.upper, bounds.upper)
        np.testing.assert_array_equal(again.smoothing, [[0.1, 0.1], [0, 0]])
    assert "Bounds" in bounds._repr_html_()


@pytest.mark.full
def test_frame_and_plot(needs):
    needs("pandas")
    import matplotlib

    matplotlib.use("agg")
    bounds = spectral_flow_arrival_bounds([1.0, 2.0, 4.0], 1e-3, smoothing=0.1, ridge=1.0)
    frame = bounds.to_frame()
    assert frame.columns[:4].tolist() == ["lower", "upper", "ideal", "gradient_flow"]
    assert len(frame) == 3
    ax = bounds.plot()
    assert ax.lines[0].get_xdata().tolist() == [2, 4]  # the first one never arrives
    assert bounds.plot(ax) is ax
    matplotlib.pyplot.close(ax.figure)
