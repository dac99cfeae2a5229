"""The rank-space pivot in a linear layer: what it leaves unchanged, and what it changes under Adam."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of, positive, require
from porism.results import Result
from porism.sims.alignment._arms import WIDTH
from porism.sims.alignment._rank_space import off
from porism.sims.alignment._rotation import MOMENTS, canonical, rotate
from porism.sims.alignment.fewshot import (
    FEWSHOT_OPTIMIZERS,
    LinearPivot,
    LoraPath,
    lora_start,
    random_head,
    train_lora,
)
from porism.sims.alignment.spiked import ClassTask, sample_class_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Conservation", "PivotPaths", "measure_conservation", "pivot_paths"]

LEARNING_RATES = {"sgd": 0.02, "momentum": 0.002, "adam": 3e-3}

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class PivotPaths(Result):
    """One task, trained without a pivot and with one under each rule for the optimiser's averages.

    Parameters
    ----------
    optimizer, rotation : str
        What trained, and which rotation.
    at : int
        Steps before the pivot.
    rules : tuple of str
        "transport", "reset", "keep" and "zero_second".
    deviation : float64 array of shape (rules, T + 1)
        Difference of BA from the run without a pivot, relative to its Frobenius norm; 0 at step 0.
    losses : float64 array of shape (1 + rules, T + 1)
        Training loss, first without a pivot.
    singular_values : float64 array of shape (k,)
        Of B at the end of the run without a pivot, k = min(m, r).
    growth : float64 array of shape (rules,)
        Length of the step of BA after the pivot, relative to that without one.

    Examples
    --------
    >>> paths = pivot_paths("sgd", d=16, n=12, r=3, C=2, steps=8, at=4, rng=0)
    >>> bool(paths.deviation[:3].max() < 1e-12)
    True
    """

    optimizer: str
    rotation: str
    at: int
    rules: tuple[str, ...]
    deviation: Floats
    losses: Floats
    singular_values: Floats
    growth: Floats

    def to_frame(self) -> Any:
        """One row a rule and step.

        Returns
        -------
        DataFrame
            Columns rule, step, loss and deviation; the run without a pivot is the rule "none".

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        names, T = ("none", *self.rules), self.losses.shape[1]
        deviation = np.vstack([np.zeros(T), self.deviation])
        return pandas.DataFrame(
            {
                "rule": np.repeat(names, T),
                "step": np.tile(np.arange(T), len(names)),
                "loss": self.losses.ravel(),
                "deviation": deviation.ravel(),
            }
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the training loss without a pivot and under every rule.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        Axes
            One line a rule, logarithmic in the loss.
        """
        from porism.sims.drawing import GUIDE, canvas

        with canvas(ax) as axes:
            for name, losses in zip(("no pivot", *self.rules), self.losses, strict=True):
                axes.plot(losses, label=name.replace("_", " "))
            axes.axvline(self.at, **GUIDE)
            axes.set(yscale="log", xlabel="step", ylabel="training loss", title=self.optimizer)
            axes.legend()
        return axes


def pivot_paths(
    optimizer: str = "adam",
    *,
    rotation: str = "random",
    d: int = 64,
    n: int = 32,
    r: int = 6,
    C: int = 4,
    delta: float = 6.0,
    lr: float | None = None,
    steps: int = 100,
    at: int = 50,
    rng: np.random.Generator | int | None = None,
) -> PivotPaths:
    """Rotate the rank index in the middle of a run and follow BA and the loss, rule by rule.

    Parameters
    ----------
    optimizer : {"sgd", "momentum", "adam"}
        What trains.
    rotation : {"random", "canonical"}
        Which rotation.
    d, n, r, C : int
        Coordinates, training rows (a multiple of C), rank, and classes.
    delta : float, default 6
        ``tr S / sigma^2``.
    lr : float, optional
        Step size; by default 0.02 for SGD, 0.002 with momentum, 3e-3 for Adam.
    steps, at : int, default 100 and 50
        Number of steps, and of those before the pivot.
    rng : Generator, int or None
        Source of task, head, start and rotation.

    Returns
    -------
    PivotPaths
        Losses and deviations of BA.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Start: random orthonormal rows. Time O(5 T n d r), memory O(T d (m + r)).

    Examples
    --------
    >>> paths = pivot_paths("adam", d=16, n=12, r=3, C=2, steps=8, at=4, rng=0)
    >>> bool(paths.deviation[0, 4] < 1e-12 < paths.deviation[0, 8])
    True
    """
    one_of("optimizer", optimizer, FEWSHOT_OPTIMIZERS)
    stream = generator(rng)
    task, head, start = _world("orthonormal", d, n, r, C, delta, stream)
    seed = int(stream.integers(2**31))
    options: dict[str, Any] = {
        "optimizer": optimizer,
        "lr": LEARNING_RATES[optimizer] if lr is None else lr,
        "steps": integer("steps", steps, 2),
        "record": range(steps + 1),
    }

    def run(rule: str | None) -> LoraPath:
        pivot = None if rule is None else LinearPivot(at, rotation, rule, seed)
        return train_lora(task.x, task.y, start, head, pivot=pivot, **options)

    plain = run(None)
    base = plain.product()
    size = np.linalg.norm(base, axis=(1, 2))
    size[0] = 1.0  # BA is 0 there in all runs
    deviation, losses, growth = [], [plain.losses], []
    for rule in MOMENTS:
        path = run(rule)
        product = path.product()
        deviation.append(np.linalg.norm(product - base, axis=(1, 2)) / size)
        losses.append(path.losses)
        step = np.linalg.norm(product[at + 1] - product[at]) / np.linalg.norm(base[at + 1] - base[at])
        growth.append(float(step))
    values = np.linalg.svd(plain.b[-1], compute_uv=False)
    return PivotPaths(
        optimizer, rotation, at, MOMENTS, np.array(deviation), np.array(losses), values, np.array(growth)
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Conservation(Result):
    """How well gradient descent keeps ``A A' - B'B``, and what the canonical rotation then does.

    Parameters
    ----------
    lr : float64 array of shape (k,)
        Step sizes; ``lr T`` is the same for all.
    error : float64 array of shape (k,)
        ``|A A' - B'B - I|_F / |I|_F`` at the end.
    before, after : float64 arrays of shape (k,)
        Share of the off-diagonal in ``|A A'|_F`` before and after the rotation that makes B'B diagonal.
    off_b : float64 array of shape (k,)
        The same share of B'B after it.
    optimizer, start : str
        What trained, and which start.

    Examples
    --------
    >>> found = measure_conservation(lrs=(0.02, 0.002), time=0.4, d=16, n=12, r=3, rng=0)
    >>> bool(found.error[1] < found.error[0] / 5)
    True
    """

    lr: Floats
    error: Floats
    before: Floats
    after: Floats
    off_b: Floats
    optimizer: str
    start: str


def measure_conservation(
    *,
    optimizer: str = "sgd",
    start: str = "orthonormal",
    lrs: tuple[float, ...] = (0.02, 0.002, 0.0002),
    time: float = 2.0,
    d: int = 64,
    n: int = 32,
    r: int = 6,
    C: int = 4,
    delta: float = 6.0,
    rng: np.random.Generator | int | None = None,
) -> Conservation:
    """Train for one time at several step sizes and measure the conserved quantity of gradient flow.

    Parameters
    ----------
    optimizer : {"sgd", "momentum", "adam"}
        What trains; the law is one of gradient flow.
    start : {"orthonormal", "kaiming", "pca"}
        Start of A; "kaiming" as it is, not rescaled.
    lrs : tuple of float
        Step sizes, > 0.
    time : float, default 2
        ``lr T``, > 0: T is rounded.
    d, n, r, C : int
        Coordinates, training rows (a multiple of C), rank, and classes.
    delta : float, default 6
        ``tr S / sigma^2``.
    rng : Generator, int or None
        Source of task, head and start.

    Returns
    -------
    Conservation
        Errors and shares of off-diagonals, one a step size.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> found = measure_conservation(lrs=(0.01,), time=0.2, d=16, n=12, r=3, rng=0)
    >>> found.off_b.round(12).tolist()
    [0.0]
    """
    time = positive("time", time)
    task, head, a0 = _world(start, d, n, r, C, delta, generator(rng))
    rows = []
    for lr in lrs:
        steps = max(1, round(time / positive("lrs", lr)))
        path = train_lora(
            task.x, task.y, a0, head, optimizer=optimizer, lr=lr, steps=steps, record=(0, steps)
        )
        a, b = path.a[-1], path.b[-1]
        error = np.linalg.norm(a @ a.T - b.T @ b - np.eye(r)) / np.sqrt(r)
        turned_a, turned_b = rotate(a, b, canonical(b))
        rows.append((error, off(a), off(turned_a), off(turned_b.T)))
    error, before, after, off_b = np.array(rows).T
    return Conservation(np.array(lrs), error, before, after, off_b, optimizer, start)


def _world(
    start: str, d: int, n: int, r: int, C: int, delta: float, rng: np.random.Generator
) -> tuple[ClassTask, Floats, Floats]:
    """A task of balanced classes, a head, and A."""
    n, C = integer("n", n, 1), integer("C", C, 2)
    if n % C:
        raise ValueError(f"n must be a multiple of C, got n={n} and C={C}; classes are balanced")
    task = sample_class_task(d, n // C, C, delta, random_state=rng)
    head = random_head(C, WIDTH, rng)
    return task, head, lora_start(start, task.x, r, match_norm=False, random_state=rng)
