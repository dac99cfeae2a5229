"""What every Triton path says without a GPU, and what the checks of compiled kernels can tell."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from porism.kernels import _device, coalition, lap, moments, pattern_cost, polar, voi
from porism.kernels.pattern_cost import triton as on_triton
from porism.kernels.position_gram import position_gram
from porism.kernels.subset_attention import subset_attention

ON = {"backend": "triton"}
ARRAYS = {
    "level_margin": lambda ones: coalition.level_margin(ones(8), [0, 1, 1, 0], 1, 6, **ON),
    "lap.solve": lambda ones: lap.solve(ones(2, 2), **ON),
    "lap.batched": lambda ones: lap.batched(ones(1, 2, 2), **ON),
    "token_gram": lambda ones: moments.token_gram(ones(1, 1, 2), [0], [0.0, 0.0], **ON),
    "batched_cost": lambda ones: pattern_cost.batched_cost(ones(1, 2, 2), [[0, 1]], np.ones((2, 2)), **ON),
    "interval_cost": lambda ones: on_triton.interval_cost(ones(1, 2, 2), [[0, 1]], [0, 1], [1, 2]),
    "swap_deltas": lambda ones: pattern_cost.swap_deltas(ones(2, 2), np.ones((2, 2)), [0, 1], **ON),
    "head_null": lambda ones: pattern_cost.head_null(ones(1, 2, 2), np.ones((1, 2, 2)), **ON),
    "position_gram": lambda ones: position_gram(ones(1, 1, 2), ones(1, 1, 2), **ON),
    "voi_argmax": lambda ones: voi.voi_argmax(ones(1, 2), *[np.ones(2)] * 3, **ON),
}
TENSORS = ARRAYS | {
    "polar_factor": lambda ones: polar.polar_factor(ones(1, 2, 2), **ON),
    "newton_schulz": lambda ones: polar.newton_schulz(ones(1, 2, 2), **ON),
    "subset_attention": lambda ones: subset_attention(
        *[ones(1, 1, 2, 4)] * 3, index_query=torch.arange(2), **ON
    ),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_cpu_tensor_is_refused_by_name(name):
    words = (
        r"\w+ must be on a CUDA device for Triton, got a tensor on cpu; "
        r"move it with \.cuda\(\), or take backend='cpu'"
    )
    with pytest.raises(ValueError, match=words):
        TENSORS[name](torch.ones)


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_without_a_gpu_is_refused_by_name(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = "backend must not be 'triton' here: torch sees no CUDA device; take backend='cpu' or 'auto'"
    with pytest.raises(ValueError, match=words):
        ARRAYS[name](lambda *shape: np.ones(shape))


@pytest.mark.parametrize("name", TENSORS)
def test_backends_are_named(name, monkeypatch):
    monkeypatch.setitem(ON, "backend", "gpu")
    if name != "interval_cost":
        with pytest.raises(ValueError, match="backend must be one of 'auto', 'cpu', 'triton', 'reference'"):
            TENSORS[name](torch.ones)


@triton.jit
def narrow_positions(out, SIDE: tl.constexpr):
    at = tl.program_id(0) * SIDE + tl.arange(0, 32)
    tl.store(out + at, at)


def test_the_check_of_positions_can_fail(assemble, narrow):
    made = assemble(narrow_positions, 80, {"out": "*i32"}, {"SIDE": 64})
    assert len(narrow(made["ttir"])) == 1


@triton.jit
def rounded(A, W, out):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    product = tl.dot(tl.load(A + i * 16 + j), tl.load(W + i * 16 + j))  # TF32 unless asked otherwise
    tl.store(out + i * 16 + j, product)


def test_the_check_of_products_can_fail(assemble):
    assert "mma" in assemble(rounded, 80, dict.fromkeys(("A", "W", "out"), "*fp32"), {})["ptx"]


def test_this_process_compiles():
    assert not _device.interpreted()
