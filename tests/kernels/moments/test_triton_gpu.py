"""The Triton path of the token Gram on a GPU; skipped without one by conftest.py."""

import numpy as np
import pytest

from porism.kernels import moments

pytestmark = [pytest.mark.gpu, pytest.mark.full]


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [(1, 1, 1), (37, 5, 50), (300, 4, 129), (1500, 2, 768)])
def test_as_float64(size, kind, torch):
    B, L, D = size
    draws = torch.Generator().manual_seed(D)
    h = (torch.randn(B, L, D, generator=draws) + 3).to(getattr(torch, kind)).cuda()
    index, y = torch.randint(-1, L, (B,), generator=draws), torch.randint(0, 4, (B,), generator=draws)
    shift = h[0, 0].clone()
    exact = moments.token_gram(h.cpu().double(), index, shift.cpu().double(), y, n_classes=4).numpy()
    found, again = (moments.token_gram(h, index.cuda(), shift, y.cuda(), n_classes=4) for _ in range(2))
    assert found.is_cuda
    assert torch.equal(found, again)
    found = found.cpu().double().numpy()
    assert np.array_equal(found[D:, D:], exact[D:, D:])
    assert np.linalg.norm(found - exact) <= (1e-13 if kind == "float64" else 1e-6) * np.linalg.norm(exact)


def test_offsets_beyond_32_bits(torch):
    """Samples overlap in memory: 2^31 entries lie between the first and the last row that is read."""
    base = torch.zeros((1 << 31) + 4096, dtype=torch.float16, device="cuda")
    h = base.as_strided((3, 1, 33), (1 << 30, 1, 1))
    h[:] = torch.arange(3, device="cuda", dtype=torch.float16)[:, None, None] + 1
    found = moments.token_gram(h, [0, 0, 0], [0.0] * 33)
    assert found[0, 0] == 14
    assert found[33, 0] == 6
