"""The Triton path of level_margin on a GPU; skipped without one by conftest.py."""

import numpy as np
import pytest

from porism.kernels.coalition import level_margin

pytestmark = [pytest.mark.gpu, pytest.mark.full]


def game(n, levels):
    rng = np.random.default_rng(n)
    scores = rng.permutation(1 << n) * 1.0 if levels is None else rng.integers(0, levels, 1 << n) / levels
    weights = rng.integers(0, 1 << 30, n + 1)
    weights[[0, n]] = 0
    upper = int(rng.integers(1, (1 << n) - 1))
    return scores, weights, upper, ~upper & ((1 << n) - 1)


@pytest.mark.parametrize("n", range(4, 21))
@pytest.mark.parametrize("levels", [2, 101, None])
def test_equals_cpu(n, levels, torch):
    from porism.kernels.coalition import triton

    scores, *rest = game(n, levels)
    expected = level_margin(scores, *rest, backend="cpu")
    tensor = torch.tensor(scores, device="cuda")
    assert level_margin(tensor, *rest) == expected  # a CUDA tensor goes to Triton by itself
    assert level_margin(scores, *rest, backend="triton") == expected
    for block in (64, 1000, 4096):
        assert triton.level_margin(tensor, *rest, block=block) == expected
    assert (tensor.cpu().numpy() == scores).all()


def test_equals_cpu_on_every_run(torch):
    """A race would show as a run that differs."""
    scores, *rest = game(16, None)
    expected = level_margin(scores, *rest, backend="cpu")
    tensor = torch.tensor(scores, device="cuda")
    assert all(level_margin(tensor, *rest) == expected for _ in range(50))


def test_weights_up_to_62_bits(torch):
    scores, weights, *sides = game(20, None)
    weights[1:-1] = ((1 << 62) - 1) // ((1 << 20) - 2)
    expected = level_margin(scores, weights, *sides, backend="cpu")
    assert level_margin(torch.tensor(scores, device="cuda"), weights, *sides) == expected


def test_views_of_a_tensor(torch):
    scores, *rest = game(12, 101)
    wide = torch.tensor(np.repeat(scores, 2), device="cuda")
    assert level_margin(wide[::2], *rest) == level_margin(scores, *rest)
    narrow = torch.tensor(scores, device="cuda", dtype=torch.float32)
    assert level_margin(narrow, *rest) == level_margin(scores.astype(np.float32), *rest)


def test_memory(torch):
    """16 bytes a coalition beside the scores, and at most twice that for the sort."""
    scores, *rest = game(22, None)
    tensor = torch.tensor(scores, device="cuda")
    level_margin(tensor, *rest)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    level_margin(tensor, *rest)
    assert torch.cuda.max_memory_allocated() - before < 56 << 22
