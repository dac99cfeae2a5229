"""The packed sweep against rationals over a dense membership matrix."""

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

from porism.kernels.coalition import column_sums, packed_sweep

NOBODY = np.zeros(0, np.int64)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 7), (17, 8), (40, 9), (33, 65)])
def test_column_sums(m, n):
    rng = np.random.default_rng(n)
    members = rng.random((m, n)) < 0.5
    values = rng.integers(-9, 9, m).astype(float)
    count, total = column_sums(np.packbits(members, axis=1, bitorder="little"), values, n)
    assert count.tolist() == members.sum(axis=0).tolist()
    assert total.tolist() == (members * values[:, None]).sum(axis=0).tolist()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [2, 7, 8, 9, 20])
def test_least_difference_of_adjacent_blocks(n, seed):
    rng = np.random.default_rng([n, seed])
    m = int(rng.integers(4, 30))
    members = rng.random((m, n)) < 0.5
    members[0], members[1] = True, False
    scores = np.sort(rng.integers(0, 8, m).astype(float))[::-1]
    scores[0], scores[-1] = 9, -1
    blocks = np.sort(rng.permutation(np.append(rng.integers(0, 3, max(n - 2, 0)), [0, 1])[:n]))
    blocks = np.unique(blocks, return_inverse=True)[1].astype(np.int64)
    held = members.sum(axis=0).astype(np.int64)
    packed = np.packbits(members, axis=1, bitorder="little")
    order = np.arange(m)
    best, t, i, j = packed_sweep(order, scores, packed, NOBODY, NOBODY, held, blocks)
    values = {}
    for end in range(m - 1):
        if scores[end] != scores[end + 1]:
            c = members[: end + 1].sum(axis=0)
            psi = [F(int(c[p]), int(held[p])) - F(end + 1 - int(c[p]), m - int(held[p])) for p in range(n)]
            for a, b in itertools.product(range(n), range(n)):
                if blocks[b] == blocks[a] + 1:
                    values[end, a, b] = psi[a] - psi[b]
    least = min(values.values())
    assert best == pytest.approx(float(least), abs=1e-14)
    assert values[int(t), int(i), int(j)] == least
    assert (best < -1e-12) == (least < 0)


def test_moves_of_permutations():
    """Rows of one permutation: each adds a player and takes the place of the one before."""
    rng = np.random.default_rng(0)
    n, count = 5, 6
    gain, loss, scores = [], [], []
    for _ in range(count):
        order = rng.permutation(n).tolist()
        gain += [-1, *order]
        loss += [*order, -1]
        scores += rng.integers(0, 6, n + 1).tolist()
    gain, loss, scores = np.array(gain), np.array(loss), np.array(scores, float)
    order = np.argsort(-scores, kind="stable")
    blocks = np.array([0, 1, 0, 1, 1])
    packed = np.zeros((len(scores), 1), np.uint8)
    best, t, i, j = packed_sweep(order, scores[order], packed, gain, loss, np.zeros(n, np.int64), blocks)
    found = {}
    for end in range(len(scores) - 1):
        if scores[order[end]] != scores[order[end + 1]]:
            top = order[: end + 1]
            c = [int((gain[top] == p).sum() - (loss[top] == p).sum()) for p in range(n)]
            found |= {(end, a, b): c[a] - c[b] for a in (0, 2) for b in (1, 3, 4)}
    least = min(found.values())
    assert best == least
    assert (int(t), int(i), int(j)) == max(
        (k for k, d in found.items() if d == least), key=lambda k: (k[0], -k[1], -k[2])
    )
