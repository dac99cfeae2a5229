"""How many directions the hidden states of each layer use."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from porism.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["HiddenRanks"]


@dataclass(frozen=True, eq=False)
class HiddenRanks(Result):
    """Effective ranks of the hidden states after each layer, over all real tokens.

    With ``p = eig(M) / tr(M)``, ``exp(-sum(p log p))`` of the second moment and of the covariance.

    Parameters
    ----------
    layer : str array, shape (L,)
        Names: what the first block reads, as "input", then the output of each block.
    dim : int64 array, shape (L,)
        Width d.
    effective_rank : float64 array, shape (L,)
        Of the second moment ``sum x x'``, in [1, d].
    centred_rank : float64 array, shape (L,)
        Of the covariance, 0 where all states are equal.
    participation_ratio : float64 array, shape (L,)
        ``tr(C)^2 / |C|_F^2`` of the covariance.
    mean_share : float64 array, shape (L,)
        Share of the energy that sits in the mean, in [0, 1].
    n_tokens : int
        Tokens seen.
    sketched : bool
        Whether states were projected to fewer dimensions: ranks are then biased low.

    Notes
    -----
    Where `mean_share` is near 1 the first rank speaks of the mean alone; look at the second one.

    Examples
    --------
    >>> one = np.ones(1)
    >>> HiddenRanks(np.array(["input"]), np.array([4]), one, 3 * one, 2 * one, one / 2, 9, False).centred_rank
    array([3.])
    """

    layer: NDArray[np.str_]
    dim: NDArray[np.int64]
    effective_rank: NDArray[np.float64]
    centred_rank: NDArray[np.float64]
    participation_ratio: NDArray[np.float64]
    mean_share: NDArray[np.float64]
    n_tokens: int
    sketched: bool

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Ranks against depth.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from porism.sims.drawing import LOOKS, canvas

        lines = {
            "second moment": self.effective_rank,
            "covariance": self.centred_rank,
            "participation ratio": self.participation_ratio,
        }
        with canvas(ax) as axes:
            for (colour, marker, dash), (label, values) in zip(LOOKS, lines.items(), strict=False):
                axes.plot(range(len(values)), values, color=colour, marker=marker, ls=dash, label=label)
            axes.set(xlabel="blocks passed", ylabel="effective rank", ylim=(0, None))
            axes.set_title(f"{self.n_tokens} tokens in {int(self.dim.max())} dimensions")
            axes.legend(fontsize=8)
            return axes
