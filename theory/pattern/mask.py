"""The mask: where the mass of a reordered matrix should lie, and its symmetries."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import one_of
from porism.results import Result
from porism.theory.pattern._orders import permutation

__all__ = ["Mask"]


@dataclass(frozen=True, eq=False)
class Mask(Result):
    """Weights S in [0, 1]: 1 where mass is free, 0 where it counts in full.

    A cell of weight s costs (1 - s)² per unit of mass. Two masks are equal when name, parameters and every
    weight are.

    Parameters
    ----------
    S : array_like (m, n)
        Weights, rows and columns in target order; copied, and read-only afterwards.
    name : str, default "custom"
        Family of the mask; the constructors of `porism.theory.pattern.masks` fill it in.
    params : dict, optional
        Parameters of the family.

    Raises
    ------
    TypeError
        If S does not hold real numbers.
    ValueError
        If S is not 2-D, is empty, or has a value outside [0, 1] or NaN.

    Examples
    --------
    >>> Mask([[1, 0.5], [0, 1]]).penalty
    array([[0.  , 0.25],
           [1.  , 0.  ]])
    """

    S: NDArray[np.float64]
    name: str = "custom"
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        S: Any = self.S
        if np.ma.is_masked(S) and S.dtype.kind in "biuf":
            S = S.astype(np.float64).filled(np.nan)
        try:
            S = np.array(S)
        except ValueError:
            raise ValueError("mask must be 2-D, got rows of unequal length; pad or cut them") from None
        if S.dtype.kind not in "biuf":
            raise TypeError(f"mask must hold real numbers, got dtype {S.dtype}; convert it to float first")
        if S.ndim != 2 or not S.size:
            raise ValueError(f"mask must be 2-D and not empty, got shape {S.shape}; reshape it")
        if not ((S >= 0) & (S <= 1)).all():
            i, j = (int(k) for k in np.argwhere(~((S >= 0) & (S <= 1)))[0])
            raise ValueError(f"mask values must lie in [0, 1], got {S[i, j]} at [{i}, {j}]; rescale the mask")
        S = np.ascontiguousarray(S, dtype=np.float64) + 0.0  # -0.0 and 0.0 are the same weight
        S.flags.writeable = False
        object.__setattr__(self, "S", S)
        object.__setattr__(self, "params", dict(self.params))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mask):
            return NotImplemented
        return (self.name, self.params) == (other.name, other.params) and np.array_equal(self.S, other.S)

    def __hash__(self) -> int:
        return hash((self.name, self.S.shape, self.S.tobytes()))

    def __repr__(self) -> str:
        shown = "".join(f", {key}={value}" for key, value in self.params.items())
        return f"Mask({self.name}, shape={self.S.shape}{shown})"

    @property
    def label(self) -> str:
        """Short name, without what its shape says already."""
        params = {key: value for key, value in self.params.items() if key not in ("m", "n")}
        if self.name == "block_diagonal" and params.get("row_sizes") == params.get("col_sizes"):
            params = {"sizes": params["row_sizes"]}
        if self.name in ("toeplitz", "vertical_slash") and not params.get("causal"):
            params.pop("causal", None)
        shown = ", ".join(f"{key}={_brief(value)}" for key, value in params.items())
        return f"{self.name}({shown})" if shown else self.name

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers (m, n) of rows and columns."""
        return self.S.shape

    @cached_property
    def penalty(self) -> NDArray[np.float64]:
        """Cost (1 - S)² of a unit of mass in each cell (m, n)."""
        W = (1.0 - self.S) ** 2
        W.flags.writeable = False
        return W

    @cached_property
    def density(self) -> float:
        """Mean weight |S| / (m n); for a 0/1 mask the share of cells that are free."""
        return float(self.S.mean())

    @cached_property
    def binary(self) -> bool:
        """Whether all weights are 0 or 1."""
        return bool(((self.S == 0) | (self.S == 1)).all())

    @cached_property
    def row_classes(self) -> NDArray[np.intp]:
        """Class (m,) of each row: equal rows share a class, numbered in order of appearance."""
        return _classes(self.S)

    @cached_property
    def col_classes(self) -> NDArray[np.intp]:
        """Class (n,) of each column: equal columns share a class, numbered in order of appearance."""
        return _classes(self.S.T)

    def aut_order(self, mode: str = "independent") -> int | None:
        """Count the reorderings that leave the mask as it is.

        The number of pairs (g, h) with ``S[g][:, h] == S`` (g = h in mode "common"). The number of optimal
        orders of any matrix is a multiple of it.

        Parameters
        ----------
        mode : {"independent", "common", "none"}
            Which pairs are counted.

        Returns
        -------
        int or None
            The order of the group; None where no closed form is known and counting would take too long.

        Raises
        ------
        ValueError
            If mode is "common" and the mask is not square.

        Notes
        -----
        Weights are compared exactly. Without a closed form a stabiliser chain is searched with colour
        refinement: milliseconds up to 50 rows, seconds near 300, and None beyond a fixed amount of work.
        """
        from porism.theory.pattern._automorphisms import aut_order

        one_of("mode", mode, ("independent", "common", "none"))
        if mode == "none":
            return 1
        if mode == "common" and self.shape[0] != self.shape[1]:
            raise ValueError(f"mode='common' needs a square mask, got {self.shape}; use mode='independent'")
        return aut_order(self, mode)

    def is_automorphism(self, p: ArrayLike, q: ArrayLike | None = None) -> bool:
        """Test whether a reordering leaves the mask as it is: ``S[p][:, q] == S``.

        Parameters
        ----------
        p : array_like (m,)
            Permutation of 0..m-1.
        q : array_like (n,), optional
            Permutation of 0..n-1; by default p, as in mode "common".

        Returns
        -------
        bool
            The answer; weights are compared exactly.

        Raises
        ------
        ValueError
            If p or q is not a permutation of the right length.
        """
        m, n = self.S.shape
        rows, columns = permutation("p", p, m), permutation("q", p if q is None else q, n)
        return np.array_equal(self.S[np.ix_(rows, columns)], self.S)

    def informative(self, A: Any, mode: str = "common", mass: str = "squared") -> bool:
        """Tell whether the order matters: False if all orders put the same mass outside.

        Parameters
        ----------
        A : array_like, SciPy sparse or networkx graph, shape (m, n)
            The matrix to be reordered.
        mode : {"independent", "common", "none"}
            Which orders are compared; with "none" only the masks of all ones or all zeros are uninformative.
        mass : {"squared", "abs"}
            What is summed.

        Returns
        -------
        bool
            False if the distance does not depend on the order, up to 1e-12 of the mass.

        Raises
        ------
        ValueError
            As `pattern_distance` does.

        Notes
        -----
        The test is exact, O(m n): permutations act on means, row and column sums, and interactions without
        mixing them, so that the value is constant iff every part of W meets a vanishing part of B.
        """
        from porism.theory.pattern._problem import prepare, uninformative

        return not uninformative(prepare(A, self, mode, mass))


def _classes(rows: NDArray[np.float64]) -> NDArray[np.intp]:
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(row.tobytes(), len(seen)) for row in rows], dtype=np.intp)


def _brief(value: Any) -> str:
    if isinstance(value, tuple):
        text = "+".join(map(str, value))
        return text if len(text) <= 24 else f"{len(value)} values"
    return str(value)
