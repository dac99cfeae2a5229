import dataclasses
import json
import sys

import numpy as np
import pytest

from porism.errors import MissingExtraError
from porism.results import FORMAT, Result


@dataclasses.dataclass(frozen=True)
class Inner(Result):
    members: tuple
    label: str


@dataclasses.dataclass(frozen=True)
class Outer(Result):
    values: np.ndarray
    errors: np.ndarray
    inner: Inner
    table: dict
    gap: float
    added_later: int = 7


OUTER = Outer(
    values=np.array([1.0, np.nan]),
    errors=np.array([[1, 2]], dtype=np.uint8),
    inner=Inner((0, (1, 2), frozenset({3, 1})), "Σ"),
    table={3: [None, True, 2**80], "x": np.float64("inf"), (1, 2): {"deep": np.arange(3)}},
    gap=float("-inf"),
)


def version_1(path, **changes):
    """The layout of version 1, written by hand, so that a later writer cannot change it with the reader."""
    inner = {"$result": "Inner", "fields": {"members": {"$tuple": [1, 2]}, "label": "old"}}
    fields = {"values": {"$array": "values"}, "errors": {"$array": "errors"}, "inner": inner}
    tree = {"$result": "Outer", "fields": fields | {"table": {"$dict": [[1, "one"]]}, "gap": 0.5}}
    header = {"format": 1, "porism": "0.1.0", "tree": tree} | changes
    arrays = {"a/values": np.array([1.0]), "a/errors": np.array([2.0])}
    np.savez(path, porism=np.array(json.dumps(header)), **arrays)


def test_round_trip(tmp_path):
    file = tmp_path / "a.npz"
    OUTER.save(file)
    for loaded in (Outer.load(file), Result.load(file)):
        assert type(loaded) is Outer
        np.testing.assert_array_equal(loaded.values, OUTER.values)
        np.testing.assert_array_equal(loaded.errors, OUTER.errors)
        assert loaded.errors.dtype == np.uint8
        assert loaded.inner == OUTER.inner
        assert loaded.gap == OUTER.gap
        assert loaded.table[3] == [None, True, 2**80]
        assert loaded.table["x"] == np.inf
        np.testing.assert_array_equal(loaded.table[1, 2]["deep"], np.arange(3))


def test_file_needs_no_pickle(tmp_path):
    file = tmp_path / "a.npz"
    OUTER.save(file)
    with np.load(file, allow_pickle=False) as stored:
        header = json.loads(str(stored["porism"]))
        assert all(stored[name].dtype != object for name in stored.files)
    assert header["format"] == FORMAT
    assert header["porism"]


def test_version_1_loads_and_missing_fields_take_their_default(tmp_path):
    version_1(tmp_path / "old.npz")
    old = Outer.load(tmp_path / "old.npz")
    assert (old.added_later, old.inner.members, old.table, old.gap) == (7, (1, 2), {1: "one"}, 0.5)
    np.testing.assert_array_equal(old.errors, [2.0])


def test_later_version_is_refused(tmp_path):
    version_1(tmp_path / "new.npz", format=FORMAT + 1, porism="9.0")
    with pytest.raises(ValueError, match=rf"format {FORMAT + 1}, written by porism 9.0; .* update porism"):
        Outer.load(tmp_path / "new.npz")


def test_bad_files(tmp_path):
    file = tmp_path / "a.npz"
    OUTER.inner.save(file)
    with pytest.raises(ValueError, match="holds a Inner, not a Outer"):
        Outer.load(file)
    whole = file.read_bytes()
    for size in range(0, len(whole), 37):  # as an interrupted copy leaves it
        file.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="is not a saved porism result"):
            Outer.load(file)
    file.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="is not a saved porism result"):
        Outer.load(file)
    np.savez(file, scores=np.ones(2))
    with pytest.raises(ValueError, match="is not a saved porism result"):
        Outer.load(file)
    with pytest.raises(FileNotFoundError):
        Outer.load(tmp_path / "none.npz")
    version_1(file, tree={"$result": "Stranger", "fields": {}})
    with pytest.raises(ValueError, match="holds a Stranger, which is not loaded"):
        Outer.load(file)


@pytest.mark.parametrize("value", [object(), np.array([object()]), {1: {2}}, lambda: 0])
def test_what_cannot_be_saved_is_named_and_leaves_no_file(tmp_path, value):
    with pytest.raises(TypeError, match=r"table.* must be an array"):
        dataclasses.replace(OUTER, table={"a": value}).save(tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())


def test_html_escapes():
    shown = Inner((1,), "<b>&")._repr_html_()
    assert "&lt;b&gt;&amp;" in shown
    assert "<b>" not in shown


def test_frame_without_pandas_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pandas is not installed.*'porism\[tables\]'"):
        OUTER.to_frame()


def test_frame(needs):
    needs("pandas")
    frame = OUTER.to_frame()
    assert list(frame.columns) == ["values"]
    assert frame.attrs["gap"] == OUTER.gap
    assert list(OUTER.inner.to_frame()["field"]) == ["members", "label"]
