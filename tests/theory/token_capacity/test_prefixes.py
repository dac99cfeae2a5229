"""Visible prefixes against sets of tuples; the chain; the ceiling on ranks of a causal model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.token_capacity import prefix_count

IDS = [[7, 1, 0, 5], [7, 1, 0, 6], [7, 2, 0, 5], [7, 2, 0, 5]]


def test_oracle_5():
    assert prefix_count(IDS, align="absolute").tolist() == [1, 2, 2, 3]
    assert prefix_count(IDS).tolist() == [3, 2, 2, 1]
    assert prefix_count(IDS, align="start").dtype == np.int64


def test_ragged_rows():
    ids, mask = [[1, 9], [2, 9], [3, 9], [1, 4]], [[1, 0], [1, 0], [1, 0], [1, 1]]
    assert prefix_count(ids, mask, align="start").tolist() == [3, 1]
    assert prefix_count(ids, mask).tolist() == [4, 1]


@st.composite
def batches(draw):
    n, T = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    mask = rng.random((n, T)) < draw(st.sampled_from([0.5, 0.9, 1.0]))
    mask[np.arange(n), rng.integers(T, size=n)] = True
    return rng.integers(0, 2, (n, T)), mask


@given(batches(), st.sampled_from(["start", "end", "absolute"]), st.booleans())
@settings(max_examples=100, deadline=None)
def test_against_sets(plain, batch, align, placed):
    ids, mask = batch
    places = np.random.default_rng(0).integers(0, 2, ids.shape) if placed else None
    expected = plain.prefixes(ids.tolist(), mask.tolist(), align, None if places is None else places.tolist())
    for real in (mask, mask.astype(np.int64), mask.astype(float)):
        assert prefix_count(ids, real, align=align, position_ids=places).tolist() == expected
    garbage = np.where(mask, ids, -100)  # padding is told from the mask alone
    assert prefix_count(garbage, mask, align=align, position_ids=places).tolist() == expected
    if align == "end":
        assert (np.diff(expected) <= 0).all()


@given(batches())
@settings(max_examples=50, deadline=None)
def test_padding_on_either_side(batch):
    ids, _ = batch
    n = len(ids)
    pad, none, real = np.full((n, 3), 1), np.zeros((n, 3)), np.ones(ids.shape)
    for align in ("start", "end"):
        expected = prefix_count(ids, align=align).tolist()
        for tokens, mask in (((pad, ids), (none, real)), ((ids, pad), (real, none))):
            assert prefix_count(np.hstack(tokens), np.hstack(mask), align=align).tolist() == expected
    assert (np.diff(prefix_count(ids, align="start")) >= 0).all()  # all examples reach every position


def test_position_ids_tell_prefixes_apart():
    assert prefix_count([[1, 2], [1, 2]], position_ids=[[0, 1], [3, 4]]).tolist() == [2, 2]


def test_bad_input():
    with pytest.raises(ValueError, match=r"^row 1 is all padding"):
        prefix_count(IDS, [[1] * 4, [0] * 4, [1] * 4, [1] * 4])
    with pytest.raises(TypeError, match="input_ids must hold ints, got dtype float64"):
        prefix_count([[0.5]])
    with pytest.raises(TypeError, match="bool"):
        prefix_count([[True]])
    with pytest.raises(ValueError, match="input_ids must be a rectangular array"):
        prefix_count([[1, 2], [3]])
    with pytest.raises(ValueError, match="no empty axis"):
        prefix_count(np.zeros((0, 3), dtype=int))
    with pytest.raises(ValueError, match=r"attention_mask must have shape \(4, 4\), got \(4, 3\)"):
        prefix_count(IDS, np.ones((4, 3)))
    with pytest.raises(NotImplementedError, match="4 axes"):
        prefix_count(IDS, np.ones((4, 1, 4, 4)))
    with pytest.raises(ValueError, match="position_ids must have shape"):
        prefix_count(IDS, position_ids=[[0]])
    with pytest.raises(ValueError, match="align must be one of"):
        prefix_count(IDS, align="left")


@pytest.mark.full
def test_ceiling_on_ranks(needs):
    """Rank of the Gram matrix of any layer's states is at most the number of prefixes, and all 1 at a BOS."""
    torch = needs("torch")
    from porism.sims.tiny_transformer import TinyConfig, TinyTransformer

    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 2, (20, 5), generator=draws)
    ids[:, 0] = 2
    count = prefix_count(ids, align="absolute")
    assert count.dtype == torch.int64
    assert count.tolist() == [len({tuple(row[: t + 1]) for row in ids.tolist()}) for t in range(5)]
    model = TinyTransformer(TinyConfig(vocab=3, d=32, layers=2, heads=4), seed=1).double()
    with torch.no_grad():
        _, streams = model(ids, hidden=True)
    for stream in streams:
        ranks = [int(torch.linalg.matrix_rank(stream[:, t], rtol=1e-9)) for t in range(5)]
        assert all(r <= n for r, n in zip(ranks, count.tolist(), strict=True))
    assert ranks[1:4] == count.tolist()[1:4]
