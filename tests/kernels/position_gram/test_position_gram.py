"""The position Gram: against its definition, the naive products, explicit gradients, and exact numbers."""

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.kernels.position_gram import position_gram

BACKENDS = ["cpu", "reference"]
SIZES = [(1, 1, 1, 1), (2, 3, 1, 4), (15, 2, 5, 3), (17, 5, 3, 17), (16, 1, 63, 2), (5, 16, 4, 65)]
X = [[[1, 0], [0, 2]], [[1, 1], [1, -1]]]
G = [[[1], [1]], [[2], [-1]]]


def problem(N, T, d_i, d_o, kind=np.float64):
    rng = np.random.default_rng([N, T, d_i, d_o])
    return rng.normal(size=(N, T, d_i)).astype(kind), rng.normal(size=(N, T, d_o)).astype(kind)


def naive(x, g):
    """All products at once, (T, N, N)."""
    by_position = lambda a: np.matmul(a.transpose(1, 0, 2), a.transpose(1, 2, 0))
    return by_position(x) * by_position(g)


def off(found, exact):
    return np.abs(found - exact).max(initial=0.0) / max(np.abs(exact).max(initial=0.0), 1e-300)


def symmetric(K):
    return np.array_equal(K, K.swapaxes(-1, -2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_case_by_hand(backend):
    each = position_gram(np.array(X, float), np.array(G, float), per_position=True, backend=backend)
    assert each.tolist() == [[[1, 2], [2, 8]], [[4, 2], [2, 2]]]
    assert position_gram(np.array(X, float), np.array(G, float), backend=backend).tolist() == [
        [5, 4],
        [4, 10],
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", SIZES)
def test_as_the_naive_products(size, backend):
    x, g = problem(*size)
    each = position_gram(x, g, per_position=True, backend=backend)
    assert each.shape == (size[1], size[0], size[0])
    assert off(each, naive(x, g)) <= 1e-12
    total = position_gram(x, g, backend=backend)
    assert off(total, naive(x, g).sum(0)) <= 1e-12
    assert symmetric(each)
    assert symmetric(total)


@pytest.mark.parametrize("size", SIZES[:4])
def test_it_is_the_gram_of_explicit_gradients(size):
    """An independent way: the outer products g x', and their scalar products."""
    x, g = problem(*size)
    J = np.einsum("nto,nti->ntoi", g, x).reshape(*x.shape[:2], -1)
    assert off(position_gram(x, g, per_position=True), np.einsum("nta,mta->tnm", J, J)) <= 1e-12
    assert off(position_gram(x, g), np.einsum("nta,mta->nm", J, J)) <= 1e-12


@pytest.mark.parametrize("chunk", [1, 7, 63, 64, 65, 200])
@pytest.mark.parametrize("per_position", [False, True])
def test_tiles(chunk, per_position):
    x, g = problem(66 if chunk < 60 else 129, 17, 5, 6)
    found = position_gram(x, g, per_position=per_position, chunk=chunk)
    assert off(found, naive(x, g) if per_position else naive(x, g).sum(0)) <= 1e-12
    assert symmetric(found)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_lower_precision(kind):
    x, g = problem(65, 33, 40, 30, kind)
    exact = naive(x.astype(float), g.astype(float))
    for per_position in (False, True):
        found = position_gram(x, g, per_position=per_position)
        assert found.dtype == np.float32
        assert symmetric(found)
        assert off(found, exact if per_position else exact.sum(0)) <= 1e-5
    slow = position_gram(x[:9], g[:9], backend="reference")
    assert slow.dtype == np.float32
    assert off(slow, exact.sum(0)[:9, :9]) <= 1e-6
    assert position_gram(x, g.astype(np.float64)).dtype == np.float64


def test_it_is_positive_semidefinite():
    x, g = problem(40, 3, 2, 3)
    low = np.linalg.eigvalsh(position_gram(x, g))
    assert low[0] >= -1e-12 * low[-1]
    assert (low > 1e-9 * low[-1]).sum() == 3 * 2 * 3  # rank: positions times sizes


def test_views():
    x, g = problem(17, 5, 6, 7)
    exact = position_gram(x, g)
    for turned in (np.asfortranarray, lambda a: np.repeat(a, 2, 1)[:, ::2], lambda a: a[::-1].copy()[::-1]):
        assert off(position_gram(turned(x), turned(g)), exact) <= 1e-13
    assert off(position_gram(x[:, ::-1], g[:, ::-1]), exact) <= 1e-13
    assert off(position_gram(x[::-1], g[::-1])[::-1, ::-1], exact) <= 1e-13


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_axes(backend):
    for shape, sizes in (((0, 2), (0, 0)), ((3, 0), (3, 3)), ((0, 0), (0, 0))):
        x, g = np.ones((*shape, 4)), np.ones((*shape, 2))
        total = position_gram(x, g, backend=backend)
        assert total.shape == sizes
        assert not total.any()
        assert position_gram(x, g, per_position=True, backend=backend).shape == (shape[1], *sizes)
    assert not position_gram(np.ones((2, 3, 0)), np.ones((2, 3, 1)), backend=backend).any()


def test_nan_stays_with_its_example():
    x, g = problem(70, 4, 5, 6)
    x[3, 2, 1] = np.nan
    found = position_gram(x, g, chunk=32)
    bad = np.isnan(found)
    assert bad[3].all()
    assert bad[:, 3].all()
    assert bad.sum() == 2 * 70 - 1


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 5), st.integers(0, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.data()
)
def test_whole_numbers_are_exact(N, T, d_i, d_o, chunk, data):
    entry = st.integers(-4, 4)
    draw = lambda n: data.draw(st.lists(entry, min_size=n, max_size=n))
    x = np.array(draw(N * T * d_i), float).reshape(N, T, d_i)
    g = np.array(draw(N * T * d_o), float).reshape(N, T, d_o)
    each = position_gram(x, g, per_position=True, chunk=chunk)
    assert np.array_equal(each, position_gram(x, g, per_position=True, backend="reference"))
    assert np.array_equal(each.sum(0), position_gram(x, g, chunk=chunk))
    turn = data.draw(st.permutations(range(N)))
    assert np.array_equal(position_gram(x[turn], g[turn], chunk=chunk), each.sum(0)[np.ix_(turn, turn)])


def peak(call):
    """Largest memory a call holds above what was there, in bytes, as NumPy reports it."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    call()
    found = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return found


@pytest.mark.parametrize("size", [(64, 64, 128, 128), (300, 16, 8, 8)])
def test_memory_is_a_fraction_of_the_naive_products(size):
    """Naive: two products and their product, ``3 T N^2`` numbers; NumPy's own here reuses one of them."""
    x, g = problem(*size)
    N, T = size[:2]
    used = peak(lambda: position_gram(x, g))
    assert used <= 0.2 * 3 * T * N * N * 8
    assert used <= 0.2 * peak(lambda: naive(x, g).sum(0))
    more = problem(size[0], 4 * T, *size[2:])
    assert peak(lambda: position_gram(*more)) <= 4.1 * used


@pytest.mark.full
def test_time_against_jacobians(needs):
    """Per-example Jacobians of the layer at each position, contracted: equal, and at least twice as slow."""
    torch = needs("torch")
    x, g = problem(24, 24, 16, 16)
    inputs, grads = torch.from_numpy(x), torch.from_numpy(g)

    def contracted():
        read = lambda W, a, b: ((a @ W.T) * b).sum(-1)
        jacobian = torch.func.vmap(torch.func.jacrev(read), (None, 0, 0))
        J = jacobian(torch.zeros(16, 16, dtype=torch.float64), inputs, grads)
        return torch.einsum("ntoi,mtoi->nm", J, J)

    seconds = {contracted: [], position_gram: []}
    exact, found = contracted(), position_gram(inputs, grads)
    assert off(found.numpy(), exact.numpy()) <= 1e-10
    for _ in range(3):
        for call, spent in seconds.items():
            start = time.perf_counter()
            call() if call is contracted else call(inputs, grads)
            spent.append(time.perf_counter() - start)
    assert min(seconds[position_gram]) <= 0.5 * min(seconds[contracted])


@pytest.mark.full
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_tensors_on_the_cpu(kind, needs):
    torch = needs("torch")
    x, g = (torch.tensor(a, requires_grad=True).to(getattr(torch, kind)) for a in problem(17, 20, 5, 6))
    exact = naive(x.detach().double().numpy(), g.detach().double().numpy()).sum(0)
    for backend in BACKENDS:
        found = position_gram(x, g, backend=backend)
        assert isinstance(found, torch.Tensor)
        assert not found.requires_grad
        assert found.dtype == (torch.float64 if kind == "float64" else torch.float32)
        assert off(found.double().numpy(), exact) <= (1e-12 if kind == "float64" else 1e-5)
        assert symmetric(found.numpy())
    with pytest.raises(ValueError, match="grads must be on the device of inputs, cpu, got meta"):
        position_gram(x, g.to("meta"))
    with pytest.raises(TypeError, match="both be tensors or both be arrays"):
        position_gram(x, g.detach().float().numpy())
    with pytest.raises(TypeError, match=r"inputs must be float, got torch\.int32"):
        position_gram(x.int(), g)


ONES = np.ones((2, 3, 4))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda f: f(ONES.astype(int), ONES), TypeError, "inputs must be float, got int64"),
        (lambda f: f(ONES, ONES > 0), TypeError, "grads must be float, got bool"),
        (lambda f: f(ONES, ONES * 1j), TypeError, "grads must be float, got complex128"),
        (lambda f: f(ONES[0], ONES), ValueError, r"inputs must have 3 axes.*got shape \(3, 4\)"),
        (lambda f: f(ONES, ONES[:1]), ValueError, r"grads must have the 2 examples and 3 positions"),
        (lambda f: f(ONES, ONES[:, :2]), ValueError, r"got shape \(2, 2, 4\)"),
        (lambda f: f(ONES, ONES, per_position=1), TypeError, "per_position must be True or False, got 1"),
        (lambda f: f(ONES, ONES, chunk=0), ValueError, "chunk must be >= 1, got 0"),
        (lambda f: f(ONES, ONES, backend="gpu"), ValueError, "backend must be one of"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(position_gram)
