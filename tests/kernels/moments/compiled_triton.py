"""What compiles without a GPU; test_triton.py runs this in a process of its own."""

import pytest
import triton.language as tl

from porism.kernels.moments import triton

TYPES = {"index": "*i64", "y": "*i64"}


@pytest.fixture
def build(assemble):
    def build(arch, kind="fp32", target="fp32", one=(), labelled=True):
        sums = "fp64" if kind == "fp64" else "fp32"
        types = TYPES | {"h": f"*{kind}", "shift": f"*{sums}", "out": f"*{target}"}
        values = {"SIDE": triton.SIDE, "ROWS": triton.ROWS, "LABELLED": labelled}
        values["ACC"] = tl.float64 if kind == "fp64" else tl.float32
        values |= dict.fromkeys(one, 1)  # a launch makes constants of ones
        return assemble(triton.gram, arch, types, values, triton.WARPS)

    return build


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16", "fp64"])
def test_compiles_ahead_of_time(kind, labelled, arch, build, check, wide):
    made = build(arch, kind, "fp64" if kind == "fp64" else "fp32", labelled=labelled)
    check(made, "gram", arch)
    wide(made)


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kind", ["fp32", "bf16", "fp64"])
def test_float64_sums_compile(kind, arch, build, check):
    check(build(arch, kind, "fp64", one=("h_d", "o_c")), "gram", arch)


@pytest.mark.parametrize("one", [("B",), ("D",), ("h_b", "h_l", "h_d"), ("o_r", "o_c"), ("D", "h_d", "o_c")])
def test_arguments_of_one_compile(one, build, check, narrow):
    made = build(90, one=one)
    check(made, "gram", 90)
    assert narrow(made["ttir"]) == []


def test_products_are_exact_to_float32(build):
    text = build(90)["ttir"]
    assert "tt.dot" in text
    assert "tf32" not in text
