"""Bounds on what one position can add, and the capacity that a set of positions has."""

import heapq
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, positive
from porism.errors import NumericalWarning
from porism.results import Result
from porism.theory.effective_rank import effective_rank as spectral_rank
from porism.theory.token_capacity._arrays import chosen, float64, not_empty

__all__ = [
    "CapacityBound",
    "GreedyPositions",
    "InterchangeBound",
    "capacity_bound",
    "greedy_positions",
    "interchange_bound",
    "logdet_capacity",
]

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CapacityBound(Result):
    """Effective rank of one position's kernel and the product that bounds it.

    Parameters
    ----------
    effective_rank : float
        Entropy effective rank of K_t, in [1, N], 0 for a zero kernel.
    input_rank, gradient_rank : float
        Effective ranks of the cosine kernels of inputs and of gradients, each weighted by the diagonal of
        K_t.
    bound : float
        Product of the two; never below `effective_rank` but for rounding.

    Examples
    --------
    >>> capacity_bound(np.eye(2), np.ones((2, 1))).bound
    2.0
    """

    effective_rank: float
    input_rank: float
    gradient_rank: float
    bound: float


@dataclass(frozen=True, eq=False)
class InterchangeBound(Result):
    """How far the kernel of one position is from a multiple of another's, and a bound on it.

    Parameters
    ----------
    alpha, beta : float
        Best multiples of the Gram matrices, ``<A_s, A_t> / |A_t|^2`` and the same for the gradients; 0 where
        the second one is zero.
    scale : float
        Their product c.
    input_alignment, gradient_alignment : float
        Uncentred alignments in [0, 1], nan beside a zero matrix.
    error : float
        ``|K_s - c K_t|_F``; inf where it exceeds the range of float64, as may the numbers above.
    bound : float
        Bound on `error`.

    Examples
    --------
    >>> interchange_bound(np.eye(2), 2 * np.eye(2), np.eye(2), np.eye(2)).error
    0.0
    """

    alpha: float
    beta: float
    scale: float
    input_alignment: float
    gradient_alignment: float
    error: float
    bound: float


@dataclass(frozen=True, eq=False)
class GreedyPositions(Result):
    """Positions in the order in which each adds most capacity.

    Parameters
    ----------
    order : int64 array of shape (k,)
        Positions, best first.
    capacity : float64 array of shape (k,)
        Capacity of the first 1, ..., k of them, in nats.
    evaluations : int
        Determinants that were computed.

    Examples
    --------
    >>> greedy_positions(np.stack([np.eye(2), 3 * np.eye(2)]), 1, ridge=1.0).order
    array([1])
    """

    order: NDArray[np.int64]
    capacity: NDArray[np.float64]
    evaluations: int


def capacity_bound(inputs: Any, grads: Any) -> CapacityBound:
    """Bound the effective rank of one position's kernel by those of inputs and gradients.

    ``rank_e(K_t) <= rank_e(A^w) rank_e(B^w)`` with ``A^w = D^(1/2) Ahat D^(1/2)``, hats cosine kernels and D
    the diagonal of ``K_t / tr K_t``.

    Parameters
    ----------
    inputs : array_like or tensor, shape (N, d_in)
        What the map reads at one position, one row an example.
    grads : array_like or tensor, shape (N, d_out)
        Gradients with respect to the map's output there.

    Returns
    -------
    CapacityBound
        The effective rank, the two weighted ranks and their product; zeros where the kernel is zero.

    Raises
    ------
    TypeError
        If the arguments are not floats.
    ValueError
        If shapes do not fit, an axis is empty or a value is not finite.

    Notes
    -----
    Entropy of a state is at most the sum of the entropies of its two parts. Without the weights the
    inequality is false, and so it is for the participation ratio. Weights are computed from logarithms, rows
    of weight 0 are left out. The bound has no width in it, yet for independent hidden states the ranks
    themselves grow with the width up to N: it is a measured property of model and data. Pass states as they
    are; a sketch has a lower rank, which would break the bound. Cost O(N^3).

    References
    ----------
    Araki and Lieb (1970), "Entropy inequalities", doi:10.1007/BF01646092. TC-2 is a reconstruction.

    Examples
    --------
    >>> found = capacity_bound([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [[1.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    >>> round(found.effective_rank, 6), round(found.bound, 6)
    (1.896012, 2.305929)
    """
    X, G = _same_rows(inputs=inputs, grads=grads)
    (X, log_x), (G, log_g) = _directions(X), _directions(G)
    logs = 2 * (log_x + log_g)
    if not np.isfinite(logs).any():
        return CapacityBound(0.0, 0.0, 0.0, 0.0)
    weights = np.exp(logs - logs.max())
    kept = weights > 0
    root = np.sqrt(weights[kept] / weights.sum())[:, None]
    X, G = X[kept], G[kept]
    kernel = (X @ X.T) * (G @ G.T) * (root * root.T)
    spectra = [np.linalg.svd(root * Z, compute_uv=False) ** 2 for Z in (X, G)]
    spectra.append(np.linalg.eigvalsh(kernel).clip(min=0))
    input_rank, gradient_rank, whole = (float(spectral_rank(part, spectrum=True)) for part in spectra)
    return CapacityBound(whole, input_rank, gradient_rank, input_rank * gradient_rank)


def interchange_bound(inputs_s: Any, inputs_t: Any, grads_s: Any, grads_t: Any) -> InterchangeBound:
    """Bound how badly position t stands in for position s.

    ``|K_s - c K_t|_F <= max|B_s| |A_s|_F sqrt(1 - rho_A^2) + alpha max|A_t| |B_s|_F sqrt(1 - rho_B^2)`` with
    ``c = alpha beta`` and rho the uncentred alignments of the Gram matrices A of inputs and B of gradients.

    Parameters
    ----------
    inputs_s, inputs_t : array_like or tensor, shapes (N, d_s) and (N, d_t)
        Inputs at the two positions, the same examples in the same order.
    grads_s, grads_t : array_like or tensor, shapes (N, o_s) and (N, o_t)
        Gradients at the two positions.

    Returns
    -------
    InterchangeBound
        Multiples, alignments, error and bound.

    Raises
    ------
    TypeError
        If the arguments are not floats.
    ValueError
        If shapes do not fit, an axis is empty or a value is not finite.

    Warns
    -----
    NumericalWarning
        If a Gram matrix is zero, so that an alignment is not defined.

    Notes
    -----
    Aligned hidden states alone do not suffice: with the same inputs and other gradients two kernels had
    alignment 0.72. A number from forward passes certifies the first term only. The alignment must be
    uncentred: a shift of all inputs by 5 leaves centred similarity at 1.000 while this one falls to 0.198.
    Cost O(N^2 (d + o)).

    References
    ----------
    Cortes, Mohri and Rostamizadeh (2012), "Algorithms for learning kernels based on centered alignment", for
    the centred form. TC-3 is a reconstruction.

    Examples
    --------
    >>> found = interchange_bound([[1.0], [0.0]], [[1.0], [1.0]], [[1.0], [1.0]], [[1.0], [1.0]])
    >>> round(found.input_alignment, 9), round(found.error, 6), round(found.bound, 6)
    (0.5, 0.866025, 0.866025)
    """
    arrays = _same_rows(inputs_s=inputs_s, inputs_t=inputs_t, grads_s=grads_s, grads_t=grads_t)
    tops = [float(abs(X).max()) or 1.0 for X in arrays]  # squares of squares would overflow
    A_s, A_t, B_s, B_t = ((X / top) @ (X / top).T for X, top in zip(arrays, tops, strict=True))
    alpha, rho_a, rest_a = _project(A_s, A_t, "inputs")
    beta, rho_b, rest_b = _project(B_s, B_t, "gradients")
    error = float(np.linalg.norm(A_s * B_s - alpha * beta * A_t * B_t))
    bound = float(abs(B_s).max() * rest_a + alpha * abs(A_t).max() * rest_b)
    for _ in range(2):  # factor by factor: no power of a float, which would raise where it overflows
        error, bound = error * tops[0] * tops[2], bound * tops[0] * tops[2]
        alpha, beta = alpha * (tops[0] / tops[1]), beta * (tops[2] / tops[3])
    return InterchangeBound(alpha, beta, alpha * beta, rho_a, rho_b, error, bound)


def logdet_capacity(kernels: Any, positions: Any, *, ridge: float) -> float:
    """Capacity of a set of positions, the log-determinant of its untied kernel.

    ``C(S) = log det(I + sum over t in S of K_t / ridge)``.

    Parameters
    ----------
    kernels : array_like or tensor, shape (P, N, N)
        Positive semidefinite blocks, such as from `position_ntk`.
    positions : sequence of int
        The set S, distinct, in [0, P).
    ridge : float
        The number lambda itself, > 0; use the same for all sets that are compared.

    Returns
    -------
    float
        Capacity in nats, >= 0.

    Raises
    ------
    TypeError
        If the kernels are not floats or positions are not ints.
    ValueError
        If shapes do not fit, a set is empty, repeated or out of range, the ridge is not positive, or the sum
        is not positive semidefinite.

    Notes
    -----
    Non-decreasing and submodular in S, so that greedy selection reaches 1 - 1/e of the best; the effective
    rank is neither. Cost O(N^3).

    References
    ----------
    Nemhauser, Wolsey and Fisher (1978), "An analysis of approximations for maximizing submodular set
    functions", doi:10.1007/BF01588971.

    Examples
    --------
    >>> round(logdet_capacity(np.stack([np.eye(2), 2 * np.eye(2)]), [0, 1], ridge=1.0), 9)
    2.772588722
    """
    K, ridge = _kernels(kernels), positive("ridge", ridge)
    return _logdet(K[chosen("positions", positions, len(K))].sum(0), ridge)


def greedy_positions(kernels: Any, k: int, *, ridge: float) -> GreedyPositions:
    """Take k positions one by one, each time the one that adds most log-determinant capacity.

    ``t_i = argmax C({t_1, ..., t_(i-1), t})`` with C of `logdet_capacity`; ties go to the smaller index.

    Parameters
    ----------
    kernels : array_like or tensor, shape (P, N, N)
        Positive semidefinite blocks, such as from `position_ntk`.
    k : int
        Number of positions, in [1, P].
    ridge : float
        The number lambda itself, > 0.

    Returns
    -------
    GreedyPositions
        Order and capacity after each step.

    Raises
    ------
    TypeError
        If the kernels are not floats or k is no int.
    ValueError
        If shapes do not fit, k is out of range, the ridge is not positive, or a sum is not positive
        semidefinite.

    Notes
    -----
    C is monotone and submodular, so the capacity is at least 1 - 1/e of the best set of that size. A gain can
    only shrink as the set grows, so that only positions whose last known gain is on top are computed again.
    Cost O(P N^3) at least, O(P k N^3) at most.

    References
    ----------
    Minoux (1978), "Accelerated greedy algorithms for maximizing submodular set functions",
    doi:10.1007/BFb0006528.

    Examples
    --------
    >>> blocks = np.stack([np.diag([4.0, 0.0]), np.diag([3.0, 0.0]), np.diag([0.0, 1.0])])
    >>> greedy_positions(blocks, 2, ridge=1.0).order
    array([0, 2])
    """
    K, ridge = _kernels(kernels), positive("ridge", ridge)
    k = integer("k", k, 1)
    if k > len(K):
        raise ValueError(f"k={k} exceeds the number of positions P={len(K)}; choose a smaller k")
    total, reached, evaluations = np.zeros_like(K[0]), 0.0, 0
    waiting = [(-np.inf, t, -1, 0.0) for t in range(len(K))]  # gain with its sign turned, when known
    order: list[int] = []
    curve: list[float] = []
    while len(order) < k:
        _, t, known, value = heapq.heappop(waiting)
        if known < len(order):
            value = _logdet(total + K[t], ridge)
            evaluations += 1
            heapq.heappush(waiting, (reached - value, t, len(order), value))
            continue
        order.append(t)
        curve.append(value)
        total, reached = total + K[t], value
    return GreedyPositions(np.array(order, dtype=np.int64), np.array(curve), evaluations)


def _same_rows(**given: Any) -> list[Matrix]:
    arrays = {name: float64(name, value, 2) for name, value in given.items()}
    first, rows = next((name, len(X)) for name, X in arrays.items())
    for name, X in arrays.items():
        not_empty(name, X.shape, "N, d")
        if len(X) != rows:
            raise ValueError(
                f"{name} must have {rows} rows as {first} has, got {len(X)}; pass the same examples"
            )
    return list(arrays.values())


def _directions(X: Matrix) -> tuple[Matrix, Matrix]:
    """Rows of length 1 and the logarithms of their lengths; zero rows stay, with -inf."""
    top = abs(X).max(1, keepdims=True)
    X = X / np.where(top > 0, top, 1)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = (np.log(top) + np.log(length))[:, 0]
    return X / np.where(length > 0, length, 1), logs


def _project(A: Matrix, B: Matrix, what: str) -> tuple[float, float, float]:
    """Best multiple of B for A, their alignment, and the norm of what is left."""
    inner, size_a, size_b = float((A * B).sum()), float(np.linalg.norm(A)), float(np.linalg.norm(B))
    if size_a and size_b:
        rho = min(inner / (size_a * size_b), 1.0)  # rounding may pass 1
    else:
        rho = float("nan")
        warnings.warn(
            f"the Gram matrix of {what} is zero at one of the positions; their alignment is nan",
            NumericalWarning,
            stacklevel=3,
        )
    multiple = inner / float((B * B).sum()) if size_b else 0.0
    return multiple, rho, float(np.linalg.norm(A - multiple * B))


def _kernels(kernels: Any) -> Matrix:
    K = float64("kernels", kernels, 3)
    not_empty("kernels", K.shape, "P, N, N")
    if K.shape[1] != K.shape[2]:
        raise ValueError(f"kernels must have shape (P, N, N), got {K.shape}; pass blocks of position_ntk")
    return K


def _logdet(kernel: Matrix, ridge: float) -> float:
    matrix = (kernel + kernel.T) / (2 * ridge)
    matrix[np.diag_indices_from(matrix)] += 1
    try:
        return 2 * float(np.log(np.diag(np.linalg.cholesky(matrix))).sum())
    except np.linalg.LinAlgError:
        raise ValueError(
            f"kernels must be positive semidefinite, got a sum with an eigenvalue below -ridge={-ridge:g}; "
            "pass blocks of position_ntk, and a ridge above their rounding"
        ) from None
