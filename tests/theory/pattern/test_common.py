"""One order for both sides: brute force, Frank-Wolfe, descent on swaps, structure of masks."""

import itertools

import numpy as np
import pytest

from porism.kernels import pattern_cost
from porism.theory.pattern import masks, pattern_distance
from porism.theory.pattern._anneal import Layout
from porism.theory.pattern._common import descend, frank_wolfe
from porism.theory.pattern._starts import common_starts

FAMILIES = [
    masks.band(7, 1),
    masks.band(7, 2),
    masks.block_diagonal([3, 4]),
    masks.block_diagonal([2, 2, 3]),
    masks.arrowhead(7, 1),
    masks.arrowhead(7, 2),
    masks.lower_triangular(7),
    masks.anti_diagonal(7),
    masks.bipartite(3, 4),
    masks.checkerboard(7, 7),
    masks.hub(7, 1),
    masks.circulant_band(7, 1),
    masks.toeplitz(7, [0, 2]),
    masks.from_array(np.random.default_rng(5).random((7, 7))),
]


@pytest.mark.filterwarnings("ignore::porism.theory.pattern.UninformativeMaskWarning")
@pytest.mark.parametrize("mask", FAMILIES, ids=lambda mask: f"{mask.name}{mask.params}")
@pytest.mark.parametrize("kind", ["gauss", "planted", "symmetric"])
def test_brute_force(mask, kind):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(7, 7))
        if kind == "planted":
            order = rng.permutation(7)
            A = (mask.S + 0.3 * A)[np.ix_(order, order)]
        if kind == "symmetric":
            A = A + A.T
        exact = pattern_distance(A, mask, order="common")
        fit = pattern_distance(A, mask, order="common", exact=False, random_state=seed)
        assert exact.exact
        assert fit.mass_outside == pytest.approx(exact.mass_outside, abs=1e-12)
        assert np.array_equal(fit.row_order, fit.col_order)
        assert fit.lower_bound <= exact.mass_outside + 1e-12


@pytest.mark.parametrize("symmetric", [True, False])
def test_descent_ends_where_no_swap_helps(symmetric):
    rng = np.random.default_rng(0)
    B, W = rng.random((15, 15)), rng.random((15, 15))
    if symmetric:
        W = W + W.T
    B /= B.sum()
    layout = Layout(B, W)
    p, value, history = descend(layout, rng.permutation(15))
    assert (W * B[np.ix_(p, p)]).sum() == pytest.approx(value, abs=1e-13)
    assert pattern_cost.swap_deltas(B, W, p).min() >= -2e-12
    assert all(a > b for a, b in itertools.pairwise(history))
    assert len(history) > 1


@pytest.mark.parametrize("symmetric", [True, False])
def test_frank_wolfe_improves_on_where_it_starts(symmetric):
    rng = np.random.default_rng(1)
    mask = masks.block_diagonal([8, 8]) if symmetric else masks.lower_triangular(16)
    S = mask.S
    A = S + 0.05 * rng.random((16, 16))
    p = rng.permutation(16)
    B = (A**2)[np.ix_(p, p)]
    layout = Layout(B / B.sum(), mask.penalty)
    start = layout.value(np.arange(16))
    X = 0.6 * np.eye(16) + 0.4 / 16
    assert layout.value(frank_wolfe(layout, X)) < start
    planted = np.argsort(p)
    X = 0.6 * np.eye(16)[planted] + 0.4 / 16
    assert layout.value(frank_wolfe(layout, X)) == pytest.approx(layout.value(planted), abs=1e-12)


def test_thresholded_starts_hit_a_noisy_band():
    rng = np.random.default_rng(0)
    mask = masks.band(60, 3)
    A = mask.S + 0.05 * rng.random((60, 60))
    p = rng.permutation(60)
    B = (A**2)[np.ix_(p, p)]
    layout = Layout(B / B.sum(), mask.penalty)
    values = {name: layout.value(order) for name, order in common_starts(layout.B, mask.S)}
    truth = layout.value(np.argsort(p))
    assert values["rcm-top"] == pytest.approx(truth, abs=1e-12)
    assert values["fiedler-top"] < 3 * truth < values["identity"]
    assert all(np.array_equal(np.sort(order), np.arange(60)) for _, order in common_starts(layout.B, mask.S))


def test_the_history_of_a_fit_falls_to_its_value():
    A = np.random.default_rng(0).normal(size=(25, 25))
    fit = pattern_distance(A, masks.band(25, 2), order="common", random_state=0)
    assert len(fit.history) > 2
    assert all(a > b for a, b in itertools.pairwise(fit.history))
    assert fit.history[-1] == fit.mass_outside
    assert min(value for _, value in fit.starts) >= fit.mass_outside - 1e-12


@pytest.mark.parametrize(
    ("mask", "classes", "cyclic"),
    [
        (masks.band(9, 2), 9, False),
        (masks.circulant_band(9, 2), 9, True),
        (masks.block_diagonal([4, 5]), 2, False),
        (masks.arrowhead(9, 2), 2, False),
        (masks.hub(9, 2), 2, False),
        (masks.bipartite(4, 5), 2, False),
        (masks.lower_triangular(9), 9, False),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_structure(mask, classes, cyclic):
    layout = Layout(np.random.default_rng(0).random((9, 9)), mask.penalty)
    assert (np.unique(layout.classes).size, layout.cyclic) == (classes, cyclic)
    for i in range(9):
        for j in range(i):
            swap = np.arange(9)
            swap[[i, j]] = j, i
            if layout.classes[i] == layout.classes[j]:
                assert mask.is_automorphism(swap, swap)
