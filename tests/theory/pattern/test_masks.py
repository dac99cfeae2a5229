"""Masks against their definitions cell by cell; what they refuse; what they say about a matrix."""

import pickle

import numpy as np
import pytest

from porism.results import Result
from porism.theory.pattern import masks
from porism.theory.pattern.mask import Mask

DEFINITIONS = [
    (masks.band(5, 0), lambda i, j: i == j),
    (masks.band(6, 2), lambda i, j: abs(i - j) <= 2),
    (masks.circulant_band(7, 2), lambda i, j: min(abs(i - j), 7 - abs(i - j)) <= 2),
    (masks.arrowhead(6, 2), lambda i, j: i < 2 or j < 2 or i == j),
    (masks.hub(6, 2), lambda i, j: i < 2 or j < 2),
    (masks.lower_triangular(5), lambda i, j: j <= i),
    (masks.staircase(3, 5, [2, 0, 5]), lambda i, j: j < (2, 0, 5)[i]),
    (masks.anti_diagonal(5), lambda i, j: i + j == 4),
    (masks.bipartite(2, 3), lambda i, j: (i < 2) != (j < 2)),
    (masks.checkerboard(3, 4), lambda i, j: (i + j) % 2 == 0),
    (masks.sink(3, 5, 2), lambda i, j: j < 2),
    (masks.block_diagonal([2, 1], [1, 3]), lambda i, j: (i < 2) == (j < 1)),
    (masks.block_diagonal([2, 1, 1]), lambda i, j: max(i - 1, 0) == max(j - 1, 0)),
    (masks.toeplitz(5, [2, -1]), lambda i, j: i - j in (2, -1)),
    (masks.toeplitz(5, [2, 0, -1], causal=True), lambda i, j: i - j in (2, 0)),
    (masks.vertical_slash(5, [0, 3], [1]), lambda i, j: (j in (0, 3) or i - j == 1) and j <= i),
    (masks.vertical_slash(5, [3], [-1], causal=False), lambda i, j: j == 3 or i - j == -1),
]


@pytest.mark.parametrize(("mask", "free"), DEFINITIONS, ids=lambda value: getattr(value, "name", ""))
def test_families_cell_by_cell(mask, free):
    m, n = mask.shape
    expected = [[float(free(i, j)) for j in range(n)] for i in range(m)]
    assert mask.S.tolist() == expected
    assert mask.penalty.tolist() == (1 - mask.S).tolist()
    assert mask.density == pytest.approx(np.mean(expected), abs=1e-15)
    assert mask.binary


def test_every_family_has_a_case():
    families = set(masks.__all__) - {"Mask", "from_array"}
    assert {mask.name for mask, _ in DEFINITIONS} == families


def test_weights_are_squared_in_the_penalty():
    mask = masks.from_array([[1, 0.5], [0.25, 0]])
    assert mask.penalty.tolist() == [[0, 0.25], [0.5625, 1]]
    assert mask.density == 0.4375
    assert not mask.binary


def test_classes_number_equal_rows_and_columns():
    mask = masks.from_array([[0, 1, 0, 0.5], [1, 0, 1, 0], [0, 1, 0, 0.5]])
    assert mask.row_classes.tolist() == [0, 1, 0]
    assert mask.col_classes.tolist() == [0, 1, 0, 2]
    assert masks.from_array([[0.0, 1], [-0.0, 1]]).row_classes.tolist() == [0, 0]


def test_a_mask_is_a_copy_and_cannot_be_written():
    S = np.eye(2)
    mask = masks.from_array(S)
    S[0, 1] = 7
    assert mask.S[0, 1] == 0
    for array in (mask.S, mask.penalty):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1


@pytest.mark.parametrize("mask", [masks.block_diagonal([1, 2], [2, 3]), masks.from_array([[0.1, 1]])])
def test_a_mask_survives_files_and_pickle(mask, tmp_path):
    mask.save(tmp_path / "mask.npz")
    for copy in (Result.load(tmp_path / "mask.npz"), pickle.loads(pickle.dumps(mask))):
        assert copy == mask
        assert hash(copy) == hash(mask)
        assert copy.penalty.tolist() == mask.penalty.tolist()
        assert copy.aut_order() == mask.aut_order()
    assert mask != masks.band(3, 1)
    assert mask != "mask"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: masks.band(4, 4), "bandwidth w must be in 0..n-1, got w=4, n=4"),
        (lambda: masks.band(4, -1), "bandwidth w must be in 0..n-1, got w=-1"),
        (lambda: masks.circulant_band(4, 4), "bandwidth w must be in 0..n-1"),
        (lambda: masks.arrowhead(4, 0), "k must be in 1..n, got k=0, n=4"),
        (lambda: masks.hub(4, 5), "k must be in 1..n"),
        (lambda: masks.sink(9, 4, 5), "k must be in 1..n, got k=5, n=4"),
        (lambda: masks.band(0, 0), "n must be >= 1"),
        (lambda: masks.staircase(3, 4, [1, 2]), "heights must have one entry per row, got 2 for m=3"),
        (lambda: masks.staircase(2, 4, [1, 5]), "heights must be in 0..4, got 5"),
        (lambda: masks.toeplitz(4, [4]), "offsets must be in -3..3, got 4"),
        (lambda: masks.vertical_slash(4, [4], [0]), "columns must be in 0..3, got 4"),
        (lambda: masks.block_diagonal([]), "row_sizes must name at least one block"),
        (lambda: masks.block_diagonal([2, 0]), "row_sizes must be >= 1"),
        (lambda: masks.block_diagonal([2], [1, 1]), "row_sizes and col_sizes must have one entry per block"),
        (lambda: masks.from_array([[0, 1.5]]), r"mask values must lie in \[0, 1\], got 1.5 at \[0, 1\]"),
        (lambda: masks.from_array([[-1e-9]]), r"mask values must lie in \[0, 1\]"),
        (lambda: masks.from_array([[0, np.nan]]), r"mask values must lie in \[0, 1\], got nan"),
        (lambda: masks.from_array([0, 1]), r"mask must be 2-D and not empty, got shape \(2,\)"),
        (lambda: masks.from_array(np.zeros((0, 3))), r"mask must be 2-D and not empty, got shape \(0, 3\)"),
        (lambda: Mask([[1, 0], [1]]), "mask must be 2-D, got rows of unequal length"),
        (lambda: masks.band(3, 1).is_automorphism([0, 1]), "p must be a permutation of 0..2"),
        (lambda: masks.band(3, 1).is_automorphism([0, 1, 1]), "p must be a permutation of 0..2"),
        (lambda: masks.sink(2, 3, 1).is_automorphism([0, 1], [0, 1, 3]), "q must be a permutation of 0..2"),
        (lambda: masks.band(3, 1).is_automorphism([[0], [1, 2]]), "p must be a permutation of 0..2"),
        (lambda: masks.from_array([[1, 0], [1]]), "mask must be 2-D, got rows of unequal length"),
        (lambda: Mask(np.ma.masked_array(np.eye(2), mask=np.eye(2))), "mask values must .* got nan"),
        (lambda: masks.sink(2, 3, 1).aut_order("common"), "mode='common' needs a square mask, got"),
        (lambda: masks.band(3, 1).aut_order("pairs"), "mode must be one of 'independent', 'common', 'none'"),
    ],
)
def test_bad_masks_are_refused(make, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make()


@pytest.mark.parametrize("bad", [2.0, True, "2"])
def test_sizes_are_ints(bad):
    with pytest.raises(TypeError, match=r"^w must be an int"):
        masks.band(5, bad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: masks.from_array([["a"]]), "mask must hold real numbers"),
        (lambda: masks.block_diagonal(3), "row_sizes must be a sequence of ints, got 3"),
        (lambda: masks.staircase(2, 3, 1), "heights must be a sequence of ints, got 1"),
        (lambda: masks.toeplitz(3, 1), "offsets must be a sequence of ints, got 1"),
        (lambda: masks.vertical_slash(3, "0", [0]), "columns must be an int, got str '0'"),
    ],
)
def test_what_is_no_sequence_of_numbers_is_refused(make, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        make()


def test_numpy_ints_are_ints():
    mask = masks.sink(*np.array([3, 4, 2]))
    assert mask == masks.sink(3, 4, 2)
    assert {type(value) for value in mask.params.values()} == {int}


def test_informative_names_the_triangle_trap():
    triangle, rng = masks.lower_triangular(6), np.random.default_rng(0)
    A = rng.normal(size=(6, 6))
    assert triangle.informative(A, "common")
    assert not triangle.informative(A + A.T, "common")
    assert triangle.informative(A + A.T, "independent")
    assert not masks.band(6, 0).informative(A, "common")
    assert masks.band(6, 0).informative(A, "independent")
    assert masks.band(6, 2).informative(A, "none")
    assert not masks.band(6, 5).informative(A, "none")
