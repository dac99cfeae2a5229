"""What every function of the module starts from: checked input, masses that sum to one, penalties."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from porism.checks import one_of
from porism.theory.pattern._orders import MAX_DENSE, adjacency
from porism.theory.pattern._parts import NEGLIGIBLE, constant
from porism.theory.pattern.mask import Mask

__all__ = ["Problem", "prepare", "real_matrix", "uninformative"]

ORDERS = ("independent", "common", "none")
MASSES = ("squared", "abs")


@dataclass(frozen=True)
class Problem:
    """Minimise ``sum(W * B[p][:, q])`` over the orders that `order` admits.

    `B` is float64 (m, n), nonnegative, and sums to 1, so that tolerances are absolute. `W` is the penalty of
    the mask. `sparse` is B as a CSR matrix where the input was sparse.
    """

    B: NDArray[np.float64]
    W: NDArray[np.float64]
    order: str
    shape: tuple[int, int]
    mask: Mask
    mass: str
    sparse: Any = None

    def value(self, p: NDArray[np.intp], q: NDArray[np.intp]) -> float:
        """Mass outside the mask when source row p[i] stands at position i and source column q[j] at j."""
        return float(np.einsum("ij,ij->", self.W, self.B[np.ix_(p, q)]))


def prepare(A: Any, mask: Any, order: str, mass: str = "squared") -> Problem:
    """Check the input and turn it into masses and penalties; A is never modified; sparse or a graph, too."""
    one_of("order", order, ORDERS)
    one_of("mass", mass, MASSES)
    mask = mask if isinstance(mask, Mask) else Mask(mask)
    A = real_matrix(A)
    m, n = A.shape
    _same_shape(mask, m, n)
    if order == "common" and m != n:
        raise ValueError(f"order='common' needs a square matrix, got {(m, n)}; use order='independent'")
    sparse = hasattr(A, "tocsr")
    a = np.abs(A.data if sparse else A)  # a copy
    top = float(a.max(initial=0.0))
    if top == 0:
        raise ValueError(f"A has zero mass: the distance is undefined; got {m} x {n} zeros")
    a /= top  # first: the square of an entry below 1e-162 would vanish, that of one above 1e154 overflow
    if mass == "squared":
        a *= a
    a /= a.sum()
    stored = None
    if sparse:
        stored = A  # a copy already
        stored.data = a
        stored.eliminate_zeros()
        a = stored.toarray()
    return Problem(np.ascontiguousarray(a), mask.penalty, order, (m, n), mask, mass, stored)


def uninformative(problem: Problem) -> str:
    """Why every order has the same value, or "" if orders differ (or, with order "none", none is chosen)."""
    W, B = problem.W, problem.B
    if not W.any():
        return "the mask keeps everything: the mass outside is 0 for every matrix"
    if (W == 1).all():
        return "the mask keeps nothing: the mass outside is 1 for every matrix"
    if problem.order == "none" or not constant(W, B, problem.order):
        return ""
    if problem.order == "common" and _flat(W):
        return "the mask treats all off-diagonal cells alike: a common order moves none onto the diagonal"
    if problem.order == "common" and _flat(W + W.T):
        return "|A| is symmetric and W + W^T is constant: the mass outside is the same for every order"
    return "A gives this mask one value for all orders: no order is better than another"


def _flat(W: NDArray[np.float64]) -> bool:
    """Whether the diagonal is constant, and everything off it."""
    off = W[~np.eye(len(W), dtype=bool)]
    return bool(np.ptp(np.diag(W)) <= NEGLIGIBLE and (not off.size or np.ptp(off) <= NEGLIGIBLE))


def real_matrix(A: Any) -> Any:
    """A, or the adjacency matrix of a graph A, as a finite float64 array, or as a float64 CSR copy."""
    A = _real(adjacency(A))
    bad = np.flatnonzero(~np.isfinite(A.data if hasattr(A, "tocsr") else A))  # both are row by row
    if not bad.size:
        return A
    if hasattr(A, "tocsr"):
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))[bad]
        first = int(np.lexsort((A.indices[bad], rows))[0])
        i, j = int(rows[first]), int(A.indices[bad[first]])
    else:
        i, j = divmod(int(bad[0]), A.shape[1])
    raise ValueError(
        f"A contains NaN or infinity at [{i}, {j}] ({bad.size} such entries); drop or replace them"
    )


def _real(A: Any) -> Any:
    from scipy import sparse

    if sparse.issparse(A):
        A = cast(Any, A)
        _kind(A.dtype)
        if len(A.shape) != 2:
            raise ValueError(f"A must be 2-D, got shape {A.shape}; reshape it")
        cells = A.shape[0] * A.shape[1]
        if cells > MAX_DENSE:
            raise MemoryError(
                f"A is sparse with {A.shape[0]} x {A.shape[1]} = {cells} cells, more than {MAX_DENSE}: "
                f"written out it needs {8 * cells / 2**30:.1f} GiB; take a submatrix"
            )
        if A.dtype.kind == "b":
            A = A.tocsr()  # True twice is True
        A = A.astype(np.float64, copy=True).tocsr(copy=True)  # float before duplicates are summed
        A.sum_duplicates()
        return A
    if isinstance(A, np.ma.MaskedArray):
        _kind(A.dtype)
        A = np.ma.filled(A.astype(np.float64), np.nan)
    try:
        A = np.asarray(A)
    except ValueError:
        raise ValueError("A must be 2-D, got rows of unequal length; pad or cut them") from None
    _kind(A.dtype)
    if A.ndim != 2:
        raise ValueError(f"A must be 2-D, got shape {A.shape}; reshape it")
    with np.errstate(over="ignore"):  # long doubles beyond float64 are reported as infinite
        return A.astype(np.float64, copy=False)


def _kind(dtype: Any) -> None:
    if dtype.kind == "c":
        raise TypeError(f"complex matrices are not supported: pass abs(A); got dtype {dtype}")
    if dtype.kind not in "biuf":
        raise TypeError(f"A must hold real numbers, got dtype {dtype}; convert it to float first")


def _same_shape(mask: Mask, m: int, n: int) -> None:
    for axis, covered, size in zip(("row", "column"), mask.shape, (m, n), strict=True):
        if mask.name == "block_diagonal" and covered != size:
            raise ValueError(
                f"{axis} sizes sum to {covered}, but A has {size} {axis}s; change the block sizes"
            )
    if mask.shape != (m, n):
        raise ValueError(f"mask shape {mask.shape} does not match A shape {(m, n)}; build it for that shape")
