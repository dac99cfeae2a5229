"""Utility tables from models: the scores of a plain loop, whatever the workers and interruptions."""

import copy
import json
import os
import shutil
import struct
import threading
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import NumericalWarning
from porism.sims.partition import CheckpointMismatchError, EvaluationError, utility_table
from porism.theory.partition.errors import TooManyPlayersError


class Centroid:
    """Predicts the mean; counts its fits in a list shared by all copies made in this process."""

    fits: ClassVar[list] = []

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y):
        Centroid.fits.append(tuple(np.asarray(X)[:, 0].astype(int)))
        self.mean = np.mean(y) + self.shift
        return self

    def score(self, X, y):
        return 1.0 - float(np.mean(np.abs(np.asarray(y) - self.mean)))


class Picky(Centroid):
    """Fails on coalitions without row 0, scores NaN on {0}."""

    def fit(self, X, y):
        super().fit(X, y)
        if 0 not in X[:, 0]:
            raise FloatingPointError("no row 0")
        if len(X) == 1:
            self.mean = np.nan


class Locked(Centroid):
    def __init__(self):
        self.shift, self.lock = 0.0, threading.Lock()

    def __deepcopy__(self, memo):
        return Locked()


@pytest.fixture(autouse=True)
def no_fits():
    Centroid.fits = []


X = np.column_stack([np.arange(6.0), np.arange(6.0) ** 2])
y = np.array([1.0, 5.0, 2.0, 8.0, 0.0, 3.0])
X_val, y_val = X[:2] + 0.5, np.array([2.0, 4.0])


def loop(n=6, groups=None):
    groups = [[i] for i in range(n)] if groups is None else groups
    scores = [7.0]
    for mask in range(1, 1 << len(groups)):
        rows = sorted(row for i, group in enumerate(groups) if mask >> i & 1 for row in group)
        scores.append(1.0 - float(np.mean(np.abs(y_val - np.mean(y[rows])))))
    return np.array(scores)


def table(model=None, players=None, **options):
    options = {"empty_score": 7.0} | options
    return utility_table(Centroid() if model is None else model, X, y, X_val, y_val, players, **options)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_table_is_the_plain_loop(n_jobs):
    result = table(n_jobs=n_jobs)
    assert result.is_complete
    assert (result.scores == loop()).all()


@pytest.mark.parametrize(
    ("players", "groups"),
    [(3, [[0, 3], [1, 4], [2, 5]]), ([[5, 0], np.array([2])], [[0, 5], [2]]), ([1, 3], [[1], [3]])],
)
def test_players_are_groups_of_rows_in_the_order_of_the_data(players, groups):
    assert (table(players=players).scores == loop(groups=groups)).all()
    assert all(list(rows) == sorted(rows) for rows in Centroid.fits)


@given(order=st.permutations(range(5)))
@settings(max_examples=20, deadline=None)
def test_relabelling_players_relabels_the_table(order):
    groups = [[0], [1, 5], [2], [3], [4]]
    plain, moved = table(players=groups).scores, table(players=[groups[i] for i in order]).scores
    masks = np.arange(32)
    assert (moved == plain[sum((masks >> new & 1) << old for new, old in enumerate(order))]).all()


def test_some_coalitions_only():
    result = table(coalitions=[[0, 2], [], [5]])
    assert np.flatnonzero(~np.isnan(result.scores)).tolist() == [0, 0b101, 0b100000]
    assert result.scores[[0, 5, 32]].tolist() == loop()[[0, 5, 32]].tolist()
    assert len(Centroid.fits) == 2
    matrix = table(coalitions=np.array([[1, 0, 1, 0, 0, 0]], dtype=bool)).scores
    assert np.flatnonzero(~np.isnan(matrix)).tolist() == [5]
    assert table(coalitions=np.array([5, 5, 9], dtype=np.uint64)).scores[9] == loop()[9]


def test_some_coalitions_of_many_players():
    wide = np.arange(40.0)[:, None]
    result = utility_table(Centroid(), wide, wide[:, 0], X_val, y_val, coalitions=[[39, 0], [7]])
    assert result.n_players == 40
    assert result.sampled.scores.tolist() == [1 - np.mean(np.abs(y_val - mean)) for mean in (7.0, 19.5)]


def test_model_and_data_never_change():
    class Rude(Centroid):
        def fit(self, X, y):
            super().fit(X, y)
            X[:], y[:] = -1, -1
            self.shift += 1

        def score(self, X, y):
            result = super().score(X, y)
            X[:], y[:] = -1, -1
            return result

    model, before = Rude(), copy.deepcopy((X, y, X_val, y_val))
    assert (table(model).scores == loop()).all()
    assert vars(model) == {"shift": 0.0}
    assert all((a == b).all() for a, b in zip(before, (X, y, X_val, y_val), strict=True))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_failures_raise_with_the_coalition(n_jobs):
    with pytest.raises(EvaluationError, match=r"coalition \{\d.*\} .* failed with .*error_score"):
        table(Picky(), n_jobs=n_jobs)
    with pytest.raises(EvaluationError, match=r"ValueError: score of coalition \{0\} is nan"):
        table(Picky(), coalitions=[[0]])


def test_failures_can_have_a_score(tmp_path):
    with pytest.warns(
        NumericalWarning, match=r"32 of 64 coalitions failed .* error_score=-2; the first is \{0\}"
    ):
        scores = table(Picky(), error_score=-2, checkpoint=tmp_path / "c").scores
    expected = np.where(np.arange(64) & 1, loop(), -2.0)
    expected[:2] = 7.0, -2.0
    assert (scores == expected).all()
    fits = len(Centroid.fits)
    with pytest.warns(NumericalWarning, match="32 of 64"):
        again = table(Picky(), error_score=-3.5, checkpoint=tmp_path / "c").scores
    assert len(Centroid.fits) == fits  # only the substitute changes
    assert (again == np.where(expected == -2.0, -3.5, expected)).all()
    with pytest.raises(EvaluationError):
        table(Picky(), checkpoint=tmp_path / "c")
    assert len(Centroid.fits) == fits + 1  # a failed evaluation is tried again


def test_scoring_by_a_callable():
    result = table(scoring=lambda model, inputs, targets: model.mean + len(inputs) + targets[0])
    assert result.scores[0b100] == y[2] + 2 + 2.0


def test_progress_goes_to_stderr(capsys):
    table(progress=True)
    shown = capsys.readouterr()
    assert "64/64" in shown.err
    assert shown.out == ""
    table()
    assert capsys.readouterr() == ("", "")


def test_checkpoint_saves_every_fit(tmp_path):
    folder = tmp_path / "c"
    some = table(coalitions=[[0], [1, 2]], checkpoint=folder)
    assert len(Centroid.fits) == 2
    whole = table(checkpoint=folder)
    assert len(Centroid.fits) == 63
    assert len(set(Centroid.fits)) == 63
    assert (table(checkpoint=folder, n_jobs=2).scores == whole.scores).all()
    assert len(Centroid.fits) == 63
    assert (whole.scores == loop()).all()
    assert some.scores[1] == whole.scores[1]
    assert table(checkpoint=folder, empty_score=1.0).scores[0] == 1.0  # it is not part of the problem


@pytest.mark.parametrize("damage", ["torn", "flipped bit"])
def test_checkpoint_ignores_damaged_records(tmp_path, damage):
    whole = table(checkpoint=tmp_path).scores
    (part,) = tmp_path.glob("part-*.bin")
    content = bytearray(part.read_bytes())
    assert len(content) == 63 * 24
    assert struct.unpack_from("<Qd", content, 24) == (2, whole[2])
    if damage == "torn":
        part.write_bytes(content[:-5])
        lost = {(0, 1, 2, 3, 4, 5)}
    else:
        content[24 * 4 + 12] ^= 1
        part.write_bytes(content)
        lost = {(0, 2)}
    Centroid.fits = []
    assert (table(checkpoint=tmp_path).scores == whole).all()
    assert set(Centroid.fits) == lost


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"model": Centroid(shift=1.0)}, "model"),
        ({"model": Picky()}, "model"),
        ({"y": y + 1}, "data"),
        ({"X": X * 2}, "data"),
        ({"X_val": X_val * 2}, "validation"),
        ({"y_val": y_val[::-1]}, "validation"),
        ({"players": 5}, "players"),
        ({"players": [[i] for i in (1, 0, 2, 3, 4, 5)]}, "players"),
        ({"scoring": lambda model, inputs, targets: model.mean}, "scoring"),
    ],
)
def test_checkpoint_refuses_another_problem(tmp_path, changed, part):
    problem = {"model": Centroid(), "X": X, "y": y, "X_val": X_val, "y_val": y_val, "players": None}
    utility_table(**problem, empty_score=7.0, checkpoint=tmp_path)
    with pytest.raises(
        CheckpointMismatchError, match=rf"belongs to another problem: different {part} .*another folder"
    ):
        utility_table(**(problem | changed), empty_score=7.0, checkpoint=tmp_path)
    same = {key: copy.deepcopy(value) for key, value in problem.items()} | {"X": np.asfortranarray(X)}
    Centroid.fits = []
    utility_table(**same, empty_score=7.0, checkpoint=tmp_path)
    assert Centroid.fits == []


def test_checkpoint_tells_scoring_functions_apart(tmp_path):
    def scorer(power):
        return lambda model, inputs, targets: model.mean**power

    first = table(scoring=scorer(2), checkpoint=tmp_path)
    assert (table(scoring=scorer(2), checkpoint=tmp_path).scores == first.scores).all()
    with pytest.raises(CheckpointMismatchError, match="different scoring"):
        table(scoring=scorer(3), checkpoint=tmp_path)


def test_checkpoint_refuses_what_is_none(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(CheckpointMismatchError, match="must be a folder"):
        table(checkpoint=file)
    table(checkpoint=tmp_path / "c")
    meta = tmp_path / "c" / "meta.json"
    old = meta.read_text()
    meta.write_text(old[:40])
    with pytest.raises(CheckpointMismatchError, match=r"meta\.json is not readable"):
        table(checkpoint=tmp_path / "c")
    meta.write_text(json.dumps(json.loads(old) | {"format": 99}))
    with pytest.raises(CheckpointMismatchError, match="has format 99, this version reads 1"):
        table(checkpoint=tmp_path / "c")
    meta.unlink()
    with pytest.raises(CheckpointMismatchError, match=r"no meta\.json"):
        table(checkpoint=tmp_path / "c")


def test_a_full_disk_is_named_and_leaves_whole_records(tmp_path, monkeypatch):
    table(coalitions=[[0]], checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        write = os.write
        patch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
        with pytest.raises(OSError, match="took only a part"):
            table(coalitions=[[1]], checkpoint=tmp_path)
    assert all(part.stat().st_size % 24 == 0 for part in tmp_path.glob("part-*.bin"))
    assert (table(checkpoint=tmp_path).scores == loop()).all()


def test_model_that_cannot_be_pickled():
    assert (table(Locked()).scores == loop()).all()
    with pytest.raises(TypeError, match=r"must be picklable for n_jobs=2, got Locked .*; use n_jobs=1"):
        table(Locked(), n_jobs=2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": Centroid}, TypeError, "model must be an instance, got the class Centroid"),
        ({"model": object()}, TypeError, r"model must have a method fit"),
        ({"scoring": 3}, TypeError, "scoring must be None, a string or a callable, got int"),
        ({"scoring": lambda *_: "good"}, EvaluationError, "scoring must return a number, got str"),
        ({"empty_score": None}, ValueError, "empty_score must be given, for Centroid is neither"),
        ({"empty_score": np.nan}, ValueError, "empty_score must be finite"),
        ({"error_score": "ignore"}, ValueError, "error_score must be 'raise' or a number, got 'ignore'"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs must be an int"),
        ({"max_players": 5}, TooManyPlayersError, "at most max_players=5 .* got 6; group rows"),
        ({"players": 0}, ValueError, r"players must be in 1..6, got 0"),
        ({"players": 2.0}, TypeError, "players must be an int"),
        ({"players": []}, ValueError, "players must not be empty"),
        ({"players": [[0], []]}, TypeError, "player 1 must be a non-empty vector of row numbers"),
        ({"players": [[0], [True]]}, TypeError, "player 1 must be a non-empty vector of row numbers"),
        ({"players": [[0], [6]]}, ValueError, r"player 1 has row 6, but rows are 0..5"),
        ({"players": [[0], [-1]]}, ValueError, r"player 1 has row -1"),
        ({"players": [[0, 1], [2, 1]]}, ValueError, "a row of player 1 also belongs to player 0"),
        ({"players": [[0, 0]]}, ValueError, "a row of player 0 also belongs to player 0"),
        ({"coalitions": [[6]]}, ValueError, "row 0"),
        ({"y": y[:5]}, ValueError, r"y must have one entry a row of X \(6\), got 5"),
        ({"y_val": y}, ValueError, r"y_val must have one entry a row of X_val \(2\), got 6"),
        ({"X": X[:0], "y": y[:0]}, ValueError, "X must not be empty"),
        ({"X": 3}, TypeError, "X must hold rows, got int"),
    ],
)
def test_bad_input(options, error, message):
    problem = {"model": Centroid(), "X": X, "y": y, "X_val": X_val, "y_val": y_val, "empty_score": 7.0}
    with pytest.raises(error, match=message):
        utility_table(**(problem | options))


def test_a_model_without_score_needs_scoring():
    class Bare:
        def fit(self, X, y):
            self.mean = np.mean(y)

    with pytest.raises(TypeError, match="scoring must be given, for Bare has no method score"):
        table(Bare())
    assert table(Bare(), scoring=lambda model, *_: model.mean).scores[1] == y[0]


def test_a_folder_can_move(tmp_path):
    table(checkpoint=tmp_path / "a")
    shutil.move(tmp_path / "a", tmp_path / "b")
    Centroid.fits = []
    table(checkpoint=tmp_path / "b")
    assert Centroid.fits == []
