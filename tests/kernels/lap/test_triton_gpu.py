"""The Triton path of assignment on a GPU; skipped without one by conftest.py."""

import numpy as np
import pytest

from porism.kernels import lap

pytestmark = [pytest.mark.gpu, pytest.mark.full]


def total(costs, p):
    return np.take_along_axis(costs, p[:, None, :], axis=1)[:, 0].sum(1)


@pytest.mark.parametrize("kind", ["gauss", "ties", "blocks", "constant"])
@pytest.mark.parametrize("n", [1, 2, 3, 15, 17, 37, 63, 65, 127, 128])
def test_proven_gap_and_exact_finish(n, kind, torch):
    from porism.kernels.lap import triton

    rng = np.random.default_rng(n)
    costs = rng.normal(size=(50, n, n))
    if kind == "ties":
        costs = rng.integers(0, 4, costs.shape).astype(float)
    elif kind == "blocks":
        costs = np.repeat(rng.normal(size=(50, n, 2)), [n // 2, n - n // 2], axis=2)
    elif kind == "constant":
        costs[:] = 1.5
    best = total(costs, lap.batched(costs, backend="cpu"))
    tensor = torch.tensor(costs, device="cuda")
    p, gap = triton.auction(tensor)
    assert p.is_cuda
    assert torch.equal(p.sort(1).values, torch.arange(n, device="cuda").expand(50, n))
    gap = gap.cpu().numpy()
    assert (total(costs, p.cpu().numpy()) <= best + gap + 1e-9).all()
    assert (gap <= 1.2 * n * 2.0**-16 * np.ptp(costs, axis=(1, 2)) + 1e-9).all()  # none was given up
    assert all(torch.equal(triton.auction(tensor)[0], p) for _ in range(3))  # a race would differ
    assert total(costs, triton.batched(tensor).cpu().numpy()) == pytest.approx(best, abs=1e-9)
