"""Phase planes with answers known by hand: pendulum, competition, a tilted saddle, a cycle."""

import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.theory.dynamics import DelegationModel, Equilibrium, PhasePlane, classify

COMPETITION = PhasePlane(lambda x, y: (x * (3 - x - 2 * y), y * (2 - x - y)), box=((0, 4), (0, 3)))
"""Strogatz, section 6.4: rabbits and sheep."""


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([-1, 2], "saddle"),
        ([-1, -2], "stable node"),
        ([3, 1], "unstable node"),
        ([-0.1 + 1j, -0.1 - 1j], "stable focus"),
        ([0.1 + 1j, 0.1 - 1j], "unstable focus"),
        ([1j, -1j], "centre"),
        ([0.0, -1.0], "degenerate"),
        ([1e-12, 1.0], "degenerate"),
        ([0.0, 0.0], "degenerate"),
    ],
)
def test_classify(values, kind):
    assert classify(values) == kind


@pytest.mark.parametrize("bad", [[1.0], [1.0, np.nan], ["a", "b"], [[1, 2]]])
def test_classify_refuses(bad):
    with pytest.raises(ValueError, match="eigenvalues must be two finite numbers"):
        classify(bad)
    with pytest.raises(ValueError, match="zero must be"):
        classify([1.0, 2.0], zero=-1.0)


@pytest.mark.parametrize(("law", "gain"), [("replicator", None), ("logistic", 12.0)])
def test_a_model_travels_to_another_process_with_its_border(law, gain):
    model = DelegationModel(1, 0.6, 1, 0.7, law, gain)
    border = model.separatrix()
    for copy in (pickle.loads(pickle.dumps(border)), pickle.loads(pickle.dumps(model)).separatrix()):
        assert copy([0.2, 0.9]).tolist() == border([0.2, 0.9]).tolist()


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda x, y: (x - y, x - y), "degenerate"),  # a double zero, which rounding splits
        (lambda x, y: (x**2 - y, (x**2 - y) * (1 + x)), "degenerate"),
        (lambda x, y: ((x - 0.3) ** 2, (y - 0.3) ** 2), "degenerate"),
        (lambda x, y: (y - 0.3, (x - 0.3) ** 2), "degenerate"),
        (lambda x, y: (y, -x), "centre"),
        (lambda x, y: (y, -1e-10 * x), "centre"),
        (lambda x, y: (-1e-6 * x, -y), "stable node"),
        (lambda x, y: (-x + (1 - 1e-6) * y, (1 - 1e-6) * x - y), "stable node"),  # eigenvalues -1e-6 and -2
        (lambda x, y: (-x + 1e6 * y, -y), "stable node"),  # far from normal, but regular
    ],
)
def test_singular_to_rounding(f, kind, unit):
    plane = PhasePlane(lambda x, y: tuple(unit * part for part in f(x, y)), box=((-1, 1), (-1, 1)))
    assert {point.kind for point in plane.equilibria(100)} == {kind}


def test_singular_in_units_of_the_box():
    far = PhasePlane(lambda x, y: (x - y, x - y), box=((1000, 1001), (1000, 1001)))
    flat = PhasePlane(lambda x, y: (x - 1e6 * y, 1e-6 * x - y), box=((-1e6, 1e6), (-1, 1)))
    exact = PhasePlane(lambda x, y: (x - y, x - y), jac=lambda x, y: ((1, -1), (1, -1)))
    for plane in (far, flat, exact):
        assert {point.kind for point in plane.equilibria(100)} == {"degenerate"}
    with pytest.raises(AssumptionError, match="saddle must be an equilibrium"):
        flat.separatrix([0, 0])
    slow = PhasePlane(lambda x, y: (y, -1e-12 * x), box=((-1e6, 1e6), (-1, 1)))
    assert [point.kind for point in slow.equilibria(100)] == ["centre"]


def test_competition():
    found = COMPETITION.equilibria()
    assert [(*e.point.round(9).tolist(), e.kind) for e in found] == [
        (0, 0, "unstable node"),
        (0, 2, "stable node"),
        (1, 1, "saddle"),
        (3, 0, "stable node"),
    ]
    np.testing.assert_allclose(found[2].eigenvalues, [-1 - 2**0.5, -1 + 2**0.5], atol=1e-10)
    curve = COMPETITION.separatrix(found[2])
    np.testing.assert_allclose(curve[0], [0, 0], atol=1e-9)  # it comes from where both die out
    assert curve[-1, 0] == pytest.approx(4, abs=1e-9)
    below = COMPETITION.basin_area(found[2])
    assert below + COMPETITION.basin_area(found[2], below=False) == pytest.approx(12, abs=1e-12)
    # trapezoids between points of the curve, and runs on either side of it
    rough = np.trapezoid(curve[:, 1], curve[:, 0])
    assert below == pytest.approx(rough, abs=2e-3)
    for x, y in curve[[int(np.abs(curve[:, 0] - at).argmin()) for at in (0.3, 2.5)]]:
        for shift, end in ((2e-3, [0, 2]), (-2e-3, [3, 0])):  # steps of second order err by 1e-4
            state = np.array([x, y + shift])
            for _ in range(6000):
                middle = state + 0.005 * COMPETITION.velocity(*state)
                state = state + 0.01 * COMPETITION.velocity(*middle)
            np.testing.assert_allclose(state, end, atol=1e-3)


def test_jacobian_by_differences():
    plane = PhasePlane(lambda x, y: (np.sin(3 * x) * y, np.exp(x - y)))
    given_ = PhasePlane(
        plane.f,
        jac=lambda x, y: ((3 * np.cos(3 * x) * y, np.sin(3 * x)), (np.exp(x - y), -np.exp(x - y))),
    )
    x, y = np.random.default_rng(0).uniform(size=(2, 5))
    assert plane.jacobian(x, y).shape == (2, 2, 5)
    np.testing.assert_allclose(plane.jacobian(x, y), given_.jacobian(x, y), atol=1e-10)  # 3^5 h^4 / 30
    assert given_.jacobian(0.1, 0.2).shape == (2, 2)


@settings(max_examples=25, deadline=None)
@given(st.floats(-1.2, 1.2), st.floats(0.3, 4), st.floats(0.3, 4), st.floats(-0.4, 0.4), st.floats(-0.4, 0.4))
@example(0.0625, 4.0, 0.3125, 0.0, 0.375)  # long steps beside the saddle lost half of the digits here
def test_a_tilted_saddle(angle, grow, decay, x0, y0):
    """The separatrix of a linear flow is a straight line, at any angle, and its area one of a polygon."""
    c, s = np.cos(angle), np.sin(angle)
    V = np.array([[c, -s], [s, c]])  # stable direction (c, s)
    A = V @ np.diag([-decay, grow]) @ V.T
    plane = PhasePlane(
        lambda x, y: (A[0, 0] * (x - x0) + A[0, 1] * (y - y0), A[1, 0] * (x - x0) + A[1, 1] * (y - y0)),
        box=((-1, 1), (-1, 1)),
    )
    (saddle,) = plane.equilibria(25)
    np.testing.assert_allclose(saddle.point, [x0, y0], atol=1e-12)
    assert saddle.kind == "saddle"
    np.testing.assert_allclose(saddle.eigenvalues, [-decay, grow], rtol=1e-9)
    curve = plane.separatrix(saddle)
    assert np.abs((curve - [x0, y0]) @ [-s, c]).max() < 1e-10  # ten steps of tolerance 1e-11
    assert np.abs(np.abs(curve[[0, -1]]).max(axis=1) - 1).max() < 1e-9
    assert curve[-1, 0] >= curve[0, 0]
    x = (np.arange(20_000) + 0.5) / 10_000 - 1
    height = np.clip(y0 + np.tan(angle) * (x - x0), -1, 1) + 1
    assert plane.basin_area(saddle) == pytest.approx(height.mean() * 2, abs=1e-6)  # midpoint rule, two kinks


def test_a_vertical_separatrix():
    plane = PhasePlane(lambda x, y: (x * (1 - x), -y), box=((-0.5, 1.5), (-1, 1)))
    curve = plane.separatrix([0, 0])
    assert np.abs(curve[:, 0]).max() < 1e-9
    assert sorted([plane.basin_area([0, 0]), plane.basin_area([0, 0], below=False)]) == pytest.approx([1, 3])


def test_a_double_root_and_none():
    plane = PhasePlane(lambda x, y: ((x - 0.3) ** 2, y - 0.5))
    (found,) = plane.equilibria()
    np.testing.assert_allclose(found.point, [0.3, 0.5], atol=1e-6)  # a double root: half the digits
    assert PhasePlane(lambda x, y: (1 + 0 * x, y)).equilibria(9) == []
    assert [e.kind for e in PhasePlane(lambda x, y: (y - 0.5, 0.5 - x)).equilibria(1)] == ["centre"]


def test_van_der_pol_has_a_cycle_and_no_dulac_function():
    plane = PhasePlane(lambda x, y: (y, (1 - x**2) * y - x), box=((-3, 3), (-3, 3)))
    assert [e.kind for e in plane.equilibria()] == ["unstable focus"]
    top = plane.dulac(lambda x, y: np.ones_like(x), 60)
    x = (np.arange(60) + 0.5) / 10 - 3
    assert top == pytest.approx((1 - x**2).max(), rel=1e-8)  # divergence 1 - x^2
    assert COMPETITION.dulac(lambda x, y: 1 / (x * y), 50) < 0


def test_a_separatrix_that_ends_inside():
    """One branch spirals out of a focus: it cuts nothing off."""
    plane = PhasePlane(lambda x, y: (-y, -(x - x**2 - 0.3 * y)), box=((-1, 2), (-1.5, 1.5)))
    found = {e.kind: e for e in plane.equilibria()}
    assert set(found) == {"saddle", "unstable focus"}
    curve = plane.separatrix(found["saddle"])
    ends = np.abs(curve[[0, -1]] - found["unstable focus"].point).max(axis=1)
    assert ends.min() < 1e-9
    with pytest.raises(AssumptionError, match="must reach the edge of the box at both ends"):
        plane.basin_area(found["saddle"])


def test_nullclines():
    plane = PhasePlane(lambda x, y: (y - x**2, (x - 0.5) * y * (1 - y)))
    first, second = plane.nullclines(80)
    assert len(first) == 1
    assert np.abs(first[0][:, 1] - first[0][:, 0] ** 2).max() < 1e-9
    assert first[0][:, 0].min() < 0.02
    assert first[0][:, 0].max() > 0.98
    points = np.concatenate(second)
    assert np.abs((points[:, 0] - 0.5) * points[:, 1] * (1 - points[:, 1])).max() < 1e-9
    for inside in (points[:, 0] == 0.5, points[:, 1] == 0, points[:, 1] == 1):  # edges too
        assert inside.sum() > 20


def test_unit_of_time():
    """However fast the field, it has the same separatrices."""
    for factor in (1e-100, 1.0, 1e13, 1e150):

        def field(s, d, c=factor):
            return c * ((1 - d) * (1 - s) - 0.6 * d * s), c * d * (1 - d) * (0.7 - s)

        plane = PhasePlane(field)
        saddle = next(e for e in plane.equilibria() if e.kind == "saddle")
        # closed equations of the same flow, traced in other coordinates
        known = DelegationModel(1, 0.6, 1, 0.7).low_skill_area()
        assert plane.basin_area(saddle, below=False) == pytest.approx(known, abs=1e-9)


def test_plot(tmp_path):
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    ax = COMPETITION.plot(n=40)
    assert {line.get_label() for line in ax.lines} >= {"dx/dt = 0", "dy/dt = 0", "separatrix"}
    given_ = pyplot.subplots()[1]
    assert COMPETITION.plot(given_, 20) is given_
    pyplot.close("all")


def test_the_general_tool_agrees_with_the_model():
    """Two coordinates, two codes: areas to 1e-9, points and eigenvalues."""
    for law in ({}, {"law": "logistic", "gain": 12}):
        model = DelegationModel(1, 0.6, 1, 0.6, **law)
        plane = PhasePlane(model.plane().f)  # Jacobian by differences
        found, closed = plane.equilibria(), model.equilibria()
        assert [e.kind for e in found] == [e.kind for e in closed]
        for one, two in zip(found, closed, strict=True):
            np.testing.assert_allclose(one.point, two.point, atol=1e-12)
            np.testing.assert_allclose(one.eigenvalues, two.eigenvalues, atol=1e-10)
        assert plane.basin_area(found[1], below=False) == pytest.approx(model.low_skill_area(), abs=1e-10)
        curve = plane.separatrix(found[1])
        np.testing.assert_allclose(model.separatrix()(curve[:, 0].clip(0, 1)), curve[:, 1], atol=1e-8)


def test_bad_input():
    good = lambda x, y: (x, -y)
    with pytest.raises(TypeError, match="f must be a function of x and y"):
        PhasePlane(3)
    with pytest.raises(TypeError, match="jac must be a function of x and y"):
        PhasePlane(good, jac=3)
    for box in (((0, 1), (1, 0)), ((0, 1), (0, 0)), (0, 1)):
        with pytest.raises(ValueError, match="box must"):
            PhasePlane(good, box=box)
    with pytest.raises(ValueError, match="box must be finite"):
        PhasePlane(good, box=((0, np.inf), (0, 1)))
    with pytest.raises(ValueError, match="f must take arrays x and y elementwise"):
        PhasePlane(lambda x, y: (x if x > 0.5 else y, y))
    with pytest.raises(ValueError, match="f must take arrays x and y elementwise"):
        PhasePlane(lambda x, y: x)
    with pytest.raises(ValueError, match="f must be finite inside the box"):
        PhasePlane(lambda x, y: (np.where(x > 0.5, np.nan, x), y))
    plane = PhasePlane(good, box=((-1, 1), (-1, 1)))
    for call in (plane.equilibria, lambda n: plane.dulac(lambda x, y: x, n), lambda n: plane.nullclines(n)):
        with pytest.raises(ValueError, match="must be >= "):
            call(0)
    with pytest.raises(TypeError, match="weight must be a function of x and y"):
        plane.dulac(3)
    with pytest.raises(ValueError, match="weight must be finite inside the box"):
        plane.dulac(lambda x, y: np.where(x > 0, np.inf, 1.0), 10)
    with pytest.raises(ValueError, match="saddle must be a point"):
        plane.separatrix([0, 3])
    with pytest.raises(AssumptionError, match="saddle must be an equilibrium with eigenvalues of both signs"):
        plane.separatrix([0.5, 0.5])
    with pytest.raises(AssumptionError, match="both signs"):
        PhasePlane(lambda x, y: (-x, -y), box=((-1, 1), (-1, 1))).separatrix([0, 0])


def test_equilibrium_is_kept(tmp_path):
    (found,) = PhasePlane(lambda x, y: (y - 0.5, 0.5 - x)).equilibria(4)
    found.save(tmp_path / "point.npz")
    back = Equilibrium.load(tmp_path / "point.npz")
    assert back.kind == "centre"
    np.testing.assert_array_equal(back.eigenvalues, found.eigenvalues)
