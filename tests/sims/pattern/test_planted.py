import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.sims.pattern import adjusted_rand, noise_sweep, planted_pattern, random_softmax, size_sweep
from porism.sims.pattern.planted import PlantedTruth
from porism.theory.pattern import masks, pattern_distance

FAMILIES = [
    masks.band(6, 1), masks.block_diagonal([2, 4]), masks.arrowhead(6, 1), masks.lower_triangular(6),
    masks.hub(6, 2), masks.circulant_band(6, 1), masks.bipartite(2, 4), masks.block_diagonal([2, 3], [4, 2]),
]  # fmt: skip


@pytest.mark.parametrize("mask", FAMILIES, ids=lambda mask: mask.name)
@pytest.mark.parametrize("order", ["independent", "common", "none"])
def test_the_truth_undoes_the_shuffle(mask, order):
    if order == "common" and mask.S.shape[0] != mask.S.shape[1]:
        with pytest.raises(ValueError, match="order='common' needs a square mask"):
            planted_pattern(mask, order=order)
        return
    A, truth = planted_pattern(mask, order=order, random_state=3)
    shown = A[np.ix_(truth.row_order, truth.col_order)]
    assert np.array_equal(shown != 0, mask.S == 1)
    assert np.array_equal(A != 0, truth.source_mask() == 1)
    assert truth.mass_outside == 0
    if order == "common":
        assert np.array_equal(truth.row_order, truth.col_order)
    if order == "none":
        assert truth.row_order.tolist() == list(range(len(A)))
    assert pattern_distance(A, mask, order=order, random_state=0).mass_outside == pytest.approx(0, abs=1e-12)


def test_pd_11_recovery_modulo_symmetries():
    """Noiseless and generic: the optimum is the planted order, up to symmetries of the mask."""
    for mask in FAMILIES[:4]:
        A, truth = planted_pattern(mask, order="common", random_state=1)
        fit = pattern_distance(A, mask, order="common", random_state=0)
        assert truth.found_by(fit)
    wrong = pattern_distance(np.random.default_rng(0).normal(size=(6, 6)), mask, order="common")
    assert not truth.found_by(wrong)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), noise=st.floats(0, 2), rank=st.integers(0, 3), jitter=st.floats(0, 1))
def test_parts_add_up(seed, noise, rank, jitter):
    mask = masks.band(6, 1)
    A, truth = planted_pattern(
        mask, signal="sign", jitter=jitter, noise=noise, low_rank=rank, random_state=seed
    )
    assert np.linalg.matrix_rank(truth.low_rank) == rank
    rest = A - truth.signal - truth.low_rank
    assert np.abs(rest).max() <= 6 * noise + 1e-12
    if jitter == 0:
        assert set(np.abs(truth.signal[truth.source_mask() == 1])) == {1.0}
    shown = A[np.ix_(truth.row_order, truth.col_order)] ** 2
    assert truth.mass_outside == pytest.approx((mask.penalty * shown).sum() / shown.sum())
    again, _ = planted_pattern(
        mask, signal="sign", jitter=jitter, noise=noise, low_rank=rank, random_state=seed
    )
    assert np.array_equal(A, again)


def test_softmax():
    A = random_softmax(30, 2.0, random_state=0)
    assert A.sum(1) == pytest.approx(np.ones(30))
    assert random_softmax(5, 0.0).tolist() == np.full((5, 5), 0.2).tolist()
    C = random_softmax(30, 2.0, causal=True, random_state=0)
    assert not np.triu(C, 1).any()
    assert C.sum(1) == pytest.approx(np.ones(30))
    assert np.isfinite(random_softmax(9, 1e6, random_state=0)).all()
    # PD-17: the peakier the rows of pure noise, the less is outside
    outside = [
        pattern_distance(
            random_softmax(24, s, random_state=1), masks.block_diagonal([8] * 3), n_restarts=0
        ).mass_outside
        for s in (1.0, 3.0, 8.0)
    ]
    assert 2 / 3 > outside[0] > 2 * outside[1] > 4 * outside[2]


def test_sweeps():
    mask = masks.block_diagonal([4, 4])
    table = noise_sweep(mask, [0.0, 3.0], trials=2, random_state=0)
    assert table.recovered.tolist() == [True, True, False, False]
    assert table.ari[:2].tolist() == [1, 1]
    assert table.ari[2:].max() < 1
    assert table.noise.tolist() == [0, 0, 3, 3]
    assert table.trial.tolist() == [0, 1, 0, 1]
    assert (table.mass_outside <= table.truth_mass + 1e-9).all()
    assert (table.gap >= 0).all()
    given = noise_sweep(mask.S, [0.0, 3.0], trials=2, random_state=0)
    assert (given.mask[0], given.mass_outside.tolist()) == ("custom", table.mass_outside.tolist())
    sizes = size_sweep(
        lambda b: masks.band(b, 1), [5, 6], trials=1, noise=0.0, order="common", random_state=0
    )
    assert sizes.size.tolist() == [5, 6]
    assert np.isnan(sizes.ari).all()
    assert sizes.recovered.all()


@pytest.mark.full
def test_sweep_is_a_tidy_table(needs, tmp_path):
    needs("pandas")
    table = noise_sweep(masks.band(5, 1), [0.0], trials=2, order="common", random_state=0)
    frame = table.to_frame()
    assert frame.shape == (2, 10)
    assert list(frame["mask"]) == ["band", "band"]
    table.save(tmp_path / "t.npz")
    assert type(table).load(tmp_path / "t.npz").seconds.tolist() == table.seconds.tolist()
    _, truth = planted_pattern(masks.band(5, 1), random_state=0)
    truth.save(tmp_path / "truth.npz")
    assert PlantedTruth.load(tmp_path / "truth.npz").mask == truth.mask


@pytest.mark.full
def test_rand_index_is_that_of_sklearn(needs):
    reference = needs("sklearn.metrics").adjusted_rand_score
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = rng.integers(1, 20)
        a, b = rng.integers(0, 4, n), rng.integers(0, 3, n)
        assert adjusted_rand(a, b) == pytest.approx(reference(a, b), abs=1e-12)
    with pytest.raises(ValueError, match="b must be as long as a"):
        adjusted_rand([1], [1, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": -1}, "noise must be >= 0"),
        ({"jitter": np.nan}, "jitter must be finite"),
        ({"signal": "loud"}, "signal must be one of"),
        ({"low_rank": 9}, "low_rank must be in 0..6"),
        ({"order": "rows"}, "order must be one of"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        planted_pattern(masks.band(6, 1), **options)
