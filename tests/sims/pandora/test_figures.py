"""Figures show what the data functions return, and the data functions what the theory says."""

import numpy as np
import pytest
from helpers import curves, panel

from porism.sims.pandora import gaussian
from porism.sims.pandora._peers import blocked, hull_by_pairs, hull_by_pairs_lean, in_band, routed, whole
from porism.sims.pandora._public_sets import PUBLIC
from porism.sims.pandora.benchmarks import BENCHMARKS
from porism.sims.pandora.figure_data import (
    classifier_curves,
    classifier_fit,
    dependence_gain,
    optimism_sweep,
    policy_gaps,
    spend_by_rate,
)
from porism.sims.pandora.figures import GATE
from porism.theory.pandora import (
    POLICIES,
    bidder_statics,
    compare_policies,
    inspection_halfwidth,
    nondecreasing_hull,
    psi,
    reservation_index,
    route_batch,
    wedge_threshold,
)


def test_indices(draw):
    ax = draw("F1")
    x, y = curves(ax)["ψ(z)"].get_xydata().T
    np.testing.assert_allclose(y, psi(x))
    lines = curves(panel(ax, "where to refine"))
    cost, upper = lines["index (σ − m)/ν, upper end"].get_xydata().T
    np.testing.assert_allclose(upper, reservation_index(0.0, 1.0, cost), atol=1e-12)
    cost, lower = lines["lower end"].get_xydata().T
    np.testing.assert_allclose(-lower, inspection_halfwidth(1.0, cost))
    assert cost.max() < GATE == pytest.approx(psi(0.0))
    gain = curves(panel(ax, "within the band"))
    for share in (0.01, 0.1, 0.25, 0.5):
        d, net = gain[f"c/ν = {share:g}"].get_xydata().T
        assert ((net > 0) == (np.abs(d) < inspection_halfwidth(1.0, share))).all()


def test_gaps_by_their_definition():
    """On PB-9's draws, with all policies."""
    found = policy_gaps(2, 6, grid=301)
    rng, rows = np.random.default_rng(1), []
    for _ in range(6):
        m = rng.normal(size=2) * rng.choice([0.2, 0.5, 1])
        nu = rng.uniform(0.2, 1.2, 2)
        values = compare_policies(
            m, nu, nu * rng.uniform(0.005, 0.39, 2) * rng.choice([0.1, 0.4, 1]), grid=301
        )
        rows.append((values, m.max()))
    gain = sum(values["optimal"] - top for values, top in rows)
    for row, policy in enumerate(POLICIES):
        lost = [values["optimal"] - values[policy] for values, _ in rows]
        assert found[row] == pytest.approx([sum(lost) / gain, max(lost)], abs=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1
    with pytest.raises(ValueError, match="family must be one of"):
        policy_gaps(2, 1, family="odd")


def test_gaps_of_equal_specialists():
    """PB-10's conjecture: one nu and c for all, rollout loses nothing."""
    for family in ("equal", "equal, dear"):
        found = dict(zip(POLICIES, policy_gaps(3, 12, family=family, grid=301), strict=True))
        assert abs(found["rollout"][0]) < 1e-9
        assert found["cheap"][0] == pytest.approx(1)
        assert found["kg"][1] > 1e-3


def test_gap_table(draw):
    ax = draw("F2")
    assert [label.get_text() for label in ax.get_yticklabels()] == [p.replace("_", " ") for p in POLICIES]
    shown = np.array(ax.images[0].get_array())
    found = np.stack([policy_gaps(K, 20, grid=201) for K in (2, 3)], axis=1)
    expected = found[..., 0]
    np.testing.assert_allclose(shown, np.log10(np.clip(100 * expected, 1e-3, 100)))
    words = [text.get_text() for text in ax.texts]
    assert words[:2] == [f"100 %\n{policy_gaps(K, 20, grid=201)[0, 1]:.2g}" for K in (2, 3)]
    assert [words[-4], words[-2]] == ["0", "0"]
    assert words.count("0") == (found[..., 1] < 1e-9).sum() >= 2  # K = 2: two-step and rollout are exact


def test_dependence_gain():
    """PB-15's printed numbers, and zero where all move alike."""
    true, independent = dependence_gain([0, 0.25, 0.5, 0.75, 0.95])
    np.testing.assert_allclose(true, [0.16898, 0.10881, 0.05237, 0.00825, 0], atol=5e-6)
    assert independent == pytest.approx(true[0], rel=1e-12)
    assert dependence_gain([1.0])[0][0] == pytest.approx(0, abs=1e-12)
    assert dependence_gain([-0.3])[0][0] > independent
    other = dependence_gain([0.0], specialist=2)
    assert other[0][0] == pytest.approx(other[1], rel=1e-12)


def test_dependence(draw):
    ax = draw("F3", 1)
    loss, count = panel(ax, "5 specialists"), panel(ax, "how much")
    assert "one-step, joint" in curves(count)
    joint, alone = (curves(count)[name].get_ydata() for name in ("one-step, joint", "one-step, independent"))
    assert joint[-1] < 0.5 < alone[-1]  # at correlation .9 there is little to learn
    assert loss.get_legend() is not None


def test_spend_by_rate():
    """PB-12: one step may spend more as money gets dearer, the optimum never."""
    lams = [1.4, 1.5, 1.6, 3.0]
    kg, best = spend_by_rate(lams, grid=1001), spend_by_rate(lams, "optimal", grid=1001)
    assert kg[2] > kg[1] + 0.004
    assert (np.diff(best) <= 1e-12).all()
    with pytest.raises(ValueError, match="lams must be > 0"):
        spend_by_rate([0.0, 1.0])


def test_optimism_sweep():
    rules, found, slopes = optimism_sweep([0.0, 0.9], n=4000, seed=3)
    assert rules == ("cheap", "exhaustive", "exhaustive, joint")
    world = gaussian(4000, 6, 0.9, s=0.5, tau=np.geomspace(0.15, 2.0, 6), spread=0.3, seed=3)
    rows = np.arange(4000)
    at = world.refined.argmax(1)
    assert found[1, 1, 0] == pytest.approx(world.refined[rows, at].mean())
    assert found[1, 1, 1] == pytest.approx(world.scores[rows, at].mean())
    assert found[1, 1, 2] == pytest.approx((world.value(at) - world.value(world.m.argmax(1))).mean())
    assert found[0, 1, 2] > 5 * found[0, 1, 3]
    assert found[1, 1, 2] < -5 * found[1, 1, 3]
    assert abs(found[1, 2, 0] - found[1, 2, 1]) < 0.03 < found[1, 1, 0] - found[1, 1, 1]
    np.testing.assert_allclose(slopes, 1, atol=0.15)  # the least precise has sd .14, error .5: se .05


def test_optimism(draw):
    ax = draw("F5", 2)
    lines = curves(ax)
    assert {"promised, estimates as they are", "promised, estimates after a joint update"} <= set(lines)
    bars = panel(ax, "right or wrong")
    heights = np.array([patch.get_height() for patch in bars.patches])
    promised, delivered = heights.reshape(2, 3)
    assert promised[1] > promised[0]
    assert promised[1] - delivered[1] > 0.1
    assert bars.get_ylim()[0] < heights.min()


def test_market(draw):
    ax = draw("F6")
    x, y = curves(ax)["gross welfare dA"].get_xydata().T
    np.testing.assert_allclose(y, 100 * bidder_statics(0.0, 0.5, 0.02, 1.2, 0.3, x)["dA"])
    lines = curves(panel(ax, "shrunk price"))
    dU, dW = (lines[name].get_ydata() for name in ("utility of the bidder dU", "net welfare dW"))
    np.testing.assert_allclose(dU, dW, atol=1e-12)
    chart = panel(ax, "who loses")
    noise, law = chart.lines[0].get_xydata().T
    np.testing.assert_allclose(law, wedge_threshold(0.3, noise))
    kinds = np.array(chart.collections[0].get_array()).reshape(11, 9)
    change = bidder_statics(0.0, 0.5, 0.02, np.linspace(0, 2.5, 11)[:, None], 0.3, np.linspace(0, 1.5, 9))
    assert (kinds == (change["dA"] < -1e-15).astype(int) + (change["dW"] < -1e-15)).all()
    assert (kinds == 2).any()
    assert ((change["dA"] < 0) <= (change["dW"] < 0)).all()
    assert (change["dU"] > -1e-15).all()  # as the title says


@pytest.mark.full
def test_curves(draw):
    ax = draw("F4")
    curve = classifier_curves("breast_cancer", 1, (0.01, 0.04, 0.11))
    lines = curves(ax)
    for name, rule in (("one-step, joint", "kg_joint"), ("margin, among all", "threshold all")):
        np.testing.assert_allclose(lines[name].get_xydata(), curve.points(rule))
    looks = {(line.get_color(), line.get_marker()) for line in lines.values()}
    assert len(looks) == len(lines) == 7


@pytest.mark.full
def test_budget(draw):
    """Spend comes to the budget, seen from the words of the figure."""
    ax = draw("F7")
    words = [text.get_text() for text in panel(ax, "spend, with").texts]
    assert len(words) == 3
    matrix, fitted = classifier_fit("breast_cancer")
    assert fitted.m_hat.shape == matrix.scores.shape
    spent = [float(word.split(" ± ")[0]) for word in words]
    assert spent[1] > max(spent[0], spent[2])


def steps():
    rng = np.random.default_rng(5)
    m, nu = rng.normal(size=(2500, 7)), rng.uniform(0.2, 0.6, 7)
    c = nu * rng.uniform(0.01, 0.2, 7)
    return m, nu, c, inspection_halfwidth(nu, c)


def test_numpy_peers_do_the_same_work():
    from porism.kernels.voi import voi_argmax

    args = steps()
    best, arg = voi_argmax(*args)[:2]
    for peer in (whole, in_band, lambda *a: blocked(whole, *a), lambda *a: blocked(in_band, *a)):
        found = peer(*args)
        assert (found[1] == arg).all()
        np.testing.assert_allclose(found[0], best, atol=1e-13)
    m, nu, c, w = args
    q = m + nu * np.random.default_rng(6).normal(size=m.shape)
    ours = route_batch(m, nu, c, policy="kg", refined=q)
    choice, count = routed(m, q, nu, c, w)
    assert (choice == ours.choice).all()
    assert (count == ours.n_refine).all()


@pytest.mark.parametrize("peer", [hull_by_pairs, hull_by_pairs_lean])
def test_hulls_by_pairs(peer):
    """Another algorithm, the same curve and area; oracle case 13."""
    points = np.array([(0.5, 0.2), (1, 0.6), (1.5, 0.55), (2.5, 0.62), (3, 0.7)])
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 3, 25))
    for cloud in (points, np.column_stack([x, np.sqrt(x) + 0.3 * rng.normal(size=25)])):
        hull, other = nondecreasing_hull(cloud), peer(cloud)
        curves = [np.interp(cloud[:, 0], *one.T) for one in (hull, other)]
        np.testing.assert_allclose(*curves, atol=1e-12)
        assert len(other) >= len(hull)
        assert (curves[1] >= cloud[:, 1] - 1e-12).all()


def test_public_sets_are_named_as_missing(monkeypatch):
    monkeypatch.delenv("PORISM_DATA", raising=False)
    rows = [benchmark() for benchmark in PUBLIC]
    assert len(rows) == 8
    assert all("PORISM_DATA" in row["missing"] and "https://" in row["missing"] for row in rows)
    assert all(benchmark.__doc__ for benchmark in BENCHMARKS)
