import warnings

import pytest

SIZES = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
RULES = {"initializer_range": 0.4, "attn_implementation": "sdpa"}
GPT2 = {"vocab_size": 31, "n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 64, "bos_token_id": 1,
        "eos_token_id": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # fmt: skip
BERT = {"intermediate_size": 24, "max_position_embeddings": 64, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0}  # fmt: skip
LLAMA = {"intermediate_size": 24, "max_position_embeddings": 64, "num_key_value_heads": 2}
KINDS = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", GPT2),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {**SIZES, **LLAMA}),
    "bert": ("BertConfig", "BertForMaskedLM", {**SIZES, **BERT}),
}


@pytest.fixture
def torch(needs):
    return needs("torch")


@pytest.fixture
def hf(needs):
    return needs("transformers")


@pytest.fixture
def tiny(torch, hf):
    """Small random models by kind: weights of size 0.4, where attention does mix positions."""

    def build(kind, dtype=None, **changes):
        config, name, values = KINDS[kind]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = getattr(hf, name)(getattr(hf, config)(**{**RULES, **values, **changes}))
            for key, value in model.named_parameters():  # zero biases and unit norms hide errors
                if key.endswith("bias") or "norm" in key.lower() or ".ln_" in key:
                    value.data += 0.1 * torch.randn_like(value)
        return model.to(dtype or torch.float64).eval()

    return build


@pytest.fixture
def batch(torch):
    """Ids (B, T) and their padding mask: none, left or right."""

    def build(padding="none", rows=3, length=10, seed=1):
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(3, 31, (rows, length), generator=generator)
        mask = torch.ones_like(ids)
        for row in range(1, rows):
            if padding == "left":
                mask[row, : row + 1] = 0
            elif padding == "right":
                mask[row, length - row - 1 :] = 0
        return ids, mask

    return build


@pytest.fixture
def adapt(torch, needs):
    """LoRA or DoRA on all linear layers, with a second factor that is not zero."""

    def build(model, dora=False, **changes):
        peft = needs("peft")
        conv = type(model).__name__.startswith("GPT2")
        config = peft.LoraConfig(
            r=2, lora_alpha=4, target_modules="all-linear", use_dora=dora, fan_in_fan_out=conv, **changes
        )
        dtype = model.dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers in an older way
            model = peft.get_peft_model(model, config, autocast_adapter_dtype=False).to(dtype)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            for key, value in model.named_parameters():
                if "lora_B" in key:
                    value.data = 0.3 * torch.randn_like(value)
        return model.eval()

    return build
