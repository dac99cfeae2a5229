"""The report is the general law on principal components, and says where reuse is worse than nothing."""

import numpy as np
import pytest

from porism.results import Result
from porism.sims.subspace import digits_by_class, latent_covariance, sample_pair
from porism.theory.linalg import principal_angles
from porism.theory.subspace import ReuseReport, reuse_error_general, reuse_report

H2 = np.array([0.5, 0.1, 0.02])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    U, V = sample_pair(8, 2, [0.2, 0.9], rng)
    drawn = [
        rng.multivariate_normal(np.zeros(8), latent_covariance(W, (3, 1), 0.05), 60, method="eigh")
        for W in (U, V)
    ]
    return drawn[0] + 5, drawn[1] - 2


def test_by_hand(rows):
    found = reuse_report(*rows, 2, 0.9, H2)
    tops = [np.linalg.svd(x - x.mean(0))[2][:2].T for x in rows]
    C = np.cov(rows[1].T, ddof=0)
    assert found.angles == pytest.approx(principal_angles(*tops).angles, abs=1e-12)
    for latent, errors, kept in ((tops[0], found.reuse, found.kept), (tops[1], found.own, found.kept_own)):
        law = [reuse_error_general(latent, C, 0.9, h) for h in H2]
        assert errors == pytest.approx(law, rel=1e-10)
        assert kept == pytest.approx(np.trace(latent.T @ C @ latent) / np.trace(C))
    energy = [np.trace(np.linalg.inv(0.9 * C + h * np.eye(8))) for h in H2]
    assert found.score_energy == pytest.approx(energy, rel=1e-12)
    assert found.ratio == pytest.approx(found.reuse / energy, rel=1e-12)
    assert found.worse_than_zero.tolist() == (found.reuse > energy).tolist()
    assert (found.own <= found.reuse).all()


def test_schedules(rows):
    one, two = (reuse_report(*rows, 2, alpha2, H2) for alpha2 in (1 - H2, 0.5))
    assert one.alpha2 == pytest.approx(1 - H2)
    assert two.alpha2.tolist() == [0.5] * 3
    assert one.reuse[0] == two.reuse[0]


@pytest.mark.full
def test_digits(needs):
    """The numbers of the specification: 0.980, 109, 4134, and worse than predicting zero at h^2 = 0.02."""
    needs("sklearn")
    found = reuse_report(digits_by_class(0, 4), digits_by_class(5, 9), 10, 1 - H2, H2)
    assert np.degrees(found.angles[[0, -1]]) == pytest.approx([15, 73], abs=0.5)
    assert found.reuse == pytest.approx([0.980, 109, 4134], rel=1e-3)
    assert found.own == pytest.approx([0.102, 28, 1712], rel=6e-3)
    assert found.score_energy == pytest.approx([121, 503, 1822], rel=4e-3)
    assert found.worse_than_zero.tolist() == [False, False, True]


def test_shown_and_saved(rows, tmp_path, needs):
    found = reuse_report(*rows, 2, 1.0, H2)
    lines = found.summary().splitlines()
    assert lines[0].startswith("2 dimensions, angles ")
    assert len(lines) == 5
    assert [line.endswith("predicting 0") for line in lines[2:]] == found.worse_than_zero.tolist()
    found.save(tmp_path / "report.npz")
    back = Result.load(tmp_path / "report.npz")
    assert isinstance(back, ReuseReport)
    np.testing.assert_array_equal(back.reuse, found.reuse)
    needs("pandas")
    frame = found.to_frame()
    assert frame["reuse"].tolist() == found.reuse.tolist()
    assert frame.attrs["kept"] == found.kept


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"X_source": np.ones((5, 3))}, "same columns, got 3 and 8"),
        ({"X_source": np.ones((5, 8))}, "no variance"),
        ({"X_target": np.ones((1, 8))}, "X_target must have at least 2 rows"),
        ({"dim": 9}, "dim must be in 1..8"),
        ({"h2_grid": [0.1, 0.0]}, "h2 must be"),
        ({"h2_grid": 0.1}, "h2_grid must have 1 axes"),
        ({"alpha2": [0.5]}, "alpha2 must be a number or match h2_grid"),
        ({"alpha2": 1.5}, "alpha2 must be in"),
        ({"X_target": np.full((3, 8), np.nan)}, "X_target must be finite"),
    ],
)
def test_bad_input(rows, change, text):
    good = {"X_source": rows[0], "X_target": rows[1], "dim": 2, "alpha2": 1.0, "h2_grid": H2}
    with pytest.raises(ValueError, match=text):
        reuse_report(**good | change)
