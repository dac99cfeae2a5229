"""Several draws at once: the spread, the S shape of PB-16, the best number."""

import numpy as np
import pytest

from porism.theory.pandora import best_draws, pooled_sd, preposterior_sd, voi


def test_spread():
    n = np.arange(1, 20)
    np.testing.assert_allclose(pooled_sd(0.7, 2.0, n), preposterior_sd(0.7, 2.0 / np.sqrt(n)), rtol=1e-14)
    np.testing.assert_allclose(pooled_sd(0.7, 2.0, n), 0.7 / np.sqrt(1 + 4 / (n * 0.49)), rtol=1e-14)
    np.testing.assert_array_equal(
        pooled_sd([1, 1, 0, 0, 1], [2, 0, 2, 0, np.inf], [0, 3, 4, 5, 2]), [0, 1, 0, 0, 0]
    )
    assert type(pooled_sd(1, 1, 1)) is float


def test_gain_is_s_shaped():
    """s = 1, tau = 3, d = 1.5: convex, then concave, with one change of curvature near n = 9."""
    gains = voi(1.5, pooled_sd(1.0, 3.0, np.arange(16)))
    bend = np.sign(np.diff(gains, 2))  # entry i is about n = i + 1
    assert list(bend) == sorted(bend, reverse=True)
    assert 8 <= 1 + int((bend > 0).sum()) <= 10
    at_the_top = np.diff(voi(0.0, pooled_sd(1.0, 3.0, np.arange(16))), 2)
    assert (at_the_top < 0).all()  # no gap, no convex part


def test_best_number_against_a_loop():
    rng = np.random.default_rng(0)
    gap, s, tau = rng.normal(size=(3, 1)), rng.uniform(0.5, 2, 4), 3.0
    costs = np.cumsum(rng.uniform(0, 0.01, 12))
    for cost in (costs, 0.004, 0.0):
        found = best_draws(gap, s, tau, cost, max_draws=12)
        assert found.n.shape == found.net.shape == (3, 4)
        for i, j in np.ndindex(3, 4):
            nets = [0.0]
            for n in range(1, 13):
                total = n * cost if np.isscalar(cost) else cost[n - 1]
                nets.append(voi(gap[i, 0], pooled_sd(s[j], tau, n)) - total)
            assert found.n[i, j] == int(np.argmax(nets))
            assert found.net[i, j] == pytest.approx(max(nets), abs=1e-16)


def test_going_on_while_the_next_draw_pays_stops_too_early():
    best = best_draws(1.5, 1.0, 3.0, 0.0004, max_draws=60)
    assert best.net > 0
    assert best.n > 9
    assert voi(1.5, pooled_sd(1.0, 3.0, 1)) < 0.0004  # the first draw alone does not pay
    assert best_draws(1.5, 1.0, 3.0, 0.0004, max_draws=1) == (0, 0.0)
    # equals go to the fewest: nothing to learn, nothing to pay
    assert best_draws(1.5, 0.0, 3.0, 0.0) == (0, 0.0)
    assert best_draws(0.0, 1.0, 0.0, 0.0).n == 1
    assert type(best.n) is int
    assert best_draws(np.inf, 1.0, 1.0, [np.inf] * 16) == (0, 0.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pooled_sd(-1, 1, 1), ValueError, "s must be >= 0; got -1.0"),
        (lambda: pooled_sd(1, np.nan, 1), ValueError, "tau must be >= 0; got nan"),
        (lambda: pooled_sd(1, 1, [1, -2]), ValueError, "n must be >= 0; got -2.0"),
        (lambda: pooled_sd(np.inf, 1, 1), ValueError, "s must be finite"),
        (lambda: best_draws(1, 1, 1, -0.1), ValueError, "cost must be >= 0; got min -0.1"),
        (
            lambda: best_draws(1, 1, 1, [0.1, 0.2]),
            ValueError,
            r"cost of shape \(2,\) does not fit max_draws=16",
        ),
        (lambda: best_draws(np.nan, 1, 1, 0.1), ValueError, "gap must not be NaN"),
        (lambda: best_draws(1, 1, 1, 0.1, max_draws=0), ValueError, "max_draws must be >= 1"),
        (lambda: best_draws(1, 1, 1, 0.1, max_draws=2.5), TypeError, "max_draws must be an int"),
        (lambda: best_draws([1, 2], [1, 2, 3], 1, 0.1), ValueError, r"shape \(2,\).*shape \(3,\)"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
