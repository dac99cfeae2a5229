"""Costs of a matrix against a penalty: half-steps, all swap differences, fixed-order distances of heads.

The reference is the definition in plain loops (``reference.py``), the CPU path NumPy in float64
(``cpu.py``), the Triton path float32 with compensated sums (``triton.py``). :func:`anneal`, local search over
one order, is numba. CUDA tensors go to Triton by themselves; results for tensors are tensors on their device.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, one_of
from porism.kernels._arrays import implementation, integers, like

__all__ = ["anneal", "batched_cost", "head_null", "swap_deltas"]

Floats = NDArray[np.float64]


def batched_cost(A: Any, q: Any, W: Any, *, backend: str = "auto") -> Any:
    """Cost of each source row at each position, for fixed column orders.

    ``C[b, r, i] = sum_j A[b, r, q[b, j]]^2 W[i, j]``.

    Parameters
    ----------
    A : float array or tensor, shape (b, m, n)
        Matrices, in any float precision; squared in float64.
    q : int array or tensor, shape (b, n)
        Source column at each position, 0 .. n-1.
    W : float array or tensor, shape (m, n)
        Penalty of each cell.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    float64 array (float32 tensor by Triton), shape (b, m, m)
        Sources on rows, positions on columns: input of :func:`porism.kernels.lap.batched`.

    Raises
    ------
    ValueError, TypeError
        If the shapes do not fit, a number is not finite, or q holds no positions.

    Notes
    -----
    Floor: 2 b m^2 n FLOP, ``b (m n s + 8 m^2) + 8 m n`` bytes with s bytes an entry. Where the rows of W
    have few jumps (bands, blocks, triangles), prefix sums give C in O(b (m n + m jumps)).

    Examples
    --------
    >>> batched_cost([[[1.0, 2.0], [3.0, 0.0]]], [[1, 0]], [[0, 1], [1, 0]]).tolist()
    [[[1.0, 4.0], [9.0, 0.0]]]
    """
    backend, path = implementation(__name__, backend, A)
    if backend == "triton":
        return path.batched_cost(A, q, W)
    a, w = finite_array("A", A, ndim=3), finite_array("W", W, ndim=2)
    q = integers("q", q, a.shape[2])
    if a.shape[1:] != w.shape or q.shape != (a.shape[0], a.shape[2]):
        raise ValueError(
            f"A {a.shape}, q {q.shape} and W {w.shape} do not fit: want (b, m, n), (b, n), (m, n)"
        )
    return like(path.batched_cost(a, q, w), A)


def swap_deltas(B: Any, W: Any, p: Any, *, backend: str = "auto") -> Any:
    """Change of the cost of an order by every swap of two positions.

    ``D[a, b] = f(p with p[a], p[b] exchanged) - f(p)`` with ``f(p) = sum_ij W[i, j] B[p[i], p[j]]``.

    Parameters
    ----------
    B : float array or tensor, shape (n, n)
        Masses.
    W : float array or tensor, shape (n, n)
        Penalty of each cell; neither matrix need be symmetric.
    p : int array or tensor, shape (n,)
        Source at each position, 0 .. n-1.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    float64 array (float32 tensor by Triton), shape (n, n)
        Symmetric, zero on the diagonal.

    Notes
    -----
    With ``P = B[p][:, p]``, ``G = W P' + W' P`` and g its diagonal:
    ``D = G + G' - g 1' - 1 g' + dW * dB``, where ``dX[a, b] = X[a, a] + X[b, b] - X[a, b] - X[b, a]``.
    Two products (4 n^3 FLOP) in place of n^2 scans of length n.

    Examples
    --------
    >>> swap_deltas([[0, 1], [0, 5]], [[0, 0], [2, 1]], [0, 1]).tolist()
    [[0.0, -3.0], [-3.0, 0.0]]
    """
    backend, path = implementation(__name__, backend, B)
    if backend == "triton":
        return path.swap_deltas(B, W, p)
    b, w = finite_array("B", B, ndim=2), finite_array("W", W, ndim=2)
    p = integers("p", p, len(b))
    if not b.shape == w.shape == (*p.shape, *p.shape):
        raise ValueError(f"B {b.shape}, W {w.shape} and p {p.shape} do not fit: want (n, n), (n, n), (n,)")
    return like(path.swap_deltas(b, w, p), B)


def head_null(
    A: Any, masks: Any, *, causal: bool = False, mass: str = "squared", backend: str = "auto"
) -> tuple[Any, Any]:
    """Fixed-order distances of many matrices to many masks, and their means over row shuffles.

    ``d2[h, k] = sum_ij W_k[i, j] B_h[i, j] / sum B_h`` and
    ``null[h, k] = sum_i mass_h[i] mean_{admissible j} W_k[i, j] / sum B_h`` with ``W = (1 - S)^2``.

    Parameters
    ----------
    A : float array or tensor, shape (heads, m, n)
        Matrices; squared (or made absolute) in float64 after division by the largest entry.
    masks : float array or tensor, shape (k, m, n)
        Masks S, values in [0, 1].
    causal : bool, default False
        Admissible cells of row i are j <= i instead of all.
    mass : {"squared", "abs"}
        Mass of an entry.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    (float64 array, float64 array), or tensors, each of shape (heads, k)
        Mass outside and its mean over shuffles inside rows; NaN for a matrix of zeros.

    Notes
    -----
    Streams over rows, so A is read once; 2 heads k m n FLOP. The mean assumes that no mass lies outside
    the admissible cells.

    References
    ----------
    PD-19 (reconstruction): closed form of the row-shuffle null.

    Examples
    --------
    >>> d2, null = head_null([[[1.0, 0.0], [1.0, 1.0]]], [[[1, 0], [0, 1]]])
    >>> d2.round(3).tolist(), null.tolist()
    ([[0.333]], [[0.5]])
    """
    one_of("mass", mass, ("squared", "abs"))
    backend, path = implementation(__name__, backend, A)
    if backend == "triton":
        return path.head_null(A, masks, causal=causal, mass=mass)
    a, masks = finite_array("A", A, ndim=3), finite_array("masks", masks, ndim=3)
    if a.shape[1:] != masks.shape[1:]:
        raise ValueError(f"masks {masks.shape} do not fit A {a.shape}: the last two axes must agree")
    d2, null = path.head_null(a, masks, bool(causal), mass)
    return like(d2, A), like(null, A)


def anneal(
    links: tuple[NDArray[Any], ...],
    masses: tuple[NDArray[Any], ...],
    p: NDArray[np.int64],
    *,
    skew: bool,
    classes: NDArray[np.int64],
    split: int,
    cyclic: bool,
    segments: float,
    temperatures: tuple[float, float],
    steps: int,
    seed: int,
    goal: float,
) -> float:
    """Anneal one order of positions in place, by swaps and by moves of segments; returns what it gained.

    ``f(p) = sum_ij W[i, j] B[p[i], p[j]]`` is lowered, with W given by its links.

    Parameters
    ----------
    links : tuple of arrays
        Neighbour lists of W: pointers (n+1,) and the other position of each link (c,), as in a sparse matrix
        by rows; its symmetric part ``(W + W') / 2`` and skew part ``(W - W') / 2`` on each link (c,), and the
        diagonal of W (n,).
    masses : tuple of arrays
        ``B + B'`` and ``B - B'``, shape (n, n), and the diagonal of B (n,).
    p : int64 array, shape (n,)
        Source at each position; the best order found replaces it.
    skew : bool
        Whether the skew parts count; they do not where W or B is symmetric.
    classes : int64 array, shape (n,)
        Positions of one class are the same to W: they are not exchanged.
    split : int
        Positions below it, and those from it on, exchange sources among themselves only; n: all with all.
    cyclic : bool
        Whether segments may run over the end.
    segments : float
        Share of proposals that move a segment by one step, by a turn of it or reversed; the rest are swaps.
    temperatures : (float, float)
        First and last temperature, in units of f; 0 descends.
    steps : int
        Proposals.
    seed : int
        Seed of the chain's own generator, xorshift64*.
    goal : float
        Gain at which the search stops.

    Returns
    -------
    float
        Decrease of f.

    Notes
    -----
    A swap costs O(degree), a segment O(length * degree).

    Examples
    --------
    >>> W, B, p = np.array([[0.0, 1], [0, 0]]), np.array([[0.0, 3], [1, 0]]), np.array([0, 1])
    >>> links = np.array([0, 1, 2]), np.array([1, 0]), np.full(2, 0.5), np.array([0.5, -0.5]), np.zeros(2)
    >>> options = {"skew": True, "classes": p.copy(), "split": 2, "cyclic": False, "segments": 0.0}
    >>> anneal(links, (B + B.T, B - B.T, np.zeros(2)), p, **options,
    ...        temperatures=(0.1, 0.1), steps=20, seed=0, goal=9.0), p.tolist()
    (2.0, [1, 0])
    """
    from porism.kernels.pattern_cost import _search

    pointers, other, symmetric, odd, diagonal = links
    both, difference, own = masses
    hot, cold = temperatures
    gain: float = _search.anneal(
        pointers, other, symmetric, odd, diagonal, both, difference, own, skew, classes, split, cyclic,
        segments, p, hot, cold, steps, seed, goal,
    )  # fmt: skip
    return gain
