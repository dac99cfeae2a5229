"""What compiles without a GPU; test_triton.py runs this in a process of its own."""

import itertools

import pytest

from porism.kernels.voi import triton

TYPES = dict.fromkeys(("nu", "c", "w"), "*fp32") | dict.fromkeys(("arg", "top"), "*i32") | {"done": "*i64"}
MEANS = ("m", "price", "net", "gap", "outside")
FLAGS = ("MANY", "PRICED", "MARKED", "BY_INDEX")


@pytest.fixture
def build(assemble):
    def build(arch, K, kind="fp32", **flags):
        rows, width = triton._tile(K)
        types = TYPES | dict.fromkeys(MEANS, "*fp64" if kind == "fp64" else "*fp32") | {"m": f"*{kind}"}
        values = {"ROWS": rows, "WIDTH": width} | dict.fromkeys(FLAGS, False) | flags
        values |= {"K": 1} if K == 1 else {}  # a launch makes constants of ones
        return assemble(triton.best, arch, types, values)

    return build


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("K", [1, 2, 9, 64, 129, 1024])
def test_compiles_ahead_of_time(K, arch, build, check):
    check(build(arch, K, PRICED=True, MARKED=True), "best", arch)


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=4)))
def test_every_variant_compiles(flags, build, wide):
    wide(build(90, 64, **dict(zip(FLAGS, flags, strict=True))))


@pytest.mark.parametrize("kind", ["fp64", "fp16", "bf16"])
def test_every_precision_compiles(kind, build, wide):
    wide(build(80, 65, kind, MANY=True, PRICED=True, MARKED=True))
