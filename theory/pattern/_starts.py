"""Orders to start from. Each source order is matched with an order of the positions of the mask.

A start is a name and the source at each position. Eigenvectors are taken after a fixed relative perturbation
of 1e-7, which settles degenerate spaces the same way whatever the number of threads of the linear algebra.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.kernels import lap

__all__ = ["common_starts", "independent_starts", "largest", "match", "rcm", "rounded", "spectral_order"]

Floats = NDArray[np.float64]
Order = NDArray[np.int64]

LARGE = 2048
"""Size from which dense eigenvectors are left out."""


def match(source: NDArray[Any], position: NDArray[Any]) -> Order:
    """Put the source of k-th value at the position of k-th value; ties by index."""
    p = np.empty(source.size, dtype=np.int64)
    p[_argsort(position)] = _argsort(source)
    return p


def largest(B: Floats, count: int) -> Floats:
    """Keep the `count` largest entries of B (and those equal to the last of them)."""
    count = min(max(count, 1), B.size)
    cut = np.partition(B, B.size - count, axis=None)[B.size - count]
    return np.where(max(cut, np.nextafter(0, 1)) <= B, B, 0.0)


def rcm(B: Any) -> Order:
    """Reverse Cuthill-McKee rank of each index, on the non-zero entries of B + B', dense or sparse."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    graph = csr_matrix(B)
    rank = np.empty(graph.shape[0], dtype=np.int64)
    rank[reverse_cuthill_mckee(graph + graph.T, symmetric_mode=True)] = np.arange(rank.size)
    return rank


def spectral_order(B: Floats, vectors: int = 1) -> Floats:
    """Columns 1.. of the normalised Laplacian of B + B', scaled by the root of the degree."""
    if len(B) > LARGE and np.count_nonzero(B) < B.size // 10:
        return _sparse_order(B, vectors)
    graph = _jitter(B + B.T)
    degree = np.sqrt(graph.sum(axis=1) + 1e-12 * graph.sum())
    graph /= degree[:, None] * degree
    _, basis = _eigh(graph)
    found: Floats = basis[:, -2 : -2 - vectors : -1] / degree[:, None]
    return found


def _sparse_order(B: Floats, vectors: int) -> Floats:
    """The same by Lanczos steps from a fixed vector."""
    from scipy.sparse import csr_matrix, diags_array
    from scipy.sparse.linalg import eigsh

    graph = csr_matrix(B) + csr_matrix(B).T
    degree = np.sqrt(graph.sum(axis=1).A1 + 1e-12 * graph.sum())
    scaled = diags_array(1 / degree) @ graph @ diags_array(1 / degree)
    values, basis = eigsh(scaled, k=vectors + 1, which="LA", v0=np.cos(np.arange(len(B))), tol=1e-6, ncv=60)
    basis = basis[:, np.argsort(-values)][:, 1:]
    found: Floats = basis * _signs(basis) / degree[:, None]
    return found


def independent_starts(B: Floats, S: Floats, rng: np.random.Generator, random: int) -> Iterator[Any]:
    """Names with a row order and a column order."""
    m, n = B.shape
    yield "identity", np.arange(m), np.arange(n)
    yield "degree", match(B.sum(1), S.sum(1)), match(B.sum(0), S.sum(0))
    k = min(3, min(m, n) - 1)
    if k >= 1 and min(m, n) <= LARGE:
        left, right = _bipartite_vectors(S, k)
        for name, masses in (("spectral", B), ("spectral-top", largest(B, round(float(S.sum()))))):
            u, v = _bipartite_vectors(masses, k)
            for i in range(u.shape[1]):
                for sign in (1, -1):
                    rows, columns = match(sign * u[:, i], left[:, i]), match(sign * v[:, i], right[:, i])
                    yield f"{name}-{i + 1}{'+' if sign > 0 else '-'}", rows, columns
    if min(m, n) > 2:
        top = largest(B, round(float(S.sum())))
        ranks = rcm(_bipartite(top)), rcm(_bipartite(S))
        yield "rcm-top", match(ranks[0][:m], ranks[1][:m]), match(ranks[0][m:], ranks[1][m:])
    for i in range(random):
        yield f"random-{i}", rng.permutation(m), rng.permutation(n)


def common_starts(B: Floats, S: Floats) -> Iterator[tuple[str, Order]]:
    """Names with an order, for symmetrised masses and mask; cheap ones first."""
    n = len(B)
    yield "identity", np.arange(n)
    yield "degree", match(B.sum(1) + B.sum(0), S.sum(1) + S.sum(0))
    if n < 3:
        return
    symmetric, target = B + B.T, S + S.T
    count = int(np.count_nonzero(target))
    top = largest(symmetric, count)
    yield "rcm-top", match(rcm(top), rcm(target))
    vector, aim = spectral_order(top)[:, 0], spectral_order(target)[:, 0]
    yield "fiedler-top", match(vector, aim)
    yield "fiedler-top-", match(-vector, aim)
    if n > LARGE:
        return
    close = _shared(top)
    vector = spectral_order(close)[:, 0]
    yield "fiedler-shared", match(vector, aim)
    values, basis = _eigh(_jitter(symmetric / np.linalg.norm(symmetric)))
    aims, frame = _eigh(_jitter(target / max(float(np.linalg.norm(target)), 1e-300)))
    for eta in (0.05, 0.2, 0.5):
        yield f"grampa-{eta}", _grampa(values, basis, aims, frame, eta)
    for k in (2, 3):
        if k <= n - 1:
            yield f"embedding-{k}", _embedding(top, target, k)
            yield f"embedding-shared-{k}", _embedding(close, target, k)


def _shared(top: Floats) -> Floats:
    """Weigh each kept entry by the neighbours that its ends share: stray entries share none."""
    graph = (top > 0).astype(np.float64)
    shared = graph @ graph
    return np.where(top > 0, shared + 0.1, 0.05 * shared)


def _grampa(values: Floats, basis: Floats, aims: Floats, frame: Floats, eta: float) -> Order:
    weight = 1.0 / ((values[:, None] - aims) ** 2 + eta**2)
    weight *= basis.sum(axis=0)[:, None] * frame.sum(axis=0)
    return lap.solve(-rounded(basis @ weight @ frame.T))


def _embedding(B: Floats, S: Floats, k: int) -> Order:
    """Leading vectors of both, turned onto each other: assignment and rotation in turn."""
    x, y = spectral_order(B, k), spectral_order(S, k)
    x, y = (z / np.linalg.norm(z, axis=0) for z in (x, y))
    best, order = np.inf, np.arange(len(B))
    for flip in (1.0, -1.0):
        turn = np.eye(k)
        turn[0, 0] = flip
        previous = None
        for _ in range(20):
            order_now = lap.solve(-rounded(x @ turn @ y.T))
            if previous is not None and np.array_equal(order_now, previous):
                break
            previous = order_now
            u, _, vt = np.linalg.svd(x[order_now].T @ y)
            turn = u @ vt
        miss = float(((x[order_now] @ turn - y) ** 2).sum())
        if miss < best - 1e-9:
            best, order = miss, order_now
    return order


def _bipartite(B: Floats) -> Any:
    """Rows and columns as the vertices of one sparse graph."""
    from scipy.sparse import coo_array

    rows, columns = np.nonzero(B)
    return coo_array((B[rows, columns], (rows, len(B) + columns)), shape=(sum(B.shape), sum(B.shape)))


def _bipartite_vectors(B: Floats, k: int) -> tuple[Floats, Floats]:
    """Singular vectors 2 .. k+1 of B scaled to unit row and column masses, in the scale of the entries."""
    B = _jitter(B)
    rows, columns = (np.sqrt(B.sum(axis=a) + 1e-12 * B.sum()) for a in (1, 0))
    u, _, vt = np.linalg.svd(B / rows[:, None] / columns, full_matrices=False)
    u, v = u[:, 1 : k + 1] / rows[:, None], vt[1 : k + 1].T / columns[:, None]
    sign = _signs(u)
    return u * sign, v * sign


def _eigh(symmetric: Floats) -> tuple[Floats, Floats]:
    values, basis = np.linalg.eigh(symmetric)
    return values, basis * _signs(basis)


def _signs(basis: Floats) -> Floats:
    """Signs that make the entry of largest size in each column positive."""
    where = np.argmax(np.abs(basis) * (1 + 1e-7 * np.arange(len(basis))[:, None]), axis=0)
    return np.where(basis[where, np.arange(basis.shape[1])] < 0, -1.0, 1.0)


def _jitter(B: Floats) -> Floats:
    noise = np.random.default_rng(0).random(B.shape)
    if B.shape[0] == B.shape[1] and np.array_equal(B, B.T):
        noise = noise + noise.T
    return B + 1e-7 * max(float(B.mean()), 1e-300) * noise


def _argsort(x: NDArray[Any]) -> Order:
    return np.argsort(rounded(x), kind="stable")


def rounded(x: NDArray[Any], digits: int = 9) -> NDArray[Any]:
    """Drop what rounding of the linear algebra may have put in, so that ties stay ties."""
    top = float(np.abs(x).max(initial=0.0))
    return np.round(x / top, digits) if top > 0 else x
