"""Equal functions told as such where plain measures are fooled; wide layers without all pairs."""

import math

import pytest

from porism.sims.representation.benchmarks import BENCHMARKS


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda b: b.__name__)
def test_row(benchmark, capsys):
    row = benchmark()
    with capsys.disabled():
        print(f"\n  {row}")
    if "missing" in row:
        pytest.skip(row["missing"])
    assert row.get("ratio", math.inf) >= 1
    if benchmark.__name__.startswith("equal functions"):
        assert row["agreement"] <= 1e-9
        assert row["ours"] >= 1 - 1e-9
        assert row["theirs"] < 0.6
    elif benchmark.__name__ == "wide":
        assert row["agreement"] == 0
        assert row["ours_s"] < 1
        assert row["theirs"] >= 2000
