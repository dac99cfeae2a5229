import json

import pytest

from porism.cli import main

pytestmark = pytest.mark.full


@pytest.fixture
def pair(fake, needs):
    needs("nbclient")
    needs("jupytext")
    return fake / "99_fake.ipynb"


def build(pair):
    return main(["notebooks", str(pair.parent), "--scale", "smoke"])


def test_the_pair_is_executed_clean_and_the_same_each_time(pair):
    assert build(pair) == 0
    text = pair.read_text()
    notebook = json.loads(text)
    printed = "".join(notebook["cells"][1]["outputs"][0]["text"])
    assert printed == "smoke file.txt <object object at 0x0>\n"
    assert len(notebook["cells"][1]["outputs"]) == 1, "stderr is left out"
    assert "<table>" in "".join(notebook["cells"][2]["outputs"][0]["data"]["text/html"])
    assert [cell["id"] for cell in notebook["cells"]] == ["cell-01", "cell-02", "cell-03"]
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    build(pair)
    assert pair.read_text() == text


def test_check_finds_a_pair_out_of_step(pair, capsys):
    script = pair.with_suffix(".py")
    check = ["notebooks", str(pair.parent), "--check"]
    assert main(check) == 1
    build(pair)
    assert main(check) == 0
    script.write_text(script.read_text() + "\n# %%\n1 + 1\n")
    capsys.readouterr()
    assert main(check) == 1
    assert capsys.readouterr().out == "99_fake.py and its .ipynb are out of step; run `porism notebooks`\n"


def test_a_failing_cell_leaves_the_old_pair_and_costs_no_other(pair, capsys):
    build(pair)
    old = pair.read_bytes()
    pair.with_suffix(".py").write_text("# %%\n1 / 0\n")
    pair.with_name("98_other.py").write_text("# %%\nprint('fine')\n")
    capsys.readouterr()
    assert build(pair) == 1
    assert pair.read_bytes() == old
    assert capsys.readouterr().out == "failed: 99_fake.py: ZeroDivisionError: division by zero\n"
    assert "fine" in pair.with_name("98_other.ipynb").read_text(), "the others go on"


def test_a_cell_that_raises_without_a_word_has_its_kind(pair, capsys):
    pair.with_suffix(".py").write_text("# %%\nassert False\n")
    assert build(pair) == 1
    assert capsys.readouterr().out == "failed: 99_fake.py: AssertionError\n"


def test_too_large(pair, capsys):
    pair.with_suffix(".py").write_text("# %%\nprint('x' * 2_000_000)\n")
    assert build(pair) == 1
    said = capsys.readouterr().out
    assert said.startswith("failed: 99_fake.py: ValueError: 99_fake.ipynb must have at most 1500000 bytes")
    assert not pair.exists()
