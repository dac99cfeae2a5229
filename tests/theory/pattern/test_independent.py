"""Half-steps, histories, starts and brute force with rows and columns free."""

import itertools

import numpy as np
import pytest

from porism.kernels import lap
from porism.theory.pattern import masks, pattern_distance
from porism.theory.pattern._independent import alternate, column_costs, row_costs
from porism.theory.pattern._problem import prepare

FAMILIES = [
    masks.band(6, 1),
    masks.block_diagonal([2, 4], [3, 5]),
    masks.block_diagonal([3, 3]),
    masks.arrowhead(6, 2),
    masks.lower_triangular(6),
    masks.checkerboard(6, 9),
    masks.hub(6, 1),
    masks.circulant_band(6, 1),
    masks.from_array(np.random.default_rng(5).random((6, 7))),
]


def matrix(mask, kind, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=mask.S.shape)
    if kind == "planted":
        A = mask.S + 0.3 * A
        A = A[rng.permutation(len(A))][:, rng.permutation(A.shape[1])]
    return A


@pytest.mark.parametrize("mask", FAMILIES, ids=lambda mask: f"{mask.name}{mask.S.shape}")
@pytest.mark.parametrize("kind", ["gauss", "planted"])
def test_brute_force(mask, kind):
    for seed in range(2):
        A = matrix(mask, kind, seed)
        exact = pattern_distance(A, mask)
        fit = pattern_distance(A, mask, exact=False, random_state=seed)
        assert exact.exact
        assert not fit.exact
        assert fit.mass_outside == pytest.approx(exact.mass_outside, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_history_falls_and_neither_side_can_improve(seed):
    rng = np.random.default_rng(seed)
    m, n = rng.integers(2, 30, size=2)
    problem = prepare(rng.normal(size=(m, n)), rng.integers(0, 3, size=(m, n)) / 2, "independent")
    found = alternate(problem, rng.permutation(m), rng.permutation(n))
    assert all(a > b for a, b in itertools.pairwise(found.history))
    assert found.value == found.history[-1] == problem.value(found.p, found.q)
    assert found.sweeps <= 20
    for better in (
        problem.value(lap.solve(row_costs(problem, found.q)), found.q),
        problem.value(found.p, lap.solve(column_costs(problem, found.p))),
    ):
        assert better >= found.value - 1e-12


@pytest.mark.parametrize("sparse", [False, True])
def test_costs_are_what_an_assignment_adds_up(sparse):
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 11)) * (rng.random((8, 11)) < 0.5)
    problem = prepare(csr_matrix(A) if sparse else A, rng.random((8, 11)), "independent")
    p, q = rng.permutation(8), rng.permutation(11)
    assert row_costs(problem, q)[p, np.arange(8)].sum() == pytest.approx(problem.value(p, q), abs=1e-13)
    assert column_costs(problem, p)[q, np.arange(11)].sum() == pytest.approx(problem.value(p, q), abs=1e-13)


def test_the_fit_is_a_half_step_optimum_with_a_falling_history():
    mask = masks.block_diagonal([8, 12], [9, 6])
    A = np.random.default_rng(0).normal(size=(20, 15))
    fit = pattern_distance(A, mask, random_state=0)
    problem = prepare(A, mask, "independent")
    again = alternate(problem, fit.row_order, fit.col_order)
    assert again.value >= fit.mass_outside - 1e-12
    assert all(a > b for a, b in itertools.pairwise(fit.history))
    assert fit.history[-1] == fit.mass_outside


def test_more_restarts_find_no_worse():
    mask = masks.band(14, 1)
    A = np.random.default_rng(3).normal(size=(14, 14))
    values = [pattern_distance(A, mask, n_restarts=k, random_state=0).mass_outside for k in (0, 4, 64)]
    assert values[2] <= values[0] + 1e-12
    names = [name for name, _ in pattern_distance(A, mask, n_restarts=4, random_state=0).starts]
    assert {"identity", "degree", "spectral-1+", "spectral-top-1-", "rcm-top", "random-3"} <= set(names)


def test_planted_blocks_are_recovered():
    mask = masks.block_diagonal([12, 12, 12], [10, 14, 8])
    rng = np.random.default_rng(0)
    A = mask.S * rng.choice([-1, 1], size=mask.S.shape) + 0.3 * rng.normal(size=mask.S.shape)
    p, q = rng.permutation(36), rng.permutation(32)
    fit = pattern_distance(A[p][:, q], mask, random_state=0)
    truth = mask.S[np.ix_(p, q)]
    assert np.array_equal(fit.source_mask(), truth)


@pytest.mark.slow
def test_half_a_thousand_rows():
    mask = masks.block_diagonal([128] * 4)
    A = np.random.default_rng(0).normal(size=(512, 512))
    fit = pattern_distance(A, mask, bounds=("R",), n_restarts=0, random_state=0)  # no clock: machines differ
    assert fit.mass_outside < 0.697  # 0.75 on average
