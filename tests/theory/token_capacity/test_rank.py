"""Effective rank of positive semidefinite matrices: definition, spectrum, limits, tensors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.effective_rank import effective_rank as spectral_rank
from porism.theory.token_capacity import effective_rank

KINDS = ("entropy", "rank", "participation")


def gram(seed, n=5, rank=3):
    X = np.random.default_rng(seed).normal(size=(n, rank))
    return X @ X.T


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_against_definition_and_spectrum(plain, seed, n, rank):
    M = gram(seed, n, rank)
    found = float(effective_rank(M))
    # eigenvalues that are zero come out as eps tr, and -p log p of six of them stays below 1e-13
    assert found == pytest.approx(plain.entropy_rank(M), rel=1e-11)
    assert found == pytest.approx(
        float(spectral_rank(np.linalg.eigvalsh(M).clip(min=0), spectrum=True)), rel=1e-11
    )
    assert float(effective_rank(M, kind="participation")) == pytest.approx(
        np.trace(M) ** 2 / (M**2).sum(), rel=1e-11
    )
    assert float(effective_rank(M, kind="rank")) == min(n, rank)
    assert 1 - 1e-12 <= found <= min(n, rank) * (1 + 1e-12)
    # the same non-zero spectrum, from the side of the columns
    X = np.random.default_rng(seed).normal(size=(n, rank))
    assert float(effective_rank(X.T @ X)) == pytest.approx(found, rel=1e-11)


def test_not_monotone():
    spiked = np.eye(4)
    spiked[0, 0] += 100
    assert float(effective_rank(np.eye(4))) == pytest.approx(4, rel=1e-14)
    assert round(float(effective_rank(spiked)), 3) == 1.176


@pytest.mark.parametrize("kind", KINDS)
def test_limits(kind):
    assert effective_rank(np.zeros((3, 3)), kind=kind) == 0
    assert effective_rank(np.zeros((2, 0, 0)), kind=kind).tolist() == [0, 0]
    assert effective_rank(np.zeros((0, 2, 2)), kind=kind).shape == (0,)
    stack = np.stack([gram(1), np.zeros((5, 5)), gram(2)])
    assert effective_rank(stack, kind=kind).tolist() == pytest.approx(
        [float(effective_rank(M, kind=kind)) for M in stack], rel=1e-12
    )
    for scale in (1e-300, 1e-150, 1e150, 1e300):
        assert float(effective_rank(scale * stack[0], kind=kind)) == pytest.approx(
            float(effective_rank(stack[0], kind=kind)), rel=1e-9
        )


def test_rtol():
    M = np.diag([1.0, 1e-3, 1e-6])
    assert [float(effective_rank(M, kind="rank", rtol=r)) for r in (1e-9, 1e-4, 1e-2)] == [3, 2, 1]
    assert float(effective_rank(M, rtol=1e-2)) == 1
    assert float(effective_rank(np.diag([1.0, 1e-15]))) == 1


def test_bad_input():
    with pytest.raises(ValueError, match=r"eigenvalue of -2e-06 times the largest"):
        effective_rank(np.diag([1.0, -2e-6]))
    effective_rank(np.diag([1.0, -5e-7]))
    with pytest.raises(ValueError, match="positive semidefinite"):
        effective_rank(-np.eye(2))
    with pytest.raises(ValueError, match=r"square .* got shape \(2, 3\)"):
        effective_rank(np.ones((2, 3)))
    with pytest.raises(ValueError, match="symmetric"):
        effective_rank([[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(TypeError, match="dtype int64"):
        effective_rank(np.eye(2, dtype=np.int64))
    with pytest.raises(ValueError, match="finite"):
        effective_rank([[np.nan]])
    with pytest.raises(ValueError, match="kind must be one of"):
        effective_rank(np.eye(2), kind="stable")
    with pytest.raises(ValueError, match="rtol must be finite and > 0"):
        effective_rank(np.eye(2), rtol=0)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_tensors(kind, needs):
    torch = needs("torch")
    stack = np.stack([gram(3), np.zeros((5, 5))])
    expected = effective_rank(stack, kind=kind, rtol=1e-2)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-4), ("float16", 1e-2), ("bfloat16", 5e-2)):
        x = torch.tensor(stack, dtype=getattr(torch, dtype))
        found = effective_rank(x, kind=kind, rtol=1e-2)
        assert found.dtype == (torch.float64 if dtype == "float64" else torch.float32)
        np.testing.assert_allclose(found.double(), expected, rtol=tolerance)
    with pytest.raises(TypeError, match="int64"):
        effective_rank(torch.eye(2, dtype=torch.int64), kind=kind)


@pytest.mark.full
def test_gradient(needs):
    torch = needs("torch")
    X = torch.tensor(np.random.default_rng(4).normal(size=(3, 5)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda X: effective_rank(X @ X.T), (X,))
