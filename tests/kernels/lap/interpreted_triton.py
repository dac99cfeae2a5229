"""Triton's interpreter against the exact solver; test_triton.py runs this in a process of its own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels import lap
from porism.kernels.lap import triton

EPSILON = 2.0**-16
pytestmark = pytest.mark.usefixtures("poison")


def total(costs, p):
    return np.take_along_axis(np.asarray(costs), np.asarray(p)[:, None, :], axis=1)[:, 0].sum(1)


def valid(p, b, n):
    p = np.asarray(p)
    return p.shape == (b, n) and p.dtype == np.int64 and (np.sort(p, axis=1) == np.arange(n)).all()


COSTS = {
    "gauss": lambda rng, n: rng.normal(size=(2, n, n)),
    "ties": lambda rng, n: rng.integers(0, 4, size=(2, n, n)).astype(float),
    "blocks": lambda rng, n: np.repeat(rng.normal(size=(2, n, 2)), [n // 2, n - n // 2], axis=2),
    "constant": lambda rng, n: np.full((2, n, n), 3.5),
    "product": lambda rng, n: np.multiply.outer(np.arange(n), np.arange(n))[None] * np.ones((2, 1, 1)),
    "shifted": lambda rng, n: 1e6 + rng.random((2, n, n)),
}
CASES = [(kind, n) for kind in COSTS for n in (1, 2, 3, 17)]
CASES += [(kind, n) for kind in ("gauss", "constant", "ties") for n in (15, 16)]
CASES += [("gauss", 37), ("gauss", 63), ("gauss", 65), ("constant", 65), ("blocks", 33), ("ties", 33)]


@pytest.mark.parametrize(("kind", "n"), CASES)
def test_proven_gap_and_exact_finish(kind, n, monkeypatch):
    """The bound holds and is as small as promised; with it or by the exact solver the optimum is found."""
    costs = COSTS[kind](np.random.default_rng(n), n)[: 1 if n > 17 else 2]  # large ones one at a time
    kept, made, auction = costs.copy(), [], triton.auction

    def kept_auction(*args, **options):
        made.extend(auction(*args, **options))
        return made[0].copy(), made[1]  # `batched` finishes in place

    monkeypatch.setattr(triton, "auction", kept_auction)
    solved, (p, gap) = triton.batched(costs), made
    assert valid(p, len(costs), n)
    assert valid(solved, len(costs), n)
    best = total(costs, lap.batched(costs, backend="cpu"))
    slack = 1e-12 * np.abs(costs).max() * n
    assert (total(costs, p) - best <= gap + slack).all()
    assert (gap <= 1.2 * n * EPSILON * np.ptp(costs, axis=(1, 2)) + slack).all()
    assert (gap >= -slack).all()
    assert total(costs, solved) == pytest.approx(best, rel=1e-14, abs=1e-12)
    assert (costs == kept).all()


@pytest.mark.parametrize("n", [4, 15])
def test_whole_costs_need_no_exact_solver(n, monkeypatch):
    """A proven loss below 1 is none; the exact solver stays out."""
    from porism.kernels.lap import cpu

    costs = np.random.default_rng(n).integers(0, 30, (3, n, n)).astype(float)
    best = total(costs, lap.batched(costs, backend="cpu"))
    monkeypatch.setattr(cpu, "batched", lambda costs: pytest.fail("asked"))
    assert (total(costs, triton.batched(costs, tolerance=0.99)) == best).all()


def test_small_steps_find_the_optimum_that_large_ones_miss():
    costs = np.random.default_rng(4).normal(size=(2, 15, 15))
    best = total(costs, lap.batched(costs))
    coarse, fine = (triton.auction(costs, epsilon=epsilon) for epsilon in (0.25, EPSILON))
    assert (total(costs, coarse[0]) > best + 1e-6).any()
    assert (total(costs, coarse[0]) <= best + coarse[1] + 1e-12).all()
    assert (coarse[1] > 100 * fine[1]).all()
    assert total(costs, fine[0]) == pytest.approx(best, abs=1e-12)


def test_orientation_is_sources_on_rows():
    cost = np.array([[[9.0, 0, 9], [9, 9, 0], [0, 9, 9]]])  # source 0 belongs at position 1
    assert triton.auction(cost)[0].tolist() == [[2, 0, 1]]
    assert triton.batched(cost).tolist() == [[2, 0, 1]]


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_any_small_problem(data):
    n = data.draw(st.integers(1, 5))
    b = data.draw(st.integers(0, 3))
    values = data.draw(st.lists(st.integers(-3, 3), min_size=b * n * n, max_size=b * n * n))
    costs = np.array(values, dtype=float).reshape(b, n, n)
    p, gap = triton.auction(costs)
    assert valid(p, b, n)
    assert (gap < 1).all()
    assert (total(costs, p) == total(costs, lap.batched(costs, backend="reference"))).all()


def test_a_problem_that_is_given_up_goes_to_the_exact_solver():
    costs = np.random.default_rng(0).normal(size=(3, 17, 17))
    p, gap = triton.auction(costs, limit=2)
    assert valid(p, 3, 17)
    assert np.isinf(gap).all()
    assert (triton.batched(costs, limit=2, tolerance=100.0) == lap.batched(costs, backend="cpu")).all()


class Wrong:
    """The kernel, with its results damaged after the launch."""

    def __init__(self, change):
        self.right, self.change = triton.bids, change

    def __getitem__(self, grid):
        def launch(costs, holder, price, *rest, **options):
            self.right[grid](costs, holder, price, *rest, **options)
            self.change(holder, price)

        return launch


def test_what_is_no_permutation_is_noticed(monkeypatch):
    costs = np.random.default_rng(1).normal(size=(3, 9, 9))

    def change(holder, price):
        holder[1, 3] = holder[1, 4]

    monkeypatch.setattr(triton, "bids", Wrong(change))
    p, gap = triton.auction(costs)
    assert valid(p, 3, 9)
    assert np.isinf(gap).tolist() == [False, True, False]
    best = total(costs, lap.batched(costs, backend="cpu"))
    assert total(costs, triton.batched(costs, tolerance=1.0))[1] == pytest.approx(best[1], abs=1e-12)


DAMAGE = {
    "cheap": lambda holder, price: price.mul_(0.5),
    "no prices": lambda holder, price: price.fill_(torch.nan),
    "turned": lambda holder, price: holder.copy_(holder.flip(1)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_the_gap_holds_for_wrong_prices_and_orders(name, monkeypatch):
    costs = np.random.default_rng(2).normal(size=(3, 9, 9))
    monkeypatch.setattr(triton, "bids", Wrong(DAMAGE[name]))
    p, gap = triton.auction(costs)
    best = total(costs, lap.batched(costs, backend="cpu"))
    assert (total(costs, p) <= best + gap + 1e-12).all()
    assert (gap > 1e-2).all()
    assert total(costs, triton.batched(costs)) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
def test_costs_of_any_scale(size):
    costs = np.random.default_rng(3).random((2, 7, 7))
    p, gap = triton.auction(costs * size)
    assert (p == triton.auction(costs)[0]).all()
    assert (gap <= 1.2 * 7 * EPSILON * size).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of infinities in the interpreter
def test_a_range_beyond_float64_is_left_to_the_exact_solver():
    costs = np.array([[[-1.7e308, 1.7e308], [0.0, -1.0]]])
    assert np.isinf(triton.auction(costs)[1]).all()
    assert triton.batched(costs).tolist() == [[0, 1]]


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_of_any_layout_and_precision(kind):
    costs = torch.tensor(np.random.default_rng(5).normal(size=(2, 6, 6))).to(kind)
    views = [costs, costs.mT.contiguous().mT, torch.stack([costs, costs * 0], -1)[..., 0], costs.clone()]
    views[-1].requires_grad_()
    expected = lap.batched(costs.double())
    for view in views:
        p = triton.batched(view)
        assert isinstance(p, torch.Tensor)
        assert torch.equal(p, expected)
    p, gap = triton.auction(views[1])
    assert gap.dtype == torch.float64
    assert valid(p, 2, 6)
    assert (total(costs.double(), p) <= total(costs.double(), expected) + 1e-9).all()


def test_empty_batches_and_batches_do_not_matter():
    for b, n in ((0, 4), (0, 0), (2, 0), (3, 1)):
        p, gap = triton.auction(np.zeros((b, n, n)))
        assert valid(p, b, n)
        assert gap.tolist() == [0.0] * b
        assert valid(triton.batched(np.zeros((b, n, n))), b, n)
    costs = np.random.default_rng(6).normal(size=(4, 6, 6))
    alone = [triton.auction(cost[None])[0][0] for cost in costs]
    assert (triton.auction(costs)[0] == alone).all()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: triton.auction(np.ones((1, 2, 3))), ValueError, r"square, got shape \(1, 2, 3\)"),
        (lambda: triton.auction(np.ones((2, 2))), ValueError, "must be square, got shape"),
        (lambda: triton.auction(np.ones((1, 129, 129))), ValueError, "at most 128 sources.*backend='cpu'"),
        (lambda: triton.auction(np.full((1, 2, 2), np.nan)), ValueError, "must be finite"),
        (lambda: triton.auction(np.full((1, 2, 2), -np.inf)), ValueError, "must be finite"),
        (lambda: triton.auction(torch.ones(1, 2, 2).int()), TypeError, r"for Triton, got torch\.int32"),
        (lambda: triton.auction(np.ones((1, 2, 2)), epsilon=0), ValueError, "epsilon must be in"),
        (lambda: triton.auction(np.ones((1, 2, 2)), epsilon=np.nan), ValueError, "epsilon must be in"),
        (lambda: triton.auction(np.ones((1, 2, 2)), limit=0), ValueError, "limit must be in"),
        (lambda: triton.batched(np.ones((1, 2, 2)), tolerance=-1), ValueError, "tolerance must be finite"),
        (lambda: triton.batched(np.ones((1, 2, 2)), tolerance=np.nan), ValueError, "tolerance must be"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
