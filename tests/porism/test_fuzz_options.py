"""Every option of every verb with odd values: an answer, or exit 2 and one line."""

import json

import numpy as np
import pytest
from hostile import call, check, tree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porism.cli import VERBS, app
from porism.theory.pandora import fit_router
from porism.theory.partition import UtilityTable

BASE = {
    "claims": ["fake"],
    "check": ["fake"],
    "bench": ["fake"],
    "reproduce": ["fake", "--scale", "smoke", "--notebooks", "empty", "--out", "out"],
    "notebooks": ["empty"],
    "certify": ["table.csv", "--top-k", "1"],
    "scan": ["a.npy", "--mask", "band:1", "--n-null", "2", "--time-budget", "0.05"],
    "diagnose": ["empty", "--data", "table.csv"],
    "route fit": ["scores.npz", "--expensive", "ridge", "--folds", "2", "--out", "out"],
    "route eval": ["r.npz", "scores.npz", "--policies", "cheap,kg"],
    "route certify": ["r.npz"],
    "route bidder": [],
    "route run": ["r.npz", "--cost", "0.1"],
}
"""Words after each verb with which it does its work in a moment."""

WORK = {
    "--n-null",
    "--restarts",
    "--workers",
    "--scheduler",
    "--time-budget",
    "--out",
    "--json",
    "--plot",
    "--html",
}
"""Options that ask for work or name what is written: odd amounts of work are honest requests."""

VALUES = [
    *(
        "",
        " ",
        "0",
        "1",
        "2",
        "-1",
        "1.5",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "-0.0",
        "1e-320",
        "1e999",
        str(2**70),
    ),
    *(
        "9" * 400,
        "0x1",
        "\u0663",
        "x",
        "a,b",
        "1,2",
        "1,2,3",
        ",",
        "/",
        "0/1,2",
        "1/0",
        "1/3",
        "../x",
        "\x1b[2J",
    ),
    *("omega=0:1:3", "omega=0:1:-1", "nu=nan:1:3", "beta:4,1", "beta:0,0", "wbanzhaf:nan", "weights:1,0,0"),
    *(
        "weights:",
        "band:-1",
        "band:99999999999999999999",
        "block_diagonal:0",
        "sink:3",
        "rows_without_sinks(9)",
    ),
    *("kg,oracle", "none", "raise", "size-only", "monotone", "population", "estimate", "concave", "binary"),
]


def verbs():
    for group in VERBS:
        module = __import__(f"porism.cli.{group}", fromlist=[""])
        for name in module.__all__:
            entry = getattr(module, name)
            for command in getattr(entry, "registered_commands", [None]):
                yield name if command is None else f"{name} {command.name or command.callback.__name__}"


def options(verb):
    """Names of the options of a verb that take a value."""
    from porism.cli import _command

    command = _command()
    for word in verb.split():
        command = command.commands[word]
    found = [param for param in command.params if param.param_type_name == "option"]
    return sorted(param.opts[0] for param in found if not param.is_flag and param.opts[0] not in WORK)


def test_every_verb_is_here():
    assert set(verbs()) == set(BASE)
    assert len(app.registered_commands) + len(app.registered_groups) <= len(BASE)


@pytest.fixture
def here(tmp_path, monkeypatch, fake):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    scores, features = rng.random((80, 3)), rng.random((80, 2))
    UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12]).save("table.csv")
    np.save("a.npy", rng.random((4, 4)))
    np.savez("scores.npz", scores=scores, features=features)
    fit_router(scores, "ridge", "ridge", features, folds=2).save("r.npz")
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize("verb", BASE)
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_odd_values(here, needs, verb, data):
    if verb == "reproduce":
        needs("matplotlib")
    words = [*verb.split(), *BASE[verb]]
    names = options(verb)
    for _ in range(data.draw(st.integers(1, 2)) if names else 0):
        words.append(f"{data.draw(st.sampled_from(names))}={data.draw(st.sampled_from(VALUES))}")
    if data.draw(st.integers(0, 4)) == 0:
        words.append(data.draw(st.sampled_from(VALUES)))
    before = tree(here)
    code, out, err = call(words, b'{"cheap": [0.1, 0.2, 0.3]}\n')
    if code == 2 or verb not in ("check", "bench", "reproduce", "notebooks"):  # those show their progress
        check(words, code, out, err)
    new = {path.parts[0] for path in set(tree(here)) - set(before)}
    assert new <= {"out"}


@pytest.mark.parametrize(
    "line", [b"", b"\xff\n", b"{" * 100_000 + b"\n", b"[" * 100_000, b"1" * 5000, b'{"id": 1}']
)
def test_lines_of_a_service(here, line):
    code, out, _ = call(["route", "run", "r.npz", "--cost", "0.1"], line + b'\n{"cheap": [0.1, 0.2, 0.3]}\n')
    assert code == 0
    answers = [json.loads(text) for text in out.splitlines()]
    assert "error" not in answers[-1]
    assert all("error" in answer for answer in answers[:-1])
