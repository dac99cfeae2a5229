"""Cases with values known from full enumeration: the solver, its bounds and the number of optimal orders."""

import itertools

import numpy as np
import pytest

from porism.theory.pattern import Mask, masks, pattern_distance

pytestmark = pytest.mark.filterwarnings("ignore::porism.theory.pattern.UninformativeMaskWarning")


def graph(n, edges):
    A = np.zeros((n, n), dtype=int)
    for i, j in edges:
        A[i, j] = A[j, i] = 1
    return A


def cube(d):
    edges = [(v, v ^ 1 << b) for v in range(1 << d) for b in range(d) if v < v ^ 1 << b]
    return graph(1 << d, edges)


def tridiagonal_weights(n):
    distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return Mask(np.choose(np.minimum(distance, 2), [1.0, 0.5, 0.0]), "weights", {})


PATH = [[0, 0, 1, 0, 1], [0, 0, 0, 1, 1], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 0, 0, 0]]
MIXED = [[-3, -3, 3, 0], [1, 1, 2, -4], [0, -3, -1, 4], [0, -4, 0, -3]]
WIDE = [[1, -2, 4, 4, -4], [-3, -3, -3, 1, -1], [0, -2, 4, 2, 1]]
FULL = [[4, 3, 3, 3, -4], [3, 4, -2, -3, -4], [3, 4, 1, 1, 3], [-4, 3, 4, -3, 4], [3, -2, 0, 3, 4]]
WEIGHTED = [[-3, 3, 1, -1], [-4, 2, -1, 3], [-1, 1, -3, 0], [-4, 2, -4, 2]]
SINK = [[4, 2, 2, 3], [-2, -1, -3, -4], [-1, 1, 4, -3], [4, 2, 0, -1]]
CAUSAL = [[3, 0, 0, 0, 0], [0, 3, 0, 0, 0], [2, 0, 1, 0, 0], [5, 5, 0, 0, 0], [0, 1, 4, 4, 3]]
THREE = [[0, 2, 0], [1, 0, 0], [0, 0, 3]]
RING = graph(5, [(i, (i + 1) % 5) for i in range(5)])
COMPLETE = graph(4, [(i, j) for i in range(4) for j in range(i)])
STAR = graph(5, [(0, i) for i in range(1, 5)])
BICLIQUE = graph(6, [(i, j) for i in range(3) for j in range(3, 6)])
LOWER, BAND = masks.lower_triangular(5), masks.band(5, 1)
PAIRS, CORNERS = masks.block_diagonal([2, 2]), masks.block_diagonal([1, 2], [2, 3])
SLASH = masks.vertical_slash(5, [0], [0, 1])

# name, A, mask, mode, outside, total, optimal orders (pairs), lower bounds as shares
CASES = [
    ("O1", THREE, masks.band(3, 0), "independent", 0, 14, 6, {}),
    ("O1", THREE, masks.band(3, 0), "common", 5, 14, None, {"G": 5 / 14}),
    ("O2", PATH, BAND, "common", 0, 8, 2, {}),
    ("O2", PATH, BAND, "independent", 0, 8, 44, {}),
    ("O3", RING, BAND, "common", 2, 10, 10, {"G": 0.2}),
    ("O3", RING, BAND, "independent", 0, 10, 10, {}),
    ("O4", COMPLETE, PAIRS, "common", 8, 12, 24, {"R": 1 / 3, "T": 1 / 3, "P": 1 / 3, "G": 2 / 3}),
    ("O4", COMPLETE, PAIRS, "independent", 4, 12, 96, {"R": 1 / 3}),
    ("O5", MIXED, PAIRS, "independent", 27, 100, 32, {"R": 0.07, "T": 0.2, "P": 0.179792}),
    ("O5", MIXED, PAIRS, "common", 39, 100, 8, {"G": 0.38}),
    ("O6", WIDE, CORNERS, "independent", 20, 107, 24, {"R": 0.112150, "T": 0.158879, "P": 0.139811}),
    ("O7", FULL, LOWER, "independent", 55, 253, 9, {"R": 0.217391, "T": 0.217391, "P": 0.164115}),
    ("O7", FULL, LOWER, "common", 63, 253, 3, {"G": 0.249012}),
    ("O8", STAR, masks.arrowhead(5, 1), "common", 0, 8, 24, {}),
    ("O8", STAR, masks.arrowhead(5, 1), "independent", 0, 8, 576, {}),
    ("O9", STAR, BAND, "common", 4, 8, 72, {"T": 0.125, "P": 0.02, "G": 0.25}),
    ("O9", STAR, BAND, "independent", 2, 8, 1152, {}),
    ("O10", cube(3), masks.band(8, 3), "common", 2, 24, 192, {}),
    ("O10", cube(3), masks.band(8, 4), "common", 0, 24, None, {}),
    (
        "O11",
        WEIGHTED,
        tridiagonal_weights(4),
        "independent",
        22.5,
        101,
        2,
        {"R": 0.146040, "T": 0.185644, "P": 0.141934},
    ),
    ("O11", WEIGHTED, tridiagonal_weights(4), "common", 31.5, 101, 2, {"G": 0.274752}),
    ("O12", BICLIQUE, masks.block_diagonal([3, 3]), "common", 10, 18, 648, {"G": 1 / 3}),
    ("O12", BICLIQUE, masks.bipartite(3, 3), "common", 0, 18, 72, {}),
    ("O13", SINK, masks.sink(4, 4, 1), "independent", 74, 111, 144, {"T": 2 / 3, "P": 2 / 3}),
    ("O13", SINK, masks.sink(4, 4, 1), "common", 74, 111, 6, {}),
    ("O14", CAUSAL, SLASH, "common", 17, 115, 4, {"G": 0.008696}),
    ("O14", CAUSAL, SLASH, "independent", 5, 115, 4, {}),
]
IDS = [f"{case[0]}-{case[3]}-{i}" for i, case in enumerate(CASES)]


def all_values(A, mask, mode):
    """f of every order (pair), straight from the definition."""
    B, W = np.square(np.array(A, dtype=float)), mask.penalty
    m, n = B.shape
    rows = np.array(list(itertools.permutations(range(m))))
    if mode == "common":
        return np.concatenate(
            [np.einsum("ij,kij->k", W, B[c[:, :, None], c[:, None]]) for c in np.array_split(rows, 20)]
        )
    columns = np.array(list(itertools.permutations(range(n))))
    return np.concatenate([(B[p].T @ W)[columns, np.arange(n)].sum(axis=1) for p in rows])


@pytest.mark.parametrize(("name", "A", "mask", "mode", "outside", "total", "count", "bounds"), CASES, ids=IDS)
@pytest.mark.parametrize("exact", ["auto", False])
def test_value_and_bounds(name, A, mask, mode, outside, total, count, bounds, exact):
    fit = pattern_distance(A, mask, order=mode, exact=exact, random_state=0)
    assert abs(fit.mass_outside - outside / total) <= 1e-12
    assert {k: v for k, v in fit.bounds.items() if k in bounds} == pytest.approx(bounds, abs=1e-6)
    assert fit.lower_bound == max(fit.bounds.values(), default=0) or fit.lower_bound == fit.mass_outside
    assert fit.lower_bound <= fit.mass_outside
    B = np.square(np.array(A, dtype=float))
    assert (mask.penalty * fit.reorder(B)).sum() == pytest.approx(outside, abs=1e-9)
    if exact == "auto" and max(B.shape) <= 7:
        assert fit.exact


@pytest.mark.parametrize(("name", "A", "mask", "mode", "outside", "total", "count", "bounds"), CASES, ids=IDS)
def test_enumeration_agrees(name, A, mask, mode, outside, total, count, bounds):
    values = all_values(A, mask, mode)
    assert values.min() == pytest.approx(outside, abs=1e-9)
    assert np.square(np.array(A, dtype=float)).sum() == total
    optimal = int((values <= values.min() + 1e-9).sum())
    assert count is None or optimal == count
    assert optimal % mask.aut_order(mode) == 0


@pytest.mark.parametrize(("case", "certified"), [("O1", True), ("O7", True), ("O13", True), ("O5", False)])
def test_certificates(case, certified):
    A, mask, mode = next(
        c[1:4] for c in reversed(CASES) if c[0] == case and (case != "O13" or c[3] == "independent")
    )
    assert pattern_distance(A, mask, order=mode).certified is certified
