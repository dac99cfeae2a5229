"""What the README shows runs, and says what it prints."""

import re

import pytest


def blocks(root):
    return re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)


def test_first_example(root, capsys):
    exec(compile(blocks(root)[0], "README", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    promised = re.search(r"summary\(\)\)\s*# (.*)", blocks(root)[0])[1]
    assert printed[0] == promised


@pytest.mark.full
def test_model_example(root, needs, tmp_path, monkeypatch):
    needs("sklearn")
    needs("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(blocks(root)[1], "README", "exec"), names)
    certificate = names["certificate"]
    certificate.verify(names["table"])
    assert certificate.verdict in ("robust", "not_robust")
    assert len(certificate.members) == 4


def test_pattern_example(root, capsys):
    names = {}
    exec(compile(blocks(root)[2], "README", "exec"), names)
    assert names["fit"].mass_outside < 0.05
    assert capsys.readouterr().out


def test_order_example(root, capsys):
    exec(compile(blocks(root)[3], "README", "exec"), {})
    assert capsys.readouterr().out.split() == ["True", "0.186041"]


@pytest.mark.full
def test_spectra_example(root, needs, capsys):
    needs("torch")
    needs("matplotlib").use("agg")
    names = {}
    exec(compile(blocks(root)[4], "README", "exec"), names)
    assert float(capsys.readouterr().out) > 0.99
    assert len(names["recorder"].history().steps) == 41


def test_routing_example(root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks(root)[5], "README", "exec"), {})
    promised = re.search(r"decision\.refined\)\s*# (.*)", blocks(root)[5])[1]
    assert promised in capsys.readouterr().out.splitlines()
    assert (tmp_path / "router.npz").exists()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::FutureWarning:transformers")
def test_alignment_example(root, needs, capsys):
    needs("transformers"), needs("peft")
    names = {}
    exec(compile(blocks(root)[6], "README", "exec"), names)
    assert capsys.readouterr().out.count("signal_not_detected") >= 4
    factors = [p for name, p in names["model"].named_parameters() if "lora_A" in name]
    assert len(factors) == 4
    for factor in factors:
        assert (factor @ factor.T - names["torch"].eye(4)).abs().max() < 1e-5
