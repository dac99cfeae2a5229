"""What compiles, and what is said, without a GPU; test_triton.py runs this in a process of its own."""

import re

import pytest
import torch
import triton as package
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from porism.kernels.subset_attention import _tiles, subset_attention, triton

KERNELS = {"attend": _tiles.attend, "queries": _tiles.queries, "fresh": _tiles.fresh}
NAMES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
DATA = ("q", "k", "v", "k_frozen", "v_frozen", "out", "grad", "dq", "dk", "dv")


def build(kernel, arch, kind="fp32", d=64, index="i32", one=(), **flags):
    rows, keys, head = triton.tile(NAMES[kind], d)
    types = dict.fromkeys(kernel.arg_names, "i32") | dict.fromkeys(DATA, f"*{kind}")
    types |= dict.fromkeys(("at_query", "at_fresh", "at_frozen"), f"*{index}")
    types |= dict.fromkeys(("keep_fresh", "keep_frozen"), "*u8") | dict.fromkeys(("lse", "delta"), "*fp32")
    values = {"ROWS": rows, "KEYS": keys, "HEAD": head, "SCALE": 0.125, "CAUSAL": True, "WINDOW": 0}
    values |= {"KIND": triton.KINDS[NAMES[kind]], "ACC": tl.float32}
    values |= {"KEEP_FRESH": False, "KEEP_FROZEN": False} | flags
    values |= dict.fromkeys(one, 1)  # a launch makes constants of ones
    signature = {name: "constexpr" if name in values else types[name] for name in kernel.arg_names}
    values = {name: value for name, value in values.items() if name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=values)
    options = {"num_warps": triton.WARPS}
    return package.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_ahead_of_time(name, kind, arch, check, narrow):
    made = build(KERNELS[name], arch, kind, KEEP_FRESH=True, KEEP_FROZEN=True)
    check(made, name, arch)
    assert narrow(made["ttir"]) == []
    assert re.search(r"arith\.muli .*i64", made["ttir"])


@pytest.mark.parametrize(("kind", "d"), [("fp32", 8), ("bf16", 128), ("fp32", 256)])
@pytest.mark.parametrize("name", KERNELS)
def test_sizes_of_heads_compile(name, d, kind, check):
    check(build(KERNELS[name], 90, kind, d), name, 90)


@pytest.mark.parametrize("flags", [{"WINDOW": 4}, {"CAUSAL": False, "WINDOW": 4}])
@pytest.mark.parametrize("name", KERNELS)
def test_masks_compile(name, flags, check, narrow):
    made = build(KERNELS[name], 80, index="i64", **flags)
    check(made, name, 80)
    assert narrow(made["ttir"]) == []


@pytest.mark.parametrize("one", [("n", "group", "shared"), ("F", "U", "aq_b", "as_b"), ("d", "q_i", "k_j")])
@pytest.mark.parametrize("name", KERNELS)
def test_arguments_of_one_compile(name, one, check, narrow):
    one = [argument for argument in one if argument in KERNELS[name].arg_names]
    made = build(KERNELS[name], 90, one=one)
    check(made, name, 90)
    assert narrow(made["ttir"]) == []


@pytest.mark.parametrize("name", KERNELS)
def test_products_are_exact_to_float32(name):
    text = build(KERNELS[name], 90)["ttir"]
    assert "tt.dot" in text
    assert "tf32" not in text


def test_products_of_half_precision_use_tensor_cores():
    assert re.search(r"(wgmma|mma\.sync)\S*bf16", build(_tiles.attend, 80, "bf16")["ptx"])


@package.jit
def narrow_positions(out, SIDE: tl.constexpr):
    at = tl.program_id(0) * SIDE + tl.arange(0, 32)
    tl.store(out + at, at)


def test_the_check_of_positions_can_fail(narrow):
    signature, values = {"out": "*i32", "SIDE": "constexpr"}, {"SIDE": 64}
    source = ASTSource(fn=narrow_positions, signature=signature, constexprs=values)
    assert len(narrow(package.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ttir"])) == 1


def refused(x, error, words):
    with pytest.raises(error, match=words):
        subset_attention(x, x, x, index_query=torch.arange(x.shape[2]), backend="triton")


def test_a_cpu_tensor_is_refused_by_name():
    refused(
        torch.ones(1, 1, 2, 4), ValueError, r"must be on a CUDA device.*on cpu.*\.cuda\(\).*backend='cpu'"
    )


def test_this_process_compiles():
    assert all(isinstance(kernel, package.JITFunction) for kernel in KERNELS.values())
