"""The Triton path of the position Gram on a GPU; skipped without one by conftest.py."""

import pytest

from porism.kernels.position_gram import position_gram

pytestmark = [pytest.mark.gpu, pytest.mark.full]


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("size", [(1, 1, 1, 1), (65, 3, 50, 17), (300, 40, 129, 64), (64, 64, 128, 128)])
def test_as_float64(size, per_position, kind, torch):
    N, T, d_i, d_o = size
    draws = torch.Generator().manual_seed(N)
    x, g = (torch.randn(N, T, d, generator=draws).to(getattr(torch, kind)).cuda() for d in (d_i, d_o))
    exact = position_gram(x.double(), g.double(), per_position=per_position, backend="cpu")
    found, again = (position_gram(x, g, per_position=per_position) for _ in range(2))
    assert found.is_cuda
    assert torch.equal(found, again)
    assert torch.equal(found, found.mT)
    worst = float((found - exact).abs().max() / exact.abs().max())
    assert worst <= (1e-12 if kind == "float64" else 1e-5)


def test_offsets_beyond_32_bits(torch):
    """Examples overlap in memory: 2^31 entries lie between the first and the last row that is read."""
    base = torch.zeros((1 << 31) + 4096, dtype=torch.float16, device="cuda")
    x = base.as_strided((3, 1, 33), (1 << 30, 1, 1))
    x[:] = torch.arange(3, device="cuda", dtype=torch.float16)[:, None, None] + 1
    found = position_gram(x, torch.ones(3, 1, 1, dtype=torch.float16, device="cuda"))
    assert found.tolist() == [[33 * n * m for m in (1, 2, 3)] for n in (1, 2, 3)]
