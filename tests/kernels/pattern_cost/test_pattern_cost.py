"""Pattern kernels against their definitions, and the compiled search against recomputed values."""

import subprocess
import sys

import numpy as np
import pytest

from porism.kernels import pattern_cost
from porism.theory.pattern import masks
from porism.theory.pattern._anneal import Layout, TwoSided
from porism.theory.pattern._problem import prepare


def random_order(rng, b, n):
    return np.array([rng.permutation(n) for _ in range(b)])


PENALTIES = {
    "random": lambda: np.random.default_rng(3).random((7, 11)),
    "blocks": lambda: masks.block_diagonal([3, 4], [5, 6]).penalty,
    "staircase": lambda: masks.staircase(7, 11, [1, 3, 3, 5, 9, 10, 11]).penalty,
    "ones": lambda: np.ones((7, 11)),
    "zeros": lambda: np.zeros((7, 11)),
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_batched_cost(name, dtype):
    rng = np.random.default_rng(0)
    W, A, q = PENALTIES[name](), rng.normal(size=(2, 7, 11)).astype(dtype), random_order(rng, 2, 11)
    kept = A.copy()
    got = pattern_cost.batched_cost(A, q, W)
    assert got.shape == (2, 7, 7)
    assert np.abs(got - pattern_cost.batched_cost(A, q, W, backend="reference")).max() <= 1e-13 * 11
    assert np.array_equal(A, kept)


def test_prefix_sums_and_products_agree():
    rng = np.random.default_rng(1)
    n = 128  # wide enough for prefix sums
    W, A, q = masks.band(n, 5).penalty, rng.normal(size=(1, n, n)), random_order(rng, 1, n)
    direct = (A[0][:, q[0]] ** 2) @ W.T
    assert np.abs(pattern_cost.batched_cost(A, q, W)[0] - direct).max() <= 1e-12 * n
    other = W + 1e-3 * rng.random((n, n))
    assert (
        np.abs(pattern_cost.batched_cost(A, q, other)[0] - (A[0][:, q[0]] ** 2) @ other.T).max() <= 1e-12 * n
    )


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_swap_deltas(n, symmetric):
    rng = np.random.default_rng(n)
    B, W, p = rng.random((n, n)), rng.random((n, n)), rng.permutation(n)
    if symmetric:
        B, W = B + B.T, W + W.T
    got = pattern_cost.swap_deltas(B, W, p)
    assert np.abs(got - pattern_cost.swap_deltas(B, W, p, backend="reference")).max() <= 1e-12
    assert np.abs(got - got.T).max() <= 1e-13
    assert not np.diagonal(got).any()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mass", ["squared", "abs"])
def test_head_null(causal, mass):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 6, 6))
    A = np.tril(A) if causal else A
    S = np.array([masks.band(6, 1).S, rng.random((6, 6))])
    got = pattern_cost.head_null(A, S, causal=causal, mass=mass)
    want = pattern_cost.head_null(A, S, causal=causal, mass=mass, backend="reference")
    assert np.abs(np.array(got) - np.array(want)).max() <= 1e-14


def test_head_null_is_the_mean_of_shuffles():
    rng = np.random.default_rng(0)
    A, S = rng.exponential(size=(1, 8, 8)), masks.band(8, 1).S[None]
    _, null = pattern_cost.head_null(A, S)
    drawn = rng.permuted(np.repeat(A[0][None], 4000, axis=0), axis=2)
    values, _ = pattern_cost.head_null(drawn, S)
    assert abs(values.mean() - null[0, 0]) <= 5 * values.std() / np.sqrt(4000)


def test_head_null_of_extremes():
    A = np.array([np.zeros((2, 2)), [[1e-200, 0], [0, 1e-200]], [[1e300, 1e300], [0, 0]]])
    d2, _ = pattern_cost.head_null(A, np.eye(2)[None])
    assert np.isnan(d2[0, 0])
    assert d2[1:, 0].tolist() == [0.0, 0.5]


@pytest.mark.parametrize("skew", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("cyclic", [True, False])
def test_annealing_adds_up(skew, share, cyclic):
    """The gain that the chain reports is the difference of two full evaluations."""
    rng = np.random.default_rng(0)
    n = 12
    W = masks.circulant_band(n, 2).penalty if cyclic else rng.random((n, n))
    B = rng.random((n, n))
    if not skew:
        B = B + B.T
    layout = Layout(B, W)
    p = rng.permutation(n)
    q = p.copy()
    gain = pattern_cost.anneal(
        layout.links, layout.masses, q, skew=not layout.symmetric, classes=layout.classes, split=n,
        cyclic=cyclic, segments=share, temperatures=(layout.scale, 0.01 * layout.scale), steps=4000, seed=5,
        goal=np.inf,
    )  # fmt: skip
    assert np.array_equal(np.sort(q), np.arange(n))
    assert gain > 0
    assert layout.value(p) - layout.value(q) == pytest.approx(gain, abs=1e-11)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_two_sides_stay_apart(share):
    rng = np.random.default_rng(0)
    problem = prepare(rng.normal(size=(9, 14)), masks.staircase(9, 14, range(1, 10)), "independent")
    layout = TwoSided(problem)
    layout.segments = share > 0
    p, q = rng.permutation(9), rng.permutation(14)
    new = layout.anneal(p, q, 0.5, 0.02, 5000, 1)
    assert [sorted(order) for order in new] == [list(range(9)), list(range(14))]
    assert problem.value(*new) < problem.value(p, q)


def test_annealing_repeats_for_a_seed():
    layout = Layout(np.random.default_rng(0).random((20, 20)), masks.band(20, 2).penalty)
    runs = [layout.anneal(np.arange(20), 0.5, 0.05, 3000, seed).tolist() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pattern_cost.batched_cost(np.ones((1, 2, 3)), [[0, 1]], np.ones((2, 3))), "do not fit"),
        (lambda: pattern_cost.swap_deltas(np.ones((2, 2)), np.ones((3, 3)), [0, 1]), "do not fit"),
        (lambda: pattern_cost.head_null(np.ones((1, 2, 2)), np.ones((1, 3, 3))), "do not fit"),
        (lambda: pattern_cost.head_null(np.full((1, 2, 2), np.nan), np.ones((1, 2, 2))), "must be finite"),
        (lambda: pattern_cost.swap_deltas([[1.0]], [[1.0]], [0], backend="gpu"), "backend must be one of"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_import_loads_no_compiler(tmp_path):
    code = (
        "import sys, porism.kernels.pattern_cost, porism.kernels.lap, porism.theory.pattern;"
        "sys.exit(' '.join({'scipy', 'numba', 'torch', 'sklearn', 'matplotlib'} & set(sys.modules)) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_orders_hold_positions(backend):
    """Truncated, wrapped or out of bounds they would cost another matrix, or read past its end."""
    A, W = np.ones((1, 2, 2)), np.eye(2)
    for q, error, words in (
        ([[0.5, 1]], TypeError, "q must hold integers, got float64"),
        ([[-1, 0]], ValueError, r"q must be in 0\.\.1, got -1\.\.0"),
        ([[0, 2]], ValueError, r"q must be in 0\.\.1, got 0\.\.2"),
    ):
        with pytest.raises(error, match=words):
            pattern_cost.batched_cost(A, q, W, backend=backend)
        with pytest.raises(error, match=words.replace("q must", "p must")):
            pattern_cost.swap_deltas(W, W, q[0], backend=backend)
    with pytest.raises(ValueError, match="do not fit"):
        pattern_cost.swap_deltas(W, W, [[0, 1]], backend=backend)


@pytest.mark.full
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_tensors_give_tensors(backend, needs):
    torch = needs("torch")
    A = torch.tensor([[[1.0, 2.0], [3.0, 0.0]]], requires_grad=True)
    q, W = torch.tensor([[1, 0]]), torch.tensor([[0.0, 1], [1, 0]])
    for kind in (torch.float32, torch.bfloat16):
        cost = pattern_cost.batched_cost(A.to(kind), q, W, backend=backend)
        assert cost.tolist() == [[[1.0, 4.0], [9.0, 0.0]]]
        found = [
            cost,
            pattern_cost.swap_deltas(A[0].to(kind), W, q[0], backend=backend),
            *pattern_cost.head_null(A.to(kind), W[None], backend=backend),
        ]
        assert all(isinstance(x, torch.Tensor) for x in found)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("shape", [(1, 2, 0), (1, 0, 2)])
def test_matrices_without_cells_have_no_distance(shape, backend):
    found = pattern_cost.head_null(np.zeros(shape), np.zeros(shape), causal=True, backend=backend)
    assert np.isnan(found).all()
