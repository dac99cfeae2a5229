"""Stable rank, effective rank, participation ratio: oracle numbers, formulas, scale, batches, tensors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from porism.theory.effective_rank import effective_rank, participation_ratio, stable_rank

ALL = (stable_rank, effective_rank, participation_ratio)


def plain(s):
    """The definitions, in the order of ALL, for one spectrum that is not zero."""
    p = s[s > 0] / s.sum()
    return (s @ s) / s.max() ** 2, np.exp(-(p * np.log(p)).sum()), (s @ s) ** 2 / (s**4).sum()


def test_known_numbers():
    s = [4.0, 2.0, 1.0, 1.0]
    found = [float(f(s, spectrum=True)) for f in ALL]
    assert found == pytest.approx([1.375, 3.363585661, 1.766423358], abs=5e-10)
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 4)))[0] * s
    assert [float(f(turned)) for f in ALL] == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("f", ALL)
def test_flat_and_zero(f):
    assert f(np.eye(5)) == pytest.approx(5, rel=1e-14)
    assert f(np.zeros((4, 3))) == 0
    assert f([3.0], spectrum=True) == 1
    assert f([0.0, 0.0], spectrum=True) == 0
    assert f(np.zeros((2, 0, 3))).tolist() == [0, 0]
    assert f(np.zeros((2, 0)), spectrum=True).tolist() == [0, 0]
    assert f(np.zeros((0, 3, 3))).shape == (0,)


@given(arrays(np.float64, st.integers(1, 6), elements=st.floats(1e-3, 1e3)), st.integers(-300, 300))
def test_against_the_definitions(s, exponent):
    # six terms of relative error a few eps, entropies up to log 6 in an exponent: below 1e-14; 1e-12 is slack
    expected = plain(s)
    for f, number in zip(ALL, expected, strict=True):
        assert f(s, spectrum=True) == pytest.approx(number, rel=1e-12)
        assert f(np.ldexp(s, exponent), spectrum=True) == pytest.approx(number, rel=1e-12)
        assert 1 - 1e-12 <= number <= len(s) * (1 + 1e-12)
    assert expected[0] <= min(expected[1:]) * (1 + 1e-12)


@pytest.mark.parametrize("f", ALL)
@pytest.mark.parametrize("scale", [1e-310, 1e-160, 1e160, 1e305])
def test_scale_of_matrices(f, scale):
    A = np.random.default_rng(1).normal(size=(3, 5))
    # 1e-310 is subnormal: 14 bits less than usual are stored
    assert f(A * scale) == pytest.approx(f(A), rel=1e-12 if scale > 1e-300 else 1e-10)


@pytest.mark.parametrize("f", ALL)
def test_singular_values_beyond_the_largest_float(f):
    assert f(np.full((30, 40), 1e308)) == pytest.approx(1, rel=1e-9)
    assert f(5e307 * (np.eye(4) + 1)) == pytest.approx(f(np.eye(4) + 1), rel=1e-12)


@pytest.mark.parametrize("f", ALL)
def test_batches_and_integers(f):
    A = np.random.default_rng(2).integers(-3, 4, (2, 3, 4, 5))
    A[1, 2] = 0
    found = f(A)
    assert found.shape == (2, 3)
    for index in np.ndindex(2, 3):
        assert found[index] == pytest.approx(f(A[index]), rel=1e-12)
    s = np.linalg.svd(A.astype(float), compute_uv=False)
    np.testing.assert_allclose(f(s, spectrum=True), found, rtol=1e-12)
    np.testing.assert_allclose(f(s[..., ::-1], spectrum=True), found, rtol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("f", ALL)
def test_tensors(f, needs):
    torch = needs("torch")
    A = np.random.default_rng(3).normal(size=(2, 4, 3))
    A[1] = 0
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5), ("bfloat16", 2e-2), ("float16", 2e-3)):
        x = torch.tensor(A, dtype=getattr(torch, dtype))
        found = f(x)
        assert (found.dtype, tuple(found.shape)) == (x.dtype, (2,))
        np.testing.assert_allclose(found.double(), f(x.double().numpy()), rtol=tolerance)
    # squares of these overflow or vanish in float32
    for scale in (1e-30, 1e30):
        np.testing.assert_allclose(f(torch.tensor(A * scale).float()), f(A), rtol=1e-5)
    for kind in (torch.int64, torch.bool):
        found = f(torch.eye(2).to(kind))
        assert (found.dtype, float(found)) == (torch.float64, pytest.approx(2))
    assert f(torch.zeros(3, 0, 2)).tolist() == [0, 0, 0]
    assert f(torch.zeros(3, 0), spectrum=True).tolist() == [0, 0, 0]


@pytest.mark.full
@pytest.mark.parametrize("f", ALL)
def test_gradient(f, needs):
    torch = needs("torch")
    x = torch.tensor(np.random.default_rng(4).normal(size=(3, 4)), requires_grad=True)
    assert torch.autograd.gradcheck(f, (x,))
    s = torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64, requires_grad=True)
    f(s, spectrum=True).backward()
    assert torch.isfinite(s.grad).all()


@pytest.mark.parametrize("f", ALL)
def test_bad_input(f):
    with pytest.raises(ValueError, match=r"x must be a matrix \(\.\.\., m, n\), got shape \(3,\); pass"):
        f([1, 2, 3])
    with pytest.raises(ValueError, match="x must be a spectrum"):
        f(1.0, spectrum=True)
    with pytest.raises(ValueError, match=r"singular values >= 0, got -1\.0"):
        f([1, -1], spectrum=True)
    with pytest.raises(ValueError, match="x must be finite"):
        f([[1, np.nan]])
    with pytest.raises(TypeError, match="x must hold real numbers"):
        f([[1j]])


@pytest.mark.full
def test_bad_tensors(needs):
    torch = needs("torch")
    with pytest.raises(TypeError, match="x must hold real numbers"):
        stable_rank(torch.eye(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="x must be finite"):
        stable_rank(torch.tensor([[float("inf")]]))
    with pytest.raises(ValueError, match=r"got shape \(2,\)"):
        stable_rank(torch.ones(2))
