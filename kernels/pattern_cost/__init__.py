"""Costs of a matrix against a penalty: half-steps, all swap differences, fixed-order distances of heads.

The reference is the definition in plain loops (``reference.py``), the CPU path NumPy in float64
(``cpu.py``). Local search over one order is in ``_search.py``.
"""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, one_of
from porism.kernels import on_gpu

__all__ = ["batched_cost", "head_null", "swap_deltas"]

Floats = NDArray[np.float64]


def batched_cost(A: Any, q: Any, W: Any, *, backend: str = "auto") -> Any:
    """Cost of each source row at each position, for fixed column orders.

    ``C[b, r, i] = sum_j A[b, r, q[b, j]]^2 W[i, j]``.

    Parameters
    ----------
    A : float array, shape (b, m, n)
        Matrices, in any float precision; squared in float64.
    q : int array, shape (b, n)
        Source column at each position.
    W : float array, shape (m, n)
        Penalty of each cell.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    float64 array, shape (b, m, m)
        Sources on rows, positions on columns: input of :func:`porism.kernels.lap.batched`.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Notes
    -----
    Floor: 2 b m^2 n FLOP, ``b (m n s + 8 m^2) + 8 m n`` bytes with s bytes an entry. Where the rows of W
    have few jumps (bands, blocks, triangles), prefix sums give C in O(b (m n + m jumps)).

    Examples
    --------
    >>> batched_cost([[[1.0, 2.0], [3.0, 0.0]]], [[1, 0]], [[0, 1], [1, 0]]).tolist()
    [[[1.0, 4.0], [9.0, 0.0]]]
    """
    if (gpu := _triton(backend, A)) is not None:
        return gpu.batched_cost(A, q, W)
    A, W = finite_array("A", A, ndim=3), finite_array("W", W, ndim=2)
    q = np.asarray(q, dtype=np.int64)
    if A.shape[1:] != W.shape or q.shape != (A.shape[0], A.shape[2]):
        raise ValueError(
            f"A {A.shape}, q {q.shape} and W {W.shape} do not fit: want (b, m, n), (b, n), (m, n)"
        )
    out: Floats = _module(backend).batched_cost(A, q, W)
    return out


def swap_deltas(B: Any, W: Any, p: Any, *, backend: str = "auto") -> Any:
    """Change of the cost of an order by every swap of two positions.

    ``D[a, b] = f(p with p[a], p[b] exchanged) - f(p)`` with ``f(p) = sum_ij W[i, j] B[p[i], p[j]]``.

    Parameters
    ----------
    B : float array, shape (n, n)
        Masses.
    W : float array, shape (n, n)
        Penalty of each cell; neither matrix need be symmetric.
    p : int array, shape (n,)
        Source at each position.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    float64 array, shape (n, n)
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
    if (gpu := _triton(backend, B)) is not None:
        return gpu.swap_deltas(B, W, p)
    B, W = finite_array("B", B, ndim=2), finite_array("W", W, ndim=2)
    p = np.asarray(p, dtype=np.int64)
    if not B.shape == W.shape == (p.size, p.size):
        raise ValueError(f"B {B.shape}, W {W.shape} and p {p.shape} do not fit: want (n, n), (n, n), (n,)")
    out: Floats = _module(backend).swap_deltas(B, W, p)
    return out


def head_null(
    A: Any, masks: Any, *, causal: bool = False, mass: str = "squared", backend: str = "auto"
) -> tuple[Any, Any]:
    """Fixed-order distances of many matrices to many masks, and their means over row shuffles.

    ``d2[h, k] = sum_ij W_k[i, j] B_h[i, j] / sum B_h`` and
    ``null[h, k] = sum_i mass_h[i] mean_{admissible j} W_k[i, j] / sum B_h`` with ``W = (1 - S)^2``.

    Parameters
    ----------
    A : float array, shape (heads, m, n)
        Matrices; squared (or made absolute) in float64 after division by the largest entry.
    masks : float array, shape (k, m, n)
        Masks S, values in [0, 1].
    causal : bool, default False
        Admissible cells of row i are j <= i instead of all.
    mass : {"squared", "abs"}
        Mass of an entry.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    (float64 array, float64 array), each of shape (heads, k)
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
    if (gpu := _triton(backend, A)) is not None:
        return gpu.head_null(A, masks, causal=causal, mass=mass)
    A, masks = finite_array("A", A, ndim=3), finite_array("masks", masks, ndim=3)
    if A.shape[1:] != masks.shape[1:]:
        raise ValueError(f"masks {masks.shape} do not fit A {A.shape}: the last two axes must agree")
    one_of("mass", mass, ("squared", "abs"))
    out: tuple[Floats, Floats] = _module(backend).head_null(A, masks, bool(causal), mass)
    return out


def _triton(backend: str, array: Any) -> Any:
    """The Triton path where it is asked for, or where the data are on a GPU; else None."""
    one_of("backend", backend, ("auto", "cpu", "triton", "reference"))
    if backend == "triton" or (backend == "auto" and on_gpu(array)):
        return importlib.import_module("porism.kernels.pattern_cost.triton")
    return None


def _module(backend: str) -> Any:
    return importlib.import_module(f"porism.kernels.pattern_cost.{'cpu' if backend == 'auto' else backend}")
