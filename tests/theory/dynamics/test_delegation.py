"""Skill and delegation: the printed cases, a second integrator, and a property for each theorem."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.theory.dynamics import LAWS, DelegationModel, Orbit, PhasePlane

CASE = DelegationModel(1, 0.6, 1, 0.7)
LOGISTIC = DelegationModel(1, 0.6, 1, 0.7, law="logistic", gain=12)
THRICE = DelegationModel(0.25, 6, 5, 0.9)
CROSSING_STARTS = [(CASE, 0.45, 0.5), (CASE, 0.3, 0.2), (THRICE, 0.45, 0.01), (LOGISTIC, 0.45, 0.5)]

rates = st.floats(0.3, 3.0)
skills = st.floats(0.0, 1.0)


def models(law=None):
    laws = st.sampled_from(LAWS) if law is None else st.just(law)

    def build(law, a, b, k, q, gamma):
        return DelegationModel(a, b, k, q, law, gamma if law == "logistic" else None)

    return st.builds(build, laws, rates, rates, rates, st.floats(0.2, 0.8), st.floats(4.5, 20))


# the printed cases: two integrators agreed on them to 1e-11


def test_fixed_delegation():
    for quality in (0.3, 0.9):
        model = DelegationModel(1, 0.6, 1, quality)
        assert float(model.fixed_delegation(0.2, 0.3, 1.5)) == pytest.approx(0.6363876156, abs=5e-11)
        assert float(model.fixed_delegation(0.2, 0.3, 1e3)) == pytest.approx(0.7954545455, abs=5e-11)


@pytest.mark.parametrize(
    ("model", "start", "t", "state"),
    [
        (CASE, (0.45, 0.5), 1, (0.52993472, 0.55021836)),
        (CASE, (0.45, 0.5), 5, (0.45848693, 0.71733315)),
        (CASE, (0.3, 0.2), 1, (0.63008151, 0.23535386)),
        (DelegationModel(0.5, 0.3, 2, 0.6), (0.2, 0.7), 1, (0.23679655, 0.83180448)),
        (DelegationModel(0.5, 0.3, 2, 0.6), (0.2, 0.7), 5, (0.1176731, 0.99265126)),
        (LOGISTIC, (0.45, 0.5), 1, (0.44518732, 0.78057545)),
        (LOGISTIC, (0.45, 0.5), 5, (0.08393008, 0.99377533)),
    ],
)
def test_printed_states(model, start, t, state):
    orbit = model.trajectory(*start, t)
    assert (orbit.skill[0], orbit.delegation[0]) == pytest.approx(state, abs=6e-9)


@pytest.mark.parametrize(
    ("model", "start", "time"),
    [
        (CASE, (0.45, 0.5), 0.31108038),
        (CASE, (0.3, 0.2), 0.35602902),
        (DelegationModel(0.5, 0.3, 2, 0.6), (0.2, 0.7), 1.12114417),
        (LOGISTIC, (0.45, 0.5), 0.36406054),
    ],
)
def test_printed_crossings(model, start, time):
    assert model.crossing_time(*start) == pytest.approx(time, abs=6e-9)
    assert len(model.sign_changes(*start)) == 1


def test_printed_ends():
    assert [CASE.verdict(0.45, 0.5), CASE.verdict(0.3, 0.2)] == ["low", "high"]
    assert CASE.trajectory(0.45, 0.5, 200.0).skill[0] < 1e-9
    assert CASE.trajectory(0.3, 0.2, 200.0).skill[0] > 1 - 1e-9


def test_printed_border_and_area():
    border = CASE.separatrix()
    known = [0.3047595962, 0.3472284976, 0.3928367685, 0.4410762721]
    np.testing.assert_allclose(border([0.2, 0.4, 0.6, 0.8]), known, atol=1e-10)
    # runs with 2e-14 a step from 1e-7 and from 1e-8 beside the saddle agreed on these
    known = [0.304759596162820, 0.347228497588029, 0.392836768542684, 0.441076272069966]
    np.testing.assert_allclose(border([0.2, 0.4, 0.6, 0.8]), known, atol=1e-13)
    # 20 digits from a power series of the border at the saddle and Taylor steps from there
    assert CASE.low_skill_area() == pytest.approx(0.62734676408307697, abs=1e-11)
    saddle = CASE.equilibria()[1]
    assert saddle.point == pytest.approx([0.7, 0.4166666667], abs=1e-10)
    assert float(border(0.7)) == pytest.approx(saddle.point[1], abs=1e-12)


def test_three_crossings():
    known = [0.1846128039, 2.2002117585, 6.8189923554]
    np.testing.assert_allclose(THRICE.sign_changes(0.45, 0.01), known, atol=2e-10)
    assert THRICE.crossing_time(0.45, 0.01) == THRICE.sign_changes(0.45, 0.01)[-1]
    assert THRICE.crossing_time(0.45, 0.01) < 6.8189923690


def test_printed_logistic():
    points = np.array([e.point for e in LOGISTIC.equilibria()])
    known = [(0.000376334, 0.999774166), (0.748171546, 0.359379444), (0.979452531, 0.033783012)]
    np.testing.assert_allclose(points, known, atol=6e-10)
    assert [e.kind for e in LOGISTIC.equilibria()] == ["stable node", "saddle", "stable node"]
    assert LOGISTIC.bistable_window() == pytest.approx((0.3253564840, 0.7597811200), abs=1e-10)
    window = DelegationModel(1, 1, 1, 0.5, law="logistic", gain=8).bistable_window()
    assert window == pytest.approx((0.3667900062, 0.6332099938), abs=1e-10)
    areas = [DelegationModel(1, 0.6, 1, q, "logistic", 12).low_skill_area() for q in (0.35, 0.45, 0.55, 0.75)]
    np.testing.assert_allclose(areas, [0.046, 0.201, 0.436, 0.938], atol=5e-4)


@pytest.mark.parametrize(
    ("q", "area"),
    [(0.3, 0.17303027), (0.5, 0.37647266), (0.6, 0.49805453), (0.8, 0.75874908), (0.85, 0.82318903)],
)
def test_printed_areas(q, area):
    assert DelegationModel(1, 0.6, 1, q).low_skill_area() == pytest.approx(area, abs=6e-9)


# against the slow way


@pytest.mark.parametrize("model", [CASE, LOGISTIC, DelegationModel(0.5, 1.5, 3, 0.4)], ids=["A", "B", "A2"])
def test_another_integrator(model, plain):
    t = np.linspace(0, 15, 31)
    for start in ((0.0, 0.9), (0.45, 0.5), (1.0, 0.05)):
        orbit, (s, d) = model.trajectory(*start, t), plain.run(model, start, t)
        np.testing.assert_allclose(orbit.skill, s, atol=1e-8)  # LSODA at 1e-11 a step
        np.testing.assert_allclose(orbit.delegation, d, atol=1e-8)
        np.testing.assert_allclose(orbit.performance, (1 - d) * s + d * model.quality, atol=1e-8)
        np.testing.assert_allclose(orbit.alone, 1 - (1 - start[0]) * np.exp(-model.learn * t), atol=1e-14)
        np.testing.assert_array_equal(model.performance(*start, t), orbit.performance)


@pytest.mark.parametrize("s", [0.2, 0.9])
def test_border_by_runs_forward(s, plain):
    for model in (CASE, DelegationModel(1, 0.6, 1, 0.55, "logistic", 12)):
        assert float(model.separatrix()(s)) == pytest.approx(plain.border(model, s, 27), abs=1e-8)


@pytest.mark.parametrize("k", [1e-4, 0.05, 1.0, 40.0, 1e4, 1e6])
def test_area_by_quadrature_at_every_speed(k):
    """The third state of the run against Gauss's rule on the border, where the border is smooth enough."""
    for law in ({}, {"law": "logistic", "gain": 12.0}):
        model = DelegationModel(1, 0.6, k, 0.6, **law)
        border = model.separatrix()
        x = (np.arange(4000) + 0.5) / 4000
        assert model.low_skill_area() == pytest.approx(
            1 - border(x).mean(), abs=2e-4
        )  # a cell of a steep border
        if k <= 1:
            kinks = [0, *(s for s, d in border.points[[0, -1]] if 0 < s < 1), 1]
            nodes, weights = np.polynomial.legendre.leggauss(60)
            total = 0.0
            for low, high in itertools.pairwise(kinks):
                s = low + (high - low) * (nodes + 1) / 2
                total += (high - low) / 2 * weights @ (1 - border(s))
            assert model.low_skill_area() == pytest.approx(total, abs=1e-9)


def test_stiff_worlds():
    """Trust a million times faster than skill: law A never, law B by an implicit method."""
    for law, level in (({}, 1.0), ({"law": "logistic", "gain": 12.0}, 1 / (1 + math.exp(-12 * 0.4)))):
        orbit = DelegationModel(1, 0.6, 1e6, 0.7, **law).trajectory(0.3, 0.5, [1e-3, 20.0])
        assert orbit.delegation[0] == pytest.approx(level, abs=1e-3)
        assert orbit.skill[1] < 1e-3


# one property a theorem


@settings(max_examples=40, deadline=None)
@given(rates, rates, st.floats(0.05, 0.95), skills, st.floats(0, 20))
def test_sd1_property(a, b, d, s0, t):
    """It solves ds/dt = a (1-d)(1-s) - b d s, from s0, and stays between s0 and s*."""
    model = DelegationModel(a, b, 1, 0.5)
    rate, rest = a * (1 - d) + b * d, a * (1 - d) / (a * (1 - d) + b * d)
    s, later = model.fixed_delegation(s0, d, [t, t + 1e-4])
    assert (later - s) / 1e-4 == pytest.approx(a * (1 - d) * (1 - s) - b * d * s, abs=1e-3 * (1 + rate))
    assert min(s0, rest) - 1e-12 <= s <= max(s0, rest) + 1e-12
    assert float(model.fixed_delegation(s0, d, 0.0)) == pytest.approx(s0, abs=1e-15)


@settings(max_examples=40, deadline=None)
@given(models())
def test_sd2_and_sd8_property(model):
    """Both velocities vanish, and eigenvalues are those of differences of the equations."""
    plane = model.plane()
    for found in model.equilibria():
        assert np.abs(plane.velocity(*found.point)).max() < 1e-13
        J = PhasePlane(plane.f).jacobian(*found.point)
        # differences of fourth order, steps of 1e-3: h^4 / 30 times a fifth derivative of at most gamma^5
        near = 1e-9 + 1e-13 * (model.gain or 0.0) ** 5
        assert found.eigenvalues.sum() == pytest.approx(np.trace(J), abs=near)
        assert found.eigenvalues.prod() == pytest.approx(np.linalg.det(J), abs=10 * near)
    kinds, window = [e.kind for e in model.equilibria()], model.bistable_window()
    if min(abs(model.quality - end) for end in window) > 1e-6:
        inside = window[0] < model.quality < window[1]
        assert kinds == (["stable node", "saddle", "stable node"] if inside else ["stable node"])


@settings(max_examples=25, deadline=None)
@given(models())
def test_sd3_property(model):
    weight = (lambda s, d: 1 / (d * (1 - d))) if model.gain is None else (lambda s, d: np.ones_like(d))
    assert model.plane().dulac(weight, 30) < 0


@settings(max_examples=15, deadline=None)
@given(models(), skills, skills, skills, skills)
def test_sd4_property(model, s, d, less, more):
    """Less skill and more delegation stay so; and then low skill for the one ahead means low for both."""
    t = [0.1, 1.0, 3.0, 10.0]
    ahead, behind = model.trajectory(s, d, t), model.trajectory(s * less, d + (1 - d) * more, t)
    assert (ahead.skill - behind.skill).min() > -1e-9
    assert (behind.delegation - ahead.delegation).min() > -1e-9
    words = model.verdict(s, d), model.verdict(s * less, d + (1 - d) * more)
    assert words != ("low", "high")


@settings(max_examples=15, deadline=None)
@given(models(), st.floats(1.01, 1.5), st.floats(0.005, 0.1))
def test_sd5_property(model, factor, step):
    a, b, k, q, rest = model.learn, model.forget, model.speed, model.quality, (model.law, model.gain)
    area = model.low_skill_area()
    assert DelegationModel(a, b, k, q + step, *rest).low_skill_area() > area - 1e-10
    assert DelegationModel(a, b * factor, k, q, *rest).low_skill_area() > area - 1e-10
    assert DelegationModel(a * factor, b, k, q, *rest).low_skill_area() < area + 1e-10
    if model.gain is None:
        assert DelegationModel(a, b, k, q + step).low_skill_area() > area + 1e-5


@settings(max_examples=10, deadline=None)
@given(rates, rates, st.floats(0.2, 0.8))
def test_sd6_property(a, b, q):
    """Both limits: the distance is of order k, and of order k^-1/2, with factors below 10 for these rates."""
    slow = b * q / (a * (1 - q) + b * q)
    for k in (1e-3, 1e-8, 1e-14):
        assert DelegationModel(a, b, k, q).low_skill_area() == pytest.approx(slow, abs=10 * k + 1e-9)
    assert DelegationModel(a, b, 1e8, q).low_skill_area() == pytest.approx(q, abs=1e-3)
    assert [e.kind for e in DelegationModel(a, b, 1e-14, q).equilibria()][1] == "saddle"


def test_sd6_not_monotone():
    area = [DelegationModel(1, 0.6, k, 0.7).low_skill_area() for k in (0.001, 0.1, 1, 10, 100, 1000)]
    np.testing.assert_allclose(area, [0.5834, 0.5890, 0.6273, 0.7226, 0.7155, 0.7048], atol=6e-5)
    area = [DelegationModel(1, 0.6, k, 0.6).low_skill_area() for k in (0.001, 0.1, 1, 10, 100, 1000)]
    assert np.diff(area).min() > 0


@settings(max_examples=15, deadline=None)
@given(models("replicator"), st.floats(1e-3, 1e3), skills)
def test_sd7_property(model, factor, s):
    """Errors of 1e-11 a step, at most a hundred steps."""
    a, b, k, q = model.learn, model.forget, model.speed, model.quality
    other = DelegationModel(b, a, k, 1 - q)
    assert model.low_skill_area() == pytest.approx(1 - other.low_skill_area(), abs=1e-9)
    assert float(model.separatrix()(s)) == pytest.approx(1 - float(other.separatrix()(1 - s)), abs=1e-9)
    scaled = DelegationModel(a * factor, b * factor, k * factor, q)
    assert scaled.low_skill_area() == pytest.approx(model.low_skill_area(), abs=1e-9)
    assert DelegationModel(a, a, k, 0.5).low_skill_area() == pytest.approx(0.5, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(rates, rates, rates, st.floats(4.2, 30), st.floats(-0.3, 1.3))
def test_sd8_property(a, b, k, gamma, place):
    """Three points inside the window, one outside, whatever k; each on q(s)."""
    low, high = DelegationModel(a, b, k, 0.5, "logistic", gamma).bistable_window()
    q = low + place * (high - low)
    model = DelegationModel(a, b, k, q, "logistic", gamma)
    found = model.equilibria()
    apart = min(abs(place), abs(place - 1)) > 1e-6
    assert len(found) == (3 if 0 < place < 1 else 1) or not apart
    for s, d in (e.point for e in found):
        if 1e-12 < s < 1 - 1e-12:
            assert s + math.log(a * (1 - s) / (b * s)) / gamma == pytest.approx(q, abs=1e-9 + 1e-15 / (1 - s))
        assert d == pytest.approx(a * (1 - s) / (a * (1 - s) + b * s), abs=1e-12)
    again = [e.kind for e in DelegationModel(a, b, 50 * k, q, "logistic", gamma).equilibria()]
    assert again == [e.kind for e in found] or not apart
    assert DelegationModel(a, b, k, q, "logistic", min(gamma, 4.0)).bistable_window() is None


@settings(max_examples=25, deadline=None)
@given(models(), st.floats(0.0, 0.99), st.floats(0.01, 1.0))
def test_sd9_property(model, share, d0):
    """A gain at first, none after t*, and t* not beyond the bound; none at all from above q."""
    q, a = model.quality, model.learn
    s0 = share * q
    end, bound = model.crossing_time(s0, d0), math.log((1 - s0) / (1 - q)) / a
    assert 0 < end <= bound * (1 + 1e-12)
    assert len(model.sign_changes(s0, d0)) % 2 == 1

    def gain(s0, times):
        orbit = model.trajectory(s0, d0, times)
        return orbit.performance - orbit.alone

    assert gain(s0, [0.0])[0] > 0
    assert gain(s0, end + bound * np.array([1e-3, 0.1, 1.0, 5.0])).max() < 1e-10
    s0 = q + share * (1 - q)
    assert model.crossing_time(s0, d0) is None
    assert gain(s0, np.linspace(0, 10, 40)).max() < 1e-10


def test_sd9_signs_of_runs(plain):
    """Sign changes of LSODA's runs on a fine grid."""
    for model, s0, d0 in CROSSING_STARTS:
        found = model.sign_changes(s0, d0)
        t = np.linspace(0, 1.1 * found[-1], 4001)
        s, d = plain.run(model, (s0, d0), t)
        gain = (1 - d) * s + d * model.quality - 1 + (1 - s0) * np.exp(-model.learn * t) > 0
        turns = t[1:][gain[1:] != gain[:-1]]
        np.testing.assert_allclose(turns, found, atol=t[1])


# edges


def test_quality_outside_of_the_unit_interval():
    for q, kinds, area in (
        (1.3, ["stable node", "saddle"], 1.0),
        (1.0, ["stable node", "degenerate"], 1.0),
        (0.0, ["degenerate", "stable node"], 0.0),
        (-0.5, ["saddle", "stable node"], 0.0),
    ):
        model = DelegationModel(1, 0.6, 1, q)
        assert [e.kind for e in model.equilibria()] == kinds
        assert [e.point.tolist() for e in model.equilibria()] == [[0, 1], [1, 0]]
        assert model.low_skill_area() == area
        assert model.verdict(0.5, 0.5) == ("low" if area else "high")
        with pytest.raises(AssumptionError, match=r"^no interior saddle"):
            model.separatrix()
    end = DelegationModel(1, 0.6, 1, 1.3).trajectory(0.9, 0.01, 100.0)
    assert end.delegation[0] > 1 - 1e-9


def test_one_basin_of_the_logistic_law():
    for q, word, area in ((0.2, "high", 0.0), (0.9, "low", 1.0)):
        model = DelegationModel(1, 0.6, 1, q, "logistic", 12)
        assert (model.verdict(0.1, 0.9), model.low_skill_area()) == (word, area)
        with pytest.raises(
            AssumptionError, match=r"^no interior saddle .* it lies in \(0.325356, 0.759781\)"
        ):
            model.separatrix()
    weak = DelegationModel(1, 1, 1, 0.5, "logistic", 3.9)
    assert weak.bistable_window() is None
    assert DelegationModel(1, 1, 1, 0.5, "logistic", 4).bistable_window() is None
    assert weak.verdict(0.1, 0.9) == "undecided"  # it rests at s = 1/2
    assert weak.low_skill_area() == 0
    with pytest.raises(AssumptionError, match=r"^no interior saddle .* one point attracts all"):
        weak.separatrix()


def test_unit_of_time():
    """Only ratios of rates matter; in seconds or years, the curve and orbits are the same."""
    for model in (CASE, LOGISTIC):
        for unit in (1e-300, 1e-13, 1e6, 1e13, 1e150):
            rates = model.learn * unit, model.forget * unit, model.speed * unit
            scaled = DelegationModel(*rates, model.quality, model.law, model.gain)
            assert scaled.low_skill_area() == pytest.approx(model.low_skill_area(), abs=1e-9)
            skill = scaled.trajectory(0.45, 0.5, 1 / unit).skill
            np.testing.assert_allclose(skill, model.trajectory(0.45, 0.5, 1.0).skill, rtol=1e-9)


def test_rates_far_apart():
    """The symmetry of SD-7 where the saddle is close to an edge, and a refusal where digits run out."""
    for ratio in (1e4, 1e8):
        for law, gain in (("replicator", None), ("logistic", 12.0)):
            rates = ratio**-0.5, ratio**0.5
            window = DelegationModel(*rates, 1, 0.5, law, gain).bistable_window()
            q = window[0] + 0.6 * (window[1] - window[0])
            area = DelegationModel(*rates, 1, q, law, gain).low_skill_area()
            other = DelegationModel(*rates[::-1], 1, 1 - q, law, gain).low_skill_area()
            assert area == pytest.approx(1 - other, abs=1e-9)
            assert 1e-7 < 1 - area < 0.05
    for rates, law in (((1e-50, 1e50, 1), ("replicator",)), ((1, 1, 1e9), ("logistic", 12))):
        far = DelegationModel(*rates, 0.5, *law)
        for call in (far.low_skill_area, far.separatrix, lambda far=far: far.verdict(0.3, 0.4)):
            with pytest.raises(ValueError, match=r"^learn and forget must be at least .* of the largest"):
                call()


def test_steep_trust():
    """As gamma grows the window tends to (0, 1), and rest far outside of it is at an end."""
    for gamma in (1e12, 1e17, 1e300):
        low, high = DelegationModel(1, 0.6, 1, 0.7, "logistic", gamma).bistable_window()
        assert 0 <= low < (3 + math.log(gamma)) / gamma
        assert 1 - high < 1e-10
        kinds = [e.kind for e in DelegationModel(1, 0.6, 1, 0.7, "logistic", gamma).equilibria()]
        assert kinds == ["stable node", "saddle", "stable node"]
    for q, word in ((1e300, "low"), (-1e300, "high")):
        model = DelegationModel(1, 0.6, 1, q, "logistic", 12)
        assert (model.verdict(0.3, 0.4), len(model.equilibria())) == (word, 1)


def test_edges_of_the_replicator_law():
    """Nobody leaves d = 0 or d = 1; there the law of fixed delegation holds."""
    t = np.array([0.0, 0.7, 30.0])
    for d, word in ((0.0, "high"), (1.0, "low")):
        orbit = CASE.trajectory(0.4, d, t)
        np.testing.assert_array_equal(orbit.delegation, d)
        np.testing.assert_allclose(orbit.skill, CASE.fixed_delegation(0.4, d, t), atol=1e-15)
        assert CASE.verdict(0.4, d) == word
    assert CASE.crossing_time(0.4, 0.0) is None
    assert LOGISTIC.crossing_time(0.4, 0.0) > 0  # under the other law delegation starts by itself
    assert LOGISTIC.sign_changes(0.4, 0.0).size == 1
    assert CASE.crossing_time(0.7, 0.5) is None
    tiny = CASE.trajectory(0.4, 1e-300, 2.0)
    assert 0 < tiny.delegation[0] < 1e-299
    assert CASE.crossing_time(0.4, 1.0) > 0
    assert CASE.crossing_time(0.4, 1 - 1e-16) > 0


def test_undecided_near_the_border():
    d = float(CASE.separatrix()(0.3))
    words = [CASE.verdict(0.3, d + shift) for shift in (-1e-5, -5e-7, 0, 5e-7, 1e-5)]
    assert words == ["high", "undecided", "undecided", "undecided", "low"]
    steep = DelegationModel(1, 0.6, 1e6, 0.6)  # there the border is a vertical line at s = q
    s = float(np.interp(0.5, *steep.separatrix().points.T[::-1]))
    words = [steep.verdict(s + shift, 0.5) for shift in (-1e-4, 0, 1e-4)]
    assert words == ["low", "undecided", "high"]


def test_border_beyond_the_square():
    """Under law B it may leave through the lower and the upper edge."""
    border = DelegationModel(1, 0.6, 30, 0.6, "logistic", 12).separatrix()
    (low, bottom), (high, top) = border.points[[0, -1]]
    assert (bottom, top) == pytest.approx((0, 1), abs=1e-12)
    assert border([0.0, low - 1e-3, high + 1e-3, 1.0]).tolist() == [0, 0, 1, 1]
    assert 0.2 < low < high < 0.9
    assert (np.diff(border(np.linspace(0, 1, 501))) >= 0).all()
    assert border.points.shape[1] == 2
    border.points[:] = 0  # a copy
    assert border.points.max() == 1
    assert border(np.full((2, 3), 0.5)).shape == (2, 3)
    # the edges of the square belong to it
    assert CASE.separatrix()([0.0, 1.0]).tolist() == pytest.approx(
        CASE.separatrix().points[[0, -1], 1].tolist()
    )


def test_results_are_kept(tmp_path):
    orbit = CASE.trajectory(0.4, 0.5, [0, 1])
    orbit.save(tmp_path / "orbit.npz")
    np.testing.assert_array_equal(Orbit.load(tmp_path / "orbit.npz").skill, orbit.skill)
    LOGISTIC.low_skill_area()
    LOGISTIC.save(tmp_path / "model.npz")
    assert DelegationModel.load(tmp_path / "model.npz") == LOGISTIC
    assert hash(LOGISTIC) == hash(DelegationModel(1.0, 0.6, 1.0, 0.7, "logistic", 12.0))
    assert CASE.trajectory(0.4, 0.5, []).skill.size == 0
    assert CASE.performance(0.4, 0.5, 1.0).shape == ()
    times = np.array([[1.0, 2.0], [0.0, 3.0]])
    flat = CASE.trajectory(0.4, 0.5, times.ravel()).performance
    np.testing.assert_array_equal(CASE.performance(0.4, 0.5, times), flat.reshape(2, 2))


def test_bad_input():
    for name in ("learn", "forget", "speed"):
        for bad in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(ValueError, match=rf"^{name} must be finite and > 0"):
                DelegationModel(**{"learn": 1, "forget": 1, "speed": 1, "quality": 0.5, name: bad})
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"^quality must be finite"):
            DelegationModel(1, 1, 1, bad)
    with pytest.raises(TypeError, match=r"^learn must be a real number"):
        DelegationModel("1", 1, 1, 0.5)
    with pytest.raises(ValueError, match=r"^law must be one of 'replicator', 'logistic'"):
        DelegationModel(1, 1, 1, 0.5, law="C")
    with pytest.raises(ValueError, match=r"^gain must be a number > 0 with law='logistic', got None"):
        DelegationModel(1, 1, 1, 0.5, law="logistic")
    with pytest.raises(ValueError, match=r"^gain must be finite and > 0"):
        DelegationModel(1, 1, 1, 0.5, law="logistic", gain=0)
    with pytest.raises(ValueError, match=r"^gain must be left out with law='replicator'"):
        DelegationModel(1, 1, 1, 0.5, gain=12)
    for call in (
        CASE.verdict,
        CASE.crossing_time,
        CASE.sign_changes,
        lambda s, d: CASE.trajectory(s, d, 1.0),
    ):
        with pytest.raises(ValueError, match=r"^s0 must be in \[0, 1\]"):
            call(-0.1, 0.5)
        with pytest.raises(ValueError, match=r"^d0 must be in \[0, 1\]"):
            call(0.5, 1.1)
    with pytest.raises(ValueError, match=r"^t must be >= 0"):
        CASE.trajectory(0.5, 0.5, [1.0, -1.0])
    with pytest.raises(ValueError, match=r"^t must have at most one axis, got shape \(1, 2\)"):
        CASE.trajectory(0.5, 0.5, [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"^orbits must be smooth, but integration stopped at time 0 "):
        DelegationModel(1, 1, 1, 1e300).trajectory(0.3, 0.6, 1.0)
    with pytest.raises(ValueError, match=r"^t must be finite"):
        CASE.fixed_delegation(0.5, 0.5, np.inf)
    with pytest.raises(ValueError, match=r"^s must be in \[0, 1\]"):
        CASE.separatrix()([0.5, 1.5])
    with pytest.raises(AssumptionError, match=r"^quality must be < 1"):
        DelegationModel(1, 0.6, 1, 1.2).crossing_time(0.5, 0.5)
