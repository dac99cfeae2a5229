"""Features against what the model itself returns, gradients, and padding on either side."""

import subprocess
import sys

import numpy as np
import pytest

from porism.sims.alignment.features import Features, collect_features

pytestmark = pytest.mark.full

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
NAMES = {
    "bert": ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"),
    "gpt2": ("attn.c_attn", "attn.c_proj", "mlp.c_fc"),
    "llama": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
}


@pytest.fixture
def torch(needs):
    return needs("torch")


def build(kind, torch, needs, attention="eager", **more):
    transformers = needs("transformers")
    kinds = {
        "bert": (transformers.BertModel, transformers.BertConfig, SIZES),
        "gpt2": (transformers.GPT2Model, transformers.GPT2Config, {"n_layer": 2, "n_head": 4, "n_embd": 32}),
        "llama": (transformers.LlamaModel, transformers.LlamaConfig, SIZES | {"num_key_value_heads": 2}),
    }
    model, config, sizes = kinds[kind]
    torch.manual_seed(0)
    return model(config(vocab_size=50, **sizes, **more, attn_implementation=attention)).train()


@pytest.fixture(params=["bert", "gpt2", "llama"])
def kind(request):
    return request.param


def tokens(torch, lengths, left=False, labels=None):
    width = max(lengths)
    draws = torch.Generator().manual_seed(sum(lengths))
    ids = torch.randint(5, 50, (len(lengths), width), generator=draws)
    mask = torch.stack([(torch.arange(width) < n).long() for n in lengths])
    mask = mask.flip(1) if left else mask
    batch = {"input_ids": torch.where(mask.bool(), ids, 0), "attention_mask": mask}
    if labels is not None:
        batch["labels"] = torch.tensor(labels)
    return batch


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def inputs_of(model, name, batch, torch):
    """What a module sees, by a hook of this test's own, and the maps that the model tells."""
    seen = []
    module = dict(model.named_modules())[name]
    hook = module.register_forward_pre_hook(lambda m, args: seen.append(args[0].detach().clone()))
    modes = model.training
    with torch.no_grad():
        out = model.eval()(
            **{k: v for k, v in batch.items() if k != "labels"}, output_attentions=True, use_cache=False
        )
    model.train(modes)
    hook.remove()
    return seen[0], out.attentions


def ends(batch, position):
    real = [np.flatnonzero(row) for row in batch["attention_mask"].numpy()]
    return [int(row[0] if position == "cls" else row[-1]) for row in real]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("position", ["cls", "last"])
def test_targets_are_the_models_own(kind, position, left, torch, needs):
    model = build(kind, torch, needs)
    batches = [tokens(torch, (9, 6, 4), left, [0, 1, 2]), tokens(torch, (5,), left, [1])]
    names = NAMES[kind]
    found = collect_features(model, batches, names, position=position, pooling="target")
    assert model.training
    assert hooks(model) == 0
    assert len(found) == 2 * len(names)
    for name, features in found.items():
        expected = []
        for batch in batches:
            x, _ = inputs_of(model, name, batch, torch)
            expected += [x[i, at] for i, at in enumerate(ends(batch, position))]
        assert np.allclose(features.x, torch.stack(expected).numpy(), atol=1e-6)
        assert features.y.tolist() == [0, 1, 2, 1]
        assert features.sample.tolist() == [0, 1, 2, 3]
        assert (features.rule, features.n_seen, features.n_dropped) == ("target", 4, 0)
        assert features.module == name


@pytest.mark.parametrize("left", [False, True])
def test_all_tokens_and_pooled_ones_are_the_models_own(kind, left, torch, needs):
    model = build(kind, torch, needs)
    batch = tokens(torch, (9, 6, 4), left, [0, 1, 2])
    mask = batch["attention_mask"].bool()
    layer = {"bert": "encoder.layer.1.", "gpt2": "h.1.", "llama": "layers.1."}[kind]
    name = layer + {"bert": NAMES["bert"][2], "gpt2": NAMES["gpt2"][0], "llama": NAMES["llama"][2]}[kind]
    x, maps = inputs_of(model, name, batch, torch)
    every = collect_features(model, [batch], [name], pooling="all")[name]
    assert np.allclose(every.x, x[mask].numpy(), atol=1e-6)
    assert every.sample.tolist() == [0] * 9 + [1] * 6 + [2] * 4
    assert every.y.tolist() == every.sample.tolist()
    pooled = collect_features(model, [batch], [name], position="last")[name]
    assert pooled.rule == "attention"
    at = torch.tensor(ends(batch, "last"))
    expected = torch.einsum("bht,btd->bhd", maps[1][torch.arange(3), :, at], x * mask[..., None])
    assert np.allclose(pooled.x, expected.flatten(0, 1).numpy(), atol=1e-5)
    assert pooled.sample.tolist() == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize("groups", [4, 2])
def test_value_gradient_lives_on_pooled_features(groups, torch, needs):
    """DK-15: G_h = sum_i g_ih z_ih' in the last block, query heads of a group added up; targets miss it."""
    tiny = needs("porism.sims.tiny_transformer")
    config = tiny.TinyConfig(
        vocab=30, d=16, heads=4, kv_heads=groups, layers=2, n_out=3, readout="last", causal=False
    )
    model = tiny.TinyTransformer(config, seed=1).double()
    ids, y = torch.randint(0, 30, (10, 7), generator=torch.Generator().manual_seed(0)), torch.arange(10) % 3
    name = "blocks.1.v"
    found = collect_features(model, [{"x": ids, "labels": y}], [name], position="last")[name]
    assert found.rule == "attention"
    pooled = found.x.reshape(10, 4, 16)
    contexts = []
    hook = model.blocks[1].o.register_forward_pre_hook(lambda m, args: contexts.append(args[0]))
    loss = torch.nn.functional.cross_entropy(model(ids), y)
    hook.remove()
    contexts[0].retain_grad()
    loss.backward()
    g = contexts[0].grad[:, -1].reshape(10, 4, 4).numpy()  # sample, head, entry of the head
    G = np.einsum("ihe,ihd->hed", g, pooled).reshape(groups, 4 // groups, 4, 16).sum(axis=1).reshape(-1, 16)
    exact = model.blocks[1].v.weight.grad.numpy()
    assert np.abs(G - exact).max() <= 1e-12 * np.abs(exact).max()
    target = collect_features(model, [{"x": ids, "labels": y}], [name], position="last", pooling="target")[
        name
    ]
    wrong = np.einsum("ihe,id->hed", g, target.x).reshape(groups, -1, 4, 16).sum(axis=1).reshape(-1, 16)
    assert np.abs(wrong - exact).max() > 0.1 * np.abs(exact).max()


def test_value_gradient_in_a_bert(torch, needs):
    model = build("bert", torch, needs).double().eval()
    batch = tokens(torch, (9, 6, 4, 7))
    name = "encoder.layer.1.attention.self.value"
    pooled = collect_features(model, [batch], [name])[name].x.reshape(4, 4, 32)
    contexts = []
    layer = model.encoder.layer[1].attention
    hook = layer.output.dense.register_forward_pre_hook(lambda m, args: contexts.append(args[0]))
    out = model(**batch).last_hidden_state[:, 0]
    hook.remove()
    contexts[0].retain_grad()
    (
        out * torch.randn(out.shape, generator=torch.Generator().manual_seed(2), dtype=out.dtype)
    ).sum().backward()
    g = contexts[0].grad[:, 0].reshape(4, 4, 8).numpy()
    exact = layer.self.value.weight.grad.numpy()
    G = np.einsum("ihe,ihd->hed", g, pooled).reshape(32, 32)
    assert np.abs(G - exact).max() <= 1e-12 * np.abs(exact).max()


def test_auto_goes_by_what_a_projection_does(torch, needs):
    model = build("bert", torch, needs)
    batch = tokens(torch, (9, 6, 4, 8), labels=[0, 1, 0, 1])
    batch["input_ids"][:, 0] = 3
    found = collect_features(model, [batch], ["query", "key", "value", "intermediate.dense"])
    rules = {name.removeprefix("encoder.layer."): f.rule for name, f in found.items()}
    assert rules == {
        "0.attention.self.query": "all",  # the target's embedding is the same for all
        "1.attention.self.query": "target",
        "0.attention.self.key": "all",
        "1.attention.self.key": "all",
        "0.attention.self.value": "attention",
        "1.attention.self.value": "attention",
        "0.intermediate.dense": "target",
        "1.intermediate.dense": "target",
    }
    first = found["encoder.layer.0.attention.self.query"]
    assert "same for every sample" in first.reason
    assert not first.constant
    alone = [{k: v[i : i + 1] for k, v in batch.items()} for i in range(4)]
    one_by_one = collect_features(model, alone, ["query"])
    for name, features in one_by_one.items():
        assert features.rule == found[name].rule
        assert features.x.shape == found[name].x.shape
        assert np.allclose(features.x, found[name].x, atol=1e-5)
    lone = collect_features(model, alone[:1], ["query"])  # one sample does not show what is constant
    assert {(f.rule, len(f.x)) for f in lone.values()} == {("target", 1)}
    asked = collect_features(model, [batch], ["query"], pooling="target")
    assert [f.constant for f in asked.values()] == [True, False]


def test_modules_with_one_input_share_their_rows(kind, torch, needs):
    model = build(kind, torch, needs)
    batches = [tokens(torch, (9, 6)), tokens(torch, (4, 7))]
    names = NAMES[kind][:3]
    for pooling in ("target", "all") if kind == "gpt2" else ("target", "all", "attention"):
        found = collect_features(model, batches, names, pooling=pooling, max_rows=10, random_state=0)
        by_layer = {}
        for name, features in found.items():
            by_layer.setdefault(name.split(".")[-4 if kind == "bert" else -3], []).append(features.x)
        assert len(by_layer) == 2
        for arrays in by_layer.values():
            if kind == "gpt2":  # one matrix reads it, the others see something else
                assert len({id(x) for x in arrays}) == 3
            else:
                assert len({id(x) for x in arrays}) == 1


def test_fused_projections_are_pooled(torch, needs):
    found = collect_features(build("gpt2", torch, needs), [tokens(torch, (9, 6))], ["c_attn"])
    assert {f.rule for f in found.values()} == {"attention"}


def test_without_attention_weights(torch, needs):
    model = build("bert", torch, needs, attention="sdpa")
    batches = [tokens(torch, (9, 6)), tokens(torch, (5,))]
    found = collect_features(model, batches, ["value"])
    assert all(f.rule == "all" and "attn_implementation='eager'" in f.reason for f in found.values())
    assert all(len(f.x) == 20 for f in found.values())
    with pytest.raises(
        ValueError, match=r"module .*value.* has no attention maps.*attn_implementation='eager'"
    ):
        collect_features(model, batches, ["value"], pooling="attention")
    with pytest.raises(ValueError, match="has no attention maps around it"):
        collect_features(build("bert", torch, needs), batches, ["intermediate.dense"], pooling="attention")
    assert hooks(model) == 0


def test_positions(torch, needs):
    model = build("bert", torch, needs)
    batch = tokens(torch, (9, 6, 4), labels=[0, 1, 0])
    name = "encoder.layer.1.attention.self.query"
    x, _ = inputs_of(model, name, batch, torch)
    places = [3, 5, 0]
    for i, at in enumerate(places):
        batch["input_ids"][i, at] = 4
    x, _ = inputs_of(model, name, batch, torch)
    masked = collect_features(model, [batch], [name], position="mask", mask_token_id=4)[name]
    assert np.allclose(masked.x, x[range(3), places].numpy(), atol=1e-6)
    seen = []
    chosen = collect_features(
        model, [batch], [name], position=lambda inputs: seen.append(set(inputs)) or torch.tensor([2, -1, 1])
    )[name]
    assert np.allclose(chosen.x, x[[0, 2], [2, 1]].numpy(), atol=1e-6)
    assert (chosen.n_seen, chosen.n_dropped, chosen.y.tolist()) == (2, 1, [0, 0])
    assert seen == [{"input_ids", "attention_mask"}]
    batch["input_ids"][1, 5] = 7
    two = [batch, {k: v.clone() for k, v in batch.items()}]
    two[0]["input_ids"][1, 5] = 4
    with pytest.raises(ValueError, match=r"^row 4 has 0 mask tokens; exactly one is required"):
        collect_features(model, two, [name], position="mask", mask_token_id=4)
    batch["input_ids"][1, 0] = 4  # beside the one that two[0] shares
    with pytest.raises(ValueError, match=r"^row 1 has 2 mask tokens; exactly one is required"):
        collect_features(model, [batch], [name], position="mask", mask_token_id=4)
    batch["labels"][1] = -100  # a row left out may have any number
    assert collect_features(model, [batch], [name], position="mask", mask_token_id=4)[name].n_dropped == 1


def test_labels(torch, needs):
    """Shape (B,), also where B equals T; -100 is left out and counted; the features do not depend on them."""
    model = build("bert", torch, needs)
    for size in (3, 6):
        batch = tokens(torch, (6,) * size, labels=[0, -100, 2, 1, 1, 0][:size])
        found = collect_features(model, [batch], ["query", "value"])
        plain = {k: v[[i for i in range(size) if i != 1]] for k, v in batch.items() if k != "labels"}
        bare = collect_features(model, [plain], ["query", "value"])
        for name, features in found.items():
            assert np.allclose(features.x, bare[name].x, rtol=1e-6, atol=1e-6)
            assert bare[name].y is None
            assert (features.n_seen, features.n_dropped) == (size - 1, 1)
            assert features.per_sample().y.tolist() == [0, 2, 1, 1, 0][: size - 1]
    several = tokens(torch, (6, 4), labels=[[1, 2, 3, 4, 5, 6]] * 2)
    assert all(f.y is None for f in collect_features(model, [several], ["query"]).values())
    renamed = tokens(torch, (6, 4))
    renamed["topic"] = torch.tensor([[1], [0]])
    assert collect_features(model, [renamed], ["query"], labels_key="topic")[
        "encoder.layer.1.attention.self.query"
    ].y.tolist() == [1, 0]


def test_forms_of_batches(torch, needs):
    model = build("bert", torch, needs)
    batch = tokens(torch, (6, 6, 6), labels=[0, 1, 0])
    name = "encoder.layer.1.attention.self.query"
    expected = collect_features(model, [batch], [name])[name].x
    from transformers import BatchEncoding

    bare = {k: v for k, v in batch.items() if k != "labels"}
    forms = [
        [BatchEncoding(batch)],
        batch,
        ({k: v[i : i + 1] for k, v in batch.items()} for i in range(3)),
        [(bare, batch["labels"])],
        [batch["input_ids"]],
        [(batch["input_ids"], [0, 1, 0])],
    ]
    for form in forms:
        assert np.allclose(collect_features(model, form, [name])[name].x, expected, atol=1e-6)
    assert set(batch) == {"input_ids", "attention_mask", "labels"}


def test_tiny_transformer(torch, needs):
    tiny = needs("porism.sims.tiny_transformer")
    model = tiny.TinyTransformer(tiny.TinyConfig(vocab=20, d=16, heads=4, kv_heads=2, causal=False))
    ids = torch.randint(0, 20, (3, 8), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, 8, dtype=torch.bool)
    mask[1, 5:] = False
    before = model(ids, key_mask=mask)
    found = collect_features(
        model, [{"x": ids, "key_mask": mask}], ["q", "k", "v", "o", "up"], position="last"
    )
    assert {name: f.rule for name, f in found.items()} == {
        f"blocks.{i}.{part}": rule
        for part, rule in (
            ("q", "target"),
            ("k", "all"),
            ("v", "attention"),
            ("o", "target"),
            ("up", "target"),
        )
        for i in range(2)
    }
    assert found["blocks.0.v"].x.shape == (12, 16)
    assert found["blocks.0.k"].x.shape == (21, 16)
    with torch.no_grad():
        h = model.blocks[0].norm1(torch.nn.functional.embedding(ids, model.embedding))
    assert np.allclose(found["blocks.0.q"].x, h[range(3), [7, 4, 7]].numpy(), atol=1e-6)
    assert torch.equal(model(ids, key_mask=mask), before)
    assert all(block.attend is None for block in model.blocks)
    own = model.blocks[0].attend = lambda q, k, v, mask, causal: v.repeat_interleave(2, dim=1)
    collect_features(model, [ids], ["v"])
    assert model.blocks[0].attend is own


def test_a_row_of_the_right_size_for_each_precision(torch, needs):
    for kind, eps in ((torch.float64, 2.0**-52), (torch.float32, 2.0**-23), (torch.bfloat16, 2.0**-7)):
        model = build("bert", torch, needs).to(kind)
        batch = tokens(torch, (6, 6))
        batch["input_ids"][:, 0] = 3
        found = collect_features(model, [batch], ["query"], pooling="target")
        assert {f.x.dtype for f in found.values()} == {np.dtype("f8" if kind is torch.float64 else "f4")}
        assert {f.input_eps for f in found.values()} == {eps}
        # a random block moves [CLS] by less than a unit of bfloat16
        assert [f.constant for f in found.values()] == [True, kind is torch.bfloat16]


def test_everything_is_as_before_after_an_exception(kind, torch, needs):
    model = build(kind, torch, needs)
    last = list(model.modules())[-1]
    last.training = False
    modes = [m.training for m in model.modules()]
    bad = tokens(torch, (4, 4))
    bad["input_ids"][0, 0] = 99  # no such token
    with pytest.raises(IndexError):
        collect_features(model, [tokens(torch, (4, 4)), bad], NAMES[kind])
    assert [m.training for m in model.modules()] == modes
    assert hooks(model) == 0
    assert torch.is_grad_enabled()
    tiny = needs("porism.sims.tiny_transformer")
    model = tiny.TinyTransformer(tiny.TinyConfig(vocab=20, d=16, heads=4))
    with pytest.raises(ValueError, match="token ids"):
        collect_features(model, [torch.tensor([[25]])], ["v"])
    assert all(block.attend is None for block in model.blocks)


def test_reservoir(torch, needs):
    model = build("bert", torch, needs)
    draws = torch.Generator().manual_seed(5)
    ids = torch.randint(5, 50, (40, 5), generator=draws)
    whole = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.arange(40)}
    batches = [{k: v[i : i + 7] for k, v in whole.items()} for i in range(0, 40, 7)]
    full = collect_features(model, [whole], ["query", "key", "value"])
    kept = collect_features(model, [whole], ["query", "key", "value"], max_rows=12, random_state=3)
    again = collect_features(model, batches, ["query", "key", "value"], max_rows=12, random_state=3)
    other = collect_features(model, batches, ["query", "key", "value"], max_rows=12, random_state=4)
    for name, features in kept.items():
        assert len(features.x) == 12
        assert features.n_seen == 40
        assert np.array_equal(features.sample, again[name].sample)
        assert np.allclose(features.x, again[name].x, atol=1e-5)
        assert not np.array_equal(features.sample, other[name].sample)
        rows = {tuple(row) for row in full[name].x.round(5)}
        assert {tuple(row) for row in features.x.round(5)} <= rows
        assert np.array_equal(features.sample, features.y)
        if features.rule == "attention":  # whole samples: 3 of 4 heads
            assert sorted(np.unique(features.sample, return_counts=True)[1]) == [4, 4, 4]
    name = "encoder.layer.1.attention.self.query"
    counts = np.zeros(40)
    for seed in range(150):
        counts[collect_features(model, [whole], [name], max_rows=12, random_state=seed)[name].sample] += 1
    # each sample is kept with probability 0.3: 45 of 150, standard deviation 5.6; 5 sigma for 40 looks
    assert np.abs(counts - 45).max() < 28


def test_modules_by_name(torch, needs):
    model = build("bert", torch, needs)
    batch = tokens(torch, (5, 5))
    assert list(collect_features(model, [batch], r"encoder\.layer\.1\.attention\.self\.(query|value)")) == [
        "encoder.layer.1.attention.self.query",
        "encoder.layer.1.attention.self.value",
    ]
    assert list(collect_features(model, [batch], ["pooler.dense"], pooling="all")) == ["pooler.dense"]
    for names in (["quary"], "quary.*"):
        with pytest.raises(ValueError, match=r"modules must .*got 'quary"):
            collect_features(model, [batch], names)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft asks
def test_peft_models(torch, needs):
    peft = needs("peft")
    model = build("bert", torch, needs)
    batch = tokens(torch, (9, 6, 4), labels=[0, 1, 2])
    plain = collect_features(model, [batch], ["query", "value"])
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["query", "value"]))
    found = collect_features(adapted, [batch], ["query", "value"])
    for (name, features), (_, before) in zip(found.items(), plain.items(), strict=True):
        assert name.startswith("base_model.model.encoder.layer.")
        assert features.rule == before.rule
        assert np.allclose(features.x, before.x, atol=1e-6)  # B is zero: adapters change nothing
    base = [name + ".base_layer" for name in found]
    again = collect_features(adapted, [batch], base)
    assert [f.rule for f in again.values()] == [f.rule for f in found.values()]


def test_per_sample_and_files(tmp_path):
    x = np.arange(12.0).reshape(6, 2) + 1e6
    features = Features(x, np.array([0, 0, 1, 1, 1, 0]), 3, 1, np.array([4, 4, 7, 7, 7, 9]), "all")
    single = features.per_sample()
    assert single.x.tolist() == [[1e6 + 1, 1e6 + 2], [1e6 + 6, 1e6 + 7], [1e6 + 10, 1e6 + 11]]
    assert (single.y.tolist(), single.sample.tolist()) == ([0, 1, 0], [4, 7, 9])
    assert single.per_sample() is single
    assert Features(x, None, 6).per_sample().sample is None
    features.save(tmp_path / "f.npz")
    loaded = Features.load(tmp_path / "f.npz")
    assert np.array_equal(loaded.x, x)
    assert loaded.rule == "all"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"labels": [0.5, 1.0]}, TypeError, "labels must be integer classes, got dtype float32"),
        ({"labels": [0, 1, 2]}, ValueError, "labels must have one entry a sample, got 3 for 2 samples"),
        ({"labels": [-100, -100]}, ValueError, "got 2 that are all left out"),
        ({"position": "first"}, ValueError, "position must be one of 'cls', 'last', 'mask'"),
        ({"position": "mask"}, ValueError, "mask_token_id must be given"),
        (
            {"position": lambda b: np.array([0.0, 1.0])},
            ValueError,
            "position must return one integer a sample",
        ),
        ({"position": lambda b: np.array([0, -2])}, ValueError, "got -2 for row 1"),
        ({"position": lambda b: np.array([0, 6])}, ValueError, "position must be below 6.*got 6 for row 1"),
        ({"pooling": "mean"}, ValueError, "pooling must be one of"),
        ({"max_rows": 0}, ValueError, "max_rows must be"),
        ({"modules": []}, ValueError, "modules must name at least one"),
        ({"modules": [3]}, TypeError, "modules must hold names, got int"),
        ({"modules": ["word_embeddings"]}, NotImplementedError, "module '.*word_embeddings' is a Embedding"),
        ({"batches": []}, ValueError, "batches must hold at least one batch"),
        ({"batches": [3]}, TypeError, "a batch must be a mapping"),
        ({"batches": [(1, 2, 3)]}, TypeError, "got 3 parts"),
        ({"empty": True}, ValueError, "row 1 has 0 tokens"),
        ({"mixed": True}, ValueError, "batch 1 differs from those before"),
    ],
)
def test_bad_input(change, error, message, torch, needs):
    change = dict(change)
    model = build("bert", torch, needs)
    batch = tokens(torch, (6, 4), labels=[0, 1])
    if "labels" in change:
        batch["labels"] = torch.tensor(change.pop("labels"))
    if change.pop("empty", False):
        batch["attention_mask"][1] = 0
    batches = change.pop("batches", [batch])
    if change.pop("mixed", False):
        batches = [batch, tokens(torch, (6, 4))]
    modules = change.pop("modules", ["query"])
    with pytest.raises(error, match=message):
        collect_features(model, batches, modules, **change)
    assert hooks(model) == 0


def test_import_is_light():
    code = "import sys, porism.sims.alignment.features as f; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
