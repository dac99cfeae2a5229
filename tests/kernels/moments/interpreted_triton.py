"""Triton's interpreter against float64 of the same inputs; test_triton.py runs this in its own process."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels import moments

KINDS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float64: 1e-14} | dict.fromkeys(KINDS[1:], 1e-6)
SIZES = [(1, 1, 1), (15, 2, 15), (17, 3, 17), (16, 2, 63), (37, 5, 50), (33, 2, 65), (70, 3, 129), (0, 2, 5)]
pytestmark = pytest.mark.usefixtures("poison")


def problem(B, L, D, kind=torch.float32, C=4):
    draws = torch.Generator().manual_seed(B + 100 * L + 10_000 * D)
    h = (torch.randn(B, L, D, generator=draws) + 3).to(kind)
    index = torch.randint(-1, L, (B,), generator=draws)
    return (
        h,
        index,
        h[0, 0].clone() if B else torch.zeros(D, dtype=kind),
        torch.randint(0, C, (B,), generator=draws),
    )


def off(found, h, index, shift, y=None, C=None):
    """Relative error in Frobenius norm against float64, and counts exact."""
    exact = moments.token_gram(h.double().numpy(), index, shift.double(), y, n_classes=C, backend="cpu")
    found = found.double().numpy()
    D = h.shape[2]
    assert np.array_equal(found[D:, D:], exact[D:, D:])
    return np.linalg.norm(found - exact) / max(np.linalg.norm(exact), 1e-300)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_as_float64(size, labelled, kind):
    h, index, shift, y = problem(*size, kind)
    options = {"y": y, "n_classes": 4} if labelled else {}
    found = moments.token_gram(h, index, shift, backend="triton", **options)
    assert found.dtype == (torch.float64 if kind == torch.float64 else torch.float32)
    assert not found.triu(1).any()
    assert off(found, h, index, shift, *((y, 4) if labelled else ())) <= TOLERANCE[kind]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_an_odd_tail_and_one_skipped_row(kind):
    h, _, shift, y = problem(37, 3, 50, kind)
    index = torch.full((37,), 1)
    index[11] = -1
    found = moments.token_gram(h, index, shift, y, n_classes=4, backend="triton")
    assert off(found, h, index, shift, y, 4) <= 5e-7


def test_compensation_carries_long_sums():
    """Without it 4000 rows of equal sign drift by some 1e-6; with it by a few units in the last place."""
    h = torch.full((4000, 1, 3), 0.1)
    index, shift = torch.zeros(4000, dtype=torch.int64), torch.zeros(3)
    found = moments.token_gram(h, index, shift, backend="triton")
    assert off(found, h, index, shift) <= 1e-7
    h = torch.rand(4000, 1, 3) * 1e-3 + 1
    found = moments.token_gram(h, index, h[0, 0], backend="triton")
    assert off(found, h, index, h[0, 0]) <= 5e-7


@pytest.mark.parametrize("backend", ["triton"])
def test_far_from_zero(backend):
    """Mean 1000, unit noise, shifted by a row: the covariance keeps its digits."""
    h = torch.randn(150, 2, 20, generator=torch.Generator().manual_seed(0)) + 1000
    index = torch.ones(150, dtype=torch.int64)
    gram = moments.token_gram(h, index, h[0, 0], backend=backend)
    found = moments.read_moments(gram, h[0, 0])
    exact = np.cov(h[:, 1].double().numpy().T)
    assert np.linalg.norm(found.covariance - exact) <= 2e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("wide", [torch.float64, torch.float32])
def test_batches_add_up_below_the_diagonal_only(wide):
    h, index, shift, y = problem(50, 3, 33)
    out = torch.full((38, 38), float("nan"), dtype=wide).triu(1)
    out[torch.tril_indices(38, 38).unbind()] = 0
    for part in (slice(0, 7), slice(7, 50)):
        back = moments.token_gram(h[part], index[part], shift, y[part], out, n_classes=4, backend="triton")
        assert back is out
    assert out[torch.triu_indices(38, 38, 1).unbind()].isnan().all()
    assert off(out.tril(), h, index, shift, y, 4) <= 1e-6


@pytest.mark.parametrize("layout", ["features first", "interleaved", "expanded", "out transposed"])
def test_any_strides(layout):
    h, index, shift, _ = problem(19, 3, 21)
    expected = moments.token_gram(h, index, shift, backend="triton")
    out = None
    if layout == "features first":
        view = h.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    elif layout == "interleaved":
        view = torch.stack([h, torch.full_like(h, float("nan"))], -1)[..., 0]
    elif layout == "expanded":
        h = view = h[:1].expand(19, -1, -1)
        expected = moments.token_gram(h.contiguous(), index, shift, backend="triton")
    else:
        view, out = h, torch.zeros(22, 22).T
    assert torch.equal(moments.token_gram(view, index, shift, None, out, backend="triton"), expected)


@pytest.mark.parametrize("skipped", [float("nan"), float("inf")])
def test_rows_that_are_not_asked_for_do_not_matter(skipped):
    h, index, shift, y = problem(20, 2, 18)
    index[3] = index[9] = -1
    expected = moments.token_gram(h, index, shift, y, n_classes=4, backend="triton")
    kept = torch.zeros(20, 2, dtype=torch.bool)
    kept[index >= 0, index[index >= 0]] = True
    h[~kept] = skipped
    y[[3, 9]] = 77
    assert torch.equal(moments.token_gram(h, index, shift, y, n_classes=4, backend="triton"), expected)


def test_a_nan_row_shows():
    h, index, shift, _ = problem(20, 2, 70)
    index[5] = 1
    h[5, 1] = float("nan")
    found = moments.token_gram(h, index, shift, backend="triton")
    assert found[:70, :70][torch.tril_indices(70, 70).unbind()].isnan().all()
    assert found[70, 70] == (index >= 0).sum()


def test_all_skipped():
    h, _, shift, y = problem(9, 2, 6)
    index = torch.full((9,), -1)
    assert not moments.token_gram(h, index, shift, y, n_classes=4, backend="triton").any()


def test_runs_repeat_and_arrays_come_back():
    h, index, shift, y = problem(40, 2, 66)
    first, again = (moments.token_gram(h, index, shift, y, n_classes=4, backend="triton") for _ in range(2))
    assert torch.equal(first, again)
    plain = moments.token_gram(h.numpy(), index, shift, y, n_classes=4, backend="triton")
    assert isinstance(plain, np.ndarray)
    assert np.array_equal(plain, first.numpy())
    turned = moments.token_gram(
        h.numpy()[::-1], index.flip(0), shift, y.flip(0), n_classes=4, backend="triton"
    )
    assert np.allclose(turned, plain, rtol=1e-6, atol=1e-5)
    for out in (np.zeros((71, 71), np.float32), np.zeros((71, 142), np.float32)[::-1, ::-2]):
        assert moments.token_gram(h.numpy(), index, shift, y, out, n_classes=4, backend="triton") is out
        assert np.array_equal(out, plain)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 5), st.integers(1, 3), st.integers(1, 4), st.sampled_from(KINDS))
def test_any_small_problem(B, L, D, kind):
    h, index, shift, y = problem(B, L, D, kind)
    found = moments.token_gram(h, index, shift, y, n_classes=4, backend="triton")
    assert off(found, h, index, shift, y, 4) <= TOLERANCE[kind]


def test_out_must_be_where_h_is():
    h, index, shift, _ = problem(2, 2, 3)
    with pytest.raises(ValueError, match="out must be on the device of h, cpu, got meta"):
        moments.token_gram(h, index, shift, None, torch.zeros(4, 4, device="meta"), backend="triton")
