"""How many positions each layer needs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.results import Result
from porism.theory.token_capacity import PositionChoice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LayerCapacity"]


@dataclass(frozen=True, eq=False)
class LayerCapacity(Result):
    """How many positions carry a gradient: for the model, and for each linear map watched.

    Parameters
    ----------
    choice : PositionChoice
        The whole: k, which positions, and the layer that decides.
    layers : tuple of str, length L
        Names of the linear maps.
    k : int64 array, shape (L,)
        Positions that each needs by itself; bins count with all of their positions.
    curves : float64 array, shape (L, P)
        Coverage by the first 1, 2, ... bins of ``choice.order``.
    eps, ridge : float
        Share of coverage that may be lost, and the relative ridge.
    sketch : int
        Dimensions that the inputs were projected to, 0 for none.

    Examples
    --------
    >>> one = np.array([[0, 1], [1, 2]])
    >>> choice = PositionChoice(1, np.array([0, 1]), np.array([0.95, 1.0]), "q", (), one, "end")
    >>> LayerCapacity(choice, ("q",), np.array([1]), choice.curve[None], 0.1, 0.01, 0).share
    0.5
    """

    choice: PositionChoice
    layers: tuple[str, ...]
    k: NDArray[np.int64]
    curves: NDArray[np.float64]
    eps: float
    ridge: float
    sketch: int = 0

    @property
    def share(self) -> float:
        """The model's k as a share of the longest row."""
        return self.choice.k / int(self.choice.bins[-1, 1])

    def to_frame(self) -> Any:
        """Coverage curves as a long pandas table.

        Returns
        -------
        DataFrame
            One row a layer and step: layer, k of the layer, step from 1, first and stop of the aligned
            positions that the step adds, positions taken so far, coverage.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        bins = self.choice.bins[self.choice.order]
        steps, taken = np.arange(1, len(bins) + 1), np.diff(bins, axis=1)[:, 0].cumsum()
        L, P = self.curves.shape
        columns = {"step": steps, "first": bins[:, 0], "stop": bins[:, 1], "positions": taken}
        frame = {
            "layer": np.repeat(np.array(self.layers, dtype=object), P),
            "k": np.repeat(self.k, P),
            **{name: np.tile(values, L) for name, values in columns.items()},
            "coverage": self.curves.ravel(),
        }
        return pandas.DataFrame(frame)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Coverage against the number of positions, one line a layer, the deciding one in colour.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from porism.sims.drawing import GUIDE, canvas
        from porism.sims.style import COLORS

        taken = np.diff(self.choice.bins, axis=1)[self.choice.order, 0].cumsum()
        with canvas(ax) as axes:
            for name, curve in zip(self.layers, self.curves, strict=True):
                if name != self.choice.layer:
                    axes.plot(taken, curve, color="0.6", linewidth=1)
            axes.plot(taken, self.choice.curve, color=COLORS[0], label=self.choice.layer)
            axes.axhline((1 - self.eps) * self.choice.curve[-1], **GUIDE)
            axes.axvline(self.choice.k, **GUIDE)
            kind = "last" if self.choice.align == "end" else "spread"
            axes.set(xlabel=f"{kind} positions taken", ylabel="coverage", title=f"k = {self.choice.k}")
            axes.legend(loc="lower right", fontsize=8)
            return axes
