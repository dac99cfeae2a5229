"""Counts against the table of the case, loops that count, and torch's counter."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.results import Result
from porism.theory.attention.cost import AttentionConfig, Cost, cost_model

SIZE = st.integers(1, 40)


def test_oracle_5():
    config = AttentionConfig(width=1024, kv_heads=4, physical=4, virtual=8, head_dim=64, bytes_per_number=2)
    assert cost_model(config) == Cost(1_048_704, 2_113_536, 1024)
    assert cost_model(dataclasses.replace(config, folded=True)) == Cost(2_097_152, 4_194_304, 1024)
    same = dataclasses.replace(config, physical=8)
    assert (
        cost_model(dataclasses.replace(same, folded=True)).flops_per_token < cost_model(same).flops_per_token
    )


@given(SIZE, SIZE, SIZE, SIZE, SIZE)
def test_vh5_pays_above_the_edge(D, n, P, G, d):
    kept = AttentionConfig(D, n, P, G, d)
    folded = dataclasses.replace(kept, folded=True)
    cheaper = cost_model(folded).flops_per_token < cost_model(kept).flops_per_token
    assert cheaper == (P * (D + G) > G * D)
    assert cost_model(folded).cache_bytes_per_token == cost_model(kept).cache_bytes_per_token
    # a folded layer is plain grouped attention with G heads a group
    assert cost_model(folded) == cost_model(AttentionConfig(D, n, G, G, d, folded=True))


def test_by_counting_one_by_one():
    D, n, P, G, d = 5, 2, 3, 4, 6
    projected = sum(2 for _ in itertools.product(range(n), range(P), range(d), range(D)))
    mixed = sum(2 for _ in itertools.product(range(n), range(G), range(P), range(d)))
    assert cost_model(AttentionConfig(D, n, P, G, d)).flops_per_token == projected + mixed
    assert cost_model(AttentionConfig(D, n, P, G, d)).params == n * P * d * D + n * G * P


def test_results_round_trip(tmp_path):
    for result in (AttentionConfig(1, 2, 3, 4, 5, True), Cost(1, 2, 3)):
        result.save(tmp_path / "one.npz")
        assert Result.load(tmp_path / "one.npz") == result


@pytest.mark.parametrize("name", ["width", "kv_heads", "physical", "virtual", "head_dim", "bytes_per_number"])
def test_bad_input(name):
    config = AttentionConfig(8, 1, 2, 2, 4)
    with pytest.raises(ValueError, match=f"{name} must be >= 1, got 0"):
        cost_model(dataclasses.replace(config, **{name: 0}))
    with pytest.raises(TypeError, match=f"{name} must be an int"):
        cost_model(dataclasses.replace(config, **{name: 2.0}))
    with pytest.raises(TypeError, match="config must be an AttentionConfig, got dict"):
        cost_model({})
