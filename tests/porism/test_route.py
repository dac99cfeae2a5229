"""`porism route fit|eval|certify|bidder`: what they tell is the library's, and one line for what is wrong."""

import functools
import json
import math
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from porism.cli import main
from porism.cli.route import route
from porism.theory.pandora import (
    FittedRouter,
    baselines,
    bidder_statics,
    fit_router,
    route_batch,
)

VERBS = [command.name or command.callback.__name__ for command in route.registered_commands]
n, K, p = 400, 3, 4
rng = np.random.default_rng(0)
X = rng.normal(size=(n, p))
Y = 0.5 + 0.3 * X @ rng.normal(size=(p, K)) + 0.1 * rng.normal(size=(n, K))
NAMES = ("ant", "bee", "cat")
CHEAP = Y + 0.4 * rng.normal(size=(n, K))
CHEAP = Y.mean(0) + 0.6 * (CHEAP - Y.mean(0))
REFINED = CHEAP + 0.7 * (Y - CHEAP)


@pytest.fixture
def call(shell):
    return functools.partial(shell, "route")


@pytest.fixture
def data(call):
    """d.npz with features and r.npz fitted to it by two ridges, the cheap one on two features."""
    np.savez("d.npz", scores=Y, features=X, models=list(NAMES))
    fitted = fit_router(Y, "ridge", "ridge", X, cheap_features=X[:, :2], names=NAMES)
    fitted.save("r.npz")
    return fitted


@pytest.fixture
def arrays(call):
    """a.npz with arrays of estimates and b.npz fitted to it."""
    np.savez("a.npz", score=Y, cheap=CHEAP, refined=REFINED, models=list(NAMES))
    fitted = fit_router(Y, CHEAP, REFINED, names=NAMES, dependence="independent")
    fitted.save("b.npz")
    return fitted


# --- help


def test_the_group_shows_its_verbs(call):
    code, out, err = call()
    assert (code, err) == (0, "")
    assert VERBS == ["fit", "eval", "certify", "bidder", "run"]
    assert all(f"\n  {verb} " in out for verb in VERBS)


def test_porism_help_names_the_group(capsys):
    assert main(["--help"]) == 0
    assert "\n  route " in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_help_ends_with_an_example(call, verb):
    code, out, _ = call(verb, "--help")
    command = next(c for c in route.registered_commands if (c.name or c.callback.__name__) == verb)
    example = command.callback.__doc__.strip().splitlines()[-1].strip()
    assert code == 0
    assert example.startswith(f"Example: porism route {verb}")
    assert " ".join(example.split()) in " ".join(out.split())
    assert all(word in out for word in example.split() if word.startswith("--"))


def test_help_of_run_shows_lines_as_they_are_sent(call):
    out = call("run", "--help")[1]
    for text in ('{"id": 2, "cheap": [0.5, 0.4, 0.1]}', '{"id": 2, "refine": 1, "name": "b"}', "null marks"):
        assert text in out


# --- fit


def test_fit_is_the_library(call, data):
    words = ("fit", "d.npz", "--cheap", "ridge", "--expensive", "ridge", "--cheap-features", 2)
    code, out, err = call(*words, "--out", "new.npz")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["specialist", "slope", "intercept", "nu", "s"]
    assert out.splitlines()[-1].startswith("flags: ")
    new = FittedRouter.load("new.npz")
    for name in ("m_hat", "q_hat", "nu", "A", "B", "folds"):
        np.testing.assert_array_equal(getattr(new, name), getattr(data, name))
    assert new.names == NAMES
    body = json.loads(call(*words, "--out", "new.npz", "--json")[1])
    assert body["nu"] == data.nu.tolist()
    assert body["estimators"] == {"cheap": "ridge", "expensive": "ridge"}
    assert [row["rule"] for row in body["chosen"]] == ["cheap", "exhaustive", "exhaustive, joint"]
    assert body["flags"] == list(data.report.flags)


def test_fit_passes_every_option_on(call, data):
    np.savez("e.npz", scores=(Y > 0.5) * 1.0, features=X, groups=np.arange(n) // 4)
    options = "--folds 3 --returns binary --dependence independent --nu-bins 2 --seed 5 --cost 9,9,9"
    words = ("fit", "e.npz", "--cheap", "knn", "--expensive", "ridge", *options.split())
    body = json.loads(call(*words, "--out", "o.npz", "--json")[1])
    expected = fit_router(
        (Y > 0.5) * 1.0,
        "knn",
        "ridge",
        X,
        folds=3,
        groups=(np.arange(n) // 4).astype(str),
        returns="binary",
        dependence="independent",
        seed=5,
        nu_bins=2,
        costs=[9, 9, 9],
    )
    new = FittedRouter.load("o.npz")
    np.testing.assert_array_equal(new.nu_table, expected.nu_table)
    np.testing.assert_array_equal(new.folds, expected.folds)
    assert (new.returns, new.dependence) == ("binary", "independent")
    assert "refinement_never_pays" in body["flags"]
    assert body["groups"] == 100
    assert json.loads(call(*words, "--out", "o.npz", "--json", "--groups", "none")[1])["groups"] is None
    ungrouped = fit_router(Y, "ridge", "ridge", X, folds=3, seed=5)
    np.testing.assert_array_equal(FittedRouter.load("o.npz").folds, ungrouped.folds)


def test_fit_takes_arrays_of_estimates(call, arrays):
    code, out, _ = call("fit", "a.npz", "--out", "new.npz", "--json", "--dependence", "independent")
    assert code == 0
    assert json.loads(out)["estimators"] == {"cheap": "array", "expensive": "array"}
    np.testing.assert_array_equal(FittedRouter.load("new.npz").q_hat, REFINED)


def test_fit_of_tables_with_features_and_groups(call, tmp_path):
    head = "query,task,ant,bee,cat\n"
    rows = [f"q{i},t{i % 50},{a},{b},{c}" for i, (a, b, c) in enumerate(Y.tolist())]
    (tmp_path / "d.csv").write_text(head + "\n".join(rows))
    (tmp_path / "x.csv").write_text("x0,x1,x2,x3\n" + "\n".join(",".join(map(str, x)) for x in X.tolist()))
    words = (
        "fit",
        "d.csv",
        "--features",
        "x.csv",
        "--expensive",
        "ridge",
        "--groups",
        "task",
        "--out",
        "t.npz",
    )
    code, out, _ = call(*words, "--json")
    assert code == 0
    assert json.loads(out)["groups"] == 50
    tasks = np.array([f"t{i % 50}" for i in range(n)])
    expected = fit_router(Y, "ridge", "ridge", X, groups=tasks)
    np.testing.assert_allclose(FittedRouter.load("t.npz").q_hat, expected.q_hat, rtol=1e-12)


def test_harm_is_exit_3_and_the_file_is_there(call):
    """Refined estimates that are noise: routing by them is surely worse."""
    noise = np.random.default_rng(1).normal(size=(n, K))
    np.savez("h.npz", scores=Y, cheap=Y, refined=noise)
    code, out, _ = call("fit", "h.npz", "--out", "h_r.npz")
    assert code == 3
    assert "refine_harmful" in out
    assert FittedRouter.load("h_r.npz").report.refine_harmful
    code, out, _ = call("fit", "h.npz", "--out", "h_r.npz", "--json")
    assert code == 3
    assert "refine_harmful" in json.loads(out)["flags"]


def test_unknown_scores_and_few_rows_are_warned_of(call):
    few = np.where(np.arange(60)[:, None] == 7, np.nan, Y[:60])
    np.savez("few.npz", scores=few, features=X[:60])
    code, out, err = call("fit", "few.npz", "--expensive", "ridge", "--out", "f.npz")
    assert code in (0, 3)
    assert err.startswith("porism route fit: warning: the smallest fold has")
    assert "few_rows" in out


def test_no_query_with_all_scores(call):
    scores = Y.copy()
    scores[::2, 0], scores[1::2, 1] = np.nan, np.nan
    np.savez("holes.npz", scores=scores, features=X)
    code, out, _ = call("fit", "holes.npz", "--expensive", "ridge", "--out", "o.npz")
    assert code == 0
    assert out.splitlines()[-1] == "no query has all scores known: no rule is judged"
    code, _, err = call("eval", "o.npz", "holes.npz")
    assert (code, err.startswith("porism route eval: holes.npz has no query whose scores are all")) == (
        2,
        True,
    )


# --- eval


def rows_of(call, *words):
    code, out, err = call("eval", *words, "--json")
    assert (code, err) == (0, "")
    body = json.loads(out)
    return body, {row["policy"]: row for row in body["rows"]}


def test_eval_on_its_own_data_is_out_of_fold(call, data):
    body, rows = rows_of(call, "r.npz", "d.npz", "--cost", "0.01")
    assert body["estimates"] == "out of fold"
    names = "kg,kg_sigma,kg_joint,threshold,random,cheap,exhaustive,oracle,single_best"
    assert list(rows) == names.split(",")
    m, q, at = data.m_hat, data.q_hat, np.arange(n)
    cheap = Y[at, m.argmax(1)]
    for policy, law in (("kg", None), ("kg_sigma", None), ("kg_joint", data.innovation)):
        routes = route_batch(m, data.nu, 0.01, policy=policy, refined=q, innovation=law)
        gain = Y[at, routes.choice] - cheap
        row = rows[policy]
        assert row["quality"] == pytest.approx(Y[at, routes.choice].mean(), rel=1e-12)
        assert row["refinements"] == pytest.approx(routes.n_refine.mean(), rel=1e-12)
        assert row["spend"] == pytest.approx(0.01 * routes.n_refine.mean(), rel=1e-12)
        assert row["gain_se"] == pytest.approx(gain.std(ddof=1) / n**0.5, rel=1e-12)
        assert row["share"] == pytest.approx(
            gain.mean() / (Y[at, q.argmax(1)] - cheap).mean(), rel=1e-9
        )  # fmt: skip
    assert rows["oracle"]["quality"] == pytest.approx(Y.max(1).mean(), rel=1e-12)
    assert rows["single_best"]["quality"] == pytest.approx(Y.mean(0).max(), rel=1e-12)
    assert rows["exhaustive"]["share"] == 1.0
    assert rows["cheap"]["gain"] == 0.0
    assert rows["threshold"]["quality"] == pytest.approx(
        Y[at, baselines.margin_threshold(m, q, 0.1).choice].mean(), rel=1e-12
    )


def test_eval_on_other_data_predicts(call, data):
    """One changed score is enough to be other data."""
    scores = Y.copy()
    scores[3, 1] += 0.01
    np.savez("other.npz", scores=scores[:, ::-1], features=X, models=NAMES[::-1])
    body, rows = rows_of(call, "r.npz", "other.npz", "--policies", "cheap,exhaustive")
    assert body["estimates"] == "predicted"
    at = np.arange(n)
    assert rows["cheap"]["quality"] == pytest.approx(scores[at, data.cheap(X[:, :2]).argmax(1)].mean())
    assert rows["exhaustive"]["quality"] == pytest.approx(scores[at, data.refined(X).argmax(1)].mean())
    np.savez("given.npz", scores=scores, cheap=CHEAP, refined=REFINED, models=NAMES)
    body, rows = rows_of(call, "r.npz", "given.npz", "--policies", "cheap,exhaustive")
    assert body["estimates"] == "given"
    assert rows["exhaustive"]["quality"] == pytest.approx(scores[at, REFINED.argmax(1)].mean())
    np.savez("permuted.npz", scores=Y[::-1], features=X[::-1], models=NAMES)
    assert rows_of(call, "r.npz", "permuted.npz", "--policies", "cheap")[0]["estimates"] == "predicted"


def test_eval_prices_settings_and_table(call, arrays, tmp_path):
    words = ("b.npz", "a.npz", "--policies", "kg,threshold,threshold_all,random,random_joint,weitzman")
    options = "--cost 0.01 --cost 0.01,0.02,0.03 --price 0.1,0.2,0.3 --lam 0.5"
    options += " --eps 0.1 --eps 0.2 --picks 0 --picks 3"
    body = json.loads(call("eval", *words, *options.split(), "--json")[1])
    settings = [
        (row["policy"], row["cost"] == 0.01, row.get("eps"), row.get("picks")) for row in body["rows"]
    ]
    assert len(settings) == len({*settings}) == 2 + 4 + 4 + 4 + 4 + 2
    costs, prices = np.array([0.01, 0.02, 0.03]), np.array([0.1, 0.2, 0.3])
    routes = route_batch(CHEAP, arrays.nu, costs, prices, 0.5, "kg", refined=REFINED)
    (row,) = [row for row in body["rows"] if row["policy"] == "kg" and row["cost"] == costs.tolist()]
    assert row["spend"] == pytest.approx(routes.spend.mean(), rel=1e-12)
    assert row["net"] == pytest.approx(row["quality"] - 0.5 * row["spend"], rel=1e-12)
    (nobody,) = [r for r in body["rows"] if r["policy"] == "random" and r["cost"] == 0.01 and r["picks"] == 0]
    assert nobody["gain"] == 0.0
    code, out, _ = call("eval", *words, "--plot", "curve.svg")
    assert code == 0
    assert out.splitlines()[0].split()[:5] == ["policy", "setting", "refinements", "quality", "spend"]
    assert out.splitlines()[-2] == "400 queries, 3 specialists, estimates out of fold"
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")


def test_share_is_not_told_where_there_is_no_gain(call):
    np.savez("h.npz", scores=Y, cheap=Y, refined=np.random.default_rng(1).normal(size=(n, K)))
    assert call("fit", "h.npz", "--out", "h_r.npz")[0] == 3
    body, rows = rows_of(call, "h_r.npz", "h.npz", "--policies", "kg")
    assert body["exhaustive_gain"] < 0
    assert rows["kg"]["share"] is None
    assert call("eval", "h_r.npz", "h.npz")[0] == 0


# --- certify and bidder


def gain(d, nu):
    z = abs(d) / nu
    return nu * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.erfc(z / math.sqrt(2)) / 2)


def naive_counts(m, nu, c, rel, outside=-math.inf):
    """PB-13 one query and specialist after the other."""
    counts = {"refine": [0] * K, "stop": [0] * K, "undecided": [0] * K}
    for row in m.tolist():
        for k in range(K):
            gap = row[k] - max([*row[:k], *row[k + 1 :], outside])
            low, high = gain(gap, nu[k] * (1 - rel)), gain(gap, nu[k] * (1 + rel))
            counts["refine" if low > c else "stop" if high <= c else "undecided"][k] += 1
    return counts


def test_certify_counts_each_query_and_specialist(call, data, tmp_path):
    code, out, _ = call("certify", "r.npz", "--nu-rel", "0.2", "--cost", "0.05", "--json")
    assert code == 0
    body = json.loads(out)
    expected = naive_counts(data.m_hat, data.nu, 0.05, 0.2)
    for kind, counts in expected.items():
        assert [row[kind] for row in body["specialists"]] == counts
        assert body["total"][kind] == sum(counts)
    assert min(body["total"].values()) > 0
    assert sum(body["queries"].values()) == n
    lines = [{"features": x[:2].tolist()} for x in X[:20]] + [{"cheap": [0.1, 0.2, 0.3], "id": 1}]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    body = json.loads(
        call("certify", "r.npz", "--cost", "0.05", "--outside", "0.4", "--query", "q.jsonl", "--json")[1]
    )
    m = np.vstack([data.cheap(X[:20, :2]), [[0.1, 0.2, 0.3]]])
    assert [[row[kind] for row in body["specialists"]] for kind in expected] == list(
        naive_counts(m, data.nu, 0.05, 0.2, 0.4).values()
    )
    body = json.loads(call("certify", "r.npz", "--data", "d.npz", "--json")[1])
    assert [[row[kind] for row in body["specialists"]] for kind in expected] == list(
        naive_counts(data.cheap(X[:, :2]), data.nu, 0.004, 0.2).values()
    )
    (tmp_path / "y.csv").write_text("ant,bee,cat\n" + "\n".join(",".join(map(str, y)) for y in Y.tolist()))
    (tmp_path / "x.csv").write_text("p,q,r,s\n" + "\n".join(",".join(map(str, x)) for x in X.tolist()))
    tables = call("certify", "r.npz", "--data", "y.csv", "--features", "x.csv", "--json")[1]
    assert json.loads(tables) == body
    out = call("certify", "r.npz")[1]
    assert out.splitlines()[0].split() == ["specialist", "refine", "stop", "undecided"]


def test_certain_nu_and_cost_leave_nothing_undecided(call, data):
    total = json.loads(call("certify", "r.npz", "--nu-rel", "0", "--json")[1])["total"]
    assert total["undecided"] == 0
    wide = json.loads(call("certify", "r.npz", "--nu-rel", "0", "--cost-rel", "1", "--json")[1])["total"]
    assert wide["stop"] == 0


def test_bidder_shows_both_prices(call, tmp_path):
    body = json.loads(call("bidder", "--json")[1])
    raw, shrunk = body["rows"]
    assert raw["dU"] == pytest.approx(0.0092770603806828412, rel=1e-12)  # oracle case 11
    assert raw["dA"] == pytest.approx(-0.002310612992214068, rel=1e-12)
    assert raw["refine_rate"] == pytest.approx(0.18567487988621639, rel=1e-12)
    assert shrunk["dW"] == pytest.approx(shrunk["dU"], rel=1e-9)
    code, out, _ = call("bidder", "--sweep", "omega", "--plot", "change.png")
    assert code == 0
    assert len(out.splitlines()) == 1 + 2 * 11
    assert out.splitlines()[0].split() == ["price", "omega", "dU", "dA", "dW", "rate"]
    assert (tmp_path / "change.png").read_bytes()[:4] == b"\x89PNG"
    body = json.loads(
        call("bidder", "--sweep", "s-other=0.1:0.5:3", "--mu", "1", "--price", "raw", "--json")[1]
    )
    expected = bidder_statics(0, 0.5, 0.02, 1, [0.1, 0.3, 0.5], 0.5)["dA"]
    assert [row["dA"] for row in body["rows"]] == pytest.approx(expected.tolist(), rel=1e-12)
    assert "s-other" not in body["parameters"]


def test_exit_codes_of_the_program(data, tmp_path):
    command = [sys.executable, "-m", "porism", "route", "certify"]
    done = subprocess.run([*command, "r.npz", "--json"], capture_output=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["n_queries"] == n
    done = subprocess.run([*command, "none.npz"], capture_output=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith("porism route certify: [Errno 2]")


# --- what is wrong


@pytest.fixture
def wrong(data, arrays, tmp_path):
    """Files that are none."""
    whole = (tmp_path / "d.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    saved = (tmp_path / "r.npz").read_bytes()
    (tmp_path / "cut_r.npz").write_bytes(saved[: len(saved) // 2])
    (tmp_path / "text.csv").write_text("query,answer\nwhat,that\nwho,she\n")
    (tmp_path / "part.csv").write_text("query,a,b\nwhat,1,0\nwho,1\n")
    (tmp_path / "plain.csv").write_text("query,a,b,c\n" + "\n".join(f"q{i},1,0,1" for i in range(10)))
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04 nothing")
    np.savez("objects.npz", scores=np.array([[1, None]], object))
    np.savez("two.npz", scores=Y[:, :2], features=X)
    np.savez("strangers.npz", scores=Y, features=X, models=["ant", "bee", "dog"])
    np.savez("narrow.npz", scores=Y + 1, features=X[:, :3], models=NAMES)
    np.savez("bare.npz", scores=Y + 1, models=NAMES)
    np.savez("odd.npz", scores=Y, cheap=CHEAP[:, :2], refined=REFINED)
    np.savez("nan.npz", scores=Y, cheap=np.where(CHEAP > 0, CHEAP, np.nan), refined=REFINED)
    np.savez("no_cheap.npz", scores=Y, refined=REFINED)
    np.savez("huge.npz", scores=Y * 3, features=X)
    report = data.report
    report.save("report.npz")
    np.savez("one.npz", scores=Y[:1], features=X[:1])
    with np.load("r.npz") as held:
        parts = dict(held)
    header = json.loads(str(parts["porism"]))
    header["tree"]["fields"]["report"] = 3
    np.savez("no_report.npz", **parts | {"porism": np.array(json.dumps(header))})
    with zipfile.ZipFile("r.npz") as old, zipfile.ZipFile("lost.npz", "w") as new:
        for name in old.namelist():
            if "m_hat" not in name:
                new.writestr(name, old.read(name))
    (tmp_path / "q.jsonl").write_text('{"cheap": [1, 2, 3]}\n{"cheap": [1]}\n')
    (tmp_path / "empty.jsonl").write_text("\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fit none.npz --out o.npz", "porism route fit: [Errno 2]"),
        ("fit cut.npz --out o.npz", "porism route fit: cut.npz is no npz file, or is damaged"),
        ("fit noise.npz --out o.npz", "porism route fit: noise.npz is no npz file"),
        ("fit objects.npz --out o.npz", "porism route fit: objects.npz: scores holds Python objects"),
        ("fit text.csv --out o.npz", "porism route fit: text.csv has no column of numbers"),
        ("fit part.csv --out o.npz", "porism route fit: part.csv line 3 has 2 cells"),
        ("fit plain.csv --out o.npz", "porism route fit: plain.csv must have features (n, p), or both"),
        ("fit plain.csv --features d.npz --out o.npz", "porism route fit: d.npz"),
        ("fit no_cheap.npz --out o.npz", "porism route fit: no_cheap.npz must have features"),
        ("fit odd.npz --out o.npz", "porism route fit: odd.npz: cheap of shape (400, 2) does not fit"),
        ("fit nan.npz --out o.npz", "porism route fit: nan.npz: cheap must hold finite numbers"),
        ("fit d.txt --out o.npz", "porism route fit: d.txt must end in .npz, .csv or .parquet\n"),
        ("fit d.npz", "porism route fit: Missing option '--out'"),
        ("fit d.npz --out nowhere/o.npz --expensive ridge", "porism route fit: [Errno 2]"),
        ("fit d.npz --out o.npz --cheap tree", "porism route fit: --cheap must be ridge, knn or trees"),
        ("fit d.npz --out o.npz --cheap-features 5", "porism route fit: --cheap-features must be at most 4"),
        ("fit a.npz --out o.npz --cheap-features 1", "porism route fit: --cheap-features needs features"),
        ("fit one.npz --out o.npz", "porism route fit: scores must have at least 2 rows, got 1"),
        ("fit d.npz --out o.npz --folds 1", "porism route fit: --folds must be in 2..400"),
        ("fit d.npz --out o.npz --groups task", "porism route fit: d.npz has no column 'task'"),
        (
            "fit plain.csv --features plain.csv --groups x --out o.npz",
            "porism route fit: plain.csv has no column 'x'; it has",
        ),
        ("fit huge.npz --out o.npz --returns binary", "porism route fit: --returns binary needs scores"),
        ("fit d.npz --out o.npz --dependence odd", "porism route fit: --dependence must be one of"),
        ("fit d.npz --out o.npz --cost 1,2", "porism route fit: --cost must have 1 number or 3"),
        ("fit d.npz --out o.npz --cost=-1", "porism route fit: --cost must be >= 0; got min -1"),
        ("eval none.npz d.npz", "porism route eval: [Errno 2]"),
        ("eval d.npz d.npz", "porism route eval: d.npz is not a saved porism result"),
        ("eval cut_r.npz d.npz", "porism route eval: cut_r.npz is no saved router, or is cut off"),
        ("eval lost.npz d.npz", "porism route eval: lost.npz is a damaged result"),
        ("eval no_report.npz d.npz", "porism route eval: no_report.npz is a damaged router"),
        ("eval report.npz d.npz", "porism route eval: report.npz holds a CalibrationReport"),
        ("eval r.npz two.npz", "porism route eval: two.npz has scores of shape (400, 2), the router knows 3"),
        ("eval r.npz strangers.npz", "porism route eval: strangers.npz has scores of 'dog'"),
        ("eval r.npz narrow.npz", "porism route eval: features must have 4 columns"),
        ("eval r.npz bare.npz", "porism route eval: bare.npz is not the data of the fit, and has"),
        ("eval b.npz bare.npz", "porism route eval: bare.npz is not the data of the fit, and has"),
        ("eval r.npz d.npz --policies kg,best", "porism route eval: --policies must be among"),
        ("eval r.npz d.npz --cost x", "porism route eval: --cost must be a number or 3 numbers"),
        ("eval r.npz d.npz --cost inf", "porism route eval: --cost must be finite"),
        ("eval r.npz d.npz --price nan", "porism route eval: --price must be finite"),
        ("eval r.npz d.npz --lam=-1", "porism route eval: --lam must be"),
        ("eval r.npz d.npz --eps=-1", "porism route eval: --eps must be >= 0"),
        ("eval r.npz d.npz --picks 4", "porism route eval: --picks must be in 0..3"),
        ("eval r.npz d.npz --plot curve.txt", "porism route eval: --plot must end in .png"),
        ("certify r.npz --nu-rel 1.5", "porism route certify: --nu-rel must be in [0, 1]"),
        ("certify r.npz --nu-rel nan", "porism route certify: --nu-rel must be in [0, 1]"),
        ("certify r.npz --lam nan", "porism route certify: --lam must be >= 0"),
        ("certify r.npz --outside nan", "porism route certify: --outside must be"),
        ("certify r.npz --query q.jsonl", "porism route certify: q.jsonl line 2: cheap must have 3 numbers"),
        ("certify r.npz --query empty.jsonl", "porism route certify: empty.jsonl holds no query"),
        ("certify r.npz --query q.jsonl --data d.npz", "porism route certify: give --query or --data"),
        ("certify r.npz --features d.csv", "porism route certify: --features belong to --data"),
        ("certify r.npz --data two.npz", "porism route certify: two.npz has scores of shape"),
        ("bidder --sweep tau", "porism route bidder: --sweep must name one of"),
        ("bidder --sweep mu", "porism route bidder: --sweep mu needs a range"),
        ("bidder --sweep omega=0:1", "porism route bidder: --sweep must look like"),
        ("bidder --sweep omega=0:inf:3", "porism route bidder: --sweep needs finite ends"),
        ("bidder --nu=-1", "porism route bidder: --nu must be >= 0 and finite"),
        ("bidder --price other", "porism route bidder: --price must be raw, shrunk or both"),
        ("best", "porism route: No such command 'best'"),
        ("eval r.npz d.npz --nope", "porism route eval: No such option: --nope"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(call, wrong, words, message):
    code, out, err = call(*words.split())
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1
