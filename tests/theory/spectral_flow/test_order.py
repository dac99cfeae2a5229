"""The certificate never contradicts the order; the order turns where it is said to turn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.spectral_flow import (
    OrderCertificate,
    certify_arrival_order,
    critical_smoothing,
    gradient_flow_arrival_time,
    spectral_flow_arrival_bounds,
    spectral_flow_arrival_time,
)


def test_small_smoothing_is_certified():
    certificate = certify_arrival_order([4, 0.25, 1], 1e-6, 0.003)
    assert certificate.pairs.tolist() == [[0, 1], [0, 2], [2, 1]]
    assert certificate.certified.all()
    assert certificate.smaller_first
    assert certificate.exact_order.tolist() == [1, 2, 0]
    assert certificate.reversed_pairs.shape == certificate.ties.shape == (0, 2)


def test_equal_targets_have_no_smaller_one():
    certificate = certify_arrival_order([4, 4, 1], 1e-6, 0.003)
    assert certificate.pairs.tolist() == [[0, 2], [1, 2]]
    assert certificate.ties.tolist() == [[0, 1]]
    assert certificate.smaller_first
    turn = critical_smoothing(4.0, 1.0, 1e-6)  # there unequal targets tie
    assert not certify_arrival_order([4, 1], 1e-6, turn).smaller_first


def test_large_smoothing_turns_the_order():
    certificate = certify_arrival_order([4, 1, 0.25], 1e-6, 0.1)
    np.testing.assert_allclose(certificate.times, [2.07033, 1.53825, 3.48018], atol=5e-6)
    assert certificate.exact_order.tolist() == [1, 0, 2]  # the smallest is last
    assert certificate.reversed_pairs.tolist() == [[0, 2], [1, 2]]
    assert certificate.certified.tolist() == [True, False, False]
    assert certificate.certified_reversed.tolist() == [False, True, True]
    assert not certificate.smaller_first


@settings(deadline=None)
@given(
    st.lists(st.floats(0.05, 9).map(lambda x: round(x, 2)), min_size=1, max_size=6),
    st.floats(-9, -0.1),
    st.floats(-5, 1),
    st.sampled_from([0.5, 0.9, 0.99, 0.99999]),
    st.sampled_from([0.0, 0.3, 2.0]),
)
def test_never_wrong(plain, sigma, share, beta, fraction, ridge):
    sigma, beta = np.array(sigma), 10**beta
    gaps = (sigma - ridge)[sigma > ridge]
    s0 = fraction * gaps.min(initial=1) * 10**share
    found = certify_arrival_order(sigma, s0, beta, fraction, ridge)
    alive = np.flatnonzero(sigma > ridge)
    oracle = np.full(len(sigma), np.inf)
    oracle[alive] = [plain.smoothed_time(sigma[k] - ridge, s0, fraction, beta) for k in alive]
    assert {*map(tuple, found.pairs.tolist())} == {
        (i, j) for i in alive.tolist() for j in alive.tolist() if sigma[i] > sigma[j]
    }
    close = 1e-9  # relative error of the oracle
    turned = {*map(tuple, found.reversed_pairs.tolist())}
    bounds = spectral_flow_arrival_bounds(sigma, s0, fraction, beta, ridge)
    i, j = found.pairs.T
    np.testing.assert_array_equal(found.certified, bounds.upper[j] < bounds.lower[i] * (1 - 1e-12))
    np.testing.assert_array_equal(found.certified_reversed, bounds.upper[i] < bounds.lower[j] * (1 - 1e-12))
    proved = zip(found.pairs.tolist(), found.certified, found.certified_reversed, strict=True)
    for (i, j), certified, certified_reversed in proved:
        if certified:
            assert oracle[j] < oracle[i] * (1 + close)
            assert found.times[j] < found.times[i]
        if certified_reversed:
            assert oracle[i] < oracle[j] * (1 + close)
            assert (i, j) in turned
        assert not (certified and certified_reversed)
        if (i, j) in turned:
            assert oracle[i] < oracle[j] * (1 + close)
            assert not certified
        elif oracle[i] < oracle[j] * (1 - close):
            pytest.fail("a reversed pair is not reported")
    assert sorted(found.exact_order.tolist()) == alive.tolist()
    assert (np.diff(found.times[found.exact_order]) >= -1e-12 * found.times[found.exact_order][1:]).all()
    ties = {*map(tuple, found.ties.tolist())}
    for i in alive:
        for j in alive[alive > i]:
            if sigma[i] == sigma[j]:
                assert (i, j) in ties


def test_ties_and_missing_modes():
    found = certify_arrival_order([2, 1, 2, 0.5, 2], 1e-4, 0.01, ridge=0.5)
    assert found.exact_order.tolist() == [1, 0, 2, 4]
    assert found.ties.tolist() == [[0, 2], [0, 4], [2, 4]]
    assert found.pairs.tolist() == [[0, 1], [2, 1], [4, 1]]
    assert np.isinf(found.times[3])
    empty = certify_arrival_order([], 1e-4, 0.01)
    assert empty.pairs.shape == (0, 2)
    assert empty.exact_order.shape == (0,)
    # starts of their own: the larger mode may have less way to go
    found = certify_arrival_order([2, 1], [1.9, 1e-4], 0.0)
    assert found.reversed_pairs.tolist() == [[0, 1]]
    assert found.certified_reversed.tolist() == [True]


def test_known_critical_smoothing():
    found = [critical_smoothing(*pair, 1e-6) for pair in ((4, 1), (1, 0.25), (4, 0.25))]
    np.testing.assert_allclose(found, [0.186041, 0.0252723, 0.0557615], rtol=0, atol=5e-7)
    assert critical_smoothing(5, 2, 1e-6, ridge=1) == pytest.approx(found[0], rel=1e-12)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(-2, 2), st.floats(0.01, 3), st.floats(-15, -0.001), st.sampled_from([0.1, 0.5, 0.99, 0.99999])
)
def test_the_order_turns_there(small, ratio, share, fraction):
    small = 10**small
    large, s0 = small * (1 + ratio), fraction * small * 10**share
    beta = critical_smoothing(large, small, s0, fraction)
    slow = gradient_flow_arrival_time([large, small], s0, fraction)
    assert np.isinf(beta) == (slow[0] >= slow[1])

    def lead(beta):
        return np.subtract(*spectral_flow_arrival_time([large, small], s0, fraction, beta))

    if np.isinf(beta):
        # by less than rounding where the two gradient flows tie
        assert all(lead(b * small**1.5) > -1e-12 * b for b in np.geomspace(1e-6, 1e6, 25))
        return
    assert lead(0.98 * beta) > 0 > lead(1.02 * beta)
    # nothing is certified beyond it, and the brackets enclose it
    assert not certify_arrival_order([large, small], s0, 1.001 * beta, fraction).certified.any()
    assert not certify_arrival_order([large, small], s0, 0.999 * beta, fraction).certified_reversed.any()
    at = spectral_flow_arrival_bounds([large, small], s0, fraction, beta)
    assert max(at.lower) <= min(at.upper) * (1 + 1e-9)


def test_bad_input():
    with pytest.raises(ValueError, match="sigma must have 1 axes"):
        certify_arrival_order(1.0, 1e-3, 0.1)
    with pytest.raises(ValueError, match="s0 must be one number or have the shape of sigma"):
        certify_arrival_order([1.0, 2.0], [1e-3] * 3, 0.1)
    with pytest.raises(ValueError, match="s0 must lie strictly between"):
        certify_arrival_order([1.0, 2.0], 1.0, 0.1)
    with pytest.raises(ValueError, match="smoothing must be a finite number >= 0"):
        certify_arrival_order([1.0, 2.0], 0.1, -0.1)
    with pytest.raises(ValueError, match="sigma_i must be > sigma_j"):
        critical_smoothing(1, 4, 1e-6)
    with pytest.raises(ValueError, match="sigma_j must be > ridge"):
        critical_smoothing(4, 1, 1e-6, ridge=1)
    with pytest.raises(ValueError, match="s0 must lie strictly between"):
        critical_smoothing(4, 1, 1.0)


def test_certificate_is_a_result(tmp_path):
    found = certify_arrival_order([4, 1, 0.25], 1e-6, 0.1)
    found.save(tmp_path / "order.npz")
    again = OrderCertificate.load(tmp_path / "order.npz")
    np.testing.assert_array_equal(again.reversed_pairs, found.reversed_pairs)
    assert (again.smoothing, again.fraction, again.ridge) == (0.1, 0.99, 0.0)
    assert "OrderCertificate" in found._repr_html_()


@pytest.mark.full
def test_frame_and_plot(needs):
    needs("pandas")
    import matplotlib

    matplotlib.use("agg")
    found = certify_arrival_order([4, 1, 0.25], 1e-6, 0.1)
    frame = found.to_frame()
    assert frame["certified"].tolist() == [True, False, False]
    assert frame["reversed"].tolist() == [False, True, True]
    assert (frame["sigma_i"] > frame["sigma_j"]).all()
    ax = found.plot()
    assert ax.get_title() == "1 of 3 pairs certified"
    assert found.plot(ax) is ax
    matplotlib.pyplot.close(ax.figure)
