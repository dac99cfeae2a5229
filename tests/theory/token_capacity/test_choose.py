"""Choosing positions on models as they come: GPT-2, Llama, BERT, adapters, the tiny transformer."""

import functools

import numpy as np
import pytest

from porism._models import is_causal, linear_maps
from porism.theory.token_capacity import HiddenStateMoments, PositionChoice, choose_positions
from porism.theory.token_capacity import choose as module

FIRST = {"bert": "intermediate.dense", "gpt2": "mlp.c_fc", "llama": "mlp.gate_proj", "tiny": "up"}
QUERY = {"bert": "attention.self.query", "gpt2": "attn.c_attn", "llama": "self_attn.q_proj", "tiny": "q"}


@pytest.fixture(scope="module")
def models():
    made = {}

    def make(name, **options):
        import torch

        if name == "tiny":
            from porism.sims.tiny_transformer import TinyConfig, TinyTransformer

            return TinyTransformer(TinyConfig(**{"vocab": 30, "d": 16, "heads": 2, **options}), seed=0)
        if options or name not in made:
            import transformers as tf

            small = {"vocab_size": 30, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **options}
            with torch.random.fork_rng():
                torch.manual_seed(0)
                if name == "gpt2":
                    model = tf.GPT2LMHeadModel(
                        tf.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=64, **small)
                    )
                else:
                    kind = {
                        "bert": (tf.BertModel, tf.BertConfig),
                        "llama": (tf.LlamaForCausalLM, tf.LlamaConfig),
                    }
                    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
                    if name == "llama":
                        shape["num_key_value_heads"] = 1
                    model = kind[name][0](kind[name][1](**shape, intermediate_size=24, **small))
            if options:
                return model
            made[name] = model
        return made[name]

    return make


@pytest.fixture
def torch(needs):
    needs("transformers")
    return needs("torch")


def ids(torch, n=6, T=9, seed=0):
    return torch.randint(3, 30, (n, T), generator=torch.Generator().manual_seed(seed))


def batch(name, tokens, mask):
    if name == "tiny":
        return {"x": tokens, "key_mask": mask.bool()}
    return {"input_ids": tokens, "attention_mask": mask.long()}


@pytest.mark.parametrize("total", [1, 2, 3, 4, 9, 16, 33])
def test_spread(plain, total):
    order = module._spread(total).tolist()
    assert order == plain.spread(total)
    assert sorted(order) == [*range(total)]


def test_spread_by_hand():
    assert module._spread(9).tolist() == [0, 4, 6, 2, 7, 1, 3, 5, 8]


@pytest.mark.full
@pytest.mark.parametrize("name", FIRST)
def test_against_inputs_of_the_layers(torch, models, plain, name):
    """All again from kept inputs: an independent path to k, order and curve."""
    model, tokens = models(name), ids(torch)
    mask = torch.ones(6, 9, dtype=torch.long)
    mask[1, :4] = mask[3, :2] = 0
    if name == "bert":
        mask = mask.flip(1)
    kept, handles = {}, []

    def keep(key, module, args):
        kept[key] = args[0].double()

    for key, part in model.named_modules():
        if key.endswith((FIRST[name], QUERY[name])):
            handles.append(part.register_forward_pre_hook(functools.partial(keep, key)))
    with torch.no_grad():
        model.eval()(**batch(name, tokens, mask))
    model.train()
    for handle in handles:
        handle.remove()
    assert len(kept) == 4
    choice = choose_positions(model, [batch(name, tokens[:2], mask[:2]), batch(name, tokens[2:], mask[2:])])
    align = "start" if name == "bert" else "end"
    order = plain.spread(9) if name == "bert" else [*range(9)]
    curves = {}
    for key, x in kept.items():
        second, _ = plain.moments(x.numpy(), mask.bool().numpy(), align, range(9))
        curves[key] = plain.coverage(second, order, 1e-2)
    needed = {key: int(np.argmax(curve >= 0.9 * curve[-1] - 1e-12)) + 1 for key, curve in curves.items()}
    assert choice.k == max(needed.values())
    assert needed[choice.layer] == choice.k
    assert choice.order.tolist() == order
    assert choice.positions.tolist() == order[: choice.k]
    assert choice.align == align
    # float32 kernels may differ between batch sizes
    np.testing.assert_allclose(choice.curve, curves[choice.layer], rtol=0, atol=1e-5)
    assert model.training
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


@pytest.mark.full
@pytest.mark.parametrize("name", FIRST)
def test_layers_and_causality(torch, models, name):
    found = list(linear_maps(models(name), "all"))
    assert len(found) == 4
    assert all(key.endswith((FIRST[name], QUERY[name])) for key in found)
    assert is_causal(models(name)) is (name != "bert")


@pytest.mark.full
def test_a_tensor_is_the_first_argument(torch, models):
    for name in FIRST:
        a = choose_positions(models(name), [ids(torch)], eps=0.3)
        b = choose_positions(models(name), iter([batch(name, ids(torch), torch.ones(6, 9))]), eps=0.3)
        assert (a.k, a.layer) == (b.k, b.layer)
        np.testing.assert_allclose(a.curve, b.curve, atol=1e-5)  # kernels with and without a mask


@pytest.mark.full
def test_padding_on_either_side(torch, models):
    """A row's states move with it where positions do not enter but as differences."""
    model, tokens = models("llama"), ids(torch, 3, 5)
    pad, ones, none = torch.zeros(3, 2, dtype=torch.long), torch.ones(3, 5), torch.zeros(3, 2)
    plainly = choose_positions(model, [tokens])
    for parts, masks in (((pad, tokens), (none, ones)), ((tokens, pad), (ones, none))):
        found = choose_positions(model, [batch("llama", torch.hstack(parts), torch.hstack(masks))])
        assert found.k == plainly.k
        assert len(found.curve) == 5
        np.testing.assert_allclose(found.curve, plainly.curve, atol=1e-5)


@pytest.mark.full
def test_labels_are_left_out_and_k_is_monotone(torch, models):
    tokens = ids(torch)
    choices = [
        choose_positions(models("gpt2"), [{"input_ids": tokens, "labels": tokens}], eps=eps)
        for eps in (0.5, 0.2, 0.1, 0.0)
    ]
    assert [c.k for c in choices] == sorted(c.k for c in choices)
    assert choices[-1].k == 9
    assert any("needs all 9 positions" in note for note in choices[-1].warnings)


@pytest.mark.full
def test_bins_count_with_all_their_positions(torch, models):
    model = models("tiny", position="none", max_len=100)
    choice = choose_positions(model, [ids(torch, 2, 100)], eps=0.0)
    assert choice.k == 100
    assert choice.positions.tolist() == [*range(100)]
    assert len(choice.order) == len(choice.bins) < 64
    assert any("100 positions share" in note for note in choice.warnings)
    part = choose_positions(model, [ids(torch, 2, 100)], eps=0.02)
    sizes = np.diff(part.bins, axis=1)[:, 0]
    assert part.k in np.cumsum(sizes)
    assert part.k == sizes[: int(np.argmax(part.curve >= 0.98 * part.curve[-1] - 1e-12)) + 1].sum()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft asks for it
def test_adapters(torch, models, needs):
    peft = needs("peft")
    model = models("llama", max_position_embeddings=32)
    plainly = choose_positions(model, [ids(torch)])
    for dora in (False, True):
        base = models("llama", max_position_embeddings=32)
        wrapped = peft.get_peft_model(base, peft.LoraConfig(target_modules="all-linear", r=2, use_dora=dora))
        found = choose_positions(wrapped, [{"input_ids": ids(torch)}])
        assert found.k == plainly.k
        assert found.layer.endswith(plainly.layer)
        np.testing.assert_allclose(found.curve, plainly.curve, atol=1e-5)  # B = 0 changes nothing
    prompt = peft.get_peft_model(
        models("llama", max_position_embeddings=32),
        peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2),
    )
    with pytest.raises(NotImplementedError, match="prompt tuning"):
        choose_positions(prompt, [ids(torch)])


@pytest.mark.full
def test_everything_comes_back_after_an_exception(torch, models):
    model = models("gpt2", attn_pdrop=0.0)
    model.train()
    model.transformer.h[0].eval()
    modes = [m.training for m in model.modules()]

    def stop():
        yield ids(torch)
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        choose_positions(model, stop())
    with torch.no_grad():
        model.transformer.h[1].ln_1.weight.fill_(float("nan"))
    with pytest.raises(
        ValueError, match=r"transformer.h.1.attn.c_attn reads .* batch 0, row 0, aligned position 0"
    ):
        choose_positions(model, [ids(torch)])
    assert [m.training for m in model.modules()] == modes
    assert not any(m._forward_pre_hooks for m in model.modules())
    assert torch.is_grad_enabled()


@pytest.mark.full
def test_shared_layers_add_up(torch, needs):
    import transformers as tf

    shape = {"hidden_size": 16, "embedding_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2}
    model = tf.AlbertModel(tf.AlbertConfig(vocab_size=30, intermediate_size=24, **shape))
    seen = []
    query = next(m for n, m in model.named_modules() if n.endswith("attention.query"))
    handle = query.register_forward_pre_hook(lambda m, args: seen.append(args[0].detach().double()))
    with HiddenStateMoments(model, align="start") as watch:
        watch.update(input_ids=ids(torch))
    handle.remove()
    found = watch.result()
    assert len(seen) == 3
    assert found.count.tolist() == [6] * 9
    expected = sum(torch.einsum("nti,ntj->tij", x, x) for x in seen)
    np.testing.assert_allclose(found.second[0], expected.numpy(), rtol=0, atol=1e-9)


@pytest.mark.full
def test_bad_input(torch, models):
    model, tokens = models("tiny"), [ids(torch)]
    for eps in (1.0, -0.1):
        with pytest.raises(ValueError, match=r"eps must be in \[0, 1\)"):
            choose_positions(model, tokens, eps=eps)
    with pytest.raises(ValueError, match="ridge must be finite and >= 0"):
        choose_positions(model, tokens, ridge=-1.0)
    with pytest.raises(ValueError, match="batches must hold at least one batch"):
        choose_positions(model, [])
    with pytest.raises(TypeError, match="a batch must be a mapping or a tensor, got list"):
        choose_positions(model, [[1, 2]])
    with pytest.raises(TypeError, match="causal must be True, False or None, got 1"):
        choose_positions(model, tokens, causal=1)
    bert = models("bert", layer_norm_eps=1e-6)
    attention = [m for m in bert.modules() if isinstance(getattr(m, "is_causal", None), bool)]
    attention[0].is_causal = True
    with pytest.raises(ValueError, match="must be the same in all attention modules"):
        choose_positions(bert, tokens)
    assert choose_positions(bert, tokens, causal=False).align == "start"
    for part in attention:
        part.is_causal = None
    with pytest.raises(ValueError, match="cannot be read"):
        choose_positions(bert, tokens)
    with pytest.raises(ValueError, match=r"got \(6, 10, 16\)"):
        choose_positions(models("tiny", readout="token"), tokens)


@pytest.mark.full
@pytest.mark.parametrize(
    ("field", "message"),
    [("is_encoder_decoder", "encoder-decoder"), ("add_cross_attention", "cross-attention")],
)
def test_refused(torch, models, field, message):
    model = models("bert", layer_norm_eps=1e-6)
    setattr(model.config, field, True)
    with pytest.raises(NotImplementedError, match=message):
        choose_positions(model, [ids(torch)])


@pytest.mark.full
def test_warnings_and_saving(torch, models, tmp_path):
    mask = torch.ones(6, 9)
    mask[1:, :4] = 0
    choice = choose_positions(models("tiny"), [batch("tiny", ids(torch), mask)])
    assert any("rows differ in length" in note for note in choice.warnings)
    few = choose_positions(models("tiny"), [ids(torch, 1, 3)], ridge=0.0)
    assert any("only 3 tokens for 16 dimensions" in note for note in few.warnings)
    choice.save(tmp_path / "c.npz")
    again = PositionChoice.load(tmp_path / "c.npz")
    assert (again.k, again.warnings) == (choice.k, choice.warnings)
    assert again.positions.tolist() == choice.positions.tolist()


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "options", "causal", "maps"),
    [
        ("Mistral", {"num_key_value_heads": 1, "sliding_window": 4}, True, ("q_proj", "gate_proj")),
        ("Phi3", {}, True, ("qkv_proj", "gate_up_proj")),
        ("GPTNeoX", {}, True, ("query_key_value", "dense_h_to_4h")),
        ("ModernBert", {"cls_token_id": 1, "sep_token_id": 2}, False, ("Wqkv", "Wi")),
        ("DistilBert", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}, False, ("q_lin", "lin1")),
    ],
)
def test_other_architectures(torch, name, options, causal, maps):
    import transformers as tf

    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    shape = options if "dim" in options else {**shape, "bos_token_id": 1, "eos_token_id": 2, **options}
    model = getattr(tf, f"{name}Model")(getattr(tf, f"{name}Config")(vocab_size=30, pad_token_id=0, **shape))
    assert [key.rpartition(".")[2] for key in linear_maps(model, "all")] == [*maps, *maps]
    choice = choose_positions(model, [ids(torch)])
    assert choice.align == ("end" if causal else "start")
    assert 1 <= choice.k <= 9


@pytest.mark.full
def test_layers_that_read_tokens_as_rows(torch):
    """OPT's MLP reads (B T, d): the same k as from its inputs put back in shape."""
    import transformers as tf

    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 24}
    model = tf.OPTModel(
        tf.OPTConfig(vocab_size=30, word_embed_proj_dim=16, max_position_embeddings=32, **shape)
    )
    mask = torch.ones(6, 9, dtype=torch.long)
    mask[2, :4] = 0
    seen, name = [], "decoder.layers.1.fc1"
    hook = model.get_submodule(name).register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with HiddenStateMoments(model, [name]) as watch:
        watch.update(**batch("opt", ids(torch), mask))
    hook.remove()
    assert seen[0].shape == (54, 16)
    x = seen[0].reshape(6, 9, 16).double().numpy()
    last = x[:, 8]
    np.testing.assert_allclose(watch.result().second[0, 0], last.T @ last, rtol=1e-12)
    first = x[[0, 1, 3, 4, 5], 0]  # row 2 has no ninth token from its end
    np.testing.assert_allclose(watch.result().second[0, 8], first.T @ first, rtol=1e-12)
    assert choose_positions(model, [batch("opt", ids(torch), mask)]).align == "end"


@pytest.mark.full
def test_images_are_refused(torch):
    import transformers as tf

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    model = tf.ViTModel(tf.ViTConfig(image_size=16, patch_size=8, **sizes))
    with pytest.raises(NotImplementedError, match="images are not supported"):
        choose_positions(model, [{"pixel_values": torch.zeros(2, 3, 16, 16)}])
