"""Scrambled copies are the same function, each primitive does its own thing, and nets are trained as told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError
from porism.sims.representation import (
    PRIMITIVES,
    alive_layer,
    random_kernels,
    random_layer,
    reshuffled,
    scramble,
)
from porism.sims.representation._peers import all_pairs, one_by_one, plain_cka
from porism.sims.representation._wide import canonical_memory, wide_layer
from porism.theory.representation import Layer, canonicalise, privileged_similarity, similarity

SEEDS = st.integers(0, 2**32 - 1)
X = np.random.default_rng(0).normal(size=(40, 4))


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.lists(st.sampled_from(PRIMITIVES), unique=True), st.floats(0.1, 3))
def test_scramble_keeps_the_function(seed, primitives, strength):
    net = random_layer(5, 4, 2, seed)
    other = scramble(net, seed + 1, primitives, strength)
    terms = np.abs(other.hidden(X)) @ np.abs(other.W_out).T
    assert np.abs(net(X) - other(X)).max() <= 1e-13 * (1 + terms.max())
    if not primitives:
        assert (other.W_in == net.W_in).all()


def test_sizes_and_seeds():
    net = random_layer(6, 4, 2, 0)
    units = {name: scramble(net, 3, [name], extra=12).units for name in PRIMITIVES}
    assert units.pop("duplicate") > 6
    assert units == {"null": 18, "cancel": 18, "linear": 18, "scale": 6, "permute": 6}
    assert scramble(net, 3, ["null", "cancel", "linear"], extra=0).units == 6
    one, two = (scramble(net, np.random.default_rng(4)) for _ in range(2))
    np.testing.assert_array_equal(one.W_in, two.W_in)
    assert not np.array_equal(one.W_in[:6], scramble(net, 5).W_in[:6])
    # the order of names has no meaning, and units without any are fine
    np.testing.assert_array_equal(scramble(net, 4, PRIMITIVES[::-1]).W_out, one.W_out)
    empty = Layer(np.zeros((0, 4)), [], np.zeros((2, 0)), [1.0, 2])
    assert canonicalise(scramble(empty, 0, extra=6)).lines == 0


@pytest.mark.parametrize("name", ["gelu", "silu", "leaky_relu"])
def test_other_activations(name):
    net = random_layer(5, 4, 2, 0, name, 0.3)
    allowed = PRIMITIVES if name == "leaky_relu" else [one for one in PRIMITIVES if one != "scale"]
    np.testing.assert_allclose(scramble(net, 1, allowed)(X), net(X), atol=1e-11)
    if name != "leaky_relu":
        with pytest.raises(AssumptionError, match="scale needs"):
            scramble(net, 1)


def test_reshuffled_is_another_function_of_the_same_units():
    net = random_layer(8, 4, 2, 0)
    other = reshuffled(net, 1)
    np.testing.assert_array_equal(net.hidden(X), other.hidden(X))
    assert similarity(net.hidden(X), other.hidden(X)) == pytest.approx(1)
    assert privileged_similarity(net, other, X) < 0.95
    assert np.abs(net(X) - other(X)).max() > 0.5


def test_no_unit_is_dead():
    few = X[:4] + 1
    found = [alive_layer(30, few, 2, seed) for seed in range(5)]
    assert all((np.ptp(net.hidden(few), axis=0) > 0).all() for net in found)
    assert any((np.ptp(random_layer(30, 4, 2, seed).hidden(few), axis=0) == 0).any() for seed in range(5))
    assert found[0].W_out.shape == (2, 30)


def test_random_kernels():
    s = random_kernels(np.ones((3, 4)), 200, 0)
    assert s.shape == (200, 4)
    np.testing.assert_array_equal(s.max(1), 1)
    assert (s > 0).all()
    near = np.sort(s, axis=1)[:, -2]
    assert np.median(near[::2]) < 1e-3 < np.median(near[1::2])  # every other one is close to a ray
    assert (random_kernels(np.ones((3, 4)), 200, 0, signed=True) < 0).any()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: random_layer(0, 1, 1, 0), ValueError, "units must be >= 1"),
        (lambda: random_layer(1, 1.5, 1, 0), TypeError, "inputs must be an int"),
        (lambda: scramble(random_layer(1, 1, 1, 0), 0, ["add"]), ValueError, "primitives must be one of"),
        (lambda: scramble(random_layer(1, 1, 1, 0), 0, strength=0), ValueError, "strength must be"),
        (lambda: scramble(random_layer(1, 1, 1, 0), 0, extra=-1), ValueError, "extra must be >= 0"),
        (lambda: reshuffled(random_layer(1, 1, 1, 0), 0, -1), ValueError, "strength must be"),
        (lambda: alive_layer(2, np.ones((5, 2)), 1, 0), ValueError, "X must hold samples that differ"),
        (lambda: random_kernels(X, 0, 0), ValueError, "trials must be >= 1"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_peers_do_the_same_work():
    rng = np.random.default_rng(2)
    A, B = rng.normal(size=(30, 5)), rng.normal(size=(30, 7))
    assert plain_cka(A, B) == pytest.approx(similarity(A, B), rel=1e-12)
    net = wide_layer(60, 5)
    U = np.column_stack([net.W_in, net.b])
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    assert all_pairs(U, 1e-8) == one_by_one(U, 1e-8) == canonicalise(net).lines == 30
    seconds, peak, lines = canonical_memory(400, 6)
    assert lines == 200
    assert seconds > 0
    assert peak < 8 * 400**2 / 1e6


@pytest.mark.full
def test_digits(needs):
    needs("sklearn")
    from porism.sims.representation.digits import DigitsNet, digits_images, trained_digits

    parts = digits_images()
    assert [part.shape for part in parts] == [(1298, 64), (1298,), (499, 64), (499,)]
    assert parts[0].min() == 0
    assert parts[0].max() == 1
    assert (
        len({row.tobytes() for row in parts[2]} & {row.tobytes() for row in parts[0]}) <= 1
    )  # near none twice
    with pytest.raises(ValueError, match="read-only"):
        parts[0][0, 0] = 2
    net = trained_digits(3, epochs=12)
    assert isinstance(net, DigitsNet)
    assert net.layer.W_in.shape == (64, 64)
    assert net.accuracy == pytest.approx((net.layer(parts[2]).argmax(1) == parts[3]).mean())
    assert net.accuracy > 0.93
    assert trained_digits(3, epochs=12) is net  # kept
    other = trained_digits(4, epochs=12)
    assert not np.array_equal(other.layer.W_in, net.layer.W_in)
    for bad in ({"seed": -1}, {"seed": 0, "units": 0}, {"seed": 0, "epochs": 0}):
        with pytest.raises(ValueError, match="must be >="):
            trained_digits(**bad)
