"""The complete form: printed oracles, jumps of the gradient, greedy all pairs, and what stays apart."""

import dataclasses
import math
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError, NumericalWarning
from porism.theory.representation import (
    CanonicalLayer,
    Layer,
    add_cancelling,
    add_linear_null,
    add_null,
    canonicalise,
    duplicate,
    privileged_similarity,
    scale,
    similarity,
)
from porism.theory.representation._lines import group

SEEDS = st.integers(0, 2**32 - 1)
KINDS = st.sampled_from([("relu", 0.0), ("leaky_relu", 0.3), ("leaky_relu", -0.6), ("leaky_relu", -1.0)])


def drawn(rng, activation="relu", slope=0.01, h=5, d=3, o=2):
    arrays = (rng.normal(size=shape) for shape in ((h, d), (h,), (o, h), (o,)))
    return Layer(*arrays, activation, slope)


def scrambled(net, rng):
    """Every symmetry, and the units in another order."""
    d, o = net.W_in.shape[1], len(net.c)
    net = duplicate(net, np.full(net.units, 2), np.tile([3.0, -2.0], net.units))
    net = add_null(net, rng.normal(size=(3, d)), rng.normal(size=3))
    ratio = np.exp(rng.normal(size=2))
    net = add_cancelling(net, rng.normal(size=(2, d)), rng.normal(size=2), rng.normal(size=(2, o)), ratio)
    net = add_linear_null(net, rng.normal(size=(2, d)), rng.normal(size=o), rng.normal(size=2))
    net = scale(net, np.exp(2 * rng.normal(size=net.units)))
    order = rng.permutation(net.units)
    return dataclasses.replace(net, W_in=net.W_in[order], b=net.b[order], W_out=net.W_out[:, order])


def greedy(U, tol, signed):
    """Lines by comparing every row with every line found before."""
    lines = []
    for u in U:
        if not any(
            min(np.linalg.norm(u - v), math.inf if signed else np.linalg.norm(u + v)) <= tol for v in lines
        ):
            lines.append(u)
    return len(lines)


def test_oracle_3():
    net = Layer([[2.0], [-1], [1], [-1]], [2, -1, 0, 0], [[1, 3, 1, -1]], [0])
    form = canonicalise(net)
    np.testing.assert_allclose(form.directions, [[2**-0.5, 2**-0.5]], rtol=1e-15)
    np.testing.assert_allclose(form.coefficients, [[3.5355339]], atol=5e-8)
    np.testing.assert_allclose(form.coefficients, [[2.5 * 2**0.5]], rtol=1e-15)
    np.testing.assert_allclose(form.affine, [[0.5, -0.5]], rtol=1e-14)
    assert canonicalise(net, "parallel").lines == 4
    x = np.linspace(-3, 3, 13)[:, None]
    np.testing.assert_allclose(form(x), 2.5 * abs(x + 1) + 0.5 * x - 0.5, atol=1e-14)
    assert form.to_layer().units == 3  # one line, two for the affine part
    np.testing.assert_allclose(form.to_layer()(x), net(x), atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 4))
def test_oracle_4(seed, d):
    """A group of six alone: no line, no affine part, whichever z1 and z2."""
    rng = np.random.default_rng(seed)
    empty = Layer(np.zeros((0, d)), [], np.zeros((1, 0)), [0.0])
    w, b = rng.normal(size=(2, d)), rng.normal(size=2)
    net = add_linear_null(empty, w, [1.0], b)
    assert net.units == 6
    form = canonicalise(net)
    assert form.lines == 0
    np.testing.assert_allclose(form.affine, 0, atol=1e-14)
    assert form.equals(canonicalise(empty))
    assert canonicalise(net, "parallel").lines == (6 if d > 1 else canonicalise(net, "parallel").lines)
    assert form.to_layer().units == 0
    X = rng.normal(size=(5, d))
    assert form.features(X).shape == (5, 1)
    np.testing.assert_allclose(net(X), 0, atol=1e-13)


@settings(max_examples=60, deadline=None)
@given(SEEDS, KINDS)
def test_depends_on_the_function_only(seed, kind):
    """PS-5b and PS-6: equal functions have equal forms; another function has another one."""
    rng = np.random.default_rng(seed)
    net = drawn(rng, *kind)
    other = scrambled(net, rng)
    X = rng.normal(size=(20, 3))
    form, found = canonicalise(net), canonicalise(other)
    assert form.lines == found.lines == 5
    assert form.equals(found)
    # weights of some hundred that cancel, times rounding
    assert form.distance(found) == found.distance(form)
    assert form.distance(found) <= 1e-10
    np.testing.assert_allclose(form(X), net(X), atol=1e-11)
    np.testing.assert_allclose(found(X), net(X), atol=1e-10)
    back = found.to_layer()
    assert back.units <= 5 + 2 * 2
    np.testing.assert_allclose(back(X), net(X), atol=1e-10)
    assert canonicalise(back).equals(form)
    assert privileged_similarity(net, other, X) == pytest.approx(1, abs=1e-9)
    W = net.W_in.copy()
    W[2, 1] += 1e-3
    moved = canonicalise(dataclasses.replace(net, W_in=W))
    assert 1e-6 < moved.distance(form) < 1
    assert not moved.equals(form)


@settings(max_examples=40, deadline=None)
@given(SEEDS, KINDS)
def test_jumps_of_the_gradient(seed, kind):
    """Across the hyperplane of a line the gradient jumps by twice coefficient times direction."""
    rng = np.random.default_rng(seed)
    net = drawn(rng, *kind)
    form = canonicalise(scrambled(net, rng))
    for u, c in zip(form.directions, form.coefficients, strict=True):
        normal, offset = u[:-1], u[-1]
        x = rng.normal(size=3)
        x -= (x @ normal + offset) / (normal @ normal) * normal  # on the hyperplane
        others = np.abs(form.directions @ np.append(x, 1))
        others[np.argmin(others)] = np.inf
        h = 0.5 * min(others.min(), 1.0)  # unit directions: no other kink within h
        step = h * normal / np.linalg.norm(normal)
        jump = (net([x + step]) + net([x - step]) - 2 * net([x]))[0] / h
        np.testing.assert_allclose(jump, 2 * c * np.linalg.norm(normal), rtol=1e-7, atol=1e-7 + 1e-13 / h)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 40), st.integers(1, 4), st.booleans())
def test_lines_by_greedy_pairs(seed, h, d, signed):
    rng = np.random.default_rng(seed)
    pool = rng.integers(-2, 3, size=(h, d + 1)).astype(
        float
    )  # many parallel and opposite rows, equal projections
    pool[:, 0] += (pool == 0).all(1)
    U = pool * np.exp(rng.normal(size=(h, 1)))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    lead, label, widest, closest = group(U, 1e-8, signed)
    assert len(lead) == greedy(U, 1e-8, signed)
    assert widest <= 1e-15
    assert closest > 1e-8
    for k in range(len(lead)):
        side = U[label == k] @ U[lead[k]]
        np.testing.assert_allclose(side if signed else abs(side), 1, rtol=1e-14)


def test_many_lines_with_one_key():
    """Rows that share a projection to rounding are still told apart."""
    p = np.cos(math.sqrt(2) * np.arange(1.0, 5) ** 2)
    p /= np.linalg.norm(p)
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(50, 4))
    flat -= np.outer(flat @ p, p)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    lead, label, _, _ = group(np.vstack([flat, -flat]), 1e-8, False)
    assert len(lead) == 50
    assert (label[:50] == label[50:]).all()
    assert len(group(np.vstack([flat, -flat]), 1e-8, True)[0]) == 100


def test_differences_not_cosines():
    """Directions 1e-5 apart have a cosine above 1 - 1e-10 and are two lines; 1e-10 apart they are one."""
    net = drawn(np.random.default_rng(0))
    for far, lines in ((1e-5, 10), (1e-10, 5)):
        near = np.vstack([net.W_in, net.W_in + far])
        form = canonicalise(Layer(near, np.tile(net.b, 2), np.tile(net.W_out, 2), net.c))
        assert form.lines == lines
        widest = form.merged_gap[0]  # a step of far in all weights of rows of length 1 to 3
        assert widest == 0 if lines == 10 else far / 10 < widest < 10 * far
        assert form.tol == pytest.approx(2e-8)
        assert canonicalise(Layer(near, np.tile(net.b, 2), np.tile(net.W_out, 2), net.c), tol=1e-3).lines == 5


def test_gap_is_reported():
    """What is merged and what is not within a factor of ten: doubt, said aloud."""
    turn = np.array([0.0, 8e-9, 4e-8])
    net = Layer(np.column_stack([np.cos(turn), np.sin(turn)]), np.zeros(3), np.ones((1, 3)), [0])
    with pytest.warns(
        NumericalWarning, match=r"directions 8e-09 apart were merged and directions 4e-08 apart"
    ):
        form = canonicalise(net)
    assert form.merged_gap == pytest.approx((8e-9, 4e-8), rel=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert canonicalise(net, tol=1e-9).lines == 3
        assert canonicalise(net, tol=1e-7).merged_gap == pytest.approx((4e-8, math.inf))


def test_float32_weights_are_compared_as_such():
    rng = np.random.default_rng(0)
    net = scrambled(drawn(rng, d=20), rng)
    single = Layer(*(getattr(net, name).astype(np.float32) for name in ("W_in", "b", "W_out", "c")))
    assert canonicalise(single).lines == 5
    # weights of some ten that cancel, at 1.2e-7 each
    assert canonicalise(single).distance(canonicalise(net)) < 1e-4
    assert canonicalise(dataclasses.replace(single, precision=0.0)).lines > 5
    X = rng.normal(size=(30, 20))
    assert privileged_similarity(single, net, X) == pytest.approx(1, abs=1e-6)


def test_units_without_incoming_weights_are_constants():
    net = drawn(np.random.default_rng(1), "leaky_relu", 0.2)
    W, b = np.vstack([net.W_in, np.zeros((3, 3))]), np.append(net.b, [2.0, -3.0, 0.0])
    out = np.hstack([net.W_out, [[1.0, 1, 1], [2, 0, 5]]])
    for level in ("functional", "parallel"):
        form, other = (
            canonicalise(net, level),
            canonicalise(Layer(W, b, out, net.c, "leaky_relu", 0.2), level),
        )
        np.testing.assert_allclose(other.affine - form.affine, [[0, 0, 0, 2 - 0.6], [0, 0, 0, 4]], atol=1e-14)
        assert other.lines == 5


def test_a_kink_out_of_reach_is_affine():
    """A unit whose kink is 1e12 away: linear on one side, for both signs of the bias."""
    x = np.array([[-1.0], [0.5], [3]])
    for sign in (1, -1):
        net = Layer([[1e-12]], [sign], [[2.0]], [0], "leaky_relu", 0.5)
        for level in ("functional", "parallel"):
            form = canonicalise(net, level)
            assert form.lines == 0
            np.testing.assert_allclose(form(x), net(x), rtol=1e-14)


def test_small_units_stay():
    """A unit is judged against the units on its own line, so one of size 1e-14 beside large ones is kept."""
    net = Layer(np.eye(3), np.zeros(3), [[1e8, 1e-14, 1.0]], [0])
    assert canonicalise(net).lines == 3
    twice = duplicate(net, [2, 2, 2], [1e4, 1 - 1e4, 0.5, 0.5, 2, -1])
    assert canonicalise(twice).lines == 3


@pytest.mark.parametrize("level", ["functional", "parallel"])
@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
def test_weights_of_any_size(level, unit):
    net = drawn(np.random.default_rng(7))
    form = canonicalise(net, level)
    far = canonicalise(Layer(net.W_in, net.b, net.W_out * unit, net.c * unit), level)
    assert np.array_equal(far.directions, form.directions)
    assert np.array_equal(far.coefficients, form.coefficients * unit)
    assert np.array_equal(far.affine, form.affine * unit)
    X = np.random.default_rng(8).normal(size=(20, 3))
    assert similarity(far.features(X), form.features(X)) == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(far.to_layer()(X) / unit, net(X), rtol=1e-12)
    assert far.distance(canonicalise(Layer(net.W_in, net.b, 0 * net.W_out, [0, 0]), level)) > 0.5 * unit


def test_orientation_and_order():
    rng = np.random.default_rng(2)
    net = drawn(rng, h=8)
    form, other = canonicalise(net), canonicalise(scrambled(net, rng))
    first = np.take_along_axis(form.directions, (abs(form.directions) > 1e-6).argmax(1)[:, None], 1)
    assert (first > 0).all()
    np.testing.assert_allclose(np.linalg.norm(form.directions, axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(form.directions, other.directions, atol=1e-12)  # no key is shared here
    signs = Layer([[1e-9, -1.0], [0, -2.0]], [0, 1], [[1, 1]], [0])
    np.testing.assert_allclose(np.sign(canonicalise(signs).directions[:, 1]), 1)


def test_parallel_level_by_hand():
    net = Layer([[1.0, 0], [2, 0], [-1, 0], [0, 1]], [1, 2, -1, 0], [[1, 1, 1, 1]], [7])
    form = canonicalise(net, "parallel")
    assert form.lines == 3
    assert sorted(form.coefficients.ravel()) == pytest.approx([1, 2**0.5, 3 * 2**0.5])
    np.testing.assert_array_equal(form.affine, [[0, 0, 7]])
    X = np.random.default_rng(0).normal(size=(9, 2))
    np.testing.assert_allclose(form(X), net(X), rtol=1e-13)
    np.testing.assert_allclose(form.to_layer()(X), net(X), rtol=1e-13)
    identity = dataclasses.replace(net, activation="leaky_relu", slope=1.0)
    np.testing.assert_allclose(canonicalise(identity, "parallel")(X), identity(X), rtol=1e-13)


def test_features_have_the_kernel_of_the_form():
    """PS-6 by hand: sum over lines, and the affine part."""
    rng = np.random.default_rng(3)
    net = drawn(rng)
    form, X = canonicalise(net), rng.normal(size=(8, 3))
    extended = np.column_stack([X, np.ones(8)])
    K = extended @ form.affine.T @ form.affine @ extended.T
    for u, c in zip(form.directions, form.coefficients, strict=True):
        z = np.abs(extended @ u)
        K += c @ c * np.outer(z, z)
    features = form.features(X)
    np.testing.assert_allclose(features @ features.T, K, rtol=1e-12)
    J = np.eye(8) - 1 / 8
    other = canonicalise(drawn(rng, o=4)).features(X)
    one, two = (J @ F @ F.T @ J for F in (features, other))
    expected = np.vdot(one, two) / (np.linalg.norm(one) * np.linalg.norm(two))
    assert similarity(features, other) == pytest.approx(expected, rel=1e-12)


def test_affine_part_without_kinks():
    """Units in opposite pairs with equal and opposite weights are a linear map."""
    net = Layer([[1.0, 2], [-1, -2]], [0.5, -0.5], [[3, -3]], [1])
    form = canonicalise(net)
    assert form.lines == 0
    np.testing.assert_allclose(form.affine, [[3, 6, 2.5]])
    X = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(form.to_layer()(X), net(X), rtol=1e-13)
    assert privileged_similarity(net, net, X) == pytest.approx(1)


def test_distance_counts_what_has_no_partner():
    one = canonicalise(Layer(np.eye(2), [0, 0], [[1.0, 4.0]], [0]))
    less = dataclasses.replace(one, directions=one.directions[:1], coefficients=one.coefficients[:1])
    lost = float(np.abs(one.coefficients[1:]).max())
    assert one.distance(less) == less.distance(one) == pytest.approx(lost)
    small = dataclasses.replace(one, coefficients=np.full((2, 1), 1e-12))
    turned = dataclasses.replace(
        small, directions=small.directions @ np.array([[0.6, 0.8, 0], [-0.8, 0.6, 0], [0, 0, 1]])
    )
    assert small.distance(turned) == pytest.approx(1e-12)  # functions that differ by as much
    flipped = dataclasses.replace(one, directions=-one.directions)
    assert one.distance(flipped) == 0  # up to sign
    assert one.equals(one)
    assert not one.equals(less)
    assert one.equals(less, tol=5.0)
    swapped = dataclasses.replace(one, directions=one.directions[::-1], coefficients=one.coefficients[::-1])
    assert one.distance(swapped) == 0


def test_a_line_is_matched_once():
    """Two lines whose nearest is the same one: the closer gets it, the other one stays alone."""
    turn = np.array([0.0, 0.3])
    two = canonicalise(Layer(np.column_stack([np.cos(turn), np.sin(turn)]), [0, 0], [[2.0, 10]], [0]))
    one = canonicalise(Layer([[np.cos(0.05), np.sin(0.05)]], [0], [[2.0]], [0]))
    two, one = (dataclasses.replace(form, affine=np.zeros((1, 3))) for form in (two, one))
    assert two.distance(one) == one.distance(two) == pytest.approx(5)


def test_saved_and_shown(tmp_path):
    form = canonicalise(drawn(np.random.default_rng(0)))
    form.save(tmp_path / "form.npz")
    again = CanonicalLayer.load(tmp_path / "form.npz")
    assert again.distance(form) == 0
    assert again.merged_gap == form.merged_gap
    assert "coefficients" in form._repr_html_()


def test_memory_is_not_that_of_all_pairs():
    rng = np.random.default_rng(0)
    h, d = 6000, 8
    net = scale(duplicate(drawn(rng, h=h // 2, d=d), np.full(h // 2, 2)), np.exp(rng.normal(size=h)))
    tracemalloc.start()
    form = canonicalise(net)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert form.lines == h // 2
    assert peak < 8 * h**2 / 20  # some arrays of h d numbers


NET = drawn(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: canonicalise(NET, activation="gelu"), AssumptionError, "complete form is not known"),
        (lambda: canonicalise(dataclasses.replace(NET, activation="silu")), AssumptionError, "got 'silu'"),
        (lambda: canonicalise(NET, "parallel", "tanh"), AssumptionError, "units do not rescale"),
        (
            lambda: canonicalise(dataclasses.replace(NET, activation="leaky_relu", slope=1.0)),
            AssumptionError,
            "slope other than 1",
        ),
        (lambda: canonicalise(NET, "syntactic"), ValueError, "level must be one of"),
        (lambda: canonicalise(NET, activation="elu"), ValueError, "activation must be one of"),
        (lambda: canonicalise(NET, tol=0), ValueError, "tol must be finite and > 0"),
        (lambda: canonicalise(np.eye(2)), TypeError, "model must be a Layer, .* got ndarray"),
        (lambda: canonicalise(NET).distance(NET), TypeError, "other must be a CanonicalLayer, got Layer"),
        (lambda: canonicalise(NET).distance(canonicalise(NET, "parallel")), ValueError, "same level"),
        (
            lambda: canonicalise(NET).equals(canonicalise(drawn(np.random.default_rng(0), d=4))),
            ValueError,
            r"affine part \(2, 4\) and .* \(2, 5\)",
        ),
        (
            lambda: canonicalise(NET).equals(canonicalise(NET), tol=-1),
            ValueError,
            "tol must be finite and > 0",
        ),
        (lambda: canonicalise(NET)(np.ones((2, 4))), ValueError, "one column an input, 3"),
        (lambda: canonicalise(NET).features(np.ones(3)), ValueError, "X must have 2 axes"),
        (
            lambda: privileged_similarity(NET, drawn(np.random.default_rng(0), d=4), np.ones((5, 3))),
            ValueError,
            r"same inputs, got W_in of shapes \(5, 3\) and \(5, 4\)",
        ),
        (lambda: privileged_similarity(NET, NET, np.ones((2, 3))), ValueError, "at least 3 rows"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
