"""What a solver found: the orders, the mass outside, and how far it may be from the best."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.results import Result
from porism.theory.pattern._orders import adjacency, reordered
from porism.theory.pattern.mask import Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PatternFit", "Placement"]

CERTIFIED = 1e-9
"""Largest gap between value and lower bound that counts as none, in units of the total mass."""


class Placement(Result):
    """Orders of rows and columns under a mask: what a fit and a planted truth have in common.

    Subclasses have the fields `row_order`, `col_order` and `mask`.
    """

    row_order: NDArray[np.int64]
    col_order: NDArray[np.int64]
    mask: Mask

    def source_mask(self) -> NDArray[np.float64]:
        """Put the mask into the coordinates of the matrix as it was given.

        Returns
        -------
        float64 array, shape (m, n)
            M with ``M[row_order[i], col_order[j]] = S[i, j]``.
        """
        out = np.empty(self.mask.shape)
        out[np.ix_(self.row_order, self.col_order)] = self.mask.S
        return out

    def equivalent(self, other: "Placement") -> bool:
        """Whether both put the same source cells inside the mask.

        Parameters
        ----------
        other : Placement
            Orders for the same matrix.

        Returns
        -------
        bool
            True if the orders differ by a symmetry of the mask only.
        """
        return bool(np.array_equal(self.source_mask(), other.source_mask()))

    def labels(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Class of each source row and column under the mask: block labels for block masks.

        Returns
        -------
        (int64 array, int64 array), of shapes (m,) and (n,)
            Equal rows (columns) of the mask share a label; blocks are numbered in target order.
        """
        rows, columns = np.empty_like(self.row_order), np.empty_like(self.col_order)
        rows[self.row_order], columns[self.col_order] = self.mask.row_classes, self.mask.col_classes
        return rows, columns


@dataclass(frozen=True, eq=False)
class PatternFit(Placement):
    """Orders of rows and columns that bring a matrix close to a mask, with a certificate.

    Parameters
    ----------
    row_order, col_order : int64 array, shapes (m,) and (n,)
        Source row and source column at each position.
    mass_outside : float
        d², share of the mass of A outside the mask after reordering, in [0, 1].
    lower_bound : float
        No orders have less mass outside: the largest of `bounds` (with order "none", the value itself).
    exact : bool
        Whether the value is the minimum by enumeration or because the mask has a closed solution.
    bounds : dict
        Each lower bound asked for, as a share of the mass.
    history : tuple of float
        Strictly falling values of the search, the last one equal to `mass_outside`.
    n_sweeps : int
        Sweeps (independent) or accepted improvements (common) that led to the result.
    start : str
        Start that the result came from.
    starts : tuple of (str, float)
        Value that each start reached.
    order : {"independent", "common", "none"}
        Which orders were free.
    mass : {"squared", "abs"}
        Mass of an entry.
    mask : Mask
        The mask.
    runtime : float
        Seconds.
    seed : int or None
        Seed of the random starts, None where a generator was passed or nothing.
    status : {"ok", "time_budget"}
        Whether the search ended by itself.
    reason : str
        Why the value says nothing about A, empty where it does.

    Notes
    -----
    Two fits are equally good readings of A if both put the same cells inside the mask: compare with
    `equivalent`, never by indices.

    References
    ----------
    PD-1, PD-9 and PD-10 (reconstruction).

    Examples
    --------
    >>> from porism.theory.pattern import masks, pattern_distance
    >>> ring = [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    >>> fit = pattern_distance(ring, masks.band(4, 1), order="common")
    >>> round(fit.mass_outside * 8), fit.certified, fit.exact
    (2, True, True)
    """

    row_order: NDArray[np.int64]
    col_order: NDArray[np.int64]
    mass_outside: float
    lower_bound: float
    exact: bool
    bounds: dict[str, float]
    history: tuple[float, ...]
    n_sweeps: int
    start: str
    starts: tuple[tuple[str, float], ...]
    order: str
    mass: str
    mask: Mask
    runtime: float
    seed: int | None = None
    status: str = "ok"
    reason: str = ""

    @property
    def distance(self) -> float:
        """d, the root of the mass outside."""
        return math.sqrt(self.mass_outside)

    @property
    def gap(self) -> float:
        """What a better order could gain at most, as a share of the mass."""
        return max(self.mass_outside - self.lower_bound, 0.0)

    @property
    def certified(self) -> bool:
        """Whether the lower bound is reached, up to 1e-9 of the mass."""
        return self.gap <= CERTIFIED

    def reorder(self, A: Any) -> Any:
        """Put a matrix into the order found.

        Parameters
        ----------
        A : array_like, SciPy sparse or networkx graph, shape (m, n)
            The matrix that was fitted, or another one of its shape.

        Returns
        -------
        array or sparse matrix, shape (m, n)
            ``A[row_order][:, col_order]``, a copy.

        Raises
        ------
        ValueError
            If the shape is another one.
        """
        A = adjacency(A)
        A = A if hasattr(A, "tocsr") else np.asarray(A)
        if A.shape != self.mask.shape:
            raise ValueError(
                f"A must have shape {self.mask.shape}, got {A.shape}; reorder a matrix of the size fitted"
            )
        return reordered(A, self.row_order, self.col_order)

    def summary(self) -> str:
        """Say in one paragraph what was found and what it is worth.

        Returns
        -------
        str
            Text of a few lines.
        """
        m, n = self.mask.shape
        lines = [
            f"{self.mask.name} mask on {m} x {n}, order {self.order}, {self.mass} mass",
            f"mass outside {self.mass_outside:.6g}, distance {self.distance:.6g}",
            f"lower bound {self.lower_bound:.6g}, gap {self.gap:.3g}: {self._standing()}",
            f"from start {self.start!r} in {self.n_sweeps} sweeps, {self.runtime:.3g} s",
        ]
        if self.status != "ok":
            lines.append("the search was stopped by its time budget")
        if self.reason:
            lines.append(f"the value is no finding: {self.reason}")
        return "\n".join(lines)

    def _standing(self) -> str:
        if self.exact:
            return "the minimum (exact)"
        return "the minimum (certified by the bound)" if self.certified else "a better order is not excluded"

    def plot(self, ax: "Axes | None" = None, A: Any = None) -> "Axes":
        """Draw the reordered matrix with the outline of the mask, or, without a matrix, the search.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.
        A : array_like, SciPy sparse or networkx graph, shape (m, n), optional
            The matrix that was fitted. Without it the values along the search are drawn.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        title = f"{self.mask.name}: mass outside {self.mass_outside:.3g}"
        if A is None:
            ax.plot(range(len(self.history)), self.history, "o-", color="#0072B2", ms=3, label="search")
            ax.axhline(self.lower_bound, color="#D55E00", ls="--", label="lower bound")
            ax.set(title=title, xlabel="step", ylabel="mass outside (share)")
            ax.legend()
            return ax
        A = self.reorder(A)
        m, n = self.mask.shape
        ax.imshow(np.abs(A.toarray() if hasattr(A, "toarray") else A), cmap="Greys", aspect="auto")
        inside = self.mask.S >= 0.5
        if inside.any() and not inside.all():
            fine = np.repeat(np.repeat(inside, 8, axis=0), 8, axis=1)
            ax.contour(fine, levels=[0.5], colors="#D55E00", extent=(-0.5, n - 0.5, -0.5, m - 0.5))
        ax.set(title=title, xlabel="column position", ylabel="row position")
        return ax
