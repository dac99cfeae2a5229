"""What compiles, and what is said, without a GPU; test_triton.py runs this in a process of its own."""

import itertools
import re

import numpy as np
import pytest
import torch
import triton as package
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from porism.kernels.voi import triton

TYPES = dict.fromkeys(("nu", "c", "w"), "*fp32") | dict.fromkeys(("arg", "top", "out"), "*i32")
TYPES |= {"done": "*i64", "n": "i32", "K": "i32", "m_q": "i32", "m_k": "i32"}
MEANS = ("m", "price", "net", "gap", "outside")
FLAGS = ("MANY", "PRICED", "MARKED", "BY_INDEX")


def build(kernel, arch, K, kind="fp32", **flags):
    rows, width = triton._tile(K)
    wide = "fp64" if kind == "fp64" else "fp32"
    types = TYPES | dict.fromkeys(MEANS, f"*{wide}") | {"m": f"*{kind}"}
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    values = {"ROWS": rows, "WIDTH": width} | dict.fromkeys(FLAGS, False) | flags
    if K == 1 and "K" in signature:  # a launch makes constants of ones
        signature["K"], values["K"] = "constexpr", 1
    values = {name: value for name, value in values.items() if name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=values)
    return package.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": 4}).asm


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("K", [1, 2, 9, 64, 129, 1024])
def test_compiles_ahead_of_time(K, arch, check):
    made = build(triton.best, arch, K, PRICED=True, MARKED=True)
    check(made, "best", arch)


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=4)))
def test_every_variant_compiles(flags, narrow):
    made = build(triton.best, 90, 64, **dict(zip(FLAGS, flags, strict=True)))
    assert narrow(made["ttir"]) == []
    assert re.search(r"arith\.muli .*i64", made["ttir"])


@pytest.mark.parametrize("kind", ["fp64", "fp16", "bf16"])
def test_every_precision_compiles(kind, narrow):
    made = build(triton.best, 80, 65, kind, MANY=True, PRICED=True, MARKED=True)
    assert narrow(made["ttir"]) == []


@package.jit
def narrow_positions(out, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, 32)
    tl.store(out + at, at)


def test_the_check_of_positions_can_fail(narrow):
    assert len(narrow(build(narrow_positions, 80, 32)["ttir"])) == 1


REST = (np.ones(2), np.ones(2), np.ones(2))


def test_a_cpu_tensor_is_refused_by_name():
    with pytest.raises(ValueError, match=r"must be on a CUDA device.*on cpu.*\.cuda\(\).*backend='cpu'"):
        triton.voi_argmax(torch.ones(1, 2), *REST)


def test_an_array_without_a_gpu_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="backend must not be 'triton' here: torch sees no CUDA device"):
        triton.voi_argmax(np.ones((1, 2)), *REST)


def test_this_process_compiles():
    assert isinstance(triton.best, package.JITFunction)
