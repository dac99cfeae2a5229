"""What the tests of Triton kernels share. Those in a process of their own are started by test_triton.py."""

import re

import pytest


@pytest.fixture
def torch(needs):
    needs("triton")
    return needs("torch")


@pytest.fixture(scope="module")
def poison():
    """What a kernel leaves unwritten becomes NaN, or an integer far below all that is right."""
    import torch

    empty = torch.empty

    def poisoned(*shape, **options):
        out = empty(*shape, **options)
        return out.fill_(float("nan") if out.is_floating_point() else torch.iinfo(out.dtype).min // 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "empty", poisoned)
        yield


def assembled(kernel, arch, types, values, warps=4):
    """Texts of a kernel compiled for an architecture; arguments without a type or a value are int32."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    values = {name: values[name] for name in kernel.arg_names if values.get(name) is not None}
    signature = {name: "constexpr" if name in values else types.get(name, "i32") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=values)
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": warps}).asm


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


def check_positions(made):
    """Positions are counted in 64 bits, and something is counted."""
    assert lines_that_count_in_32_bits(made["ttir"]) == []
    assert re.search(r"arith\.muli .*i64", made["ttir"])


def check_compiled(made, name, arch):
    """Code of a kernel for an architecture, that keeps nothing on a local stack."""
    assert re.search(rf"\.target sm_{arch}", made["ptx"])
    assert f".entry {name}(" in made["ptx"]
    assert "ld.local" not in made["ptx"]
    assert "st.local" not in made["ptx"]
    assert made["cubin"][:4] == b"\x7fELF"  # the assembler comes with Triton


@pytest.fixture
def assemble():
    return assembled


@pytest.fixture
def narrow():
    return lines_that_count_in_32_bits


@pytest.fixture
def wide():
    return check_positions


@pytest.fixture
def check():
    return check_compiled
