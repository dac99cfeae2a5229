"""Areas and borders beside scripts that run starts forward: eight digits in the time of none of them."""

import pytest

from porism.sims.dynamics.benchmarks import BENCHMARKS

BARS = {"area_of_a_basin": 20, "border_of_a_basin": 5}


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda b: b.__name__)
def test_row(benchmark, capsys):
    row = benchmark()
    with capsys.disabled():
        print(f"\n  {row}")
    assert "missing" not in row
    assert row["ours_s"] < 0.2
    assert row["ratio"] >= BARS[benchmark.__name__]
    if benchmark.__name__ == "area_of_a_basin":
        assert row["our_error"] <= 1e-6
        assert row["our_error"] < 1e-3 * row["peer_error"]
