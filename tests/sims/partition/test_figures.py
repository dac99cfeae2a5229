"""Figures show what the data functions return, and the data functions what the theory says."""

import numpy as np
import pytest
from helpers import curves

from porism.sims.partition import block_game, random_game, sample_table
from porism.sims.partition._drawing import KINDS, squash
from porism.sims.partition._level_figures import _jackpot_game
from porism.sims.partition.figure_data import (
    cutoff_radii,
    real_radii,
    robust_fractions,
    robust_k_fractions,
)
from porism.sims.partition.level_data import level_differences, sampled_differences, verdict_bounds
from porism.theory.partition import (
    BoundaryTieError,
    Semivalue,
    TopK,
    UtilityTable,
    certify_partition,
    semivalues,
)

SHAPLEY, BANZHAF = Semivalue.shapley(), Semivalue.banzhaf()


def numbers(ax):
    return [np.array(line.get_xydata()) for line in ax.lines]


def test_robust_fractions_count_certificates(draw):
    noises, seeds = [0.5, 3.0], 6
    found = robust_fractions(noises, KINDS, n=6, k=3, seeds=seeds, rng=4)
    streams = np.random.default_rng(4).integers(1 << 63, size=seeds)
    for row, noise in enumerate(noises):
        for column, sv in enumerate(KINDS.values()):
            tables = [block_game(6, 3, noise, int(stream)) for stream in streams]
            robust = [certify_partition(table, sv, TopK(3)).robust for table in tables]
            assert found[row, column] == np.mean(robust)
    assert found[1].max() > 0
    assert found[1].min() < 1


def test_noise(draw):
    lines = curves(draw("F1", 7))
    expected = robust_fractions([0, 1, 2, 3], KINDS, seeds=20, rng=7)
    for name, column in zip(KINDS, expected.T, strict=True):
        np.testing.assert_array_equal(lines[name].get_ydata(), column)
    assert (expected[:2] == 1).all()  # dominant
    assert (expected[2, 1] > np.delete(expected[2], 1)).all()  # Banzhaf
    assert len({line.get_marker() for line in lines.values()}) == len(KINDS)


@pytest.mark.full
def test_real_radii(draw, needs):
    needs("sklearn")
    kinds = {"Shapley": SHAPLEY, "Banzhaf": BANZHAF}
    found = real_radii("wine", "accuracy", kinds, seeds=5, rng=0)
    assert found.radius.shape == found.recall.shape == (5, 2)
    kept = ~np.isnan(found.radius)
    assert (found.radius[kept] >= 1).all()
    assert set(np.round(found.recall[kept] * 3, 9)) <= {0, 1, 2, 3}
    assert (found.ties == (~kept).sum(axis=0)).all()
    np.testing.assert_array_equal(found.median, np.nanmedian(found.radius, axis=0))
    ax = draw("F2", 3)
    rng = np.random.default_rng(3)
    expected = real_radii("breast_cancer", "soft", kinds, seeds=4, rng=rng)
    drawn = curves(ax)
    for column, name in enumerate(kinds):
        radius = expected.radius[:, column]
        assert drawn[name].get_ydata() == pytest.approx(np.sort(radius[~np.isnan(radius)]))
    assert drawn["median"].get_ydata()[0] == pytest.approx(expected.median[0])


@pytest.mark.full
def test_real_radii_see_ties_through_rounding(needs):
    """Accuracy of 3 validation points has few levels: ties are common, and must not be broken by 1/3."""
    needs("sklearn")
    from porism.sims.partition import flipped_world, knn_table

    found = real_radii("wine", "accuracy", {"B": BANZHAF}, n=6, flips=1, n_validation=3, k=4, seeds=30, rng=1)
    tied = 0
    for stream in np.random.default_rng(1).integers(1 << 63, size=30):
        world = flipped_world("wine", 6, 1, 3, int(stream))
        table = knn_table(world.X, world.y, world.X_val, world.y_val, 3)
        whole = np.round(3 * table.scores)
        whole[0] = 0
        try:
            certify_partition(UtilityTable.from_array(whole), BANZHAF, TopK(4))
        except BoundaryTieError:
            tied += 1
    assert found.ties.tolist() == [tied]
    assert tied > 3


@pytest.mark.full
def test_recall(draw):
    ax = draw("F6", 2)
    rng = np.random.default_rng(2)
    kinds = {"Banzhaf": BANZHAF, "Shapley": SHAPLEY}
    found = [
        real_radii(name, "soft", kinds, seeds=4, rng=rng) for name in ("breast_cancer", "digits01", "wine")
    ]
    radius = np.concatenate([result.radius.ravel() for result in found])
    dots = [line for line in ax.lines if line.get_linestyle() == "None" and line.get_markersize() < 7]
    assert sum(len(line.get_xdata()) for line in dots) == np.isfinite(radius).sum()
    mean = curves(ax)["mean of each fifth"].get_ydata()
    hits = np.concatenate([result.recall.ravel() for result in found])
    sizes = [len(part) for part in np.array_split(np.arange(np.isfinite(hits).sum()), 5)]
    assert np.dot(mean, sizes) / sum(sizes) == pytest.approx(np.nanmean(hits))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_witness(draw, seed):
    ax = draw("F3", seed)
    x, y = (np.concatenate([line.get_data()[axis] for line in ax.lines[:2]]) for axis in (0, 1))
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) > 0).all()
    side = next(other for other in ax.figure.axes if other is not ax)
    ends = {line.get_gid(): line.get_ydata() for line in side.lines}
    words = {text.get_text().split(": ")[1]: text.get_text().split(":")[0] for text in side.texts}
    chosen, other = ends[words["selected"]], ends[words["rejected"]]
    assert chosen[0] > other[0]
    assert chosen[1] < other[1]


@pytest.mark.parametrize("sv", list(KINDS.values()), ids=str)
def test_level_differences(sv):
    table = random_game(4, 7, rng=3)
    levels, found = level_differences(table, sv, [(0, 1), (3, 2)])
    assert levels.tolist() == np.unique(table.scores)[1:].tolist()
    for at, level in enumerate(levels):
        game = UtilityTable.from_array((table.scores >= level).astype(int))
        values = semivalues(game, sv, exact=True)
        assert found[:, at].tolist() == [float(values[0] - values[1]), float(values[3] - values[2])]


def test_level_differences_with_wide_weights():
    sv, table = Semivalue.beta(1, 32), random_game(12, rng=0)
    d = level_differences(table, sv, [(0, 1)])[1][0]
    values = semivalues(table, sv, exact=True)
    total = np.diff(np.unique(table.scores)) @ d
    assert total == pytest.approx(float(values[0] - values[1]), rel=1e-12)
    with pytest.raises(ValueError, match="j must be"):
        level_differences(table, sv, [(0, 12)])


def test_sampled_differences():
    table = block_game(6, 3, 1.5, rng=0)
    rows = sample_table(table, 4000, design="shapley-size", rng=1)
    levels, found, radius = sampled_differences(rows, [(0, 5), (1, 4)])
    members = rows.sampled.dense().astype(bool)
    only = [members[:, a] & ~members[:, b] for a, b in ((1, 4), (4, 1))]
    for at in (0, 7, len(levels) - 1):
        shares = [(rows.sampled.scores[side] >= levels[at]).mean() for side in only]
        assert found[1, at] == pytest.approx(shares[0] - shares[1], abs=1e-14)
    exact_levels, exact = level_differences(table, SHAPLEY, [(0, 5), (1, 4)])
    seen = np.isin(exact_levels, levels)
    gaps = np.abs(found[:, np.isin(levels, exact_levels)] - exact[:, seen]).max(axis=1)
    assert (gaps < radius).all()
    assert (radius < 0.2).all()
    prefixes = sample_table(table, 5, design="permutation", rng=1)
    with pytest.raises(ValueError, match="design='permutation'"):
        sampled_differences(prefixes, [(0, 1)])


def test_curves(draw):
    ax = draw("F4", 5)
    lines = curves(ax)
    marker = next(line for name, line in lines.items() if name.startswith("least D = −"))
    worst = next(line for name, line in lines.items() if name.startswith("worst"))
    assert marker.get_ydata()[0] == worst.get_ydata().min() < 0
    assert worst.get_drawstyle() == "steps-pre"
    for band, estimate, exact in zip(ax.collections, ax.lines[:4:2], ax.lines[1:4:2], strict=True):
        corners = band.get_paths()[0].vertices
        middle = (corners[:, 1].max() + corners[:, 1].min()) / 2
        assert corners[:, 1].min() < estimate.get_ydata().min() < corners[:, 1].max()
        assert middle == pytest.approx((estimate.get_ydata().max() + estimate.get_ydata().min()) / 2)
        assert corners[:, 1].min() < exact.get_ydata().min()
        assert exact.get_ydata().max() < corners[:, 1].max()


@pytest.mark.parametrize(("team", "least"), [(0, 0.0), (3, -0.25), (4, -0.125)])
def test_jackpot_game(team, least):
    table = _jackpot_game(8, 2, team)
    found = certify_partition(table, BANZHAF, TopK(2))
    assert found.members == (0, 1)
    assert min(float(found.level_margin), 0.0) == least
    bounds = verdict_bounds(table, 2, [500, 20_000], 0.05, rng=0)
    assert bounds.truth == least
    assert (bounds.lower <= least).all()
    assert (bounds.upper >= least).all()
    assert bounds.verdicts[1] == ("not_robust" if team else "undecided")


def test_verdicts(draw):
    ax = draw("F5", 1)
    marks = {tuple(line.get_gid().split(":")): line for line in ax.lines if line.get_gid()}
    assert len(marks) == 9
    assert {verdict for *_, verdict in marks} == {"robust", "not_robust", "undecided"}
    for look in ("get_marker", "get_color"):  # two ways to tell a verdict
        looks = {verdict: getattr(line, look)() for (*_, verdict), line in marks.items()}
        assert len(set(looks.values())) == 3
    truths = {"0": 0.0, "3": -0.25, "4": -0.125}
    bars = [
        line.get_ydata()
        for line in ax.lines
        if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2
    ]
    for (team, *_), (low, high) in zip(marks, bars, strict=True):
        assert low <= truths[team] <= high


def test_cutoff_radii():
    table = UtilityTable.from_array([0, 1, 1, 1, 4, 5, 5, 6, 4, 5, 5, 6, 9, 10, 10, 11])  # oracle O14
    assert cutoff_radii([table], BANZHAF, 2, [2]).tolist() == [[1.5]]
    assert cutoff_radii([table], SHAPLEY, 2, [2]).tolist() == [[pytest.approx(1 / 3)]]
    games = [block_game(6, 3, 1.5, rng=seed) for seed in range(3)]
    found = cutoff_radii(games, SHAPLEY, 3)
    assert found.shape == (3, 6)
    assert (found[:, 1:] <= found[:, :-1]).all()
    plain = [certify_partition(game, SHAPLEY, TopK(3)).slope_radius for game in games]
    assert found[:, 0].tolist() == plain


def test_cutoffs(draw):
    lines = curves(draw("F7", 9))
    rng = np.random.default_rng(9)
    games = [block_game(8, 4, 1.5, rng) for _ in range(4)]
    for name, sv in KINDS.items():
        middle = np.median(cutoff_radii(games, sv, 4, range(1, 8)), axis=0)
        np.testing.assert_array_equal(lines[name].get_ydata(), squash(middle))


def test_squash():
    assert squash([0.0, 1.0, np.inf]).tolist() == [0.0, 0.5, 1.0]
    assert (np.diff(squash(np.logspace(-3, 6, 30))) > 0).all()


def test_robust_k(draw):
    ax = draw("F8")
    shares = ax.images[0].get_array()
    rows = [label.get_text() for label in ax.get_yticklabels()]
    assert (shares[rows.index("leave-one-out")] == 1).all()  # one coalition decides a pair
    banzhaf = shares[rows.index("Banzhaf")]
    assert banzhaf[[2, 6]].min() > 0  # the steps between 2 and 1, and between 1 and 0
    assert (np.delete(banzhaf, [2, 6]) == 0).all()
    shown = np.array([float(text.get_text()) for text in ax.texts]).reshape(shares.shape)
    assert np.abs(shown - shares).max() <= 0.005 + 1e-12


def test_robust_k_fractions_are_means():
    games = [block_game(5, 2, 1.2, rng=seed) for seed in range(4)]
    found = robust_k_fractions(games, {"Shapley": SHAPLEY})
    expected = [
        np.mean([certify_partition(game, SHAPLEY, TopK(k)).robust for game in games]) for k in range(1, 5)
    ]
    assert found.tolist() == [expected]
