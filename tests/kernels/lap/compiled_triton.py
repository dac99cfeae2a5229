"""What compiles, and what is said, without a GPU; test_triton.py runs this in a process of its own."""

import re

import numpy as np
import pytest
import torch
import triton as package
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from porism.kernels.lap import triton

TYPES = {"costs": "*fp32", "holder": "*i32", "price": "*fp32", "rounds": "*i32", "n": "i32", "limit": "i32"}
TYPES |= {"start": "fp32", "last": "fp32", "out": "*i32"}


def build(kernel, arch, side):
    signature = {name: TYPES.get(name, "constexpr") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs={"SIDE": side})
    options = {"num_warps": triton._warps(side)}
    return package.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("side", [16, 32, 64, 128])
def test_compiles_ahead_of_time(side, arch, check):
    made = build(triton.bids, arch, side)
    check(made, "bids", arch)


@pytest.mark.parametrize("side", [16, 128])
def test_positions_have_64_bits(side, narrow):
    made = build(triton.bids, 80, side)
    assert narrow(made["ttir"]) == []
    assert re.search(r"arith\.muli .*i64", made["ttir"])


@package.jit
def narrow_positions(out, SIDE: tl.constexpr):
    at = tl.program_id(0) * SIDE + tl.arange(0, 32)
    tl.store(out + at, at)


def test_the_check_of_positions_can_fail(narrow):
    assert len(narrow(build(narrow_positions, 80, 32)["ttir"])) == 1


@pytest.mark.parametrize("call", [triton.auction, triton.batched])
def test_a_cpu_tensor_is_refused_by_name(call):
    with pytest.raises(ValueError, match=r"must be on a CUDA device.*on cpu.*\.cuda\(\).*backend='cpu'"):
        call(torch.ones(1, 2, 2))


@pytest.mark.parametrize("call", [triton.auction, triton.batched])
def test_an_array_without_a_gpu_is_refused_by_name(call, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="backend must not be 'triton' here: torch sees no CUDA device"):
        call(np.ones((1, 2, 2)))


def test_this_process_compiles():
    assert isinstance(triton.bids, package.JITFunction)
