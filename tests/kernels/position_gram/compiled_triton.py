"""What compiles without a GPU; test_triton.py runs this in a process of its own."""

import re

import pytest
import triton.language as tl

from porism.kernels.position_gram import triton

KINDS = {"fp64": tl.float64, "fp32": tl.float32, "fp16": tl.float16, "bf16": tl.bfloat16}
ONES = [("N",), ("T",), ("span",), ("span", "x_d", "g_d"), ("d_i", "d_o"), ("T", "span", "N"), ("x_n", "g_t")]


@pytest.fixture
def build(assemble):
    def build(arch, kind="fp32", one=()):
        sums = "fp64" if kind == "fp64" else "fp32"
        types = {"x": f"*{kind}", "g": f"*{kind}", "out": f"*{sums}"}
        values = {"SIDE": triton.SIDE, "DEPTH": triton.DEPTH, "KIND": KINDS[kind], "ACC": KINDS[sums]}
        values |= dict.fromkeys(one, 1)  # a launch makes constants of ones
        return assemble(triton.gram, arch, types, values, triton.WARPS)

    return build


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kind", KINDS)
def test_compiles_ahead_of_time(kind, arch, build, check, wide):
    made = build(arch, kind)
    check(made, "gram", arch)
    wide(made)


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("one", ONES)
def test_arguments_of_one_compile(one, arch, build, check, narrow):
    made = build(arch, one=one)
    check(made, "gram", arch)
    assert narrow(made["ttir"]) == []


def test_products_are_exact_to_float32(build):
    text = build(90)["ttir"]
    assert "tt.dot" in text
    assert "tf32" not in text


def test_products_of_half_precision_use_tensor_cores(build):
    assert re.search(r"(wgmma|mma\.sync)\S*bf16", build(80, "bf16")["ptx"])
