import os

import numpy as np
import pytest

from porism.sims.pandora import (
    MMLU_PRO_REFERENCES,
    SOURCES,
    agreement_estimates,
    apgr,
    arena_score,
    cross_fit,
    curve_over_seeds,
    has_data,
    load_dc9,
    load_mmlu_pro,
    load_routellm,
    load_routerarena,
    refinement_curve,
)

LOADERS = {
    "dc9": load_dc9,
    "mmlu_pro": load_mmlu_pro,
    "routellm": load_routellm,
    "routerarena": load_routerarena,
}


@pytest.fixture
def real():
    def load(name):
        if not has_data(name):
            pytest.skip(f"PORISM_DATA has no pandora/{SOURCES[name].file}")
        return LOADERS[name]()

    return load


@pytest.mark.parametrize("name", LOADERS)
def test_without_data_the_origin_is_named(name, tmp_path, monkeypatch):
    monkeypatch.delenv("PORISM_DATA", raising=False)
    assert not has_data(name)
    for folder in (None, tmp_path):
        with pytest.raises(FileNotFoundError) as caught:
            LOADERS[name](folder)
        text = str(caught.value)
        assert SOURCES[name].repository in text
        assert SOURCES[name].license in text
        assert "set PORISM_DATA to the folder that holds pandora/" in text
        assert str(tmp_path) not in text


@pytest.mark.parametrize("name", LOADERS)
def test_damaged_files(name, tmp_path):
    folder = tmp_path / "pandora"
    folder.mkdir()
    path = folder / SOURCES[name].file
    path.write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(ValueError, match=f"{path.name} is no npz file, or is damaged"):
        LOADERS[name](tmp_path)
    np.savez(path, score=np.eye(2), pred=np.ones((2, 2), int))
    with pytest.raises(ValueError, match=f"{path.name} has no array (features|answer)"):
        LOADERS[name](tmp_path)


def test_made_up_files_are_read(tmp_path):
    rng = np.random.default_rng(0)
    F = rng.normal(size=(5, 8)).astype(np.float16)
    np.savez(tmp_path / SOURCES["dc9"].file, score=rng.random((5, 2)), models=["a", "b"], features=F,
             prompt_chars=np.arange(5))  # fmt: skip
    matrix = load_dc9(tmp_path)
    assert matrix.features.shape == (5, 9)
    assert matrix.features[:, -1] == pytest.approx(np.log([1, 1, 2, 3, 4]))
    assert matrix.cheap_features == pytest.approx(np.column_stack([F[:, :6], matrix.features[:, -1]]))
    arrays = {
        "pred": np.array([[1, 255], [2, 2]], np.uint8), "answer": np.array([1, 2], np.uint8),
        "missing": np.array([[False, True], [False, False]]), "output_chars": np.ones((2, 2), np.int16),
        "models": ["a", "b"], "features": F[:2], "prompt_chars": np.array([10, 20]), "category": ["x", "y"],
    }  # fmt: skip
    np.savez(tmp_path / SOURCES["mmlu_pro"].file, **arrays)
    answers = load_mmlu_pro(tmp_path)
    assert answers.matrix().scores.tolist() == [[1, 0], [1, 1]]
    assert answers.matrix().known.tolist() == [[True, False], [True, True]]
    np.savez(tmp_path / SOURCES["mmlu_pro"].file, **(arrays | {"answer": np.ones(3)}))
    with pytest.raises(ValueError, match="is damaged: the shapes of its arrays do not fit"):
        load_mmlu_pro(tmp_path)
    np.savez(tmp_path / SOURCES["mmlu_pro"].file, **(arrays | {"answer": np.array(["1", "2"])}))
    with pytest.raises(ValueError, match="answer has the wrong type <U1"):
        load_mmlu_pro(tmp_path)


def test_unknown_set():
    with pytest.raises(ValueError, match="name must be one of 'dc9'"):
        has_data("squad", os.curdir)


# Sanity means as published, to their last digit


def test_dc9_means(real):
    matrix = real("dc9")
    means = [0.2352, 0.4500, 0.5078, 0.5626, 0.5026, 0.2671, 0.1538, 0.2774, 0.4228]
    assert matrix.rows(matrix.split == 1).means() == pytest.approx(means, abs=5e-5)
    assert matrix.scores.shape == (6108, 9)
    assert 6108 - len(np.unique(matrix.groups)) == 119
    assert np.isin(matrix.scores, (0, 1)).mean() == pytest.approx(0.97, abs=0.005)
    assert matrix.features.shape[1] == 65
    assert matrix.cheap_features.shape[1] == 7


def test_routellm_means(real):
    matrix = real("routellm")
    math = matrix.subset == "gsm8k"
    assert matrix.rows(~math).means() == pytest.approx([0.68081, 0.80580], abs=5e-6)
    assert matrix.rows(math).means() == pytest.approx([0.63836, 0.85671], abs=5e-6)
    for rows, best in ((~math, 1.28512), (math, 1.12491)):
        weak, strong = matrix.scores[rows].T
        assert apgr(strong - weak, weak, strong) == pytest.approx(best, abs=5e-6)
        assert apgr(np.zeros(len(weak)), weak, strong) == pytest.approx(0.5, abs=1e-12)


def test_routerarena_means(real):
    matrix = real("routerarena")
    assert matrix.means() == pytest.approx([0.52336, 0.69012], abs=5e-6)
    assert matrix.costs.mean(0) == pytest.approx([1.760e-4, 4.749e-5], rel=3e-4)
    score = arena_score(matrix.means(), 1000 * matrix.costs.mean(0))
    assert score[1] > score[0]
    assert len(np.unique(matrix.subset)) == 78


def test_mmlu_pro_counts(real):
    answers = real("mmlu_pro")
    assert answers.predictions.shape == (12032, 29)
    missing = dict(zip(answers.models, (~answers.known).sum(0).tolist(), strict=True))
    assert {name: count for name, count in missing.items() if count} == {
        "DeepSeek-Coder-V2": 1681, "gemini-1.5-flash-002": 20, "gemini-1.5-pro-002": 12}  # fmt: skip
    means = answers.matrix().means()
    assert means.max() == pytest.approx(0.70, abs=0.01)
    assert means.min() > 0.1  # above chance


@pytest.mark.full
def test_pb_17_marginal_calibration_is_not_enough(real):
    """Eight language models, three references: calibrated estimates that make routing worse."""
    found = agreement_estimates(real("mmlu_pro"), MMLU_PRO_REFERENCES)
    assert len(found.models) == 8
    assert found.fitted.report.slope == pytest.approx(1, abs=0.05)
    cheap, marginal, joint, boosted = found.chosen
    assert marginal.gain < -5 * marginal.gain_se
    assert "refine_harmful" in found.fitted.report.flags
    assert marginal.predicted - marginal.realised > 0.05
    assert marginal.realised < joint.realised < cheap.realised
    assert boosted.gain > 2 * boosted.gain_se
    assert boosted.predicted - boosted.realised > 3 * boosted.gap_se


@pytest.mark.full
def test_pb_18_pass_lines(real):
    """Mean over five seeds of the forest, five fixed folds: the lines of the specification."""
    curve, each = curve_over_seeds(
        real("dc9"), range(5), policies=("kg_sigma", "kg_joint", "threshold refined", "threshold all"),
        costs=(0.002, 0.0035, 0.004, 0.007, 0.01, 0.02), margins=(0.05, 0.1, 0.15, 0.2, 0.3),
    )  # fmt: skip
    assert curve.cheap == pytest.approx(0.6207, abs=2e-4)
    assert curve.oracle == pytest.approx(0.7969, abs=5e-5)
    assert curve.single_best == pytest.approx(0.6165, abs=5e-5)
    assert all(0.646 < one.exhaustive < 0.656 for one in each)
    assert curve.exhaustive_gain_se == pytest.approx(0.0040, abs=2e-4)
    assert curve.refinements_for("kg_joint", 0.90) <= 3.2
    assert curve.refinements_for("threshold all", 0.93) > 6
    for n in (3.3, 3.5, 3.7):
        assert curve.quality_at("kg_sigma", n) >= curve.quality_at("threshold all", n) + 0.005
    assert curve.quality_at("kg_joint", 3.5) >= curve.quality_at("threshold refined", 3.5)


@pytest.mark.full
def test_pb_18_random_refinement_is_below_cheap(real):
    matrix = real("dc9")
    curve = refinement_curve(
        matrix, cross_fit(matrix), policies=("random", "random joint"), picks=(1, 2, 3, 4)
    )
    assert (curve.quality[:4] < curve.cheap).all()
    assert curve.quality[7] > curve.cheap + 2 * curve.gain_se[7]
