"""Each derivation against the numeric function that uses it."""

import numpy as np
import pytest
from helpers import number

from porism.theory.selection import dual_scores, symbolic

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]


def test_bilinear(sy, net):
    form, row, column = symbolic.bilinear(2, 3)
    rng = np.random.default_rng(0)
    g, v, w, m = rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(size=2), rng.normal(size=3)
    values = {f"g_{i + 1}{j + 1}": g[i, j] for i in range(2) for j in range(3)}
    values |= {f"{k}_{i + 1}": x for k, xs in (("v", v), ("w", w), ("m", m)) for i, x in enumerate(xs)}

    assert number(form.rhs, **values) == pytest.approx(w @ (g * v) @ m / 2)
    assert number(row.rhs, **values) == pytest.approx((g * v)[0] @ m)
    assert number(column.rhs, **values) == pytest.approx(w @ (g * v)[:, 0])
    with pytest.raises(ValueError, match="n must be in"):
        symbolic.bilinear(5)


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def test_path_identity(sy, degree, needs):
    torch = needs("torch")
    identity, left = symbolic.path_identity(degree)
    assert sy.expand(identity.lhs.doit() - identity.rhs) == 0
    assert left.rhs == 0
    nodes = -(-degree // 2)

    def val_loss(p):
        return (p["t"] ** degree).sum() + 2 * (p["t"] ** (degree - 1)).sum()

    params, x = {"t": torch.tensor([1.5], dtype=torch.float64)}, torch.ones(1, 1, dtype=torch.float64)
    found = dual_scores(
        lambda p, b: (b * p["t"]).sum(1), val_loss, params, x, order="path", lr=0.7, nodes=nodes
    )
    assert found.total == pytest.approx(found.actual, rel=1e-13)


def test_quadrature(sy):
    eta, f1, f2, f3 = sy.symbols("eta f_1 f_2 f_3")
    found = [equation.rhs for equation in symbolic.quadrature()]
    assert found[2] == -2 * found[3]
    values = {f1: 0.3, f2: -1.1, f3: 0.7, eta: 1e-2}

    def f(x):  # a cubic, with these derivatives at 0
        return 0.3 * x - 1.1 * x**2 / 2 + 0.7 * x**3 / 6

    def slope(x):
        return 0.3 - 1.1 * x + 0.7 * x**2 / 2

    gain, h = -f(1e-2), 1e-2
    numeric = [-h * slope(0), -h * (0.3 - 1.1 * h / 2), -h * (slope(0) + slope(h)) / 2, -h * slope(h / 2)]
    for estimate, error in zip(numeric[1:], found[1:], strict=True):
        assert estimate - gain == pytest.approx(float(error.subs(values)), rel=1e-8)
    assert numeric[0] - gain == pytest.approx(float(found[0].subs(values)), rel=0.01)


def test_two_rows(sy, needs):
    torch = needs("torch")
    shares, rows, removed = symbolic.two_rows()
    assert shares.rhs == 0
    w, lr = np.array([0.7, 1.6]), 0.3

    def loss(p, b):
        return b * p["t"]

    def val_loss(p):
        return (0.4 * p["t"] + 0.5 * 1.7 * p["t"] ** 2).sum()

    g = torch.tensor([0.8, -0.3], dtype=torch.float64)
    arguments = loss, val_loss, {"t": torch.zeros(1, dtype=torch.float64)}, g
    path = dual_scores(*arguments, weights=w, order="path", lr=lr, nodes=1)
    ends = dual_scores(*arguments, weights=w, order="endpoint", lr=lr)
    values = {"eta": lr, "n": 2, "v": 0.4, "H": 1.7, "g_1": 0.8, "g_2": -0.3, "w_1": w[0], "w_2": w[1]}

    assert path.total == pytest.approx(path.actual, rel=1e-13)
    assert ends.total - path.actual == pytest.approx(number(rows.rhs, **values), rel=1e-12)
    without = dual_scores(*arguments, weights=[0, w[1]], lr=lr).actual
    lost = path.actual - without - float(ends.rows[0])
    assert lost == pytest.approx(number(removed.rhs, **values), rel=1e-12)
