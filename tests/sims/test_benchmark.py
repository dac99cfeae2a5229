"""Side-by-side timing on a clock that the test moves."""

import numpy as np
import pytest

from porism._pool import one_blas_thread
from porism.sims.benchmark import beside, compare, median_seconds, missing_peer, one_thread, row


class Clock:
    """Each work moves it by the next of its seconds."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def __call__(self):
        return self.now

    def work(self, name, seconds):
        left = iter(seconds)

        def run():
            self.log.append(name)
            self.now += next(left)

        return run


def test_interleaved_medians_leave_out_the_first_round():
    clock = Clock()
    works = clock.work("a", [50, 1, 9, 2]), clock.work("b", [70, 4, 4, 60])
    np.testing.assert_array_equal(median_seconds(*works, rounds=3, clock=clock), [2, 4])
    assert "".join(clock.log) == "ab" * 4


def test_several_clocks():
    clock = Clock()
    found = median_seconds(
        clock.work("a", [0, 3]), rounds=1, clock=lambda: np.array([clock.now, 2 * clock.now])
    )
    np.testing.assert_array_equal(found, [[3, 6]])
    with pytest.raises(ValueError, match="rounds"):
        median_seconds(rounds=0)


def test_ratio_is_the_peers_over_ours():
    clock = Clock()
    found = beside(clock.work("a", [9, 2]), clock.work("b", [9, 8]), 1, clock)
    assert found == {"ours_s": 2, "peer_s": 8, "ratio": 4}


def test_no_times_where_answers_differ():
    found = compare("sum", "numpy", lambda: 1.0, lambda: 1.5, lambda a, b: abs(a - b), 0.1)
    note = "no time: answers differ by 0.5, more than 0.1"
    assert found == row("sum", "numpy", agreement=0.5, missing=note)
    assert "missing" in compare("sum", "numpy", lambda: np.nan, lambda: 1.0, lambda a, b: a - b, 0.1)


def test_the_first_missing_peer_is_named(monkeypatch):
    assert missing_peer("sum", "numpy", "scipy") is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "numpy" or None)
    assert "pip install 'porism[hf]'" in missing_peer("sum", "numpy", "peft", "shap")["missing"]
    assert "pip install 'porism[peers]'" in missing_peer("sum", "numpy", "shap")["missing"]


def test_one_thread_of_linear_algebra(needs):
    info = needs("threadpoolctl").threadpool_info
    before = info()
    with one_blas_thread():
        counts = [pool["num_threads"] for pool in info() if pool["user_api"] == "blas"]
    assert counts == [1] * len(counts) != []
    assert info() == before


def test_threads_are_given_back(needs):
    torch = needs("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(ValueError, match="invalid"), one_thread():
            int("x")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
