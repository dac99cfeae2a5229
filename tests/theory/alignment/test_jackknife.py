"""Leaving one row out by a rank-one update is leaving it out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.alignment import _crossfit, _jackknife, _pca


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 12), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 3.0]), st.booleans())
def test_downdated_subspace(plain, n, seed, decay, aligned):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n + 2, n)) * 10 ** -(decay * np.arange(n) / n)
    if aligned:  # some rows have no component along some directions
        z[:, 0] = np.where(np.arange(n + 2) < 2, z[:, 0], 0)
    z = z - z.mean(0)
    vectors, values, rank = _pca.top(z, n)
    r = int(rng.integers(1, n))
    if rank <= r:
        return
    size = len(z)
    rows = (z @ vectors.T) * np.sqrt(size / (size - 1))
    found = _jackknife.downdated(values, rows, r)
    for i in range(size):
        np.testing.assert_allclose(found[i].T @ found[i], np.eye(r), atol=1e-13)
        left = np.delete(z, i, 0)
        w = np.linalg.svd(left - left.mean(0), compute_uv=False) ** 2
        w = np.concatenate([w, np.zeros(n)])[: n + 1]
        gap = w[r - 1] - w[r]
        turned = vectors.T @ found[i]
        energy = np.linalg.norm((left - left.mean(0)) @ turned) ** 2
        assert energy == pytest.approx(w[:r].sum(), rel=1e-12)
        if gap > 1e-6 * w[0]:
            P = plain.projector(left, r)
            # an error of eps times the largest eigenvalue over the gap
            np.testing.assert_allclose(turned @ turned.T, P, atol=1e-13 * w[0] / gap + 1e-13)


def test_equal_eigenvalues_and_zero_components():
    values = np.array([4.0, 4, 4, 1, 1, 1])
    rows = np.array(
        [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0.5, 0.5, 0, 0.5, 0, 0.5], [0, 0, 0, 1, 0, 0.0]]
    )
    found = _jackknife.downdated(values, rows, 3)
    for row, vectors in zip(rows, found, strict=True):
        left = np.diag(values) - np.outer(row, row)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-13)
        assert np.trace(vectors.T @ left @ vectors) == pytest.approx(np.linalg.eigvalsh(left)[-3:].sum())


@pytest.mark.parametrize(("n", "d", "r"), [(18, 30, 3), (24, 6, 2), (26, 40, 4)])
@pytest.mark.parametrize("kind", ["share", "gradient"])
def test_against_naive_deletion(plain, n, d, r, kind):
    rng = np.random.default_rng(n)
    y = (np.arange(n) % 5 > 1).astype(int) + (np.arange(n) % 5 == 4)
    x = rng.standard_normal((n, d)) + 5
    x[:, 0] += 2 * y
    data = _crossfit.sample(x, y)
    folds = _crossfit.folds(y, data.counts, 2, rng)
    found = _jackknife.captured_without(data, folds, list(range(len(folds))), r, kind)
    for i in range(0, n, 3):
        value, _ = plain.captured(x, y, r, folds, kind, np.arange(n) != i)
        assert found[i] == pytest.approx(value, rel=1e-9)


def test_random_directions_stay_fixed():
    """Where training rows span fewer than r dimensions, a seed decides what completes them."""
    rng = np.random.default_rng(3)
    y = np.arange(12) % 2
    x = rng.standard_normal((12, 40))
    x[:, 0] += 3 * y
    data = _crossfit.sample(x, y)
    folds = _crossfit.folds(y, data.counts, 1, rng)
    seeds = list(range(len(folds)))
    found = _jackknife.captured_without(data, folds, seeds, 10, "share")
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, _jackknife.captured_without(data, folds, seeds, 10, "share"))


def test_completion_is_a_projection():
    """Images on completed directions have the norms that the full-space construction gives."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((6, 30))
    data = _crossfit.sample(x, np.arange(6) % 2)
    vectors, _, rank = _pca.top(_pca.centred(data.z[:4]), 5)
    assert rank == 3
    image = _crossfit.completed(data, vectors, 5, 7)
    rows = x - x.mean(0)
    v = np.linalg.svd(x[:4] - x[:4].mean(0))[2][:3]
    more = np.random.default_rng(7).standard_normal((2, 30))
    more -= more @ v.T @ v
    q = np.linalg.qr(more.T)[0]
    P = v.T @ v + q @ q.T
    np.testing.assert_allclose(image @ image.T, rows @ P @ rows.T, atol=1e-12)
