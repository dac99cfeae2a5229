"""The Triton path of subset attention on a GPU; skipped without one by conftest.py."""

import pytest

from porism.kernels.subset_attention import subset_attention

pytestmark = [pytest.mark.gpu, pytest.mark.full]

LARGE = [(1, 1, 1, 1), (17, 65, 4, 64), (64, 960, 4, 128), (3, 500, 2, 256)]


@pytest.fixture
def sent(needs, problem):
    needs("triton")

    def make(*args, **options):
        tensors, places, grad = problem(*args, **options)
        tensors = [x.detach().cuda().requires_grad_(n < 3) for n, x in enumerate(tensors)]
        return tensors, {name: x.cuda() for name, x in places.items()}, grad.cuda()

    return make


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("causal", "window"), [(True, 0), (False, 0), (True, 100), (False, 7)])
@pytest.mark.parametrize("size", LARGE)
def test_as_float64(size, causal, window, kind, torch, sent, everything, error):
    queries, frozen, group, d = size
    tensors, places, grad = sent(queries, frozen, group, getattr(torch, kind), d=d)
    places["valid_frozen"] = places["index_frozen"] % 7 != 3
    found, again = (
        everything(subset_attention, tensors, grad, causal=causal, window=window, **places) for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    wide = [x.detach().double().requires_grad_() for x in tensors]
    exact = everything(subset_attention, wide, grad.double(), causal=causal, window=window, **places)
    assert error(found, exact) <= (2e-5 if kind == "float32" else 2e-2)


def test_float64_takes_the_plain_path(torch, sent, everything, error):
    tensors, places, grad = sent(17, 33, 2)
    found = everything(subset_attention, tensors, grad, **places)
    assert error(found, everything(subset_attention, tensors, grad, backend="reference", **places)) <= 1e-12
    with pytest.raises(
        TypeError, match=r"q must be float32, float16 or bfloat16 for Triton, got torch\.float64"
    ):
        subset_attention(*tensors, backend="triton", **places)


def test_offsets_beyond_32_bits(torch, needs):
    """Keys overlap in memory: 2^31 numbers lie between the first and the last one that is read."""
    needs("triton")
    base = torch.zeros((1 << 31) + 4096, dtype=torch.float16, device="cuda")
    values = base.as_strided((1, 1, 3, 16), (1, 1, 1 << 30, 1))
    values[:] = torch.arange(3, device="cuda", dtype=torch.float16)[:, None]
    q = torch.zeros(1, 1, 1, 16, dtype=torch.float16, device="cuda")
    at = torch.arange(3, device="cuda")
    out = subset_attention(q, q, q, values, values, index_query=at[:1] + 9, index_frozen=at)
    assert out.ravel().tolist() == pytest.approx([0.75] * 16)
