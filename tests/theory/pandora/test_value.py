"""Value of one refinement, independent and correlated: oracle cases 4, 8, 10, quadrature, symmetries."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from porism.theory.pandora import (
    best_draws,
    bidder_decision,
    bidder_statics,
    certify_decision,
    inspection_halfwidth,
    log_psi,
    log_voi,
    pooled_sd,
    psi,
    signal_slopes,
    small_signal_change,
    voi,
    voi_binary,
    voi_bounds,
    voi_correlated,
    voi_net,
    wedge_threshold,
)

calm = settings(deadline=None)  # the machine may be busy

NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def average(f, kinks, reach=9.0):
    """E f(Z) for f smooth between kinks, on panels of at most 3: the naive twin."""
    cuts = np.unique(np.clip([*np.linspace(-reach, reach, 7), *kinks], -reach, reach))
    total = 0.0
    for low, high in itertools.pairwise(cuts):
        z = (low + high) / 2 + (high - low) / 2 * NODES
        density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        total += float(((high - low) / 2 * WEIGHTS * f(z) * density).sum())
    return total


def crossings(m, slope):
    with np.errstate(all="ignore"):
        z = np.subtract.outer(m, m) / np.subtract.outer(slope, slope).T
    return z[np.isfinite(z)]


def naive(m, slope):
    best = max(m)
    return average(lambda z: np.max(m[:, None] + slope[:, None] * z, axis=0) - best, crossings(m, slope))


def test_oracle():
    assert voi(0.3, 0.5) == pytest.approx(0.084336366120877744, rel=1e-12)
    assert voi(0, 0.5) == pytest.approx(0.19947114020071634, rel=1e-12)
    assert voi(5, 0.1) == 0
    assert log_voi(5, 0.1) == pytest.approx(log_psi(50) + math.log(0.1), rel=1e-15)
    # the specification: 2.159e-548
    assert log_voi(5, 0.1) / math.log(10) == pytest.approx(math.log10(2.159) - 548, abs=1e-4)


def test_oracle_of_correlated():
    cases = [
        ((0.3, 0.1, -0.2), (0.6, 0.4, -0.5), 0.23340614266219696),
        ((0.2, 0.35), (0.49, 0.3), 0.023266143171366245),
    ]
    for m, slope, expected in cases:
        assert voi_correlated(m, slope) == pytest.approx(expected, rel=1e-12)
    assert voi_correlated((0.3, 0.1, -0.2), (0.6, 0.6, 0.6)) == 0
    sigma = [[0.5, 0.3, 0.1], [0.3, 0.6, 0.2], [0.1, 0.2, 0.4]]
    slopes = signal_slopes(sigma, np.sqrt([0.2, 0.1, 0.3]))
    found = voi_correlated([0.2, 0.25, 0.1], slopes)
    expected = [0.11099188232025107, 0.13289892709231509, 0.065343054470451431]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@calm
@given(st.floats(-20, 20), st.floats(0.01, 10))
def test_gain_is_what_it_says(gap, nu):
    """E max(b, M) - max(b, m) with b = 0, by quadrature."""
    value = average(lambda z: np.maximum(0, gap + nu * z) - max(0.0, gap), [-gap / nu])
    # what the panels cannot do better than: rounding of numbers of size |gap| + nu
    assert voi(gap, nu) == pytest.approx(value, abs=1e-14 * (abs(gap) + nu))
    assert log_voi(gap, nu) == pytest.approx(np.log(nu) + log_psi(abs(gap) / nu), rel=1e-13, abs=1e-13)


def test_ends():
    np.testing.assert_array_equal(voi([np.inf, 1.0, 0.0, -np.inf], [1.0, 0.0, 0.0, 0.0]), 0)
    np.testing.assert_array_equal(log_voi([np.inf, 1.0, 0.0], [1.0, 0.0, 0.0]), -np.inf)
    assert voi(1e6, 1e-3) == 0  # and no warning of an overflow
    assert np.isfinite(log_voi(1e6, 1e-3))
    assert voi(1.0, 1e-310) == 0
    assert voi(1e-320, 1e300) == pytest.approx(1e300 * psi(0))


def test_net_is_symmetric_in_the_gap():
    rng = np.random.default_rng(1)
    m, nu, c = rng.normal(size=(7, 5)), rng.uniform(0.1, 1, 5), rng.uniform(0, 0.2, 5)
    outside = rng.normal(size=7)
    found = voi_net(m, nu, c, outside)
    for row in range(7):
        for i in range(5):
            others = max(*np.delete(m[row], i), outside[row])
            expected = nu[i] * psi(abs(m[row, i] - others) / nu[i]) - c[i]
            assert found[row, i] == pytest.approx(expected, rel=1e-13, abs=1e-16)
            inside = abs(m[row, i] - others) < inspection_halfwidth(nu[i], c[i])
            assert (found[row, i] > 0) == inside


def test_net_with_ties_and_one_specialist():
    np.testing.assert_allclose(voi_net([1.0, 1.0], 0.5, 0.0), voi(0, 0.5))
    np.testing.assert_allclose(voi_net([0.3], 0.5, 0.1, outside=0.0), voi(0.3, 0.5) - 0.1)
    with pytest.warns(UserWarning, match="one specialist: refinement cannot change the choice"):
        np.testing.assert_array_equal(voi_net([[0.3], [1.0]], 0.5, 0.1), -0.1)
    # without a way to use the outside option it does not matter
    m = [0.1, 0.4, -1.0]
    np.testing.assert_array_equal(voi_net(m, 0.5, 0.1), voi_net(m, 0.5, 0.1, outside=-5.0))
    # costs above nu/sqrt(2 pi): no error, nothing pays
    assert (voi_net(m, 0.5, 0.5 / math.sqrt(2 * math.pi) * (1 + 1e-12)) < 0).all()
    assert voi_net(np.zeros((0, 3)), 0.5, 0.1).shape == (0, 3)
    assert voi_net(np.zeros(3), np.full((4, 3), 0.5), 0.1).shape == (4, 3)


def test_one_box_is_solved_exactly():
    """PB-4: with K = 1 and an outside option the rule is optimal: refine now, or never."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        m, o, nu, c = rng.normal(), rng.normal(), rng.uniform(0.1, 1), rng.uniform(0, 0.4)
        refine = average(lambda z, m=m, o=o, nu=nu: np.maximum(o, m + nu * z), [(o - m) / nu]) - c
        gain = max(0.0, voi_net([m], nu, c, o)[0])
        assert max(m, o) + gain == pytest.approx(max(m, o, refine), abs=1e-13)


# -- correlated ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 30])
def test_envelope_against_quadrature(size):
    rng = np.random.default_rng(size)
    rows = 300 // max(size, 6)
    m, slope = rng.normal(size=(rows, size)), rng.normal(size=(rows, size))
    found = voi_correlated(m, slope)
    for row in range(rows):
        assert found[row] == pytest.approx(naive(m[row], slope[row]), abs=1e-13 * size)


coarse = st.integers(-3, 3).map(float)  # many ties: parallel lines, equal lines, three through one point


@calm
@given(npst.arrays(float, st.tuples(st.just(2), st.integers(1, 6)), elements=coarse))
def test_envelope_with_ties(lines):
    m, slope = lines
    value = voi_correlated(m, slope)
    assert value == pytest.approx(naive(m, slope), abs=1e-12)
    shuffled = np.random.default_rng(0).permutation(len(m))
    assert voi_correlated(m[shuffled], slope[shuffled]) == pytest.approx(value, abs=1e-14)
    # a shift of all means, a common slope, a mirrored signal change nothing
    assert voi_correlated(m + 2, slope + 3) == pytest.approx(value, abs=1e-12)
    assert voi_correlated(m, -slope) == pytest.approx(value, abs=1e-13)
    assert voi_correlated([*m, m.min() - 1], [*slope, slope[m.argmin()]]) == pytest.approx(value, abs=1e-14)


@calm
@given(st.integers(2, 8), st.integers(0, 10**6))
def test_diagonal_covariance_is_the_independent_formula(size, seed):
    rng = np.random.default_rng(seed)
    m, s, tau = rng.normal(size=size), rng.uniform(0.1, 1, size), rng.uniform(0, 1, size)
    slopes = signal_slopes(np.diag(s**2), tau)
    nu = s**2 / np.hypot(s, tau)
    np.testing.assert_allclose(np.diag(slopes), nu, rtol=1e-14)
    np.testing.assert_allclose(voi_correlated(m, slopes), voi_net(m, nu, 0.0), rtol=1e-11, atol=1e-300)


def test_two_specialists_and_the_price_of_ignoring_a_common_factor():
    m, slope = np.array([0.4, 0.1]), np.array([0.7, -0.2])
    assert voi_correlated(m, slope) == pytest.approx(voi(0.3, 0.9), rel=1e-14)
    means, s, tau = [0.3, 0.1, -0.2], 0.7, 0.3
    truth = {0: 0.16898, 0.25: 0.10881, 0.5: 0.05237, 0.75: 0.00825, 0.95: 0.00000}
    independent = voi_net(means, s**2 / math.hypot(s, tau), 0.0)[0]
    assert independent == pytest.approx(0.16898, abs=5e-6)
    for rho, expected in truth.items():
        sigma = s**2 * ((1 - rho) * np.eye(3) + rho)
        found = voi_correlated(means, signal_slopes(sigma, [tau] * 3))
        assert found[0] == pytest.approx(expected, abs=5.1e-6)
    negative = voi_correlated(means, signal_slopes(s**2 * (1.2 * np.eye(3) - 0.2), [tau] * 3))
    assert negative[0] > independent


def test_tiny_gains_keep_their_digits():
    assert voi_correlated([30.0, 0.0], [0.0, 1.0]) == pytest.approx(psi(30.0), rel=1e-13)
    assert voi_correlated([1e6, -1e6], [1e-3, 0.0]) == 0


def test_correlated_shapes_and_memory_layout():
    rng = np.random.default_rng(5)
    m, slope = rng.normal(size=(4, 1, 3)), rng.normal(size=(3, 3))
    found = voi_correlated(m, slope)
    assert found.shape == (4, 3)
    assert found[2, 1] == voi_correlated(m[2, 0], slope[1])
    assert type(voi_correlated([1.0], [2.0])) is float
    assert voi_correlated(np.zeros((0, 3)), np.zeros(3)).shape == (0,)
    np.testing.assert_array_equal(voi_correlated(m[::-1], slope[:, ::-1][:, ::-1]), found[::-1])


@pytest.mark.full
def test_torch(needs):
    torch = needs("torch")
    rng = np.random.default_rng(6)
    m, nu, c, o = rng.normal(size=(3, 4)), rng.uniform(0.2, 1, 4), rng.uniform(0, 0.1, 4), rng.normal(size=3)
    tensors = [torch.tensor(x) for x in (m, nu, c, o)]
    np.testing.assert_allclose(voi_net(*tensors).numpy(), voi_net(m, nu, c, o), rtol=1e-13)
    np.testing.assert_allclose(voi_correlated(tensors[0], nu).numpy(), voi_correlated(m, nu), rtol=1e-15)
    gap, spread = torch.tensor([0.3, -1.0, 2.0]).double(), torch.tensor([0.5, 0.4, 1.0]).double()
    assert torch.autograd.gradcheck(voi, (gap.requires_grad_(), spread.requires_grad_()))
    assert torch.autograd.gradcheck(log_voi, (gap, spread))
    assert voi(gap.float(), 0.5).dtype == torch.float32
    nothing = torch.zeros(2, requires_grad=True)
    voi(torch.tensor([1.0, np.inf]), nothing).sum().backward()
    assert torch.isfinite(nothing.grad).all()
    half = torch.tensor([0.5, 0.25], dtype=torch.bfloat16)
    assert certify_decision((0.1, 0.2), (half, half), (0.1, 0.2)).tolist() == ["undecided", "stop"]
    for call, count in (
        (bidder_decision, 4), (bidder_statics, 6), (pooled_sd, 3), (best_draws, 4), (signal_slopes, 2),
        (small_signal_change, 5), (voi_binary, 3), (voi_bounds, 2), (wedge_threshold, 2),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must be an array, got a torch tensor"):
            call(half, *[0.5] * (count - 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: voi(np.nan, 1), "gap must not be NaN"),
        (lambda: voi([1, 2], [1, 2, 3]), r"gap of shape \(2,\) and nu of shape \(3,\) do not fit"),
        (lambda: log_voi(1, -1), "nu must be >= 0 and finite"),
        (lambda: voi_net([], 1, 1), "need at least 1 specialist"),
        (lambda: voi_net(1.0, 1, 1), "need at least 1 specialist"),
        (lambda: voi_net([1, 2], 1, -1), "cost must be >= 0; got min -1"),
        (lambda: voi_net([1, 2], np.nan, 1), "nu must be >= 0 and finite"),
        (lambda: voi_net([1, np.nan], 1, 1), "m must be finite; got nan"),
        (lambda: voi_net([1, 2], 1, 1, np.nan), "outside must not be NaN"),
        (lambda: voi_net([1, 2], [1, 2, 3], 1), r"m of shape \(2,\) and nu of shape \(3,\)"),
        (lambda: voi_net([1.0], [1, 2, 3], 1), r"must fit the 1 specialists of m"),
        (lambda: voi_net(np.zeros((2, 3)), 1, 1, [1, 2, 3]), r"outside of shape \(3,\) do not fit"),
        (lambda: voi_net(np.array([1, "a"], object), 1, 1), "m must hold real numbers, got dtype object"),
        (lambda: voi_correlated([1, 2], [1, np.inf]), "slope must be finite; got inf"),
        (lambda: voi_correlated(1, 2), "need at least 1 specialist"),
        (lambda: voi_correlated([1, 2], [1, 2, 3]), r"m of shape \(2,\) and slope of shape \(3,\)"),
        (
            lambda: signal_slopes([[1, 2], [2, 1]], 0),
            "covariance not positive semidefinite .min eigenvalue -1",
        ),
        (lambda: signal_slopes([[1, 0.1], [0.2, 1]], 0), "covariance not symmetric"),
        (lambda: signal_slopes([1, 2], 0), "covariance must be square"),
        (lambda: signal_slopes(np.zeros((0, 0)), 0), "need at least 1 specialist"),
        (lambda: signal_slopes(np.eye(2), [1, 2, 3]), r"tau of shape \(3,\) do not fit"),
        (lambda: signal_slopes(np.eye(2), [1, -2]), "tau must be >= 0; got -2.0"),
        (lambda: signal_slopes([[np.nan]], 0), "covariance must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
