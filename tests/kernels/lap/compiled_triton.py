"""What compiles without a GPU; test_triton.py runs this in a process of its own."""

import pytest

from porism.kernels.lap import triton

TYPES = {"costs": "*fp32", "holder": "*i32", "price": "*fp32", "rounds": "*i32"}
TYPES |= {"start": "fp32", "last": "fp32"}


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("side", [16, 32, 64, 128])
def test_compiles_ahead_of_time(side, arch, assemble, check, wide):
    made = assemble(triton.bids, arch, TYPES, {"SIDE": side}, triton._warps(side))
    check(made, "bids", arch)
    wide(made)
