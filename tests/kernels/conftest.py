"""What the checks of compiled Triton kernels share."""

import re

import pytest


def lines_that_count_in_32_bits(ttir):
    """Lines that count positions in 32 bits: int32 products, program numbers used before they are widened."""
    blocks = re.findall(r"(%\w+) = tt\.get_program_id", ttir)
    assert blocks
    found = []
    for line in ttir.splitlines():
        code = line.split(" loc(")[0].strip()
        product = "arith.muli" in code and re.search(r"(: |x)i32>?$", code)
        used = any(re.search(rf"{name}\b", code.partition(" = ")[2]) for name in blocks)
        if product or (used and "arith.extsi" not in code):
            found.append(code)
    return found


def check_compiled(made, name, arch):
    """Code of a kernel for an architecture, that keeps nothing on a local stack."""
    assert re.search(rf"\.target sm_{arch}", made["ptx"])
    assert f".entry {name}(" in made["ptx"]
    assert "ld.local" not in made["ptx"]
    assert "st.local" not in made["ptx"]
    assert made["cubin"][:4] == b"\x7fELF"  # the assembler comes with Triton


@pytest.fixture
def narrow():
    return lines_that_count_in_32_bits


@pytest.fixture
def check():
    return check_compiled
