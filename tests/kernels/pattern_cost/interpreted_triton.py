"""Triton's interpreter against float64 and the definitions; test_triton.py runs this in its own process."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels import pattern_cost
from porism.kernels.pattern_cost import triton

SHAPES = [(2, 37, 45), (1, 1, 1), (3, 15, 17), (2, 17, 15), (1, 63, 65), (1, 65, 63), (2, 1, 65), (1, 65, 1)]
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
SIZES = [1, 2, 15, 16, 17, 37, 63, 65]
UNIT = 2.0**-24
pytestmark = pytest.mark.usefixtures("poison")


def orders(rng, b, n):
    return np.array([rng.permutation(n) for _ in range(b)], dtype=np.int64).reshape(b, n)


def relative(found, expected):
    """Largest relative error; exact zeros must be exact."""
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected)
    assert found.shape == expected.shape
    assert not found[expected == 0].any()
    return float(np.abs(found / np.where(expected == 0, 1, expected) - (expected != 0)).max(initial=0.0))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_batched_cost(shape, kind):
    b, m, n = shape
    rng = np.random.default_rng(n)
    A = torch.tensor(rng.normal(size=shape)).to(kind)  # rounded first: the kernel answers for the rest
    q, W = orders(rng, b, n), rng.random((m, n))
    W[rng.random((m, n)) < 0.3] = 0
    found = triton.batched_cost(A, q, torch.tensor(W))
    assert found.dtype == torch.float32
    assert relative(found, pattern_cost.batched_cost(A.double().numpy(), q, W)) <= 2e-6
    if shape == SHAPES[0]:
        assert (
            relative(found, pattern_cost.batched_cost(A.double().numpy(), q, W, backend="reference")) <= 2e-6
        )


def test_rounding_of_bfloat16_itself_is_much_larger():
    """The tolerance tells the rounded matrix from the one before."""
    rng = np.random.default_rng(0)
    A, q, W = rng.normal(size=(2, 37, 45)), orders(rng, 2, 45), rng.random((37, 45))
    found = triton.batched_cost(torch.tensor(A).to(torch.bfloat16), q, W)
    assert relative(found, pattern_cost.batched_cost(A, q, W)) > 1e-4


def test_the_order_of_columns_matters_and_rows_are_sources():
    A, W = [[[1.0, 2, 3], [4, 5, 6]]], [[0.0, 0, 1], [1, 0, 0]]
    assert triton.batched_cost(A, [[2, 0, 1]], W).tolist() == [[[4.0, 9.0], [25.0, 36.0]]]


def test_long_rows_lose_nothing():
    """Plain float32 sums of many equal terms err by far more than the bound, compensated ones do not."""
    n = 16384
    A, q = np.full((1, 1, n), np.float32(1.1)), np.arange(n)[None]
    exact = n * float(np.float32(1.1)) ** 2
    found = float(triton.batched_cost(torch.tensor(A), q, np.ones((1, n)))[0, 0, 0])
    assert abs(found / exact - 1) <= 22 * UNIT
    plain = float(np.cumsum((A[0, 0].astype(np.float32) ** 2).astype(np.float32), dtype=np.float32)[-1])
    assert abs(plain / exact - 1) > 1e-5


def test_more_tiles_than_one_each_way():
    rng = np.random.default_rng(0)
    A, q, W = rng.normal(size=(2, 131, 70)), orders(rng, 2, 70), rng.random((131, 70))
    assert relative(triton.batched_cost(A, q, W), pattern_cost.batched_cost(A, q, W)) <= 2e-6


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 3), st.integers(1, 20), st.integers(1, 20), st.integers(0, 1000))
def test_any_small_shape(b, m, n, seed):
    rng = np.random.default_rng(seed)
    A, q, W = rng.normal(size=(b, m, n)), orders(rng, b, n), rng.integers(0, 2, (m, n)).astype(float)
    assert relative(triton.batched_cost(A, q, W), pattern_cost.batched_cost(A, q, W)) <= 2e-6


def ends(m, n, rng):
    low, high = np.sort(rng.integers(0, n + 1, (2, m)), axis=0)
    low[0], high[0] = 0, n  # nothing outside
    low[-1] = high[-1] = n // 2  # everything outside
    return low, high


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (1, 3, 600)])
def test_interval_cost(shape, kind):
    b, m, n = shape
    rng = np.random.default_rng(n)
    A, q, (low, high) = torch.tensor(rng.normal(size=shape)).to(kind), orders(rng, b, n), ends(m, n, rng)
    j = np.arange(n)
    W = ((j < low[:, None]) | (j >= high[:, None])).astype(float)
    found = triton.interval_cost(A, q, low, high)
    expected = pattern_cost.batched_cost(A.double().numpy(), q, W)
    assert np.abs(found.double().numpy() - expected).max() <= 3 * UNIT * expected.max(initial=1e-300)
    # what lies outside may be tiny beside the row
    assert relative(found.double().numpy() * (expected > 1e-8), expected * (expected > 1e-8)) <= 2e-6


def test_little_mass_outside_survives():
    """Prefix sums in float32 would give 0 or noise."""
    A = np.array([[[1e-4, 1, 1, 1, 2e-4]]])
    for q, low, high in (([0, 1, 2, 3, 4], 1, 4), ([0, 4, 1, 2, 3], 2, 5), ([1, 2, 3, 4, 0], 0, 3)):
        assert triton.interval_cost(A, [q], [low], [high])[0, 0, 0] == pytest.approx(5e-8, rel=1e-6)
    assert triton.interval_cost(A * [0, 1, 1, 1, 0], [[0, 1, 2, 3, 4]], [1], [4])[0, 0, 0] == 0


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_swap_deltas(n, symmetric):
    rng = np.random.default_rng(n)
    B, W, p = rng.exponential(size=(n, n)), rng.random((n, n)), rng.permutation(n)
    if symmetric:
        B, W = B + B.T, W + W.T
    B *= n / B.sum()
    found = triton.swap_deltas(torch.tensor(B), W, p)
    assert found.dtype == torch.float32
    assert (found == found.T).all()
    assert not found.diagonal().any()
    way = "reference" if n <= 17 else "cpu"  # direct recomputation of both values
    assert np.abs(found.numpy() - pattern_cost.swap_deltas(B, W, p, backend=way)).max() <= 1e-5


def test_swap_deltas_of_many_tiles():
    rng = np.random.default_rng(0)
    n = 131
    B, W, p = rng.exponential(size=(n, n)), rng.random((n, n)), rng.permutation(n)
    B *= n / B.sum()
    assert np.abs(triton.swap_deltas(B, W, p) - pattern_cost.swap_deltas(B, W, p)).max() <= 1e-5


def test_a_known_swap():
    assert triton.swap_deltas([[0.0, 1], [0, 5]], [[0.0, 0], [2, 1]], [0, 1]).tolist() == [[0, -3], [-3, 0]]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mass", ["squared", "abs"])
@pytest.mark.parametrize("kind", TYPES)
def test_head_null(causal, mass, kind):
    rng = np.random.default_rng(0)
    A = torch.tensor(rng.normal(size=(3, 37, 45))).to(kind)
    S = rng.random((2, 37, 45))
    found = triton.head_null(A, S, causal=causal, mass=mass, rows=5)
    expected = pattern_cost.head_null(A.double().numpy(), S, causal=causal, mass=mass)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float64
        assert relative(one, other) <= 2e-6


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (17, 2, 15, 17), (2, 17, 17, 15), (1, 65, 3, 65), (2, 1, 1, 65), (1, 2, 65, 1)]
)
@pytest.mark.parametrize("rows", [1, 16])
def test_head_null_of_odd_sizes(shape, rows):
    heads, kinds, m, n = shape
    rng = np.random.default_rng(heads)
    A, S = rng.normal(size=(heads, m, n)), rng.random((kinds, m, n))
    for causal in (False, True):
        found = triton.head_null(A, S, causal=causal, rows=rows)
        expected = pattern_cost.head_null(A, S, causal=causal, backend="reference")
        assert max(relative(one, other) for one, other in zip(found, expected, strict=True)) <= 2e-6


def test_head_null_of_extremes():
    """Squares that neither float32 nor float64 can hold."""
    A = np.array([np.zeros((2, 2)), [[1e-200, 0], [0, 1e-200]], [[1e300, 1e300], [0, 0]]])
    d2, null = triton.head_null(A, np.eye(2)[None])
    assert np.isnan([d2[0, 0], null[0, 0]]).all()
    assert d2[1:, 0].tolist() == [0.0, 0.5]
    for size in (1e-30, 1e30):
        A = torch.tensor([[[size, size], [0, 0]]], dtype=torch.float32)
        assert triton.head_null(A, np.eye(2)[None])[0].tolist() == [[0.5]]


def test_mass_of_every_size_counts():
    """Rows that differ by powers of ten: each tile has a unit of its own."""
    rng = np.random.default_rng(0)
    A = rng.random((2, 20, 70)) * 10.0 ** rng.integers(-3, 4, (2, 20, 1))
    S = rng.integers(0, 2, (3, 20, 70)).astype(float)
    for mass in ("squared", "abs"):
        found, expected = triton.head_null(A, S, mass=mass), pattern_cost.head_null(A, S, mass=mass)
        assert max(relative(one, other) for one, other in zip(found, expected, strict=True)) <= 2e-6


def test_empty_batches():
    assert triton.batched_cost(np.ones((0, 3, 4)), np.ones((0, 4), int), np.ones((3, 4))).shape == (0, 3, 3)
    assert (
        triton.batched_cost(np.ones((2, 3, 0)), np.ones((2, 0), int), np.ones((3, 0))).tolist()
        == [[[0.0] * 3] * 3] * 2
    )
    assert triton.interval_cost(np.ones((0, 3, 4)), np.ones((0, 4), int), [0] * 3, [4] * 3).shape == (0, 3, 3)
    assert triton.swap_deltas(np.ones((0, 0)), np.ones((0, 0)), []).shape == (0, 0)
    assert triton.head_null(np.ones((0, 3, 4)), np.ones((2, 3, 4)))[0].shape == (0, 2)
    assert triton.head_null(np.ones((2, 3, 4)), np.ones((0, 3, 4)))[1].shape == (2, 0)


VIEWS = [
    lambda x: x.mT.contiguous().mT,
    lambda x: torch.stack([x, x * 0 + 9], -1)[..., 0],
    lambda x: x.flip(-1).flip(-1),
    lambda x: x.clone().requires_grad_(),
    lambda x: torch.cat([x, x * 0 + torch.inf], -2)[..., : x.shape[-2], :],
]


@pytest.mark.parametrize("view", VIEWS)
def test_layouts(view):
    rng = np.random.default_rng(5)
    A, W, S = (torch.tensor(rng.random((k, 18, 18)), dtype=torch.float32) for k in (2, 1, 3))
    q, p = torch.tensor(orders(rng, 2, 18)), torch.tensor(rng.permutation(18))
    spread = torch.stack([q, q + 7], -1)[..., 0]
    cost = triton.batched_cost(A, q, W[0])
    assert torch.equal(triton.batched_cost(view(A), spread, view(W[0])), cost)
    assert torch.equal(triton.swap_deltas(view(A[0]), view(W[0]), p), triton.swap_deltas(A[0], W[0], p))
    for one, other in zip(triton.head_null(view(A), view(S)), triton.head_null(A, S), strict=True):
        assert torch.equal(one, other)
    ends_of = torch.arange(18), torch.arange(18) + 1
    assert torch.equal(triton.interval_cost(view(A), spread, *ends_of), triton.interval_cost(A, q, *ends_of))


def test_one_matrix_for_all_orders_is_not_copied():
    rng = np.random.default_rng(5)
    A, W, q = torch.tensor(rng.random((1, 17, 9))), rng.random((17, 9)), orders(rng, 4, 9)
    found = triton.batched_cost(A.float().expand(4, 17, 9), q, W)
    assert relative(found, pattern_cost.batched_cost(A.float().expand(4, 17, 9).numpy(), q, W)) <= 2e-6


def test_arrays_give_arrays_and_are_left_alone():
    rng = np.random.default_rng(2)
    given_ = A, q, W, S = rng.random((2, 6, 6)), orders(rng, 2, 6), rng.random((6, 6)), rng.random((1, 6, 6))
    before = [x.copy() for x in given_]
    for x in given_:
        x.flags.writeable = False
    results = [triton.batched_cost(A, q, W), triton.swap_deltas(A[0], W, q[0]), *triton.head_null(A, S)]
    results += [triton.interval_cost(A[:, ::-1], q, [0] * 6, [3] * 6)]
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in results)
    assert all((x == y).all() for x, y in zip(given_, before, strict=True))


ONES, ORDER, EYE = np.ones((1, 2, 3)), [[0, 1, 2]], np.eye(2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: triton.batched_cost(ONES, [[0, 1]], ONES[0]), ValueError, "do not fit"),
        (lambda: triton.batched_cost(ONES, [[0, 1, 3]], ONES[0]), ValueError, r"q must be in 0\.\.2, got 0"),
        (lambda: triton.batched_cost(ONES, [[0, 1, -1]], ONES[0]), ValueError, r"got -1\.\.1"),
        (lambda: triton.batched_cost(ONES, [[0.0, 1, 2]], ONES[0]), TypeError, "q must hold integers"),
        (lambda: triton.batched_cost(ONES[0], ORDER, ONES[0]), ValueError, "A must have 3 axes"),
        (lambda: triton.batched_cost(ONES, ORDER, ONES), ValueError, "W must have 2 axes"),
        (lambda: triton.batched_cost(ONES * np.nan, ORDER, ONES[0]), ValueError, "A and W must be finite"),
        (lambda: triton.batched_cost(ONES * 1e20, ORDER, ONES[0]), ValueError, "range of float32"),
        (lambda: triton.batched_cost(torch.ones(1, 2, 3).int(), ORDER, ONES[0]), TypeError, "int32"),
        (lambda: triton.interval_cost(ONES, ORDER, [0, 2], [3, 1]), ValueError, "low must be at most"),
        (lambda: triton.interval_cost(ONES, ORDER, [0, 0], [3, 4]), ValueError, r"high must be in 0\.\.3"),
        (lambda: triton.interval_cost(ONES, ORDER, [0], [3]), ValueError, "do not fit"),
        (lambda: triton.interval_cost(ONES * np.inf, [[0, 1, 2]], [0, 0], [1, 1]), ValueError, "finite"),
        (lambda: triton.swap_deltas(ONES[0], ONES[0], [0, 1]), ValueError, "do not fit"),
        (lambda: triton.swap_deltas(np.eye(2), np.eye(2) * np.nan, [0, 1]), ValueError, "must be finite"),
        (lambda: triton.swap_deltas(np.eye(2), np.eye(2), [0, 2]), ValueError, r"p must be in 0\.\.1"),
        (lambda: triton.head_null(ONES, np.ones((1, 2, 2))), ValueError, "do not fit"),
        (lambda: triton.head_null(ONES * np.nan, ONES), ValueError, "A and masks must be finite"),
        (lambda: triton.head_null(torch.full((1, 2, 3), torch.inf), ONES), ValueError, "must be finite"),
        (lambda: triton.head_null(ONES, ONES * np.nan), ValueError, "A and masks must be finite"),
        (lambda: triton.head_null(ONES, ONES, mass="cubed"), ValueError, "mass must be one of"),
        (lambda: triton.head_null(ONES, ONES, rows=0), ValueError, "rows must be in"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of infinities in the interpreter
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
