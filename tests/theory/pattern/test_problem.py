"""What the module does with its input before anything is computed."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from porism.theory.pattern import (
    PatternReorder,
    masks,
    minimize_bandwidth,
    pattern_distance,
    pattern_lower_bound,
    pattern_null,
    pattern_plus_low_rank,
)
from porism.theory.pattern._problem import prepare, uninformative

FULL = masks.from_array(np.full((2, 3), 0.5))


def ask(A, mask=FULL, order="independent", mass="squared"):
    return prepare(A, mask, order, mass)


def test_tensors_are_read_whatever_numpy_says(needs):
    torch = needs("torch")
    A = np.array([[1.0, -2.0, 0.5], [0.0, 4.0, 8.0]])
    tensor = torch.tensor(A, requires_grad=True)
    for given in (tensor, tensor.bfloat16(), tensor.half(), tensor.detach().to(torch.float32)):
        assert np.array_equal(ask(given).B, ask(A).B)
    fit = pattern_distance(tensor.bfloat16(), masks.sink(2, 3, 1))
    assert np.array_equal(fit.reorder(tensor), fit.reorder(A))
    with pytest.raises(TypeError, match="complex matrices"):
        ask(torch.ones((2, 3), dtype=torch.complex64))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ask(np.ones((1, 2, 3))), r"A must be 2-D, got shape \(1, 2, 3\)"),
        (lambda: ask([[1, 2, 3], [1]]), "A must be 2-D, got rows of unequal length"),
        (lambda: ask([[1, 2, 3], [np.nan, np.inf, 1]]), r"A contains NaN or infinity at \[1, 0\] \(2 such"),
        (lambda: ask([[1, 2, -np.inf], [np.nan, 0, 1]]), r"A contains NaN or infinity at \[0, 2\]"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


@pytest.mark.parametrize("wrap", [np.array, sparse.csr_array])
def test_types_that_are_refused(wrap):
    with pytest.raises(TypeError, match=r"^complex matrices are not supported: pass abs\(A\)"):
        ask(wrap(np.ones((2, 3), complex)))
    with pytest.raises(TypeError, match=r"^A must hold real numbers"):
        ask(np.array([["a", "b", "c"]] * 2))


def test_masked_entries_are_not_data():
    A = np.ma.masked_array(np.ones((2, 3), int), mask=[[0, 0, 0], [0, 1, 0]])
    with pytest.raises(ValueError, match=r"^A contains NaN or infinity at \[1, 1\]"):
        ask(A)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_sparse_input_equals_dense(form):
    A = np.array([[0, -3, 0], [100, 0, 2]], dtype=np.int8)
    stored = sparse.coo_array(A).asformat(form)
    for mass in ("squared", "abs"):
        problem, dense = ask(stored, mass=mass), ask(A, mass=mass)
        np.testing.assert_allclose(problem.B, dense.B, rtol=4e-16)  # sums run over other zeros
        np.testing.assert_allclose(problem.sparse.toarray(), dense.B, rtol=4e-16)
        assert dense.sparse is None
    assert (stored.toarray() == A).all()


def test_sparse_input_is_checked_like_dense():
    rows, columns = [1, 0, 1], [0, 2, 2]
    with pytest.raises(ValueError, match=r"^A contains NaN or infinity at \[0, 2\] \(2 such"):
        ask(sparse.coo_array(([1, np.nan, np.inf], (rows, columns)), shape=(2, 3)))
    with pytest.raises(ValueError, match=r"^A contains NaN or infinity at \[1, 0\]"):
        ask(sparse.csc_array(([np.inf, 1.0, np.inf], (rows, columns)), shape=(2, 3)))
    with pytest.raises(ValueError, match=r"^A has zero mass"):
        ask(sparse.csr_array((2, 3)))
    with pytest.raises(MemoryError, match=r"^A is sparse with 16384 x 16384 = 268435456 cells, .* 2.0 GiB"):
        ask(sparse.csr_array((2**14, 2**14)))
    twice = sparse.coo_array((np.array([100, 100, 1], np.int8), ([0, 0, 1], [0, 0, 0])), shape=(2, 3))
    assert ask(twice).B[0, 0] == pytest.approx(40000 / 40001)  # duplicates add up without overflow


@pytest.mark.full
@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_graph(needs, kind):
    networkx = needs("networkx")
    graph = getattr(networkx, kind)()
    graph.add_nodes_from("dcab")  # the order of the nodes, not of their names
    graph.add_weighted_edges_from([("a", "b", 2.5), ("c", "a", -1.0), ("b", "b", 0.5)])
    graph.add_edge("d", "b")
    graph.add_edge("a", "b", weight=4.0)
    ab = 6.5 if "Multi" in kind else 4.0  # parallel edges add up, else the last one counts
    A = np.array([[0, 0, 0, 1], [0, 0, -1, 0], [0, 0, 0, ab], [0, 0, 0, 0.5]])
    if "Di" not in kind:
        A = np.triu(A) + np.triu(A, 1).T
    mask, plain = masks.band(4, 1), {"random_state": 0, "order": "common"}
    fit = pattern_distance(graph, mask, **plain)
    assert fit.mass_outside == pattern_distance(A, mask, **plain).mass_outside
    found, same = (pattern_null(given, mask, n_null=9, **plain).d2_null for given in (graph, A))
    np.testing.assert_array_equal(found, same)
    np.testing.assert_array_equal(fit.reorder(graph), fit.reorder(A))
    assert minimize_bandwidth(graph).bandwidth == minimize_bandwidth(A).bandwidth
    assert pattern_lower_bound(graph, mask, order="common") == pattern_lower_bound(A, mask, order="common")
    model = PatternReorder(mask, order="common", random_state=0)
    np.testing.assert_array_equal(model.fit_transform(graph), model.fit_transform(A))
    low = pattern_plus_low_rank(graph, mask, 1, **plain)
    assert low.error == pattern_plus_low_rank(A, mask, 1, **plain).error


@pytest.mark.full
def test_graphs_that_are_refused(needs):
    networkx = needs("networkx")
    with pytest.raises(ValueError, match=r"^mask shape \(2, 3\) does not match A shape \(34, 34\)"):
        ask(networkx.karate_club_graph())
    with pytest.raises(ValueError, match=r"^A has zero mass"):
        ask(networkx.empty_graph(3), masks.band(3, 0))
    with pytest.raises(MemoryError, match=r"^A is a graph of 16384 nodes, .* 2.0 GiB; take a subgraph"):
        ask(networkx.empty_graph(2**14))
    with pytest.raises(ValueError, match=r"^A contains NaN or infinity at \[0, 1\]"):
        ask(networkx.Graph([(0, 1, {"weight": np.nan})]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, bool, np.float16, np.float32, np.int64, np.longdouble])
def test_no_type_overflows(dtype):
    A = np.array([[100, 0, 1], [0, 120, 3]]).astype(dtype)
    B = A.astype(float) ** 2
    for array in (A, A[::-1, ::-1], np.asfortranarray(A)):
        before = array.copy()
        problem = ask(array)
        expected = B if array is not A[::-1, ::-1] and (array == A).all() else B[::-1, ::-1]
        np.testing.assert_allclose(problem.B, expected / B.sum(), rtol=4e-16)
        assert (array == before).all()
        assert problem.B.dtype == np.float64


def test_input_is_never_modified():
    A = np.array([[1.0, -2.0, 3.0], [0.0, 5.0, 6.0]])
    A.flags.writeable = False
    before = A.copy()
    problem = ask(A)
    problem.B[:] = 0
    assert (before == A).all()
    stored = sparse.csr_array(before)
    ask(stored).B[:] = 0
    assert (stored.toarray() == before).all()


@pytest.mark.parametrize("scale", [1e-300, 5e-324, 1e-170, 1e170, 1e300])
def test_scale_is_taken_out_first(scale):
    A = np.array([[1.0, 2.0, 0.0], [4.0, 0.0, 8.0]])
    np.testing.assert_allclose(ask(A * scale).B, ask(A).B, rtol=1e-15)


def test_masses_sum_to_one_and_value_places_sources():
    rng = np.random.default_rng(0)
    A, mask = rng.normal(size=(4, 5)), masks.from_array(rng.random((4, 5)))
    p, q = rng.permutation(4), rng.permutation(5)
    for mass, B in (("squared", A * A), ("abs", abs(A))):
        problem = ask(A, mask, mass=mass)
        assert problem.B.sum() == pytest.approx(1, abs=1e-14)
        direct = sum((1 - mask.S[i, j]) ** 2 * B[p[i], q[j]] for i in range(4) for j in range(5)) / B.sum()
        assert problem.value(p, q) == pytest.approx(direct, abs=1e-14)


def test_small_and_flat_matrices_are_fine():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in [(1, 1), (1, 4), (4, 1), (3, 3)]:
            mask = masks.from_array(np.eye(*shape))
            assert ask(np.ones(shape), mask).B.sum() == pytest.approx(1)
            assert uninformative(ask(np.ones(shape), mask))
        A = np.zeros((3, 3))
        A[1] = 1
        assert ask(A, masks.band(3, 1), "common").B[1].tolist() == [1 / 3] * 3


def test_reasons_name_the_cause():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(5, 5))
    symmetric = A + A.T
    reason = lambda *arguments: uninformative(prepare(*arguments))
    for order in ("independent", "common", "none"):
        assert reason(A, masks.band(5, 4), order).startswith("the mask keeps everything")
        assert reason(A, np.zeros((5, 5)), order).startswith("the mask keeps nothing")
        assert reason(A, masks.band(5, 1), order) == ""
    assert reason(symmetric, masks.lower_triangular(5), "common").startswith("|A| is symmetric and W + W^T")
    assert reason(symmetric, masks.toeplitz(5, [1, 2, -3, -4]), "common").startswith("|A| is symmetric")
    assert reason(A, masks.band(5, 0), "common").startswith("the mask treats all off-diagonal cells alike")
    assert reason(np.eye(5), masks.band(5, 1), "common").startswith("A gives this mask one value")
    assert reason(symmetric, masks.lower_triangular(5), "none") == ""
    assert reason(A, np.full((5, 5), 0.3), "independent").startswith("A gives this mask one value")
