"""The shapiq adapter, against shapiq itself where it is installed."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from porism.sims.partition.adapters.shapiq import RecordingGame, from_shapiq
from porism.theory.partition import Semivalue, UtilityTable, semivalues

N = 5
SCORES = np.random.default_rng(3).integers(0, 6, 2**N) / 10 + 0.3  # few levels, and v(empty) is not 0
BITS = 1 << np.arange(N)


def function(rows):
    return SCORES[np.asarray(rows, dtype=int) @ BITS]


@pytest.fixture
def game(needs):
    shapiq = needs("shapiq")

    class Table(shapiq.Game):
        def value_function(self, coalitions):
            return function(coalitions)

    return Table(N, normalize=True, normalization_value=float(SCORES[0]))


# --- with shapiq


@pytest.mark.full
def test_a_precomputed_game_is_read_without_its_normalisation(game):
    game.precompute()
    assert game(np.zeros((1, N), bool))[0] == 0.0  # what calling gives is shifted
    table = from_shapiq(game)
    assert table.scores.tolist() == SCORES.tolist()


@pytest.mark.full
@pytest.mark.parametrize("name", ["game.npz", "game.json"])
def test_its_files_are_read(game, name, tmp_path):
    game.precompute()
    game.save_values(tmp_path / name)
    assert from_shapiq(tmp_path / name).scores.tolist() == SCORES.tolist()


@pytest.mark.full
def test_values_agree_with_the_exact_computer(game, needs):
    exact = needs("shapiq").ExactComputer(game)
    game.precompute()
    table = from_shapiq(game)
    for index, semivalue in (("SV", Semivalue.shapley()), ("BV", Semivalue.banzhaf())):
        theirs = exact(index, 1).get_n_order_values(1)
        assert np.abs(semivalues(table, semivalue) - theirs).max() < 1e-9


@pytest.mark.full
def test_a_partly_precomputed_game_lacks_the_rest(game):
    game.precompute(np.array([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0]], dtype=bool))
    table = from_shapiq(game)
    assert np.flatnonzero(~np.isnan(table.scores)).tolist() == [1, 10]
    assert table.n_players == N


@pytest.mark.full
def test_a_game_that_was_only_called_stores_nothing(game):
    game(np.eye(N, dtype=bool))
    with pytest.raises(ValueError, match=r"calling a shapiq game stores nothing; call game\.precompute\(\)"):
        from_shapiq(game)


@pytest.mark.full
@pytest.mark.parametrize("name", ["PermutationSamplingSV", "KernelSHAP", "SVARM"])
def test_approximators_get_the_same_answers_and_leave_their_coalitions(game, needs, name):
    approximator = getattr(needs("shapiq").approximator, name)
    alone = approximator(N, random_state=1).approximate(20, game)
    recording = RecordingGame(game)
    heard = approximator(N, random_state=1).approximate(20, recording)
    assert np.array_equal(alone.values, heard.values)
    assert game.normalization_value == SCORES[0]
    assert len(recording.values) > N
    assert recording.values.tolist() == function(recording.coalitions).tolist()  # bit for bit
    table = from_shapiq(recording)
    known = ~np.isnan(table.scores)
    assert table.scores[known].tolist() == SCORES[known].tolist()


@pytest.mark.full
def test_the_exact_computer_fills_the_whole_table(game, needs):
    recording = RecordingGame(game)
    needs("shapiq").ExactComputer(recording, n_players=recording.n_players)("SV", 1)
    assert recording.table().scores.tolist() == SCORES.tolist()


# --- without


def test_the_npz_layout_is_read(tmp_path):
    members = (np.arange(2**N)[:, None] & BITS) > 0
    shuffled = np.random.default_rng(0).permutation(2**N)
    file = tmp_path / "g.npz"
    arrays = {"values": SCORES[shuffled], "coalitions": members[shuffled], "normalization_value": SCORES[0]}
    np.savez(file, n_players=N, **arrays)
    assert from_shapiq(file).scores.tolist() == SCORES.tolist()
    np.savez(file, values=SCORES)
    with pytest.raises(ValueError, match=r"g.npz must be .* shapiq saved, it lacks coalitions, n_players"):
        from_shapiq(file)


def test_the_json_layout_is_read(tmp_path):
    file = tmp_path / "g.json"
    about = {"n_players": 2, "normalization_value": 1.0}
    content = {"metadata": about, "data": {"Empty": 1.0, "0": 2, "0,1": 4.5}}
    file.write_text(json.dumps(content))
    assert from_shapiq(file).scores[[0, 1, 3]].tolist() == [1.0, 2.0, 4.5]
    assert from_shapiq(str(file)).missing() == [(1,)]
    file.write_text("[1]")
    with pytest.raises(ValueError, match=r"g.json must be a file that shapiq saved"):
        from_shapiq(file)
    with pytest.raises(ValueError, match=r"npz or .json file, got g.pkl"):
        from_shapiq(tmp_path / "g.pkl")


def test_many_players_give_rows():
    game = SimpleNamespace(n_players=40, game_values={(): 0.0, (39,): 1.0})
    table = from_shapiq(game)
    assert table.sampled.dense().nonzero()[1].tolist() == [39]


def test_what_is_no_game_is_refused():
    with pytest.raises(TypeError, match=r"RecordingGame\(function, n_players\)"):
        from_shapiq(function)
    with pytest.raises(TypeError, match="must be callable, got int"):
        RecordingGame(3)
    with pytest.raises(ValueError, match="n_players must be given"):
        RecordingGame(function)
    with pytest.raises(ValueError, match="got no record"):
        RecordingGame(function, N).table()


def test_a_recorder_checks_what_goes_in_and_out():
    recording = RecordingGame(function, N)
    with pytest.raises(ValueError, match=r"shape \(rows, 5\) or \(5,\), got \(1, 4\)"):
        recording(np.ones((1, 4), bool))
    with pytest.raises(ValueError, match="one score a row"):
        RecordingGame(lambda rows: [1.0, 2.0], N)(np.ones((3, N), bool))
    assert recording(np.ones(N, bool)).tolist() == [SCORES[-1]]
    assert recording(np.eye(N)).tolist() == SCORES[BITS].tolist()
    assert np.flatnonzero(~np.isnan(recording.table().scores)).tolist() == [1, 2, 4, 8, 16, 31]
    assert recording.table(design="unknown").sampled.n_rows == 6


def test_the_shift_is_put_back_when_a_game_fails():
    def fail(rows):
        raise RuntimeError("no")

    fail.normalization_value = 0.25
    with pytest.raises(RuntimeError, match="no"):
        RecordingGame(fail, N)(np.eye(N, dtype=bool))
    assert fail.normalization_value == 0.25


def test_sign_needs_the_scores_as_they_are():
    recording = RecordingGame(function, N)
    recording((np.arange(2**N)[:, None] & BITS) > 0)
    shifted = UtilityTable.from_array(SCORES - SCORES[0])
    raw, moved = (semivalues(t, Semivalue.shapley()) for t in (recording.table(), shifted))
    assert np.abs(raw - moved).max() < 1e-12  # marginals do not see a constant …
    assert recording.table().levels().size < shifted.levels().size or np.array_equal(
        recording.table().levels() - SCORES[0], shifted.levels()
    )  # … but levels may split where they are rounded anew
