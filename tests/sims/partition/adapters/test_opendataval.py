"""The OpenDataVal recorder: runs of OpenDataVal 1.3 replayed through it, and its mechanics on stand-ins."""

import copy
import json
from math import comb
from types import SimpleNamespace

import numpy as np
import pytest

from porism.sims.partition.adapters.opendataval import record
from porism.theory.partition import Semivalue


class Sampler:
    """What the recorder needs of a sampler."""

    def __init__(self, num_points=0, min_cardinality=5):
        self.num_points, self.min_cardinality = num_points, min_cardinality

    def set_evaluator(self, function):
        self.compute_utility = function


class TMCSampler(Sampler):
    def walk(self, order, stop=None):
        coalition = list(order[: self.min_cardinality])
        self.compute_utility(coalition)
        for player in order[self.min_cardinality : stop]:
            coalition.append(player)  # the same list, as OpenDataVal does it
            self.compute_utility(coalition)


class Model:
    def clone(self):
        return copy.deepcopy(self)

    def fit(self, x, y):
        self.on = x.indices.tolist()
        return self


class Evaluator:
    """Draws subsets, fits and asks for a score as OpenDataVal's evaluators do."""

    def __init__(self, subsets, n):
        self.subsets, self.num_points, self.num_models = subsets, n, len(subsets)
        self.input_model(Model())
        self.y_valid = np.zeros(3)

    def input_model(self, model):
        self.pred_model = model.clone()

    def evaluate(self, y, y_hat):
        return float(sum(y_hat)) / 8

    def train_data_values(self):
        for subset in self.subsets:
            if not np.array(subset, dtype=int).any():
                continue
            model = self.pred_model.clone()
            model.fit(SimpleNamespace(indices=np.array(subset)), None)
            self.evaluate(self.y_valid, model.on)
        return self


class DataBanzhaf(Evaluator):
    pass


def replay(content):
    """Send recorded evaluations through the recorder again."""
    masks, scores = [int(m, 16) for m in content["masks"].split()], iter(content["scores"])
    sampler = type(content["class"], (Sampler,), {})(content["n"], content["min_cardinality"])
    recording = record(sampler)
    sampler.set_evaluator(lambda subset: next(scores))
    for mask in masks:
        sampler.compute_utility([i for i in range(content["n"]) if mask >> i & 1])
    return recording


@pytest.fixture
def case(recorded):
    return lambda name: json.loads((recorded / "opendataval" / f"{name}.json").read_text())


# --- recorded by the real library


def marginals_by_size(sampled):
    """Sum and count of the marginal contributions, (player, size of the coalition it joined)."""
    members, n = sampled.dense(), sampled.n_players
    total, count = np.zeros((n, n)), np.full((n, n), 1e-8)  # the count OpenDataVal starts from
    for row in np.flatnonzero(np.diff(sampled.unit) == 0):
        (player,) = np.flatnonzero(members[row] != members[row + 1])
        size = members[row].sum()
        total[player, size] += sampled.scores[row + 1] - sampled.scores[row]
        count[player, size] += 1
    return total, count


def test_banzhaf_estimate_comes_out_of_the_rows(case):
    content = case("banzhaf")
    recording = replay(content)
    sampled = recording.table(design="uniform").sampled
    inside = sampled.dense()
    scores, n = sampled.scores, content["n"]
    values = [scores[inside[:, i]].mean() - scores[~inside[:, i]].mean() for i in range(n)]
    assert np.abs(np.array(values) - content["values"]).max() < 1e-9


def test_banzhaf_skipped_the_empty_set_and_the_first_singleton(case):
    content = case("banzhaf")
    assert content["drawn"] == len(content["scores"]) + content["dropped"]
    assert content["dropped"] > 0
    rows = content["masks"].split()
    assert {"0", "1"}.isdisjoint(rows)
    assert {"2", "4", "8", "10"} <= set(rows)  # the other singletons were drawn and evaluated


def test_shapley_and_beta_estimates_come_out_of_the_rows(case):
    content = case("shapley")
    recording = replay(content)
    assert recording.design == "permutation"
    sampled = recording.table(design="permutation").sampled
    assert sampled.truncated  # no prefix of fewer than five players
    total, count = marginals_by_size(sampled)
    assert np.round(count).astype(int).tolist() == content["counts"]
    assert np.abs((total / count).mean(axis=1) - content["values"]).max() < 1e-9
    n, weights = content["n"], np.exp(Semivalue.beta(4, 1).log_weights(content["n"]))
    mass = [comb(n - 1, s) * weights[s] for s in range(n)]
    assert np.abs((total / count) @ mass - content["beta_4_1"]).max() < 1e-9


def test_margcontrib_banzhaf_is_another_semivalue(case):
    content = case("margcontrib")
    sampled = replay(content).table(design="permutation").sampled
    assert not sampled.truncated  # min_cardinality=0: all prefixes are there
    total, count = marginals_by_size(sampled)
    n = content["n"]
    theirs = np.array([comb(n, s) for s in range(n)]) / (2**n - 1)
    banzhaf = np.array([comb(n - 1, s) for s in range(n)]) / 2 ** (n - 1)
    assert np.abs((total / count) @ theirs - content["values"]).max() < 1e-9
    assert np.abs((total / count) @ banzhaf - content["values"]).max() > 1e-3
    p = [n / ((n - s) * (2**n - 1)) for s in range(n)]  # the weights our documentation states
    assert np.allclose([comb(n - 1, s) * p[s] for s in range(n)], theirs, rtol=1e-12)


def test_an_early_stop_is_seen(case):
    content = case("truncated")
    sampled = replay(content).table(design="permutation").sampled
    assert sampled.truncated
    last = np.flatnonzero(np.diff(np.append(sampled.unit, -1)))
    sizes = sampled.dense()[last].sum(axis=1)
    assert (sizes < content["n"]).any()


def test_leave_one_out_is_in_the_table(case):
    content = case("loo")
    scores = {int(m, 16): v for m, v in zip(content["masks"].split(), content["scores"], strict=True)}
    n = content["n"]
    full = (1 << n) - 1
    values = [scores[full] - scores[full ^ 1 << i] for i in range(n)]
    assert np.abs(np.array(values) - content["values"]).max() < 1e-9


# --- the mechanics


def test_lists_that_grow_later_are_recorded_as_they_were():
    sampler = TMCSampler(num_points=4, min_cardinality=1)
    recording = record(sampler)
    sampler.set_evaluator(lambda subset: float(sum(subset)))
    sampler.walk([2, 0, 3, 1])
    sampler.walk([1, 0, 2, 3], stop=3)
    table = recording.table(design=recording.design)
    assert [np.flatnonzero(row).tolist() for row in table.sampled.dense()] == [
        [2], [0, 2], [0, 2, 3], [0, 1, 2, 3], [1], [0, 1], [0, 1, 2],
    ]  # fmt: skip
    assert table.sampled.scores.tolist() == [2, 2, 5, 6, 1, 1, 3]
    assert table.sampled.unit.tolist() == [0] * 4 + [1] * 3
    assert recording.table().scores[[4, 5, 7]].tolist() == [2.0, 2.0, 3.0]


def test_a_sampler_that_is_already_set_up_is_heard_and_let_go():
    sampler = TMCSampler(num_points=3, min_cardinality=0)
    sampler.set_evaluator(len)
    with record(SimpleNamespace(sampler=sampler)) as recording:
        sampler.walk([0, 1, 2])
    assert recording.n_rows == 4
    assert sampler.compute_utility is len
    assert "set_evaluator" not in vars(sampler)
    sampler.walk([0, 1, 2])
    assert recording.n_rows == 4
    assert not recording.table(design="permutation").sampled.truncated


def test_small_coalitions_are_named():
    from porism.theory.partition import SmallCoalitions

    assert record(TMCSampler()).small("size-only") == SmallCoalitions(below=5, values="size-only")
    assert record(TMCSampler(min_cardinality=1)).small() is None


def test_two_utilities_of_one_sampler_are_kept_apart():
    sampler = TMCSampler(num_points=2, min_cardinality=0)
    recording = record(sampler)
    sampler.set_evaluator(lambda subset: 1.0 * len(subset))
    sampler.walk([0, 1])
    sampler.num_points = 3
    sampler.set_evaluator(lambda subset: 2.0 * len(subset))
    sampler.walk([2, 0, 1])
    with pytest.raises(ValueError, match=r"game must be 0..1, got None: 2 utilities"):
        recording.table()
    assert recording.table(game=0).scores[3] == 2.0
    assert recording.table(game=1).scores[7] == 6.0


def test_a_cache_that_answers_leaves_nothing_to_tell():
    with pytest.raises(ValueError, match="cache_name=None"):
        record(TMCSampler()).table()


def test_evaluators_are_heard_through_fit_and_evaluate():
    evaluator = DataBanzhaf([[0, 2], [0], [1], [], [1, 2]], n=3)
    recording = record(evaluator)
    model = evaluator.pred_model
    assert evaluator.train_data_values() is evaluator
    assert vars(model) == {}
    assert "evaluate" not in vars(evaluator)
    assert (recording.n_rows, recording.drawn, recording.dropped) == (3, 5, 2)
    table = recording.table(design=recording.design)
    assert (table.sampled.design, table.sampled.truncated) == ("uniform", True)
    assert recording.table().scores[[5, 2, 6]].tolist() == [2 / 8, 1 / 8, 3 / 8]
    recording.stop()
    evaluator.train_data_values()
    assert recording.n_rows == 3


def test_a_sample_without_skipped_draws_is_a_uniform_sample():
    evaluator = DataBanzhaf([[0, 2], [1], [1, 2]], n=3)
    recording = record(evaluator)
    evaluator.train_data_values()
    assert not recording.table(design="uniform").sampled.truncated


def test_hooks_are_removed_when_training_fails():
    def fail(y, y_hat):
        raise RuntimeError("no metric")

    evaluator = DataBanzhaf([[2]], n=3)
    recording = record(evaluator)
    evaluator.evaluate = fail
    with pytest.raises(RuntimeError, match="no metric"):
        evaluator.train_data_values()
    assert evaluator.evaluate is fail
    assert vars(evaluator.pred_model) == {}
    assert recording.n_rows == 0


def test_a_tensor_with_a_method_called_indices_is_the_full_set():
    class Tensor:
        def __len__(self):
            return 3

        def indices(self):
            raise AssertionError

    evaluator = Evaluator([], n=3)
    recording = record(evaluator)

    def fit_all():
        model = evaluator.pred_model.clone()
        assert "clone" not in vars(model)  # clones of clones are the model's own affair
        with pytest.raises(AttributeError):
            model.fit(Tensor(), None)  # our stand-in model cannot fit it, and need not
        evaluator.evaluate(np.ones(2), [8])  # a score on other data is not the coalition's
        evaluator.evaluate(evaluator.y_valid, [16])
        evaluator.evaluate(evaluator.y_valid, [24])  # nothing was fitted since

    recording.stop()
    evaluator.train_data_values = fit_all
    recording = record(evaluator)
    evaluator.train_data_values()
    assert recording.games[0].masks == [7]
    assert recording.games[0].scores == [2.0]


def test_what_cannot_be_heard_is_refused():
    class AME:
        pass

    with pytest.raises(TypeError, match=r"\.subsets and \.performance"):
        record(AME())
    with pytest.raises(TypeError, match=r"must be an OpenDataVal sampler.*got KNNShapley"):
        record(type("KNNShapley", (), {})())
