"""Folding against hand-worked cases, Kronecker products, and attention with the mixes kept."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import AssumptionError, NumericalWarning
from porism.results import Result
from porism.sims.attention import random_mix, sample_layer, virtual_attention
from porism.theory.attention import virtual_heads
from porism.theory.attention.folding import FoldedProjection, fold, fold_output_mix, fold_query_mix
from porism.theory.attention.rope import RopeLayout, rope_commutant_residual

SETTINGS = settings(deadline=None, max_examples=40)
SIZE = st.integers(1, 3)
W = [[[[1, 2], [0, 1]], [[3, -1], [2, 0]]]]
M = [[[1, 0], [0.5, 1], [-1, 2]]]


def test_oracle_1():
    found = fold_query_mix(W, M)
    assert found.weight.tolist() == [[[[1, 2], [0, 1]], [[3.5, 0], [2, 0.5]], [[5, -4], [4, -1]]]]
    assert (found.bias, found.commutation_residual) == (None, 0)
    assert fold_query_mix(W, M, bias=[[[1, 2], [3, 4]]]).bias.tolist() == [[[1, 2], [3.5, 5], [5, 6]]]


def test_oracle_2():
    mix = np.eye(3) + np.outer([1, 0, 2], [0.5, 1, -1])
    found = fold_output_mix(np.arange(1, 13).reshape(2, 3, 2), mix)
    assert found.tolist() == [[[6.5, 9], [14, 18], [-6, -8]], [[21.5, 24], [38, 42], [-18, -20]]]


@SETTINGS
@given(SIZE, SIZE, SIZE, SIZE, st.integers(0, 99))
def test_fold_is_a_kronecker_product(g, p, block, other, seed):
    rng = np.random.default_rng(seed)
    mix = rng.standard_normal((g, p))
    above, below = rng.standard_normal((p * block, other)), rng.standard_normal((other, g * block))
    whole = np.kron(mix, np.eye(block))
    np.testing.assert_allclose(fold(above, mix, "output"), whole @ above, atol=1e-14)
    np.testing.assert_allclose(fold(below, mix, "input"), below @ whole, atol=1e-14)
    several = rng.standard_normal((2, g, p))
    for side, linear in (("output", above), ("input", below)):
        stacked = np.stack([linear, 2 * linear])
        each = [fold(one, two, side) for one, two in zip(stacked, several, strict=True)]
        np.testing.assert_allclose(fold(stacked, several, side), each, atol=1e-14)
        np.testing.assert_allclose(fold(stacked, mix, side)[1], 2 * fold(linear, mix, side), atol=1e-14)


@SETTINGS
@given(
    SIZE,
    SIZE,
    SIZE,
    st.sampled_from(("heads after", "commuting after", "any before")),
    st.sampled_from(("half", "interleaved")),
    st.integers(0, 99),
)
def test_vh1_outputs_are_equal(n, P, G, how, kind, seed):
    rng = np.random.default_rng(seed)
    word, applied = how.split()
    layout = RopeLayout.standard(kind, 4, 100.0)
    layer, x = sample_layer(10, n, P, 6, G, rng=rng), rng.standard_normal((5, 10))
    mix, H = random_mix(n, G, P, layout, 6, word, rng), n * G
    outputs = np.eye(H) + rng.standard_normal((H, 1)) @ rng.standard_normal((1, H))
    kept = virtual_attention(x, layer, mix, outputs, layout, applied)
    q = fold_query_mix(layer.W_q, mix, bias=layer.bias, rope=layout, applied=applied)
    W_o = fold_output_mix(layer.W_o, outputs)
    plain = dataclasses.replace(layer, W_q=q.weight, bias=q.bias, W_o=W_o)
    # scores below 100 are right to 1e-14 each, and so are their exponentials
    np.testing.assert_allclose(
        virtual_attention(x, plain, layout=layout), kept, atol=1e-12 * np.abs(kept).max()
    )
    forgotten = dataclasses.replace(plain, bias=None)
    assert not np.allclose(virtual_attention(x, forgotten, layout=layout), kept)


def test_guard():
    layout = RopeLayout.standard("half", 4, 100.0)
    rng = np.random.default_rng(0)
    weight, mix = rng.standard_normal((1, 2, 4, 5)), random_mix(1, 3, 2, head_dim=4, kind="any", rng=rng)
    distance = rope_commutant_residual(mix, layout)
    with pytest.raises(AssumptionError, match=f"at distance {distance:.3g} from that set") as caught:
        fold_query_mix(weight, mix, rope=layout, applied="after")
    assert "complex-linear on every pair" in str(caught.value)
    assert fold_query_mix(weight, mix, rope=layout).commutation_residual == pytest.approx(distance)
    assert fold_query_mix(weight, mix, applied="after").commutation_residual == 0  # nothing turns
    wide = fold_query_mix(weight, mix, rope=layout, applied="after", tol=10.0)
    assert wide.commutation_residual == pytest.approx(distance)
    # the tolerance is a share of the mix: its size does not matter
    fine = virtual_heads.project_to_commutant(mix, layout) + 1e-12 * mix
    for size in (1e-200, 1e-6, 1e6, 1e200):
        assert fold_query_mix(weight, size * fine, rope=layout, applied="after").commutation_residual > 0
        with pytest.raises(AssumptionError, match="at distance"):
            fold_query_mix(weight, size * mix, rope=layout, applied="after")
    # a group is not excused by the size of another one
    both = np.concatenate([1e12 * fine, mix])
    with pytest.raises(AssumptionError, match="at distance"):
        fold_query_mix(np.concatenate([weight, weight]), both, rope=layout, applied="after")
    heads = fold_query_mix(weight, random_mix(1, 3, 2, rng=rng), rope=layout, applied="after")
    assert heads.commutation_residual == 0


def test_guard_is_conservative_where_frequencies_coincide():
    layout = RopeLayout("interleaved", 4, [0.5, 0.5])
    mix = np.zeros((1, 1, 4, 1, 4))
    mix[0, 0, :2, 0, 2:], mix[0, 0, 2:, 0, :2] = np.eye(2), np.eye(2)  # swaps the pairs, which turn alike
    with pytest.warns(NumericalWarning), pytest.raises(AssumptionError):
        fold_query_mix(np.zeros((1, 1, 4, 3)), mix, rope=layout, applied="after")


def test_mixes_of_heads_are_whole_mixes():
    rng = np.random.default_rng(1)
    weight, bias, mix = (rng.standard_normal(shape) for shape in ((2, 3, 4, 5), (2, 3, 4), (2, 6, 3)))
    whole = np.einsum("ngp,de->ngdpe", mix, np.eye(4))
    one, two = (fold_query_mix(weight, m, bias=bias) for m in (mix, whole))
    np.testing.assert_allclose(one.weight, two.weight, atol=1e-14)
    np.testing.assert_allclose(one.bias, two.bias, atol=1e-14)
    np.testing.assert_allclose(one.weight, np.einsum("ngp,npdx->ngdx", mix, weight), atol=1e-14)


def test_output_mix_to_fewer_heads():
    rng = np.random.default_rng(2)
    W_o, mix, o = (rng.standard_normal(shape) for shape in ((5, 2, 3), (2, 6), (6, 3)))
    left = np.einsum("xhd,hd->x", W_o, mix @ o.reshape(6, 3))
    np.testing.assert_allclose(np.einsum("xhd,hd->x", fold_output_mix(W_o, mix), o), left, atol=1e-13)


def test_one_place_to_import_from():
    names = ("fold_into", "virtual_rank", "factor_virtual", "rope_commutant_residual", "RopeLayout")
    assert {*names, "fold_query_mix", "fold_output_mix", "project_to_commutant"} <= {*virtual_heads.__all__}


def test_result_round_trip(tmp_path):
    fold_query_mix(W, M, bias=[[[1, 2], [3, 4]]]).save(tmp_path / "folded.npz")
    back = Result.load(tmp_path / "folded.npz")
    assert isinstance(back, FoldedProjection)
    assert back.weight.shape == (1, 3, 2, 2)


ZEROS = np.zeros((2, 3, 4, 5))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fold_query_mix(ZEROS, np.zeros((2, 6, 4))), r"got \(2, 6, 4\) for W_q of \(2, 3, 4, 5\)"),
        (lambda: fold_query_mix(ZEROS, np.zeros((3, 6, 3))), r"mix must be \(n_kv, G, P\)"),
        (lambda: fold_query_mix(ZEROS, np.zeros((6, 3))), r"mix must be \(n_kv, G, P\)"),
        (lambda: fold_query_mix(ZEROS, np.zeros((2, 6, 4, 3, 5))), r"or \(n_kv, G, d_h, P, d_h\), got"),
        (lambda: fold_query_mix(ZEROS[0], np.zeros((2, 6, 3))), "W_q must have 4 axes"),
        (lambda: fold_query_mix(ZEROS, 1.0), r"mix must be \(n_kv, G, P\)"),
        (lambda: fold_query_mix(ZEROS[:0], np.zeros((0, 6, 3))), r"for W_q of \(0, 3, 4, 5\)"),
        (lambda: fold_query_mix(ZEROS, np.zeros((2, 0, 3))), r"got \(2, 0, 3\)"),
        (
            lambda: fold_query_mix(ZEROS, np.zeros((2, 6, 3)), bias=np.zeros((2, 6, 4))),
            r"bias must be \(n_kv, P, d_h\) = \(2, 3, 4\), got \(2, 6, 4\)",
        ),
        (lambda: fold_query_mix(ZEROS, np.full((2, 6, 3), np.nan)), "mix must be finite"),
        (lambda: fold_query_mix(ZEROS, np.zeros((2, 6, 3)), applied="later"), "applied must be one of"),
        (lambda: fold_query_mix(ZEROS, np.zeros((2, 6, 3)), tol=0), "tol must be finite and > 0"),
        (lambda: fold_output_mix(ZEROS[0], np.eye(3)), r"got \(3, 3\) for W_o of \(3, 4, 5\)"),
        (lambda: fold_output_mix(ZEROS, np.eye(3)), "W_o must have 3 axes"),
        (
            lambda: fold(np.zeros((4, 3)), np.zeros((2, 3)), "output"),
            r"got \(2, 3\) for a weight of \(4, 3\)",
        ),
        (lambda: fold(np.zeros((4, 3)), np.zeros((2, 2)), "input"), "g a divisor of the input width"),
        (lambda: fold(np.zeros((4, 3)), np.zeros(4), "output"), r"mix must be \(..., g, p\)"),
        (lambda: fold(np.zeros((4, 3)), np.zeros((2, 2, 2)), "output"), "the same leading axes"),
        (lambda: fold(np.zeros((4, 3)), np.eye(4), "left"), "side must be one of"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()
