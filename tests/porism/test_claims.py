import gc
import json

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor

from porism import claims, sims
from porism.claims import Evidence, Ledger, claim, registered, run

TEXTS = {"kind": "theorem", "source": "s", "statement": "t", "control": "c"}


def entry(id="T-1", answers=(True, False), **changes):
    """A claim whose check and control come out as asked."""

    @claim(id, **(TEXTS | changes))
    def check(scale, rng, broken=False):
        answer = answers[broken]
        if isinstance(answer, Exception):
            raise answer
        return Evidence(answer, float(rng.random()), 0.0, 0.0, "none") if isinstance(answer, bool) else answer

    return registered()[id]


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(claims, "_REGISTRY", {})


@pytest.mark.parametrize(
    ("answers", "kind", "verdict", "ok"),
    [
        ((True, False), "theorem", "holds", True),
        ((False, False), "theorem", "fails", False),
        ((True, True), "theorem", "control did not fail", False),
        ((False, True), "theorem", "fails", False),
        ((True, False), "refuted", "refuted", True),
        ((False, False), "refuted", "fails", False),
        ((RuntimeError("boom"), False), "theorem", "fails", False),
        ((True, RuntimeError("boom")), "theorem", "fails", False),
        ((None, False), "theorem", "fails", False),
    ],
)
def test_verdict(answers, kind, verdict, ok):
    outcome = entry(answers=answers, kind=kind).run()
    assert (outcome.verdict, outcome.ok, Ledger([outcome]).ok) == (verdict, ok, ok)


def test_what_is_raised_is_told():
    outcome = entry(answers=(RuntimeError("boom"), KeyError("x"))).run()
    assert outcome.error == "claim raised RuntimeError: boom; control raised KeyError: 'x'"
    assert "boom" in outcome.evidence.measured
    assert "must return Evidence, got NoneType" in entry("T-2", answers=(None, False)).run().error


def test_a_control_that_raises_is_no_control():
    """A crash is not the check coming out negative."""
    assert not entry(answers=(True, ValueError("cannot be built"))).run().ok


def test_decoration_refuses():
    entry("T-1")
    with pytest.raises(ValueError, match="id must be unique, got 'T-1', taken by"):

        @claim("T-1", **TEXTS)
        def other(scale, rng, broken=False): ...

    for name in ("control", "source", "statement"):
        with pytest.raises(ValueError, match=f"{name} of claim 'T-2' must be a non-empty line"):
            claim("T-2", **(TEXTS | {name: "  "}))
    with pytest.raises(ValueError, match=r"kind must be one of 'theorem', .* got str 'lemma'"):
        claim("T-2", **(TEXTS | {"kind": "lemma"}))
    with pytest.raises(TypeError, match="control"):
        claim("T-2", kind="theorem", source="s", statement="t")


def test_reload_is_welcome():
    first, second = entry("T-1"), entry("T-1", statement="better")
    assert registered() == {"T-1": second}
    assert first != second


def test_natural_order():
    for id in ("PR-10", "PR-4b", "PR-2", "AL-3", "PR-4"):
        entry(id)
    assert list(registered()) == ["AL-3", "PR-2", "PR-4", "PR-4b", "PR-10"]


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("porism.sims.pandora.claims", "pandora"),
        ("porism.sims.pandora.claims.market", "pandora"),
        ("mine.claims", "mine"),
    ],
)
def test_module_from_where_it_is_defined(name, module):
    def check(scale, rng, broken=False): ...

    check.__module__ = name
    claim("T-1", **TEXTS)(check)
    assert registered()["T-1"].module == module


def test_streams_depend_on_id_and_seed_only():
    listed = [entry(f"T-{i}") for i in range(4)]

    def numbers(ledger):
        return {o.claim.id: (o.evidence.measured, o.control_evidence.measured) for o in ledger}

    whole = numbers(run(listed, seed=5))
    assert numbers(run(listed[2:], seed=5)) == {id: whole[id] for id in ("T-2", "T-3")}
    assert len({pair[0] for pair in whole.values()}) == 4
    assert all(first == second for first, second in whole.values()), (
        "a control differs by its hypothesis only"
    )
    assert numbers(run(listed, seed=6))["T-0"] != whole["T-0"]


def test_workers_change_nothing(tmp_path, monkeypatch):
    (tmp_path / "separate.py").write_text(
        "from porism.claims import Evidence, claim\n"
        "def check(scale, rng, broken=False):\n"
        "    return Evidence(not broken, float(rng.random()), 0.0, 0.0, 'none')\n"
        "for i in range(3):\n"
        "    claim(f'T-{i}', kind='theorem', source='s', statement='t', control='c')(check)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    get_reusable_executor().shutdown(wait=True)  # its processes would not know of the new path
    __import__("separate")
    one, two = (run(registered().values(), workers=n).to_dict() for n in (1, 2))
    for outcome in one + two:
        outcome.pop("seconds")
    assert one == two


@pytest.mark.full
def test_bad_schedulers(monkeypatch, needs):
    client = needs("distributed").Client
    monkeypatch.setattr("porism._pool.TIMEOUT", 0.5)
    before = sum(type(thing) is client for thing in gc.get_objects())
    with pytest.raises(ConnectionError, match=r"got 'tcp://127.0.0.1:9': Timed out .* after 0.5 s; start"):
        run([entry()], scheduler="tcp://127.0.0.1:9")
    # one that lingers would close itself in the midst of another's start, and hold it up
    assert sum(type(thing) is client for thing in gc.get_objects()) <= before
    with pytest.raises(TypeError, match=r"scheduler must be an address .* got int"):
        run([entry()], scheduler=8786)
    with pytest.raises(ValueError, match="workers must be 1 beside a scheduler, got 2"):
        run([entry()], scheduler="tcp://127.0.0.1:9", workers=2)


def test_to_dict_is_json():
    found = Evidence(
        True, float("inf"), np.float64(1), 0.0, "none", 3, {"n": np.int64(2), "nan": float("nan")}
    )
    (row,) = json.loads(json.dumps(run([entry(answers=(found, False))]).to_dict(), allow_nan=False))
    assert row["evidence"]["measured"] == "inf"
    assert row["evidence"]["numbers"] == {"n": 2, "nan": "nan"}
    assert (row["id"], row["verdict"], row["scale"], row["seed"]) == ("T-1", "holds", "smoke", 0)
    assert row["control_evidence"]["holds"] is False


def test_table_shows_both_numbers_and_escapes():
    outcome = entry(statement="a < b", control="x & y").run()
    shown = outcome._repr_html_()
    assert f"{outcome.evidence.measured:.4g}" in shown
    assert f"x &amp; y: {outcome.control_evidence.measured:.4g}" in shown
    assert "a &lt; b" in shown


@pytest.mark.parametrize("options", [{"scale": "big"}, {"seed": -1}, {"workers": 0}])
def test_bad_options(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        run([entry()], **options)


def test_sims_ledger(fake):
    assert "fake" in sims.modules()
    assert [c.id for c in sims.ledger("fake")] == ["FK-1", "FK-2", "FK-10"]
    with pytest.raises(ValueError, match=r"module must be one of .*'fake'"):
        sims.ledger("fakes")
