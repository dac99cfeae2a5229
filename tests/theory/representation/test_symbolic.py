"""Each derivation against the numeric function that uses it, and as an identity of its own."""

import numpy as np
import pytest
from helpers import number

from porism.theory.representation import (
    Layer,
    canonicalise,
    cka_after_addition,
    cka_range,
    similarity,
    symbolic,
)
from porism.theory.representation._activations import activate

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sy")]


def test_opposite_units():
    p, q = (equation.rhs for equation in symbolic.opposite_units())
    for a, b, s in ((1.0, 3.0, 0.0), (2.0, -0.7, 0.3), (1.0, 1.0, -0.5)):
        form = canonicalise(Layer([[1.0], [-1]], [0, 0], [[a, b]], [0], "leaky_relu", s))
        assert form.coefficients.item() == pytest.approx(number(p, a=a, b=b, s=s))
        assert form.affine[0, 0] == pytest.approx(number(q, a=a, b=b, s=s))
        z = np.array([-1.3, 0.8])
        value = a * activate("leaky_relu", s, z) + b * activate("leaky_relu", s, -z)
        np.testing.assert_allclose(value, number(p, a=a, b=b, s=s) * abs(z) + number(q, a=a, b=b, s=s) * z)


def test_null_group(sy):
    pair, total = symbolic.null_group()
    assert total.rhs == 0
    assert sy.expand(total.lhs) == 0
    for z in (-1.3, 0.8):
        found = np.diff(activate("leaky_relu", 0.2, np.array([-z, z]))).item()
        assert number(pair.rhs, a=1.5, z=z, s=0.2) == pytest.approx(1.5 * found)


def test_linear_pieces(sy):
    z = sy.Symbol("z", real=True)
    for name, equation in zip(("gelu", "gelu_tanh", "silu"), symbolic.linear_pieces(), strict=True):
        assert equation.rhs == z
        for at in (-2.0, 0.3, 4.0):
            assert number(equation.lhs, z=at, k=0.044715) == pytest.approx(at)
            first = equation.lhs.args  # the two halves are phi(z) and -phi(-z)
            halves = sorted(number(part, z=at, k=0.044715) for part in first)
            value = activate(name, 0.0, np.array([at, -at])) * [1, -1]
            assert halves == pytest.approx(sorted(value), abs=1e-12)


def test_addition_law(sy):
    law, limit, slope = symbolic.addition_law()
    rng = np.random.default_rng(0)
    H, Z = rng.normal(size=(9, 4)), rng.normal(size=(9, 2))
    sizes = [np.linalg.norm((X - X.mean(0)).T @ (X - X.mean(0))) for X in (H, Z)]
    r = similarity(H, Z)
    for t in (0.3, 2.0, 11.0):
        u = t**2 * sizes[1] / sizes[0]
        assert number(law.rhs, r=r, u=u) == pytest.approx(cka_after_addition(H, Z, t), rel=1e-12)
        step = 1e-6
        change = (number(law.rhs, r=r, u=u + step) - number(law.rhs, r=r, u=u - step)) / (2 * step)
        assert number(slope.rhs, r=r, u=u) == pytest.approx(change, rel=1e-4)
        assert number(slope.rhs, r=r, u=u) < 0
    assert number(limit.rhs, r=r) == pytest.approx(cka_after_addition(H, Z, np.inf), rel=1e-12)


def test_rays(sy):
    cosine, slack = symbolic.rays()
    g, h = np.array([1.0, -2, 1]), np.array([0.5, 0.5, -1])  # centred already
    values = {f"{name}_{i + 1}": vector[i] for name, vector in (("g", g), ("h", h)) for i in range(3)}
    found = number(cosine.rhs, **values)
    assert found == pytest.approx(cka_range(np.stack([g, h], axis=1)).lower, rel=1e-12)
    assert found == pytest.approx(similarity(g[:, None], h[:, None]), rel=1e-12)
    K1, K2, w = np.outer(g, g), np.outer(h, h), 0.7
    k1, k2 = np.linalg.norm(K1), np.linalg.norm(K2)
    expected = (k1 + w * k2) ** 2 - np.linalg.norm(K1 + w * K2) ** 2
    assert number(slack.rhs, k_1=k1, k_2=k2, w=w, r=np.vdot(K1, K2) / k1 / k2) == pytest.approx(expected)
    assert expected >= 0
