"""Measures against their definitions and printed oracles; ranges and laws against search and kernels."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes, subspace_angles
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from porism.errors import NumericalWarning
from porism.theory.representation import Range, cka_after_addition, cka_range, similarity
from porism.theory.representation.similarity import KINDS

H = np.array([[1, 0, 2], [0, 1, 1], [1, 1, 0], [2, 0, 1], [0, 3, 1.0]])
Z = np.array([[1, 0], [0, 1], [0, 0], [1, 1], [0, 2.0]])
SEEDS = st.integers(0, 2**32 - 1)


def kernel(X, center=True):
    """Kernel with its rows and columns centred, by the definition."""
    K = X @ X.T
    J = np.eye(len(X)) - 1 / len(X)
    return J @ K @ J if center else K


def cosine(K, L):
    return np.vdot(K, L) / (np.linalg.norm(K) * np.linalg.norm(L))


def test_oracle_1():
    correlations = np.corrcoef(H.T) ** 2
    assert correlations[[0, 1, 0], [1, 2, 2]] == pytest.approx([0.5357142857, 0.0833333333, 0], abs=5e-11)
    both = cka_range(H)
    assert both.pair == (0, 2)
    assert both.lower == pytest.approx(0, abs=1e-30)
    one = [similarity(H, H[:, [j]]) for j in range(3)]
    assert one == pytest.approx([0.7301988358, 0.9308156181, 0.303526832], abs=5e-11)
    assert cka_range(H, H) == Range(pytest.approx(0.303526832, abs=5e-11), (2,))
    assert similarity(H, H * [1, 2, 0.5]) == pytest.approx(0.9564433645, abs=5e-11)


def test_oracle_2():
    found = [cka_after_addition(H, Z, t) for t in (1, 10, math.inf)]
    assert found == pytest.approx([0.9751113253, 0.6820976444, 0.6680459396], abs=5e-11)
    assert similarity(H, np.hstack([H, 10 * Z])) == pytest.approx(found[1], rel=1e-12)


# wide and narrow on both sides: kernels are taken in samples or in units
@pytest.mark.parametrize(("p", "q"), [(3, 4), (30, 2), (2, 30), (40, 50)])
@pytest.mark.parametrize("center", [True, False])
def test_definitions(p, q, center):
    rng = np.random.default_rng(p + q)
    common = rng.normal(size=(20, 2))
    X, Y = (common @ rng.normal(size=(2, k)) + rng.normal(size=(20, k)) + 1 for k in (p, q))
    assert similarity(X, Y, center=center) == pytest.approx(
        cosine(kernel(X, center), kernel(Y, center)), rel=1e-12
    )
    x, y = (M - M.mean(0) if center else M for M in (X, Y))
    wide = np.zeros((2, 20, max(p, q)))
    wide[0, :, :p], wide[1, :, :q] = x, y
    best = orthogonal_procrustes(*wide)[1] / (np.linalg.norm(x) * np.linalg.norm(y))
    assert similarity(X, Y, "procrustes", center) == pytest.approx(best, rel=1e-12)
    assert similarity(X, Y, "rsa", center) == pytest.approx(spearmanr(pdist(X), pdist(Y))[0], rel=1e-12)
    spans = [np.linalg.svd(M)[0][:, : np.linalg.matrix_rank(M)] for M in (x, y)]
    angles = subspace_angles(*spans)
    assert similarity(X, Y, "cca", center) == pytest.approx(np.mean(np.cos(angles) ** 2), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_of_itself_and_in_any_order(kind):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(12, 4)), rng.normal(size=(12, 3))
    assert similarity(X, X, kind) == pytest.approx(1, abs=1e-12)
    assert similarity(X, Y, kind) == pytest.approx(similarity(Y, X, kind), abs=1e-12)
    assert similarity(X, Y, kind) < 0.9
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    moved = 1e-120 * X @ turn + 1e-119  # rotation, factor and shift; no square underflows
    assert similarity(moved, Y, kind) == pytest.approx(similarity(X, Y, kind), abs=1e-9)
    assert similarity(1e160 * X, Y, kind) == pytest.approx(similarity(X, Y, kind), abs=1e-12)


def test_reading_only():
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(9, 4)))
    X.flags.writeable = False
    for kind in KINDS:
        similarity(X, X[:, ::-1], kind)
    cka_range(X, X)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 5), st.integers(0, 4))
def test_cca_depends_on_spans(seed, p, q):
    """PS-4: any invertible map of columns, and columns more on one side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, p))
    A = np.linalg.qr(rng.normal(size=(p, p)))[0] * np.exp(rng.uniform(-5, 5, p))
    # condition e^10 at most before columns are brought to unit length, times rounding
    Y = np.hstack([X @ A, rng.normal(size=(30, q))])
    assert similarity(X, Y, "cca") == pytest.approx(1, abs=1e-9)
    assert similarity(X, rng.normal(size=(30, p)), "cca") < 0.9


def test_cca_of_dependent_columns():
    """The smaller rank counts, not the number of columns."""
    X = np.random.default_rng(0).normal(size=(20, 3))
    twice = np.hstack([X, X @ np.ones((3, 2)), np.zeros((20, 1))])
    assert similarity(X, twice, "cca") == pytest.approx(1, abs=1e-12)
    assert similarity(twice, twice + 1, "cca") == pytest.approx(1, abs=1e-12)
    assert similarity(X, twice[:, :1], "cca") == pytest.approx(1, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(2, 6))
def test_no_scaling_below_the_range(seed, h):
    """PS-2, by whole kernels; and the pair, grown without bound, comes as close as one likes."""
    rng = np.random.default_rng(seed)
    X, other = rng.normal(size=(10, h)) * np.exp(rng.normal(size=h)), rng.normal(size=(10, 3))
    both, one = cka_range(X), cka_range(X, other)
    brute = min(np.corrcoef(X[:, i], X[:, j])[0, 1] ** 2 for i, j in itertools.combinations(range(h), 2))
    assert both.lower == pytest.approx(brute, abs=1e-12)
    for _ in range(20):
        r, s = np.exp(rng.normal(0, 3, size=(2, h)))
        K, L = kernel(X * r), kernel(X * s)
        assert cosine(K, L) >= both.lower - 1e-12
        assert cosine(K, kernel(other)) >= one.lower - 1e-12
    sizes = np.linalg.norm(X - X.mean(0), axis=0)
    ends = [X / sizes * np.where(np.arange(h) == k, 1.0, 1e-5) for k in both.pair]
    # the others weigh 1e-10 of the unit: a relative change of some 1e-10 h
    assert cosine(*map(kernel, ends)) == pytest.approx(both.lower, abs=1e-8)
    (k,) = one.pair
    end = X / sizes * np.where(np.arange(h) == k, 1.0, 1e-5)
    assert cosine(kernel(end), kernel(other)) == pytest.approx(one.lower, abs=1e-8)


def test_search_finds_the_range():
    """A minimiser over the logarithms of scales goes to the same place."""
    rng = np.random.default_rng(4)
    X, other = rng.normal(size=(12, 4)) + rng.normal(size=(12, 1)), rng.normal(size=(12, 3))

    def one_sided(logs):
        return cosine(kernel(X * np.exp(logs)), kernel(other))

    def two_sided(logs):
        return cosine(kernel(X * np.exp(logs[:4])), kernel(X * np.exp(logs[4:])))

    for goal, size, lower in ((one_sided, 4, cka_range(X, other).lower), (two_sided, 8, cka_range(X).lower)):
        found = min(minimize(goal, rng.normal(size=size), bounds=[(-8, 8)] * size).fun for _ in range(12))
        assert found >= lower
        assert found == pytest.approx(lower, abs=1e-5)


def test_range_of_one_unit():
    X = np.random.default_rng(0).normal(size=(6, 1))
    assert cka_range(X) == Range(1.0, (0, 0))


def test_range_is_saved(tmp_path):
    found = cka_range(H, H)
    found.save(tmp_path / "range.npz")
    assert Range.load(tmp_path / "range.npz") == found


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.floats(0, 1e6), st.integers(1, 8))
def test_law_of_additions(seed, t, m):
    """PS-3, by kernels of samples; the curve falls and stays above its limit."""
    rng = np.random.default_rng(seed)
    X, added = rng.normal(size=(9, 4)), rng.normal(size=(9, m)) * np.exp(rng.normal(0, 3))
    found = cka_after_addition(X, added, t)
    # the direct form carries t^4 in its norms; below 1e6 it is right to 1e-10
    assert found == pytest.approx(cosine(kernel(X), kernel(X) + t**2 * kernel(added)), abs=1e-10)
    limit = cka_after_addition(X, added, math.inf)
    assert limit == pytest.approx(similarity(X, added), abs=1e-12)
    assert limit - 1e-12 <= found <= 1 + 1e-12
    assert cka_after_addition(X, added, 2 * t) <= found + 1e-12


def test_additions_at_the_ends():
    assert cka_after_addition(H, Z, 0) == 1
    assert cka_after_addition(H, np.full((5, 2), 3.0), 1e3) == 1  # constant units have no kernel
    assert cka_after_addition(H, Z, 1e200) == pytest.approx(cka_after_addition(H, Z, math.inf), rel=1e-14)
    assert cka_after_addition(H, Z, 1e-200) == 1
    assert cka_after_addition(1e100 * H, 1e-100 * Z, 1e200) == pytest.approx(
        cka_after_addition(H, Z, 1), rel=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_constant_representations(kind, value):
    """0.1 is no binary fraction: its mean is off by rounding, and still nothing varies."""
    for one, two in ((np.full((5, 2), value), H), (H, np.full((5, 2), value))):
        with pytest.warns(NumericalWarning, match="same for all samples"):
            assert math.isnan(similarity(one, two, kind))
    with pytest.warns(NumericalWarning, match="same for all samples"):
        assert math.isnan(cka_after_addition(np.full((5, 2), value), Z, 1))


@pytest.mark.parametrize("sizes", [(1e150, 1, 1e-150), (1e-200, 1, 1e-200)])
def test_sizes_of_units_do_not_matter(sizes):
    """Squares of these entries leave the range of floats."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 3)), rng.normal(size=(9, 4))
    assert similarity(X * sizes, Y, "cca") == pytest.approx(similarity(X, Y, "cca"), rel=1e-12)
    for other in (None, Y):
        found, expected = cka_range(X * sizes, other), cka_range(X, other)
        assert (found.lower, found.pair) == (pytest.approx(expected.lower, rel=1e-12), expected.pair)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(KINDS), st.booleans())
def test_never_above_one(seed, kind, center):
    X = np.random.default_rng(seed).normal(size=(6, 4))
    assert 1 - 1e-12 <= similarity(X, X[:, ::-1] * 3, kind, center) <= 1


def test_constants_whose_mean_is_rounded():
    """The mean of seven times 0.2 / 0.3 is another number; what is left of the column is no signal."""
    flat = np.tile([0.2, 0.3], (7, 1))
    with pytest.warns(NumericalWarning, match="same for all samples"):
        assert math.isnan(similarity(flat, np.arange(14.0).reshape(7, 2), "cca"))
    with pytest.raises(ValueError, match="no constant column, got 2"):
        cka_range(flat)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: similarity(H, H[:4]), ValueError, r"X and Y .* got shapes \(5, 3\) and \(4, 3\)"),
        (lambda: similarity(H[:2], H[:2]), ValueError, "at least 3 rows"),
        (lambda: similarity(H[:, :0], H), ValueError, "1 column"),
        (lambda: similarity(H, H, "svcca"), ValueError, "kind must be one of"),
        (lambda: similarity(H[0], H), ValueError, "X must have 2 axes"),
        (lambda: similarity(H * np.nan, H), ValueError, "X must be finite"),
        (lambda: similarity(H + 1j, H), TypeError, "X must hold real numbers"),
        (lambda: cka_range(H[:2]), ValueError, "at least 3 rows"),
        (lambda: cka_range(H, H[:4]), ValueError, "H and other"),
        (
            lambda: cka_range(np.column_stack([H, np.full(5, 0.1)])),
            ValueError,
            "no constant column.* first at 3",
        ),
        (lambda: cka_range(H, np.ones((5, 2))), ValueError, "other must not be the same"),
        (lambda: cka_after_addition(H, Z[:3], 1), ValueError, "H and Z"),
        (lambda: cka_after_addition(H, Z, -1), ValueError, "scale must be >= 0"),
        (lambda: cka_after_addition(H, Z, math.nan), ValueError, "scale must be >= 0"),
        (lambda: cka_after_addition(H, Z, "1"), TypeError, "scale must be a real number"),
        (lambda: cka_after_addition(H, Z, True), TypeError, "scale must be a real number"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
