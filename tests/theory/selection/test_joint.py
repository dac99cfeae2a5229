"""Joint choice against all subsets, its bound, its ties, and a model in place of a matrix."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from porism.theory.selection import (
    JointSelection,
    ScoreOracle,
    column_mask,
    dual_scores,
    joint_select,
    score_oracle,
)

SMALL = arrays(float, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.integers(-9, 9).map(float))


def best(G, k, count):
    return max(
        G[np.ix_(r, c)].sum()
        for r in itertools.combinations(range(G.shape[0]), k)
        for c in itertools.combinations(range(G.shape[1]), count)
    )


@settings(max_examples=120, deadline=None)
@given(G=SMALL, data=st.data())
def test_no_method_beats_all_subsets(G, data):
    k, count = (data.draw(st.integers(1, size)) for size in G.shape)
    exact = joint_select(G, k, count, "exact")
    assert exact.value == best(G, k, count)
    starts = [list(c) for c in itertools.combinations(range(G.shape[1]), count)]
    values = []
    for found in (
        joint_select(G, k, count),
        joint_select(G, k, count, "alternating"),
        joint_select(G, k, count, "alternating", starts),
        exact,
    ):
        assert (len(found.rows), len(found.cols)) == (k, count)
        assert found.value == G[np.ix_(found.rows, found.cols)].sum() <= found.upper_bound
        values.append(found.value)
    assert values[1] >= values[0]
    assert values[2] == values[3]  # from all column sets, one of which is best
    rows, cols = exact.rows, exact.cols
    turned = joint_select(G.T, count, k, "exact")
    assert turned.value == exact.value
    assert turned.upper_bound == exact.upper_bound
    assert G[np.ix_(rows, cols)].sum() == exact.value


@settings(max_examples=60, deadline=None)
@given(G=SMALL, data=st.data())
def test_the_alternation_ends_where_neither_side_gains(G, data):
    k, count = (data.draw(st.integers(1, size)) for size in G.shape)
    found = joint_select(G, k, count, "alternating")
    for sums, chosen, size in (
        (G[:, found.cols].sum(1), found.rows, k),
        (G[found.rows].sum(0), found.cols, count),
    ):
        assert sums[chosen].sum() == np.sort(sums)[-size:].sum()


@settings(max_examples=60, deadline=None)
@given(
    a=arrays(float, 5, elements=st.integers(0, 9).map(float)),
    b=arrays(float, 6, elements=st.integers(0, 9).map(float)),
)
def test_one_shot_is_optimal_on_products(a, b):
    G = np.outer(a, b)
    assert joint_select(G, 2, 3).value == joint_select(G, 2, 3, "exact").value


def test_rows_come_first():
    """Columns first would end at 6 on this matrix."""
    G = np.array([[3, -2, 1, 0], [-1, 4, -2, 2], [2, 1, 0, -3], [0, -1, 5, 1]])
    rows = np.argsort(-G.sum(1), kind="stable")[:2]
    for _ in range(5):
        cols = np.argsort(-G[rows].sum(0), kind="stable")[:2]
        rows = np.argsort(-G[:, cols].sum(1), kind="stable")[:2]
    assert G[np.ix_(rows, cols)].sum() == 6
    assert joint_select(G, 2, 2, "alternating").value == 9


def test_ties_go_to_the_lowest_index():
    for method in ("one_shot", "alternating", "exact"):
        found = joint_select(np.ones((3, 4)), 2, 2, method)
        assert (found.rows.tolist(), found.cols.tolist()) == ([0, 1], [0, 1])


def test_a_noisy_oracle_ends():
    draws = iter(np.random.default_rng(0).random(10_000))

    def noisy(size):
        return lambda chosen: np.array([next(draws) for _ in range(size)])

    found = joint_select(ScoreOracle((3, 3), noisy(3), noisy(3)), 1, 1, "alternating")
    assert found.sweeps <= 10  # nine pairs, one of them twice
    assert found.upper_bound == np.inf
    with pytest.raises(ValueError, match="sums of the oracle must have length 3, got 2"):
        joint_select(ScoreOracle((3, 3), noisy(2), noisy(2)), 1, 1)


def test_all_subsets_of_many_rows_take_little_memory():
    G = np.random.default_rng(0).normal(size=(5000, 12))
    tracemalloc.start()
    value = joint_select(G, 10, 6, "exact").value
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert value >= joint_select(G, 10, 6, "alternating").value
    assert peak < 1e8  # entries in all 924 subsets at once would take 2.2e8


def test_a_selection_is_kept(tmp_path):
    joint_select(np.eye(3), 1, 1).save(tmp_path / "a.npz")
    assert JointSelection.load(tmp_path / "a.npz").value == 1


@pytest.mark.parametrize("method", ["auto", "double_backward", "central"])
def test_a_model_in_place_of_its_matrix(net, needs, method):
    torch = needs("torch")
    loss, val_loss, params, batch = net()
    each = [
        dual_scores(loss, val_loss, params, batch, weights=row)  # one row of the matrix at a time
        for row in np.eye(7)
    ]
    G = np.array([torch.cat([v.flatten() for v in one.columns.values()]).numpy() for one in each])
    oracle = score_oracle(loss, val_loss, params, batch, method=method, chunk=3)
    assert oracle.shape == G.shape == (7, 9)
    np.testing.assert_allclose(oracle.rows(np.array([1, 7])), G[:, [1, 7]].sum(1), atol=1e-8)
    np.testing.assert_allclose(oracle.columns(np.array([0, 3, 4, 6])), G[[0, 3, 4, 6]].sum(0), atol=1e-12)
    starts = [[0, 1, 2], [3, 5, 8]]
    ours, full = (joint_select(M, 2, 3, "alternating", starts) for M in (oracle, G))
    assert (ours.rows.tolist(), ours.cols.tolist()) == (full.rows.tolist(), full.cols.tolist())
    assert ours.value == pytest.approx(full.value, rel=1e-7)
    w = np.isin(np.arange(7), ours.rows).astype(float)
    chosen = dual_scores(loss, val_loss, params, batch, weights=w, mask=column_mask(params, ours.cols))
    assert chosen.total == pytest.approx(ours.value, rel=1e-7)


def test_a_bound_that_is_attained_is_not_below_the_value():
    """Sums in another order differ in the last bit."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        G = rng.normal(size=(3, 5))
        for method in ("one_shot", "alternating", "exact"):
            found = joint_select(G, 3, 4, method)
            assert found.value <= found.upper_bound
