"""Files of the tiny transformer, what it refuses, and when it loads torch."""

import json
import subprocess
import sys

import numpy as np
import pytest

from porism.errors import MissingExtraError
from porism.sims import tiny_transformer
from porism.sims.tiny_transformer import TinyConfig

SHAPES = {
    "rope": {"kv_heads": 2},
    "learned": {"position": "learned", "norm": "layer", "act": "swiglu"},
    "none": {"position": "none", "act": "relu", "tie": False},
}


@pytest.fixture
def torch(needs):
    return needs("torch")


def build(**fields):
    from porism.sims.tiny_transformer import TinyTransformer

    fields = {"vocab": 0 if "input_dim" in fields else 11, "d": 16, "heads": 4, "max_len": 24} | fields
    return TinyTransformer(TinyConfig(**fields)).double()


def ids(torch, shape=(3, 12)):
    return torch.from_numpy(np.random.default_rng(0).integers(0, 11, size=shape))


# -- files --------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_round_trip(torch, needs, tmp_path, shape, dtype):
    needs("safetensors")
    from porism.sims.tiny_transformer import TinyTransformer

    model = build(**SHAPES[shape]).to(getattr(torch, dtype))
    model.tokenizer, model.corpus_hash = "letters", "ab" * 32
    model.save(tmp_path / "a.safetensors")
    again = TinyTransformer.load(tmp_path / "a.safetensors")
    assert (again.config, again.seed) == (model.config, model.seed)
    assert (again.tokenizer, again.corpus_hash) == ("letters", "ab" * 32)
    torch.testing.assert_close(again.state_dict(), model.state_dict(), rtol=0, atol=0)
    again.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@pytest.mark.full
def test_file_is_plain_safetensors(torch, needs, tmp_path):
    safetensors = needs("safetensors")
    from porism.sims.tiny_transformer import TinyTransformer

    path = tmp_path / "m.safetensors"
    TinyTransformer(TinyConfig(vocab=96, d=128, layers=4)).save(path)
    assert 3.19e6 < path.stat().st_size < 3.21e6
    with safetensors.safe_open(path, framework="np") as stored:
        assert json.loads(stored.metadata()["porism"])["config"]["d"] == 128
        assert stored.get_tensor("blocks.3.down.weight").shape == (128, 512)


@pytest.mark.full
def test_files_that_are_refused(torch, needs, tmp_path, monkeypatch):
    save = needs("safetensors.numpy").save_file
    from porism.sims.tiny_transformer import TinyTransformer

    path, model = tmp_path / "m.safetensors", build()
    model.save(path)
    whole = path.read_bytes()
    with pytest.raises(FileNotFoundError):
        TinyTransformer.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        TinyTransformer.load(tmp_path)
    for content in (b"", b"not a model", whole[:-8]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a saved tiny transformer"):
            TinyTransformer.load(path)
    save({"a": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="is not a saved tiny transformer"):
        TinyTransformer.load(path)
    path.write_bytes(whole.replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    with pytest.raises(ValueError, match=r"has format 9.*update porism"):
        TinyTransformer.load(path)
    path.write_bytes(whole.replace(b'\\"d_ff\\": 0', b'\\"d_ff\\": 9'))
    with pytest.raises(ValueError, match="does not fit its config"):
        TinyTransformer.load(path)
    path.write_bytes(whole)
    model.blocks[0].q.adapter = torch.nn.Identity()
    with pytest.raises(ValueError, match=r"no adapters, got one at blocks\.0\.q"):
        model.save(path)
    assert path.read_bytes() == whole


# -- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "exactly one of vocab and input_dim must be positive, got vocab=0 and input_dim=0"),
        ({"vocab": 5, "input_dim": 2}, "exactly one of vocab and input_dim"),
        ({"input_dim": 2}, "n_out must be positive with input_dim"),
        ({"vocab": 5, "d": 65}, "heads must divide d, got heads=4 and d=65"),
        ({"vocab": 5, "kv_heads": 3}, "kv_heads must divide heads, got kv_heads=3 and heads=4"),
        ({"vocab": 5, "d": 12}, "head size d / heads must be even with position='rope', got 3"),
        ({"vocab": 5, "layers": 0}, "layers must be >= 1"),
        ({"vocab": 5, "norm": "batch"}, "norm must be one of 'rms', 'layer'"),
        ({"vocab": 5, "position": "alibi"}, "position must be one of"),
        ({"vocab": 5, "act": "tanh"}, "act must be one of"),
        ({"vocab": 5, "readout": "first"}, "readout must be one of"),
        ({"vocab": 5, "rope_base": 0}, "rope_base must be finite and > 0"),
    ],
)
def test_configs_that_are_refused(fields, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        TinyConfig(**fields)


def test_config_details():
    assert TinyConfig(vocab=5, d=12, position="learned").head_size == 3
    assert TinyConfig(vocab=5, act="swiglu").width == 176  # 170.67 rounded up
    assert TinyConfig(vocab=5, d=48, act="swiglu").width == 128  # exactly
    config = TinyConfig(vocab=5, act="swiglu", causal=False)
    assert TinyConfig.from_json(config.to_json()) == config
    with pytest.raises(ValueError, match="a later version of porism"):
        TinyConfig.from_json('{"vocab": 5, "dropout": 0.1}')
    with pytest.raises(TypeError, match="causal must be True or False"):
        TinyConfig(vocab=5, causal=1)
    with pytest.raises(TypeError, match="d must be an int"):
        TinyConfig(vocab=5, d=64.0)


@pytest.mark.full
def test_inputs_that_are_refused(torch):
    from porism.sims.tiny_transformer import TinyTransformer

    model, x = build(), ids(torch)
    with pytest.raises(ValueError, match="at most 1,000,000 parameters, got 1,193,600; make it smaller"):
        TinyTransformer(TinyConfig(vocab=96, d=128, layers=6))
    assert TinyTransformer(TinyConfig(vocab=96, d=128, layers=6), allow_large=True).config.layers == 6
    with pytest.raises(ValueError, match="cache must be 2 lists of two"):
        model(x, positions=torch.arange(12), cache=[])
    with pytest.raises(ValueError, match="at most max_len=24 tokens, got 25"):
        model(ids(torch, (1, 25)))
    for bad in (x[0], x[..., None], x[:, :0]):
        with pytest.raises(ValueError, match="x must have shape"):
            model(bad)
    with pytest.raises(TypeError, match=r"integer token ids, got torch\.float64"):
        model(x.double())
    with pytest.raises(ValueError, match=r"token ids must be in 0\.\.10, got 1\.\.11"):
        model(torch.tensor([[1, 11]]))
    for mask in (torch.ones(3, 11), torch.ones(12), torch.ones(3, 12, 1)):
        with pytest.raises(ValueError, match=r"token_mask must have shape \(3, 12\)"):
            model(x, token_mask=mask)
        with pytest.raises(ValueError, match=r"key_mask must have shape \(3, 12\)"):
            model(x, key_mask=mask.bool())
    with pytest.raises(ValueError, match=r"token_mask must have shape \(3, 13\)"):
        build(readout="token")(x, token_mask=torch.ones(3, 12))
    with pytest.raises(TypeError, match="key_mask must hold bools"):
        model(x, key_mask=torch.ones(3, 12))
    with pytest.raises(TypeError, match="positions must be integers"):
        model(x, positions=torch.arange(12.0))
    with pytest.raises(ValueError, match=r"positions must have shape \(12,\) or \(3, 12\)"):
        model(x, positions=torch.arange(11))
    learned = build(position="learned")
    for where in (torch.arange(12) - 1, torch.arange(12) + 13):
        with pytest.raises(ValueError, match=r"positions must be in 0\.\.23"):
            learned(x, positions=where)
    with pytest.raises(ValueError, match="positions must be passed with a cache"):
        model(x, cache=model.new_cache())
    with pytest.raises(ValueError, match="cache must be 2 lists of two"):
        model(x, cache=[[None, None]], positions=torch.arange(12))
    with pytest.raises(ValueError, match="cache must be None with readout='mean'"):
        build(readout="mean")(x, cache=model.new_cache(), positions=torch.arange(12))
    cache = model.new_cache()
    model(ids(torch, (1, 20)), cache=cache, positions=torch.arange(20))
    with pytest.raises(ValueError, match="got 25, 20 of them in the cache"):
        model(ids(torch, (1, 5)), cache=cache, positions=torch.arange(20, 25))
    with pytest.raises(ValueError, match="must have shape"):
        build(input_dim=2, n_out=1)(torch.zeros(1, 4, 3))


# -- imports ------------------------------------------------------------------------------------------------

LAZY = """
import sys
from porism.sims import corpora, fit, tiny_transformer
assert not {"torch", "sklearn", "matplotlib", "safetensors"} & set(sys.modules)
tiny_transformer.TinyTransformer
assert "torch" in sys.modules and tiny_transformer.Block.__module__ == "porism.sims.tiny_transformer"
from porism.sims.tiny_transformer import *
TinyLinear, TinyConfig
"""

ABSENT = """
import sys
sys.modules["torch"] = None
from porism.errors import MissingExtraError
from porism.sims import corpora, fit, tiny_transformer
from porism.sims.tiny_transformer import *
assert "TinyTransformer" not in tiny_transformer.__all__ and TinyConfig(vocab=96).n_parameters == 104768
for use in (lambda: tiny_transformer.TinyTransformer, lambda: fit.trained("xs"), lambda: check_rule(None)):
    try:
        use()
    except MissingExtraError as error:
        assert "porism[torch]" in str(error)
    else:
        sys.exit("no error")
"""


@pytest.mark.full
def test_torch_loads_on_first_use(torch, tmp_path):
    subprocess.run([sys.executable, "-c", LAZY], cwd=tmp_path, check=True)


def test_without_torch_the_error_names_the_extra(tmp_path):
    subprocess.run([sys.executable, "-c", ABSENT], cwd=tmp_path, check=True)
    assert issubclass(MissingExtraError, ImportError)


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no attribute 'HugeTransformer'"):
        tiny_transformer.HugeTransformer  # noqa: B018
