"""The Triton path of polar factors on a GPU; skipped without one by conftest.py."""

import numpy as np
import pytest

from porism.kernels import polar
from porism.kernels.polar import reference
from porism.kernels.polar._common import POLAR_EXPRESS, TAYLOR

pytestmark = [pytest.mark.gpu, pytest.mark.full]
SHARP = [*POLAR_EXPRESS, TAYLOR, TAYLOR]
SHAPES = [
    (3, 1, 1),
    (3, 1, 65),
    (300, 15, 17),
    (5, 17, 4097),
    (300, 16, 4096),
    (2, 63, 65),
    (3, 65, 1031),
    (2, 128, 999),
]


@pytest.fixture
def torch(needs):
    needs("triton")
    return needs("torch")


@pytest.fixture
def triton(torch):
    from porism.kernels.polar import triton

    return triton


def known(shape, kappa):
    (K, r, d), rng = shape, np.random.default_rng(shape[1])
    left = np.linalg.qr(rng.normal(size=(K, r, r)))[0]
    right = np.linalg.qr(rng.normal(size=(K, d, r)))[0].transpose(0, 2, 1)
    return left * np.geomspace(1, 1 / kappa, r) @ right, left @ right


def error(found, expected):
    return np.linalg.norm(found.double().cpu().numpy() - expected, 2, axis=(1, 2)).max()


@pytest.mark.parametrize("form", ["fused", "split", "tiled"])
@pytest.mark.parametrize(("kappa", "tolerance"), [(10, 2e-5), (100, 5e-4)])
@pytest.mark.parametrize("shape", SHAPES)
def test_polynomials(shape, kappa, tolerance, form, torch, triton):
    G, P = known(shape, kappa)
    G = torch.tensor(G, device="cuda").float()
    found = triton.newton_schulz(G, SHARP, 1.02, form=form)
    assert found.is_cuda
    assert error(found, P) <= tolerance
    expected = reference.newton_schulz(G.double().cpu().numpy(), SHARP, 1.02)
    assert error(found, expected) <= tolerance
    assert all(
        torch.equal(triton.newton_schulz(G, SHARP, 1.02, form=form), found) for _ in range(5)
    )  # no race
    tall = triton.newton_schulz(G.mT.contiguous(), SHARP, 1.02, form=form).mT
    assert float((tall - found).abs().max()) <= tolerance  # another layout of threads, another order of sums
    assert torch.equal(triton.newton_schulz(G * 2.0**-100, SHARP, 1.02, form=form), found)


@pytest.mark.parametrize("shape", [(2, 129, 1000), (1, 300, 301), (1, 1024, 2048)])
def test_many_rows(shape, torch, triton):
    G, P = known(shape, 10)
    found = triton.newton_schulz(torch.tensor(G, device="cuda").float(), SHARP, 1.02)
    assert error(found, P) <= 2e-5


@pytest.mark.parametrize("kappa", [3, 100, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_exact(shape, kappa, torch, triton):
    G, P = known(shape, kappa)
    for kind, tolerance in ((torch.float32, 1e-6 + 6e-8 * kappa), (torch.float64, 1e-9)):
        found, rank = triton.polar(torch.tensor(G, device="cuda").to(kind), return_rank=True)
        assert error(found, P) <= tolerance
        assert rank.tolist() == [shape[1]] * shape[0]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("method", ["auto", "polynomial"])
def test_half_precision(method, kind, torch, triton):
    kind = getattr(torch, kind)
    G = torch.tensor(known((9, 16, 4096), 10)[0], device="cuda").to(kind)
    found = triton.polar(G, method=method)
    assert found.dtype == kind
    assert error(found, reference.polar(G.double().cpu().numpy(), 0.0, 1e-9)[0]) <= 2e-2
    assert torch.equal(polar.polar_factor(G, method=method), found)  # a CUDA tensor goes to Triton by itself


def test_smoothing(torch, triton):
    G = np.random.default_rng(0).normal(size=(9, 16, 500))
    found = triton.polar(torch.tensor(G, device="cuda").float(), smoothing=3.0)
    assert error(found, reference.polar(G, 3.0, 1e-9)[0]) <= 1e-5


def test_members_do_not_touch_each_other(torch, triton):
    G = torch.tensor(known((6, 16, 900), 10)[0], device="cuda").float()
    G[1], G[2, 3, 4], G[4, 0, 0] = 0, float("nan"), float("inf")
    calls = [
        lambda g, form=form: triton.newton_schulz(g, SHARP, form=form) for form in ("fused", "split", "tiled")
    ]
    for call in [*calls, triton.polar]:
        found = call(G)
        assert not bool(found[1].any())
        assert bool(found[[2, 4]].isnan().all())
        assert float((found[[0, 3, 5]] - call(G[[0, 3, 5]])).abs().max()) <= 1e-5


def test_offsets_beyond_31_bits(torch, triton):
    """The last member of a batch that 32 bits cannot index."""
    if torch.cuda.get_device_properties(0).total_memory < 24 << 30:
        pytest.skip("needs 24 GB")
    G = torch.zeros(2049, 16, 1 << 16, device="cuda", dtype=torch.float16)
    last, _ = known((1, 16, 1 << 16), 3)
    G[-1] = torch.tensor(last[0] * 100)
    P = reference.polar(G[-1:].double().cpu().numpy(), 0.0, 1e-9)[0]
    for method in ("polynomial", "gram"):
        found = triton.polar(G, method=method)
        assert error(found[-1:], P) <= 2e-2
        assert not bool(found[:-1].any())
