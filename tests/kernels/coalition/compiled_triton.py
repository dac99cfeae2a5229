"""What compiles, and what is said, without a GPU; test_triton.py runs this in a process of its own."""

import re

import numpy as np
import pytest
import torch
import triton as package
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from porism.kernels.coalition import level_margin, triton

TYPES = {"values": "*fp64", "size": "i32", "upper": "i32", "lower": "i32"}


def build(kernel, arch, lanes=16, block=1024):
    values = {"BLOCK": block, "ROWS": triton.TILE // lanes, "LANES": lanes}
    constants = {name: values[name] for name in kernel.arg_names if name in values}
    signature = {name: TYPES.get(name, "*i64") for name in kernel.arg_names} | dict.fromkeys(
        constants, "constexpr"
    )
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    return package.compile(source, target=GPUTarget("cuda", arch, 32)).asm


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("name", ["totals", "sweep"])
def test_compiles_ahead_of_time(name, lanes, arch, check):
    made = build(getattr(triton, name), arch, lanes)
    check(made, name, arch)


@pytest.mark.parametrize("name", ["totals", "sweep"])
@pytest.mark.parametrize("block", [37, 1024])
def test_positions_have_64_bits(name, block, narrow):
    made = build(getattr(triton, name), 80, block=block)
    assert narrow(made["ttir"]) == []
    assert re.search(r"arith\.muli .* : i64", made["ttir"])


@package.jit
def narrow_positions(out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, 32)
    tl.store(out + at, at.to(tl.int64))


def test_the_check_of_positions_can_fail(narrow):
    assert len(narrow(build(narrow_positions, 80)["ttir"])) == 1


def test_a_cpu_tensor_is_refused_by_name():
    scores, weights = torch.arange(8.0), np.array([0, 1, 1, 0])
    with pytest.raises(ValueError, match=r"must be on a CUDA device.*on cpu.*\.cuda\(\).*backend='cpu'"):
        level_margin(scores, weights, 1, 6, backend="triton")
    assert level_margin(scores, weights, 1, 6) == level_margin(scores.numpy(), weights, 1, 6)


def test_an_array_without_a_gpu_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="backend must not be 'triton' here: torch sees no CUDA device"):
        level_margin(np.arange(8.0), np.array([0, 1, 1, 0]), 1, 6, backend="triton")


def test_this_process_compiles():
    assert isinstance(triton.sweep, package.JITFunction)
