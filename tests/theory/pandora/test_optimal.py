"""The exact optimum: printed cases, dense twin, quadrature, simulation, invariances, convergence."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.theory.pandora.optimal import DPResult, optimal_value
from porism.theory.pandora.policies import evaluate_policy, policy_value

ROUNDING = 1e-12  # values of order one, sums of a few thousand terms
THREE = [0.2, 0.5, -0.1], [0.8, 0.4, 1.1], [0.05, 0.02, 0.1]


def tolerance(nu, grid):
    """Interpolation error: each of K expectations adds at most h^2/8 max W'', W'' <= 0.4/min nu.

    Half of the nodes of each specialist lie in 8 nu, the rest in 17 nu, and K of them share the grid.
    """
    nu = np.atleast_1d(nu)
    h = 11 * len(nu) * nu.max() / grid
    return len(nu) * h**2 / 8 * 0.4 / nu.min()


def draw(seed, K):
    rng = np.random.default_rng(seed)
    nu = rng.uniform(0.2, 1.2, K)
    return rng.normal(size=K) * 0.6, nu, nu * rng.uniform(0.01, 0.38, K)


@pytest.mark.parametrize(
    ("m", "nu", "c", "expected", "first", "digits"),
    [
        (*THREE, 0.7444003, 0, 2e-6),
        ([0.666, 1.524], [0.565, 0.648], [0.0828, 0.0306], 1.5341691909079226, 1, 2e-6),
        ([0, 1.1143], [1, 0.9734], [0.06892, 0.06125], 1.17656, 1, 5e-6),
        ([0.5, 0.4], [0.3, 0.6], [0.02, 0.05], 0.65964300319026471, 1, 2e-6),
        ([0.323, -0.397], [1.2, 0.427], [0.2848, 0.0198], 0.33283806576052478, 1, 2e-6),
        ([0.866, -0.194, 0.522], [0.311, 0.645, 0.31], [0.0266, 0.0634, 0.0284], 0.877036, None, 2e-6),
    ],
)
def test_printed_cases(m, nu, c, expected, first, digits):
    found = optimal_value(m, nu, c)
    assert found.value == pytest.approx(expected, abs=digits)
    assert first is None or found.first_action == first
    assert found.decide(-math.inf, range(len(m))) == found.first_action


def test_spend_and_count_are_derivatives_of_the_value():
    m, nu, c = (np.array(v) for v in THREE)
    found = optimal_value(m, nu, c)
    e = 2e-3  # central differences of values good to 1e-8 on grid 16001: error 5e-6, curvature e^2

    def slope(step):
        values = [optimal_value(m, nu, c - sign * step, grid=16001).value for sign in (1, -1)]
        return (values[0] - values[1]) / (2 * e)

    assert found.spend == pytest.approx(slope(e * c), abs=1e-5)
    # curvature in an equal change of all costs: 51 e^2, seen at e = 1e-2 and 1e-3
    assert found.n_refine == pytest.approx(slope(np.full(3, e)), abs=3e-4)
    assert found.spend == pytest.approx(0.13828, abs=1e-5)
    assert found.n_refine == pytest.approx(2.33952, abs=1e-5)


@pytest.mark.parametrize("outside", [-math.inf, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_two_specialists_by_quadrature(brute, seed, outside):
    m, nu, c = draw(seed, 2)
    values = brute.two_boxes(m, nu, c, outside)
    found = optimal_value(m, nu, c, outside, grid=2001)
    assert -ROUNDING <= found.value - max(values) < tolerance(nu, 2001)
    assert found.first_action == int(np.argmax(values)) - 1


@pytest.mark.parametrize(("m", "o"), [(0.3, 0.1), (0.3, 0.9), (-1.0, 1.0), (0.0, 0.0)])
def test_one_specialist_against_an_outside_option(brute, m, o):
    for nu, c in ((0.5, 0.05), (1.0, 0.39), (0.2, 0.1)):
        expected = max(m, o) + max(brute.gain(abs(m - o), nu) - c, 0)
        found = optimal_value([m], [nu], [c], outside=o, grid=101)
        assert found.value == pytest.approx(expected, abs=ROUNDING)  # piecewise linear: no grid error
        assert found.n_refine == (expected > max(m, o))
        assert found.spend == c * found.n_refine


@pytest.mark.parametrize(
    ("seed", "K", "outside"), [(0, 2, -math.inf), (1, 3, -math.inf), (2, 3, 0.2), (3, 4, 0.0)]
)
def test_dense_twin_and_where_one_step_refines(brute, seed, K, outside):
    m, nu, c = draw(seed, K)
    found = optimal_value(m, nu, c, outside, grid=120)
    x = found.nodes
    W = brute.dense(x, m, nu, c)
    assert found.value == pytest.approx(W[2**K - 1][0], abs=ROUNDING)
    one_step = evaluate_policy("kg", m, nu, c, outside, grid=120).policy
    refining = 0
    for mask in range(1, 2**K):
        members = [i for i in range(K) if mask >> i & 1]
        stop = np.maximum(x, m[members].max())
        acts = found.policy[mask]
        assert (W[mask][acts < 0] <= stop[acts < 0] + ROUNDING).all()
        assert all(acts[k] in members for k in np.flatnonzero(acts >= 0))
        kg = one_step[mask] >= 0  # PB-8b: there the optimum gains at least the one-step net, so it refines
        for k in np.flatnonzero(kg):
            i = one_step[mask, k]
            rival = max([x[k], *(m[j] for j in members if j != i)])
            assert W[mask][k] >= stop[k] + brute.gain(abs(m[i] - rival), nu[i]) - c[i] - ROUNDING
        assert (acts[kg] >= 0).all()
        refining += kg.sum()
    assert refining > 10  # the statement is not empty


@pytest.mark.parametrize(("seed", "K", "outside"), [(5, 3, -math.inf), (6, 4, 0.3)])
def test_simulation(seed, K, outside):
    m, nu, c = draw(seed, K)
    found = optimal_value(m, nu, c, outside, grid=2001)
    rng, n = np.random.default_rng(seed), 200_000
    M = m + nu * rng.normal(size=(n, K))
    left, best = np.full(n, 2**K - 1), np.full(n, outside)
    spend, count = np.zeros(n), np.zeros(n)
    middle = (found.nodes[1:] + found.nodes[:-1]) / 2
    for _ in range(K):
        act = found.policy[left, np.searchsorted(middle, best)].astype(int)
        rows = np.flatnonzero(act >= 0)
        i = act[rows]
        best[rows] = np.maximum(best[rows], M[rows, i])
        left[rows] ^= 1 << i
        spend[rows] += c[i]
        count[rows] += 1
    usable = np.where(left[:, None] >> np.arange(K) & 1, m, -np.inf).max(axis=1)
    seen = np.maximum(best, usable) - spend
    assert count.mean() > 0.5
    # four standard errors, and for decisions read at the nearest node one cell of probability, 3e-3 of cost
    for mine, samples, slack in (
        (found.value, seen, 1e-5),
        (found.spend, spend, 1e-3),
        (found.n_refine, count, 3e-3),
    ):
        assert abs(mine - samples.mean()) < 4 * samples.std() / math.sqrt(n) + slack


def test_the_start_is_one_state_even_next_to_a_change_of_action():
    """Just below the outside option from which two refinements pay, nothing is spent yet."""
    m, nu, c = [-0.5, 1.1143], [1.0, 0.9734], [0.06892, 0.06125]
    low, high = -0.6, -0.3
    for _ in range(40):
        middle = (low + high) / 2
        stops = optimal_value(m, nu, c, outside=middle, grid=101).first_action == -1
        low, high = (middle, high) if stops else (low, middle)
    before, after = (optimal_value(m, nu, c, outside=o, grid=101) for o in (low, high))
    assert (before.first_action, before.spend, before.n_refine) == (-1, 0, 0)
    assert after.first_action == 1
    assert after.spend >= c[1]
    assert after.n_refine > 1
    assert before.value == pytest.approx(after.value, abs=ROUNDING)
    assert policy_value("kg", m, nu, c, outside=high) == 1.1143


@pytest.mark.parametrize("name", ["value", "n_refine", "kg", "weitzman", "rollout"])
def test_second_order_in_the_grid(name):
    """Slope of log error on log nodes near -2, also for the count, which jumps where the action changes."""

    def found(grid):
        if name in ("value", "n_refine"):
            return getattr(optimal_value(*THREE, outside=-0.3, grid=grid), name)
        return policy_value(name, *THREE, outside=-0.3, grid=grid)

    sizes = [200, 400, 800, 1600, 3200]
    exact = found(25_601)
    errors = [abs(found(size) - exact) for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -2.6 < slope < -1.7  # a first-order scheme has -1; the count's constant varies with the threshold


@settings(max_examples=40, deadline=None)
@given(st.data(), st.floats(-5, 5), st.floats(0.01, 100), st.randoms(use_true_random=False))
def test_invariances(brute, data, shift, scale, random):
    m, nu, c, outside = data.draw(brute.problems(3))
    found = optimal_value(m, nu, c, outside, grid=151)
    moved = optimal_value(scale * m + shift, scale * nu, scale * c, scale * outside + shift, grid=151)
    # rounding of shifted means moves nodes by 1e-15 of their size; thresholds are then equal to that order
    size = scale * 10 + abs(shift)
    assert moved.value == pytest.approx(scale * found.value + shift, abs=1e-10 * size)
    order = list(range(len(m)))
    random.shuffle(order)
    turned = optimal_value(m[order], nu[order], c[order], outside, grid=151)
    assert turned.value == pytest.approx(found.value, abs=ROUNDING)
    assert max(outside, m.max()) - ROUNDING <= found.value
    dearer = optimal_value(m, nu, 1.1 * c + 0.001, outside, grid=151)
    wider = optimal_value(m, 1.1 * nu, c, outside, grid=151)
    slack = 2 * tolerance(1.1 * nu, 151)
    assert dearer.value <= found.value + slack
    assert wider.value >= found.value - slack


@settings(max_examples=25, deadline=None)
@given(st.data(), st.floats(0.2, 1))
def test_value_is_convex_in_the_exchange_rate_and_spend_falls(brute, data, top):
    m, nu, c, outside = data.draw(brute.problems(3))
    rates = np.linspace(0.05, 2 * top, 9)
    results = [optimal_value(m, nu, rate * c, outside, grid=601) for rate in rates]
    J = np.array([found.value for found in results])
    assert (np.diff(J, 2) > -4 * tolerance(nu, 601)).all()
    spend = np.array([found.spend / rate for found, rate in zip(results, rates, strict=True)])
    # chords of the convex J separate its slopes: no tolerance on spend itself, only that of J
    for k in range(len(rates) - 1):
        step = rates[k + 1] - rates[k]
        chord, slack = (J[k] - J[k + 1]) / step, 4 * tolerance(nu, 601) / step
        assert spend[k] >= chord - slack
        assert spend[k + 1] <= chord + slack


def test_spend_never_rises_with_its_price():
    for seed in range(6):
        m, nu, c = draw(seed, 3)
        spend = [optimal_value(m, nu, r * c, grid=1001).spend / r for r in np.linspace(0.1, 2, 20)]
        assert max(np.diff(spend)) < 1e-6  # O(h^2) of thresholds; the drops are of order 1e-2
        assert spend[0] > spend[-1] + 0.05


def test_degenerate_specialists():
    sure = optimal_value([0.0, 1.0], [0.0, 0.0], [0.0, 0.0])
    assert (sure.value, sure.first_action, sure.n_refine) == (1.0, -1, 0.0)
    alone = optimal_value([0.3], 0.5, 0.0)
    assert (alone.value, alone.first_action) == (0.3, -1)
    free = optimal_value([0.0, 100.0], 1.0, 0.0)  # free refinements are taken, however far the means
    assert (free.value, free.first_action, free.n_refine) == (100.0, 0, 2.0)
    barred = optimal_value([0.0, 1.0], [1.0, 1.0], [math.inf, math.inf])
    assert (barred.value, barred.first_action, barred.spend) == (1.0, -1, 0.0)
    assert optimal_value([0.0, 1.0], [1, 1], [math.inf, 0.1]).policy[3].max() <= 1
    rich = optimal_value([0.0, 1.0], 0.5, 0.1, outside=50.0)
    assert (rich.value, rich.first_action) == (50.0, -1)
    twins = optimal_value([0.0] * 3, 0.5, 0.1)
    assert twins.first_action == 0
    for step in (0.0, 1e-12, 1e-15):  # a mean next to the start
        close = optimal_value([0.0, 0.5], 0.4, 0.02, outside=0.5 - step).value
        assert close == pytest.approx(optimal_value([0.0, 0.5], 0.4, 0.02, outside=0.5).value, abs=1e-9)
    near, far = (optimal_value([s, s], 1e-3, 1e-5) for s in (0.0, 1e6))
    assert far.value - 1e6 == pytest.approx(near.value, abs=1e-9)  # 1e6 has steps of 1e-10
    assert optimal_value([0.0, -1e6], 1e-3, 1e-5).n_refine == 0
    assert optimal_value([0.0, 0.1], 1.0, 1e-300).n_refine == 2


def test_a_tiny_second_specialist_is_seen_on_the_grid(brute):
    m, nu, c = np.array([0.0, 0.0]), np.array([1.0, 1e-3]), np.array([0.1, 1e-4])
    expected = max(brute.two_boxes(m, nu, c, -math.inf))
    assert optimal_value(m, nu, c).value == pytest.approx(expected, abs=2e-8)


def test_result_decides_saves_and_shows_itself(tmp_path):
    found = optimal_value(*THREE, grid=201)
    assert found.decide(5.0, [0, 1, 2]) == -1
    assert found.decide(-3.0, []) == -1
    assert found.decide(0.4, [0, 2]) in (0, 2)
    found.save(tmp_path / "dp.npz")
    back = Result.load(tmp_path / "dp.npz")
    assert isinstance(back, DPResult)
    assert back.value == found.value
    assert (back.policy == found.policy).all()
    assert (back.nodes == found.nodes).all()
    assert "optimal" in repr(back)
    assert "value" in back._repr_html_()
    with pytest.raises(ValueError, match="refined_best must not be NaN"):
        found.decide(math.nan, [0])
    with pytest.raises(ValueError, match="remaining must be in"):
        found.decide(0.0, [3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"c": [0.1, -0.2]}, "cost must be >= 0; got min -0.2"),
        ({"c": [0.1, math.nan]}, "cost must be >= 0"),
        ({"nu": [-1.0, 1.0]}, "nu must be >= 0 and finite"),
        ({"nu": [math.inf, 1.0]}, "nu must be >= 0 and finite"),
        ({"m": [math.nan, 0.0]}, "m must be finite"),
        ({"m": []}, "need at least 1 specialist"),
        ({"m": [[0.0, 1.0]]}, "m, nu and c must be vectors of one length"),
        ({"m": [0.0, 1.0, 2.0]}, r"\(3,\), \(2,\) and \(2,\)"),
        ({"m": np.array([None, 1.0])}, "m must hold real numbers, got dtype object"),
        ({"outside": math.nan}, "outside must be a number or -inf"),
        ({"outside": math.inf}, "outside must be a number or -inf"),
        ({"grid": 31}, "grid must be in 32"),
        ({"m": np.zeros(15)}, r"optimal_value is exponential in K; K=15 > 14, use policy='rollout'"),
    ],
)
def test_bad_input(change, message):
    arguments = {"m": [0.0, 1.0], "nu": [0.5, 0.5], "c": [0.1, 0.1]} | change
    if np.size(arguments["m"]) in (0, 15):
        arguments |= {"nu": 0.5, "c": 0.1}
    with pytest.raises(ValueError, match=message):
        optimal_value(**arguments)


@pytest.mark.full
def test_fourteen_specialists():
    m, nu, c = draw(3, 14)
    found = optimal_value(m, nu, c, grid=201)
    assert found.value >= policy_value("recommit", m, nu, c, grid=201) - ROUNDING
    # one seven specialists at a time: the best of either half is a feasible policy for all
    halves = max(
        optimal_value(m[part], nu[part], c[part], grid=401).value for part in (slice(7), slice(7, 14))
    )
    assert found.value > halves - 14 * tolerance(nu, 401)
