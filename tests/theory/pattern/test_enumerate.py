"""Exact answers against full enumeration, and what the set of optimal orders looks like."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.pattern import masks, pattern_distance
from porism.theory.pattern._enumerate import enumerate_optimum, exact_class
from porism.theory.pattern._problem import prepare, uninformative

BINARY = st.sampled_from([0.0, 1.0])
WEIGHTS = st.sampled_from([0.0, 0.5, 1.0])


def matrices(cells, m, n):
    return st.lists(cells, min_size=m * n, max_size=m * n).map(lambda v: np.array(v).reshape(m, n))


def value(B, W, p, q):
    return (W * B[np.ix_(p, q)]).sum()


@pytest.mark.parametrize("order", ["independent", "common"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (4, 4), (1, 5), (2, 5), (5, 2), (4, 3)])
def test_enumeration_finds_the_optimum(brute, order, shape):
    if order == "common" and shape[0] != shape[1]:
        return
    rng = np.random.default_rng(sum(shape))
    for _ in range(5):
        A, W = rng.integers(0, 4, shape).astype(float), rng.integers(0, 3, shape) / 2
        best, optima = enumerate_optimum(A, W, order)
        assert best == brute.optimum(A, W, order)[0]
        pairs = {(tuple(p), tuple(q)) for p, q in optima}
        assert len(pairs) == len(optima)
        everything = brute.optimal(A, W, order)
        assert pairs <= set(everything)
        if order == "common":
            assert pairs == set(everything)
        else:
            side = 0 if shape[0] <= shape[1] else 1
            assert {pair[side] for pair in pairs} == {pair[side] for pair in everything}


def test_enumeration_holds_few_costs_at_a_time():
    """All 120 orders at once would take costs of 154 MB, and those of six rows of 1000 entries 5.8 GB."""
    rng = np.random.default_rng(0)
    tracemalloc.start()
    enumerate_optimum(rng.random((5, 400)), (rng.random((5, 400)) < 0.5).astype(float), "independent")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * 2**25  # 2^22 numbers at a time, twice while the next are made


def test_enumeration_of_a_long_side():
    rng = np.random.default_rng(5)
    A, W = rng.random((3, 40)), (rng.random((3, 40)) < 0.5).astype(float)
    best, optima = enumerate_optimum(A, W, "independent")
    turned, pairs = enumerate_optimum(A.T, W.T, "independent")
    assert turned == pytest.approx(best, abs=1e-12)
    for p, q in optima:
        assert value(A, W, p, q) == pytest.approx(best, abs=1e-12)
    for q, p in pairs:
        assert value(A, W, p, q) == pytest.approx(best, abs=1e-12)


SOLVED = [
    ("independent", masks.sink(4, 5, 2)),
    ("independent", masks.from_array(masks.sink(5, 4, 2).S.T)),
    ("independent", masks.from_array(np.tile([1, 0, 1, 0.5], (4, 1)))),
    ("independent", masks.band(4, 0)),
    ("independent", masks.anti_diagonal(4)),
    ("independent", masks.from_array(np.eye(3, 5))),
    ("independent", masks.from_array(1 - np.eye(4))),
    ("independent", masks.from_array(0.5 * np.eye(4))),
    ("independent", masks.band(4, 3)),
    ("common", masks.sink(5, 5, 2)),
    ("common", masks.from_array(masks.sink(5, 5, 2).S.T)),
    ("common", masks.band(5, 0)),
    ("common", masks.from_array(np.diag([1, 0.5, 0, 1, 0]))),
    ("common", masks.band(5, 4)),
    ("common", masks.band(2, 0)),
    ("common", masks.lower_triangular(2)),
    ("common", masks.band(1, 0)),
]


@pytest.mark.parametrize(("order", "mask"), SOLVED)
def test_classes_solved_in_one_step(brute, order, mask):
    rng = np.random.default_rng(0)
    for _ in range(5):
        B = rng.integers(0, 5, mask.shape).astype(float)
        B[0, 0] = 1
        best, (p, q), reason = exact_class(B / B.sum(), mask.penalty, order)
        assert best * B.sum() == pytest.approx(brute.optimum(B, mask.penalty, order)[0], abs=1e-12)
        assert value(B, mask.penalty, p, q) == pytest.approx(best * B.sum(), abs=1e-12)
        assert order == "independent" or p.tolist() == q.tolist()
        assert reason.startswith("one ")


def test_hard_masks_are_not_taken_for_easy_ones():
    rng = np.random.default_rng(0)
    B = rng.random((6, 6))
    B /= B.sum()
    for mask in (masks.band(6, 1), masks.block_diagonal([3, 3]), masks.lower_triangular(6), masks.hub(6, 2)):
        assert exact_class(B, mask.penalty, "independent") is None
        assert exact_class(B, mask.penalty, "common") is None
    assert exact_class(B, masks.anti_diagonal(6).penalty, "common") is None
    assert exact_class(B, masks.from_array(np.diag([1, 1, 0, 0, 0, 0])).penalty, "independent") is None
    best, (p, q), _ = exact_class(B, masks.band(6, 1).penalty, "none")
    assert (p.tolist(), q.tolist()) == ([*range(6)], [*range(6)])
    assert best == pytest.approx((B * masks.band(6, 1).penalty).sum(), abs=1e-15)


@st.composite
def flat_problems(draw):
    """Small problems, many of them constant: every part of the mask or of the matrix may be missing."""
    order = draw(st.sampled_from(["independent", "common"]))
    n = draw(st.integers(1, 4))
    m = n if order == "common" else draw(st.integers(1, 4))

    def built():
        whole = lambda size: np.array(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
        M = np.full((m, n), draw(st.integers(0, 2)))
        if draw(st.booleans()):
            M = M + whole(m)[:, None]
        if draw(st.booleans()):
            M = M + whole(n)
        if draw(st.booleans()):
            M = M + whole(m * n).reshape(m, n)
        if order == "common":
            M = {"as it is": M, "sum": M + M.T, "rise": 3 + np.triu(M) - np.triu(M).T}[
                draw(st.sampled_from(["as it is", "sum", "rise"]))
            ]
            M = M + draw(st.integers(0, 2)) * np.eye(n, dtype=int)
        return M - min(M.min(), 0)

    A, W = built(), built()
    if not A.any():
        A = A + 1
    return A, W / max(W.max(), 1), order


@settings(max_examples=300, deadline=None)
@given(flat_problems())
def test_uninformative_means_that_no_order_matters(brute, problem):
    A, W, order = problem
    values = brute.values(A / A.sum(), W, order)
    constant = np.ptp(values) < 1e-9  # values differ by 1/72 of a mass of at most 400 where they do
    checked = prepare(A, masks.from_array(1 - np.sqrt(W)), order, "abs")
    assert bool(uninformative(checked)) == constant
    solved = exact_class(checked.B, checked.W, order)
    if solved:
        assert solved[0] == pytest.approx(values.min(), abs=1e-12)
    if constant:
        assert solved
        assert enumerate_optimum(checked.B, checked.W, order)[0] == pytest.approx(solved[0], abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_optimal_orders_come_in_cosets(brute, data):
    order = data.draw(st.sampled_from(["independent", "common"]))
    m, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    m = n if order == "common" else m
    A = data.draw(matrices(st.integers(-3, 3), m, n))
    mask = masks.from_array(data.draw(matrices(WEIGHTS, m, n)))
    optima = set(brute.optimal(A**2, mask.penalty, order))
    assert len(optima) % mask.aut_order(order) == 0
    g, h = (np.array(part) for part in data.draw(st.sampled_from(brute.group(mask.S, order))))
    assert {(tuple(np.array(p)[g]), tuple(np.array(q)[h])) for p, q in optima} == optima


@st.composite
def planted(draw, off):
    """A 0/1 mask, shuffled orders, and a matrix with entries of at least 1 in the mask and `off` outside."""
    order = draw(st.sampled_from(["independent", "common"]))
    m, n = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    m = n if order == "common" else m
    mask = masks.from_array(draw(matrices(BINARY, m, n)))
    inside = draw(matrices(st.sampled_from([-3.0, -1.0, 1.0, 2.0]), m, n))
    placed = np.where(mask.S == 1, inside, draw(matrices(st.sampled_from(off), m, n)))
    p = np.array(draw(st.permutations(range(m))))
    q = p if order == "common" else np.array(draw(st.permutations(range(n))))
    A = np.zeros((m, n))
    A[np.ix_(p, q)] = placed
    return A, mask, order, p, q


def coset(brute, mask, order, p, q):
    return {(tuple(p[g]), tuple(q[h])) for g, h in brute.group(mask.S, order)}


@settings(max_examples=60, deadline=None)
@given(planted([0.0]))
def test_noiseless_patterns_are_identified_up_to_automorphisms(brute, case):
    A, mask, order, p, q = case
    assert brute.optimum(A**2, mask.penalty, order)[0] == 0
    assert set(brute.optimal(A**2, mask.penalty, order)) == coset(brute, mask, order, p, q)
    if A.any():
        assert enumerate_optimum(*_parts(A, mask, order), order)[0] == 0


@settings(max_examples=60, deadline=None)
@given(planted([0.0, -0.5, 0.99]))
def test_a_margin_identifies_and_certifies(brute, case):
    from porism.theory.pattern.bounds import pattern_lower_bound

    A, mask, order, p, q = case
    assert set(brute.optimal(A**2, mask.penalty, order)) == coset(brute, mask, order, p, q)
    if A.any():
        least = brute.optimum(A**2, mask.penalty, order)[0] / (A**2).sum()
        assert pattern_lower_bound(A, mask, order=order)["R"] == pytest.approx(least, abs=1e-12)


def test_without_a_margin_the_planted_order_need_not_win():
    A, mask = np.array([[1, 1.1], [1.1, 1]]), masks.band(2, 0)
    for order, outside in (("none", 2.42), ("independent", 2.0)):
        fit = pattern_distance(A, mask, order=order)
        assert fit.mass_outside == pytest.approx(outside / 4.42, abs=1e-14)


def _parts(A, mask, order):
    problem = prepare(A, mask, order)
    return problem.B, problem.W
