"""Figures show what the data functions return, and the data functions what the theory says."""

import numpy as np
import pytest
from helpers import curves, panel

from porism.sims.pattern import planted_pattern, random_softmax
from porism.sims.pattern._families import family_cases
from porism.sims.pattern._figure_data import agreement, bound_tightness, hit_rates, recovery
from porism.sims.pattern._head_figure import noise_curve
from porism.sims.pattern._model_figures import low_rank_worlds, svd_errors
from porism.sims.pattern._peers import PEERS
from porism.sims.pattern._real_rows import REAL, real_rows
from porism.sims.pattern.figures import _outline
from porism.theory.pattern import masks, pattern_distance, pattern_lower_bound
from porism.theory.pattern.low_rank import pattern_plus_low_rank


def test_panels_stay_in_the_place_given():
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    from porism.sims.drawing import panels

    figure, (upper, lower) = pyplot.subplots(2, 1)
    found = panels(upper, 2, 2)
    assert found[0] is upper
    assert len(found) == 4
    figure.canvas.draw()
    assert min(axes.get_position().y0 for axes in found) >= lower.get_position().y1
    assert len({axes.get_position().bounds for axes in found}) == 4
    pyplot.close(figure)


def test_outline_encloses_the_cells():
    S = np.array([[1, 1, 0], [0, 0, 1]])
    edges = _outline(S)
    assert len(edges) == 6 + 4
    lengths = np.abs(np.diff(edges, axis=1)).sum(axis=(1, 2))
    assert (lengths == 1).all()
    ups = edges[edges[:, 0, 0] == edges[:, 1, 0]]  # area by the upright edges: each row ends where it began
    assert sorted(ups[:, 0, 0]) == [0, 2, 2, 3]


def test_families(draw):
    ax = draw("F1", 3)
    rng = np.random.default_rng(3)
    shown = {image.get_gid(): np.array(image.get_array()) for image in ax.images}
    words = [text.get_text() for text in ax.texts]
    cases = family_cases(12)
    assert len(shown) == 2 * len(cases)
    assert {mask.name for mask, _ in cases.values()} >= {
        "band",
        "hub",
        "checkerboard",
        "vertical_slash",
        "sink",
    }
    for name, (mask, order) in cases.items():
        A, truth = planted_pattern(mask, signal="sign", noise=0.15, order=order, random_state=rng)
        B = shown[f"{name}:recovered"] ** 2
        np.testing.assert_allclose(shown[f"{name}:shuffled"], np.abs(A))
        outside = (mask.penalty * B).sum() / B.sum()
        assert outside <= truth.mass_outside + 1e-12
        assert any(word.startswith(f"d² {outside:.3f}") for word in words)


def test_recovery():
    worlds = [(masks.band(8, 1), 0.0), (masks.band(8, 1), 3.0)]
    stay = {"stay": lambda A, mask: (np.arange(8), np.arange(8)), "RCM": PEERS["RCM of the top entries"][1]}
    found = recovery(worlds, stay, trials=4, rng=1)
    assert found[0].tolist() == [1, 0, 1]
    assert found[1].tolist() == [0, 0, 0]


def test_recovery_admits_symmetries():
    """Blocks may be found in another order."""
    swap = {"swap": lambda A, mask: (np.r_[2:4, 0:2], np.r_[2:4, 0:2])}
    A = planted_pattern(masks.block_diagonal([2, 2]), order="none", random_state=0)[0]
    assert A[0, 3] == 0
    found = recovery([(masks.block_diagonal([2, 2]), 0.0)], swap, trials=40, rng=0)[0]
    assert found[0] == 1
    assert found[1] == pytest.approx(1 / 3, abs=0.25)  # 8 of the 24 orders


@pytest.mark.full
def test_agreement(needs):
    needs("sklearn")
    mask = masks.block_diagonal([6, 6], [5, 5])
    found = agreement([(mask, 0.0), (mask, 9.0)], ["SpectralCoclustering"], trials=3, rng=0)
    assert found[0].tolist() == [1, 1]
    assert (np.abs(found[1]) < 0.6).all()


def test_hit_rates():
    shares, excess = hit_rates([4, 6], [0, "auto"], order="independent", matrices=3, rng=2)
    assert shares.shape == excess.shape == (2, 2)
    assert (shares[:, 1] >= shares[:, 0]).all()
    assert ((excess > 1e-9) == (shares < 1 - 1e-9)).all()
    assert hit_rates([5], ["auto"], matrices=3, rng=2)[0].tolist() == [[1.0]]


def test_bound_tightness():
    found = bound_tightness([8, 32], order="independent", matrices=1, rng=0)
    A = np.random.default_rng(0).standard_normal((8, 8))
    mask = masks.block_diagonal([2] * 4)
    best = pattern_distance(A, mask, n_restarts=4, random_state=0).mass_outside
    for kind, bound in pattern_lower_bound(A, mask).items():
        assert found[kind][0] == pytest.approx(bound / best)
    assert (found["T"] >= found["R"] - 1e-12).all()
    assert found["P"][0] < found["T"][0]
    assert found["P"][1] > found["T"][1]


def test_certificates(draw):
    ax = draw("F3", 0)
    assert (np.concatenate([line.get_ydata() for line in ax.lines]) <= 1 + 1e-12).all()
    assert (curves(ax)["common, default"].get_ydata() > 0.999).all()
    assert {*curves(panel(ax, "Gaussian, common"))} == {"R", "T", "P", "G"}
    looks = {(line.get_color(), line.get_marker()) for line in ax.lines}
    assert len(looks) == len(ax.lines)


def test_svd_errors():
    A = np.outer([1, 2, 3], [1, 0, 1, 1]) + np.eye(3, 4)
    parameters, errors = svd_errors(A)
    assert parameters.tolist() == [0, 6, 10, 12]
    U, s, V = np.linalg.svd(A, full_matrices=False)
    for rank, error in enumerate(errors):
        left = A - (U[:, :rank] * s[:rank]) @ V[:rank]
        assert error == pytest.approx((left**2).sum() / (A**2).sum(), abs=1e-12)


@pytest.mark.slow
@pytest.mark.full
def test_low_rank(draw):
    ax = draw("F4", 5)
    for name, (A, mask, order) in low_rank_worlds(5, np.random.default_rng(5)).items():
        fit = pattern_plus_low_rank(A, mask, 1, order=order, random_state=0)
        lines = curves(panel(ax, f"{name}, {len(A)}"))
        ours, svd = (lines[word].get_ydata() for word in ("pattern plus low rank", "low rank alone (SVD)"))
        np.testing.assert_allclose(ours, np.maximum(fit.path, 1e-4))
        np.testing.assert_allclose(svd[:2], np.maximum(fit.svd_path, 1e-4))
        assert (ours <= svd[:2]).all()
    alone = curves(ax)["pattern plus low rank"]
    assert (alone.get_ydata() == 1e-4).all()  # blocks are all there is


@pytest.mark.slow
@pytest.mark.full
def test_real_data(draw, needs):
    ax = draw("F5", 2)
    names = [label.get_text() for label in ax.get_yticklabels()]
    rows = real_rows(names, n_null=4, rng=2).values()
    found = [line for line in ax.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in found] == [row.observed for row in rows]
    shown = {text.get_text() for text in ax.texts}
    assert {f"{row.observed:.3f}".lstrip("0") for row in rows} <= shown
    assert "4 nulls" in shown  # no p-value from so few


@pytest.mark.full
def test_real_rows(needs):
    needs("networkx")
    (row,) = real_rows(["florentine: band 1"], n_null=3, rng=0).values()
    assert row.observed <= 0.45
    assert row.fit.lower_bound == pytest.approx(0.35, abs=1e-9)
    with pytest.raises(ValueError, match="names must be one of"):
        real_rows(["karate"])


@pytest.mark.full
def test_every_real_matrix_has_the_shape_of_its_mask(needs):
    for module in ("networkx", "sklearn"):
        needs(module)
    from porism.sims.pattern import load_matrix

    assert all(load_matrix(source)[0].shape == build().shape for source, build in REAL.values())


def test_noise_curve():
    found = noise_curve([0.0, 8.0], 16, 0)
    assert found["4 blocks, free"][0] == pytest.approx(0.75)
    assert found["band 3, as given"][0] == pytest.approx(1 - masks.band(16, 3).density)
    assert found["4 blocks, free"][1] < 0.2 < found["4 blocks, as given"][1]
    rng = np.random.default_rng(0)
    random_softmax(16, 0.0, random_state=rng)
    A = random_softmax(16, 8.0, random_state=rng)
    fit = pattern_distance(A, masks.band(16, 3), order="none")
    assert found["band 3, as given"][1] == fit.mass_outside


@pytest.mark.slow
@pytest.mark.full
def test_heads(draw):
    ax = draw("F6")
    grid = np.array(ax.images[0].get_array())
    assert grid.shape == (6, 12)
    keys = [text.get_text() for text in ax.get_legend().get_texts()]
    counted = [int(key.rsplit("(")[1].strip(")")) for key in keys]
    assert counted == [(grid == code).sum() for code in range(len(keys))]
    assert len(ax.texts) == (grid > 0).sum()
    shares = curves(panel(ax, "distances"))
    assert {"sink1", "sink4", "local"} <= set(shares)
    for name in ("sink1", "sink4", "local"):
        assert shares[name].get_ydata()[-1] == 1
        assert len(shares[name].get_xdata()) == 72
    blocks = panel(ax, "4 blocks of tokens")
    whole = [line.get_ydata()[0] for line in blocks.lines if line.get_marker() == "o"]
    nulls = [line.get_ydata() for line in blocks.lines if line.get_marker() == "_"]
    assert all(value > null.max() for value, null in zip(whole, nulls[::2], strict=True))  # PD-18
