"""What compiles without a GPU; test_triton.py runs this in a process of its own."""

import re

import pytest
import torch
import triton.language as tl

from porism.kernels import _device
from porism.kernels.subset_attention import _tiles, triton

KERNELS = {"attend": _tiles.attend, "queries": _tiles.queries, "fresh": _tiles.fresh}
KINDS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
DATA = ("q", "k", "v", "k_frozen", "v_frozen", "out", "grad", "dq", "dk", "dv")
TYPES = dict.fromkeys(("keep_fresh", "keep_frozen"), "*u8") | dict.fromkeys(("lse", "delta"), "*fp32")


@pytest.fixture
def build(assemble):
    def build(name, arch, kind="fp32", d=64, index="i32", one=(), **flags):
        rows, keys, head = triton.tile(KINDS[kind], d)
        types = TYPES | dict.fromkeys(DATA, f"*{kind}")
        types |= dict.fromkeys(("at_query", "at_fresh", "at_frozen"), f"*{index}")
        values = {"ROWS": rows, "KEYS": keys, "HEAD": head, "SCALE": 0.125, "CAUSAL": True, "WINDOW": 0}
        values |= {"KIND": _device.TYPES[KINDS[kind]], "ACC": tl.float32}
        values |= {"KEEP_FRESH": False, "KEEP_FROZEN": False} | flags
        values |= dict.fromkeys(one, 1)  # a launch makes constants of ones
        return assemble(KERNELS[name], arch, types, values, triton.WARPS)

    return build


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_ahead_of_time(name, kind, arch, build, check, wide):
    made = build(name, arch, kind, KEEP_FRESH=True, KEEP_FROZEN=True)
    check(made, name, arch)
    wide(made)


@pytest.mark.parametrize(("kind", "d"), [("fp32", 8), ("bf16", 128), ("fp32", 256)])
@pytest.mark.parametrize("name", KERNELS)
def test_sizes_of_heads_compile(name, d, kind, build, check):
    check(build(name, 90, kind, d), name, 90)


@pytest.mark.parametrize("flags", [{"WINDOW": 4}, {"CAUSAL": False, "WINDOW": 4}])
@pytest.mark.parametrize("name", KERNELS)
def test_masks_compile(name, flags, build, check, narrow):
    made = build(name, 80, d=16, index="i64", **flags)
    check(made, name, 80)
    assert narrow(made["ttir"]) == []


@pytest.mark.parametrize("one", [("n", "group", "shared"), ("F", "U", "aq_b", "as_b"), ("d", "q_i", "k_j")])
@pytest.mark.parametrize("name", KERNELS)
def test_arguments_of_one_compile(name, one, build, check, narrow):
    made = build(name, 90, d=16, one=one)
    check(made, name, 90)
    assert narrow(made["ttir"]) == []


@pytest.mark.parametrize("name", KERNELS)
def test_products_are_exact_to_float32(name, build):
    text = build(name, 90, d=16)["ttir"]
    assert "tt.dot" in text
    assert "tf32" not in text


def test_products_of_half_precision_use_tensor_cores(build):
    assert re.search(r"(wgmma|mma\.sync)\S*bf16", build("attend", 80, "bf16")["ptx"])


def test_tiles():
    assert triton.tile(torch.float32, 64) == (32, 32, 64)
    assert triton.tile(torch.float32, 65) == (16, 16, 128)
    assert triton.tile(torch.bfloat16, 256) == (32, 32, 256)
