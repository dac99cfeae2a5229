"""Assignment: validity, cost against SciPy and brute force, orientation, batches, ties, bad input."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from porism.kernels import lap

BACKENDS = ["cpu", "reference"]


def costs(kind, b, n):
    rng = np.random.default_rng(n)
    if kind == "gauss":
        return rng.normal(size=(b, n, n))
    if kind == "ties":
        return rng.integers(0, 3, size=(b, n, n)).astype(float)
    block = np.repeat(rng.normal(size=(b, n, 2)), [n // 2, n - n // 2], axis=2)  # equal positions
    return block + 0.0


def total(cost, p):
    return cost[p, np.arange(p.size)].sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["gauss", "ties", "blocks"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 16, 33])
def test_valid_and_as_cheap_as_scipy(backend, kind, n):
    given = costs(kind, 3, n)
    kept = given.copy()
    found = lap.batched(given, backend=backend)
    assert found.shape == (3, n)
    assert found.dtype == np.int64
    assert np.array_equal(given, kept)
    for cost, p in zip(given, found, strict=True):
        assert np.array_equal(np.sort(p), np.arange(n))
        assert total(cost, p) == pytest.approx(cost[linear_sum_assignment(cost)].sum(), abs=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_brute_force(backend):
    for cost in costs("gauss", 10, 5):
        best = min(total(cost, np.array(p)) for p in itertools.permutations(range(5)))
        assert total(cost, lap.solve(cost, backend=backend)) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_orientation_is_sources_on_rows(backend):
    cost = np.array([[9.0, 0, 9], [9, 9, 0], [0, 9, 9]])  # source 0 belongs at position 1
    assert lap.solve(cost, backend=backend).tolist() == [2, 0, 1]


def test_both_orientations_cost_the_same():
    rng = np.random.default_rng(0)
    S = np.kron(np.eye(4), np.ones((16, 16)))
    cost = rng.random((64, 64)) @ (1 - S)
    p = lap.solve(cost)
    q = np.argsort(lap.solve(cost.T.copy()))  # positions on rows: slower, as cheap
    assert total(cost, p) == pytest.approx(total(cost, q), abs=1e-12)


def test_batch_does_not_matter():
    given = costs("ties", 6, 9)
    assert np.array_equal(lap.batched(given), np.array([lap.solve(cost) for cost in given]))
    assert lap.batched(np.empty((0, 4, 4))).shape == (0, 4)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ([[1.0, np.nan], [0, 1]], "must be finite, got nan"),
        ([[1.0, np.inf], [0, 1]], "must be finite, got inf"),
        (np.ones((2, 3)), "must be square, got shape"),
        (np.ones(3), "must have 2 axes"),
    ],
)
def test_bad_input(cost, message):
    with pytest.raises(ValueError, match=message):
        lap.solve(cost)


@pytest.mark.full
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_tensors_give_tensors(backend, needs):
    torch = needs("torch")
    cost = torch.tensor([[4.0, 1.0], [2.0, 3.0]], requires_grad=True)
    for one in (cost, cost.bfloat16(), cost.T.contiguous().T):
        found = lap.solve(one, backend=backend)
        assert isinstance(found, torch.Tensor)
        assert (found.dtype, found.tolist()) == (torch.int64, [1, 0])
    with pytest.raises(ValueError, match="cost must have 2 axes"):
        lap.solve(cost[None], backend=backend)
