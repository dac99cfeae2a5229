import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from porism.__main__ import run
from porism.cli import app, main
from porism.cli.common import check_outputs

VERBS = [command.name for command in app.registered_commands]


@pytest.fixture
def call(fake, capsys):
    def run(*words):
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_version_and_help(call):
    import porism

    assert call("--version") == (0, f"porism {porism.__version__}\n", "")
    code, out, _ = call()
    assert code == 0
    assert all(verb in out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_ends_with_an_example(call, verb):
    """The example stands at the end of the description, and its options exist."""
    code, out, _ = call(verb, "--help")
    command = next(c for c in app.registered_commands if c.name == verb)
    example = command.callback.__doc__.strip().splitlines()[-1].strip()
    assert code == 0
    assert example.startswith(f"Example: porism {verb}")
    assert " ".join(example.split()) in " ".join(out.split())
    assert all(word in out for word in example.split() if word.startswith("--"))


def test_claims(call):
    code, out, err = call("claims", "fake", "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert [row["id"] for row in rows] == ["FK-1", "FK-2", "FK-10"]
    assert set(rows[0]) == {"id", "module", "kind", "statement", "source", "control"}
    code, out, _ = call("claims", "fake")
    assert out.splitlines()[2].split() == ["FK-2", "theorem", "One", "is", "one."]


def test_check(call):
    code, out, err = call("check", "FK-2", "FK-10", "--seed", "3")
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split()[:6] == ["FK-2", "theorem", "holds", "1", "1", "0"]
    assert lines[2].split()[:3] == ["FK-10", "refuted", "refuted"]
    assert lines[-1] == "2 of 2 claims came out as stated"
    assert "claims" in err


def test_check_json_goes_to_stdout_alone(call):
    code, out, _ = call("check", "fake", "--json")
    assert code == 0
    assert [row["verdict"] for row in json.loads(out)] == ["holds", "holds", "refuted"]


def test_check_exits_1_when_a_claim_fails(call, fake):
    from porism.claims import Evidence, claim
    from porism.sims import ledger

    ledger("fake")

    def never(scale, rng, broken=False):
        return Evidence(False, 0.0, 1.0, 0.0, "none")

    never.__module__ = "porism.sims.fake.claims"
    claim("FK-3", kind="theorem", source="s", statement="t", control="c")(never)
    code, out, _ = call("check", "fake")
    assert code == 1
    assert "3 of 4 claims" in out


def test_bench(call, tmp_path):
    code, out, _ = call("bench", "fake", "--out", str(tmp_path / "bench.json"))
    assert code == 0
    assert out.splitlines()[1].split() == ["sum", "builtin", "3", "0.5", "s", "1", "s", "2", "0"]
    assert out.splitlines()[2].endswith("absent is not installed")
    rows = json.loads((tmp_path / "bench.json").read_text())
    assert [row["peer"] for row in rows] == ["builtin", "absent"]
    assert rows[0]["module"] == "fake"
    rows = json.loads(call("bench", "fake", "fake", "--json")[1])  # a module named twice runs once
    assert [row.get("ratio") for row in rows] == [2.0, None]


def test_a_task_that_raises_costs_no_other(call, fake):
    from porism.sims.fake import benchmarks

    def odd():
        raise RuntimeError("no luck")

    rows = [odd, *benchmarks.BENCHMARKS, lambda: {"task": "bytes", "ours": 1, "theirs": [np.inf]}]
    benchmarks.BENCHMARKS[:] = rows
    code, out, _ = call("bench", "fake")
    assert code == 1
    assert out.splitlines()[1].split(maxsplit=1) == ["odd", "RuntimeError: no luck"]
    found = json.loads(call("bench", "fake", "--json")[1])
    assert found[1]["ratio"] == 2.0
    assert found[3]["theirs"] == ["inf"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "FK-22"), "porism check: no claim or module 'FK-22'; near it: FK-2"),
        (("check", "zzz"), "porism check: no claim or module 'zzz'; `porism claims` lists them"),
        (("claims", "fak"), "porism claims: no claim or module 'fak'; near it: fake"),
        (
            ("check", "fake", "--scale", "huge"),
            "porism check: scale must be one of 'smoke', 'paper', got str 'huge'",
        ),
        (("check", "--seed", "x"), "porism check: Invalid value for '--seed'"),
        (("check", "--seed", "-1"), "porism check: Invalid value for '--seed'"),
        (("check", "fake", "--scheduler", "x", "--workers", "2"), "porism check: workers must be 1 beside a"),
        (("check", "--nope"), "porism check: No such option: --nope"),
        (("bench", "nothing"), "porism bench: MODULE must be one of"),
        (("bench", "fake", "--out", "nowhere/bench.json"), "porism bench: [Errno 2]"),
        (("reproduce", "nothing"), "porism reproduce: MODULE must be one of"),
        (("reproduce", "fake", "--notebooks", "nowhere"), "porism reproduce: [Errno 2]"),
        (("notebooks", "nowhere"), "porism notebooks: [Errno 2]"),
        (("frobnicate",), "porism: No such command 'frobnicate'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(call, words, message):
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("two\n  lines"), 2, "porism claims: two lines\n"),
        (ValueError(), 2, "porism claims: ValueError\n"),
        (
            MemoryError("Unable to allocate 8 GiB"),
            2,
            "porism claims: not enough memory: Unable to allocate 8 GiB\n",
        ),
        (
            PermissionError(13, "Permission denied", "a.npz"),
            2,
            "porism claims: [Errno 13] Permission denied: 'a.npz'\n",
        ),
        (
            ZeroDivisionError("by zero"),
            70,
            "porism claims: ZeroDivisionError: by zero (set PORISM_DEBUG=1 for the traceback)\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (EOFError(), 70, None),
    ],
)
def test_every_error_is_one_line(call, monkeypatch, error, code, message):
    def fail(names):
        raise error

    monkeypatch.setattr("porism.cli.claims.select", fail)
    got, out, err = call("claims")
    assert (got, out) == (code, "")
    assert message is None or err == message


def test_a_missing_extra_is_named(call, fake, monkeypatch):
    monkeypatch.setitem(sys.modules, "nbclient", None)
    code, out, err = call("notebooks", str(fake), "--scale", "smoke")
    assert (code, out) == (2, "")
    message = (
        "porism notebooks: nbclient is not installed; it needs the extra 'lab': pip install 'porism[lab]'"
    )
    assert err.splitlines()[-1] == message


def test_debug_shows_the_traceback(call, monkeypatch):
    monkeypatch.setenv("PORISM_DEBUG", "1")
    with pytest.raises(ValueError, match="no claim or module"):
        call("check", "zzz")


def test_module_runs_as_the_program(tmp_path):
    for words in (["--version"], ["claims", "zzz"]):
        module = subprocess.run([sys.executable, "-m", "porism", *words], capture_output=True, cwd=tmp_path)
        script = os.path.join(os.path.dirname(sys.executable), "porism")
        program = subprocess.run([script, *words], capture_output=True, cwd=tmp_path)
        assert (module.stdout, module.stderr, module.returncode) == (
            program.stdout,
            program.stderr,
            program.returncode,
        )
        assert module.returncode == (0 if words == ["--version"] else 2)


def test_closed_outputs_change_no_exit_code(tmp_path):
    for words, code in (("--version", 0), ("claims zzz", 2)):
        shell = f'"{sys.executable}" -m porism {words} >&- 2>&-'
        assert subprocess.run(shell, shell=True, cwd=tmp_path).returncode == code
    shown = subprocess.run(
        f'"{sys.executable}" -m porism claims zzz >&-', shell=True, cwd=tmp_path, capture_output=True
    )
    assert shown.stderr.count(b"\n") == 1


def test_interrupted_while_it_loads(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("builtins.__import__", interrupt)
        code = run()
    assert code == 130


def test_outputs_are_checked_before_the_work(tmp_path):
    given = tmp_path / "table.csv"
    given.write_text("1")
    other = tmp_path / "link.csv"
    other.symlink_to(given)
    check_outputs(None, tmp_path / "new.csv", given, inputs=[None, tmp_path / "none.csv"])
    with pytest.raises(ValueError, match=r"link\.csv is an input, and would be overwritten; choose another"):
        check_outputs(other, inputs=[given])
    new, link = tmp_path / "new.csv", tmp_path / "again.csv"
    link.symlink_to(new)
    with pytest.raises(ValueError, match=r"again\.csv is asked for twice; give each output a name"):
        check_outputs(new, None, link)
    check_outputs(Path("/dev/null"), Path("/dev/null"))
    with pytest.raises(FileNotFoundError):
        check_outputs(tmp_path / "no" / "new.csv")
    with pytest.raises(IsADirectoryError):
        check_outputs(tmp_path)
    if os.path.exists("/dev/null"):
        check_outputs(Path("/dev/null"), inputs=[Path("/dev/null")])
    assert given.read_text() == "1"


def test_a_closed_pipe_is_no_accident(tmp_path):
    code = "import sys; from porism.cli import main; sys.stdin.read(); sys.exit(main(['--help']))"
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    program.stdout.close()
    program.stdin.close()
    assert program.stderr.read() == b""
    program.stderr.close()
    assert program.wait() == 141


@pytest.mark.parametrize(("typed", "offered"), [("porism che", "check"), ("porism check --sca", "--scale")])
def test_completion(tmp_path, typed, offered):
    words = {"_PORISM_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    command = [sys.executable, "-m", "porism"]
    done = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr, done.returncode) == (offered, "", 0)
