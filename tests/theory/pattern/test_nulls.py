import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import UndecidedError
from porism.theory.pattern import Mask, UninformativeMaskWarning, masks, pattern_distance
from porism.theory.pattern.nulls import NullResult, holm, null_moments, pattern_null
from porism.theory.pattern.shuffles import null_shuffle, strip_sinks

KINDS = ("rows", "columns", "entries", "symmetric_entries", "rows_without_sinks(1)")


def masses(m, n, seed=0):
    B = np.random.default_rng(seed).random((m, n)) ** 3
    return B / B.sum()


def draws(null, B, count=7, admissible=None):
    shuffle = null_shuffle(null, B, admissible, "abs")
    return shuffle, shuffle.draw(np.random.default_rng(1), count)


def test_rows_and_columns_stay_inside():
    B = masses(5, 6)
    for null, axis in (("rows", 1), ("columns", 0)):
        out = draws(null, B)[1]
        assert np.array_equal(np.sort(out, axis + 1), np.broadcast_to(np.sort(B, axis), out.shape))
        assert not np.array_equal(out[0], out[1])
        assert not np.allclose(out.sum(1 + (1 - axis)), B.sum(1 - axis))  # the other sums do change


def test_entries_mix_all():
    B = masses(5, 6)
    out = draws("entries", B)[1]
    assert np.array_equal(np.sort(out.reshape(7, -1)), np.broadcast_to(np.sort(B.ravel()), (7, 30)))
    assert not np.allclose(out.sum(2), B.sum(1))


def test_causal_cells():
    B = np.tril(masses(6, 6))
    B /= B.sum()
    for null in ("rows", "columns", "entries"):
        out = draws(null, B, admissible=np.tri(6, dtype=bool))[1]
        assert not np.triu(out, 1).any()
        assert out.sum((1, 2)) == pytest.approx(1)
    with pytest.raises(
        ValueError, match=r"A must vanish outside the admissible cells, but does not at \[0, 1\]"
    ):
        pattern_null(masses(6, 6), masks.band(6, 0), admissible="causal", order="none")


def test_symmetric_entries():
    B = masses(6, 6)
    B = (B + B.T) / 2
    out = draws("symmetric_entries", B)[1]
    upper = np.triu_indices(6, 1)
    for shuffled in out:
        assert np.array_equal(shuffled, shuffled.T)
        assert np.array_equal(np.sort(shuffled[upper]), np.sort(B[upper]))
        assert np.array_equal(np.sort(np.diag(shuffled)), np.sort(np.diag(B)))
    assert any(not np.array_equal(shuffled[upper], B[upper]) for shuffled in out)
    with pytest.raises(ValueError, match=r"needs \|A\| symmetric"):
        pattern_null(masses(4, 4), masks.band(4, 0), null="symmetric_entries", order="none")


def test_sinks_are_stripped_from_the_observed_matrix_too():
    a = np.random.default_rng(0).random((6, 6))
    a[:, 2] += 5
    a /= a.sum(1, keepdims=True)
    B, gone = strip_sinks(a / a.sum(), 1, "abs")
    assert gone.tolist() == [False, False, True, False, False, False]
    assert not B[:, 2].any()
    assert B.sum(1) == pytest.approx(np.full(6, 1 / 6))
    squared, _ = strip_sinks(a**2 / (a**2).sum(), 1, "squared")
    assert np.sqrt(squared).sum(1) == pytest.approx(np.full(6, np.sqrt(squared).sum(1)[0]))
    result = pattern_null(a, masks.sink(6, 6, 1), null="rows_without_sinks(1)", mass="abs", order="none")
    assert result.observed == pytest.approx(1 - B[:, 0].sum())
    shuffled = draws("rows_without_sinks(1)", a / a.sum())[1]
    assert not shuffled[:, :, 2].any()
    for k in (0, 6, 9):
        with pytest.raises(ValueError, match=rf"number of sinks must be in 1..5, got {k}"):
            pattern_null(a, masks.sink(6, 6, 1), null=f"rows_without_sinks({k})")
    only = np.zeros((3, 3))
    only[:, 0] = 1
    with pytest.raises(ValueError, match="A has zero mass"):
        pattern_null(only, masks.band(3, 0), null="rows_without_sinks(1)")


def test_p_value_and_effect_by_hand():
    A = np.eye(4)
    result = pattern_null(A, masks.band(4, 0), order="none", n_null=49, random_state=3)
    below = sum(value <= 1e-12 for value in result.d2_null)
    assert result.observed == 0
    assert result.p_value == (1 + below) / 50
    assert result.effect == 1
    worse = pattern_null(A, masks.anti_diagonal(4), order="none", n_null=49, random_state=3)
    assert worse.observed == 1
    assert worse.p_value == 1
    assert worse.effect == pytest.approx(1 - 1 / worse.d2_null.mean())


def test_ties_up_to_rounding_count():
    """All shuffles of a constant matrix are equal: nothing is surprising, whatever the sums round to."""
    A = np.full((7, 9), 0.1)
    result = pattern_null(A, masks.sink(7, 9, 2), order="none", random_state=0)
    assert result.p_value == 1
    with pytest.warns(UninformativeMaskWarning):
        kept = pattern_null(np.eye(4), Mask(np.ones((4, 4))), order="common", n_null=19, random_state=0)
    assert (kept.p_value, kept.effect, kept.observed) == (1, 0, 0)
    assert "no finding" in kept.summary()


@pytest.mark.parametrize("null", KINDS[:4])
@pytest.mark.parametrize("weighted", [False, True])
def test_pd_19_against_all_shuffles(null, weighted):
    rng = np.random.default_rng(2)
    n = 3
    B = rng.random((n, n))
    B = B + B.T if null == "symmetric_entries" else B
    B /= B.sum()
    S = rng.random((n, n)) if weighted else (rng.random((n, n)) < 0.5).astype(float)
    cells = np.arange(9).reshape(3, 3)
    groups = {"rows": list(cells), "columns": list(cells.T), "entries": [cells.ravel()]}.get(null)
    values = []
    W = (1 - S) ** 2
    if null == "symmetric_entries":
        upper = np.triu_indices(n, 1)
        for a in itertools.permutations(B[upper]):
            for d in itertools.permutations(np.diag(B)):
                M = np.zeros((n, n))
                M[upper] = a
                values.append((W * (M + M.T + np.diag(d))).sum())
    elif null == "entries":  # 9! orders are many: exact moments of pairs instead, from 40 320 x 9 of them
        flat = B.ravel()
        head = np.array(list(itertools.permutations(range(8))))
        for last in range(9):
            rest = np.delete(np.arange(9), last)
            values.append(flat[rest][head] @ W.ravel()[:8] + flat[last] * W.ravel()[8])
        values = np.concatenate(values)
    else:
        for orders in itertools.product(itertools.permutations(range(n)), repeat=n):
            M = np.empty(9)
            for group, order in zip(groups, orders, strict=True):
                M[group] = B.ravel()[group][list(order)]
            values.append(W.ravel() @ M)
    mean, variance = null_moments(B, S, null=null, mass="abs")
    assert mean == pytest.approx(np.mean(values), abs=1e-12)
    assert variance == pytest.approx(np.var(values), abs=1e-12)


def test_pd_19_as_it_is_written():
    """The formulas of the docstring, causal cells, squared mass."""
    A = np.tril(np.random.default_rng(0).random((8, 8)))
    B = A**2
    S = masks.band(8, 2).S
    mean = variance = 0.0
    for i in range(8):
        b, s, c = B[i, : i + 1], S[i, : i + 1].sum(), i + 1
        mean += b.sum() * (1 - s / c)
        if c > 1:
            variance += s * (c - s) / (c**2 * (c - 1)) * (c * (b**2).sum() - b.sum() ** 2)
    found = null_moments(A, masks.band(8, 2), admissible="causal")
    assert found == pytest.approx((mean / B.sum(), variance / B.sum() ** 2), rel=1e-12)


def test_pd_19_against_drawn_shuffles():
    """Five standard errors of the mean; the variance of a variance from its own spread."""
    A = np.random.default_rng(0).random((12, 12)) ** 2
    for null in KINDS[:3]:
        result = pattern_null(A, masks.band(12, 1), null=null, order="none", n_null=4000, random_state=0)
        mean, variance = null_moments(A, masks.band(12, 1), null=null)
        assert result.moments == (mean, variance)
        assert result.d2_null.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / 4000))
        assert result.d2_null.var() == pytest.approx(variance, rel=5 * math.sqrt(2.5 / 4000))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), null=st.sampled_from(KINDS), order=st.sampled_from(["none", "common"]))
def test_p_values_are_in_range_and_repeat(seed, null, order):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(5, 5))
    A = A + A.T if null == "symmetric_entries" else A
    runs = [
        pattern_null(A, masks.band(5, 1), null=null, order=order, n_null=4, random_state=seed)
        for _ in range(2)
    ]
    assert runs[0].d2_null.tolist() == runs[1].d2_null.tolist()
    assert 1 / 5 <= runs[0].p_value <= 1
    assert runs[0].effect <= 1
    assert ((runs[0].d2_null >= 0) & (runs[0].d2_null <= 1 + 1e-12)).all()


def test_every_null_has_its_own_seed():
    """More nulls keep those that were there: seeds belong to items, not to their number or to workers."""
    A = np.random.default_rng(0).normal(size=(9, 9))
    few, many = (
        pattern_null(A, masks.band(9, 1), order="common", n_null=k, n_restarts=0, random_state=4)
        for k in (3, 6)
    )
    assert many.d2_null[:3].tolist() == few.d2_null.tolist()
    assert many.observed == few.observed


@pytest.mark.slow
def test_workers_change_nothing():
    A = np.random.default_rng(0).normal(size=(9, 9))
    one, two = (
        pattern_null(A, masks.band(9, 1), order="common", n_null=5, random_state=4, n_jobs=jobs)
        for jobs in (1, 2)
    )
    assert one.d2_null == pytest.approx(two.d2_null, abs=1e-12)
    assert (one.p_value, one.observed) == (two.p_value, two.observed)


def test_observed_and_nulls_get_the_same_solver(monkeypatch):
    from porism.theory.pattern import nulls

    seen = []

    def spy(A, mask, **options):
        seen.append(options)
        return pattern_distance(A, mask, **options)

    monkeypatch.setattr(nulls, "pattern_distance", spy)
    A = np.random.default_rng(0).normal(size=(9, 9))
    pattern_null(A, masks.band(9, 1), order="common", n_null=3, n_restarts=2, exact=False, time_budget=9.0)
    seeds = [options.pop("random_state") for options in seen]
    assert len(set(seeds)) == 4
    assert all(options == seen[0] for options in seen)
    assert seen[0] == {
        "order": "common",
        "mass": "squared",
        "n_restarts": 2,
        "exact": False,
        "time_budget": 9.0,
    }


def test_the_test_is_valid_on_noise():
    """p-values of i.i.d. softmax maps are not small too often: at 0.1, 12 maps, P(more than 5) < 1e-3."""
    rng = np.random.default_rng(0)
    small = 0
    for seed in range(12):
        logits = rng.normal(size=(8, 8))
        A = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        result = pattern_null(A, masks.band(8, 1), n_null=9, n_restarts=0, random_state=seed)
        small += result.p_value <= 0.1
    assert small <= 5


def test_stars_need_19_nulls():
    A = np.kron(np.eye(2), np.ones((6, 6)))
    few, enough, many = (
        pattern_null(A, masks.block_diagonal([6, 6]), order="none", n_null=k, random_state=0)
        for k in (18, 19, 999)
    )
    with pytest.raises(UndecidedError, match="at least 19 nulls, got 18"):
        few.stars()
    assert "too few nulls for stars" in few.summary()
    assert "*" not in few.summary()
    assert (enough.stars(), many.stars()) == ("*", "***")
    assert enough.summary().endswith("p = 0.05 *")


def test_holm():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.random(rng.integers(1, 7)).round(1)
        adjusted = holm(p)
        for alpha in (0.05, 0.2, 0.5, 0.9):  # the step-down procedure itself
            rejected = np.zeros(p.size, dtype=bool)
            for k, i in enumerate(np.argsort(p, kind="stable")):
                if p[i] * (p.size - k) > alpha:
                    break
                rejected[i] = True
            assert np.array_equal(rejected, adjusted <= alpha)
    assert holm([]).tolist() == []
    with pytest.raises(ValueError, match=r"p_values must lie in \[0, 1\]"):
        holm([0.5, 1.5])


def test_saves_and_loads(tmp_path):
    result = pattern_null(np.eye(4), masks.band(4, 0), order="none", n_null=9, random_state=0)
    result.save(tmp_path / "null.npz")
    back = NullResult.load(tmp_path / "null.npz")
    assert back.d2_null.tolist() == result.d2_null.tolist()
    assert (back.p_value, back.fit.mask, back.moments) == (result.p_value, result.fit.mask, result.moments)
    assert len(result.to_frame()) == 9 if _has("pandas") else True


@pytest.mark.full
def test_plot_shows_the_observed_value(needs):
    pyplot = needs("matplotlib.pyplot")
    result = pattern_null(np.eye(4), masks.band(4, 0), order="none", n_null=9, random_state=0)
    ax = result.plot(pyplot.figure().subplots())
    assert ax.lines[0].get_xdata()[0] == result.observed
    pyplot.close("all")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_null": 0}, ValueError, "^n_null must be at least 1"),
        ({"n_null": 2.0}, TypeError, "n_null must be an int"),
        ({"null": "cells"}, ValueError, "null must be one of"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"admissible": "left"}, ValueError, "admissible must be one of"),
        ({"admissible": np.ones((2, 2), bool)}, ValueError, "admissible must be None"),
        ({"random_state": -1}, ValueError, "random_state must be >= 0"),
    ],
)
def test_bad_input(options, error, message):
    with pytest.raises(error, match=message):
        pattern_null(np.eye(4), masks.band(4, 0), **options)


def test_no_warning_is_repeated_for_shuffles():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pattern_null(np.ones((5, 5)), masks.band(5, 1), order="common", n_null=9, random_state=0)
    assert [warning.category for warning in seen] == [UninformativeMaskWarning]


def _has(module):
    import importlib.util

    return importlib.util.find_spec(module) is not None
