"""What a fit says, saves, draws and compares."""

import math

import numpy as np
import pytest

from porism.results import Result
from porism.theory.pattern import PatternFit, masks, pattern_distance

BLOCKS = masks.block_diagonal([2, 3], [3, 4])


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    return (BLOCKS.S + 0.2 * rng.normal(size=(5, 7)))[rng.permutation(5)][:, rng.permutation(7)]


@pytest.fixture(scope="module")
def fit(matrix):
    return pattern_distance(matrix, BLOCKS, random_state=0)


def test_numbers_fit_together(fit, matrix):
    B = matrix**2
    assert fit.mass_outside == pytest.approx((BLOCKS.penalty * fit.reorder(B)).sum() / B.sum(), abs=1e-14)
    assert fit.mass_outside == pytest.approx(((1 - fit.source_mask()) * B).sum() / B.sum(), abs=1e-14)
    assert fit.distance == math.sqrt(fit.mass_outside)
    assert fit.gap == fit.mass_outside - fit.lower_bound
    assert set(fit.bounds) == {"R", "T", "P"}
    assert fit.lower_bound == pytest.approx(max(fit.bounds.values()), abs=1e-14)
    assert fit.certified is (fit.gap <= 1e-9)
    assert (fit.order, fit.mass, fit.seed, fit.status) == ("independent", "squared", 0, "ok")


def test_no_order(matrix):
    fit = pattern_distance(matrix, BLOCKS, order="none", bounds=("R",))
    assert fit.row_order.tolist() == list(range(5))
    assert (fit.exact, fit.certified, fit.lower_bound) == (True, True, fit.mass_outside)


def test_labels_are_those_of_the_blocks(fit):
    rows, columns = fit.labels()
    assert np.bincount(rows).tolist() == [2, 3]
    assert np.bincount(columns).tolist() == [3, 4]
    assert np.array_equal(rows[:, None] == columns, fit.source_mask() == 1)
    square = pattern_distance(np.eye(4) + 1, masks.block_diagonal([1, 3]), order="none")
    assert [label.tolist() for label in square.labels()] == [[0, 1, 1, 1]] * 2


def test_equivalence_is_by_source_mask(fit, matrix):
    from dataclasses import replace

    same = replace(
        fit, row_order=fit.row_order[[1, 0, 3, 4, 2]], col_order=fit.col_order[[2, 0, 1, 6, 5, 4, 3]]
    )
    other = replace(fit, row_order=fit.row_order[[2, 1, 0, 3, 4]])
    assert fit.equivalent(same)
    assert not fit.equivalent(other)


def test_saved_and_loaded(fit, tmp_path):
    fit.save(tmp_path / "fit.npz")
    loaded = PatternFit.load(tmp_path / "fit.npz")
    assert loaded.equivalent(fit)
    assert (loaded.mask, loaded.starts, loaded.bounds) == (fit.mask, fit.starts, fit.bounds)
    assert loaded.summary() == fit.summary()
    assert isinstance(fit, Result)


def test_summary_names_the_standing(fit, matrix):
    assert "the minimum (exact)" in fit.summary()
    assert f"mass outside {fit.mass_outside:.6g}" in fit.summary()
    loose = pattern_distance(np.random.default_rng(1).normal(size=(9, 9)), masks.band(9, 1), random_state=0)
    assert "a better order is not excluded" in loose.summary()


def test_reorder_checks_the_shape(fit, matrix):
    assert np.array_equal(fit.reorder(matrix), matrix[fit.row_order][:, fit.col_order])
    with pytest.raises(ValueError, match=r"A must have shape \(5, 7\), got \(7, 5\)"):
        fit.reorder(matrix.T)


def test_plot(fit, matrix, monkeypatch):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    before = dict(matplotlib.rcParams)
    ax = fit.plot(A=matrix)
    assert np.array_equal(ax.images[0].get_array(), np.abs(fit.reorder(matrix)))
    assert "mass outside" in ax.get_title()
    assert dict(matplotlib.rcParams) == before
    own = pyplot.figure().subplots()
    assert fit.plot(own) is own
    assert own.lines[0].get_ydata()[-1] == fit.mass_outside
    assert own.lines[1].get_ydata()[0] == fit.lower_bound
    pyplot.close("all")
