"""The reader and the recorder against adapters that peft itself makes, saves and multiplies out."""

import contextlib
import math
import warnings

import numpy as np
import pytest

from porism.theory.lora_spectrum import LoraSpectrumRecorder, read_adapter_spectrum
from porism.theory.lora_spectrum.adapters import adapter_spectra

pytestmark = pytest.mark.full


@contextlib.contextmanager
def quiet():
    """Let peft and transformers warn about what the tests do on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def llama(needs, **config):
    transformers = needs("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**sizes, vocab_size=19, num_hidden_layers=2, **config)
    )


def gpt2(needs):
    transformers = needs("transformers")
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=12, n_layer=2, n_head=2, vocab_size=17, n_positions=8)
    )


def bert(needs):
    transformers = needs("transformers")
    sizes = {"hidden_size": 12, "intermediate_size": 20, "num_attention_heads": 2, "num_hidden_layers": 2}
    return transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, vocab_size=17))


def vision(needs):
    nn = needs("torch").nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 1), nn.Conv1d(4, 6, 3, stride=2), nn.Linear(5, 7)
    )


def attention(needs):
    nn = needs("torch").nn
    return nn.ModuleDict({"att": nn.MultiheadAttention(8, 2), "out": nn.Linear(8, 4)})


def adapted(needs, base, name="default", **config):
    """Put random adapters of peft on a model in float64; no factor is zero."""
    peft, torch = needs("peft"), needs("torch")
    torch.manual_seed(0)
    model = base(needs).double() if callable(base) else base
    with quiet():
        model = peft.get_peft_model(
            model, peft.LoraConfig(init_lora_weights=False, **config), adapter_name=name
        )
    return model.double()


def save(model, path):
    with quiet():
        model.save_pretrained(path)
    return path


def deltas(model, adapter="default"):
    """What peft adds to each weight, as a matrix, by module name."""
    found = {}
    for name, layer in model.named_modules():
        held = getattr(layer, "lora_A", {}), getattr(layer, "lora_embedding_A", {})
        if any(adapter in keys for keys in held):
            delta = layer.get_delta_weight(adapter).detach().numpy()
            found[name.removeprefix("base_model.model.")] = delta.reshape(len(delta), -1)
    return found


def agree(spectra, expected):
    assert set(spectra) == set(expected)
    for name, delta in expected.items():
        row = spectra[name]
        full = np.linalg.svd(delta, compute_uv=False)
        # float64 on both sides: eps times a small factor, relative to the largest value
        assert row == pytest.approx(np.pad(full, (0, len(row)))[: len(row)], abs=1e-13 * full[0]), name
        assert row[0] > 0


CASES = {
    "llama all-linear": (llama, {"r": 4, "lora_alpha": 6, "target_modules": "all-linear"}),
    "llama rslora": (
        llama,
        {"r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "down_proj"], "use_rslora": True},
    ),
    "llama patterns": (
        llama,
        {
            "r": 2,
            "lora_alpha": 3,
            "target_modules": "all-linear",
            "rank_pattern": {"q_proj": 5, "layers.1.mlp.down_proj": 1, r"^model\.layers\.0\..*v_proj": 3},
            "alpha_pattern": {"down_proj": 7, ".*layers.0.self_attn.k_proj": 11, "q_proj": 2.5},
            "use_rslora": True,
        },
    ),
    "llama embedding": (
        llama,
        {"r": 2, "lora_alpha": 3, "target_modules": ["embed_tokens", "v_proj"]},
    ),
    "llama rank above a side": (llama, {"r": 30, "lora_alpha": 3, "target_modules": ["k_proj"]}),
    "llama modules_to_save": (
        llama,
        {"r": 2, "lora_alpha": 3, "target_modules": ["k_proj"], "modules_to_save": ["lm_head"]},
    ),
    "gpt2 fan_in_fan_out": (
        gpt2,
        {"r": 3, "lora_alpha": 5, "target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True},
    ),
    "gpt2 embeddings": (
        gpt2,
        {"r": 3, "lora_alpha": 5, "target_modules": ["wpe", "c_attn"], "fan_in_fan_out": True},
    ),
    "bert bias": (
        bert,
        {
            "r": 2,
            "lora_alpha": 8,
            "target_modules": ["query", "dense"],
            "bias": "all",
            "task_type": "SEQ_CLS",
        },
    ),
    "bert lora_bias": (
        bert,
        {"r": 2, "lora_alpha": 8, "target_modules": ["query"], "bias": "lora_only", "lora_bias": True},
    ),
    "bert regular expression": (
        bert,
        {"r": 2, "lora_alpha": 8, "target_modules": r".*\.1\..*(key|output\.dense)"},
    ),
    "bert some layers": (
        bert,
        {"r": 2, "lora_alpha": 8, "target_modules": ["key"], "layers_to_transform": [1]},
    ),
    "convolutions": (vision, {"r": 2, "lora_alpha": 3, "target_modules": ["0", "1", "2", "3"]}),
    "convolutions patterns": (
        vision,
        {
            "r": 2,
            "lora_alpha": 3,
            "target_modules": ["0", "1", "3"],
            "rank_pattern": {"1": 5, "0": 4},
            "alpha_pattern": {"1": 9},
            "use_rslora": True,
        },
    ),
    "attention of torch": (
        attention,
        {
            "r": 2,
            "lora_alpha": 3,
            "target_modules": ["att", "out"],
            "rank_pattern": {"att": 3},
            "alpha_pattern": {"att": 10, "out_proj": 1000},  # the map inside takes the settings of att
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_what_peft_adds_to_the_weights(case, needs, tmp_path):
    base, config = CASES[case]
    model = adapted(needs, base, **config)
    expected = deltas(model)
    assert expected
    found = read_adapter_spectrum(save(model, tmp_path))
    agree(found.spectra, expected)
    live = adapter_spectra(model)["default"]
    agree(live.spectra, expected)
    for field in ("rank", "scaling", "shape", "kind"):
        told = [dict(zip(s.modules, getattr(s, field).tolist(), strict=True)) for s in (live, found)]
        assert told[0] == told[1]
    # the shapes are those of the update up to the transpose that fan_in_fan_out and embeddings have
    for name, shape in zip(found.modules, found.shape.tolist(), strict=True):
        assert sorted(shape) == sorted(expected[name].shape)


def test_dense_weights_are_listed(needs, tmp_path):
    base, config = CASES["llama modules_to_save"]
    found = read_adapter_spectrum(save(adapted(needs, base, **config), tmp_path))
    assert found.unread == ("base_model.model.lm_head.weight",)


def test_dora(needs, tmp_path):
    model = adapted(
        needs,
        bert,
        r=2,
        lora_alpha=3,
        target_modules=["query"],
        modules_to_save=["classifier"],
        use_dora=True,
    )
    with pytest.warns(UserWarning, match="spectrum is of BA before magnitude rescaling"):
        found = read_adapter_spectrum(save(model, tmp_path))
    agree(found.spectra, deltas(model))
    with pytest.warns(UserWarning, match="spectrum is of BA before magnitude rescaling"):
        LoraSpectrumRecorder(model)


def test_several_adapters(needs, tmp_path):
    peft = needs("peft")
    model = adapted(needs, llama, r=2, lora_alpha=3, target_modules=["q_proj"])
    with quiet():
        model.add_adapter(
            "other",
            peft.LoraConfig(r=4, lora_alpha=9, target_modules=["v_proj"], init_lora_weights=False),
        )
    save(model.double(), tmp_path)
    agree(read_adapter_spectrum(tmp_path).spectra, deltas(model))
    agree(read_adapter_spectrum(tmp_path / "other").spectra, deltas(model, "other"))
    recorder = LoraSpectrumRecorder(model, adapter="other")
    recorder()
    agree({name: rows[0] for name, rows in recorder.history().spectra.items()}, deltas(model, "other"))
    with pytest.raises(
        ValueError, match=r"adapter 'third', got none; pass adapter= one of \['default', 'other'\]"
    ):
        LoraSpectrumRecorder(model, adapter="third")


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
def test_dtypes(needs, tmp_path, kind):
    torch = needs("torch")
    model = adapted(needs, llama, r=2, lora_alpha=3, target_modules=["q_proj"]).to(getattr(torch, kind))
    save(model, tmp_path)
    agree(read_adapter_spectrum(tmp_path).spectra, deltas(model.double()))  # doubling changes no factor


def test_stacked_experts(needs, tmp_path):
    torch, peft = needs("torch"), needs("peft")
    nn = torch.nn

    class Experts(nn.Module):
        def __init__(self, out):
            super().__init__()
            self.up = nn.Parameter(torch.randn(3, out, 5))

    torch.manual_seed(0)
    base = nn.ModuleDict({"mlp": nn.ModuleDict({"experts": Experts(7)}), "lin": nn.Linear(4, 4)}).double()
    config = peft.LoraConfig(
        r=2,
        lora_alpha=3,
        target_modules=["lin"],
        target_parameters=["experts.up"],
        alpha_pattern={"up": 5},
        init_lora_weights=False,
    )
    with quiet():
        model = peft.get_peft_model(base, config).double()
    save(model, tmp_path)
    stack = model.base_model.model.mlp.experts.get_delta_weight("default").detach().numpy()
    assert stack.shape == (3, 7, 5)
    expected = {f"mlp.experts[{e}]": stack[e] for e in range(3)}
    lin = model.base_model.model.lin.get_delta_weight("default").detach().numpy()
    agree(read_adapter_spectrum(tmp_path).spectra, expected | {"lin": lin})
    recorder = LoraSpectrumRecorder(model)
    recorder()
    agree({name: rows[0] for name, rows in recorder.history().spectra.items()}, expected | {"lin": lin})


def test_grouped_convolution(needs, tmp_path):
    """peft has no merged weight here, so the matrix is read off its forward pass, a patch entry at a time."""
    torch = needs("torch")
    model = adapted(
        needs,
        lambda needs: torch.nn.Sequential(torch.nn.Conv2d(4, 6, 2, groups=2)),
        r=4,
        lora_alpha=6,
        target_modules=["0"],
    )
    layer = model.base_model.model[0]
    patches = torch.eye(16, dtype=torch.float64).reshape(16, 4, 2, 2)
    with torch.no_grad():
        matrix = (layer(patches) - layer.base_layer(patches))[:, :, 0, 0].T.numpy()
    agree(read_adapter_spectrum(save(model, tmp_path)).spectra, {"0": matrix})


def test_a_saved_adapter_loads_into_peft_with_the_same_scaling(needs, tmp_path):
    """Overlapping patterns: the file is sorted, and what counts is what peft makes of the file."""
    peft = needs("peft")
    patterns = {"self_attn.q_proj": 7, "q_proj": 3, "layers.1.*": 2}
    model = adapted(
        needs, llama, r=2, lora_alpha=5, target_modules=["q_proj", "v_proj"], alpha_pattern=patterns
    )
    save(model, tmp_path)
    with quiet():
        loaded = peft.PeftModel.from_pretrained(llama(needs).double(), tmp_path).double()
    found = read_adapter_spectrum(tmp_path)
    agree(found.spectra, deltas(loaded))
    layers = dict(loaded.base_model.model.named_modules())
    assert found.scaling.tolist() == [layers[name].scaling["default"] for name in found.modules]


def test_growth_from_saved_checkpoints(needs, tmp_path):
    from porism.theory.lora_spectrum import growth_uniformity

    torch = needs("torch")
    model = adapted(needs, llama, r=2, lora_alpha=2, target_modules=["q_proj", "v_proj"])
    found = []
    for k in range(2):
        found.append(read_adapter_spectrum(save(model, tmp_path / str(k))))
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight *= 4
    grown = growth_uniformity(found, steps=[0, 100])
    assert grown.window == (0, 100)
    for k, row in enumerate(found[0].spectra.values()):  # roots double, so they grow by themselves
        assert grown.increments[k] == pytest.approx(np.sqrt(row), rel=1e-12)
        assert grown.per_module[k] == pytest.approx(np.sqrt(row).sum() ** 2 / (2 * row.sum()), rel=1e-12)
    assert math.isfinite(grown.low)
    other = read_adapter_spectrum(
        save(adapted(needs, llama, r=3, lora_alpha=2, target_modules=["q_proj", "k_proj"]), tmp_path / "c")
    )
    with pytest.raises(
        ValueError, match=r"checkpoint 2 \(step 200\) differs .* missing \['.*v_proj'.*q_proj \(2 to 3\)"
    ):
        growth_uniformity([*found, other], steps=[0, 100, 200])
