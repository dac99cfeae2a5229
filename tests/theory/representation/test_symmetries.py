"""Symmetries keep the function, by a network of plain loops, and refuse where they would not."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.theory.representation import (
    Layer,
    add_cancelling,
    add_linear_null,
    add_null,
    duplicate,
    scale,
    similarity,
)
from porism.theory.representation._activations import activate
from porism.theory.representation.layer import ACTIVATIONS

SEEDS = st.integers(0, 2**32 - 1)
PLAIN = {
    "relu": lambda z, s: max(z, 0.0),
    "leaky_relu": lambda z, s: z if z > 0 else s * z,
    "gelu": lambda z, s: z * (1 + math.erf(z / math.sqrt(2))) / 2,
    "gelu_tanh": lambda z, s: z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2,
    "silu": lambda z, s: z / (1 + math.exp(-z)),
    "tanh": lambda z, s: math.tanh(z),
}


def plain(net, x):
    """Outputs for one sample, by loops."""
    out = list(net.c)
    for k in range(net.units):
        z = sum(w * v for w, v in zip(net.W_in[k], x, strict=True)) + net.b[k]
        for i in range(len(out)):
            out[i] += net.W_out[i, k] * PLAIN[net.activation](z, net.slope)
    return out


def drawn(seed, activation="relu", slope=0.01, h=4, d=3, o=2):
    rng = np.random.default_rng(seed)
    arrays = (rng.normal(size=shape) for shape in ((h, d), (h,), (o, h), (o,)))
    return Layer(*arrays, activation, slope), rng


def same(one, two, rng):
    """Outputs agree to rounding of the terms they are made of."""
    for x in rng.normal(size=(5, one.W_in.shape[1])):
        terms = max(np.abs(net.W_out).max() * np.abs(net.hidden(x[None])).sum() for net in (one, two))
        np.testing.assert_allclose(plain(two, x), plain(one, x), rtol=0, atol=1e-13 * (terms + 1))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_layer_by_loops(activation):
    net, rng = drawn(0, activation, 0.2)
    X = rng.normal(size=(6, 3))
    np.testing.assert_allclose(net(X), [plain(net, x) for x in X], rtol=1e-12, atol=1e-13)
    assert net.hidden(X).shape == (6, 4)
    assert net.units == 4
    assert net.negative_slope == {"relu": 0.0, "leaky_relu": 0.2}.get(activation)


def test_activations_far_out():
    far = np.array([-1e300, -800.0, 800.0, 1e300])
    for name in ("relu", "leaky_relu", "gelu", "silu"):
        value = activate(name, 0.5, far)
        np.testing.assert_allclose(
            value, [far[0] / 2, -400, *far[2:]] if name == "leaky_relu" else [0, 0, *far[2:]]
        )


@settings(max_examples=40, deadline=None)
@given(
    SEEDS, st.sampled_from([("relu", 0.0), ("leaky_relu", 0.3), ("leaky_relu", -2.0), ("leaky_relu", 1.0)])
)
def test_three_primitives(seed, kind):
    """PS-1, one by one and in turn."""
    net, rng = drawn(seed, *kind)
    counts = rng.integers(1, 4, 4)
    shares = np.concatenate([np.append(s := rng.normal(size=m - 1), 1 - s.sum()) for m in counts])
    W, b, out = rng.normal(size=(2, 3)), rng.normal(size=2), rng.normal(size=(2, 2))
    steps = [
        lambda n: scale(n, np.exp(rng.normal(size=n.units))),
        lambda n: duplicate(n, counts, shares) if n.units == 4 else duplicate(n, np.full(n.units, 2)),
        lambda n: add_null(n, W, b),
        lambda n: add_cancelling(n, W, b, out, np.exp(rng.normal(size=2))),
        lambda n: add_linear_null(n, W, out[0], b),
    ]
    chained = net
    for step in steps:
        same(net, step(net), rng)
        chained = step(chained)
    same(net, chained, rng)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(ACTIVATIONS))
def test_what_holds_for_every_activation(seed, activation):
    net, rng = drawn(seed, activation)
    W, b, out = rng.normal(size=(2, 3)), rng.normal(size=2), rng.normal(size=(2, 2))
    same(net, duplicate(net, [1, 3, 2, 1]), rng)
    same(net, add_null(net, W, b), rng)
    same(net, add_cancelling(net, W, b, out), rng)


@settings(max_examples=60, deadline=None)
@given(st.floats(-30, 30), SEEDS, st.sampled_from(["gelu", "gelu_tanh", "silu", "relu"]))
def test_linear_pieces(z, seed, name):
    """PS-7: phi(z) - phi(-z) = z, oracle 5, and the group."""
    found = activate(name, 0.0, np.array([z, -z]))
    # two values of sizes that sum to |z|, each from four operations and a function right to some eps
    assert found[0] - found[1] == pytest.approx(z, rel=2e-15, abs=1e-300)
    assert activate("gelu", 0.0, np.array([1.3, -1.3])) @ [1, -1] == pytest.approx(1.3, rel=1e-15)
    net, rng = drawn(seed, name)
    m = int(rng.integers(1, 5))
    same(net, add_linear_null(net, rng.normal(size=(m, 3)), rng.normal(size=2), rng.normal(size=m)), rng)


def test_group_of_six():
    net, rng = drawn(3)
    six = add_linear_null(net, [[1.0, 0, 0], [0, 1, 0]], [2.0, -1])
    assert six.units == 10
    rows = six.W_in[4:]
    np.testing.assert_allclose(rows, [[1, 0, 0], [0, 1, 0], [1, 1, 0], [-1, 0, 0], [0, -1, 0], [-1, -1, 0]])
    np.testing.assert_allclose(six.W_out[:, 4:], np.outer([2, -1], [1, 1, -1, -1, -1, 1]))
    assert (six.b[4:] == 0).all()
    same(net, six, rng)


def test_what_a_primitive_does_to_the_hidden_matrix():
    net, rng = drawn(5)
    X = rng.normal(size=(7, 3))
    hidden = net.hidden(X)
    np.testing.assert_allclose(scale(net, [1, 2, 3, 4]).hidden(X), hidden * [1, 2, 3, 4])
    np.testing.assert_array_equal(duplicate(net, [1, 2, 1, 1]).hidden(X), hidden[:, [0, 1, 1, 2, 3]])
    copies, scaled = duplicate(net, [1, 2, 3, 4]).hidden(X), scale(net, np.sqrt([1, 2, 3, 4])).hidden(X)
    np.testing.assert_allclose(copies @ copies.T, scaled @ scaled.T, rtol=1e-12)  # PS-3
    assert similarity(copies, scaled) == pytest.approx(1, abs=1e-12)
    np.testing.assert_array_equal(add_null(net, [[1, 0, 0]], [0]).hidden(X)[:, :4], hidden)


def test_where_scaling_is_none():
    """PS-1's control: other activations, and what is left of the function."""
    net, rng = drawn(0)
    X = rng.normal(size=(20, 3))
    for name in ("tanh", "gelu", "silu"):
        bent = dataclasses.replace(net, activation=name)
        assert np.abs(dataclasses.replace(scale(net, [3, 3, 3, 3]), activation=name)(X) - bent(X)).max() > 0.1
        with pytest.raises(AssumptionError, match="scale needs activation 'relu'"):
            scale(bent, [3, 3, 3, 3])
        with pytest.raises(AssumptionError, match="a ratio other than 1 needs"):
            add_cancelling(bent, [[1, 0, 0]], [0], [[1, 1]], 2.0)
    with pytest.raises(AssumptionError, match=r"add_linear_null needs .* got 'tanh'"):
        add_linear_null(dataclasses.replace(net, activation="tanh"), np.eye(3), [1, 1])


def test_layer_keeps_its_own_copy():
    W = np.ones((2, 2))
    net = Layer(W, [0, 0], [[1, 1]], [0])
    W[:] = 5
    assert (net.W_in == 1).all()
    with pytest.raises(ValueError, match="read-only"):
        net.W_in[0, 0] = 2


def test_layer_is_saved(tmp_path):
    net, rng = drawn(0, "leaky_relu", 0.3)
    net.save(tmp_path / "net.npz")
    again = Layer.load(tmp_path / "net.npz")
    X = rng.normal(size=(4, 3))
    np.testing.assert_array_equal(net(X), again(X))
    assert (again.activation, again.slope, again.precision) == ("leaky_relu", 0.3, net.precision)


def test_precision_is_that_of_the_weights():
    arrays = [np.ones((2, 2)), np.zeros(2), np.ones((1, 2)), np.zeros(1)]
    assert Layer(*arrays).precision == np.finfo(float).eps
    assert Layer(*(a.astype(int) for a in arrays)).precision == np.finfo(float).eps
    for which in range(4):
        mixed = [a.astype(np.float32) if k == which else a for k, a in enumerate(arrays)]
        assert Layer(*mixed).precision == np.finfo(np.float32).eps
    single = Layer(*(a.astype(np.float32) for a in arrays))
    assert scale(single, [2, 3]).precision == np.finfo(np.float32).eps  # later steps do not forget


NET = drawn(0)[0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: Layer(np.ones((3, 2)), np.ones(2), np.ones((1, 3)), [0]),
            ValueError,
            r"got shapes \(3, 2\), \(2,\), \(1, 3\), \(1,\)",
        ),
        (
            lambda: Layer(np.ones((3, 2)), np.ones(3), np.ones((3, 1)), [0]),
            ValueError,
            "units are rows of W_in",
        ),
        (lambda: Layer(np.ones((3, 0)), np.ones(3), np.ones((1, 3)), [0]), ValueError, "must fit together"),
        (lambda: Layer([[np.inf]], [0], [[1]], [0]), ValueError, "W_in must be finite"),
        (lambda: Layer([[1]], [0], [[1]], [0], "elu"), ValueError, "activation must be one of"),
        (lambda: Layer([[1]], [0], [[1]], [0], "leaky_relu", np.nan), ValueError, "slope must be finite"),
        (lambda: Layer([[1]], [0], [[1]], [0], precision="x"), TypeError, "precision must hold real numbers"),
        (lambda: scale("net", [1]), TypeError, "model must be a Layer, .* got str"),
        (lambda: add_null([[1.0]], [[1]], [1]), TypeError, "model must be a Layer, .* got list"),
        (lambda: NET(np.ones((4, 2))), ValueError, r"one column an input, 3, got shape \(4, 2\)"),
        (lambda: NET(np.ones(3)), ValueError, "X must have 2 axes"),
        (lambda: scale(NET, [1, 1, 1]), ValueError, "factors must be 4 numbers > 0"),
        (lambda: scale(NET, [1, 1, 1, -1]), ValueError, "smallest of -1; a negative factor changes"),
        (lambda: scale(NET, [1, 1, 1, 0]), ValueError, "factors must be 4 numbers > 0"),
        (lambda: duplicate(NET, [1, 1, 1]), ValueError, "counts must be 4 whole numbers"),
        (lambda: duplicate(NET, [1, 1, 1, 0]), ValueError, r"counts\[3\] must be >= 1"),
        (lambda: duplicate(NET, [1.5, 1, 1, 1]), TypeError, r"counts\[0\] must be an int"),
        (
            lambda: duplicate(NET, [2, 1, 1, 1], [0.5, 0.4, 1, 1, 1]),
            ValueError,
            "sum to 1 .* got 0.9 for unit 0",
        ),
        (lambda: duplicate(NET, [2, 1, 1, 1], [0.5, 0.5, 1, 1]), ValueError, "one share a copy, 5 in all"),
        (lambda: add_null(NET, np.ones((2, 2)), [0, 0]), ValueError, r"W must have shape \(m, 3\)"),
        (lambda: add_null(NET, np.ones((2, 3)), [0]), ValueError, r"got \(2, 3\) and \(1,\)"),
        (lambda: add_cancelling(NET, np.ones((1, 3)), [0], [[1]]), ValueError, "out must have shape"),
        (lambda: add_cancelling(NET, np.ones((1, 3)), [0], [[1, 1]], -1), ValueError, "smallest ratio of -1"),
        (lambda: add_cancelling(NET, np.ones((1, 3)), [0], [[1, 1]], [1, 1]), ValueError, "ratio"),
        (lambda: add_linear_null(NET, np.ones((2, 2)), [1, 1]), ValueError, r"w must have shape \(m, 3\)"),
        (
            lambda: add_linear_null(NET, np.ones((2, 3)), [1]),
            ValueError,
            "out must have one weight an output, 2",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
