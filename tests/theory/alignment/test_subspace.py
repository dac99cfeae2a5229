"""Exact principal subspaces: against singular values, far offsets, low rank, half precision."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import NumericalWarning
from porism.results import Result
from porism.theory.alignment import Subspace, principal_angles, principal_subspace

EPS = np.finfo(np.float64).eps


@settings(deadline=None)
@given(
    st.integers(2, 12),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1e3, 1e8]),
    st.booleans(),
)
def test_against_svd(n, d, seed, offset, center):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * np.logspace(0, -3, d) + offset
    rows = x - x.mean(0) if center else x
    s = np.linalg.svd(rows, compute_uv=False)
    rank = min(n - 1 if center else n, d)
    r = int(rng.integers(1, rank + 1))
    if not center and offset:
        r = 1  # the others lie below the rounding of the offset
    found = principal_subspace(x, r, center=center)
    assert found.n_random == 0
    assert found.rank >= r
    np.testing.assert_allclose(found.basis @ found.basis.T, np.eye(r), atol=50 * EPS)
    # rounding of the rows, at the size of the offset, and of the Gram matrix
    error = 100 * EPS * (offset * s[0] + s[0] ** 2)
    np.testing.assert_allclose(found.eigenvalues, s[:r] ** 2 / (n - 1), atol=error, rtol=0)
    # the same energy, also where the spectrum hardly has a gap
    energy = np.linalg.norm(rows @ found.basis.T) ** 2
    assert energy == pytest.approx(np.sum(s[:r] ** 2), abs=r * error, rel=1e-12)
    peaks = found.basis[np.arange(r), np.abs(found.basis).argmax(1)]
    assert (peaks > 0).all()


def test_single_direction_exactly():
    x = np.outer([1.0, -1.0, 3.0, 5.0], [0.6, 0.0, -0.8]) + 1e6
    found = principal_subspace(x, 1)
    np.testing.assert_allclose(found.basis, [[-0.6, 0.0, 0.8]], atol=1e-9)  # rows are rounded to 1e6 eps
    assert found.rank >= 1


def test_offset_costs_no_digits_in_float32():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((50, 6)).round(2).astype(np.float32)  # still exact at an offset of 1024
    noise = np.round(noise * 64) / 64
    near, far = (principal_subspace((noise + shift).astype(np.float32), 3) for shift in (0, 1024))
    assert principal_angles(near.basis.T, far.basis.T).max() < 1e-13
    np.testing.assert_allclose(near.eigenvalues, far.eigenvalues, rtol=1e-13)


@pytest.mark.parametrize(("n", "d"), [(6, 20), (20, 6)])
def test_both_routes_at_extreme_scales(n, d):
    x = np.random.default_rng(1).standard_normal((n, d))
    plain = principal_subspace(x, 3)
    for scale in (1e-150, 1e150):
        found = principal_subspace(x * scale, 3)
        assert principal_angles(plain.basis.T, found.basis.T).max() < 1e-12
        assert found.rank == plain.rank


def test_wide_spectrum_stays_orthonormal():
    rng = np.random.default_rng(2)
    q = np.linalg.qr(rng.standard_normal((30, 8)))[0]
    x = rng.standard_normal((10, 8)) * np.logspace(0, -4, 8) @ q.T
    found = principal_subspace(x, 8)
    np.testing.assert_allclose(found.basis @ found.basis.T, np.eye(8), atol=20 * EPS)


@pytest.mark.parametrize(("n", "d", "r", "rank"), [(4, 10, 6, 3), (9, 5, 4, 2)])
def test_missing_rank_is_completed(n, d, r, rank):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
    with pytest.warns(NumericalWarning, match="numerical rank") as caught:
        found = principal_subspace(x, r, random_state=0)
    assert len(caught) == 1
    assert (found.rank, found.n_random) == (rank, r - rank)
    np.testing.assert_allclose(found.basis @ found.basis.T, np.eye(r), atol=20 * EPS)
    rows = x - x.mean(0)
    np.testing.assert_allclose(rows @ found.basis.T @ found.basis, rows, atol=1e-12)
    assert (found.eigenvalues[rank:] == 0).all()
    with pytest.warns(NumericalWarning):
        again = principal_subspace(x, r, random_state=0)
    np.testing.assert_array_equal(found.basis, again.basis)
    with pytest.raises(ValueError, match="lower r"):
        principal_subspace(x, r, on_degenerate="raise")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_last_digit_is_no_variance(dtype):
    row = np.random.default_rng(4).standard_normal(12).astype(dtype)
    jitter = np.where(np.arange(12) % 2, np.nextafter(row, dtype(9)), row)
    with pytest.warns(NumericalWarning, match="no variance"):
        found = principal_subspace(np.stack([row, jitter, row]), 2, random_state=0)
    assert (found.rank, found.n_random) == (0, 2)
    moved = np.stack([row, row * dtype(1.05), row])
    assert principal_subspace(moved, 1).n_random == 0
    # the same digits in float64 vary, unless one says where they come from
    if dtype != np.float64:
        stack = np.stack([row, jitter, row]).astype(np.float64)
        assert principal_subspace(stack, 1).n_random == 0
        with pytest.warns(NumericalWarning):
            principal_subspace(stack, 1, input_eps=float(np.finfo(dtype).eps))


def test_torch_rows(needs):
    torch = needs("torch")
    x = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    for kind in (torch.bfloat16, torch.float16, torch.float32):
        rows = x.to(kind).requires_grad_()
        found = principal_subspace(rows, 3)
        same = principal_subspace(rows.detach().double().numpy(), 3)
        np.testing.assert_array_equal(found.basis, same.basis)
    flat = torch.ones(3, 4, dtype=torch.bfloat16)
    flat[1] += 2.0**-7
    with pytest.warns(NumericalWarning, match="no variance"):
        principal_subspace(flat, 1)


def test_angles_take_columns():
    u, v = np.eye(3)[:, :1], np.array([[np.cos(1e-9)], [np.sin(1e-9)], [0]])
    assert principal_angles(u, v) == pytest.approx([1e-9], rel=1e-12)


def test_saved(tmp_path):
    found = principal_subspace(np.random.default_rng(5).standard_normal((5, 4)), 2)
    found.save(tmp_path / "s.npz")
    back = Result.load(tmp_path / "s.npz")
    assert isinstance(back, Subspace)
    np.testing.assert_array_equal(back.basis, found.basis)


@pytest.mark.parametrize(
    ("x", "r", "kind", "text"),
    [
        (np.zeros((3, 8)), 9, ValueError, "rank r=9 must be in 1..d=8"),
        (np.zeros((3, 8)), 0, ValueError, "rank r=0 must be in 1..d=8"),
        (np.zeros((3, 8)), 2.0, TypeError, "rank r=2.0"),
        (np.zeros((3, 8)), True, TypeError, "rank r=True"),
        (np.zeros((1, 8)), 1, ValueError, "need at least 2 samples, got 1"),
        (np.zeros(8), 1, ValueError, "axes"),
        (np.zeros((3, 0)), 1, ValueError, "at least one feature"),
        ([[1, 2], [3]], 1, ValueError, "rectangular"),
        ([["a"], ["b"]], 1, TypeError, "real numbers"),
        (np.array([[0, 1], [np.nan, np.inf], [2, -np.inf]]), 1, ValueError,
         "features of 'x' contain 3 non-finite values (first at row 1); rho is undefined"),
    ],
)  # fmt: skip
def test_bad_input(x, r, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        principal_subspace(x, r)
