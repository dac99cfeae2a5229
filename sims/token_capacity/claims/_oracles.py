"""Independent oracles: kernels from weight gradients, exact ranks, prefixes as sets."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require

__all__ = [
    "EXACT",
    "ROUNDING",
    "SOURCE",
    "alignment",
    "basis",
    "complex_slope",
    "entropy_rank",
    "exact_rank",
    "hidden_states",
    "least_direction",
    "marginal_ranks",
    "matrix_rank",
    "outside",
    "participation",
    "prefixes",
    "rows",
    "slopes",
    "weight_gradients",
]

Floats = NDArray[np.float64]

EXACT = 1e-10
"""Entropies: an eigenvalue below 1e-14 of the trace may be dropped, at most 33e-14 nats each; 40 rows."""

ROUNDING = "rounding in float64, relative"

SOURCE = "reconstruction; the paper's own definitions were not available"


def rows(rng: np.random.Generator, count: int, width: int, kind: int) -> Floats:
    """Rows of one of four kinds: Gauss, of low rank, of very different lengths, nearly parallel."""
    X = rng.standard_normal((count, width))
    if kind == 1:
        low = int(rng.integers(1, width + 1))
        X = rng.standard_normal((count, low)) @ rng.standard_normal((low, width))
    elif kind == 2:
        X *= np.exp(3 * rng.standard_normal((count, 1)))
    elif kind == 3:
        X = X[:1] + 1e-2 * X
    return X


def entropy_rank(eigenvalues: NDArray[np.floating[Any]]) -> float:
    """Exponential of the entropy of non-negative numbers; 0 for zeros."""
    p = np.clip(eigenvalues, 0, None)
    if not p.sum() > 0:
        return 0.0
    p = p / p.sum()
    p = p[p > 0]
    return float(np.exp(-(p * np.log(p)).sum()))


def participation(matrix: Floats) -> float:
    """Squared trace over squared Frobenius norm."""
    return float(np.trace(matrix) ** 2 / (matrix**2).sum())


def weight_gradients(X: Floats, G: Floats) -> Floats:
    """Gradient of the weight by example and position, by outer products: (N, T, d_out d_in)."""
    return np.stack(
        [
            np.stack([np.outer(g, x).ravel() for x, g in zip(row_x, row_g, strict=True)])
            for row_x, row_g in zip(X, G, strict=True)
        ]
    )


def marginal_ranks(X: Floats, G: Floats) -> tuple[float, float, float]:
    """Entropy ranks of the state of the proof of TC-2 and of its two marginals, without a Gram matrix.

    The state is the mixture of the directions x g' of the examples, weighted by their share of the trace.
    """
    J = weight_gradients(X[:, None], G[:, None])[:, 0]
    state = J.T @ J
    d_out, d_in = G.shape[1], X.shape[1]
    blocks = state.reshape(d_out, d_in, d_out, d_in)
    parts = state, np.einsum("aiaj->ij", blocks), np.einsum("aibi->ab", blocks)
    whole, inputs, grads = (entropy_rank(np.linalg.eigvalsh(part)) for part in parts)
    return whole, inputs, grads


def exact_rank(matrix: NDArray[np.int64]) -> int:
    """Rank of an integer matrix by elimination in fractions."""
    left = [[Fraction(int(value)) for value in row] for row in matrix]
    rank = 0
    for column in range(matrix.shape[1]):
        pivot = next((i for i in range(rank, len(left)) if left[i][column]), None)
        if pivot is None:
            continue
        left[rank], left[pivot] = left[pivot], left[rank]
        for i in range(rank + 1, len(left)):
            share = left[i][column] / left[rank][column]
            if share:
                left[i] = [a - share * b for a, b in zip(left[i], left[rank], strict=True)]
        rank += 1
    return rank


def matrix_rank(X: Floats, share: float = 1e-10) -> int:
    """Number of singular values above a share of the largest."""
    s = np.linalg.svd(X, compute_uv=False)
    return int((s > share * s[0]).sum()) if s[0] > 0 else 0


def basis(X: Floats, share: float = 1e-10) -> Floats:
    """Orthonormal columns of the range of X; singular values up to a share of the largest count as 0."""
    u, s, _ = np.linalg.svd(X, full_matrices=False)
    return u[:, s > share * s[0]]


def outside(X: Floats, Y: Floats, share: float = 1e-10) -> float:
    """Part of an orthonormal basis of the range of X that is not in the range of Y, Frobenius norm."""
    a, b = basis(X, share), basis(Y, share)
    return float(np.linalg.norm(a - b @ (b.T @ a)))


def least_direction(matrix: Floats) -> float:
    """Smallest eigenvalue over the largest absolute one."""
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    return float(values[0] / np.abs(values).max())


def alignment(A: Floats, B: Floats) -> float:
    """Cosine of two matrices."""
    return float((A * B).sum() / (np.linalg.norm(A) * np.linalg.norm(B)))


def complex_slope(fn: Callable[[Any], Any], at: Floats) -> Floats:
    """Derivatives of a real analytic function by a complex step, entry by entry: (entries, ...)."""
    found = []
    for i in range(at.size):
        moved = at.astype(complex)
        moved.flat[i] += 1e-30j
        found.append(np.imag(fn(moved)) / 1e-30)
    return np.array(found)


def slopes(value: Any, parameters: list[tuple[str, Any]]) -> dict[str, Floats]:
    """Gradients by name; zeros where the scalar does not use the parameter."""
    torch = require("torch", "torch")
    found = torch.autograd.grad(value, [p for _, p in parameters], allow_unused=True)
    return {
        name: (torch.zeros_like(p) if g is None else g).detach().double().numpy()
        for (name, p), g in zip(parameters, found, strict=True)
    }


def hidden_states(model: Any, ids: NDArray[np.int64]) -> list[Floats]:
    """Inputs of every layer and the output of the last, (N, T, d) each."""
    torch = require("torch", "torch")
    with torch.no_grad():
        out = model.base_model(input_ids=torch.from_numpy(ids), output_hidden_states=True)
    return [state.double().numpy() for state in out.hidden_states]


def prefixes(rows: list[list[int]], align: str) -> list[NDArray[np.int64]]:
    """Number of each row's visible prefix at each aligned position, -1 where the row does not reach it."""
    longest, found = max(map(len, rows)), []
    for j in range(longest):
        seen: dict[tuple[int, ...], int] = {}
        numbers = []
        for row in rows:
            stop = j + 1 if align == "start" else len(row) - j
            key = tuple(row[:stop])
            numbers.append(seen.setdefault(key, len(seen)) if 0 < stop <= len(row) else -1)
        found.append(np.array(numbers))
    return found
