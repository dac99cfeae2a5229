"""One pass, nothing left behind, bounded memory, and what is refused."""

import os
import subprocess
import sys

import numpy as np
import pytest

from porism.sims.diagnose import ASPECTS, diagnose

pytestmark = pytest.mark.full

QUICK = {"n_null": 9, "rank": 4}
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
def test_every_batch_runs_once(world, kind):
    model, runs = world.model(kind), []
    model.register_forward_hook(lambda *_: runs.append(world.torch.is_grad_enabled()))
    found = diagnose(model, iter(world.batches()), **QUICK)
    assert runs == [False] * 3
    assert found.aspects == ("capacity", "heads", "ranks", "alignment")
    assert (found.n_samples, found.n_batches, found.n_scanned) == (24, 3, 24)
    assert found.n_tokens == sum(int(b["attention_mask"].sum()) for b in world.batches())
    assert found.causal == (kind != "bert")


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_as_before(world, state, attention, fails):
    model = world.model("llama", attention).train()
    model.layers[0].eval()  # modes of parts are their own
    before = state(model)
    if fails:
        batches = [*world.batches(count=1), {"input_ids": world.torch.full((1, 3), 99)}]
        with pytest.raises((IndexError, ValueError)):
            diagnose(model, batches, **QUICK)
    else:
        diagnose(model, world.batches(), **QUICK)
    assert state(model) == before
    assert model.config._attn_implementation == attention


def test_seed_decides(world):
    model, batches = world.model(), world.batches()
    one, again, other = (diagnose(model, batches, **QUICK, random_state=s) for s in (1, 1, 2))
    assert one.heads == again.heads
    assert one.heads != other.heads
    assert diagnose(model, batches, **QUICK, random_state=None).heads.seed is None


def test_tiny_transformer(needs):
    torch = needs("torch")
    from porism.sims.tiny_transformer import TinyConfig, TinyTransformer

    model = TinyTransformer(TinyConfig(vocab=20, max_len=16, d=16, layers=2, heads=2))
    x = torch.arange(60).reshape(5, 12) % 20
    found = diagnose(model, [x, x.flip(0)], **QUICK)
    assert found.aspects == ("capacity", "heads", "ranks")
    assert found.causal
    assert len(found.heads) == 2 * 2 * 3
    assert all(block.attend is None for block in model.blocks)


def test_heads_are_spread_over_the_batches(world):
    model, batches = world.model(), world.batches(count=5, size=4, labels=False)
    seen = []
    model.encoder.layer[0].register_forward_hook(lambda *_: seen.append(None))
    found = diagnose(model, batches, aspects="heads", n_null=9, scan_samples=5)
    alone = [diagnose(model, {k: v[:1] for k, v in b.items()}, aspects="heads", n_null=9) for b in batches]
    assert found.n_scanned == 5
    for k, record in enumerate(found.heads):
        values = [one.heads.records[k].mass_outside for one in alone]
        assert record.mass_outside == pytest.approx(np.mean(values), abs=1e-5)  # float32 in other batches
    assert found.notes == ("heads were measured on 5 of 20 sequences", *found.notes[1:])
    assert diagnose(model, iter(batches), aspects="heads", n_null=9, scan_samples=5).n_scanned == 5


def test_a_loader_without_a_length(world):
    class Rows(world.torch.utils.data.IterableDataset):
        def __iter__(self):
            for batch in plain:
                yield from [{k: v[i] for k, v in batch.items()} for i in range(8)]

    model, plain = world.model(), world.batches(count=2, lengths=(9, 10))
    loader = world.torch.utils.data.DataLoader(Rows(), batch_size=8)
    assert diagnose(model, loader, **QUICK).heads == diagnose(model, iter(plain), **QUICK).heads


def test_labels_from_three_places(world):
    model, batches = world.model(), world.batches()
    plain = [{k: v for k, v in b.items() if k != "labels"} for b in batches]
    y = np.concatenate([b["labels"].numpy() for b in batches])
    names = np.array(["a", "b", "c"])[y]
    ours = [
        diagnose(model, batches, aspects="alignment", rank=4),
        diagnose(model, plain, labels=y, aspects="alignment", rank=4),
        diagnose(model, plain, labels=names.tolist(), aspects="alignment", rank=4),
        diagnose(
            model,
            [(p, b["labels"]) for p, b in zip(plain, batches, strict=True)],
            aspects="alignment",
            rank=4,
        ),
    ]
    for found in ours[1:]:
        for a, b in zip(found.alignment, ours[0].alignment, strict=True):
            np.testing.assert_equal(vars(a.result), vars(b.result))
    assert [found.classes for found in ours] == [(), (), ("a", "b", "c"), ()]


def test_left_out_samples(world):
    model, batches = world.model(), world.batches()
    y = np.concatenate([b.pop("labels").numpy() for b in batches])
    y[[0, 9]] = -100
    found = diagnose(model, batches, labels=y, aspects=["alignment", "ranks"], rank=4)
    assert (found.alignment.n_seen, found.alignment.n_dropped, found.n_samples) == (22, 2, 24)


def test_without_labels_there_is_a_note(world):
    found = diagnose(world.model(), world.batches(labels=False), **QUICK)
    assert found.alignment is None
    assert "no alignment: there are no labels of one class a sample" in found.notes


def test_memory_limit_projects(world):
    found = diagnose(world.model(), world.batches(), aspects=["capacity", "ranks"], max_bytes=400_000)
    # 16 bytes, 64 bins and 4 maps a squared dimension: 400000 / 4096 = 9.8 squared
    assert found.capacity.sketch == 9
    assert any("projected to 9 dimensions" in note for note in found.capacity.choice.warnings)
    assert not found.ranks.sketched  # 8 bytes and 3 layers: 129 dimensions would fit
    small = diagnose(world.model(), world.batches(), aspects="ranks", max_bytes=8 * 3 * 100)
    assert small.ranks.sketched
    assert small.ranks.effective_rank.max() <= 10


GROWTH = """
import pathlib, re

import torch
from transformers import BertConfig, BertModel
import porism

torch.set_num_threads(1)
torch.manual_seed(0)
config = BertConfig(vocab_size=50, num_hidden_layers=2, num_attention_heads=2, hidden_size=128,
                    intermediate_size=128, max_position_embeddings=40)
model = BertModel(config)


def batches(count):
    for _ in range(count):
        yield {"input_ids": torch.randint(1, 50, (16, 32)), "labels": torch.randint(0, 3, (16,))}


def peak(count, rows):
    porism.diagnose(
        model, batches(count), modules=["key", "value"], n_null=9, rank=4, scan_samples=8, max_rows=rows
    )
    status = pathlib.Path("/proc/self/status").read_text()  # ru_maxrss would carry on that of the parent
    return int(re.search(r"VmHWM:\\s+(\\d+)", status)[1])


print(peak(8, 512), peak(8, 512), peak(80, 512), peak(80, 10**9))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process from /proc")
def test_memory_does_not_grow_with_the_data():
    """What the keys of both layers read in 72 more batches takes 2 * 72 * 16 * 32 * 128 * 4 bytes: 38 MB."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", GROWTH]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    _, few, many, kept = map(int, done.stdout.split())  # kilobytes
    assert many - few < 8_000
    assert kept - many > 20_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aspects": "head"}, "aspects must be one of"),
        ({"aspects": []}, "aspects must name at least one"),
        ({"rank": 0}, "rank must be >= 1"),
        ({"rank": 32}, "rank must be below the 32 features"),
        ({"eps": 1.5}, r"eps must be in \[0, 1\)"),
        ({"position": "middle"}, "position must be one of"),
        ({"n_null": 0}, "n_null must be >= 1"),
        ({"scan_samples": 0}, "scan_samples must be >= 1"),
        ({"max_rows": 0}, "max_rows must be >= 1"),
        ({"min_gain": float("nan")}, "min_gain must be a finite number"),
        ({"null": "all"}, "null must be one of"),
        ({"labels": [0, 1]}, "labels must have one entry a sample, got 2"),
        ({"labels": [0, 1] * 50}, "labels must have one entry a sample, got 100 for 24"),
        ({"labels": [0] * 24}, "labels must hold at least 2 classes"),
        ({"labels": "none.txt"}, "labels 'none.txt' is no file"),
        ({"layers": ["nothing"]}, "layers must name linear maps"),
        ({"modules": ["nothing"]}, "modules must name linear maps"),
        ({"base": "folder"}, "base goes with a folder"),
    ],
)
def test_refused(world, options, message):
    with pytest.raises(ValueError, match=message):
        diagnose(world.model(), world.batches(), **({"n_null": 9} | options))


def test_refused_kinds(world, needs):
    torch, transformers = needs("torch"), needs("transformers")
    with pytest.raises(TypeError, match=r"model must be a torch.nn.Module or a folder, got int"):
        diagnose(3, [])
    with pytest.raises(ValueError, match="at least one batch, got none"):
        diagnose(world.model(), [])
    with pytest.raises(TypeError, match="batches must be an iterable, got NoneType"):
        diagnose(world.model(), None)
    with pytest.raises(TypeError, match="aspects must be names, got int"):
        diagnose(world.model(), [], aspects=3)
    with pytest.raises(ValueError, match=r"input_ids must be in 0..49, the model's vocabulary, got 77"):
        diagnose(world.model(), torch.full((2, 5), 77))
    sizes = SIZES | {"image_size": 16, "patch_size": 8}
    vit = transformers.ViTModel(transformers.ViTConfig(**sizes))
    with pytest.raises(NotImplementedError, match="images are not supported"):
        diagnose(vit, {"pixel_values": torch.zeros(2, 3, 16, 16)}, aspects="heads")
    with pytest.raises(NotImplementedError, match="images are not supported"):
        diagnose(vit, torch.ones(1, 3, dtype=torch.long))
    with pytest.raises(TypeError, match=r"labels must be ints or names, got dtype float64"):
        diagnose(world.model(), world.batches(), labels=[0.5] * 24)
    with pytest.raises(ValueError, match="tokenizer must be given"):
        diagnose(world.model(), ["a sentence"])
    with pytest.raises(ValueError, match="batch 1 differs"):
        diagnose(world.model(), [*world.batches(count=1), *world.batches(count=1, labels=False)])
    broken = world.batches()
    broken[1]["attention_mask"][2] = 0
    with pytest.raises(ValueError, match=r"row .* has 0 tokens|row 2 is all padding"):
        diagnose(world.model(), broken)
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 4, "vocab_size": 20}
    t5 = transformers.T5Model(transformers.T5Config(**sizes))
    with pytest.raises(NotImplementedError, match="encoder-decoder models are not supported"):
        diagnose(t5, [torch.ones(1, 3, dtype=torch.long)])


def test_a_class_of_one_is_a_note(world):
    """The pass has been made: what else it gave is kept."""
    y = [0] * 23 + [1]
    found = diagnose(world.model(), world.batches(labels=False), labels=y, **QUICK)
    assert found.aspects == ("capacity", "heads", "ranks")
    assert any(note.startswith("no alignment: class 1 has 1 sample") for note in found.notes)


OTHERS = {
    "DistilBertModel": {"n_layers": 2, "n_heads": 4, "dim": 32, "hidden_dim": 48},
    "ModernBertModel": SIZES
    | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1}
    | {"sep_token_id": 2},
    "GPTNeoXModel": SIZES,
    "OPTModel": {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "ffn_dim": 48}
    | {"word_embed_proj_dim": 32},
    "Qwen2ForCausalLM": SIZES | {"num_key_value_heads": 2},
    "T5EncoderModel": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_families(world, state, name):
    """Fused projections, rows of tokens without a batch axis, biases beside maps, heads on top."""
    kind = getattr(world.transformers, name)
    model = kind(kind.config_class(vocab_size=50, **OTHERS[name]))
    before = state(model)
    found = diagnose(model, world.batches(first=3), **QUICK)
    assert state(model) == before
    assert found.aspects == ("capacity", "heads", "ranks", "alignment")
    assert len(found.heads) == 2 * 4 * 3
    assert len(found.ranks.layer) == 3
    assert found.causal == (name in ("GPTNeoXModel", "OPTModel", "Qwen2ForCausalLM"))
    assert {row.rule for row in found.alignment} >= {"attention"}


def test_a_mask_that_the_modules_do_not_tell(world):
    """CLIP's text model hands its attention a causal mask, while each module says is_causal=False."""
    sizes = SIZES | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    model = world.transformers.CLIPTextModel(world.transformers.CLIPTextConfig(vocab_size=50, **sizes)).eval()
    told = "no head sees later tokens, but causal=False was read or passed: pass causal=True"
    found = diagnose(model, world.batches(), **QUICK)
    assert told in found.notes
    assert found.heads.causal
    again = diagnose(model, world.batches(), causal=True, **QUICK)
    assert not any("later tokens" in note for note in again.notes)
    assert again.capacity.choice.align == "end"
    wrong = diagnose(world.model("llama"), world.batches(), causal=False, aspects="heads", n_null=9)
    assert told in wrong.notes


def test_values_that_are_not_finite(world):
    x = world.torch.ones(2, 6, 32)
    x[1, 2, 3] = float("nan")
    for aspect, message in (
        ("capacity", "layer encoder.layer.0.* reads a value that is not finite in batch 0, row 1"),
        ("heads", "the map of layer 0, head 0 has NaN or infinity"),
        ("ranks", "hidden states must be finite, got NaN or infinity in what the first block reads"),
    ):
        with pytest.raises(ValueError, match=message):
            diagnose(world.model(), {"inputs_embeds": x}, aspects=aspect, n_null=9)


def test_rows_of_one_token(world):
    found = diagnose(world.model(), world.torch.ones(3, 1, dtype=world.torch.long), **QUICK)
    assert found.aspects == ("capacity", "ranks")
    assert "no patterns of heads: sequences are too short for the masks" in found.notes


UNTOLD = {
    "BloomForCausalLM": (True, {"n_layer": 2, "n_head": 4, "hidden_size": 32}),
    "MPNetModel": (False, SIZES),
    "DebertaV2Model": (False, SIZES | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
}


@pytest.mark.parametrize("name", UNTOLD)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_causal_is_tried_out(world, state, name, dtype):
    """Modules that do not say which tokens they see, and give maps only where they are asked for."""
    kind, (causal, sizes) = getattr(world.transformers, name), UNTOLD[name]
    model = kind(kind.config_class(vocab_size=50, **sizes)).to(getattr(world.torch, dtype)).train()
    before, runs = state(model), []
    model.register_forward_hook(lambda *_: runs.append(world.torch.is_grad_enabled()))
    found = diagnose(model, iter(world.batches()), **QUICK)
    assert found.aspects == ("capacity", "heads", "ranks", "alignment")
    assert found.causal == found.heads.causal == causal
    assert found.n_samples == 24
    assert runs == [False] * 5
    assert any(note.startswith(f"causal={causal} was tried out, not read") for note in found.notes)
    model._forward_hooks.clear()
    assert state(model) == before
    assert not any("tried" in note for note in diagnose(model, world.batches(), causal=causal, **QUICK).notes)


def test_a_decoder_by_itself(world):
    """Its unused cross-attention is no part of the diagnosis."""
    sizes = {"decoder_layers": 2, "decoder_attention_heads": 4, "d_model": 32, "decoder_ffn_dim": 48}
    config = world.transformers.BartConfig(vocab_size=50, is_decoder=True, is_encoder_decoder=False, **sizes)
    found = diagnose(world.transformers.BartForCausalLM(config), world.batches(first=3), **QUICK)
    assert found.aspects == ("capacity", "heads", "ranks", "alignment")
    assert found.causal
    assert not any("encoder_attn" in name for name in found.capacity.layers)
    assert not any("encoder_attn" in row.module for row in found.alignment)


def test_padding_on_the_left_in_float64(world):
    """Eager attention takes its softmax in float32, where the mask of a float64 model overflows."""
    batches = world.batches(side="left")
    narrow = diagnose(world.model("llama"), batches, random_state=0, **QUICK)
    found = diagnose(world.model("llama").double(), batches, random_state=0, **QUICK)
    np.testing.assert_allclose(found.capacity.curves, narrow.capacity.curves, atol=1e-4)
    for wide, record in zip(found.heads, narrow.heads, strict=True):
        assert wide.mass_outside == pytest.approx(record.mass_outside, abs=1e-4)


def test_unknown_layout(world):
    """A model without queries, MLPs and maps: what is left, and why not the rest."""
    sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2}
    model = world.transformers.MambaModel(world.transformers.MambaConfig(**sizes))
    found = diagnose(model, world.batches(), **QUICK)
    assert found.aspects == ("ranks",)
    assert found.causal
    assert found.notes[0] == "no capacity: no query and no MLP of the model is known; pass layers"
    assert found.notes[1].startswith("causal=True was tried out")
    assert found.notes[2].startswith("no patterns of heads: no module named ...Attention")
    assert found.notes[3] == "no alignment: no query, value or MLP of the model is known; pass modules"
    with pytest.raises(ValueError, match="modules must be named"):
        diagnose(model, world.batches(), aspects="alignment", **QUICK)
    more = diagnose(model, world.batches(), modules=["in_proj"], **QUICK)
    assert more.aspects == ("ranks", "alignment")
    with pytest.raises(ValueError, match="causal cannot be read from"):
        diagnose(model, world.torch.ones(3, 1, dtype=world.torch.long), **QUICK)


def test_aspects_alone(world):
    for aspect in ASPECTS[:4]:
        assert diagnose(world.model(), world.batches(), aspects=aspect, **QUICK).aspects == (aspect,)
