"""Lower bounds: never above full enumeration, in their proven order, equal to the known fractions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from porism.theory.pattern import masks
from porism.theory.pattern.bounds import pattern_lower_bound

ROUNDING = 1e-12  # of a total mass of 1; sums of at most a few hundred terms of float64
KINDS = {"independent": "RTP", "common": "RTPG"}
WEIGHTS = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0, 1.0])


@st.composite
def problems(draw, orders=("independent", "common"), largest=4):
    order = draw(st.sampled_from(orders))
    sizes = st.integers(1, largest)
    m = draw(sizes)
    n = m if order == "common" else draw(sizes)
    fill = lambda cell: np.array(draw(st.lists(cell, min_size=m * n, max_size=m * n))).reshape(m, n)
    A = fill(st.integers(-4, 4))
    if draw(st.booleans()) and order == "common":
        A = A + A.T
    if not A.any():
        A[draw(st.integers(0, m - 1)), draw(st.integers(0, n - 1))] = 1
    return A, masks.from_array(fill(WEIGHTS)), order


@pytest.mark.parametrize(
    "name",
    "O1 O2 O3 O4 O5 O6 O7 O8 O9 O10,O10 w=4,O11 O12,O12 bipartite,O13 O14".replace(" O", ",O").split(","),
)
def test_known_fractions(oracle, brute, name):
    A, mask, modes = oracle.CASES[name]
    for order, (out, total, number, expected) in modes.items():
        found = pattern_lower_bound(A, mask, order=order)
        assert list(found) == list(KINDS[order])
        for kind, bound in expected.items():
            assert found[kind] == pytest.approx(float(bound), abs=1e-6)  # printed with six digits
        assert max(found.values()) <= out / total + ROUNDING
        B = np.asarray(A) ** 2
        least, optima = brute.optimum(B, mask.penalty, order)
        assert (least, B.sum()) == (out, total)
        assert number in (None, optima)
        assert optima % mask.aut_order(order) == 0


def test_every_known_case_is_asked(oracle):
    assert len(oracle.CASES) == 16
    assert sum(len(modes) for *_, modes in oracle.CASES.values()) == 27


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from(["squared", "abs"]))
def test_bounds_are_below_enumeration_and_in_order(brute, problem, mass):
    A, mask, order = problem
    B = A**2 if mass == "squared" else abs(A)
    least, _ = brute.optimum(B, mask.penalty, order)
    found = pattern_lower_bound(A, mask, order=order, mass=mass)
    assert max(found.values()) <= least / B.sum() + ROUNDING
    assert 0 <= found["R"] <= found["T"] + ROUNDING
    assert found["T"] <= found.get("G", 1) + ROUNDING
    assert found["P"] >= 0


@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_real_matrices(brute, seed):
    rng = np.random.default_rng(seed)
    families = [masks.band(6, 1), masks.block_diagonal([2, 4]), masks.hub(6, 2), masks.circulant_band(6, 1)]
    families += [masks.from_array(rng.random((6, 6))), masks.lower_triangular(6), masks.anti_diagonal(6)]
    for mask in families:
        A = rng.normal(size=(6, 6))
        A[rng.integers(6)] = 0
        for matrix in (A, A + A.T, A * (rng.random((6, 6)) < 0.4) + 0.01):
            B = matrix**2 / (matrix**2).sum()
            found = pattern_lower_bound(matrix, mask, order="common")
            assert found["R"] <= found["T"] + ROUNDING
            assert found["T"] <= found["G"] + ROUNDING
            assert max(found.values()) <= brute.common_values(B, mask.penalty).min() + ROUNDING
    mask = masks.from_array(rng.random((3, 6)))
    A = rng.normal(size=(3, 6))
    found = pattern_lower_bound(A, mask)
    assert max(found.values()) <= brute.pair_values(A**2, mask.penalty).min() / (A**2).sum() + ROUNDING


@settings(max_examples=60, deadline=None)
@given(problems(largest=6), st.data())
def test_invariances(problem, data):
    A, mask, order = problem
    found = pattern_lower_bound(A, mask, order=order)
    m, n = A.shape
    p, q = data.draw(st.permutations(range(m))), data.draw(st.permutations(range(n)))
    if order == "common":
        q = p
    signs = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=m * n, max_size=m * n)))
    scale = data.draw(st.sampled_from([-3.0, 1e-160, 1e160, 0.1]))
    moved = scale * signs.reshape(m, n) * A[np.ix_(p, q)]
    assert pattern_lower_bound(moved, mask, order=order) == pytest.approx(found, abs=ROUNDING)
    turned = masks.from_array(mask.S.T)
    assert pattern_lower_bound(A.T, turned, order=order) == pytest.approx(found, abs=ROUNDING)
    assert pattern_lower_bound(sparse.csr_array(A), mask, order=order) == pytest.approx(found, abs=ROUNDING)


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(["squared", "abs"]))
def test_average_over_all_orders(brute, problem, mass):
    """The optimum is at most the mean over all orders, and the mean has a closed form."""
    A, mask, order = problem
    B, W = (A**2 if mass == "squared" else abs(A)), mask.penalty
    values = brute.values(B, W, order)
    if order == "independent":
        mean = W.mean() * B.sum()
    else:
        mean, n = np.diag(W).mean() * np.trace(B), len(B)
        if n > 1:
            mean += (W.sum() - np.trace(W)) / (n * n - n) * (B.sum() - np.trace(B))
    assert values.mean() == pytest.approx(mean, abs=1e-9)
    assert max(pattern_lower_bound(A, mask, order=order, mass=mass).values()) <= mean / B.sum() + ROUNDING


@settings(max_examples=60, deadline=None)
@given(problems(orders=("common",)))
def test_independent_orders_do_at_least_as_well(brute, problem):
    A, mask, _ = problem
    assert (
        brute.optimum(A**2, mask.penalty, "independent")[0] <= brute.optimum(A**2, mask.penalty, "common")[0]
    )
    free = pattern_lower_bound(A, mask)
    tied = pattern_lower_bound(A, mask, order="common")
    assert {kind: tied[kind] for kind in free} == pytest.approx(free, abs=ROUNDING)


def test_the_gap_between_the_modes_can_be_everything(brute):
    A, mask = np.array([[0, 1], [1, 0]]), masks.band(2, 0)
    assert brute.optimum(A, mask.penalty, "independent")[0] == 0
    assert brute.optimum(A, mask.penalty, "common")[0] == A.sum()
    assert pattern_lower_bound(A, mask)["T"] == 0
    assert pattern_lower_bound(A, mask, order="common")["G"] == 1


def test_large_dense_matrices_need_the_singular_values():
    rng = np.random.default_rng(0)
    found = pattern_lower_bound(rng.normal(size=(96, 96)), masks.block_diagonal([24] * 4))
    assert found["P"] > found["T"] > found["R"]


def test_options():
    A, mask = np.arange(9.0).reshape(3, 3), masks.band(3, 1)
    assert list(pattern_lower_bound(A, mask, kinds=("G", "R"))) == ["R"]
    assert list(pattern_lower_bound(A, mask, kinds="P")) == ["P"]
    assert list(pattern_lower_bound(A, mask, order="none")) == ["R", "T", "P"]
    assert pattern_lower_bound([[5]], masks.band(1, 0), order="common") == dict.fromkeys("RTPG", 0.0)
    with pytest.raises(ValueError, match=r"^kinds must be one of 'R', 'T', 'P', 'G'"):
        pattern_lower_bound(A, mask, kinds=["Q"])
    with pytest.raises(ValueError, match=r"^A has zero mass"):
        pattern_lower_bound(0 * A, mask)
