"""Every row of the contract's table of bad input that concerns polar factors."""

import subprocess
import sys

import numpy as np
import pytest

from porism.kernels import polar
from porism.kernels.polar import polar_factor, polar_factors

full = pytest.mark.full


def test_import_is_light():
    code = "import sys, porism.kernels.polar as p; p.polar_factor([[1.0]]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("shape", [(), (3,)])
def test_no_matrix(shape):
    with pytest.raises(ValueError, match=r"^polar_factor needs a matrix \(\.\.\., m, n\); got shape \("):
        polar_factor(np.ones(shape))


@full
def test_no_matrix_of_tensors(torch):
    with pytest.raises(ValueError, match=r"^polar_factor needs a matrix \(\.\.\., m, n\); got shape \(3,\)"):
        polar_factor(torch.ones(3))


@pytest.mark.parametrize("dtype", [int, bool, complex, object, "U1"])
def test_dtype_of_arrays(dtype):
    with pytest.raises(TypeError, match=r"^polar_factor needs a real floating dtype; got "):
        polar_factor(np.ones((2, 2)).astype(dtype))


@full
@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "complex64", "float8_e4m3fn"])
def test_dtype_of_tensors(dtype, torch):
    with pytest.raises(TypeError, match=rf"^polar_factor needs a real floating dtype; got torch.{dtype}"):
        polar_factor(torch.ones(2, 2).to(getattr(torch, dtype)))
    with pytest.raises(TypeError, match="real floating dtype"):
        polar_factors([torch.ones(2, 2).to(getattr(torch, dtype))])
    with pytest.raises(TypeError, match="dense tensor"):
        polar_factor(torch.eye(3).to_sparse())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nonfinite_arrays(value):
    G = np.ones((2, 3, 4, 5))
    G[0, 1, 3, 2] = G[1, 2, 0, 0] = value
    with pytest.raises(
        ValueError, match=r"^non-finite entries in G \(batch indices \[\(0, 1\), \(1, 2\)\]\)"
    ):
        polar_factor(G)
    with pytest.raises(ValueError, match=r"^non-finite entries in G; drop"):
        polar_factor(G[0, 1])
    found = polar_factor(G, check_finite=False)
    assert np.isnan(found).all((2, 3)).tolist() == [[False, True, False], [False, False, True]]
    assert np.isfinite(found).all((2, 3)).sum() == 4


@full
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", ["auto", "gram", "svd", "polynomial"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("size", [(4, 6), (130, 140)])
def test_nonfinite_tensors(value, method, dtype, size, torch):
    G = torch.randn(3, *size, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    clean = polar_factor(G, method=method)
    G[1, 3, 2] = value
    with pytest.raises(ValueError, match=r"^non-finite entries in G \(batch indices \[1\]\)"):
        polar_factor(G, method=method)
    with pytest.raises(ValueError, match=r"^non-finite entries in G \(batch indices \[1\]\)"):
        polar_factors(list(G), method=method)
    for found in (
        polar_factor(G, method=method, check_finite=False),
        torch.stack(polar_factors(list(G), method=method, check_finite=False)),
    ):
        assert found[1].isnan().all()
        assert torch.allclose(found[0].double(), clean[0].double(), atol=1e-2)
        assert torch.allclose(found[2].double(), clean[2].double(), atol=1e-2)


def test_many_nonfinite_members_are_not_all_listed():
    with pytest.raises(ValueError, match=r"\[0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\]"):
        polar_factor(np.full((20, 2, 2), np.nan))


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (0, 3, 4), (0, 4), (3, 0), (2, 0, 0)])
def test_zero_and_empty_arrays(shape):
    found, rank = polar_factor(np.zeros(shape), return_rank=True)
    assert found.shape == shape
    assert (found == 0).all()
    assert (rank == 0).all()
    assert rank.shape == shape[:-2]


@full
@pytest.mark.parametrize("method", ["auto", "gram", "svd", "polynomial"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (0, 3, 4), (0, 4), (3, 0), (2, 0, 0)])
def test_zero_and_empty_tensors(shape, method, torch):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        found = polar_factor(torch.zeros(shape, dtype=dtype), method=method)
        assert found.shape == shape
        assert found.dtype == dtype
        assert (found == 0).all()
        if method != "polynomial":
            rank = polar_factor(torch.zeros(shape, dtype=dtype), method=method, return_rank=True)[1]
            assert rank.shape == shape[:-2]
            assert (rank == 0).all()
            smooth = polar_factor(torch.zeros(shape, dtype=dtype), method=method, smoothing=0.1)
            assert (smooth == 0).all()


@full
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("method", ["auto", "gram", "svd", "polynomial"])
def test_half_precision(dtype, method, torch):
    kind = getattr(torch, dtype)
    G = torch.randn(5, 6, 80, generator=torch.Generator().manual_seed(0)).to(kind)
    kept = G.clone()
    expected = polar_factor(G.float().double())
    for X, E in ((G, expected), (G.mT, expected.mT)):
        found = polar_factor(X, method=method)
        assert found.dtype == kind
        # the result is rounded to its dtype: eps / 2 an entry, at most 1
        assert (found.double() - E).abs().max() <= torch.finfo(kind).eps / 2
    assert torch.equal(G, kept)
    polar_factors(list(G), method=method)
    assert torch.equal(G, kept)
    assert G.dtype == kind


@full
@pytest.mark.parametrize("method", ["auto", "gram", "svd", "polynomial"])
def test_squares_out_of_range(method, torch):
    G = torch.randn(4, 40, generator=torch.Generator().manual_seed(0))
    expected = polar_factor(G)
    big = (G / G.abs().max() * 6e4).half()  # its norm is no float16
    assert torch.allclose(polar_factor(big, method=method).float(), expected, atol=2e-3)
    small = (G * 2.0**-17).half()  # subnormal entries
    assert torch.allclose(polar_factor(small, method=method).float(), expected, atol=3e-2)
    for scale in (1e-36, 1e-30, 1e-20, 1e20, 1e30, 1e37):
        assert torch.allclose(polar_factor(G * scale, method=method), expected, atol=1e-5)
    for scale in (1e-300, 1e-160, 1e160, 1e300):
        assert torch.allclose(polar_factor(G.double() * scale, method=method).float(), expected, atol=1e-5)


@full
@pytest.mark.parametrize("method", ["auto", "gram", "svd", "polynomial"])
def test_out(method, torch):
    G = torch.randn(3, 4, 9, generator=torch.Generator().manual_seed(0))
    expected = polar_factor(G, method=method)
    out = torch.full_like(G, torch.nan)
    assert polar_factor(G, method=method, out=out) is out
    assert torch.equal(out, expected)
    strided = torch.full((3, 9, 8), torch.nan)[..., ::2].mT
    assert torch.equal(polar_factor(G, method=method, out=strided), expected)
    half = G.bfloat16()
    assert torch.equal(polar_factor(half, method=method, out=half), polar_factor(G.bfloat16(), method=method))
    itself = G.clone()
    assert polar_factor(itself, method=method, out=itself) is itself
    assert torch.equal(itself, expected)
    with pytest.raises(ValueError, match=r"out must have shape \(3, 4, 9\)"):
        polar_factor(G, out=torch.empty(3, 4, 8))
    with pytest.raises(ValueError, match="out must have shape"):
        polar_factor(G, out=torch.empty(3, 4, 9, dtype=torch.float64))


def test_out_of_arrays():
    G = np.random.default_rng(0).normal(size=(2, 3, 4))
    out = np.empty_like(G)
    assert polar_factor(G, out=out) is out
    assert out == pytest.approx(polar_factor(G))
    for bad in (np.empty((2, 3)), np.empty((2, 3, 4), np.float32), [[0.0]]):
        with pytest.raises(ValueError, match="out must be an array of shape"):
            polar_factor(G, out=bad)


@full
def test_out_of_lists(torch):
    matrices = [torch.randn(3, 4), torch.randn(5, 2)]
    with pytest.raises(ValueError, match="out must hold 2 tensors, got 1"):
        polar_factors(matrices, out=[torch.empty(3, 4)])
    with pytest.raises(ValueError, match="out must hold tensors of the shapes"):
        polar_factors(matrices, out=[torch.empty(3, 4), torch.empty(2, 5)])
    with pytest.raises(ValueError, match="memory of their own"):
        polar_factors(matrices, out=[matrices[0], torch.empty(5, 2)])
    with pytest.raises(ValueError, match=r"2-D tensors, got shape \(1, 3, 4\)"):
        polar_factors([matrices[0][None]])
    kept = [torch.full((3, 4), 7.0)]
    with pytest.raises(ValueError, match="non-finite"):
        polar_factors([torch.full((3, 4), torch.nan)], out=kept)
    assert (kept[0] == 7.0).all()  # nothing is written before everything is known to be finite


@full
def test_gradients(torch):
    G = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    expected = polar_factor(G)
    G.requires_grad_()
    with pytest.raises(RuntimeError, match=r"^polar_factor has no gradient; detach G"):
        polar_factor(G)
    with pytest.raises(RuntimeError, match=r"^polar_factor has no gradient; detach G"):
        polar_factors([G])
    with torch.no_grad():
        found = polar_factor(G)
        assert torch.equal(polar_factors([G])[0], found)
    assert torch.equal(found, expected)
    assert not found.requires_grad
    with torch.inference_mode():
        assert torch.equal(polar_factor(G.detach()), expected)


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf])
def test_smoothing(value):
    for function in (polar_factor, lambda G, **kw: polar_factors([G], **kw)):
        with pytest.raises(ValueError, match=r"^smoothing must be a finite number >= 0"):
            function(np.eye(2), smoothing=value)


def test_options():
    with pytest.raises(TypeError, match="smoothing must be a real number"):
        polar_factor(np.eye(2), smoothing="0.1")
    with pytest.raises(TypeError, match="rtol must be a real number"):
        polar_factor(np.eye(2), rtol="1e-3")
    for value in (-1e-3, 1.0, np.nan):
        with pytest.raises(ValueError, match=r"rtol must be in \[0, 1\)"):
            polar_factor(np.eye(2), rtol=value)
    with pytest.raises(ValueError, match="method must be one of 'auto', 'gram', 'svd', 'polynomial'"):
        polar_factor(np.eye(2), method="qr")
    with pytest.raises(ValueError, match="backend must be one of"):
        polar_factor(np.eye(2), backend="mkl")
    with pytest.raises(TypeError, match="backend='cpu' takes tensors"):
        polar_factor(np.eye(2), backend="cpu")
    for extra in ({"smoothing": 0.1}, {"return_rank": True}):
        with pytest.raises(ValueError, match="method='polynomial' has no smoothing"):
            polar_factor(np.eye(2), method="polynomial", **extra)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = polar.nothing


@full
def test_optimizer_is_there_with_torch(torch):
    assert set(polar.__all__) == {"SpectralMuon", "newton_schulz", "polar_factor", "polar_factors"}
    assert issubclass(polar.SpectralMuon, torch.optim.Optimizer)
