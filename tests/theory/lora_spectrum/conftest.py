"""Adapter folders written by hand, byte by byte, without peft."""

import json

import numpy as np
import pytest

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "uint16": "BF16", "int64": "I64"}


def safetensors(tensors):
    """The bytes of a safetensors file: length of the header, header, data."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.fixture
def write(tmp_path):
    """Write an adapter folder from tensors by name and fields of the config."""

    def write(tensors, **config):
        config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4} | config
        (tmp_path / "adapter_model.safetensors").write_bytes(safetensors(tensors))
        (tmp_path / "adapter_config.json").write_text(json.dumps(config))
        return tmp_path

    return write


@pytest.fixture
def factors():
    """Tensors of modules of the shape (m, n) with rank r, by name."""

    def factors(modules, m=5, n=6, r=2, seed=0, dtype=np.float32):
        rng = np.random.default_rng(seed)
        found = {}
        for module in modules:
            found[f"base_model.model.{module}.lora_A.weight"] = rng.normal(size=(r, n)).astype(dtype)
            found[f"base_model.model.{module}.lora_B.weight"] = rng.normal(size=(m, r)).astype(dtype)
        return found

    return factors
