"""What compiles, and what is said, without a GPU; test_triton.py runs this in a process of its own."""

import re

import numpy as np
import pytest
import torch
import triton as package
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from porism.kernels.polar import _launch, _tiles, triton

NAMES = _tiles.__all__
POINTERS = dict.fromkeys(("X", "out", "work", "triples", "parts", "unit", "P", "M"), "*fp32")
FLOATS = dict.fromkeys(("safety", "linear", "quadratic", "shift"), "fp32")
DOUBLE = dict.fromkeys(("X", "parts", "unit", "P", "out"), "*fp64")
ALONE = ("fused", "middle")  # one program a member: up to 128 rows
CASES = [(name, side) for name in NAMES for side in (16, 32, 64, 128) if side < 128 or name in ALONE]


def build(kernel, arch, side=16, types=(), **values):
    wide = {"X_c": 1, "O_c": 1}  # as for contiguous members: Triton makes strides of 1 constants
    values = wide | {"STEPS": 7, "SIDE": side, "STEP": 32, "CHUNK": 512, "SPAN": 64} | values
    values = {"SLOTS": 1 if side <= 32 else 4, "SCALED": True, "SHIFTED": True, "PRECISION": "ieee"} | values
    values = {"ACC": tl.float32} | values
    constants = {name: values[name] for name in kernel.arg_names if values.get(name) is not None}
    kinds = POINTERS | FLOATS | dict(types)
    signature = {name: kinds.get(name, "i32") for name in kernel.arg_names}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    options = {"num_warps": _launch.WARPS[side]}
    return package.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize(("name", "side"), CASES)
def test_compiles_ahead_of_time(name, side, arch, check):
    made = build(getattr(_tiles, name), arch, side, STEP=_launch.STEPS[side])
    check(made, name, arch)
    assert "mma" not in made["ptx"]  # tensor cores would round factors to 10 bits
    assert re.search(r"fma\.rn\.f32", made["ptx"])
    assert not re.search(r"\b(atom|red)\.", made["ptx"])  # sums have one order


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["fused", "gram", "apply"])
def test_half_precision_compiles(name, kind):
    made = build(getattr(_tiles, name), 80, types={"X": f"*{kind}", "out": f"*{kind}"})
    assert made["cubin"][:4] == b"\x7fELF"
    assert "mma" not in made["ptx"]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("name", ["gram", "apply"])
@pytest.mark.parametrize("side", [16, 64])
def test_double_precision_compiles(name, side, arch, check):
    made = build(getattr(_tiles, name), arch, side, DOUBLE, ACC=tl.float64)
    check(made, name, arch)
    assert re.search(r"(fma\.rn|mma\.\S*)\.f64", made["ptx"])


@pytest.mark.parametrize("name", ["gram", "apply"])
def test_float32_members_are_summed_in_float64(name):
    made = build(getattr(_tiles, name), 80, types=DOUBLE | {"X": "*fp32"}, ACC=tl.float64, SCALED=False)
    assert re.search(r"(fma\.rn|mma\.\S*)\.f64", made["ptx"])
    assert not re.search(r"fma\.rn\.f32", made["ptx"])


@pytest.mark.parametrize("name", ["fused", "gram", "apply"])
def test_other_layouts_compile(name):
    """Tall members, whose rows lie next to each other, and strides known at run time only."""
    for strides in ({"X_r": 1, "O_r": 1, "X_c": None, "O_c": None}, {"X_c": None, "O_c": None}):
        assert build(getattr(_tiles, name), 80, **strides)["cubin"][:4] == b"\x7fELF"


@pytest.mark.parametrize("name", NAMES)
def test_sizes_of_one_compile(name):
    """Triton makes constants of them."""
    made = build(getattr(_tiles, name), 80, r=1, d=1, chunks=1, X_k=1, O_k=1, X_r=1, O_r=1)
    assert made["cubin"][:4] == b"\x7fELF"


@pytest.mark.parametrize("name", NAMES)
def test_tensor_cores_are_used_when_asked_for(name):
    assert "mma" in build(getattr(_tiles, name), 80, PRECISION="tf32")["ptx"]


@pytest.mark.parametrize(("name", "side"), [(name, side) for name, side in CASES if side in (16, 64)])
def test_positions_have_64_bits(name, side, narrow):
    made = build(getattr(_tiles, name), 80, side)
    assert narrow(made["ttir"]) == []
    assert re.search(r"arith\.muli .*i64", made["ttir"])


@package.jit
def narrow_positions(out, SIDE: tl.constexpr):
    at = tl.program_id(0) * SIDE + tl.arange(0, 16)
    tl.store(out + at, at.to(tl.float32))


def test_the_check_of_positions_can_fail(narrow):
    assert len(narrow(build(narrow_positions, 80)["ttir"])) == 1


@pytest.mark.parametrize("name", ALONE)
def test_writes_and_reads_of_other_threads_are_parted(name):
    """Beyond the barriers of reductions and conversions there are those of the matrices in memory."""
    ttir = build(getattr(_tiles, name), 80, 64)["ttir"]
    assert len(re.findall(r"gpu\.barrier|ttg\.barrier|tt\.barrier", ttir)) >= 4


CALLS = {
    "polar": triton.polar,
    "newton_schulz": lambda G: triton.newton_schulz(G, [(1.875, -1.25, 0.375)]),
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
    assert isinstance(_tiles.gram, package.JITFunction)
