"""What compiles without a GPU; test_triton.py runs this in a process of its own."""

import re

import pytest

from porism.kernels.pattern_cost import _jit, triton

NAMES = _jit.__all__
VALUES = {"DEPTH": triton.DEPTH, "ROWS": triton.ROWS, "HEADS": 16, "STEP": triton.STEP, "SQUARED": True}
VALUES |= {"KINDS": 16, "CAUSAL": True, "SPAN": 1024}
WARPS = {"gathered": 8, "streamed": 8}
POINTERS = {name: f"*{kind}" for kind, names in {
    "fp32": "A W out B g masks", "i64": "q p low high", "fp64": "sums beyond null mass"
}.items() for name in names.split()}  # fmt: skip


@pytest.fixture
def build(assemble):
    def build(name, arch, types=(), **values):
        values = VALUES | {"SIDE": 64 if name == "gathered" else 32} | values
        return assemble(getattr(_jit, name), arch, POINTERS | dict(types), values, WARPS.get(name, 4))

    return build


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("name", NAMES)
def test_compiles_ahead_of_time(name, arch, build, check, wide):
    made = build(name, arch)
    check(made, name, arch)
    wide(made)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["gathered", "prefixes", "streamed"])
def test_half_precision_compiles(name, kind, build, check):
    check(build(name, 80, {"A": f"*{kind}"}, KINDS=64, CAUSAL=False, SQUARED=False), name, 80)


@pytest.mark.parametrize("name", ["gathered", "diagonal", "swaps"])
def test_small_tiles_compile(name, build, check):
    check(build(name, 80, SIDE=16), name, 80)


@pytest.mark.parametrize("name", ["gathered", "swaps", "streamed"])
@pytest.mark.parametrize("arch", [80, 90])
def test_products_are_exact_float32(name, arch, build):
    """No tensor core, which would round factors to 10 bits, and the compensation is still there."""
    made = build(name, arch)
    assert "mma" not in made["ptx"]
    assert re.search(r"fma\.rn\.f32", made["ptx"])
    kept = r"(fma|add)\.(rn\.)?f64" if name == "streamed" else r"sub\.(rn\.)?f32"
    assert len(re.findall(kept, made["ptx"])) >= 3
