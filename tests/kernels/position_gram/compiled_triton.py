"""What compiles, and what is said, without a GPU; test_triton.py runs this in a process of its own."""

import re

import numpy as np
import pytest
import torch
import triton as package
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from porism.kernels.position_gram import position_gram, triton

KINDS = {"fp64": tl.float64, "fp32": tl.float32, "fp16": tl.float16, "bf16": tl.bfloat16}


def build(arch, kind="fp32", one=()):
    wide = "fp64" if kind == "fp64" else "fp32"
    values = {"SIDE": triton.SIDE, "DEPTH": triton.DEPTH, "KIND": KINDS[kind], "ACC": KINDS[wide]}
    values |= dict.fromkeys(one, 1)  # a launch makes constants of ones
    types = (
        dict.fromkeys(triton.gram.arg_names, "i32") | dict.fromkeys("xg", f"*{kind}") | {"out": f"*{wide}"}
    )
    signature = {name: "constexpr" if name in values else kind for name, kind in types.items()}
    source = ASTSource(fn=triton.gram, signature=signature, constexprs=values)
    options = {"num_warps": triton.WARPS}
    return package.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kind", KINDS)
def test_compiles_ahead_of_time(kind, arch, check, narrow):
    made = build(arch, kind)
    check(made, "gram", arch)
    assert narrow(made["ttir"]) == []
    assert re.search(r"arith\.muli .*i64", made["ttir"])


ONES = [("N",), ("T",), ("span",), ("span", "x_d", "g_d"), ("d_i", "d_o"), ("T", "span", "N"), ("x_n", "g_t")]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("one", ONES)
def test_arguments_of_one_compile(one, arch, check, narrow):
    made = build(arch, one=one)
    check(made, "gram", arch)
    assert narrow(made["ttir"]) == []


def test_products_are_exact_to_float32():
    text = build(90)["ttir"]
    assert "tt.dot" in text
    assert "tf32" not in text


def test_products_of_half_precision_use_tensor_cores():
    assert re.search(r"(wgmma|mma\.sync)\S*bf16", build(80, "bf16")["ptx"])


@package.jit
def narrow_positions(out, SIDE: tl.constexpr):
    at = tl.program_id(0) * SIDE + tl.arange(0, 32)
    tl.store(out + at, at)


def test_the_check_of_positions_can_fail(narrow):
    signature, values = {"out": "*i32", "SIDE": "constexpr"}, {"SIDE": 64}
    source = ASTSource(fn=narrow_positions, signature=signature, constexprs=values)
    assert len(narrow(package.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ttir"])) == 1


def test_a_cpu_tensor_is_refused_by_name():
    with pytest.raises(
        ValueError, match=r"inputs must be on a CUDA device.*on cpu.*\.cuda\(\).*backend='cpu'"
    ):
        position_gram(torch.ones(1, 1, 2), torch.ones(1, 1, 2), backend="triton")


def test_an_array_without_a_gpu_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="backend must not be 'triton' here: torch sees no CUDA device"):
        position_gram(np.ones((1, 1, 2)), np.ones((1, 1, 2)), backend="triton")


def test_this_process_compiles():
    assert isinstance(triton.gram, package.JITFunction)
