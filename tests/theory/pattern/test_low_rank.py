import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pattern import Mask, masks, pattern_distance
from porism.theory.pattern._completion import complete, truncate
from porism.theory.pattern.low_rank import PatternLowRankFit, pattern_plus_low_rank

O15 = np.array([[0, 1, 0, 2], [2, 0, 1, 0], [0, 3, 0, 1], [4, 0, 3, 0]])
O16 = np.ones((3, 3)) + np.diag([1, 2, 3])


def left_over(fit, A):
    return ((A - fit.reconstruct()) ** 2).sum() / (A**2).sum()


def test_o15_shuffled_blocks():
    fit = pattern_plus_low_rank(O15, masks.block_diagonal([2, 2]), 4, random_state=0)
    assert fit.path.tolist() == [0] * 5
    assert fit.svd_path == pytest.approx([1, 0.336309583, 0.045416918, 0.002976250, 0], abs=5e-10)
    assert left_over(fit, O15) < 1e-28


@pytest.mark.parametrize("order", ["independent", "common"])
def test_o16_diagonal_plus_ones(order):
    fit = pattern_plus_low_rank(O16, masks.band(3, 0), 2, order=order, random_state=0)
    assert fit.path == pytest.approx([6 / 35, 0, 0], abs=1e-12)
    assert fit.svd_path == pytest.approx([1, 0.223167703, 0.050150806], abs=5e-10)
    one = pattern_plus_low_rank(O16, masks.band(3, 0), 1, order=order, random_state=0)
    assert one.left @ one.right == pytest.approx(np.ones((3, 3)), abs=1e-6)
    assert one.reconstruct() == pytest.approx(O16, abs=1e-6)


@pytest.mark.filterwarnings("ignore::porism.theory.pattern.UninformativeMaskWarning")
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_pd_14(data):
    """E_r falls with r, is below e_r and d^2, and below (1 - |S| / mn) e_r where rows, columns are free."""
    m, n = data.draw(st.integers(2, 6)), data.draw(st.integers(2, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    A = rng.normal(size=(m, n))
    S = rng.random((m, n)) < data.draw(st.floats(0.05, 0.95))
    r = data.draw(st.integers(0, min(m, n)))
    fit = pattern_plus_low_rank(A, masks.from_array(S), r, random_state=0)
    assert fit.path[0] == pytest.approx(
        pattern_distance(A, S.astype(float), random_state=0).mass_outside, abs=1e-9
    )
    assert (np.diff(fit.path) <= 1e-15).all()
    assert (fit.path <= (1 - S.mean()) * fit.svd_path + 1e-12).all()
    assert (fit.path <= fit.path[0] + 1e-12).all()
    assert left_over(fit, A) == pytest.approx(fit.error, abs=1e-12)
    assert np.linalg.matrix_rank(fit.left @ fit.right, tol=1e-9) <= r


@pytest.mark.parametrize("order", ["common", "none"])
def test_pd_14_in_other_orders(order):
    rng = np.random.default_rng(3)
    for _ in range(4):
        A, S = rng.normal(size=(5, 5)), rng.random((5, 5)) < 0.4
        fit = pattern_plus_low_rank(A, masks.from_array(S), 3, order=order, random_state=0)
        assert (np.diff(fit.path) <= 1e-15).all()
        assert (fit.path <= fit.svd_path + 1e-12).all()
        assert left_over(fit, A) == pytest.approx(fit.error, abs=1e-12)
        if order == "common":
            assert fit.row_order.tolist() == fit.col_order.tolist()
        else:
            assert fit.row_order.tolist() == fit.col_order.tolist() == list(range(5))


def test_paths_agree():
    """The path of a small rank starts that of a larger one: monotone across calls too."""
    A = np.random.default_rng(0).normal(size=(8, 8))
    fits = [pattern_plus_low_rank(A, masks.band(8, 1), r, n_restarts=2, random_state=5) for r in (1, 3)]
    assert fits[0].path.tolist() == fits[1].path[:2].tolist()
    assert fits[0].error > fits[1].error > 0


def test_parameters_and_matched_rank():
    A = np.random.default_rng(0).normal(size=(6, 9))
    mask = masks.block_diagonal([3, 3], [4, 5])
    fit = pattern_plus_low_rank(A, mask, 1, random_state=0)
    assert fit.parameters == 27 + 14
    # 1 * 14 < 2 * 13 < 3 * 12 < 41 <= 4 * 11
    assert fit.matched_rank == 4
    tail = np.linalg.svd(A, compute_uv=False) ** 2
    assert fit.matched_svd_error == pytest.approx(tail[4:].sum() / tail.sum(), rel=1e-9)
    assert fit.svd_error == pytest.approx(tail[1:].sum() / tail.sum(), rel=1e-9)
    assert fit.beats_equal_rank
    assert fit.beats_equal_parameters == (fit.error < fit.matched_svd_error)
    assert fit.values.shape == (27,)
    text = fit.summary()
    assert "equal rank 1" in text
    assert "equal parameters (41, rank 4)" in text


def test_more_parameters_than_cells_match_the_full_rank():
    fit = pattern_plus_low_rank(O16, masks.lower_triangular(3), 2, random_state=0)
    assert (fit.matched_rank, fit.matched_svd_error, fit.beats_equal_parameters) == (3, 0.0, False)


def test_pd_15_separation():
    rng = np.random.default_rng(0)
    b, k = 6, 3
    n = b * k
    blocks = np.zeros((n, n))
    for i in range(k):
        blocks[b * i : b * i + b, b * i : b * i + b] = rng.normal(size=(b, b))
    A = blocks[rng.permutation(n)][:, rng.permutation(n)]
    mask = masks.block_diagonal([b] * k)
    assert np.linalg.matrix_rank(A) == n
    alone = pattern_plus_low_rank(A, mask, 0, random_state=0)
    assert alone.error == 0
    assert alone.matched_svd_error > 0.1
    fit = pattern_plus_low_rank(
        A + rng.normal(size=(n, 1)) @ rng.normal(size=(1, n)), mask, 1, random_state=0
    )
    assert fit.error < 1e-20
    assert fit.svd_error > 0.1
    assert fit.matched_svd_error > 0.01


@pytest.mark.full
@pytest.mark.slow
def test_pd_16_table(needs):
    """The pattern wins at equal rank always, at equal parameters on wine and not on breast cancer."""
    datasets = needs("sklearn.datasets")
    wine, cancer = (np.corrcoef(load().data.T) for load in (datasets.load_wine, datasets.load_breast_cancer))

    def run(C, make, r):
        return pattern_plus_low_rank(C, make(len(C)), r, random_state=0)

    def thirds(n):
        return masks.block_diagonal([len(part) for part in np.array_split(range(n), 3)])

    def band(n):
        return masks.band(n, 2)

    def diagonal(n):
        return masks.band(n, 0)

    # matrix, mask, rank, error found for the spec (an upper bound of the optimum), rival at equal parameters
    table = [
        (wine, thirds, 1, 0.0474, 0.0544),
        (wine, band, 1, 0.0316, 0.0544),
        (wine, band, 2, 0.0126, 0.0200),
        (wine, diagonal, 2, 0.035, 0.080),
        (cancer, thirds, 1, 0.0565, 0.0035),
        (cancer, band, 1, 0.102, 0.024),
        (cancer, masks.lower_triangular, 1, 0.030, 0.0008),
    ]
    for C, make, r, known, rival in table:
        fit = run(C, make, r)
        assert fit.error <= known * 1.02
        assert fit.error > known / 4
        assert fit.matched_svd_error == pytest.approx(rival, rel=0.07)
        assert fit.beats_equal_rank
        assert fit.beats_equal_parameters == (C is wine)


def test_scale_signs_and_dtype_change_nothing():
    A = np.random.default_rng(1).integers(-9, 10, (6, 6))
    mask = masks.band(6, 1)
    plain = pattern_plus_low_rank(A, mask, 2, random_state=0)
    for other, factor in ((A * 1e-200, 1e-200), (A * 1e150, 1e150), (A.astype(np.int8), 1)):
        fit = pattern_plus_low_rank(other, mask, 2, random_state=0)
        assert fit.error == pytest.approx(plain.error, rel=1e-6)
        assert np.isfinite(fit.values).all()
        apart = (A - fit.reconstruct() / factor) / 9
        assert (apart**2).sum() == pytest.approx(fit.error * (A / 9 * (A / 9)).sum(), rel=1e-6)


def test_the_ends_of_the_range_of_floats():
    A = np.full((4, 4), 1e308)
    fit = pattern_plus_low_rank(A, masks.band(4, 0), 1, random_state=0)
    assert np.isfinite(fit.values).all()
    # an entry of the residual is at most its norm, 4e308 (error)^(1/2), and rounding of two factors
    assert fit.reconstruct() == pytest.approx(A, rel=4 * fit.error**0.5 + 1e-14)


def test_small_integers_do_not_wrap_around():
    from scipy import sparse

    cells = ([0, 0, 1], [0, 0, 1])
    A = sparse.coo_array((np.array([100, 100, 1], np.int8), cells), shape=(2, 2))  # 200 at [0, 0]
    assert pattern_plus_low_rank(A, masks.band(2, 0), 0, order="none").values == pytest.approx([200, 1])


def test_sparse_input_and_the_input_is_left_alone():
    from scipy import sparse

    A = sparse.random(7, 7, 0.5, random_state=0, format="csr")
    before = A.toarray()
    fit = pattern_plus_low_rank(A, masks.band(7, 1), 1, random_state=0)
    assert np.array_equal(A.toarray(), before)
    assert fit.error == pattern_plus_low_rank(before, masks.band(7, 1), 1, random_state=0).error


def test_completion_never_raises_the_error():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A, outside = rng.normal(size=(7, 5)), rng.random((7, 5)) < 0.6
        for left, right in (truncate(A, 2), (np.zeros((7, 2)), np.zeros((2, 5)))):
            u, v = complete(A, outside, left, right, 2)
            assert u.shape == (7, 2)
            before, after = (((A - L)[outside] ** 2).sum() for L in (left @ right, u @ v))
            assert after <= before + 1e-14


def test_completion_recovers_low_rank():
    rng = np.random.default_rng(0)
    L = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 12))
    outside = ~np.eye(12, dtype=bool)
    A = np.where(outside, L, 50.0)
    u, v = complete(A, outside, *truncate(A, 2), 2)
    for _ in range(20):
        u, v = complete(A, outside, u, v, 2)
    assert u @ v == pytest.approx(L, abs=1e-6)


def test_saves_and_loads(tmp_path):
    fit = pattern_plus_low_rank(O16, masks.band(3, 0), 1, random_state=0)
    fit.save(tmp_path / "fit.npz")
    back = PatternLowRankFit.load(tmp_path / "fit.npz")
    assert back.reconstruct().tolist() == fit.reconstruct().tolist()
    assert (back.error, back.matched_rank, back.seed) == (fit.error, fit.matched_rank, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((O16, Mask(np.full((3, 3), 0.5)), 1), "^pattern_plus_low_rank needs a 0/1 mask"),
        ((O16, masks.band(3, 0), 4), r"^rank must be in 0..min\(m, n\)"),
        ((O16, masks.band(3, 0), -1), r"^rank must be in 0..min\(m, n\)"),
        ((O16 * np.nan, masks.band(3, 0), 1), "^A contains NaN or infinity at"),
        ((O16 * 0, masks.band(3, 0), 1), "^A has zero mass"),
        ((O16, masks.band(4, 0), 1), "^mask shape"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        pattern_plus_low_rank(*arguments)


def test_rank_must_be_whole():
    with pytest.raises(TypeError, match="rank must be an int"):
        pattern_plus_low_rank(O16, masks.band(3, 0), 1.0)
    with pytest.raises(ValueError, match="max_iter must be >= 1"):
        pattern_plus_low_rank(O16, masks.band(3, 0), 1, max_iter=0)
