"""Triton's interpreter against float64 of the same inputs; test_triton.py runs this in its own process."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels.position_gram import position_gram

KINDS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float64: 1e-12} | dict.fromkeys(KINDS[1:], 1e-5)
SIZES = [(1, 1, 1, 1), (15, 2, 15, 3), (17, 3, 1, 17), (31, 1, 32, 33), (33, 5, 50, 64), (65, 2, 7, 5)]
pytestmark = pytest.mark.usefixtures("poison")


def problem(N, T, d_i, d_o, kind=torch.float32):
    draws = torch.Generator().manual_seed(N + 100 * T + 10_000 * d_i)
    return (torch.randn(N, T, d, generator=draws).to(kind) for d in (d_i, d_o))


def off(found, x, g, per_position=False):
    """Largest error relative to the largest entry; symmetric to the bit."""
    x, g = x.double(), g.double()
    exact = torch.einsum("ntd,mtd->tnm", x, x) * torch.einsum("ntd,mtd->tnm", g, g)
    exact = exact if per_position else exact.sum(0)
    assert found.shape == exact.shape
    assert torch.equal(found, found.mT)
    return float((found.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_as_float64(size, per_position, kind):
    x, g = problem(*size, kind)
    found = position_gram(x, g, per_position=per_position, backend="triton")
    assert found.dtype == (torch.float64 if kind == torch.float64 else torch.float32)
    assert off(found, x, g, per_position) <= TOLERANCE[kind]


def test_a_case_by_hand():
    x = torch.tensor([[[1.0, 0], [0, 2]], [[1, 1], [1, -1]]])
    g = torch.tensor([[[1.0], [1]], [[2], [-1]]])
    each = position_gram(x, g, per_position=True, backend="triton")
    assert each.tolist() == [[[1, 2], [2, 8]], [[4, 2], [2, 2]]]
    assert position_gram(x, g, backend="triton").tolist() == [[5, 4], [4, 10]]


def test_compensation_carries_long_sums():
    """Without it 300 equal terms drift by some 3e-6 in float32."""
    x = torch.full((2, 300, 1), 0.1)
    g = torch.full((2, 300, 1), 0.7)
    assert off(position_gram(x, g, backend="triton"), x, g) <= 3e-7


TURNS = [
    lambda x: x.mT.contiguous().mT,
    lambda x: torch.stack([x, x * 0], 1)[:, 0],
    lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    lambda x: x[:1].expand(33, -1, -1),
    lambda x: x.clone().requires_grad_(),
]


@pytest.mark.parametrize("turn", TURNS)
def test_views(turn):
    x, g = map(turn, problem(33, 4, 6, 7))
    assert off(position_gram(x, g, backend="triton"), x.detach(), g.detach()) <= 1e-5


def test_arrays_and_mixed_precision():
    x, g = problem(9, 4, 6, 7)
    found = position_gram(x.numpy(), g.numpy(), backend="triton")
    assert isinstance(found, np.ndarray)
    assert off(torch.from_numpy(found), x, g) <= 1e-5
    found = position_gram(x.half(), g.double(), backend="triton")
    assert found.dtype == torch.float64
    assert off(found, x.half(), g) <= 1e-12


def test_empty_axes():
    for N, T, d in ((0, 2, 3), (3, 0, 3), (0, 0, 1), (3, 2, 0)):
        total = position_gram(torch.ones(N, T, d), torch.ones(N, T, 2), backend="triton")
        assert total.shape == (N, N)
        assert not total.any()
        each = position_gram(torch.ones(N, T, d), torch.ones(N, T, 2), backend="triton", per_position=True)
        assert each.shape == (T, N, N)


def test_nan_stays_with_its_example():
    x, g = problem(40, 3, 5, 6)
    x[3, 2, 1] = float("nan")
    bad = position_gram(x, g, backend="triton").isnan()
    assert bad[3].all()
    assert bad[:, 3].all()
    assert bad.sum() == 79


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_whole_numbers_are_exact(N, T, d_i, d_o, seed):
    draws = torch.Generator().manual_seed(seed)
    x, g = (torch.randint(-4, 5, (N, T, d), generator=draws).float() for d in (d_i, d_o))
    for per_position in (False, True):
        found = position_gram(x, g, per_position=per_position, backend="triton")
        assert torch.equal(found, position_gram(x, g, per_position=per_position, backend="reference"))
