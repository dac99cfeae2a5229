"""What compiles, and what is said, without a GPU; test_triton.py runs this in a process of its own."""

import re

import numpy as np
import pytest
import torch
import triton as package
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from porism.kernels import moments
from porism.kernels.moments import triton

TYPES = dict.fromkeys(("index", "y"), "*i64")
TYPES |= dict.fromkeys(("B", "D", "W", "h_b", "h_l", "h_d", "o_r", "o_c"), "i32")


def build(kernel, arch, kind="fp32", target="fp32", one=(), **flags):
    wide = "fp64" if kind == "fp64" else "fp32"
    types = TYPES | {"h": f"*{kind}", "shift": f"*{wide}", "out": f"*{target}"}
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    values = {"SIDE": triton.SIDE, "ROWS": triton.ROWS, "LABELLED": False} | flags
    values["ACC"] = tl.float64 if kind == "fp64" else tl.float32
    for name in one:  # a launch makes constants of ones
        signature[name], values[name] = "constexpr", 1
    values = {name: value for name, value in values.items() if name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=values)
    return package.compile(
        source, target=GPUTarget("cuda", arch, 32), options={"num_warps": triton.WARPS}
    ).asm


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16", "fp64"])
def test_compiles_ahead_of_time(kind, labelled, arch, check, narrow):
    made = build(triton.gram, arch, kind, "fp64" if kind == "fp64" else "fp32", LABELLED=labelled)
    check(made, "gram", arch)
    assert narrow(made["ttir"]) == []
    assert re.search(r"arith\.muli .*i64", made["ttir"])


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kind", ["fp32", "bf16", "fp64"])
def test_float64_sums_compile(kind, arch, check):
    check(build(triton.gram, arch, kind, "fp64", one=("h_d", "o_c"), LABELLED=True), "gram", arch)


@pytest.mark.parametrize("one", [("B",), ("D",), ("h_b", "h_l", "h_d"), ("o_r", "o_c"), ("D", "h_d", "o_c")])
def test_arguments_of_one_compile(one, check, narrow):
    made = build(triton.gram, 90, one=one, LABELLED=True)
    check(made, "gram", 90)
    assert narrow(made["ttir"]) == []


def test_products_are_exact_to_float32():
    text = build(triton.gram, 90)["ttir"]
    assert "tt.dot" in text
    assert "tf32" not in text


@package.jit
def narrow_positions(out, SIDE: tl.constexpr):
    at = tl.program_id(0) * SIDE + tl.arange(0, 32)
    tl.store(out + at, at)


def test_the_check_of_positions_can_fail(narrow):
    signature, values = {"out": "*i32", "SIDE": "constexpr"}, {"SIDE": 64}
    source = ASTSource(fn=narrow_positions, signature=signature, constexprs=values)
    assert len(narrow(package.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ttir"])) == 1


REST = np.zeros(1, dtype=int), np.zeros(2)


def test_a_cpu_tensor_is_refused_by_name():
    with pytest.raises(ValueError, match=r"must be on a CUDA device.*on cpu.*\.cuda\(\).*backend='cpu'"):
        moments.token_gram(torch.ones(1, 1, 2), *REST, backend="triton")


def test_an_array_without_a_gpu_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="backend must not be 'triton' here: torch sees no CUDA device"):
        moments.token_gram(np.ones((1, 1, 2)), *REST, backend="triton")


def test_this_process_compiles():
    assert isinstance(triton.gram, package.JITFunction)
