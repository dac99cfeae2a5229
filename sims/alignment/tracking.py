"""Rho against the gain that a principal start buys: tasks of one difficulty, and tasks of many."""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of, require
from porism.errors import NumericalWarning
from porism.results import Result
from porism.sims.alignment._arms import accuracies, even, nuisance_spectrum, paired_runs
from porism.sims.alignment.spiked import ClassTask, sample_class_task
from porism.theory.alignment import alignment_coefficient, principal_subspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PANELS", "PREDICTORS", "Tracking", "track_gains"]

PANELS = ("controlled", "pooled")
"""Tasks of one size and difficulty, and tasks of many."""

PREDICTORS = ("true_rho", "predicted_gain", "plugin", "crossfit", "crossfit_raw")
"""The truth, the forward-pass prediction, and three estimates of the captured share from training rows."""

DEFAULT_LR = {"adam": 3e-4, "sgd": 2e-3, "momentum": 2e-4}
DEFAULT_STEPS = {"adam": 60, "sgd": 40, "momentum": 40}


@dataclasses.dataclass(frozen=True, eq=False)
class Tracking(Result):
    """Predictors and realised gains, one entry a task, each the mean over its draws.

    Parameters
    ----------
    panel : str
        Which of `PANELS`.
    optimizer : str
        What trained the adapters.
    steps : int64 array of shape (3,)
        1, T // 4 and T.
    gains : float64 array of shape (tasks, 3)
        Population accuracy from the principal start minus that from a random orthonormal one of equal norm.
    accuracy : float64 array of shape (tasks, 3)
        Population accuracy from the random start.
    true_rho, predicted_gain, plugin, crossfit, crossfit_raw : float64 arrays of shape (tasks,)
        Alignment coefficient by the population scatter; held-out accuracy gain of projected centroids;
        captured share in sample, cross-fitted, and cross-fitted as ``max(N, 0)`` over the debiased scatter of
        all rows, which may exceed 1. Draws whose estimate is undefined are left out; NaN where all are.
    d, n, r, C : int64 arrays of shape (tasks,)
        Coordinates, training rows, rank and classes.
    delta : float64 array of shape (tasks,)
        ``tr S / sigma^2``.

    Examples
    --------
    >>> a, i = np.arange(3.0), np.ones(3, dtype=int)
    >>> gains = np.c_[a, -a, a * 2]
    >>> found = Tracking("controlled", "sgd", i, gains, gains, a, a, a, a, a, i, i, i, i, a)
    >>> found.correlations()[0].tolist()
    [1.0, -1.0, 1.0]
    """

    panel: str
    optimizer: str
    steps: NDArray[np.int64]
    gains: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    true_rho: NDArray[np.float64]
    predicted_gain: NDArray[np.float64]
    plugin: NDArray[np.float64]
    crossfit: NDArray[np.float64]
    crossfit_raw: NDArray[np.float64]
    d: NDArray[np.int64]
    n: NDArray[np.int64]
    r: NDArray[np.int64]
    C: NDArray[np.int64]
    delta: NDArray[np.float64]

    def correlations(self, method: str = "pearson") -> NDArray[np.float64]:
        """Correlation of every predictor with the gain at every step.

        Parameters
        ----------
        method : {"pearson", "spearman"}
            Of values or of ranks.

        Returns
        -------
        float64 array of shape (5, 3)
            Rows as in `PREDICTORS`, columns as in `steps`; NaN where one of the two does not vary. Tasks
            without an estimate are left out.
        """
        from scipy.stats import rankdata

        one_of("method", method, ("pearson", "spearman"))
        table = np.full((len(PREDICTORS), self.gains.shape[1]), np.nan)
        for i, name in enumerate(PREDICTORS):
            values = getattr(self, name)
            kept = np.isfinite(values)
            for j, gain in enumerate(self.gains[kept].T):
                u, v = values[kept], gain
                if method == "spearman":
                    u, v = rankdata(u), rankdata(v)
                u, v = u - u.mean(), v - v.mean()
                norm = float(np.linalg.norm(u) * np.linalg.norm(v))
                if norm > 0:
                    table[i, j] = float(u @ v) / norm
        return table.round(15)

    def to_frame(self) -> Any:
        """One row a task.

        Returns
        -------
        DataFrame
            Sizes, predictors, and the gain at each step as ``gain_1`` ....

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        names = ("d", "n", "r", "C", "delta", *PREDICTORS)
        columns = {name: getattr(self, name) for name in names}
        columns |= {f"gain_{step}": gain for step, gain in zip(self.steps, self.gains.T, strict=True)}
        frame = pandas.DataFrame(columns)
        frame.attrs.update(panel=self.panel, optimizer=self.optimizer)
        return frame

    def plot(self, ax: "Axes | None" = None, predictor: str = "true_rho", at: int = -1) -> "Axes":
        """Scatter of a predictor against the gain.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default a new figure.
        predictor : str, default "true_rho"
            One of `PREDICTORS`.
        at : int, default -1
            Index into `steps`.

        Returns
        -------
        Axes
            One point a task.
        """
        from porism.sims.drawing import GUIDE, canvas

        row = PREDICTORS.index(one_of("predictor", predictor, PREDICTORS))
        with canvas(ax) as axes:
            axes.axhline(0, **GUIDE)
            axes.scatter(getattr(self, predictor), self.gains[:, at], s=18)
            axes.set(
                xlabel=predictor.replace("_", " "),
                ylabel=f"gain at step {self.steps[at]}",
                title=f"{self.panel}, {self.optimizer}: r = {self.correlations()[row, at]:.2f}",
            )
        return axes


def track_gains(
    panel: str = "controlled",
    *,
    tasks: int = 24,
    draws: int = 3,
    optimizer: str = "adam",
    lr: float | None = None,
    steps: int | None = None,
    d: int = 768,
    n: int = 32,
    r: int = 8,
    delta: float = 6.0,
    rng: np.random.Generator | int | None = None,
    progress: bool = False,
) -> Tracking:
    """Compare what predicts the gain of a principal start with the gain, over many random tasks.

    Each task is a population; each of its draws has new training rows, a new head and a new random start. The
    gain is exact (two classes) or drawn (more) population accuracy, never that of a finite test set.

    Parameters
    ----------
    panel : {"controlled", "pooled"}
        "controlled": two classes, fixed d, n, r and delta, and a nuisance spectrum that varies. "pooled": d
        in 128, 256, 512, 768, n in 16, 32, 64, 128, r in 4, 8, 16 with r <= n / 4, and C in 2, 3, 4, uniform;
        delta log-uniform in 1..40; the same law of the nuisance.
    tasks, draws : int, default 24 and 3
        Number of tasks, >= 2, and of draws each, >= 1.
    optimizer : {"adam", "sgd", "momentum"}
        What trains.
    lr : float, optional
        Step size; by default 3e-4 for Adam, 2e-3 for SGD, 2e-4 with momentum.
    steps : int, optional
        Steps T, >= 8; by default 60 for Adam, else 40.
    d, n, r : int, default 768, 32 and 8
        Sizes of the controlled panel; n is even.
    delta : float, default 6
        ``tr S / sigma^2`` of the controlled panel.
    rng : Generator, int or None
        Source; every task has a child of its own.
    progress : bool, default False
        Whether to show a bar.

    Returns
    -------
    Tracking
        Predictors and gains.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Choices of this world, made before its results were seen: no weight of the layer itself, a head from
    N(0, 1/m) with m = 32, alpha = 2 r, up to 12 nuisance directions with strengths ``top j^-p``, top
    log-uniform in 1..40 and p uniform, orthogonal to the mean differences. A task costs about 0.2 s.

    Examples
    --------
    >>> found = track_gains(tasks=2, draws=1, steps=8, d=32, n=16, r=2, rng=0)
    >>> found.gains.shape
    (2, 3)
    """
    from tqdm import tqdm

    one_of("panel", panel, PANELS)
    tasks, draws, n = integer("tasks", tasks, 2), integer("draws", draws, 1), even("n", n, 4)
    one_of("optimizer", optimizer, DEFAULT_LR)
    T = integer("steps", DEFAULT_STEPS[optimizer] if steps is None else steps, 8)
    options = {"optimizer": optimizer, "lr": DEFAULT_LR[optimizer] if lr is None else lr, "steps": T}
    record = (1, T // 4, T)
    rows: list[dict[str, Any]] = []
    for child in tqdm(generator(rng).spawn(tasks), desc=panel, unit="task", disable=not progress):
        C = 2
        if panel == "pooled":
            d, n = int(child.choice([128, 256, 512, 768])), int(child.choice([16, 32, 64, 128]))
            r = int(child.choice([q for q in (4, 8, 16) if 4 * q <= n]))  # folds keep more than r rows
            C = int(child.choice([2, 3, 4]))
            delta = float(np.exp(child.uniform(0, np.log(40))))
        population = sample_class_task(d, n // C, C, delta, nuisance_spectrum(child), random_state=child)
        streams = child.spawn(draws)
        drawn = [population.draw(n // C, stream) for stream in streams]
        runs = paired_runs(drawn, r, ("orthonormal", "pca"), streams, record=record, **options)
        base = accuracies(drawn, runs["orthonormal"])
        gains = (accuracies(drawn, runs["pca"]) - base).mean(axis=0)
        row = _predictors(drawn, r, streams) | {"gains": gains, "accuracy": base.mean(axis=0)}
        rows.append(row | {"d": d, "n": C * (n // C), "r": r, "C": C, "delta": delta})
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Tracking(panel, optimizer, np.array(record), **columns)


def _predictors(drawn: list[ClassTask], r: int, streams: list[np.random.Generator]) -> dict[str, float]:
    found = []
    for task, stream in zip(drawn, streams, strict=True):
        basis = principal_subspace(task.x, r, random_state=stream).basis
        with warnings.catch_warnings():  # an undefined estimate is recorded as NaN
            warnings.simplefilter("ignore", NumericalWarning)
            crossfit = alignment_coefficient(task.x, task.y, r, random_state=stream)
        plugin = alignment_coefficient(task.x, task.y, r, basis=basis, estimator="plugin").captured
        raw = max(crossfit.captured_unclipped, 0.0)
        found.append((task.rho(basis), crossfit.predicted_gain, plugin, crossfit.captured, raw))
    values = np.array(found)
    defined = np.isfinite(values)
    total = np.where(defined, values, 0.0).sum(axis=0)
    means = np.where(defined.any(axis=0), total / np.maximum(defined.sum(axis=0), 1), np.nan)
    return dict(zip(PREDICTORS, means.tolist(), strict=True))
