import itertools

import pytest

from porism.sims.token_capacity import select_last, select_random, select_stride

pytestmark = pytest.mark.full

LEFT, RIGHT, HOLES = [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1]


@pytest.fixture
def mask(torch):
    return torch.tensor([[1] * 6, LEFT, RIGHT, HOLES, [0, 0, 0, 0, 1, 0]])


def real(row):
    return [j for j, value in enumerate(row) if value]


def pad(row, k):
    return sorted(row) + [-1] * (k - len(row))


@pytest.mark.parametrize("k", range(1, 7))
def test_last(mask, k):
    assert select_last(mask, k).tolist() == [pad(real(row)[-k:], k) for row in mask.tolist()]
    assert select_last(mask.bool(), k).tolist() == select_last(mask.float(), k).tolist()


@pytest.mark.parametrize("k", range(1, 7))
def test_stride(mask, k):
    found = select_stride(mask, k).tolist()
    for row, chosen in zip(mask.tolist(), found, strict=True):
        tokens = real(row)
        n, m = len(tokens), min(k, len(tokens))
        wanted = [tokens[i * (n - 1) // (m - 1)] for i in range(m)] if m > 1 else [tokens[-1]]
        assert chosen == pad(wanted, k)
        assert len(set(wanted)) == m


@pytest.mark.parametrize("k", range(2, 7))
def test_random_keeps_what_is_always_in(torch, mask, k):
    state = torch.get_rng_state()
    found = select_random(mask, k, always=(0, -1), generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(found, select_random(mask, k, always=(0, -1), generator=3))
    for row, chosen in zip(mask.tolist(), found.tolist(), strict=True):
        tokens, used = real(row), [j for j in chosen if j >= 0]
        assert {tokens[0], tokens[-1]} <= set(used) <= set(tokens)
        assert len(set(used)) == min(k, len(tokens))
        assert chosen == pad(used, k)


def test_random_is_uniform_over_the_rest(torch):
    """Chi-square with 5 degrees of freedom: 25.7 is passed with probability 1e-4 at a fixed seed."""
    draws = 3000
    mask = torch.tensor([[1, 1, 1, 0, 1, 1]]).expand(draws, -1)
    found = select_random(mask, 3, always=(0,), generator=0).tolist()
    counts = dict.fromkeys(itertools.combinations((1, 2, 4, 5), 2), 0)
    for row in found:
        assert row[0] == 0
        counts[tuple(row[1:])] += 1
    expected = draws / len(counts)
    assert sum((n - expected) ** 2 / expected for n in counts.values()) < 25.7


def test_bad_input(torch, mask):
    for select in (select_last, select_stride, lambda m, k: select_random(m, k, generator=0)):
        with pytest.raises(ValueError, match="need at least one selected position"):
            select(mask, 0)
        with pytest.raises(ValueError, match=r"k=7 exceeds sequence length T=6"):
            select(mask, 7)
        with pytest.raises(TypeError):
            select(mask, True)
        with pytest.raises(TypeError):
            select(mask, 2.0)
        with pytest.raises(ValueError, match="row 1 is all padding"):
            select(torch.tensor([[1, 1], [0, 0]]), 1)
        with pytest.raises(TypeError, match="attention_mask must be a tensor"):
            select([[1, 1]], 1)
        with pytest.raises(ValueError, match=r"attention_mask must have shape"):
            select(torch.ones(4), 1)
        with pytest.raises(ValueError, match="attention_mask must hold 0 and 1, got 2"):
            select(torch.tensor([[1, 1, 2, 2]]), 1)
    with pytest.raises(ValueError, match="always=3 must name a real token of every row, got row 2"):
        select_random(mask, 4, always=(3,), generator=0)
    with pytest.raises(ValueError, match=r"always=-5 .* got row 1"):
        select_random(mask, 6, always=(-5,), generator=0)
    with pytest.raises(ValueError, match="2 positions of always, got 1"):
        select_random(mask, 1, always=(0, -1), generator=0)
    with pytest.raises(TypeError):
        select_random(mask, 2, generator=None)
    with pytest.raises(TypeError, match="always must be a sequence of ints, got 0"):
        select_random(mask, 2, always=0, generator=0)
