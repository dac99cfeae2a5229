"""What a flow or a descent returns."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FlowTrajectory"]

Array = NDArray[np.float64]

TIE = 1e-9
"""Modes tie where their levels, or their arrival times, differ by less than this share."""


@dataclasses.dataclass(frozen=True, eq=False)
class FlowTrajectory(Result):
    """Path of the factors of ``W = B A`` on the way to a target, seen through singular values.

    Modes are the singular values of the product in sorted order, largest first, numbered from 0; they are not
    tracked through crossings.

    Parameters
    ----------
    t : ndarray of float64, shape (T,)
        Times of the records; for a descent the sum of the step sizes so far.
    singular_values : ndarray of float64, shape (T, k)
        Singular values of BA, descending, ``k = min(m, n, r)``.
    loss : ndarray of float64, shape (T,)
        ``1/2 ||Y - BA||^2 + ridge/2 (||A||^2 + ||B||^2)``, Frobenius norms.
    factor_norms : ndarray of float64, shape (T, 2)
        Largest singular values of B and of A.
    arrival_times : ndarray of float64, shape (k,)
        First time at which mode i is at or above `levels` [i]; NaN where that does not happen or where the
        level is NaN. Root-found in a flow, interpolated linearly inside a step in a descent.
    alignment : ndarray of float64, shape (T, k)
        ``|u_i' u_hat_i|`` of the left singular vectors of Y and BA, in [0, 1]. Where sigma_i repeats, the
        length of u_hat_i's projection on the whole singular space; NaN where ``sigma_i = 0`` or the product
        has rank below i + 1.
    B, A : ndarray of float64, shapes (m, r) and (r, n)
        Factors at the end.
    nfev : int
        Evaluations of the gradient.
    status : int
        0: reached its end; -1: stopped before, see `message`.
    message : str
        What the integrator or the descent has to say.
    sigma : ndarray of float64, shape (k,)
        Largest singular values of the target.
    levels : ndarray of float64, shape (k,)
        ``fraction (sigma_i - ridge)``; NaN where that is not positive.
    best_loss : float
        Smallest loss of any factors of this rank.
    kind : str
        Which flow, or which optimiser.
    smoothing, ridge, fraction : float
        As passed.
    arrival_steps : ndarray of int64, shape (k,), or None
        First step after which a mode is at its level, -1 where there is none; None for a flow.
    options : dict
        Further settings of the run.
    B_path, A_path : ndarray of float64, shapes (T, m, r) and (T, r, n), or None
        Factors at the records, where they were asked for.

    Examples
    --------
    >>> from porism.sims.spectral_flow import aligned_init, simulate_flow
    >>> Y = np.diag([4.0, 1.0])
    >>> flow = simulate_flow(Y, *aligned_init(Y, 0.01, 0.01, seed=0), smoothing=0.01, t_end=3.0)
    >>> flow.arrival_order, flow.status
    (((1,), (0,)), 0)
    """

    t: Array
    singular_values: Array
    loss: Array
    factor_norms: Array
    arrival_times: Array
    alignment: Array
    B: Array
    A: Array
    nfev: int
    status: int
    message: str
    sigma: Array
    levels: Array
    best_loss: float
    kind: str
    smoothing: float = 0.0
    ridge: float = 0.0
    fraction: float = 0.99
    arrival_steps: NDArray[np.int64] | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    B_path: Array | None = None
    A_path: Array | None = None

    @property
    def arrival_order(self) -> tuple[tuple[int, ...], ...]:
        """Modes in order of arrival, those that tie in one group; a mode that did not arrive is left out.

        Neighbours tie if they arrive at the same time or have the same level: of two equal singular values
        the sorted order would always call the same one first.
        """
        groups: list[list[int]] = []
        times, levels = self.arrival_times, self.levels
        arrived = np.flatnonzero(np.isfinite(times))
        for mode in arrived[np.argsort(times[arrived], kind="stable")].tolist():
            last = groups[-1][-1] if groups else None
            if last is not None and (_close(times[last], times[mode]) or _close(levels[last], levels[mode])):
                groups[-1].append(mode)
            else:
                groups.append([mode])
        return tuple(tuple(sorted(group)) for group in groups)

    @property
    def excess_loss(self) -> Array:
        """``loss - best_loss``; below rounding of the loss it may be slightly negative."""
        return self.loss - self.best_loss

    def to_frame(self) -> Any:
        """Show the singular values as a long pandas table.

        Returns
        -------
        DataFrame
            Columns t, mode (from 0) and singular_value, ``T k`` rows, record by record.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        records, modes = self.singular_values.shape
        return pandas.DataFrame(
            {
                "t": np.repeat(self.t, modes),
                "mode": np.tile(np.arange(modes), records),
                "singular_value": self.singular_values.reshape(-1),
            }
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the square roots of the singular values against time, with targets and arrivals.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        Axes
            One line a mode, a dashed guide at ``sqrt(sigma_i - ridge)``, a dot at each arrival.
        """
        from porism.sims.drawing import GUIDE, canvas
        from porism.sims.style import COLORS

        with canvas(ax) as axes:
            for mode, values in enumerate(self.singular_values.T):
                color = COLORS[mode % len(COLORS)]
                axes.plot(self.t, np.sqrt(values), color=color, label=f"mode {mode}")
                if np.isfinite(self.levels[mode]):
                    axes.axhline(np.sqrt(self.sigma[mode] - self.ridge), **GUIDE)
                if np.isfinite(self.arrival_times[mode]):
                    axes.plot(self.arrival_times[mode], np.sqrt(self.levels[mode]), "o", color=color)
            axes.set(xlabel="time", ylabel="square root of singular value", title=self.kind)
            axes.legend()
        return axes


def _close(x: float, y: float) -> bool:
    return abs(x - y) <= TIE * max(abs(x), abs(y))
