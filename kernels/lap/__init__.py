"""Linear assignment with sources on rows and positions on columns.

The reference is the shortest augmenting path method in plain Python (``reference.py``), the CPU path
SciPy's solver (``cpu.py``), the Triton path an auction, finished exactly (``triton.py``). Equal costs may be
reached by different assignments.

Notes
-----
The orientation is part of the contract. Masks have many equal rows, so positions on rows give the solver
equal rows to choose between: 20 times slower on block masks at n = 1024, with the same optimum.
"""

from typing import Any

from porism.checks import finite_array
from porism.kernels._arrays import implementation, is_tensor, like

__all__ = ["batched", "solve"]


def solve(cost: Any, *, backend: str = "auto") -> Any:
    """Put one source at each position at least total cost.

    ``p = argmin sum_i cost[p[i], i]`` over permutations p.

    Parameters
    ----------
    cost : float array or tensor, shape (n, n)
        Cost of source r (row) at position i (column), finite.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    int64 array, shape (n,)
        Source at each position; for a tensor a tensor on its device.

    Raises
    ------
    ValueError
        If the matrix is not square or holds NaN or infinity.

    Notes
    -----
    O(n^3) at worst, usually far less; O(n^2) memory.

    References
    ----------
    D. F. Crouse (2016), On implementing 2D rectangular assignment algorithms, doi:10.1109/TAES.2016.140952.

    Examples
    --------
    >>> solve([[4.0, 1.0], [2.0, 3.0]]).tolist()
    [1, 0]
    """
    if not is_tensor(cost):
        cost = finite_array("cost", cost, ndim=2)
    elif cost.ndim != 2:
        raise ValueError(f"cost must have 2 axes, got shape {tuple(cost.shape)}; reshape it")
    return batched(cost[None], backend=backend)[0]


def batched(costs: Any, *, backend: str = "auto") -> Any:
    """Solve several assignment problems of one size.

    Parameters
    ----------
    costs : float array or tensor, shape (b, n, n)
        One cost matrix a problem: source r (row) at position i (column), finite.
    backend : {"auto", "cpu", "triton", "reference"}
        Implementation; "auto" takes Triton for CUDA tensors and the CPU path for the rest.

    Returns
    -------
    int64 array, shape (b, n)
        Source at each position of each problem; for a tensor a tensor on its device.

    Raises
    ------
    ValueError
        If the matrices are not square or hold NaN or infinity.

    Notes
    -----
    One problem after the other, so results do not depend on the batch.

    Examples
    --------
    >>> batched([[[4.0, 1.0], [2.0, 3.0]], [[0.0, 1.0], [1.0, 0.0]]]).tolist()
    [[1, 0], [0, 1]]
    """
    backend, path = implementation(__name__, backend, costs)
    if backend == "triton":
        return path.batched(costs)
    array = finite_array("costs", costs, ndim=3)
    if array.shape[1] != array.shape[2]:
        raise ValueError(f"costs must be square, got shape {array.shape}; pad with constant rows or columns")
    return like(path.batched(array), costs)
