"""What a pivot of the rank space changes in accuracy, paired over many tasks."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of, probability, require
from porism.results import Result
from porism.sims.alignment._arms import (
    CHUNK,
    accuracies,
    even,
    nuisance_spectrum,
    paired,
    stacked,
    standard_error,
)
from porism.sims.alignment.fewshot import FEWSHOT_OPTIMIZERS, LinearPivot, train_lora
from porism.sims.alignment.spiked import ClassTask, sample_class_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ARMS", "PivotComparison", "compare_pivots"]

Floats = NDArray[np.float64]

ARMS = ("orthonormal", "pca", "canonical_transport", "canonical_reset", "random_transport")
"""Starts and pivots that `compare_pivots` pairs; the last three start as "pca" does."""


@dataclasses.dataclass(frozen=True, eq=False)
class PivotComparison(Result):
    """Paired accuracies of starts and pivots over many tasks.

    Parameters
    ----------
    arms : tuple of str
        As in `ARMS`.
    accuracy : float64 array of shape (tasks, arms)
        Population accuracy after the last step.
    at : int
        Steps before the pivot.
    optimizer : str
        What trained.

    Examples
    --------
    >>> found = PivotComparison(("pca", "x"), np.array([[0.5, 0.6], [0.5, 0.8]]), 6, "adam")
    >>> [round(float(v), 6) for v in found.difference("x")]
    [0.2, 0.1]
    """

    arms: tuple[str, ...]
    accuracy: Floats
    at: int
    optimizer: str

    def difference(self, arm: str, base: str = "pca") -> tuple[float, float]:
        """Mean paired difference of an arm to another, with its standard error.

        Parameters
        ----------
        arm, base : str
            Two of `arms`.

        Returns
        -------
        mean, standard error : float
            Over tasks.
        """
        i, j = (self.arms.index(one_of("arm", name, self.arms)) for name in (arm, base))
        gap = self.accuracy[:, i] - self.accuracy[:, j]
        return float(gap.mean()), float(standard_error(gap))

    def to_frame(self) -> Any:
        """One row an arm.

        Returns
        -------
        DataFrame
            Mean accuracy and its standard error, paired difference to "pca" and its standard error, and the
            numbers of tasks won and lost against it.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        values = self.accuracy.T
        columns = {"arm": self.arms, "accuracy": values.mean(axis=1), "se": standard_error(values, axis=1)}
        return pandas.DataFrame(columns | paired(values, self.arms.index("pca")))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the paired difference of every pivot to "pca", with bars of two standard errors.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        Axes
            One point a pivot.
        """
        from porism.sims.drawing import GUIDE, canvas

        names = [arm for arm in self.arms if arm not in ("orthonormal", "pca")]
        means, errors = np.array([self.difference(name) for name in names]).T
        with canvas(ax) as axes:
            axes.axvline(0, **GUIDE)
            axes.errorbar(means, np.arange(len(names)), xerr=2 * errors, fmt="o")
            axes.set_yticks(np.arange(len(names)), [name.replace("_", ", ") for name in names])
            axes.set(xlabel="accuracy less that without a pivot", ylim=(-0.6, len(names) - 0.4))
        return axes


def compare_pivots(
    *,
    tasks: int = 132,
    d: int = 768,
    n: int = 32,
    r: int = 8,
    delta: float = 6.0,
    lr: float = 3e-4,
    steps: int = 60,
    at: float = 0.1,
    optimizer: str = "adam",
    rng: np.random.Generator | int | None = None,
    progress: bool = False,
) -> PivotComparison:
    """Measure what a pivot changes in accuracy, paired over tasks of the controlled kind.

    Parameters
    ----------
    tasks : int, default 132
        Number of populations, >= 2, one draw each.
    d, n, r : int, default 768, 32 and 8
        Coordinates, training rows (even) and rank.
    delta : float, default 6
        ``tr S / sigma^2``.
    lr : float, default 3e-4
        Step size, > 0.
    steps : int, default 60
        Number of steps T.
    at : float, default 0.1
        Place of the pivot as a share of T, in (0, 1).
    optimizer : {"adam", "sgd", "momentum"}
        What trains.
    rng : Generator, int or None
        Source; every task has a child of its own.
    progress : bool, default False
        Whether to show a bar.

    Returns
    -------
    PivotComparison
        Accuracy of every arm on every task.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    The world is that of `track_gains`. About 10 s for 132 tasks at the default sizes.

    Examples
    --------
    >>> found = compare_pivots(tasks=3, d=24, n=8, r=2, steps=10, rng=0)
    >>> found.accuracy.shape
    (3, 5)
    """
    from tqdm import tqdm

    tasks, n, T = integer("tasks", tasks, 2), even("n", n), integer("steps", steps, 2)
    one_of("optimizer", optimizer, FEWSHOT_OPTIMIZERS)
    when = min(max(1, round(probability("at", at, open=True) * T)), T - 1)
    children = generator(rng).spawn(tasks)
    bar = tqdm(total=tasks * len(ARMS), desc="pivot", unit="run", disable=not progress)
    columns = []
    with bar:
        for i in range(0, tasks, CHUNK):
            part = children[i : i + CHUNK]
            drawn = [
                sample_class_task(d, n // 2, 2, delta, nuisance_spectrum(c), random_state=c) for c in part
            ]
            columns.append(_compare(drawn, part, r, when, bar, optimizer, lr, T))
    return PivotComparison(ARMS, np.concatenate(columns), when, optimizer)


def _compare(
    drawn: list[ClassTask],
    rngs: list[np.random.Generator],
    r: int,
    when: int,
    bar: Any,
    optimizer: str,
    lr: float,
    steps: int,
) -> Floats:
    x, y, heads, starts = stacked(drawn, r, ("orthonormal", "pca"), rngs)
    seed, columns = int(rngs[0].integers(2**31)), []
    for arm in ARMS:
        rotation, _, rule = arm.partition("_")
        pivot = LinearPivot(when, rotation, rule, seed) if rule else None
        path = train_lora(
            x,
            y,
            starts["pca" if rule else arm],
            heads,
            optimizer=optimizer,
            lr=lr,
            steps=steps,
            record=(steps,),
            pivot=pivot,
        )
        columns.append(accuracies(drawn, [path])[:, 0])
        bar.update(len(drawn))
    return np.array(columns).T
