"""What compiles without a GPU; test_triton.py runs this in a process of its own."""

import pytest

from porism.kernels.coalition import triton

TYPES = dict.fromkeys(("order", "weights", "partial", "carry", "least", "where"), "*i64")
TYPES["values"] = "*fp64"


@pytest.fixture
def build(assemble):
    def build(name, arch, lanes=16, block=1024):
        values = {"BLOCK": block, "ROWS": triton.TILE // lanes, "LANES": lanes}
        return assemble(getattr(triton, name), arch, TYPES, values)

    return build


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("name", ["totals", "sweep"])
def test_compiles_ahead_of_time(name, lanes, arch, build, check):
    check(build(name, arch, lanes), name, arch)


@pytest.mark.parametrize("name", ["totals", "sweep"])
@pytest.mark.parametrize("block", [37, 1024])
def test_positions_have_64_bits(name, block, build, wide):
    wide(build(name, 80, block=block))
