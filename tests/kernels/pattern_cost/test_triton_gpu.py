"""The Triton path of the pattern costs on a GPU; skipped without one by conftest.py."""

import numpy as np
import pytest

from porism.kernels import pattern_cost

pytestmark = [pytest.mark.gpu, pytest.mark.full]
SHAPES = [(2, 37, 45), (1, 1, 1), (3, 15, 17), (1, 63, 65), (1, 65, 63), (4, 257, 300), (1, 1000, 1024)]


@pytest.fixture
def triton(torch):
    from porism.kernels.pattern_cost import triton

    return triton


def orders(rng, b, n):
    return np.array([rng.permutation(n) for _ in range(b)])


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_batched_cost(shape, kind, torch, triton):
    rng = np.random.default_rng(shape[1])
    A = torch.tensor(rng.normal(size=shape), device="cuda").to(getattr(torch, kind))
    q, W = orders(rng, shape[0], shape[2]), rng.random(shape[1:])
    found = triton.batched_cost(A, q, W)
    assert found.is_cuda
    expected = pattern_cost.batched_cost(A.double().cpu().numpy(), q, W)
    assert np.abs(found.cpu().numpy() / expected - 1).max() <= 2e-6
    assert torch.equal(triton.batched_cost(A.mT.contiguous().mT, q, W), found)
    assert all(torch.equal(triton.batched_cost(A, q, W), found) for _ in range(5))  # a race would differ


@pytest.mark.parametrize("shape", SHAPES)
def test_interval_cost(shape, torch, triton):
    (b, m, n), rng = shape, np.random.default_rng(shape[1])
    A = torch.tensor(rng.normal(size=shape), device="cuda", dtype=torch.float32)
    q, (low, high) = orders(rng, b, n), np.sort(rng.integers(0, n + 1, (2, m)), axis=0)
    W = (np.arange(n) < low[:, None]) | (np.arange(n) >= high[:, None])
    expected = pattern_cost.batched_cost(A.double().cpu().numpy(), q, W.astype(float))
    found = triton.interval_cost(A, q, low, high).cpu().numpy()
    assert np.abs(found - expected).max() <= 2e-7 * expected.max()


@pytest.mark.parametrize("n", [1, 2, 15, 17, 37, 63, 65, 300, 1024])
def test_swap_deltas(n, torch, triton):
    rng = np.random.default_rng(n)
    B, W, p = rng.exponential(size=(n, n)), rng.random((n, n)), rng.permutation(n)
    B *= n / B.sum()
    found = triton.swap_deltas(torch.tensor(B, device="cuda"), W, p)
    assert torch.equal(found, found.T)
    assert np.abs(found.cpu().numpy() - pattern_cost.swap_deltas(B, W, p)).max() <= 1e-5
    assert all(torch.equal(triton.swap_deltas(torch.tensor(B, device="cuda"), W, p), found) for _ in range(5))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mass", ["squared", "abs"])
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 2, 37, 45), (17, 1, 15, 17), (2, 65, 65, 63), (40, 9, 256, 256)])
def test_head_null(shape, kind, mass, causal, torch, triton):
    rng = np.random.default_rng(0)
    heads, kinds, m, n = shape
    A = torch.tensor(rng.normal(size=(heads, m, n)), device="cuda").to(getattr(torch, kind))
    S = rng.random((kinds, m, n))
    found = triton.head_null(A, S, causal=causal, mass=mass)
    expected = pattern_cost.head_null(A.double().cpu().numpy(), S, causal=causal, mass=mass)
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one.cpu().numpy() / other - 1).max() <= 2.3e-6


def test_no_copy_of_the_matrices(torch, triton):
    """Neither squares nor gathered columns are stored."""
    A = torch.rand(8, 1024, 1024, device="cuda")
    q = torch.arange(1024, device="cuda").expand(8, 1024).contiguous()
    W = torch.rand(1024, 1024, device="cuda")
    triton.batched_cost(A, q, W)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    triton.batched_cost(A, q, W)
    assert torch.cuda.max_memory_allocated() - before < 1.2 * A.nbytes  # the result is as large


def test_offsets_beyond_31_bits(torch, triton):
    """The last matrix of a batch that 32 bits cannot index."""
    if torch.cuda.get_device_properties(0).total_memory < 24 << 30:
        pytest.skip("needs 24 GB")
    A = torch.zeros(2049, 1024, 1024, device="cuda", dtype=torch.float16)
    A[-1] = torch.rand(1024, 1024)
    d2, _ = triton.head_null(A, torch.eye(1024, device="cuda")[None])
    expected = pattern_cost.head_null(A[-1:].double().cpu().numpy(), np.eye(1024)[None])
    assert abs(float(d2[-1, 0]) / expected[0][0, 0] - 1) <= 2.3e-6
    assert bool(torch.isnan(d2[:-1]).all())
