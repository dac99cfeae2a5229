"""`porism route run`: the router's own decisions, a dialogue, bad lines, a pipe that is held open."""

import dataclasses
import functools
import io
import json
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from porism.theory.pandora import Router, fit_router

n, K, p = 300, 3, 4
rng = np.random.default_rng(0)
X = rng.normal(size=(n, p))
Y = 0.5 + 0.3 * X @ rng.normal(size=(p, K)) + 0.1 * rng.normal(size=(n, K))
NAMES = ("ant", "bee", "cat")
CHEAP = Y.mean(0) + 0.6 * (Y + 0.4 * rng.normal(size=(n, K)) - Y.mean(0))
REFINED = CHEAP + 0.7 * (Y - CHEAP)


@pytest.fixture
def call(shell):
    return functools.partial(shell, "route")


@pytest.fixture
def data(call):
    """r.npz, two ridges on 2 and on 4 features."""
    fitted = fit_router(Y, "ridge", "ridge", X, cheap_features=X[:, :2], names=NAMES)
    fitted.save("r.npz")
    return fitted


@pytest.fixture
def arrays(call):
    """b.npz, which holds no estimators."""
    fitted = fit_router(Y, CHEAP, REFINED, names=NAMES, dependence="independent")
    fitted.save("b.npz")
    return fitted


def service(*words, **options):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-m", "porism", "route", "run", *words], **pipes, **options)


def serve(call, monkeypatch, words, lines, exit_code=0):
    """Answers and counters of `run` in this process."""
    raw = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    code, out, err = call("run", *words)
    assert code == exit_code
    return [json.loads(line) for line in out.splitlines()], json.loads(err.splitlines()[-1])


def test_run_decides_as_the_router(call, data, monkeypatch):
    queries = [{"id": i, "features": x.tolist()} for i, x in enumerate(X[:50])]
    queries += [{"id": "w", "features": X[7, :2].tolist(), "expensive_features": X[7].tolist()}]
    answers, counts = serve(call, monkeypatch, ["r.npz", "--cost", "0.03", "--lam", "0.5"], queries)
    router = Router(dataclasses.replace(data, cheap_model=None, refined_model=None), 0.03, lam=0.5)
    for i, answer in enumerate(answers):
        x = X[i if i < 50 else 7]
        decision = router.route(data.cheap(x[:2]), data.refined(x).__getitem__)
        assert answer == {
            "id": i if i < 50 else "w",
            "choice": decision.choice,
            "name": decision.name,
            "value": decision.value,
            "spend": decision.spend,
            "refined": {NAMES[k]: value for k, value in decision.refined.items()},
        }
    assert (counts["lines"], counts["decided"], counts["errors"]) == (51, 51, 0)
    assert counts["refined"] == router.counters()["refined"]
    assert 0 < sum(counts["refined"].values()) < 51 * K


def test_a_saved_router_serves_as_its_fit(call, arrays):
    Router(arrays, 0.01).save("saved.npz")
    arrays.report.save("report.npz")
    assert call("certify", "saved.npz", "--json") == call("certify", "b.npz", "--json")
    Router(arrays, 0.01, names=["x", "y", "z"]).save("named.npz")
    Path("q.jsonl").write_text('{"cheap": [1, 2, 3], "refined": {"y": 2}}')  # a line that `run` answers
    code, out, _ = call("certify", "named.npz", "--query", "q.jsonl", "--json")
    assert (code, [row["name"] for row in json.loads(out)["specialists"]]) == (0, ["x", "y", "z"])
    code, _, err = call("certify", "report.npz")
    assert code == 2
    assert "holds a CalibrationReport" in err


def test_a_saved_router_runs_as_it_was_saved(call, arrays, monkeypatch):
    """Costs, prices, lam, outside option, policy, names and budget; an option replaces what it names."""
    costs, prices = [0.01, np.inf, 0.02], [0.0, 0.1, 0.3]
    router = Router(arrays, costs, prices, lam=0.5, outside=-5.0, policy="kg", names=["x", "y", "z"])
    router.set_budget(0.1, calibrate=False)
    router.save("saved.npz")
    queries = [{"cheap": m.tolist(), "refined": q.tolist()} for m, q in zip(CHEAP, REFINED, strict=True)]
    answers, counts = serve(call, monkeypatch, ["saved.npz"], queries[:30])
    for answer, m, q in zip(answers, CHEAP, REFINED, strict=False):
        decision = router.route(m, q.__getitem__)
        assert (answer["choice"], answer["name"]) == (decision.choice, decision.name)
        assert (answer["value"], answer["spend"]) == (decision.value, decision.spend)
    assert counts.items() >= {k: v for k, v in router.counters().items() if k != "spend_se"}.items()
    assert counts["lam"] != 0.5
    words = ["saved.npz", "--lam", "2", "--names", "a,b,c", "--cost", "inf", "--outside", "-inf"]
    answers, counts = serve(call, monkeypatch, words, queries[:30])
    assert (counts["lam"], counts["budget"], counts["refined"]) == (2.0, None, {"a": 0, "b": 0, "c": 0})
    best = (CHEAP[:30] - 2 * np.array(prices)).argmax(1)
    assert [answer["choice"] for answer in answers] == best.tolist()


def test_the_dialogue_ends_where_the_router_ends(call, arrays, monkeypatch):
    router = Router(arrays, 0.02)
    for m, q in zip(CHEAP[:12], REFINED[:12], strict=True):
        query = {"id": "x", "cheap": m.tolist()}
        asked = []
        while "choice" not in (
            answer := serve(call, monkeypatch, ["b.npz", "--cost", "0.02"], [query])[0][0]
        ):
            asked.append(answer["refine"])
            assert answer == {"id": "x", "refine": asked[-1], "name": NAMES[asked[-1]]}
            key = answer["name"] if len(asked) % 2 else str(answer["refine"])
            query.setdefault("refined", {})[key] = q[asked[-1]]
        decision = router.route(m, q.__getitem__)
        assert (answer["choice"], answer["value"]) == (decision.choice, decision.value)
        assert asked == [step["specialist"] for step in decision.trace]
        assert list(answer["refined"]) == [NAMES[k] for k in asked]


def test_null_marks_a_failure(call, arrays, monkeypatch):
    queries = [
        {"cheap": [0.5, 0.5, 0.5], "refined": [None, None, 0.9]},
        {"cheap": [0.5, 0.5, 0.5], "refined": {"ant": None, "1": None, "cat": None}},
        {"cheap": [0.5, 0.5, 0.5], "refined": None},
    ]
    answers, counts = serve(call, monkeypatch, ["b.npz", "--cost", "0.01", "--policy", "kg"], queries)
    assert answers[0] == {
        "id": None, "choice": 2, "name": "cat", "value": 0.9, "spend": 0.01, "refined": {"cat": 0.9},
    }  # fmt: skip
    assert (answers[1]["choice"], answers[1]["refined"], answers[1]["spend"]) == (0, {}, 0.0)
    assert answers[2]["refine"] in range(K)
    router = Router(arrays, 0.01, policy="kg")
    for values in ({2: 0.9}, {}):
        router.route([0.5] * K, values.get)
    assert counts["refine_failed"] == router.counters()["refine_failed"] >= K
    assert (counts["decided"], counts["asked"], counts["queries"]) == (2, 1, 2)


def test_what_the_policy_does_not_ask_for_is_not_used(call, arrays, monkeypatch):
    query = {"cheap": [5, 0.4, -2.0], "refined": {"ant": -9}}
    answers, _ = serve(call, monkeypatch, ["b.npz", "--cost", "0.02"], [query])
    assert answers[0] == {
        "id": None, "choice": 0, "name": "ant", "value": 5.0, "spend": 0.0, "refined": {},
    }  # fmt: skip
    assert "others are left unused" in " ".join(call("run", "--help")[1].split())


def test_means_of_nothing_are_null(call, arrays, monkeypatch):
    one = {"cheap": [1, 2, 3], "refined": [1, 2, 3]}
    for queries, mean in (([], None), ([one], 0.0)):
        _, counts = serve(call, monkeypatch, ["b.npz", "--cost", "0"], queries)
        assert (counts["spend_mean"], counts["spend_se"]) == (mean, None)


def test_nothing_but_bad_lines_is_exit_2(call, arrays, monkeypatch):
    """A fit to arrays of estimates has no use for features."""
    bad = {"id": 7, "features": [1, 2]}
    answers, counts = serve(call, monkeypatch, ["b.npz", "--cost", "1"], [b"", bad, bad], exit_code=2)
    assert all("has no cheap estimator: send cheap" in answer["error"] for answer in answers)
    assert (counts["lines"], counts["errors"], counts["queries"]) == (2, 2, 0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(bad).encode())))
    err = call("run", "b.npz", "--cost", "1")[2].splitlines()
    assert len(err) == 2
    assert err[0].startswith("porism route run: no line could be answered: line 1: the saved router has no")
    good = {"cheap": [1, 2, 3]}
    assert serve(call, monkeypatch, ["b.npz", "--cost", "inf"], [bad, good])[1]["errors"] == 1


def test_options_of_run_reach_the_router(call, arrays, monkeypatch):
    query = {"id": 1, "cheap": [0.5, 0.4, 0.1], "refined": [0.5, 0.4, 0.1]}

    def first(*words):
        return serve(call, monkeypatch, ["b.npz", *words], [query])[0][0]

    assert first("--cost", "0.01", "--outside", "2")["name"] == "outside"
    assert first("--cost", "0.01", "--outside", "2")["choice"] == -1
    assert first("--cost", "inf,inf,inf")["refined"] == {}
    assert first("--cost", "9", "--price", "0.3,0,0")["name"] == "bee"
    assert first("--cost", "9", "--price", "0.3,0,0", "--lam", "0.1")["spend"] == 0.3
    assert first("--cost", "0.01", "--policy", "exhaustive")["spend"] == pytest.approx(0.03)
    assert first("--cost", "9", "--names", "x, y,z")["name"] == "x"
    _, counts = serve(call, monkeypatch, ["b.npz", "--cost", "0.05", "--budget", "0.02"], [query] * 20)
    assert counts["budget"] == 0.02
    assert counts["lam"] > 0


BAD = [
    (b"", None),
    (b"nonsense", "the line is no JSON"),
    (b'{"id": 7, "cheap": [1, 2, 3]', "the line is no JSON"),
    (b"\xff\xfe{}", "the line is not UTF-8"),
    (b"[1, 2]", "a query must be a JSON object, got a list"),
    (b"[" * 100_000, "the line is nested too deeply"),
    (b'{"id": 7}', "a query must have either features or cheap, got none"),
    (b'{"id": 7, "cheap": [1, 2, 3], "features": [1]}', "a query must have either features or cheap"),
    (b'{"id": 7, "cheap": [1, 2]}', "cheap must have 3 numbers"),
    (b'{"id": 7, "cheap": "abc"}', "cheap must be a list of 3 numbers, got a text"),
    (b'{"id": 7, "cheap": [1, 2, "x"]}', "cheap[2] must be a number, got a text"),
    (b'{"id": 7, "cheap": [1, 2, true]}', "cheap[2] must be a number, got true or false"),
    (b'{"cheap": [1, 2, NaN]}', "NaN is no JSON; null marks"),
    (b'{"cheap": [1, 2, 3], "refined": {"ant": 1, "ant": 2}}', "an object has the key 'ant' twice"),
    (b'{"id": 7, "cheap": [1, 2, 1e999]}', "cheap[2] must be finite"),
    (b'{"id": 7, "cheap": [1, 2, 1' + b"0" * 400 + b"]}", "cheap[2] must be finite"),
    (b'{"cheap": [1, 2, 1' + b"0" * 9000 + b"]}", "Exceeds the limit"),
    (b'{"id": 7, "features": [1]}', "features must have 2 numbers, the columns of the fit, got 1"),
    (b'{"id": 7, "features": [1, 2], "expensive_features": [1]}', "expensive_features must have 4 numbers"),
    (b'{"id": 7, "cheap": [1, 2, 3], "refined": [1, 2]}', "refined must have an entry for each of the 3"),
    (b'{"id": 7, "cheap": [1, 2, 3], "refined": {"dog": 1}}', "refined has no specialist 'dog'"),
    (b'{"id": 7, "cheap": [1, 2, 3], "refined": {"3": 1}}', "refined has no specialist '3'"),
    (b'{"id": 7, "cheap": [1, 2, 3], "refined": {"0": 1, "ant": 2}}', "refined names specialist 'ant' twice"),
    (b'{"id": 7, "cheap": [1, 2, 3], "refined": {"0": "x"}}', "refined of 'ant' must be a number"),
    (b'{"id": 7, "cheap": [1, 2, 3], "refined": 3}', "refined must be a list or an object, got 3"),
    (b'{"id": {}, "cheap": [1, 2, 3]}', "id must be a text or a finite number"),
    (b'{"id": 1e999, "cheap": [1, 2, 3]}', "id must be a text or a finite number"),
]


def test_no_line_ends_the_service(call, data, monkeypatch):
    good = {"id": "good", "features": X[0].tolist()}
    lines = [line for bad, _ in BAD for line in (bad, good)]
    answers, counts = serve(call, monkeypatch, ["r.npz", "--cost", "0.01"], lines)
    goods = [answer for answer in answers if answer["id"] == "good"]
    bads = [answer for answer in answers if "error" in answer]
    assert len(goods) == len(BAD)
    assert all(answer == goods[0] and "choice" in answer for answer in goods)
    expected = [(bad, message) for bad, message in BAD if message]
    assert len(bads) == len(expected) == counts["errors"]
    for answer, (bad, message) in zip(bads, expected, strict=True):
        assert message in answer["error"]
        assert answer["id"] == known_id(bad)
        assert lines[answer["line"] - 1] == bad


def known_id(line):
    """The id of a line that says 7, where it can be read at all."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return 7 if isinstance(body, dict) and body.get("id") == 7 else None


def test_a_line_of_any_length_is_answered(call, data, monkeypatch):
    monkeypatch.setattr("porism.cli._service.LONGEST", 64)
    lines = [
        b"x" * 1000,
        {"id": 1, "cheap": [1, 2, 3.5]},
        b"y" * 64,
        b" " * 200,
        {"id": 2, "cheap": [1, 2, 3]},
    ]
    answers, _ = serve(call, monkeypatch, ["r.npz", "--cost", "9"], lines)
    assert [(a.get("line"), a["id"], a.get("choice")) for a in answers] == [
        (1, None, None), (None, 1, 2), (3, None, None), (4, None, None), (None, 2, 2),
    ]  # fmt: skip


def test_answers_come_before_the_next_line_is_sent(data, tmp_path):
    with service("r.npz", "--cost", "0.01", cwd=tmp_path) as program:
        for i, x in enumerate(X[:5]):
            line = {"id": i, "features": x.tolist()} if i != 2 else {"id": i}
            program.stdin.write(json.dumps(line).encode() + b"\n")
            program.stdin.flush()
            assert select.select([program.stdout], [], [], 60)[0], "no answer while the pipe is held open"
            answer = json.loads(program.stdout.readline())
            assert answer["id"] == i
            assert ("error" in answer) == (i == 2)
        program.stdin.close()
        assert program.stdout.read() == b""
        counts = json.loads(program.stderr.read())
        assert program.wait(60) == 0
    assert (counts["lines"], counts["decided"], counts["errors"]) == (5, 4, 1)


def test_an_interrupt_is_quiet(data, tmp_path):
    def restore():  # a job that runs in the background hands on that interrupts are ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with service("r.npz", "--cost", "0.01", cwd=tmp_path, preexec_fn=restore) as program:
        program.stdin.write(b'{"cheap": [1, 2, 3]}\n')
        program.stdin.flush()
        assert program.stdout.readline()
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
        assert program.stderr.read().strip() == b""


def test_nobody_reads_the_answers(data, tmp_path):
    with service("r.npz", "--cost", "0.01", cwd=tmp_path) as program:
        program.stdout.close()
        program.stdin.write(b'{"cheap": [1, 2, 3]}\n')
        program.stdin.flush()
        assert program.wait(60) == 141
        assert program.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("none.npz --cost 1", "[Errno 2]"),
        ("r.npz", "Missing option '--cost'"),
        ("r.npz --cost=-1", "--cost must be >= 0; got min -1"),
        ("r.npz --cost 1 --policy best", "--policy must be one of"),
        ("r.npz --cost 1 --names a,b", "--names must name the 3 specialists"),
        ("r.npz --cost 1 --names a,b,a", "--names must differ from each other"),
        ("r.npz --cost 1 --budget 0", "--budget must be finite and > 0"),
        ("r.npz --cost 1 --lam nan", "--lam must be >= 0"),
    ],
)
def test_a_bad_option_is_one_line_and_exit_2(call, data, words, message):
    code, out, err = call("run", *words.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"porism route run: {message}")
    assert err.count("\n") == 1
