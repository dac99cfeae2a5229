"""Position kernels: loops, exact fractions, the Jacobian itself, and the order between tied and untied."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.theory.token_capacity import effective_rank, position_ntk
from porism.theory.token_capacity import ntk as module

X1 = [[[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [1.0, -1.0]]]
G1 = [[[1.0], [1.0]], [[2.0], [-1.0]]]


def draw(seed, n=5, T=4, d_in=3, d_out=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, T, d_in)), rng.normal(size=(n, T, d_out))


def test_oracle_1():
    K = position_ntk(X1, G1)
    assert K.tolist() == [[[1, 2], [2, 8]], [[4, 2], [2, 2]]]
    untied, tied = K.sum(0), position_ntk(X1, G1, tied=True)
    assert untied.tolist() == [[5, 4], [4, 10]]
    assert tied.tolist() == [[5, 7], [7, 10]]
    assert float(effective_rank(untied)) == pytest.approx(1.615560524965, abs=1e-9)
    assert float(effective_rank(tied)) == pytest.approx(1.029027234392, abs=1e-9)
    np.testing.assert_allclose(np.linalg.eigvalsh(tied), [0.066965626341, 14.933034373659], atol=1e-9)


def test_oracle_9():
    X, G = np.array([[1.0, 2], [0, 1], [1, -1]])[:, None], np.array([[1.0, 0], [1, 1], [2, -1]])[:, None]
    A, B = np.array([[1.0, 1]]), np.array([[1.0], [2]])
    assert position_ntk(X, G @ B)[0].tolist() == [[5, 6, 0], [6, 9, 0], [0, 0, 0]]
    assert position_ntk(X @ A.T, G)[0].tolist() == [[9, 3, 0], [3, 2, 0], [0, 0, 0]]
    assert not position_ntk(X, G @ (0 * B)).any()


@pytest.mark.parametrize("chunk", [1, 2, 3, 256])
@pytest.mark.parametrize("route", ["_outer", "_direct"])
def test_exact_integers(plain, chunk, route, monkeypatch):
    """Small whole numbers are exact in floats, so loops over Python ints must agree to the bit."""
    rng = np.random.default_rng(0)
    X, G = rng.integers(-4, 5, (5, 3, 4)), rng.integers(-4, 5, (5, 3, 2))
    for other in ("_outer", "_direct"):
        monkeypatch.setattr(module, other, getattr(module, route))
    S = [2, 0]
    K = position_ntk(X.astype(float), G.astype(float), positions=S, chunk=chunk)
    lists = X.tolist(), G.tolist()
    assert K.tolist() == [plain.block(*lists, t) for t in S]
    found = position_ntk(X.astype(float), G.astype(float), positions=S, tied=True, chunk=chunk)
    assert found.tolist() == plain.tied(*lists, S)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_order_of_tied_and_untied(seed, n, T, d_in, d_out):
    X, G = draw(seed, n, T, d_in, d_out)
    K, tied = position_ntk(X, G, chunk=2), position_ntk(X, G, tied=True, chunk=2)
    for matrix in (*K, tied):
        assert (matrix == matrix.T).all()
    # sums of at most 5 * 4 * 16 terms below 1e2 each, a few hundred eps of the trace
    slack = 1e-12 * max(np.trace(K.sum(0)), 1e-300) * T
    assert min(np.linalg.eigvalsh(M)[0] for M in (*K, tied, T * K.sum(0) - tied)) >= -slack
    for t in range(T):
        bound = min(n, np.linalg.matrix_rank(X[:, t]) * np.linalg.matrix_rank(G[:, t]))
        assert effective_rank(K[t], kind="rank") <= bound


def test_cancellation():
    """J_2 = -J_1: the tied kernel vanishes, the untied one does not."""
    X, G = (np.rint(4 * z) for z in draw(1, 6, 1))  # whole numbers: the difference is exact
    X, G = np.concatenate([X, X], 1), np.concatenate([G, -G], 1)
    assert not position_ntk(X, G, tied=True).any()
    assert effective_rank(position_ntk(X, G).sum(0), kind="rank") >= 5


@pytest.mark.full
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shape", [(6, 5, 3, 2), (3, 2, 7, 6)])
def test_against_the_jacobian(needs, tied, shape):
    """torch.func's per-sample Jacobian of a map that is, or is not, shared by the positions."""
    torch = needs("torch")
    n, T, d_in, d_out = shape
    draws = torch.Generator().manual_seed(0)

    def normal(*size):
        return torch.randn(*size, generator=draws, dtype=torch.float64)

    X, weight, mix, readout = normal(n, T, d_in), normal(d_out, d_in), normal(T, T), normal(T, d_out)

    def rest(y):
        return (torch.tanh(mix @ torch.tanh(y)) * readout).sum()

    untied = weight.expand(T, d_out, d_in).clone()
    jacobian = torch.func.vmap(
        torch.func.grad(lambda W, x: rest(torch.einsum("toi,ti->to", W, x))), in_dims=(None, 0)
    )(untied, X)
    G = torch.func.vmap(torch.func.grad(rest))(X @ weight.T)
    if tied:
        shared = torch.func.vmap(torch.func.grad(lambda W, x: rest(x @ W.T)), in_dims=(None, 0))(weight, X)
        expected = torch.einsum("noi,moi->nm", shared, shared)
    else:
        expected = torch.einsum("ntoi,mtoi->tnm", jacobian, jacobian)
    found = position_ntk(X, G, tied=tied, chunk=2)
    assert float((found - expected).abs().max()) <= 1e-10
    np.testing.assert_allclose(position_ntk(X.numpy(), G.numpy(), tied=tied), found, rtol=0, atol=1e-12)


@pytest.mark.full
def test_half_precision_and_devices(needs):
    torch = needs("torch")
    X, G = (torch.tensor(z) for z in draw(2))
    expected = position_ntk(X, G)
    assert position_ntk(X.float(), G.float()).dtype == torch.float32
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 4e-2)):
        found = position_ntk(X.to(dtype), G.to(dtype))
        assert found.dtype == torch.float32
        # inputs rounded to eps, four of them in a product
        assert float((found - expected).abs().max() / expected.abs().max()) < tolerance
    found = position_ntk(X.requires_grad_(), G, positions=torch.tensor([3, 1]))
    assert not found.requires_grad
    torch.testing.assert_close(found, expected[[3, 1]])
    with pytest.raises(ValueError, match="on one device, got cpu and meta"):
        position_ntk(X, G.to("meta"))
    with pytest.raises(TypeError, match="of one kind"):
        position_ntk(X, G.numpy())
    with pytest.raises(TypeError, match="int64"):
        position_ntk(X.long(), G)


def test_bad_input():
    X, G = draw(3)
    with pytest.raises(ValueError, match=r"^need at least one selected position"):
        position_ntk(X, G, positions=[])
    with pytest.raises(ValueError, match="got 1 more than once"):
        position_ntk(X, G, positions=[1, 2, 1])
    for wrong in (4, -1):
        with pytest.raises(ValueError, match=rf"in 0\.\.3, got {wrong}"):
            position_ntk(X, G, positions=[0, wrong])
    for wrong in ([0.0], [True], True, 2, np.array(2), {1}, iter([1]), np.array([True, False, True, True])):
        with pytest.raises(TypeError, match="positions must"):
            position_ntk(X, G, positions=wrong)
    with pytest.raises(ValueError, match="positions must be a rectangular array"):
        position_ntk(X, G, positions=[[0], [1, 2]])
    with pytest.raises(ValueError, match=r"agree in \(N, T\)"):
        position_ntk(X, G[:, :3])
    with pytest.raises(ValueError, match="no empty axis"):
        position_ntk(X[:0], G[:0])
    with pytest.raises(ValueError, match="no empty axis"):
        position_ntk(X[:, :0], G[:, :0])
    with pytest.raises(ValueError, match="3 axes"):
        position_ntk(X[0], G)
    with pytest.raises(ValueError, match="grads must be finite"):
        position_ntk(X, G * np.inf)
    with pytest.raises(ValueError, match="chunk must be >= 1"):
        position_ntk(X, G, chunk=0)
    with pytest.raises(ValueError, match="rectangular"):
        position_ntk([[[1.0], [1.0, 2.0]]], G)
