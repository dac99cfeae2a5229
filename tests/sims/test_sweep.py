"""Sweeps: streams by content, rows that survive whatever kills the run, folders that stay what they are."""

import functools
import itertools
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porism.sims import _sweep_store
from porism.sims.sweep import SweepError, SweepMismatchError, item_rng, sweep

pytestmark = pytest.mark.full  # tables need the extra of that name

GRID = {"size": [3, 1, 2], "kind": ["a", "b"]}


@pytest.fixture(autouse=True)
def _tables(needs):
    needs("pandas"), needs("pyarrow")


def draw(size, kind, rng):
    return {"total": rng.normal(size=size).sum(), "name": kind * size}


def by_hand(items, seed=0):
    return [dict(item) | draw(**item, rng=item_rng(item, seed)) for item in items]


def rows(table):
    return table.drop(columns="error").to_dict("records")


class Counting:
    """Fails on the sizes named, and counts its calls."""

    def __init__(self, *failing):
        self.failing, self.calls = failing, []

    def __call__(self, size, rng):
        self.calls.append(size)
        if size in self.failing:
            raise RuntimeError(f"no size {size}")
        return {"total": rng.normal(size=size).sum()}


def counting(*failing):
    """The same function by name, whichever sizes fail."""
    counter = Counting(*failing)

    def counted(size, rng):
        return counter(size, rng)

    return counted, counter.calls


def test_product_in_order():
    items = [{"size": size, "kind": kind} for size in (3, 1, 2) for kind in ("a", "b")]
    table = sweep(draw, GRID)
    assert rows(table) == by_hand(items)
    assert list(table) == ["size", "kind", "total", "name", "error"]
    assert table["error"].isna().all()
    assert rows(sweep(draw, items)) == rows(table)


def test_streams_depend_on_content_and_seed_only():
    table = sweep(draw, GRID)
    items = [{"kind": kind, "size": size} for size, kind in itertools.product((7, 2, 3, 1), "ba")]
    other = sweep(draw, items).merge(table, on=["size", "kind"], suffixes=("", "_before"))
    assert len(other) == 6
    assert (other["total"] == other["total_before"]).all()
    assert table["total"].is_unique
    assert set(sweep(draw, GRID, seed=1)["total"]).isdisjoint(table["total"])


def test_equal_items_are_repetitions():
    item = {"size": 2, "kind": "a"}
    table = sweep(draw, [item, item, item])
    assert table["total"].is_unique
    assert list(table["total"]) == [draw(**item, rng=item_rng(item, 0, k))["total"] for k in range(3)]


def test_streams_are_standard_normal_and_unrelated():
    """Moments of the first draw over 4000 items, and its correlation with the next: 4 standard errors."""
    first = np.array([item_rng({"i": i}).normal() for i in range(4000)])
    error = 4 / 4000**0.5
    assert abs(first.mean()) < error
    assert abs(first.var() - 1) < error * 2**0.5
    assert abs(np.mean(first[1:] * first[:-1])) < error


def test_workers_and_folder_change_nothing(tmp_path):
    def local(size, kind, rng):  # travels by value: other processes cannot import this file
        return {"total": rng.normal(size=size).sum(), "name": kind * size}

    serial = sweep(draw, GRID)
    for options in ({"workers": 2}, {"folder": tmp_path / "a"}, {"folder": tmp_path / "b", "workers": 2}):
        assert sweep(local, GRID, **options).equals(serial)


def test_table_on_disk_is_what_was_returned(tmp_path, needs):
    table = sweep(draw, GRID, tmp_path)
    assert needs("pandas").read_parquet(tmp_path / "table.parquet").equals(table)
    assert not list((tmp_path / "parts").iterdir())
    function, calls = counting()
    first = sweep(function, {"size": [1, 2]}, tmp_path / "again")
    assert sweep(function, {"size": [1, 2]}, tmp_path / "again", workers=2).equals(first)
    assert calls == [1, 2]


def test_failures_cost_the_others_nothing(tmp_path):
    grid = {"size": [1, 2, 3, 4]}
    function, calls = counting(2, 4)
    with pytest.raises(
        SweepError, match=r"2 of 4 items failed, the first at size=2: RuntimeError: no size 2"
    ) as e:
        sweep(function, grid, tmp_path)
    assert e.value.failed == (1, 3)
    assert e.value.table["error"].isna().tolist() == [True, False, True, False]
    assert calls == [1, 2, 3, 4]
    assert "; all others are kept in the folder: call again to try these again, or pass" in str(e.value)
    with pytest.raises(SweepError) as e:
        sweep(function, grid)
    assert "; pass folder= to keep the others, so that a later call tries only these again" in str(e.value)
    calls.clear()
    again, calls = counting(4)
    kept = sweep(again, grid, tmp_path, errors="keep")
    assert calls == [2, 4]
    assert kept["error"][3] == "RuntimeError: no size 4"
    assert np.isnan(kept["total"][3])
    final, calls = counting()
    assert sweep(final, grid, tmp_path).equals(sweep(counting()[0], grid))
    assert calls == [4]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    failing=st.lists(st.sets(st.integers(0, 9)), max_size=3),
    merge=st.integers(2, 5),
)
def test_any_history_gives_the_same_table(sizes, failing, merge, tmp_path_factory, monkeypatch):
    """However often and wherever runs fail, finished rows are computed once and the table is the same."""
    monkeypatch.setattr(_sweep_store, "MERGE", merge)
    folder, grid, done = tmp_path_factory.mktemp("history"), {"size": sizes}, set()
    for broken in [*failing, set()]:
        function, calls = counting(*broken)
        table = sweep(function, grid, folder, errors="keep")
        assert sorted(calls) == sorted(size for size in sizes if size not in done)
        done |= {*sizes} - {*broken}
    assert table.equals(sweep(counting()[0], grid))


def test_many_rows_are_few_files(tmp_path, monkeypatch):
    monkeypatch.setattr(_sweep_store, "MERGE", 4)
    grid = {"size": list(range(11))}
    function, _ = counting(0, 1, 10)
    sweep(function, grid, tmp_path, errors="keep")
    parts = tmp_path / "parts"
    # rows 2, 3 and rows 4 to 7 are merged; 8 and 9 wait; failed ones stay alone, to be replaced
    assert sorted(int(file.stem) for file in parts.glob("[0-9]*")) == [0, 1, 8, 9, 10]
    assert len(list(parts.glob("merged-*"))) == 2
    merged = next(parts.glob("merged-*"))
    (parts / "merged-0a.parquet").write_bytes(
        merged.read_bytes()
    )  # as if killed before the rows were dropped
    function, calls = counting()
    assert sweep(function, grid, tmp_path).equals(sweep(counting()[0], grid))
    assert calls == [0, 1, 10]


def test_half_written_parts_are_as_if_never_written(tmp_path):
    grid = {"size": [1, 2, 3, 4]}
    sweep(counting(4)[0], grid, tmp_path, errors="keep")
    parts = tmp_path / "parts"
    whole = (parts / "00000001.parquet").read_bytes()
    (parts / "00000001.parquet").write_bytes(whole[:-9])
    (parts / "00000000.parquet").write_bytes(b"")
    (parts / ".00000002.parquet.x1y2").write_bytes(whole[:40])  # what a kill leaves of an atomic write
    function, calls = counting()
    assert sweep(function, grid, tmp_path).equals(sweep(counting()[0], grid))
    assert calls == [1, 2, 4]
    assert not list(parts.iterdir())


def test_killed_between_table_and_parts(tmp_path):
    """The table is whole: what is left of the parts does not count."""
    grid = {"size": [1, 2, 3]}
    sweep(counting(3)[0], grid, tmp_path, errors="keep")
    left = {file.name: file.read_bytes() for file in (tmp_path / "parts").iterdir()}
    table = sweep(counting()[0], grid, tmp_path)
    (tmp_path / "parts" / "00000002.parquet").write_bytes(left["00000002.parquet"])  # its failed row
    function, calls = counting()
    assert sweep(function, grid, tmp_path).equals(table)
    assert calls == []
    (tmp_path / "parts" / "00000002.parquet").unlink()
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    with pytest.raises(SweepMismatchError, match="is damaged; delete it"):
        sweep(function, grid, tmp_path)


def test_another_sweep_is_refused(tmp_path):
    sweep(draw, GRID, tmp_path)
    for arguments, what in {
        (
            counting()[0],
            json.dumps([{"size": 1}]),
            0,
        ): "function .*draw, now .*counted; grid .*; items 6, now 1",
        (draw, json.dumps({"size": [3, 1], "kind": ["a", "b"]}), 0): "grid [0-9a-f]{8}…, now",
        (draw, json.dumps({"size": [1, 3, 2], "kind": ["a", "b"]}), 0): "grid",
        (draw, json.dumps(GRID), 5): "seed 0, now 5",
    }.items():
        function, grid, seed = arguments
        with pytest.raises(SweepMismatchError, match=f"holds another sweep: .*{what}.*; name another folder"):
            sweep(function, json.loads(grid), tmp_path, seed=seed)


def scaled(size, factor, rng):
    return factor * size


def test_bound_arguments_are_part_of_the_function(tmp_path):
    double = functools.partial(scaled, factor=2)
    assert sweep(double, {"size": [1, 2]}, tmp_path)["value"].tolist() == [2, 4]
    sweep(functools.partial(scaled, factor=2), {"size": [1, 2]}, tmp_path)
    with pytest.raises(SweepMismatchError, match="function"):
        sweep(functools.partial(scaled, factor=3), {"size": [1, 2]}, tmp_path)


def test_changed_source_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "changing_function.py"
    file.write_text("def f(n, rng):\n    if n == 2: raise ValueError('not yet')\n    return n\n")
    import changing_function as module

    sweep(module.f, {"n": [1, 2]}, tmp_path / "out", errors="keep")
    file.write_text("def f(n, rng):\n    return 10 * n  # a better one\n")
    import importlib

    module = importlib.reload(module)
    with pytest.warns(
        UserWarning, match="source of changing_function.f has changed since folder 'out'"
    ) as caught:
        table = sweep(module.f, {"n": [1, 2]}, tmp_path / "out")
    assert caught[0].filename == __file__
    assert table["value"].tolist() == [1, 20]


def test_folders_of_others(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SweepMismatchError, match="folder must be a folder, got the file 'file'"):
        sweep(draw, GRID, tmp_path / "file")
    (tmp_path / "foreign" / "parts").mkdir(parents=True)
    (tmp_path / "foreign" / "parts" / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(SweepMismatchError, match="to say of which sweep"):
        sweep(draw, GRID, tmp_path / "foreign")
    for text, what in {
        "{": "cannot be read",
        "[1]": "cannot be read",
        '{"format": 9}': "has format 9, this",
    }.items():
        (tmp_path / "bad").mkdir(exist_ok=True)
        (tmp_path / "bad" / "sweep.json").write_text(text)
        with pytest.raises(SweepMismatchError, match=what):
            sweep(draw, GRID, tmp_path / "bad")


def test_one_sweep_a_folder_at_a_time(tmp_path, needs):
    needs("fcntl")

    def inner(size, rng):
        with pytest.raises(SweepMismatchError, match="in use by another sweep"):
            sweep(inner, {"size": [1]}, tmp_path)
        return size

    assert sweep(inner, {"size": [1]}, tmp_path)["value"].tolist() == [1]


def test_kinds_of_values(needs):
    answers = {
        "numbers": [1, 2.5, np.float32(0.5), float("nan")],
        "flags": [True, np.bool_(False), None, True],
        "mixed": [1, "a", None, 2.5],
        "lists": [np.arange(3), [1, 2], (), [0.5]],
        "empty": [None] * 4,
    }

    def answer(i, rng):
        return {name: values[i] for name, values in answers.items()}

    table = sweep(answer, {"i": range(4)})
    assert table["numbers"].tolist()[:3] == [1.0, 2.5, 0.5]
    assert np.isnan(table["numbers"][3])
    assert table["flags"].tolist() == [True, False, None, True]
    assert table["mixed"].tolist()[:2] == ["1", "a"]
    assert needs("pandas").isna(table["mixed"][2])
    assert [list(entry) for entry in table["lists"]] == [[0, 1, 2], [1, 2], [], [0.5]]


def test_rows_from_disk_are_the_rows_in_memory(tmp_path):
    """A list with an int among floats, in a column that becomes text for another row's sake."""

    def answer(i, rng):
        if i == 1 and not ready:
            raise RuntimeError("not yet")
        return {"x": [1, 2.5] if i == 0 else "a"}

    ready = []
    sweep(answer, {"i": [0, 1]}, tmp_path, errors="keep")
    ready.append(True)
    assert sweep(answer, {"i": [0, 1]}, tmp_path).equals(sweep(answer, {"i": [0, 1]}))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (object(), "TypeError: column 'value' must be a number, text, None, or a list of such, got object"),
        ({"x": {"y": 1}}, "TypeError: column 'x' must be a number"),
        ({"n": 3}, "ValueError: function must not return 'n', a column that is there"),
        ({"error": 3}, "ValueError: function must not return 'error'"),
        (2**63, "ValueError: column 'value' must be in"),
        ({"x": [1, "a"]}, "ArrowInvalid"),
        (None, None),
    ],
)
def test_answers_that_fit_no_table(answer, message):
    error = sweep(lambda n, rng: answer, {"n": [1]}, errors="keep")["error"][0]
    assert error.startswith(message) if message else error is None or error != error


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, GRID), TypeError, "function must be callable, got int"),
        (
            (draw, {"size": [1]}),
            TypeError,
            "function must accept size, rng by name, got .*draw.*missing.*'kind'",
        ),
        ((lambda size: 1, {"size": [1]}), TypeError, "function must accept size, rng by name"),
        (
            (draw, {"size": 3, "kind": ["a"]}),
            TypeError,
            r"grid\['size'\] must be a list of values, got int 3",
        ),
        (
            (draw, {"size": [3], "kind": "ab"}),
            TypeError,
            r"grid\['kind'\] must be a list of values, got str 'ab'",
        ),
        ((draw, 3), TypeError, "grid must be a mapping of lists or a list of mappings, got int"),
        ((draw, [3]), TypeError, "grid must list mappings of names to values, got 3"),
        ((draw, []), ValueError, "grid must have at least one item"),
        ((draw, {"size": [], "kind": ["a"]}), ValueError, "grid must have at least one item"),
        ((draw, {"size": [object()], "kind": ["a"]}), TypeError, r"grid\['size'\] must be a number, text"),
        ((lambda rng, x: 1, [{"rng": 1}]), ValueError, "grid must not use the name 'rng'"),
    ],
)
def test_bad_arguments(arguments, error, message, tmp_path):
    with pytest.raises(error, match=message):
        sweep(*arguments, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [{"seed": -1}, {"workers": 0}, {"errors": "skip"}, {"seed": 0.5}])
def test_bad_options(options):
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        sweep(draw, GRID, **options)


def test_bar_goes_to_stderr(capsys):
    sweep(counting(2)[0], {"size": [1, 2]}, errors="keep", progress=True)
    said = capsys.readouterr()
    assert "2/2" in said.err
    assert "failed=1" in said.err
    assert said.out == ""


def test_a_wrong_scheduler_leaves_no_folder(tmp_path, needs):
    with pytest.raises(ValueError, match="workers must be 1 beside a scheduler"):
        sweep(draw, GRID, tmp_path / "new", scheduler="tcp://127.0.0.1:1", workers=2)
    needs("distributed")
    with pytest.raises(ConnectionError, match="scheduler must be the address of a running one"):
        sweep(draw, GRID, tmp_path / "new", scheduler="nowhere")
    assert not (tmp_path / "new").exists()
    table = sweep(draw, GRID, tmp_path / "done")
    assert sweep(draw, GRID, tmp_path / "done", scheduler="nowhere").equals(table)  # nothing is left to run
