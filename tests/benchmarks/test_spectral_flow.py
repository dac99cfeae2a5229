"""Side by side with peers in one process and one thread; ratios and errors are judged."""

import pytest

from porism.sims.spectral_flow.benchmarks import BENCHMARKS

BARS = {
    "list 256 x (16x4096)": 1.5,
    "list 256 x (16x4096), fresh memory": 1.5,
    "list 256 x (4096x16)": 1.5,
    "list 1024 x (8x768)": 6.0,
    "list 64 x (64x4096)": 0.0,  # reported only
    "list 16 x (128x4096)": 1.0,
    "stacked": 2.5,
    "full_step": 2.0,
    "spectrum": 200.0,
}


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda b: b.__name__)
def test_against_peer(benchmark, capsys):
    row = benchmark()
    with capsys.disabled():
        print(f"\n  {row}")
    if "missing" in row:
        pytest.skip(row["missing"])
    if benchmark.__name__ == "arrival_order":
        assert (row["ours"], row["theirs"]) == (0, 8)
        return
    assert row["ratio"] >= BARS[benchmark.__name__]
    assert row["agreement"] <= (1e-6 if benchmark.__name__ == "spectrum" else 1e-5)
    assert row.get("peer_error", 1.0) >= 0.1
