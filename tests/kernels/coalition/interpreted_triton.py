"""Triton's interpreter against CPU path and reference; test_triton.py runs this in a process of its own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels.coalition import level_margin, triton

SIZES = (2, 3, 5, 7, 10)
pytestmark = pytest.mark.usefixtures("poison")


def weights_of(n, rng):
    weights = rng.integers(0, 1000, n + 1)
    weights[[0, n]] = 0
    return weights


def sides_of(n, rng):
    upper = int(rng.integers(1, (1 << n) - 1))
    return upper, ~upper & ((1 << n) - 1)


SCORES = {
    "distinct": lambda n, rng: rng.permutation(1 << n) - 3.5,
    "two": lambda n, rng: rng.permutation(1 << n) % 2 * 1.0,
    "few": lambda n, rng: rng.integers(-3, 4, 1 << n) / 4,
    "negative": lambda n, rng: -np.exp(rng.normal(size=1 << n)),
    "by size": lambda n, rng: np.array([-float(m.bit_count()) for m in range(1 << n)]),
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", SCORES)
def test_equals_cpu_and_reference(n, kind):
    rng = np.random.default_rng(n)
    scores, weights, (upper, lower) = SCORES[kind](n, rng), weights_of(n, rng), sides_of(n, rng)
    expected = level_margin(scores, weights, upper, lower, backend="cpu")
    if n <= 7 or kind == "two":
        assert level_margin(scores, weights, upper, lower, backend="reference") == expected
    for block in (1, 3, 7, 1024) if n <= 5 else (37, 64, 200, 1024):
        assert triton.level_margin(scores, weights, upper, lower, block=block) == expected
    assert level_margin(scores, weights, upper, lower, backend="triton") == expected


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_small_game(data):
    n = data.draw(st.integers(2, 5))
    level = st.integers(-2, data.draw(st.integers(-1, 9)))
    scores = np.array(data.draw(st.lists(level, min_size=1 << n, max_size=1 << n)), float)
    scores[-1] += scores.max() == scores.min()
    weights = np.array([0, *data.draw(st.lists(st.integers(0, 3), min_size=n - 1, max_size=n - 1)), 0])
    upper = data.draw(st.integers(1, (1 << n) - 2))
    lower = ~upper & data.draw(st.integers(0, (1 << n) - 1)) & ((1 << n) - 1)
    lower = lower or ~upper & ((1 << n) - 1)
    block = data.draw(st.integers(1, 40))
    expected = level_margin(scores, weights, upper, lower, backend="reference")
    assert triton.level_margin(scores, weights, upper, lower, block=block) == expected


def test_more_than_sixteen_players(monkeypatch):
    """17 players need 32 lanes; large tiles keep the interpreter quick."""
    monkeypatch.setattr(triton, "TILE", 1 << 19)
    rng = np.random.default_rng(17)
    scores, weights = rng.integers(0, 50, 1 << 17).astype(float), weights_of(17, rng)
    upper, lower = 0b10000000001100101, 0b01111111110011010
    expected = level_margin(scores, weights, upper, lower, backend="cpu")
    assert triton.level_margin(scores, weights, upper, lower, block=30011) == expected


@pytest.mark.parametrize("n", [2, 3, 10])
def test_weights_up_to_62_bits(n):
    """Products and sums far beyond what a double or an int32 holds."""
    rng = np.random.default_rng(n)
    weights = np.full(n + 1, ((1 << 62) - 1) // ((1 << n) - 2))
    weights[[0, n]] = 0
    scores = rng.permutation(1 << n).astype(float)
    for upper in (1, (1 << n) - 2):
        lower = ~upper & ((1 << n) - 1)
        expected = level_margin(scores, weights, upper, lower, backend="reference" if n < 4 else "cpu")
        assert triton.level_margin(scores, weights, upper, lower, block=3 if n < 4 else 96) == expected
    assert weights.max() > 1 << 51


def test_oracles_of_known_games():
    shapley = np.array([0, 1, 1, 0])
    scores = np.array([0.0, 5, 0, 7, 0, 7, 10, 12])
    assert triton.level_margin(scores, shapley, 0b001, 0b110) == (-1, 10.0, (0, 1))
    assert triton.level_margin(np.array([0.0, 1, 3, 4]), np.array([0, 1, 0]), 0b10, 0b01) == (0, 1.0, (1, 0))


@pytest.mark.parametrize("block", [1, 2, 5, 64])
def test_ties_take_the_lowest_level_then_the_smallest_pair(block):
    """Symmetric players tie at every level, in whichever block it ends."""
    scores = np.array([float(m.bit_count()) for m in range(64)])
    weights = np.array([0, 3, 1, 4, 1, 5, 0])
    found = triton.level_margin(scores, weights, 0b101100, 0b010010, block=block)
    assert found == (0, 1.0, (2, 1))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: torch.from_numpy(np.repeat(x, 3))[::3],
        lambda x: torch.stack([torch.from_numpy(x)] * 2, 1)[:, 1],
        lambda x: torch.from_numpy(x.astype(np.float32)),
        lambda x: torch.from_numpy(x.copy()).requires_grad_(),
        lambda x: np.repeat(x, 2)[::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(np.int32),
        lambda x: x.tolist(),
    ],
)
def test_layouts_and_types(view):
    rng = np.random.default_rng(5)
    scores, weights = rng.integers(-8, 9, 32).astype(float), weights_of(5, rng)
    expected = level_margin(scores, weights, 0b01001, 0b10110, backend="reference")
    assert triton.level_margin(view(scores), weights, 0b01001, 0b10110, block=6) == expected


def test_inputs_are_left_alone_and_may_be_read_only():
    scores, weights = np.array([0.0, 5, 0, 7, 0, 7, 10, 12]), np.array([0, 1, 1, 0])
    before = scores.copy(), weights.copy()
    scores.flags.writeable = weights.flags.writeable = False
    triton.level_margin(scores, weights, 1, 6)
    tensor = torch.tensor(scores)
    triton.level_margin(tensor, weights, 1, 6)
    assert (scores == before[0]).all()
    assert (weights == before[1]).all()
    assert (tensor.numpy() == before[0]).all()


def test_float32_levels_are_kept():
    scores = torch.tensor([0.0, 0.1, 0.3, 0.4], dtype=torch.float32)
    margin, level, pair = triton.level_margin(scores, np.array([0, 1, 0]), 0b01, 0b10)
    assert (margin, level, pair) == (-1, float(np.float32(0.3)), (0, 1))


def test_zeros_of_either_sign_are_one_level():
    for zeros in ((0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)):
        scores = np.array([-1.0, *zeros, 1.0])
        margin, level, pair = triton.level_margin(scores, np.array([0, 1, 0]), 0b01, 0b10)
        assert (margin, str(level), pair) == (0, "0.0", (0, 1))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"scores": np.ones(8)}, ValueError, "scores must have two different values"),
        ({"scores": np.arange(7.0)}, ValueError, r"scores must have shape \(8,\).*got \(7,\)"),
        ({"scores": np.ones((2, 4))}, ValueError, r"got \(2, 4\)"),
        ({"scores": np.array([np.nan, *range(7)])}, ValueError, "scores must be finite"),
        ({"scores": torch.ones(8, dtype=torch.float16)}, TypeError, "float64 or float32 for Triton, got"),
        ({"block": 0}, ValueError, "block must be"),
        ({"block": 64.0}, TypeError, "block must be an int"),
    ],
)
def test_bad_input(change, error, words):
    good = {"scores": np.arange(8.0), "weights": np.array([0, 1, 1, 0]), "upper": 1, "lower": 6, "block": 4}
    with pytest.raises(error, match=words):
        triton.level_margin(**good | change)


def test_a_kernel_that_errs_is_noticed(monkeypatch):
    """One wrong count in the sweep must not become a margin."""
    right = triton.sweep

    class Wrong:
        def __getitem__(self, grid):
            def launch(order, values, table, carry, least, *rest, **options):
                right[grid](order, values, table, carry, least, *rest, **options)
                least[0] -= 1

            return launch

    monkeypatch.setattr(triton, "sweep", Wrong())
    with pytest.raises(RuntimeError, match="gives margin -2 on cpu, a recount -1; take backend='cpu'"):
        triton.level_margin(np.array([0.0, 5, 0, 7, 0, 7, 10, 12]), np.array([0, 1, 1, 0]), 1, 6)


def test_certificates_on_the_gpu_are_those_of_the_cpu(monkeypatch):
    """Robust ones come from the kernel alone; all others fall back to the sweep on the CPU."""
    from porism.theory.partition import (
        MonotoneClass,
        OrderedPartition,
        Semivalue,
        Sign,
        TopK,
        UtilityTable,
        _certifier,
        certify_partition,
    )

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    n, swept = 4, []
    real = _certifier.Levels
    monkeypatch.setattr(_certifier, "Levels", lambda *args: swept.append(0) or real(*args))
    rng, settled, refused = np.random.default_rng(n), 0, 0
    options = [{}, {"strict": "weakly-increasing"}, {"transforms": MonotoneClass(max_slope_ratio=3)}]
    blocks, wide = OrderedPartition([[0], list(range(1, n))]), Semivalue.weighted_banzhaf(f"1/{10**40}")
    for trial in range(6):
        scores = rng.permutation(1 << n) % (3 + trial) + trial * SCORES["by size"](n, rng)
        scores += [trial % 4 * sum((m >> i & 1) * (n - i) ** 2 for i in range(n)) for m in range(1 << n)]
        table = UtilityTable.from_array(scores)
        for sv in (Semivalue.shapley(), Semivalue.banzhaf(), wide):
            for decision in (TopK(1), TopK(n - 1), blocks, Sign()):
                option = {"ties": "weak"} | options[trial % 3]
                expected = certify_partition(table, sv, decision, **option)
                swept.clear()
                found = certify_partition(table, sv, decision, device="cuda", **option)
                assert found.to_json() == expected.to_json()
                plain = sv is not wide and decision != Sign()
                assert bool(swept) == (not plain or found.level_margin < 0)
                settled, refused = settled + (not swept), refused + (plain and bool(swept))
    assert settled > 20
    assert refused > 0
