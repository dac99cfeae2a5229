"""Each architecture either replays exactly or is refused with a message; none is silently wrong."""

import pytest

from porism.sims.subset_backprop import SubsetBackprop

pytestmark = pytest.mark.full

COMMON = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
          "max_position_embeddings": 64, "pad_token_id": 0}  # fmt: skip
ENCODER = {**COMMON, "intermediate_size": 24}
GROUPED = {**ENCODER, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
OLD = {"vocab_size": 31, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1,
       "eos_token_id": 2}  # fmt: skip
TWO = ["sliding_attention", "full_attention"]
GEMMA = {**GROUPED, "head_dim": 4, "query_pre_attn_scalar": 4, "sliding_window": 4, "layer_types": TWO}
WORKS = {
    "Llama": GROUPED,
    "GPT2": OLD,
    "Mistral": {**GROUPED, "head_dim": 4, "sliding_window": 4},
    "Qwen2": GROUPED,
    "Qwen2 window": {**GROUPED, "use_sliding_window": True, "sliding_window": 4, "layer_types": TWO},
    "Qwen3": {**GROUPED, "head_dim": 4},
    "Gemma3Text": GEMMA,
    "GPTNeoX": {**ENCODER, "bos_token_id": 1, "eos_token_id": 2},
    "OPT": {**COMMON, "ffn_dim": 24, "word_embed_proj_dim": 16, "bos_token_id": 1, "eos_token_id": 2},
    "Phi3": {**GROUPED, "sliding_window": 5},
    "Olmo2": GROUPED,
    "Mixtral": {**GROUPED, "head_dim": 4, "num_local_experts": 3, "num_experts_per_tok": 2},
    "Cohere": GROUPED,
    "StableLm": GROUPED,
    "Starcoder2": {**GROUPED, "sliding_window": 4},
    "GPTJ": {**OLD, "rotary_dim": 4},
    "CodeGen": {**OLD, "n_ctx": 64, "rotary_dim": 4},
    "Bert": ENCODER,
    "Roberta": {**ENCODER, "pad_token_id": 1},
    "DistilBert": {"vocab_size": 31, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 4},
    "Albert": {**ENCODER, "embedding_size": 8},
    "Electra": {**ENCODER, "embedding_size": 8},
    "ModernBert": {**ENCODER, "local_attention": 6, "layer_types": TWO, "bos_token_id": 1, "eos_token_id": 2,
                   "cls_token_id": 1, "sep_token_id": 2},
}  # fmt: skip
REFUSED = {
    "Gemma2": ({**GEMMA, "attn_logit_softcapping": 2.0}, "softcap"),
    "GptOss": ({**GROUPED, "head_dim": 4, "num_local_experts": 3, "num_experts_per_tok": 2,
                "sliding_window": 4, "layer_types": TWO}, "s_aux"),
    "DebertaV2": ({**ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "registry"),
    "Bloom": ({"vocab_size": 31, "hidden_size": 16, "n_layer": 2, "n_head": 4}, "registry"),
    "Mpt": ({"vocab_size": 31, "d_model": 16, "n_heads": 4, "n_layers": 2}, "registry"),
    "Falcon": ({"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4},
               "registry"),
    "GPTNeo": ({"vocab_size": 31, "hidden_size": 16, "num_layers": 2, "num_heads": 4,
                "attention_types": [[["global", "local"], 1]]}, "registry"),
    "T5": ({"vocab_size": 31, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4},
           "encoder-decoder"),
    "Bart": ({"vocab_size": 31, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}, "encoder-decoder"),
    "Mamba": ({"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2}, "linear_attention"),
    "Llama4Text": ({**GROUPED, "head_dim": 4, "num_local_experts": 2, "attention_chunk_size": 4,
                    "intermediate_size_mlp": 24}, "chunked"),
    "Qwen3Next": ({**GROUPED, "head_dim": 4, "num_experts": 2,
                    "layer_types": ["linear_attention", "full_attention"]},
                  "linear_attention"),
}  # fmt: skip


@pytest.fixture
def family(torch, hf):
    """A random model of a family; a version of transformers without it fails the test by name."""

    def build(name, values):
        name = name.split()[0]
        kind = getattr(hf, f"{name}Config", None)
        assert kind is not None, f"transformers {hf.__version__} has no {name}Config"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = hf.AutoModel.from_config(kind(**values))
            for value in model.parameters():
                if value.ndim > 1:  # strong enough that attention mixes positions
                    value.data.normal_(std=0.4)
        return model.float().eval()

    return build


@pytest.mark.parametrize("name", WORKS)
def test_replays_exactly(torch, family, batch, name):
    """6e-6 in float32 on hidden states of size 3, as the table of the specification: some 17 roundings."""
    model = family(name, WORKS[name])
    ids, mask = batch("left", length=12)
    positions = torch.tensor([[0, 7, 3, 11], [8, 4, 11, -1], [10, 3, 6, 5]])
    wrapper = SubsetBackprop(model, verify="never")
    with torch.no_grad():
        found = wrapper.forward(positions, input_ids=ids, attention_mask=mask)
        full = model(input_ids=ids, attention_mask=mask).last_hidden_state
    wanted = full.gather(1, positions.clamp(min=0)[..., None].expand(-1, -1, full.shape[2]))
    gap = (found.hidden - wanted)[found.valid].abs().max()
    size = wanted[found.valid].abs().max()
    assert size > 0.1
    assert gap <= 2e-6 * size, (float(gap), float(size))
    with torch.no_grad():  # without padding, through the wrapper's own check
        SubsetBackprop(model, verify="first").forward(positions[2:], input_ids=ids[2:])


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_also_without_verification(family, batch, name):
    values, feature = REFUSED[name]
    model = family(name, values)
    ids, _ = batch(length=12)
    before = model.config._attn_implementation
    with pytest.raises(NotImplementedError, match=feature):
        SubsetBackprop(model, verify="never").forward(3, input_ids=ids)
    assert model.config._attn_implementation == before


def test_a_window_is_needed(torch, family, batch):
    """The control: without its window a model gives other values, so the table does test it."""
    ids, _ = batch(length=12)
    for name, off in (("Mistral", {"sliding_window": None}), ("ModernBert", {"local_attention": 64})):
        with torch.no_grad():
            near, far = (
                family(name, {**WORKS[name], **c})(input_ids=ids).last_hidden_state for c in ({}, off)
            )
        assert (near - far).abs().max() > 1e-2


def test_verification_catches_what_no_guard_knows(torch, tiny, batch):
    """A layer that mixes positions outside attention is found by comparing with the plain pass."""
    model = tiny("llama", dtype=torch.float32)

    class Shift(torch.nn.Module):
        def forward(self, x):
            return x + 0.1 * torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]

    model.model.layers[1].mlp = torch.nn.Sequential(Shift(), model.model.layers[1].mlp)
    ids, _ = batch()
    positions = torch.tensor([[1, 5, 9]]).expand(3, -1)
    for verify in ("first", "always"):
        with pytest.raises(RuntimeError, match=r"replay differs from the full forward by .* at layer output"):
            SubsetBackprop(model, verify=verify).forward(positions, input_ids=ids)
    SubsetBackprop(model, verify="never").forward(positions, input_ids=ids)


def test_verification_covers_default_positions(torch, hf, batch):
    """RoBERTa and OPT count positions in their own way; what the wrapper takes is what they take."""
    ids, mask = batch("right")
    ids = torch.where(mask == 1, ids, 1)  # RoBERTa counts ids that are not padding
    values = {**ENCODER, "pad_token_id": 1}
    roberta = hf.RobertaModel(hf.RobertaConfig(**values), add_pooling_layer=False).double().eval()
    wrapper = SubsetBackprop(roberta, verify="always")
    by_ids = wrapper.forward(3, input_ids=ids, attention_mask=mask).hidden
    explicit = (torch.arange(10) + 2).expand(3, -1)
    again = wrapper.forward(3, input_ids=ids, attention_mask=mask, position_ids=explicit).hidden
    embeds = roberta.get_input_embeddings()(ids)
    by_embeds = wrapper.forward(3, inputs_embeds=embeds, attention_mask=mask).hidden
    torch.testing.assert_close(by_ids, again, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(by_ids, by_embeds, rtol=1e-12, atol=1e-12)


def test_rope_that_depends_on_the_length(torch, tiny, batch):
    ids, _ = batch()
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    model = tiny("llama", max_position_embeddings=8, rope_parameters=rope)
    with pytest.raises(NotImplementedError, match="rope type 'dynamic' beyond 8"):
        SubsetBackprop(model).forward(2, input_ids=ids)
    SubsetBackprop(model).forward(2, input_ids=ids[:, :8])
