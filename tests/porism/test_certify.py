"""`porism certify`: exit codes, first lines, formats, files, and one line for whatever is wrong."""

import json
import subprocess
import sys

import pytest

from porism.cli import main
from porism.cli.certify import certify
from porism.cli.common import as_options
from porism.theory.partition import Certificate, UtilityTable

O1 = [0, 1, 3, 4]
O5 = [0, 5, 0, 7, 0, 7, 10, 12]
O14 = [0, 1, 1, 1, 4, 5, 5, 6, 4, 5, 5, 6, 9, 10, 10, 11]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    UtilityTable.from_array(O1).save("robust.npz")
    UtilityTable.from_array(O5).save("broken.csv")
    UtilityTable.from_array(O5).save("broken.json")
    lacking = [mask for mask in range(16) if mask != 1]
    UtilityTable.from_pairs(lacking, [O14[m] for m in lacking]).save("lacking.csv")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "lines"),
    [
        ("robust.npz --top-k 1", 0, ["ROBUST  k=1  margin=0  slope_radius=inf  score_margin=2"]),
        (
            "broken.csv --top-k 1",
            1,
            [
                "NOT ROBUST  k=1  margin=-1/2  slope_radius=1.66667  score_margin=-3",
                "witness: level=10 pair=(0,1) epsilon=1/4",
            ],
        ),
        (
            "broken.json --top-k 1 --shape concave",
            0,
            ["ROBUST  k=1  margin=-1/2  slope_radius=inf  score_margin=-3"],
        ),
        ("broken.csv --blocks 0/1,2 --max-slope-ratio 5/3", 2, None),
        (
            "broken.csv --threshold 1/3 --range-normalised",  # player 0 is worth 0 at level 10: 0 - (1/3)/12
            1,
            [
                "NOT ROBUST  k=3  margin=-1/36  slope_radius=none  score_margin=none",
                "witness: level=10 pair=(0) epsilon=1/27",
            ],
        ),
        (
            "broken.csv --blocks 0/1,2 --max-slope-ratio 1.6",
            0,
            ["ROBUST  k=1  margin=-1/2  slope_radius=1.66667  score_margin=-3"],
        ),
        (
            "lacking.csv --top-k 2 --missing range",
            3,
            ["UNDECIDED  k=2  margin=-1/3  slope_radius=1.5  score_margin=-1"],
        ),
        ("broken.csv --top-k 1 --small-below 2 --small-values size-only", 1, None),
    ],
)
def test_verdicts(folder, capsys, words, code, lines):
    assert main(["certify", *words.split()]) == code
    printed = capsys.readouterr()
    if lines is not None:
        assert printed.out.splitlines() == lines
        assert printed.err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Missing argument 'TABLE'"),
        ("nowhere.csv --top-k 1", "No such file"),
        ("broken.csv", "exactly one of --top-k"),
        ("broken.csv --top-k 1 --sign", "exactly one of --top-k"),
        ("broken.csv --top-k 9", ": --top-k must be in 1..n-1, got --top-k 9, n=3"),
        ("broken.csv --top-k 2", "same value"),
        ("broken.csv --top-k two", "--top-k"),
        ("broken.csv --threshold 1", "use --threshold 0, --above-mean, or --range-normalised"),
        ("broken.csv --threshold one", "--threshold must be a number"),
        ("broken.csv --blocks 0,1", "at least two"),
        ("broken.csv --blocks 0/1", "cover the players"),
        ("broken.csv --blocks a/b", "--blocks must look like"),
        ("broken.csv --top-k 1 --semivalue shap", "semivalue must be"),
        ("broken.csv --top-k 1 --semivalue wbanzhaf:2", "w must be in (0, 1)"),
        ("broken.csv --top-k 1 --small-values free", "--small-below"),
        ("broken.csv --top-k 1 --small-below 9", ": --small-below must be in 1..n"),
        (
            "broken.csv --top-k 1 --small-below 2 --small-values free --small-bounds 0,1",
            ": --small-bounds must be left out for --small-values free; use --small-values range",
        ),
        (
            "broken.csv --sign --small-below 2 --small-values monotone --small-bounds 0,1",
            "raise and --small-below 2, --small-values monotone, --small-bounds 0.0,1.0: only --sign",
        ),
        ("broken.csv --top-k 1 --max-slope-ratio 0.5", ": --max-slope-ratio must be at least 1"),
        ("broken.csv --top-k 1 --target population", "i.i.d. design"),
        ("broken.csv --top-k 1 --delta 5", "delta"),
        ("broken.csv --top-k 1 --decimals 400", ": --decimals must be in -308..308, got 400"),
        ("broken.csv --top-k 1 --decimals -400", ": --decimals must be in -308..308, got -400"),
        ("broken.csv --top-k 1 --max-players 99", "'--max-players'"),
        ("broken.csv --top-k 1 --missing no", ": --missing must be one of"),
        ("broken.csv --top-k 1 --ties weak --epsilon 1", ": --epsilon 1.0 needs --target population"),
        ("broken.csv --top-k 1 --plot a.xyz", "--plot must end in"),
        ("broken.csv --top-k 1 --json nowhere/c.json", "nowhere"),
        ("broken.json --top-k 1 --json broken.json", "broken.json is an input, and would be overwritten"),
        ("broken.csv --top-k 1 --json c.png --plot c.png", "c.png is asked for twice"),
        (
            "lacking.csv --top-k 2",
            "lacks 1 of 16 coalitions: {0}; evaluate them, or use --missing range or --target estimate\n",
        ),
        ("many.csv --top-k 1", "need 24 * 2**100 bytes; sample coalitions and use --target estimate\n"),
        ("junk.csv --top-k 1", "row 1 (line 3) must have 2 cells like the header, got 3; separate players"),
        ("text.csv --top-k 1", "coalition and score"),
        ("half.npz --top-k 1", "half.npz"),
        ("nan.csv --top-k 1", "score of coalition {0} is nan"),
        ("twice.csv --top-k 1", "two scores, 1.0 and 2.0 (row 2); set --on-duplicate mean"),
        ("table.xls --top-k 1", "must end in one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(folder, capsys, words, message):
    (folder / "text.csv").write_text("a,b\n1,2\n")
    (folder / "half.npz").write_bytes((folder / "robust.npz").read_bytes()[:60])
    (folder / "nan.csv").write_text("coalition,score\n,0\n0,nan\n1,1\n0 1,2\n")
    (folder / "twice.csv").write_text("coalition,score\n,0\n0,1\n0,2\n1,1\n0 1,2\n")
    (folder / "many.csv").write_text("coalition,score\n,0\n99,1\n")
    (folder / "junk.csv").write_text("coalition,score\n,0\n0,1,junk\n1,3\n0 1,4\n")
    (folder / "table.xls").write_text("")
    assert main(["certify", *words.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("porism certify: ")
    assert message in printed.err


def test_files(folder, capsys):
    assert main(["certify", "broken.csv", "--top-k", "1", "--json", "c.json", "--plot", "c.png"]) == 1
    certificate = Certificate.from_json(folder / "c.json")
    certificate.verify(UtilityTable.load("broken.csv"))
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert main(["certify", "broken.json", "--top-k", "1", "--json", "-"]) == 1
    printed = capsys.readouterr().out
    assert printed.strip() == (folder / "c.json").read_text().strip()
    assert json.loads(printed)["slope_radius"] == 5 / 3


def test_close_levels_are_a_line_on_stderr(folder, capsys):
    UtilityTable.from_array([0.0, 1.0, 3.0, 3.0 + 1e-14, 4.0, 5.0, 6.0, 9.0]).save("close.csv")
    main(["certify", "close.csv", "--top-k", "1"])
    printed = capsys.readouterr().err
    assert "warning: scores: 1 pairs of levels" in printed
    assert printed.endswith("pass --decimals\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("use masks=True or masks=False, not plot=None", "use --masks or no --masks, not no --plot"),
        ("pass C(decimals=2, tau=1/3).", "pass --decimals 2, --threshold 1/3."),
        ("range_normalised is wrong, as Sign is", "--range-normalised is wrong, as --sign is"),
        ("the ties of players, the plain C()", "the ties of players, the plain C()"),
        ("'missing=x.csv' and 'ties' stay, as table=3 and n_ties=1", None),  # files, arguments, other names
        ("--missing must stay", None),
    ],
)
def test_messages_name_options(text, expected):
    assert as_options(text, certify, {"tau": "--threshold", "Sign": "--sign"}) == (expected or text)


def test_module_form(folder):
    done = subprocess.run(
        [sys.executable, "-m", "porism", "certify", "robust.npz", "--top-k", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ROBUST  k=1")
