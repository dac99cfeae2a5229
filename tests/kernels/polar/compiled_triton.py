"""What compiles without a GPU; test_triton.py runs this in a process of its own."""

import re

import pytest
import triton.language as tl

from porism.kernels.polar import _launch, _tiles

NAMES = _tiles.__all__
POINTERS = dict.fromkeys(("X", "out", "work", "triples", "parts", "unit", "P", "M"), "*fp32")
FLOATS = dict.fromkeys(("safety", "linear", "quadratic", "shift"), "fp32")
DOUBLE = dict.fromkeys(("X", "parts", "unit", "P", "out"), "*fp64")
ALONE = ("fused", "middle")  # one program a member: up to 128 rows
CASES = [(name, side) for name in NAMES for side in (16, 32, 64, 128) if side < 128 or name in ALONE]


@pytest.fixture
def build(assemble):
    def build(name, arch, side=16, types=(), **values):
        unit = {"X_c": 1, "O_c": 1}  # as for contiguous members: Triton makes strides of 1 constants
        values = unit | {"STEPS": 7, "SIDE": side, "STEP": 32, "CHUNK": 512, "SPAN": 64} | values
        values = {"SCALED": True, "SHIFTED": True, "PRECISION": "ieee", "ACC": tl.float32} | values
        values["SLOTS"] = 1 if side <= 32 else 4
        types = POINTERS | FLOATS | dict(types)
        return assemble(getattr(_tiles, name), arch, types, values, _launch.WARPS[side])

    return build


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize(("name", "side"), CASES)
def test_compiles_ahead_of_time(name, side, arch, build, check, wide):
    made = build(name, arch, side, STEP=_launch.STEPS[side])
    check(made, name, arch)
    wide(made)
    assert "mma" not in made["ptx"]  # tensor cores would round factors to 10 bits
    assert re.search(r"fma\.rn\.f32", made["ptx"])
    assert not re.search(r"\b(atom|red)\.", made["ptx"])  # sums have one order


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["fused", "gram", "apply"])
def test_half_precision_compiles(name, kind, build, check):
    made = build(name, 80, types={"X": f"*{kind}", "out": f"*{kind}"})
    check(made, name, 80)
    assert "mma" not in made["ptx"]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("name", ["gram", "apply"])
@pytest.mark.parametrize("side", [16, 64])
def test_double_precision_compiles(name, side, arch, build, check):
    made = build(name, arch, side, DOUBLE, ACC=tl.float64)
    check(made, name, arch)
    assert re.search(r"(fma\.rn|mma\.\S*)\.f64", made["ptx"])


@pytest.mark.parametrize("name", ["gram", "apply"])
def test_float32_members_are_summed_in_float64(name, build):
    made = build(name, 80, types=DOUBLE | {"X": "*fp32"}, ACC=tl.float64, SCALED=False)
    assert re.search(r"(fma\.rn|mma\.\S*)\.f64", made["ptx"])
    assert not re.search(r"fma\.rn\.f32", made["ptx"])


@pytest.mark.parametrize("name", ["fused", "gram", "apply"])
def test_other_layouts_compile(name, build, check):
    """Tall members, whose rows lie next to each other, and strides known at run time only."""
    for strides in ({"X_r": 1, "O_r": 1, "X_c": None, "O_c": None}, {"X_c": None, "O_c": None}):
        check(build(name, 80, **strides), name, 80)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_of_one_compile(name, build, check):
    """Triton makes constants of them."""
    check(build(name, 80, r=1, d=1, chunks=1, X_k=1, O_k=1, X_r=1, O_r=1), name, 80)


@pytest.mark.parametrize("name", NAMES)
def test_tensor_cores_are_used_when_asked_for(name, build):
    assert "mma" in build(name, 80, PRECISION="tf32")["ptx"]


@pytest.mark.parametrize("name", ALONE)
def test_writes_and_reads_of_other_threads_are_parted(name, build):
    """Beyond the barriers of reductions and conversions there are those of the matrices in memory."""
    ttir = build(name, 80, 64)["ttir"]
    assert len(re.findall(r"gpu\.barrier|ttg\.barrier|tt\.barrier", ttir)) >= 4
