"""Triton's interpreter against the definition; test_triton.py runs this in a process of its own."""

import pytest
import torch

from porism.kernels.subset_attention import subset_attention

pytestmark = pytest.mark.usefixtures("poison")


@pytest.fixture
def off(everything, error):
    """Largest error of Triton against the CPU path in float64, for a problem."""

    def measure(tensors, places, grad, **options):
        found = everything(subset_attention, tensors, grad, backend="triton", **places, **options)
        assert {x.dtype for x in found} == {grad.dtype}
        wide = [x.detach().double().requires_grad_() for x in tensors]
        exact = everything(subset_attention, wide, grad.double(), backend="cpu", **places, **options)
        return error(found, exact)

    return measure


@pytest.mark.parametrize("causal", [True, False])
def test_sizes(k, U, causal, problem, off):
    """In float64, where nothing but rounding is left: the arithmetic of the kernels."""
    group = 1 + (k + U) % 2 * 3
    assert off(*problem(k, U, group, d=7, B=1), causal=causal) <= 1e-12


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("group", "causal", "window"), [(1, True, 0), (2, False, 0), (4, True, 5), (1, False, 5), (4, False, 0)]
)
def test_precisions(group, causal, window, kind, problem, off):
    tensors, places, grad = problem(17, 33, group, kind, d=16, B=1)
    bound = 2e-5 if kind == torch.float32 else 2e-2
    assert off(tensors, places, grad, causal=causal, window=window) <= bound


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize(("causal", "window"), [(True, 1), (True, 4), (False, 1), (False, 4)])
def test_windows(causal, window, group, problem, off):
    assert off(*problem(17, 33, group, B=1), causal=causal, window=window) <= 1e-12


@pytest.mark.parametrize("d", [1, 15, 16, 17, 63, 65, 130])
def test_sizes_of_heads(d, problem, off):
    assert off(*problem(3, 17, 2, torch.float32, d=d, B=1)) <= 2e-5


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("causal", [True, False])
def test_flags(causal, kind, problem, off):
    tensors, places, grad = problem(17, 33, 2, kind)
    draws = torch.Generator().manual_seed(0)
    places["valid_fresh"] = torch.rand(2, 17, generator=draws) < 0.7
    places["valid_frozen"] = torch.rand(2, 33, generator=draws) < 0.7
    assert off(tensors, places, grad, causal=causal) <= (1e-12 if kind == torch.float64 else 2e-5)
    del places["valid_fresh"]
    assert off(tensors, places, grad, causal=causal) <= (1e-12 if kind == torch.float64 else 2e-5)


def test_rows_that_see_nothing(problem, everything):
    tensors, places, grad = problem(3, 5, 2)
    places |= {"index_query": torch.tensor([2, 9, 4]), "index_fresh": torch.tensor([20, 21, 22])}
    places["index_frozen"] = torch.arange(5, 10)
    out, dq, dk, dv = everything(subset_attention, tensors, grad, backend="triton", **places)
    assert not out[:, :, [0, 2]].any()
    assert not dq[:, :, [0, 2]].any()
    assert out[:, :, 1].abs().min() > 0
    assert not dk.any()
    assert not dv.any()
    places["valid_frozen"] = torch.zeros(5, dtype=torch.bool)
    assert not any(x.any() for x in everything(subset_attention, tensors, grad, backend="triton", **places))


def test_keys_that_are_not_valid_may_hold_anything(problem, everything):
    (q, k, v, k_frozen, v_frozen), places, grad = problem(3, 5, 2)
    places |= {"valid_fresh": torch.tensor([True, False, True]), "valid_frozen": torch.arange(5) != 3}
    tensors = q, k, v, k_frozen, v_frozen
    clean = everything(subset_attention, tensors, grad, backend="triton", **places)
    with torch.no_grad():
        k[:, :, 1], v[:, :, 1], k_frozen[:, :, 3], v_frozen[:, :, 3] = [float("nan"), float("inf")] * 2
    dirty = everything(subset_attention, tensors, grad, backend="triton", **places)
    assert all(torch.equal(a, b) for a, b in zip(clean, dirty, strict=True))


def test_no_frozen_keys_is_ordinary_attention(problem, everything, error):
    tensors, _, grad = problem(17, 0, 4, d=8)
    ordinary = lambda q, k, v, *_: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    )
    found = everything(subset_attention, tensors[:3], grad, index_query=torch.arange(17), backend="triton")
    assert error(found, everything(ordinary, tensors, grad)) <= 1e-12


def test_more_fresh_keys_than_queries(problem, off):
    (_, k, v, *frozen), places, _ = problem(17, 5, 2)
    (q, *_), other, grad = problem(3, 5, 2)
    places = {"index_query": other["index_query"] + 9, "index_fresh": places["index_query"],
              "index_frozen": places["index_frozen"]}  # fmt: skip
    assert off((q, k, v, *frozen), places, grad) <= 1e-12


def twist(x, n):
    """The same numbers with other strides: heads within positions, features apart, or a row for all."""
    if n % 3 == 0:
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if n % 3 == 1:
        return torch.stack([x, x * 0], -1)[..., 0]
    return torch.cat([x, x], 2)[:, :, : x.shape[2]]


@pytest.mark.parametrize("turn", range(3))
def test_views(turn, problem, everything, error):
    tensors, places, grad = problem(16, 33, 2, d=6)
    places |= {"valid_fresh": torch.arange(32)[::2] % 3 != 1, "valid_frozen": torch.rand(33, 2).T > 0.5}
    plain = everything(subset_attention, tensors, grad, backend="cpu", **places)
    views = [twist(x.detach(), n + turn).requires_grad_(n < 3) for n, x in enumerate(tensors)]
    places["index_query"] = places["index_query"].T.contiguous().T.long()
    found = everything(subset_attention, views, twist(grad, turn), backend="triton", **places)
    assert error(found, plain) <= 1e-12


@pytest.mark.parametrize("shape", [{"B": 0, "k": 3, "U": 4}, {"k": 0, "U": 4}, {"k": 0, "U": 0}])
def test_empty_axes(shape, problem, everything):
    tensors, places, grad = problem(**shape)
    made = everything(subset_attention, tensors, grad, backend="triton", **places)
    assert [x.shape for x in made] == [x.shape for x in (tensors[0], *tensors[:3])]


def test_frozen_keys_get_no_gradient(problem, monkeypatch):
    """None for them, even where they ask; and nothing of their size is allocated in the backward pass."""
    tensors, places, grad = problem(3, 64, 2, d=7)
    frozen = [x.requires_grad_() for x in tensors[3:]]
    out = subset_attention(*tensors, backend="triton", **places)
    made, poisoned = [], torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda shape, **options: made.append(tuple(shape)) or poisoned(shape, **options)
    )
    out.backward(grad)
    assert [x.grad for x in frozen] == [None, None]
    assert made == [tuple(x.shape) for x in tensors[:3]]


def test_gradients_that_nobody_wants_are_not_made(problem):
    tensors, places, grad = problem(3, 5, 2)
    places["backend"] = "triton"
    full = torch.autograd.grad(subset_attention(*tensors, **places), tensors[:3], grad)
    for only in range(3):
        some = [x.detach().requires_grad_(n == only) for n, x in enumerate(tensors[:3])]
        (alone,) = torch.autograd.grad(subset_attention(*some, *tensors[3:], **places), some[only], grad)
        assert torch.equal(alone, full[only])


def test_what_is_kept(problem):
    tensors, places, _ = problem(16, 64, 4, torch.float32)
    places["valid_frozen"] = torch.ones(2, 64, dtype=torch.bool)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        out = subset_attention(*tensors, backend="triton", **places)
    known = {x.untyped_storage().data_ptr() for x in (*tensors, out, *places.values())}
    assert [tuple(x.shape) for x in kept if x.untyped_storage().data_ptr() not in known] == [(2, 8, 16)]


def test_large_scores_do_not_overflow(problem, everything):
    tensors, places, grad = problem(16, 33, 2, torch.float32)
    found = everything(subset_attention, tensors, grad, scale=1e4, backend="triton", **places)
    assert all(torch.isfinite(x).all() for x in found)


def test_too_wide_a_head_is_refused():
    x = torch.ones(1, 1, 2, 257)
    with pytest.raises(ValueError, match="at most 256 features for Triton, got 257"):
        subset_attention(x, x, x, index_query=torch.arange(2), backend="triton")
