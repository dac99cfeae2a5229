"""Every line of the contract of the tiny transformer, in float64."""

import copy
import pickle

import numpy as np
import pytest

from porism.sims.tiny_transformer import TinyConfig, check_rule
from porism.theory.attention import attend

EXACT = 1e-14  # float64, a few hundred operations of size 1; differences seen are below 3e-15
SHAPES = {
    "rope": {"kv_heads": 2},
    "learned": {"position": "learned", "norm": "layer", "act": "swiglu"},
    "none": {"position": "none", "act": "relu", "tie": False},
}


@pytest.fixture
def torch(needs):
    return needs("torch")


def build(seed=0, **fields):
    """A small model in float64, after norms that are not one and blocks that matter."""
    import torch

    from porism.sims.tiny_transformer import TinyTransformer

    fields = {"vocab": 0 if "input_dim" in fields else 11, "d": 16, "heads": 4, "max_len": 24} | fields
    model = TinyTransformer(TinyConfig(**fields), seed).double()
    draws = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=draws, dtype=torch.float64)
    return model


def ids(torch, shape=(3, 12), seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 11, size=shape))


def adapter(torch, out, into, seed=3):
    module = torch.nn.Linear(into, out, bias=False, dtype=torch.float64, device="meta").to_empty(device="cpu")
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        module.weight.copy_(torch.randn(out, into, generator=draws, dtype=torch.float64))
    return module


def adapt(torch, model):
    for i, layer in enumerate(model.named_linears().values()):
        layer.adapter = adapter(torch, *layer.weight.shape, seed=i)
    return model


def apart(a, b):
    return float((a - b).detach().abs().max())


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chunks", [(5, 1, 1, 5), (1,) * 12])
def test_cached_decode_equals_full_forward(torch, shape, chunks):
    model, x = build(**SHAPES[shape]), ids(torch)
    cache, past, parts = model.new_cache(), 0, []
    for size in chunks:
        where = torch.arange(past, past + size)
        parts.append(model(x[:, past : past + size], positions=where, cache=cache))
        past += size
    assert apart(torch.cat(parts, dim=1), model(x)) < EXACT
    assert cache[0][0].shape == (3, model.config.groups, 12, 4)


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_later_tokens_do_not_matter(torch, shape):
    model, x = build(**SHAPES[shape]), ids(torch)
    other = x.clone()
    other[:, 9:] = (other[:, 9:] + 1) % 11
    before, after = model(x), model(other)
    assert apart(before[:, :9], after[:, :9]) == 0
    assert apart(before[:, 9:], after[:, 9:]) > 0.1
    seeing = build(**SHAPES[shape], causal=False)
    assert apart(seeing(x)[:, :9], seeing(other)[:, :9]) > 1e-3


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [True, False])
def test_left_padding_changes_nothing(torch, shape, causal):
    model, x = build(**SHAPES[shape], causal=causal), ids(torch)
    padded = torch.cat([torch.zeros(3, 3, dtype=torch.int64), x], dim=1)
    mask = (torch.arange(15) >= 3).expand(3, 15)
    where = (torch.arange(15) - 3).clamp(min=0)
    out = model(padded, key_mask=mask, positions=where)
    assert apart(out[:, 3:], model(x)) < EXACT
    assert bool(out.isfinite().all())
    if shape == "rope":  # only differences of positions matter
        assert apart(model(padded, key_mask=mask)[:, 3:], model(x)) < EXACT
        assert apart(model(padded, positions=where)[:, 3:], model(x)) > 1e-3


@pytest.mark.full
def test_padding_with_a_cache(torch):
    model, x = build(kv_heads=2), ids(torch)
    mask = torch.ones(3, 12, dtype=torch.bool)
    mask[1, :4] = False
    full = model(x, key_mask=mask)
    cache = model.new_cache()
    first = model(x[:, :7], key_mask=mask[:, :7], positions=torch.arange(7), cache=cache)
    rest = model(x[:, 7:], key_mask=mask, positions=torch.arange(7, 12), cache=cache)
    assert apart(torch.cat([first, rest], dim=1), full) < EXACT


@pytest.mark.full
@pytest.mark.parametrize("causal", [True, False])
def test_a_fully_masked_row_attends_to_itself(torch, causal):
    model, x = build(causal=causal), ids(torch)
    out = model(x, key_mask=torch.zeros(3, 12, dtype=torch.bool))
    alone = model(x.reshape(-1, 1), positions=torch.arange(12).repeat(3)[:, None])
    assert apart(out.reshape(36, 11), alone[:, 0]) < EXACT


@pytest.mark.full
def test_no_position_means_none(torch):
    model = build(position="none", causal=False, readout="mean")
    x = ids(torch)
    assert apart(model(x), model(x.flip(1))) < EXACT
    assert (
        apart(build(causal=False, readout="mean")(x), build(causal=False, readout="mean")(x.flip(1))) > 1e-3
    )


@pytest.mark.full
def test_adapters_and_token_masks(torch):
    model, x = build(kv_heads=2), ids(torch)
    bare = model(x)
    adapt(torch, model)
    assert torch.equal(model(x, token_mask=torch.zeros(3, 12)), bare)  # bit-identical
    assert torch.equal(model(x, token_mask=torch.ones(3, 12)), model(x))
    assert apart(model(x), bare) > 0.1
    prefix = (torch.arange(12) < 6).double().expand(3, 12)
    full = model(x, token_mask=prefix)
    assert apart(full, model(x)) > 1e-3
    cache = model.new_cache()
    parts = [model(x[:, :6], positions=torch.arange(6), cache=cache)]
    for layer in model.named_linears().values():
        layer.adapter = None
    parts += [model(x[:, i : i + 1], positions=torch.tensor([i]), cache=cache) for i in range(6, 12)]
    # outputs are of size 30 with these adapters
    assert apart(torch.cat(parts, dim=1), full) < 10 * EXACT


@pytest.mark.full
@pytest.mark.parametrize("readout", ["all", "last", "mean", "token"])
def test_token_mask_reaches_input_map_and_head(torch, readout):
    model = build(input_dim=2, n_out=3, readout=readout, position="learned")
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5, 2)))
    length = 6 if readout == "token" else 5
    bare = model(x)
    for layer in (model.input_map, model.head):
        layer.adapter = adapter(torch, *layer.weight.shape)
    assert torch.equal(model(x, token_mask=torch.zeros(2, length)), bare)
    assert apart(model(x, token_mask=torch.ones(2, length)), model(x)) < EXACT
    assert apart(model(x), bare) > 0.1


def feedback_rule(torch, feedback):
    class Rule(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x)
            return x @ weight.T

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad @ feedback, grad.flatten(0, -2).T @ x.flatten(0, -2)

    return Rule.apply


@pytest.mark.full
def test_rule_replaces_the_backward_direction(torch):
    def gradients(feedback):
        model = build()
        for name, layer in model.named_linears().items():
            if feedback is not None:
                layer.rule = feedback_rule(torch, feedback(name, layer))
                assert check_rule(layer) == 0
        loss = model(ids(torch)).square().mean()
        return torch.autograd.grad(loss, list(model.parameters()))

    plain = gradients(None)
    same = gradients(lambda name, layer: layer.weight.detach())
    draws = torch.Generator().manual_seed(0)
    other = gradients(
        lambda name, layer: torch.randn(layer.weight.shape, generator=draws, dtype=torch.float64)
    )
    scale = max(float(g.abs().max()) for g in plain)
    # the products differ from torch's own only in how they are called
    assert max(apart(a, b) for a, b in zip(plain, same, strict=True)) < EXACT * scale
    assert max(apart(a, b) for a, b in zip(plain, other, strict=True)) > 0.1 * scale


@pytest.mark.full
def test_check_rule_catches_another_forward_value(torch):
    layer = build().named_linears()["blocks.1.down"]
    with pytest.raises(ValueError, match="must have a rule"):
        check_rule(layer)
    layer.rule = lambda x, weight: x @ weight.T * (1 + 1e-9)
    with pytest.raises(ValueError, match="relative difference of 1e-09"):
        check_rule(layer)
    layer.rule = lambda x, weight: (x @ weight.T)[..., :-1]
    with pytest.raises(ValueError, match=r"shape \(3, 5, 16\), got \(3, 5, 15\)"):
        check_rule(layer)
    layer.rule = lambda x, weight: x @ weight.T
    assert check_rule(layer) == 0


@pytest.mark.full
def test_tap_reads_after_the_adapter(torch):
    model, seen = adapt(torch, build()), []
    layer = model.named_linears()["blocks.0.up"]
    layer.tap = lambda x, y: seen.append((x, y))
    before = model(ids(torch))
    ((x, y),) = seen
    assert apart(y, x @ layer.weight.T + layer.adapter(x)) < EXACT * 100
    layer.tap = None
    assert torch.equal(model(ids(torch)), before)


@pytest.mark.full
def test_attend_replaces_attention(torch):
    model, x = build(kv_heads=2), ids(torch)
    expected, seen = model(x), []

    def plain(q, k, v, mask, causal):
        seen.append((tuple(q.shape), tuple(k.shape), mask is None, causal))
        visible = np.tri(q.shape[2], dtype=bool) if causal else mask
        return torch.from_numpy(attend(*(part.detach() for part in (q, k, v)), visible).output)

    for block in model.blocks:
        block.attend = plain
    assert apart(model(x), expected) < EXACT
    assert seen == [((3, 4, 12, 4), (3, 2, 12, 4), True, True)] * 2
    cache, parts = model.new_cache(), []
    for a, b in ((0, 5), (5, 9), (9, 10), (10, 12)):
        parts.append(model(x[:, a:b], positions=torch.arange(a, b), cache=cache))
    assert apart(torch.cat(parts, dim=1), expected) < EXACT
    assert [(none, causal) for *_, none, causal in seen[2::2]] == [
        (True, True),
        (False, False),
        (True, False),
        (False, False),
    ]


@pytest.mark.full
def test_readouts_and_hidden(torch):
    x, mask = ids(torch), torch.ones(3, 12, dtype=torch.bool)
    mask[0, 8:] = False
    every, last, mean = (build(readout=r, causal=False) for r in ("all", "last", "mean"))
    out, streams = every(x, key_mask=mask, hidden=True)
    assert [tuple(h.shape) for h in streams] == [(3, 12, 16)] * 3
    assert torch.equal(streams[0], every.embedding[x])
    assert apart(every.norm(streams[-1]) @ every.embedding.T, out) < EXACT
    assert apart(last(x, key_mask=mask), out[:, -1]) < EXACT
    averaged = torch.stack([out[0, :8].mean(dim=0), out[1].mean(dim=0), out[2].mean(dim=0)])
    assert apart(mean(x, key_mask=mask), averaged) < EXACT
    token = build(readout="token", position="learned", max_len=12)
    out, streams = token(x, hidden=True)
    assert out.shape == (3, 11)
    assert [tuple(h.shape) for h in streams] == [(3, 13, 16)] * 3
    assert torch.equal(streams[0][1, -1], token.readout_token + token.positions[12])
    assert apart(out, token.norm(streams[-1][:, -1]) @ token.embedding.T) < EXACT
    seeing = build(readout="token", causal=False)
    assert apart(seeing(x, key_mask=torch.ones_like(mask)), seeing(x)) < EXACT  # others see it too
    assert apart(seeing(x, key_mask=mask), seeing(x)) > 1e-3
    blind = build(readout="token", position="learned", max_len=12)
    empty = blind(x, key_mask=torch.zeros_like(mask))
    assert apart(empty[0], empty[2]) < EXACT  # it sees itself alone


@pytest.mark.full
def test_no_global_state_is_touched(torch):
    from porism.sims.tiny_transformer import TinyTransformer

    state, threads, default = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        model = TinyTransformer(TinyConfig(vocab=11, d=16), seed=5)
    finally:
        torch.set_default_dtype(default)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    torch.testing.assert_close(
        model.state_dict(), TinyTransformer(TinyConfig(vocab=11, d=16), seed=5).state_dict(), rtol=0, atol=0
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.full
def test_copies(torch):
    model = build()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(ids(torch)), model(ids(torch)))
    assert type(model).__module__ == "porism.sims.tiny_transformer"


@pytest.mark.full
def test_two_builds_have_the_same_bits(torch):
    torch.testing.assert_close(build(seed=9).state_dict(), build(seed=9).state_dict(), rtol=0, atol=0)
