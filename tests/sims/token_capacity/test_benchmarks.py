"""Rows of the benchmarks at small sizes, and the meters that they use against sizes known by hand."""

import json

import numpy as np
import pytest

from porism.sims._peak import peak_bytes
from porism.sims.token_capacity import _peers, benchmarks

SMALL = {"length": 24, "width": 32, "layers": 2, "heads": 4}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(benchmarks, "ROUNDS", 1)


def test_every_row_has_a_name_and_a_text():
    names = [benchmark.__name__ for benchmark in benchmarks.BENCHMARKS]
    assert len(set(names)) == len(names)
    assert all(benchmark.__doc__ for benchmark in benchmarks.BENCHMARKS)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_saved_bytes(hf, kind):
    row = benchmarks._saved(kind, 4, **SMALL)()
    json.dumps(row)
    assert row["agreement"] <= 1e-5
    assert row["saved"]["ours"] < row["saved"]["TokenTune-style"] < row["saved"]["full"]
    assert row["ratio"] == row["saved"]["full"] / row["saved"]["ours"]


@pytest.mark.full
def test_saved_bytes_of_an_adapter(hf, needs):
    needs("peft")
    assert benchmarks._saved("llama", 4, "lora", **SMALL)()["agreement"] <= 1e-5


def test_no_number_where_answers_differ(hf, monkeypatch):
    def wrong(*tensors, scale, **rest):
        return _peers._eager(*tensors, scale=2 * scale, **rest)

    monkeypatch.setitem(_peers.ATTENTIONS, "TokenTune-style", wrong)
    row = benchmarks._saved("llama", 4, **SMALL)()
    assert "answers differ" in row["missing"]
    assert not {"ratio", "saved"} & row.keys()


def test_times_share_one_measurement(hf):
    rows = [benchmarks._time("gpt2", peer, k=4, length=24)() for peer in ("full", "checkpointing")]
    assert rows[0]["ours_s"] == rows[1]["ours_s"]
    assert rows[0]["peer_s"] != rows[1]["peer_s"]


def test_gradient_against_its_definition(hf):
    row = benchmarks.exact()
    assert row["agreement"] <= 1e-12
    assert len(row["gaps"]) == 6


def test_cut_gradients_differ_from_full_ones(torch, hf):
    net = _peers.model("bert", width=32, layers=2, heads=4, length=12, initializer_range=0.4).double()
    ids = torch.arange(3, 15)[None]
    chosen = torch.arange(12)[None] < 3
    cut = _peers.cut_gradients(net, ids, chosen)
    full = _peers.gradients(net, _peers.weighted(net.base_model(input_ids=ids).last_hidden_state[chosen]))
    assert _peers.apart(cut, full) > 0.01
    again = _peers.cut_gradients(net, ids, torch.ones_like(chosen))
    whole = _peers.gradients(net, _peers.weighted(net.base_model(input_ids=ids).last_hidden_state))
    assert _peers.apart(again, whole) <= 1e-12


@pytest.mark.parametrize("name", benchmarks.PEERS)
def test_kernels(torch, name):
    row = benchmarks._kernel(name, N=6, T=4, d=5)()
    assert row["agreement"] <= 1e-10
    assert {"ours", "theirs", "ours_s", "peer_s"} <= row.keys()


def test_kernels_of_two_maps_by_hand(torch):
    x, g = torch.tensor([[[1.0, 0.0]], [[1.0, 1.0]]]), torch.tensor([[[1.0]], [[2.0]]])
    for peer in benchmarks.PEERS.values():
        assert peer(x, g).tolist() == [[[1.0, 2.0], [2.0, 8.0]]]


def test_diagnostics(hf):
    row = benchmarks.diagnostics((32, 256), length=16)
    assert row["agreement"] <= 1e-10
    assert row["theirs"][1] > 2 * row["theirs"][0]
    assert row["ours"][1] < 1.2 * row["ours"][0]


def test_peak_of_tensors(torch):
    x = torch.zeros(1000, dtype=torch.float64)

    def work():
        y = x + 1  # 8000 bytes
        z = y * 2  # 16000
        del y
        return z + 1  # 16000 again

    found = peak_bytes(work, x)
    assert 16000 <= found < 20000  # and some objects of Python
    assert peak_bytes(lambda: x.view(10, 100), x) < 4000
    assert peak_bytes(lambda: (x + 1, x + 2), x) >= 16000


def test_peak_of_arrays(torch):
    x = np.zeros(50_000)
    assert 800_000 <= peak_bytes(lambda: (x + 1) + (x + 2)) < 1_210_000
    once = peak_bytes(lambda: torch.from_numpy(x + 1))
    assert 400_000 <= once < 410_000  # memory that both share is counted once


def test_checkpointed_comes_back(torch, hf):
    net = _peers.model("llama", width=32, layers=1, heads=4, length=8)

    def active():
        return [net.training, any(getattr(m, "gradient_checkpointing", False) for m in net.modules())]

    def fail():
        with _peers.checkpointed(net):
            assert active() == [True, True]
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert active() == [False, False]
