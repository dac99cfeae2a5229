"""Readers without a verb of their own, or behind a model: damaged files give one kind of error, soon."""

import json
import os
import pickle

import numpy as np
import pytest
from hostile import call, check, damaged, hostile, odd_value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porism.sims.diagnose import _data
from porism.theory.lora_spectrum import read_adapter_spectrum
from porism.theory.partition import Certificate, Semivalue, TopK, UtilityTable, certify_partition

SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)

TABLE = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
IDS = np.arange(6).reshape(2, 3)
TEXTS = {"a.txt": b"one two\nthree\n", "a.csv": b'text,label\n"a, b",0\nc,1\n'}


def expect(read, *kinds):
    """It reads, or refuses in words of its own."""
    try:
        read()
    except kinds as error:
        refusal = str(error)
    else:
        return
    assert refusal
    assert "allow_pickle" not in refusal


@settings(SETTINGS, max_examples=60)
@given(data=st.data(), name=st.sampled_from(["a.txt", "a.csv", "a.npz"]))
def test_data_of_diagnose(tmp_path, data, name):
    if name == "a.npz":
        np.savez(tmp_path / name, input_ids=IDS, attention_mask=np.ones_like(IDS), labels=[0, 1])
        content = (tmp_path / name).read_bytes()
    else:
        content = TEXTS[name]
    kind = name if name == "a.npz" else "a.csv"
    (tmp_path / name).write_bytes(data.draw(hostile(kind, content)))
    expect(lambda: _data.read(tmp_path / name), ValueError)


@settings(SETTINGS, max_examples=60)
@given(data=st.data())
def test_certificates(tmp_path, data):
    text = certify_partition(TABLE, Semivalue.shapley(), TopK(1)).to_json()
    (tmp_path / "c.json").write_bytes(data.draw(hostile("c.json", text.encode())))
    expect(lambda: Certificate.from_json(tmp_path / "c.json"), ValueError)


def adapter(folder):
    """A small adapter, written by hand in the format of safetensors."""
    tensors, body = {}, b""
    for name, shape in (("A", (2, 3)), ("B", (4, 2))):
        values = np.arange(1, 1 + shape[0] * shape[1], dtype="<f4").tobytes()
        offsets = [len(body), len(body) + len(values)]
        key = f"base_model.model.layer.lora_{name}.weight"
        tensors[key] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
        body += values
    head = json.dumps(tensors).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + body)
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "rank_pattern": {}, "alpha_pattern": {"layer": 3}}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return config, tensors, body


def test_the_adapter_is_read(tmp_path):
    adapter(tmp_path)
    assert list(read_adapter_spectrum(tmp_path).spectra) == ["layer"]


@settings(SETTINGS, max_examples=100)
@given(data=st.data(), part=st.sampled_from(["config", "header", "bytes"]))
def test_adapters(tmp_path, data, part):
    config, tensors, body = adapter(tmp_path)
    weights = tmp_path / "adapter_model.safetensors"
    if part == "config":
        file = tmp_path / "adapter_config.json"
        file.write_bytes(data.draw(hostile("a.json", json.dumps(config).encode())))
    elif part == "header":
        head = json.dumps(data.draw(odd_value(tensors))).encode()
        weights.write_bytes(len(head).to_bytes(8, "little") + head + body)
    else:
        weights.write_bytes(data.draw(damaged(weights.read_bytes())))
    with np.errstate(all="ignore"):
        expect(lambda: read_adapter_spectrum(tmp_path), ValueError, KeyError)


class Payload:
    def __reduce__(self):
        return open, ("ran", "w")


@pytest.fixture
def model(tmp_path, monkeypatch, needs, capfd):
    """A folder with a tiny model and its tokenizer."""
    transformers, tokenizers = needs("transformers"), needs("tokenizers")
    monkeypatch.chdir(tmp_path)
    config = transformers.GPT2Config(
        vocab_size=4, n_layer=1, n_head=2, n_embd=8, n_positions=12, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2Model(config).save_pretrained("m")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained("m")
    (tmp_path / "t.txt").write_text("a b a b")
    return tmp_path / "m"


SCAN = ["scan", "--model", "m", "--text", "t.txt", "--n-null", "1"]


@pytest.mark.full
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "adapter_model.bin"])
def test_weights_that_are_a_pickle(model, needs, name):
    assert call(SCAN)[0] == 0
    (model / "model.safetensors").unlink()
    (model / name).write_bytes(pickle.dumps(Payload()))
    check(SCAN, *call(SCAN), refused=True)
    needs("torch").save({"wte.weight": Payload()}, model / name)
    check(SCAN, *call(SCAN), refused=True)
    assert not os.path.exists("ran")


@pytest.mark.full
def test_code_in_a_model_folder(model):
    """A folder may name classes in Python files beside the weights; they are not imported."""
    (model / "odd.py").write_text("open('ran', 'w')\n")
    config = json.loads((model / "config.json").read_text())
    config |= {"auto_map": {"AutoModel": "odd.Odd", "AutoConfig": "odd.Odd"}, "model_type": "odd"}
    (model / "config.json").write_text(json.dumps(config))
    check(SCAN, *call(SCAN), refused=True)
    assert not os.path.exists("ran")


@pytest.mark.full
@settings(SETTINGS, max_examples=40)
@given(data=st.data(), name=st.sampled_from(["config.json", "model.safetensors", "tokenizer.json"]))
def test_damaged_model_folders(model, data, name):
    whole = (model / name).read_bytes()
    kind = name if name == "config.json" else "a.parquet"
    (model / name).write_bytes(data.draw(hostile(kind, whole)))
    code, out, err = call(SCAN)
    (model / name).write_bytes(whole)
    check(SCAN, code, out, err)


@pytest.mark.full
def test_a_saved_model_that_asks_for_more_than_it_holds(tmp_path, needs):
    needs("safetensors")
    torch = needs("torch")
    from safetensors.torch import save_file

    from porism.sims.tiny_transformer import TinyConfig, TinyTransformer

    config = json.loads(TinyConfig(vocab=5).to_json()) | {"d": 1 << 20}
    header = {"format": 1, "porism": "0", "config": config, "seed": 0, "tokenizer": "", "corpus_hash": ""}
    save_file({"a": torch.zeros(2)}, tmp_path / "a.safetensors", {"porism": json.dumps(header)})
    with pytest.raises(ValueError, match="it holds 2 parameters, the config asks for"):
        TinyTransformer.load(tmp_path / "a.safetensors")


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        *(
            ("99_fake.ipynb", text, 1)
            for text in (
                "",
                "{",
                "[]",
                '"x"',
                '{"cells": 3}',
                '{"nbformat": 2}',
                '{"nbformat": 99}',
                "[" * 100_000,
            )
        ),
        ("99_fake.ipynb", b"\xff", 2),
        ("99_fake.py", b"\xff", 2),
    ],
)
def test_damaged_notebooks(fake, needs, name, content, code):
    needs("nbformat")
    needs("jupytext")
    (fake / "99_fake.ipynb").write_text("{}")
    (fake / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    words = ["notebooks", str(fake), "--check"]
    got, out, err = call(words)
    assert got == code
    if code == 2:
        check(words, got, out, err)
    else:
        assert out.startswith("99_fake.py and its .ipynb are out of step")
