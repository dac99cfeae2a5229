"""Rho of samples that have several rows."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from porism.theory.alignment import (
    _pca,
    alignment_coefficient,
    grouped,
    grouped_coefficient,
    is_constant,
    principal_subspace,
    sample_means,
)


def made(n=32, tokens=1, d=12, seed=0, shift=3.0, within=0.0):
    """Classes apart along the first axis; within a sample tokens move along axes 5 and 6 by `within`."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    means = rng.normal(size=(n, d))
    means[:, 0] += shift * (2 * y - 1)
    x = np.repeat(means, tokens, axis=0)
    noise = within * rng.normal(size=(n, tokens, 2))
    x[:, 5:7] += (noise - noise.mean(axis=1, keepdims=True)).reshape(-1, 2)
    return x, np.repeat(y, tokens), np.repeat(np.arange(n), tokens)


def test_one_row_a_sample_is_the_plain_coefficient():
    x, y, groups = made()
    expected = dataclasses.asdict(alignment_coefficient(x, y, 2, random_state=5))
    for given in (None, groups[::-1]):
        found = grouped_coefficient(x, y, given, 2, random_state=5)
        assert dataclasses.asdict(found) == pytest.approx(expected, nan_ok=True)


def test_equal_rows_of_a_sample_count_once():
    """Repeating each row changes neither the subspace nor the signal: same folds, same numbers."""
    one, many = (grouped_coefficient(*made(tokens=k), 3, random_state=5) for k in (1, 4))
    for name in ("rho", "captured", "captured_unclipped", "signal_z", "predicted_gain", "n", "d"):
        assert getattr(one, name) == pytest.approx(getattr(many, name), abs=1e-9)


def test_subspaces_come_from_the_rows_and_signal_from_the_samples():
    """Tokens move far along two axes without signal: those take the subspace, as they would in an adapter."""
    x, y, groups = made(tokens=6, within=40.0)
    found = grouped_coefficient(x, y, groups, 2, random_state=1)
    assert np.abs(principal_subspace(x, 2).basis[:, 0]).max() < 0.1
    assert found.captured < 0.05
    assert found.signal_detected
    assert found.n == 32
    means, first, _ = sample_means(x, groups)
    assert alignment_coefficient(means, y[first], 2, random_state=1).captured > 0.9


def test_samples_are_never_split(monkeypatch):
    """Each subspace comes from all rows of the training samples; each sample is held out once a partition."""
    (x, y, groups), used = made(n=24, tokens=3, within=1.0), []

    def centred(rows):
        used.append([int(np.flatnonzero((x == row).all(axis=1))[0]) for row in rows])
        return _pca.centred(rows)

    monkeypatch.setattr(grouped, "_pca", SimpleNamespace(centred=centred, top=_pca.top))
    grouped_coefficient(x, y, groups, 2, repeats=3)
    assert len(used) == 18  # 12 samples a class, 2 of them a fold: 6 folds, 3 partitions
    held = np.zeros(24)
    for rows in used:
        counts = np.bincount(np.array(rows) // 3, minlength=24)
        assert set(counts) == {0, 3}
        assert [(counts[c::2] == 0).sum() for c in (0, 1)] == [2, 2]
        held += counts == 0
    assert held.tolist() == [3] * 24


def test_too_few_rows_are_completed():
    x = np.outer(np.arange(16.0) % 2 + 0.01 * np.arange(16), np.eye(6)[0])
    groups = np.repeat(np.arange(16), 2)
    found = grouped_coefficient(np.repeat(x, 2, axis=0), groups % 2, groups, 3)
    assert found.n_random == 2
    assert found.captured == pytest.approx(1.0)


def test_means_of_large_offsets_keep_their_digits():
    x = 1e12 + np.arange(6.0).reshape(6, 1)
    means, first, owner = sample_means(x, [5, 5, 2, 2, 2, 9])
    np.testing.assert_array_equal(means.ravel() - 1e12, [3, 0.5, 5])
    assert first.tolist() == [2, 0, 5]
    assert owner.tolist() == [1, 1, 0, 0, 0, 2]
    with pytest.raises(ValueError, match=r"groups must have shape \(6,\), got \(5,\)"):
        sample_means(x, range(5))


def test_constant_up_to_the_type_of_the_model():
    rows = np.array([[0.1], [0.1 + 1e-9]])
    assert is_constant(rows, 2.0**-23)
    assert not is_constant(rows)
    assert is_constant(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="non-finite"):
        is_constant([[np.nan]])
