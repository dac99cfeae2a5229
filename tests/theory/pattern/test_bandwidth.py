"""Bandwidth against known optima and brute force; the lower bound never exceeds the optimum."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from porism.theory.pattern import minimize_bandwidth
from porism.theory.pattern.bandwidth import _lower_bound


def cut_edges(A, order):
    i, j = np.nonzero(np.asarray(A)[np.ix_(order, order)])
    return int(np.abs(i - j).max(initial=0))


def shuffled(A, seed):
    p = np.random.default_rng(seed).permutation(len(A))
    return A[np.ix_(p, p)]


# name, how networkx builds it, bandwidth to reach, whether the bound proves it
GRAPHS = [
    ("karate", lambda nx: nx.karate_club_graph(), 10, None),
    ("les miserables", lambda nx: nx.les_miserables_graph(), 20, False),
    ("florentine", lambda nx: nx.florentine_families_graph(), 4, False),
    ("davis", lambda nx: nx.davis_southern_women_graph(), 9, True),
    ("binary tree", lambda nx: nx.balanced_tree(2, 4), 4, True),
    ("cube 3", lambda nx: nx.hypercube_graph(3), 4, False),
    ("cube 4", lambda nx: nx.hypercube_graph(4), 7, False),
    ("cube 5", lambda nx: nx.hypercube_graph(5), 13, False),
    ("grid 7 x 7", lambda nx: nx.grid_2d_graph(7, 7), 7, False),
    ("grid 5 x 12", lambda nx: nx.grid_2d_graph(5, 12), 5, True),
    ("cycle", lambda nx: nx.cycle_graph(40), 2, True),
    ("caveman", lambda nx: nx.caveman_graph(6, 6), 5, True),
]


@pytest.mark.parametrize(("name", "build", "reach", "proved"), GRAPHS, ids=[g[0] for g in GRAPHS])
def test_known_graphs(name, build, reach, proved, needs):
    nx = needs("networkx")
    A = shuffled(nx.to_numpy_array(build(nx), weight=None), 0)
    fit = minimize_bandwidth(A)
    assert fit.bandwidth == cut_edges(A, fit.order)
    assert fit.lower_bound <= fit.bandwidth <= reach
    if proved is not None:
        assert (fit.bandwidth, fit.certified) == (reach, proved)


def test_bound_and_order_against_all_orders():
    orders = np.array(list(itertools.permutations(range(6))))
    rng = np.random.default_rng(0)
    hit = 0
    for density in np.linspace(0.1, 0.9, 30):
        A = np.triu(rng.random((6, 6)) < density, 1)
        A = (A | A.T).astype(int)
        i, j = np.nonzero(A)
        best = int(
            np.abs(np.argsort(orders, axis=1)[:, i] - np.argsort(orders, axis=1)[:, j])
            .max(axis=1, initial=0)
            .min()
        )
        fit = minimize_bandwidth(A)
        assert fit.lower_bound <= best == fit.bandwidth
        hit += fit.lower_bound == best
    assert hit >= 15


def test_the_hub_of_a_star_bounds_from_inside_only():
    star = np.zeros((8, 8), dtype=bool)
    star[0, 1:] = star[1:, 0] = True
    assert _lower_bound(star) == 4  # not 7, the degree of the hub


def test_components_isolated_vertices_and_diagonal():
    A = np.eye(7)
    A[0, 3] = A[3, 5] = 2.0  # not symmetric, and a diagonal that does not count
    fit = minimize_bandwidth(A)
    assert (fit.bandwidth, fit.lower_bound, fit.profile) == (1, 1, 2)
    empty = minimize_bandwidth(np.zeros((3, 3)))
    assert (empty.bandwidth, empty.profile, empty.certified) == (0, 0, True)
    assert minimize_bandwidth([[1.0]]).order.tolist() == [0]


def test_profile_sparse_and_seed():
    rng = np.random.default_rng(0)
    A = (rng.random((20, 20)) < 0.1).astype(float)
    fit, other = minimize_bandwidth(A), minimize_bandwidth(sparse.csr_matrix(A))
    assert np.array_equal(fit.order, other.order)
    both = ((A + A.T) != 0)[np.ix_(fit.order, fit.order)]
    assert fit.profile == sum(i - min([i, *np.flatnonzero(both[i, :i])]) for i in range(20))


def test_budget_and_messages():
    rng = np.random.default_rng(0)
    A = rng.random((60, 60)) < 0.1
    fit = minimize_bandwidth(A, time_budget=1e-6)
    assert fit.status == "time_budget"
    assert fit.bandwidth == cut_edges(A | A.T, fit.order)
    assert minimize_bandwidth(np.eye(4, k=1), time_budget=1e-9).status == "ok"  # certified without a search
    for bad, message in (
        (np.ones((2, 3)), "A must be square"),
        (np.zeros((0, 0)), "A must be square and not empty"),
        ([[np.nan]], "NaN or infinity at"),
        ([1], "2-D"),
    ):
        with pytest.raises(ValueError, match=message):
            minimize_bandwidth(bad)
