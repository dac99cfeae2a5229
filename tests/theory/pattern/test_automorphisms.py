"""Orders of automorphism groups: closed forms and the search against full enumeration."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pattern import Mask, masks
from porism.theory.pattern._automorphisms import count


def square(n):
    """Every family of size n with every parameter."""
    yield from (masks.band(n, w) for w in range(n))
    yield from (masks.circulant_band(n, w) for w in range(n))
    yield from (masks.arrowhead(n, k) for k in range(1, n + 1))
    yield from (masks.hub(n, k) for k in range(1, n + 1))
    yield from (masks.sink(n, n, k) for k in range(1, n + 1))
    yield from (masks.bipartite(a, n - a) for a in range(1, n))
    yield from (masks.lower_triangular(n), masks.anti_diagonal(n), masks.checkerboard(n, n))
    yield from (masks.block_diagonal(sizes) for sizes in compositions(n))


def compositions(n):
    return [(k, *rest) for k in range(1, n) for rest in compositions(n - k)] + [(n,)]


def rectangular():
    for m, n in [(1, 1), (1, 4), (4, 1), (2, 3), (3, 4), (4, 3), (2, 5), (5, 4)]:
        yield masks.checkerboard(m, n)
        yield from (masks.sink(m, n, k) for k in range(1, n + 1))
    for sizes in [([1], [3]), ([1, 2], [2, 3]), ([2, 2], [1, 1]), ([1, 2], [2, 1]), ([2, 1, 2], [1, 2, 1])]:
        yield masks.block_diagonal(*sizes)
    for heights in [(0, 1, 2, 3), (3, 3, 0, 0), (2, 2, 4, 4), (4, 0, 4, 1)]:
        yield from (masks.staircase(4, n, heights) for n in (4, 5))


def stripes():
    yield from (
        masks.toeplitz(5, o, c) for o in ([0, 1], [0, 2], [-2, 2], [-1, 1], [3]) for c in (True, False)
    )
    yield from (masks.vertical_slash(5, [0], o) for o in ([0], [0, 1], [0, 2], [1]))
    yield masks.vertical_slash(5, [0, 4], [-1, 0], causal=False)


def check(brute, mask, mode):
    expected = len(brute.group(mask.S, mode))
    assert mask.aut_order(mode) == expected, (mask, mode)
    assert count(mask.S, mode) == expected, (mask, mode)


@pytest.mark.parametrize("n", range(1, 6))
def test_independent_orders_up_to_five(brute, n):
    for mask in square(n):
        check(brute, mask, "independent")


@pytest.mark.parametrize("n", range(1, 8))
def test_common_orders_up_to_seven(brute, n):
    for mask in square(n):
        check(brute, mask, "common")


def test_rectangles_stairs_and_stripes(brute):
    for mask in [*rectangular(), *stripes()]:
        check(brute, mask, "independent")
        if mask.shape[0] == mask.shape[1]:
            check(brute, mask, "common")


TABLE = {  # mask: (independent, common), written out from the formulas for larger sizes
    masks.band(9, 2): (2, 2),
    masks.band(9, 5): (2 * factorial(3) ** 2, 2 * factorial(3)),
    masks.anti_diagonal(5): (120, 8),
    masks.block_diagonal([2, 2, 3]): (2**2 * 2**2 * 6**2 * 2, 2 * 2 * 6 * 2),
    masks.block_diagonal([2, 2, 2], [1, 1, 3]): (2**3 * 6 * 2, None),
    masks.circulant_band(24, 3): (48, 48),
    masks.circulant_band(8, 3): (factorial(8), 2**4 * factorial(4)),
    masks.arrowhead(9, 2): (4 * factorial(7), 2 * factorial(7)),
    masks.hub(9, 2): (4 * factorial(7) ** 2, 2 * factorial(7)),
    masks.bipartite(3, 3): (6**4 * 2, 72),
    masks.checkerboard(4, 6): (2 * 2 * 6 * 6 * 2, None),
    masks.vertical_slash(5, [0], [0]): (24, 24),
    masks.toeplitz(5, [0, 1]): (1, 1),
    masks.lower_triangular(9): (1, 1),
    masks.sink(9, 9, 2): (factorial(9) * 2 * factorial(7), 2 * factorial(7)),
}


@pytest.mark.parametrize("mask", TABLE, ids=repr)
def test_table_of_formulas(mask):
    for mode, expected in zip(("independent", "common"), TABLE[mask], strict=True):
        if expected is not None:
            assert mask.aut_order(mode) == count(mask.S, mode) == expected
    assert mask.aut_order("none") == 1


@pytest.mark.parametrize("n", [8, 11, 12])
def test_search_agrees_with_every_formula_beyond_enumeration(n):
    for mask in square(n) if n < 11 else [*square(8), masks.band(n, 7), masks.circulant_band(n, 4)]:
        for mode in ("independent", "common"):
            assert mask.aut_order(mode) == count(mask.S, mode), (mask, mode)


def test_weights_are_compared_exactly():
    gap = abs(np.subtract.outer(range(4), range(4)))
    S = np.select([gap == 0, gap == 1], [1.0, 0.5], 0.0)
    assert [masks.from_array(S).aut_order(mode) for mode in ("independent", "common")] == [2, 2]
    S[0, 1] = np.nextafter(0.5, 1)
    mask = masks.from_array(S)
    assert [mask.aut_order(mode) for mode in ("independent", "common")] == [1, 1]
    assert not mask.is_automorphism([3, 2, 1, 0])


@pytest.mark.parametrize(
    "mask",
    [
        Mask(np.eye(3), "band"),
        Mask(np.eye(3), "band", {"n": 3, "w": 9}),
        Mask([[1, 1], [0, 1]], "band", {"n": 2, "w": 1}),
        Mask(np.eye(3), "block_diagonal", {"row_sizes": [1, 2], "col_sizes": 3}),
    ],
    ids=repr,
)
def test_a_name_alone_does_not_make_a_family(brute, mask):
    for mode in ("independent", "common"):
        assert mask.aut_order(mode) == len(brute.group(mask.S, mode))


def test_search_separates_what_refinement_cannot():
    # two triangles and a hexagon look alike to colour refinement; together they have 3!^2 * 2 * 12 symmetries
    triangle, hexagon = np.ones((3, 3)) - np.eye(3), np.zeros((6, 6))
    i = np.arange(6)
    hexagon[i, (i + 1) % 6] = hexagon[(i + 1) % 6, i] = 1
    S = np.zeros((12, 12))
    S[:3, :3] = S[3:6, 3:6] = triangle
    S[6:, 6:] = hexagon
    p = np.random.default_rng(0).permutation(12)
    assert count(S[np.ix_(p, p)], "common") == 6**2 * 2 * 12
    # directed cycles keep their sense: rotations only
    assert count(np.roll(np.eye(7), 1, axis=1), "common") == 7


def test_too_long_is_none():
    S = masks.toeplitz(40, [0, 3, 5]).S
    assert count(S, "independent", work=1000) is None
    assert masks.anti_diagonal(500).aut_order() == factorial(500)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_mask(brute, data):
    m, n = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    cells = data.draw(st.lists(st.sampled_from([0, 0.5, 1]), min_size=m * n, max_size=m * n))
    mask = masks.from_array(np.reshape(cells, (m, n)))
    for mode in ("independent", "common") if m == n else ("independent",):
        group = brute.group(mask.S, mode)
        assert mask.aut_order(mode) == len(group)
        assert all(mask.is_automorphism(g, h) for g, h in group)
    g, h = data.draw(st.permutations(range(m))), data.draw(st.permutations(range(n)))
    member = any(list(g) == list(a) and list(h) == list(b) for a, b in brute.group(mask.S, "independent"))
    assert mask.is_automorphism(g, h) == member
    if m == n:
        assert mask.is_automorphism(g) == mask.is_automorphism(g, g)
