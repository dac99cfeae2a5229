"""What compiles, and what is said, without a GPU; test_triton.py runs this in a process of its own."""

import re

import numpy as np
import pytest
import torch
import triton as package
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from porism.kernels.pattern_cost import _jit, triton

NAMES = _jit.__all__
VALUES = {"DEPTH": triton.DEPTH, "ROWS": triton.ROWS, "HEADS": 16, "STEP": triton.STEP, "SQUARED": True}
VALUES |= {"KINDS": 16, "CAUSAL": True, "SPAN": 1024}
WARPS = {"gathered": 8, "streamed": 8}
POINTERS = {name: f"*{kind}" for kind, names in {
    "fp32": "A W out B g masks", "i64": "q p low high", "fp64": "sums beyond null mass"
}.items() for name in names.split()}  # fmt: skip


def build(kernel, arch, types=(), **values):
    values = VALUES | {"SIDE": 64 if kernel.__name__ == "gathered" else 32} | values
    constants = {name: values[name] for name in kernel.arg_names if name in values}
    kinds = POINTERS | dict(types)
    signature = {name: kinds.get(name, "i32") for name in kernel.arg_names}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    options = {"num_warps": WARPS.get(kernel.__name__, 4)}
    return package.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("name", NAMES)
def test_compiles_ahead_of_time(name, arch, check):
    made = build(getattr(triton, name), arch)
    check(made, name, arch)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["gathered", "prefixes", "streamed"])
def test_half_precision_compiles(name, kind):
    made = build(getattr(triton, name), 80, {"A": f"*{kind}"}, KINDS=64, CAUSAL=False, SQUARED=False)
    assert made["cubin"][:4] == b"\x7fELF"


@pytest.mark.parametrize("name", ["gathered", "diagonal", "swaps"])
def test_small_tiles_compile(name):
    assert build(getattr(triton, name), 80, SIDE=16)["cubin"][:4] == b"\x7fELF"


@pytest.mark.parametrize("name", ["gathered", "swaps", "streamed"])
@pytest.mark.parametrize("arch", [80, 90])
def test_products_are_exact_float32(name, arch):
    """No tensor core, which would round factors to 10 bits, and the compensation is still there."""
    made = build(getattr(triton, name), arch)
    assert "mma" not in made["ptx"]
    assert re.search(r"fma\.rn\.f32", made["ptx"])
    kept = r"(fma|add)\.(rn\.)?f64" if name == "streamed" else r"sub\.(rn\.)?f32"
    assert len(re.findall(kept, made["ptx"])) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_positions_have_64_bits(name, narrow):
    made = build(getattr(triton, name), 80)
    assert narrow(made["ttir"]) == []
    assert re.search(r"arith\.muli .*i64", made["ttir"])


@package.jit
def narrow_positions(out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, 32)
    tl.store(out + at, at.to(tl.float32))


def test_the_check_of_positions_can_fail(narrow):
    assert len(narrow(build(narrow_positions, 80, BLOCK=32)["ttir"])) == 1


@package.jit
def rounded(A, W, out):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    product = tl.dot(tl.load(A + i * 16 + j), tl.load(W + i * 16 + j))  # TF32 unless asked otherwise
    tl.store(out + i * 16 + j, product)


def test_the_check_of_products_can_fail():
    assert "mma" in build(rounded, 80)["ptx"]


CALLS = {
    "batched_cost": lambda A: triton.batched_cost(A, [[0, 1]], np.ones((2, 2))),
    "interval_cost": lambda A: triton.interval_cost(A, [[0, 1]], [0, 1], [1, 2]),
    "swap_deltas": lambda A: triton.swap_deltas(A[0], np.ones((2, 2)), [0, 1]),
    "head_null": lambda A: triton.head_null(A, np.ones((1, 2, 2))),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_cpu_tensor_is_refused_by_name(name):
    with pytest.raises(ValueError, match=r"must be on a CUDA device.*on cpu.*\.cuda\(\).*backend='cpu'"):
        CALLS[name](torch.ones(1, 2, 2))


@pytest.mark.parametrize("name", CALLS)
def test_an_array_without_a_gpu_is_refused_by_name(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="backend must not be 'triton' here: torch sees no CUDA device"):
        CALLS[name](np.ones((1, 2, 2)))


def test_this_process_compiles():
    assert isinstance(triton.gathered, package.JITFunction)
