"""The pyDVL recorder: what pyDVL 0.10 itself recorded, and the mechanics on a stand-in for its base."""

import gc
import json
import pickle
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import AssumptionError, MissingExtraError, NumericalWarning
from porism.sims.partition.adapters import pydvl
from porism.sims.partition.adapters._rows import prefix_units
from porism.sims.partition.adapters.pydvl import RecordingUtility, read_recording
from porism.theory.partition import Semivalue, semivalues

SEMIVALUES = {
    "shapley": Semivalue.shapley(),
    "closed_shapley": Semivalue.shapley(),
    "banzhaf": Semivalue.banzhaf(),
    "beta_4_1": Semivalue.beta(4, 1),
}


def peer(folder):
    return json.loads((folder / "peer.json").read_text())


# --- recorded by the real library


@pytest.mark.parametrize("case", ["shoes", "voting", "logistic"])
@pytest.mark.filterwarnings("ignore::porism.errors.NumericalWarning")
def test_semivalues_of_the_recorded_table_are_those_pydvl_computed(recorded, case):
    folder = recorded / "pydvl" / case
    table, theirs = read_recording(folder), peer(folder)
    assert table.is_complete
    found = [name for name in SEMIVALUES if name in theirs]
    assert {"shapley", "banzhaf", "beta_4_1"} <= set(found)
    for name in found:
        assert np.abs(semivalues(table, SEMIVALUES[name]) - theirs[name]).max() < 1e-9, name


def test_parallel_workers_wrote_files_of_their_own(recorded):
    assert len(list((recorded / "pydvl" / "logistic").glob("*.rec"))) >= 2
    lines = sum(len(p.read_text().splitlines()) for p in (recorded / "pydvl" / "logistic").glob("*.rec"))
    assert lines == 6 * 2**6  # a deterministic sampler asks for n 2^(n-1) marginals, two scores each


def test_fallbacks_are_counted_told_and_dropped(recorded):
    folder = recorded / "pydvl" / "logistic"
    count = peer(folder)["fallbacks"]
    assert count > 0
    assert peer(folder)["warned"] == 1
    with pytest.warns(NumericalWarning, match=rf"^{count} of 384 records .* fallbacks='drop'"):
        kept = read_recording(folder)
    dropped = read_recording(folder, fallbacks="drop")  # no warning
    lost = np.isnan(dropped.scores)
    assert lost.any()
    assert not lost[0]  # the empty coalition scores the default by definition
    assert (kept.scores[lost] == 0.5).all()


@pytest.mark.filterwarnings("ignore::porism.errors.NumericalWarning")
def test_permutations_come_apart_and_give_pydvls_estimate(recorded):
    folder = recorded / "pydvl" / "permutation"
    sampled = read_recording(folder, design="permutation").sampled
    assert not sampled.truncated
    members, n = sampled.dense(), sampled.n_players
    assert (np.bincount(sampled.unit) == n + 1).all()
    step = np.flatnonzero(np.diff(sampled.unit) == 0)
    joined = members[step + 1] & ~members[step]
    assert (joined.sum(axis=1) == 1).all()
    marginals = np.diff(sampled.scores)[step]
    estimate = joined.T @ marginals / joined.sum(axis=0)
    assert np.abs(estimate - peer(folder)["shapley"]).max() < 1e-9


@pytest.mark.filterwarnings("ignore::porism.errors.NumericalWarning")
def test_uniform_rows_give_pydvls_banzhaf_estimate(recorded):
    folder = recorded / "pydvl" / "msr"
    sampled = read_recording(folder, design="uniform").sampled
    inside = sampled.dense()
    estimate = [sampled.scores[inside[:, i]].mean() - sampled.scores[~inside[:, i]].mean() for i in range(6)]
    assert np.abs(np.array(estimate) - peer(folder)["banzhaf"]).max() < 1e-9


# --- reading


def test_a_torn_last_record_is_ignored_and_a_damaged_line_is_named(tmp_path):
    (tmp_path / "1.rec").write_text("0 0.5 0\n3 0.75 0\n1 0.2")
    assert read_recording(tmp_path, n=2).missing() == [(0,), (1,)]
    (tmp_path / "2.rec").write_text("0 0.5 0\n3 0.7.5 0\n1 0.25 0\n")
    with pytest.raises(ValueError, match=r"line 2 of 2.rec must be .*3 0.7.5 0"):
        read_recording(tmp_path, n=2)


def test_no_record_and_too_few_players_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold records, got none"):
        read_recording(tmp_path, n=2)
    (tmp_path / "1.rec").write_text("4 0.5 0\n")
    with pytest.raises(ValueError, match="n must be at least 3, got 2: player 2"):
        read_recording(tmp_path, n=2)
    with pytest.raises(ValueError, match="design must be named for n > 24"):
        read_recording(tmp_path, n=25)
    assert read_recording(tmp_path, n=25, design="unknown").sampled.dense()[0].nonzero()[0].tolist() == [2]


def test_duplicates_follow_on_duplicate(tmp_path):
    (tmp_path / "1.rec").write_text("1 0.5 0\n1 0.5 0\n")
    (tmp_path / "2.rec").write_text("1 1.0 0\n")
    with pytest.raises(ValueError, match="on_duplicate"):
        read_recording(tmp_path, n=1)
    assert read_recording(tmp_path, n=1, on_duplicate="first").scores[1] == 0.5


def test_permutations_of_several_files_are_told_apart_and_gaps_seen(tmp_path):
    (tmp_path / "1.rec").write_text("0 0.0 0\n1 0.5 0\n3 1.0 0\n")
    (tmp_path / "2.rec").write_text("0 0.0 0\n2 0.5 1\n3 1.0 0\n")
    with pytest.warns(NumericalWarning, match="^1 of 6 records"):
        sampled = read_recording(tmp_path, n=2, design="permutation").sampled
    assert sampled.unit.tolist() == [0, 0, 0, 1, 1, 1]
    assert not sampled.truncated
    assert read_recording(tmp_path, n=2, design="uniform", fallbacks="drop").sampled.truncated
    with (tmp_path / "2.rec").open("a") as file:
        file.write("0 0.0 0\n2 0.75 0\n")  # a worker was interrupted here
    with pytest.warns(NumericalWarning):
        sampled = read_recording(tmp_path, n=2, design="permutation").sampled
    assert sampled.unit.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert sampled.truncated
    with pytest.warns(NumericalWarning):
        assert not read_recording(tmp_path, n=2, design="permutation", truncated=False).sampled.truncated


@given(st.lists(st.permutations(range(5)), min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 5))
def test_prefix_units_number_permutations(permutations, first, last):
    masks = [sum(1 << i for i in p[:k]) for p in permutations for k in range(first, 6)]
    unit, whole = prefix_units(masks, 5)
    assert unit.tolist() == [u for u in range(len(permutations)) for _ in range(first, 6)]
    assert whole == (first == 0)
    cut = masks[: len(masks) - last] if last < 6 - first else masks
    if len(cut) < len(masks):
        assert not prefix_units(cut, 5)[1]


# --- the recorder, on a stand-in for pyDVL's base class (the real one: recordings above, and test_peers)


class Data:
    def __init__(self, n, indices=None):
        self.indices = np.arange(n) if indices is None else np.array(indices)

    def __len__(self):
        return len(self.indices)


class Utility:
    """Scores the sum of its players plus the size of its data, as a utility of pyDVL 0.10 would be made."""

    training_data = None
    scorer = types.SimpleNamespace(default=3.0)
    show_warnings = False

    def with_dataset(self, data, copy=True):
        twin = type(self)() if copy else self
        twin.training_data = data
        return twin

    def __call__(self, sample):
        return 3.0 if sample is None or not len(sample.subset) else float(sum(sample.subset))


def sample(*players, **more):
    return types.SimpleNamespace(subset=np.array(players, dtype=int), **more)


@pytest.fixture
def base(monkeypatch):
    if "pydvl" in sys.modules:
        pytest.skip("the real pyDVL is here")

    class UtilityBase:
        pass

    for name in ("pydvl", "pydvl.valuation", "pydvl.valuation.utility", "pydvl.valuation.utility.base"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["pydvl.valuation.utility.base"].UtilityBase = UtilityBase
    pydvl._bound_class.cache_clear()
    yield UtilityBase
    pydvl._bound_class.cache_clear()


def test_it_is_a_utility_and_answers_as_the_wrapped_one(base):
    recorder = RecordingUtility(Utility())
    assert isinstance(recorder, base)
    fitted = recorder.with_dataset(Data(4))
    assert recorder.training_data is None
    assert len(fitted.training_data) == 4
    assert fitted.show_warnings is False
    assert [fitted(s) for s in (None, sample(), sample(2, 1), sample(3))] == [3.0, 3.0, 3.0, 3.0]
    assert fitted.fallbacks == 2  # {1, 2} and {3}; the empty coalition is none
    with pytest.warns(NumericalWarning, match="^2 of 4 records"):
        table = recorder.table()  # the recorder the user holds knows n from its copies
    assert table.n_players == 4
    assert table.scores[[0, 6, 8]].tolist() == [3.0, 3.0, 3.0]


def test_a_default_that_is_nan_is_a_fallback_too(base):
    class Failing(Utility):
        scorer = types.SimpleNamespace(default=float("nan"))

        def __call__(self, sample):
            return float("nan") if list(sample.subset) == [1] else 0.5

    recorder = RecordingUtility(Failing()).with_dataset(Data(2))
    for players in ((), (0,), (1,), (0, 1)):
        recorder(sample(*players))
    assert recorder.fallbacks == 1
    assert recorder.table(fallbacks="drop").missing() == [(1,)]


def test_other_data_under_the_same_recorder_is_refused(base):
    recorder = RecordingUtility(Utility())
    recorder.with_dataset(Data(4))
    with pytest.raises(AssumptionError, match=r"must have 4 points .* got 5"):
        recorder.with_dataset(Data(5))
    with pytest.raises(AssumptionError, match=r"indices 0..2, got \[1 2 3\]"):
        RecordingUtility(Utility()).with_dataset(Data(3, [1, 2, 3]))


def test_what_is_no_set_function_is_refused(base):
    class DataUtilityLearning(Utility):
        pass

    with pytest.raises(TypeError, match="wrap the utility inside it"):
        RecordingUtility(DataUtilityLearning())
    with pytest.raises(TypeError, match="must be a pyDVL utility, got int"):
        RecordingUtility(3)
    recorder = RecordingUtility(Utility())
    with pytest.raises(AssumptionError, match="class-wise"):
        recorder(sample(1, ooc_subset=np.array([2])))
    with pytest.raises(ValueError, match="player 1 twice"):
        recorder(sample(1, 1))


def test_data_utility_learning_may_set_its_data(base):
    recorder = RecordingUtility(Utility())
    recorder._training_data = Data(3)  # what DataUtilityLearning does to the utility inside it
    assert len(recorder.utility.training_data) == 3


def test_pickled_copies_and_threads_write_to_one_folder(base, tmp_path):
    recorder = RecordingUtility(Utility(), tmp_path / "records").with_dataset(Data(8))
    twin = pickle.loads(pickle.dumps(recorder.with_dataset(Data(8), copy=False)))
    assert isinstance(twin, base)
    assert twin.directory == recorder.directory

    together = Barrier(4)

    def evaluate(start):
        together.wait(timeout=30)
        return [twin(sample(*[i for i in range(8) if mask >> i & 1])) for mask in range(start, start + 64)]

    with ThreadPoolExecutor(4) as pool:
        scores = [score for part in pool.map(evaluate, range(0, 256, 64)) for score in part]
    assert len(list(recorder.directory.glob("*.rec"))) == 4
    table = recorder.table(fallbacks="drop")
    kept = [mask for mask in range(256) if scores[mask] != 3.0 or mask == 0]
    assert table.scores[kept].tolist() == [scores[mask] for mask in kept]
    assert sum(len(p.read_text().splitlines()) for p in recorder.directory.glob("*.rec")) == 256


def test_a_temporary_folder_goes_with_the_last_copy(base):
    recorder = RecordingUtility(Utility())
    twin, folder = recorder.with_dataset(Data(2)), recorder.directory
    del recorder
    gc.collect()
    twin(sample(1))
    assert folder.exists()
    del twin
    gc.collect()
    assert not folder.exists()


def test_without_pydvl_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydvl", None)
    pydvl._bound_class.cache_clear()
    with pytest.raises(MissingExtraError, match=r"environment of its own.*--no-deps"):
        RecordingUtility(Utility())
