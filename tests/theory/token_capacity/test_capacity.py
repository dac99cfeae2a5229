"""Bounds on one position, interchange of two, log-determinant capacity: oracle numbers, loops, fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.errors import NumericalWarning
from porism.theory.token_capacity import (
    capacity_bound,
    effective_rank,
    greedy_positions,
    interchange_bound,
    logdet_capacity,
    position_ntk,
)

SEED = st.integers(0, 10**6)


def kernel(X, G):
    return (X @ X.T) * (G @ G.T)


@pytest.mark.parametrize("m", [3, 32])
def test_oracle_2(m):
    unit = np.eye(m + 1)
    X = np.concatenate([unit[[0] * m], unit[1:]])
    G = np.concatenate([unit[1:], unit[[0] * m]])
    A, B = X @ X.T, G @ G.T
    for M in (A, B):
        assert float(effective_rank(M, kind="participation")) == pytest.approx(4 * m / (m + 1), rel=1e-12)
        assert float(effective_rank(M)) == pytest.approx(2 * math.sqrt(m), rel=1e-12)
    assert float(effective_rank(A * B, kind="participation")) == pytest.approx(2 * m, rel=1e-12)
    found = capacity_bound(X, G)
    assert found.effective_rank == pytest.approx(2 * m, rel=1e-12)
    assert found.bound == pytest.approx(4 * m, rel=1e-12)  # product of the two, all weights equal


def test_oracle_3():
    X, G = np.array([[1.0, 0], [0, 2], [1, 1]]), np.array([[1.0, 0], [1, 1], [0, 3]])
    assert kernel(X, G).tolist() == [[1, 0, 0], [0, 8, 6], [0, 6, 18]]
    found = capacity_bound(X, G)
    assert found.effective_rank == pytest.approx(1.896012204733, abs=1e-9)
    assert found.input_rank == pytest.approx(1.505617329775, abs=1e-9)
    assert found.gradient_rank == pytest.approx(1.531550482421, abs=1e-9)
    assert found.bound == pytest.approx(2.305928947758, abs=1e-9)
    assert float(effective_rank(X @ X.T)) == pytest.approx(1.740025345276, abs=1e-9)
    assert float(effective_rank(G @ G.T)) == pytest.approx(1.542901911523, abs=1e-9)


def test_oracle_3b():
    """Without the weights the inequality is false."""
    X, G = np.diag([1.0] + [1e-3] * 5), np.array([[1e-3]] + [[1.0]] * 5)
    assert float(effective_rank(X @ X.T)) == pytest.approx(1.000074079939, abs=1e-6)
    assert float(effective_rank(G @ G.T)) == pytest.approx(1, abs=1e-6)
    found = capacity_bound(X, G)
    assert found.effective_rank == pytest.approx(6, abs=1e-6)
    assert found.bound == pytest.approx(6, abs=1e-6)


@given(SEED, st.integers(1, 7), st.integers(1, 4), st.integers(1, 4), st.floats(0, 4))
@settings(max_examples=100, deadline=None)
def test_bound_holds(plain, seed, n, d_in, d_out, spread):
    rng = np.random.default_rng(seed)
    X, G = rng.normal(size=(n, d_in)), rng.normal(size=(n, d_out))
    X *= 10 ** rng.uniform(-spread, spread, (n, 1))
    X[rng.random(n) < 0.2] = 0
    found = capacity_bound(X, G)
    K = kernel(X, G)
    if not K.any():
        assert (found.effective_rank, found.bound) == (0, 0)
        return
    # logarithms of ranks are right to about n eps log(1/eps): far below 1e-9
    assert found.effective_rank <= found.bound * (1 + 1e-9)
    assert found.effective_rank == pytest.approx(plain.entropy_rank(K), rel=1e-7)
    # the weighted kernels by their definition
    rows = np.diag(K) > 0
    p = np.diag(K)[rows] / np.trace(K)
    for Z, rank in ((X, found.input_rank), (G, found.gradient_rank)):
        cosine = Z[rows] / np.linalg.norm(Z[rows], axis=1, keepdims=True)
        weighted = np.diag(p**0.5) @ (cosine @ cosine.T) @ np.diag(p**0.5)
        assert rank == pytest.approx(plain.entropy_rank(weighted), rel=1e-7)


def test_bound_beyond_the_range_of_floats():
    rng = np.random.default_rng(0)
    X, G = rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    expected = capacity_bound(X, G)
    for a, b in ((1e200, 1e200), (1e-200, 1e-200), (1e300, 1e-300)):
        found = capacity_bound(a * X, b * G)
        assert found.effective_rank == pytest.approx(expected.effective_rank, rel=1e-9)
        assert found.bound == pytest.approx(expected.bound, rel=1e-9)


def test_oracle_4():
    Xs, Xt = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1.0, 0.5], [0, 1], [1, 1]])
    Gs, Gt = np.array([[1.0], [2], [1]]), np.array([[1.0], [1], [1]])
    found = interchange_bound(Xs, Xt, Gs, Gt)
    assert found.input_alignment == pytest.approx(0.966012279167, abs=1e-9)
    assert found.gradient_alignment == pytest.approx(0.888888888889, abs=1e-9)
    assert found.alpha == pytest.approx(0.829493087558, abs=1e-9)
    assert found.beta == pytest.approx(1.777777777778, abs=1e-9)
    assert found.scale == pytest.approx(0.829493087558 * 1.777777777778, abs=1e-9)
    assert found.error == pytest.approx(3.544971124917, abs=1e-9)
    assert found.bound == pytest.approx(7.829863636790, abs=1e-9)
    # in fractions: <A_s, A_t> and |A_t|^2 are 9 and 10.85
    A, B = ([[Fraction(v) for v in row] for row in (Z @ Z.T).tolist()] for Z in (Xs, Xt))
    inner = sum(a * b for x, y in zip(A, B, strict=True) for a, b in zip(x, y, strict=True))
    size = sum(b * b for y in B for b in y)
    assert found.alpha == pytest.approx(float(inner / size), rel=1e-15)


@given(SEED, st.integers(1, 6), st.floats(0, 2))
@settings(max_examples=100, deadline=None)
def test_interchange_holds(seed, n, noise):
    rng = np.random.default_rng(seed)
    Xt, Gt = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
    Xs, Gs = Xt + noise * rng.normal(size=Xt.shape), Gt + noise * rng.normal(size=Gt.shape)
    found = interchange_bound(Xs, Xt, Gs, Gt)
    A_s, A_t, B_s, B_t = (Z @ Z.T for Z in (Xs, Xt, Gs, Gt))
    norm = np.linalg.norm
    error = norm(A_s * B_s - found.scale * A_t * B_t)
    bound = abs(B_s).max() * norm(A_s) * math.sqrt(max(0, 1 - found.input_alignment**2))
    bound += found.alpha * abs(A_t).max() * norm(B_s) * math.sqrt(max(0, 1 - found.gradient_alignment**2))
    unit = norm(A_s) * norm(B_s)
    assert found.error == pytest.approx(error, abs=1e-11 * unit)
    assert found.bound == pytest.approx(bound, abs=1e-7 * unit)  # sqrt(1 - rho^2) is right to sqrt(eps)
    assert found.error <= found.bound + 1e-12 * unit
    if noise == 0:
        assert found.bound <= 1e-12 * unit


def test_uncentred():
    """A shift of the inputs keeps the centred alignment and loses this one."""
    rng = np.random.default_rng(1)
    X, G = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    assert interchange_bound(X, X + 5, G, G).input_alignment < 0.5
    assert interchange_bound(X, X, G, rng.normal(size=G.shape)).error > 0


def test_interchange_scales_and_zeros():
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=(4, 2)) for _ in range(4)]
    plainly = interchange_bound(*arrays)
    found = interchange_bound(1e60 * arrays[0], 1e-60 * arrays[1], 1e-60 * arrays[2], 1e60 * arrays[3])
    assert found.error == pytest.approx(plainly.error, rel=1e-9)
    assert found.bound == pytest.approx(plainly.bound, rel=1e-9)
    assert found.alpha == pytest.approx(1e240 * plainly.alpha, rel=1e-9)
    assert interchange_bound(1e80 * arrays[0], arrays[1], 1e80 * arrays[2], arrays[3]).error == math.inf
    same = interchange_bound(*(1e80 * arrays[i] for i in (0, 0, 2, 2)))  # no product of squares is finite
    assert (same.error, same.alpha, same.beta) == (0, 1, 1)
    assert same.input_alignment == pytest.approx(1, abs=1e-15)
    for seed in range(20):  # rounding passes 1 in some of them
        X = np.random.default_rng(seed).normal(size=(5, 3))
        assert interchange_bound(X, 1.1 * X, X, X).input_alignment <= 1
    with pytest.warns(NumericalWarning, match="inputs is zero"):
        found = interchange_bound(arrays[0], 0 * arrays[1], arrays[2], arrays[3])
    assert math.isnan(found.input_alignment)
    assert found.scale == 0
    assert found.error <= found.bound
    assert found.error == pytest.approx(np.linalg.norm(kernel(arrays[0], arrays[2])), rel=1e-12)


@pytest.mark.filterwarnings("ignore::porism.errors.NumericalWarning")
def test_bad_pairs():
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match="grads must have 3 rows as inputs has, got 2"):
        capacity_bound(X, X[:2])
    with pytest.raises(ValueError, match="no empty axis"):
        capacity_bound(X[:0], X[:0])
    with pytest.raises(TypeError, match="grads must hold floats"):
        capacity_bound(X, X.astype(int))
    with pytest.raises(ValueError, match="inputs must be finite"):
        capacity_bound(X * np.nan, X)
    with pytest.raises(ValueError, match="grads_t must have 3 rows"):
        interchange_bound(X, X, X, X[:2])
    with pytest.raises(ValueError, match="2 axes"):
        interchange_bound(X, X[0], X, X)


def blocks(seed, P=5, n=4):
    rng = np.random.default_rng(seed)
    return position_ntk(
        rng.normal(size=(n, P, 2)) * rng.uniform(0.1, 2, (1, P, 1)), rng.normal(size=(n, P, 1))
    )


def test_logdet_exact(plain):
    rng = np.random.default_rng(3)
    X, G = rng.integers(-3, 4, (4, 3, 2)), rng.integers(-3, 4, (4, 3, 1))
    K = position_ntk(X.astype(float), G.astype(float))
    S, ridge = [0, 2], Fraction(1, 2)
    total = plain.fractions(sum(K[t] for t in S).tolist())
    exact = plain.determinant([[x / ridge + (i == j) for j, x in enumerate(r)] for i, r in enumerate(total)])
    assert logdet_capacity(K, S, ridge=0.5) == pytest.approx(math.log(exact), rel=1e-12)
    values = np.linalg.eigvalsh(K[0] + K[2])
    assert logdet_capacity(K, S, ridge=0.5) == pytest.approx(np.log1p(values.clip(0) / 0.5).sum(), rel=1e-10)


@given(SEED, st.sampled_from([1e-3, 0.1, 1.0, 100.0]))
@settings(max_examples=30, deadline=None)
def test_monotone_and_submodular(seed, ridge):
    K = blocks(seed)

    def C(*S):
        return logdet_capacity(K, S, ridge=ridge)

    for a, b, c in itertools.permutations(range(4), 3):
        slack = 1e-10 * (1 + C(a, b, c))
        assert C(a, b) - C(a) >= -slack
        assert C(a, c) - C(a) >= C(a, b, c) - C(a, b) - slack


@given(SEED, st.integers(1, 5), st.sampled_from([0.01, 1.0]))
@settings(max_examples=30, deadline=None)
def test_greedy(seed, k, ridge):
    K = blocks(seed)
    found = greedy_positions(K, k, ridge=ridge)
    order = []
    for _ in range(k):
        rest = [t for t in range(5) if t not in order]
        order.append(max(rest, key=lambda t: logdet_capacity(K, [*order, t], ridge=ridge)))
        assert found.capacity[len(order) - 1] == pytest.approx(
            logdet_capacity(K, order, ridge=ridge), rel=1e-10
        )
    assert found.order.tolist() == order
    assert k <= found.evaluations <= 5 * k
    best = max(logdet_capacity(K, S, ridge=ridge) for S in itertools.combinations(range(5), k))
    assert found.capacity[-1] >= (1 - 1 / math.e) * best


def test_greedy_ties_and_laziness():
    assert greedy_positions(np.stack([np.eye(2)] * 4), 4, ridge=1.0).order.tolist() == [0, 1, 2, 3]
    apart = np.stack([np.diag(np.eye(40)[t]) * (t + 1) for t in range(40)])
    found = greedy_positions(apart, 40, ridge=1.0)
    assert found.order.tolist() == [*range(39, -1, -1)]
    assert found.evaluations < 40 * 41 / 2 / 5  # plain greedy takes 820


def test_bad_kernels():
    K = blocks(0)
    with pytest.raises(ValueError, match=r"^need at least one selected position"):
        logdet_capacity(K, [], ridge=1.0)
    with pytest.raises(ValueError, match="more than once"):
        logdet_capacity(K, [1, 1], ridge=1.0)
    for ridge in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="ridge must be finite and > 0"):
            logdet_capacity(K, [0], ridge=ridge)
    with pytest.raises(ValueError, match="positive semidefinite"):
        logdet_capacity(-K, [0, 1], ridge=1e-3)
    with pytest.raises(ValueError, match=r"shape \(P, N, N\)"):
        logdet_capacity(K[:, :2], [0], ridge=1.0)
    with pytest.raises(ValueError, match="k=6 exceeds the number of positions P=5"):
        greedy_positions(K, 6, ridge=1.0)
    with pytest.raises(ValueError, match="k must be >= 1"):
        greedy_positions(K, 0, ridge=1.0)
    with pytest.raises(TypeError, match="k must be an int"):
        greedy_positions(K, True, ridge=1.0)


@pytest.mark.full
def test_tensors(needs):
    torch = needs("torch")
    X, G = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
    expected = capacity_bound(X.numpy(), G.numpy())
    found = capacity_bound(X.requires_grad_(), G)
    assert (found.effective_rank, found.bound) == (expected.effective_rank, expected.bound)
    assert capacity_bound(X.bfloat16(), G.half()).bound == pytest.approx(expected.bound, rel=5e-2)
    K = position_ntk(X[:, None], G[:, None])
    assert logdet_capacity(K, torch.tensor([0]), ridge=1.0) == logdet_capacity(K.numpy(), [0], ridge=1.0)


def test_saved(tmp_path):
    X = np.eye(2)
    for result in (
        capacity_bound(X, X),
        interchange_bound(X, X, X, X),
        greedy_positions(X[None], 1, ridge=1.0),
    ):
        result.save(tmp_path / "r.npz")
        again = type(result).load(tmp_path / "r.npz")
        assert repr(again) == repr(result)
