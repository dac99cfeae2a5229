"""Where a principal start pays: the gain against d/n, difficulty, and the length of training."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of, positive, require
from porism.results import Result
from porism.sims.alignment._arms import accuracies, even, paired_runs, standard_error
from porism.sims.alignment.fewshot import FEWSHOT_OPTIMIZERS
from porism.sims.alignment.spiked import sample_class_task
from porism.theory.linalg import Frame, principal_angles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DIFFICULTY", "LENGTH", "SHAPE", "RegimeSweep", "sweep_regime"]

SHAPE = tuple(
    (d, n, 6.0, 3e-4) for d, n in ((768, 16), (768, 32), (768, 64), (768, 128), (768, 512), (64, 512))
)
"""Cells (d, n, ell, lr) that vary d and n."""

DIFFICULTY = tuple((768, 32, ell, 3e-4) for ell in (0.5, 2.0, 6.0, 15.0, 40.0))
"""Cells that vary the strength of the class direction."""

LENGTH = tuple((768, 32, 6.0, lr) for lr in (1e-4, 3e-4, 1e-3, 3e-3))
"""Cells that vary the learning rate, and with it ``tau = lr T sqrt(d)``."""


@dataclasses.dataclass(frozen=True, eq=False)
class RegimeSweep(Result):
    """Captured share and gain of a principal start, one entry a cell, mean and standard error over draws.

    Parameters
    ----------
    d, n : int64 arrays of shape (cells,)
        Coordinates and training rows.
    ell, lr, tau : float64 arrays of shape (cells,)
        Strength of the class direction, step size, and ``lr T sqrt(d)``.
    captured, captured_se : float64 arrays of shape (cells,)
        True captured share of the estimated subspace.
    steps : int64 array of shape (3,)
        1, T // 4 and T.
    gain, gain_se : float64 arrays of shape (cells, 3)
        Population accuracy from the principal start minus that from the random one, paired.
    random : float64 array of shape (cells, 3)
        Population accuracy from the random orthonormal start.
    initial : float64 array of shape (cells,)
        Share of A's final row space (from the principal start) that lies in the initial one, at step T.
    r, draws : int
        Rank, and draws a cell.
    optimizer : str
        What trained.

    Examples
    --------
    >>> sweep = sweep_regime([(32, 16, 6.0, 3e-4)], draws=2, steps=8, r=2, rng=0)
    >>> sweep.gain.shape, sweep.gamma.tolist()
    ((1, 3), [2.0])
    """

    d: NDArray[np.int64]
    n: NDArray[np.int64]
    ell: NDArray[np.float64]
    lr: NDArray[np.float64]
    tau: NDArray[np.float64]
    captured: NDArray[np.float64]
    captured_se: NDArray[np.float64]
    steps: NDArray[np.int64]
    gain: NDArray[np.float64]
    gain_se: NDArray[np.float64]
    random: NDArray[np.float64]
    initial: NDArray[np.float64]
    r: int
    draws: int
    optimizer: str

    @property
    def gamma(self) -> NDArray[np.float64]:
        """Ratio d / n of every cell."""
        return self.d / self.n

    def to_frame(self) -> Any:
        """One row a cell.

        Returns
        -------
        DataFrame
            Cell, captured share, and gain and standard error at each step.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        names = ("d", "n", "ell", "lr", "tau", "captured", "captured_se", "initial")
        columns = {name: getattr(self, name) for name in names}
        for j, step in enumerate(self.steps):
            columns |= {f"gain_{step}": self.gain[:, j], f"se_{step}": self.gain_se[:, j]}
        frame = pandas.DataFrame(columns)
        frame.attrs.update(r=self.r, draws=self.draws, optimizer=self.optimizer)
        return frame

    def plot(self, ax: "Axes | None" = None, against: str = "gamma") -> "Axes":
        """Draw the gain after one step and at the end, with bars of two standard errors.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default a new figure.
        against : {"gamma", "ell", "tau"}
            Horizontal axis, logarithmic.

        Returns
        -------
        Axes
            Two lines.
        """
        from porism.sims.drawing import GUIDE, canvas

        one_of("against", against, ("gamma", "ell", "tau"))
        at = getattr(self, against)
        order = np.argsort(at)
        label = {"gamma": "d / n", "ell": "strength ell", "tau": "lr T sqrt(d)"}[against]
        with canvas(ax) as axes:
            axes.axhline(0, **GUIDE)
            for j in (0, -1):
                axes.errorbar(
                    at[order],
                    self.gain[order, j],
                    2 * self.gain_se[order, j],
                    marker="o",
                    label=f"step {self.steps[j]}",
                )
            axes.set(xscale="log", xlabel=label, ylabel="gain in accuracy")
            axes.legend()
        return axes


def sweep_regime(
    cells: Iterable[tuple[int, int, float, float]] = SHAPE,
    *,
    draws: int = 12,
    r: int = 8,
    optimizer: str = "adam",
    steps: int = 60,
    rng: np.random.Generator | int | None = None,
    progress: bool = False,
) -> RegimeSweep:
    """Measure the gain of a principal start over a norm-matched random one, cell by cell.

    Two balanced classes in isotropic noise: the class direction is a spike of strength ell.

    Parameters
    ----------
    cells : iterable of (d, n, ell, lr)
        Coordinates, training rows (even), strength and step size; see `SHAPE`, `DIFFICULTY` and `LENGTH`.
    draws : int, default 12
        Populations a cell, >= 2.
    r : int, default 8
        Rank.
    optimizer : {"adam", "sgd", "momentum"}
        What trains.
    steps : int, default 60
        Number of steps T, >= 8.
    rng : Generator, int or None
        Source; each cell has a child of its own.
    progress : bool, default False
        Whether to show a bar.

    Returns
    -------
    RegimeSweep
        Captured shares and gains.

    Raises
    ------
    ValueError
        If an argument is out of range, or n odd.

    Notes
    -----
    The layer, head and scaling are those of `track_gains`. Time O(draws T n d r) a cell.

    Examples
    --------
    >>> sweep = sweep_regime([(48, 16, 8.0, 3e-4), (48, 64, 8.0, 3e-4)], draws=3, steps=8, r=2, rng=0)
    >>> bool(sweep.captured[1] > sweep.captured[0])
    True
    """
    from tqdm import tqdm

    listed = [
        (integer("d", d, 2), even("n", n, 4), positive("ell", ell), positive("lr", lr))
        for d, n, ell, lr in cells
    ]
    if not listed:
        raise ValueError("cells must be at least one (d, n, ell, lr), got none")
    draws, T = integer("draws", draws, 2), integer("steps", steps, 8)
    one_of("optimizer", optimizer, FEWSHOT_OPTIMIZERS)
    record = (0, 1, T // 4, T)
    rows: list[dict[str, Any]] = []
    streams = generator(rng).spawn(len(listed))
    bar = tqdm(listed, desc="regime", unit="cell", disable=not progress)
    for (d, n, ell, lr), stream in zip(bar, streams, strict=True):
        children = stream.spawn(draws)
        tasks = [sample_class_task(d, n // 2, 2, ell, random_state=child) for child in children]
        runs = paired_runs(
            tasks,
            r,
            ("orthonormal", "pca"),
            children,
            record=record,
            lr=lr,
            steps=T,
            optimizer=optimizer,
        )
        start = np.concatenate([path.a[0] for path in runs["pca"]])
        end = np.concatenate([path.a[-1] for path in runs["pca"]])
        angles = [principal_angles(a.T, Frame(b.T)).angles for a, b in zip(start, end, strict=True)]
        captured = np.array([task.captured(a) for task, a in zip(tasks, start, strict=True)])
        base = accuracies(tasks, runs["orthonormal"])[:, 1:]
        gain = accuracies(tasks, runs["pca"])[:, 1:] - base
        rows.append(
            {
                "d": d,
                "n": n,
                "ell": ell,
                "lr": lr,
                "tau": lr * T * d**0.5,
                "captured": captured.mean(),
                "captured_se": standard_error(captured),
                "gain": gain.mean(axis=0),
                "gain_se": standard_error(gain),
                "random": base.mean(axis=0),
                "initial": np.mean(np.cos(angles) ** 2),
            }
        )
    columns: dict[str, Any] = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return RegimeSweep(steps=np.array(record[1:]), r=r, draws=draws, optimizer=optimizer, **columns)
