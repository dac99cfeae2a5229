"""Coverage: oracle fractions, the formula with an inverse, order, bounds; bins."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.token_capacity import coverage, min_positions
from porism.theory.token_capacity._bins import aligned, bin_of, layout, starts

SEED = st.integers(0, 10**6)
X6 = np.array(
    [
        [[0, 0, 0, 0.5], [0, 0, 1, 0], [0, 2, 0, 0], [3, 0, 0, 0]],
        [[0, 0, 0, 0.5], [0, 0, 1, 0], [2, 2, 0, 0], [3, 0, 0, 0]],
    ]
)


def second(X):
    return np.einsum("nti,ntj->tij", X, X)


def draw(seed, P=5, n=2, m=4):
    rng = np.random.default_rng(seed)
    return second(rng.normal(size=(n, P, m)) * rng.uniform(0.1, 3, (1, P, 1)))


def test_oracle_6():
    C, suffix = second(X6), [3, 2, 1, 0]
    curve = coverage(C, suffix, ridge=0.0)
    exact = [float(Fraction(a, 65)) for a in (44, 60, 64, 65)]
    np.testing.assert_allclose(curve, exact, rtol=0, atol=1e-12)
    assert [min_positions(curve, eps) for eps in (0.5, 0.1, 0.05, 0)] == [1, 2, 3, 4]
    curve = coverage(C, range(4), ridge=0.0)
    np.testing.assert_allclose(curve, [0.015384615385, 0.076923076923, 1, 1], atol=1e-9)
    assert min_positions(curve, 0.1) == 3
    np.testing.assert_allclose(
        coverage(C, suffix),
        [0.673881251828, 0.918114639176, 0.977250698312, 0.990484776062],
        atol=1e-9,
    )


@given(SEED, st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.0, 1e-6, 1e-2, 1.0]))
@settings(max_examples=80, deadline=None)
def test_formula_and_order(plain, seed, P, n, m, ridge):
    C = draw(seed, P, n, m)
    order = np.random.default_rng(seed).permutation(P)
    curve = coverage(C, order, ridge=ridge)
    # an inverse with condition 1e6 loses ten digits of sixteen at most
    np.testing.assert_allclose(curve, plain.coverage(C, order, ridge), rtol=0, atol=1e-9)
    assert (np.diff(curve) >= -1e-10).all()
    assert curve.min() >= 0
    assert curve.max() <= 1
    # units and axes do not matter
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(m, m)))[0]
    for scale in (1e-150, 1.0, 1e150):
        np.testing.assert_allclose(
            coverage(scale * turn @ C @ turn.T, order, ridge=ridge), curve, rtol=0, atol=1e-9
        )


@given(SEED)
@settings(max_examples=40, deadline=None)
def test_part_of_the_gradient_out_of_reach(seed):
    """|M (I - P_S)|_F <= |G|_op sqrt(tr F (1 - cov)), and gradients made from S lie in the range."""
    rng = np.random.default_rng(seed)
    N, T, m = 2, 4, 6
    X, G = rng.normal(size=(N, T, m)), rng.normal(size=(N, T, 3))
    cov = coverage(second(X), range(T), ridge=0.0)
    M = np.einsum("nto,nti->oi", G, X)
    for k in range(1, T + 1):
        rows = X[:, :k].reshape(-1, m)
        U = np.linalg.svd(rows.T, full_matrices=False)
        U = U[0][:, U[1] > 1e-9]
        rest = M - M @ U @ U.T
        total = (X**2).sum() * max(0, 1 - cov[k - 1])
        assert np.linalg.norm(rest) <= np.linalg.norm(G.reshape(-1, 3), 2) * np.sqrt(total) + 1e-6


def test_limits():
    assert coverage(np.zeros((3, 2, 2)), [0, 1, 2]).tolist() == [1, 1, 1]
    C = np.stack([np.zeros((2, 2)), np.eye(2)])
    assert coverage(C, [0, 1], ridge=0.0).tolist() == [0, 1]
    assert coverage(C, [0, 1])[0] == 0
    assert min_positions([0.5, 1 - 1e-13, 1.0], 0.0) == 2  # the slack
    assert min_positions([0.5, 1 - 1e-11, 1.0], 0.0) == 3


def test_bad_input():
    C = draw(0)
    with pytest.raises(ValueError, match="ridge must be finite and >= 0, got -1"):
        coverage(C, range(5), ridge=-1)
    with pytest.raises(TypeError, match="ridge must be a real number"):
        coverage(C, range(5), ridge="0")
    with pytest.raises(ValueError, match="each of the 5 positions once, got 4"):
        coverage(C, range(4))
    with pytest.raises(ValueError, match="got 1 more than once"):
        coverage(C, [0, 1, 1, 2, 3])
    with pytest.raises(ValueError, match=r"^need at least one selected position"):
        coverage(C, [])
    for ridge in (0.0, 1e-2):
        with pytest.raises(ValueError, match="positive semidefinite, got another matrix at position 1"):
            coverage(np.stack([np.eye(2), np.diag([5.0, -1.5])]), [0, 1], ridge=ridge)
    with pytest.raises(ValueError, match="moments must have shape"):
        coverage(C[:, :2], range(5))
    with pytest.raises(TypeError, match="moments must hold floats"):
        coverage(np.ones((1, 1, 1), dtype=int), [0])
    with pytest.raises(ValueError, match="no empty axis"):
        coverage(np.ones((0, 1, 1)), [0])
    for eps in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"eps must be in \[0, 1\), got"):
            min_positions([1.0], eps)
    with pytest.raises(TypeError, match="eps"):
        min_positions([1.0], True)
    with pytest.raises(ValueError, match="at least one entry"):
        min_positions([], 0.1)


@pytest.mark.full
def test_tensors(needs):
    torch = needs("torch")
    C = draw(1)
    found = coverage(torch.tensor(C), torch.arange(5))
    assert found.dtype == torch.float64
    assert found.tolist() == coverage(C, range(5)).tolist()
    assert min_positions(found, 0.1) == min_positions(found.numpy(), 0.1)
    np.testing.assert_allclose(coverage(torch.tensor(C).float(), range(5)).numpy(), found, atol=1e-5)


def test_bins_of_the_default():
    edges = starts(64)
    assert edges[:32].tolist() == [*range(32)]
    assert edges[32:38].tolist() == [32, 42, 55, 72, 94, 123]
    assert len(edges) == 64
    assert edges[-1] > 1e5
    assert len(layout(100_000, 64)) == 63


@given(st.integers(1, 40), st.integers(1, 500))
def test_layout(max_bins, length):
    """Every position has one bin, bins do not depend on the longest row beyond being reached."""
    edges = layout(length, max_bins)
    assert edges[0] == 0
    assert len(edges) <= max_bins
    assert (np.diff(edges) > 0).all()
    if length <= max_bins:
        assert edges.tolist() == [*range(length)]
    else:
        half, full = max_bins // 2, starts(max_bins)
        assert edges.tolist() == [e for e in full.tolist() if e < length]
        assert edges[: half + 1].tolist() == [*range(half + 1)]
        for a, b in zip(full[half:], full[half + 1 :], strict=False):
            assert b == max(a + 1, -(-13 * int(a) // 10))
    bins = bin_of(np.arange(length), edges)
    assert bins.tolist() == [max(i for i, e in enumerate(edges) if e <= p) for p in range(length)]


def test_aligned():
    mask = np.array([[False, True, True], [True, False, True]])
    assert aligned(mask, "end").tolist() == [[-1, 1, 0], [1, -1, 0]]
    assert aligned(mask, "start").tolist() == [[-1, 0, 1], [0, -1, 1]]
    assert aligned(mask, "absolute").tolist() == [[-1, 1, 2], [0, -1, 2]]
