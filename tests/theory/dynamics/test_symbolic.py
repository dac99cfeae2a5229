"""Each derivation against the numeric function that uses it."""

import helpers
import numpy as np
import pytest

from porism.theory.dynamics import DelegationModel, symbolic

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]

VALUES = {"a": 1.3, "b": 0.6, "k": 2.0, "q": 0.7, "gamma": 12.0, "s": 0.35, "d": 0.45}


def number(expression, **changes):
    """Value at VALUES for the symbols of these names."""
    return helpers.number(expression, **VALUES | changes)


def model(law="replicator", **changes):
    values = VALUES | changes
    gain = values["gamma"] if law == "logistic" else None
    return DelegationModel(values["a"], values["b"], values["k"], values["q"], law, gain)


def test_fixed_delegation():
    rest, curve = (equation.rhs for equation in symbolic.fixed_delegation())
    found = number(curve, **{"s^*": number(rest), "s_0": 0.2, "t": 1.5})
    assert found == pytest.approx(float(model().fixed_delegation(0.2, 0.45, 1.5)), rel=1e-13)


def test_nodes_and_saddle(plain):
    full, none, rest, trace, det = (equation.rhs for equation in symbolic.nodes_and_saddle())
    for matrix, point in ((full, (1, 0)), (none, (0, 1))):
        numbers = np.array(matrix.subs({s: VALUES[s.name] for s in matrix.free_symbols})).astype(float)
        np.testing.assert_allclose(numbers, plain.jacobian(model(), *point), atol=1e-9)
    low, saddle, high = model().equilibria()
    assert saddle.point == pytest.approx([0.7, number(rest)], rel=1e-13)
    assert saddle.eigenvalues.sum() == pytest.approx(number(trace), rel=1e-12)
    assert saddle.eigenvalues.prod() == pytest.approx(number(det), rel=1e-12)
    assert low.eigenvalues.tolist() == pytest.approx([-1.4, -0.6])
    assert high.eigenvalues.tolist() == pytest.approx([-1.3, -0.6])


def test_divergence():
    weighted, plain_ = (equation.rhs for equation in symbolic.divergence())
    for law, weight, form in (
        ("replicator", lambda s, d: 1 / (d * (1 - d)), weighted),
        ("logistic", lambda s, d: np.ones_like(d), plain_),
    ):
        # on one cell the centre of the square is looked at
        found = model(law).plane().dulac(weight, 1)
        assert found == pytest.approx(number(form, s=0.5, d=0.5), rel=1e-8)
        assert number(form) < 0


def test_monotone(plain):
    across, down, up = (equation.rhs for equation in symbolic.monotone())
    J = plain.jacobian(model(), VALUES["s"], VALUES["d"])
    assert (number(across), number(down)) == pytest.approx((J[0, 1], J[1, 0]), rel=1e-8)
    rate = [plain.of(model(q=0.7 + h))(0, (0.35, 0.45))[1] for h in (-1e-6, 1e-6)]
    assert number(up) == pytest.approx((rate[1] - rate[0]) / 2e-6, rel=1e-8)
    assert number(across) < 0 < number(up)


def test_slow_trust():
    slow, fast = (equation.rhs for equation in symbolic.slow_trust())
    assert model(k=1e-7).low_skill_area() == pytest.approx(number(slow), abs=1e-6)
    assert model(k=1e8).low_skill_area() == pytest.approx(number(fast), abs=1e-3)


def test_symmetry(plain):
    growth, trust = (equation.rhs for equation in symbolic.symmetry())
    rates = plain.of(model())(0, (1 - 0.2, 1 - 0.9))
    assert number(growth, S=0.2, D=0.9) == pytest.approx(-rates[0], rel=1e-12)
    assert number(trust, S=0.2, D=0.9) == pytest.approx(-rates[1], rel=1e-12)


def test_folds(sy):
    quality, slope, zeros, det = (equation.rhs for equation in symbolic.folds())
    window = model("logistic").bistable_window()
    ends = sorted(number(zero) for zero in zeros)
    assert [number(quality, s=s) for s in ends] == pytest.approx(window, rel=1e-12)
    assert [number(slope, s=s) for s in ends] == pytest.approx([0, 0], abs=1e-12)
    world = model("logistic", q=0.6)
    for found in world.equilibria():
        s = found.point[0]
        assert number(quality, s=s) == pytest.approx(0.6, rel=1e-9)
        assert found.eigenvalues.prod() == pytest.approx(number(det, s=s), rel=1e-8)


def test_crossing_bound(sy):
    difference, bound = symbolic.crossing_bound()
    assert sy.expand(difference.lhs - difference.rhs) == 0
    start = {"s_0": 0.999 * 0.7}
    late = model().crossing_time(start["s_0"], 1.0)  # all delegated: a loss exactly from then on
    assert late == pytest.approx(number(bound.rhs, **start), rel=1e-12)
