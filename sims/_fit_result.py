"""The record of a training run."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.results import Result

__all__ = ["FitResult"]


@dataclass(frozen=True)
class FitResult(Result):
    """What a training run did.

    Parameters
    ----------
    step : ndarray of int64, shape (m,)
        Number of steps taken at each record.
    seconds : ndarray of float64, shape (m,)
        Wall time at each record.
    train : ndarray of float64, shape (m,)
        Mean loss of the batches since the record before.
    validation : ndarray of float64, shape (m,)
        Value of `eval_fn`; NaN without one.
    steps : int
        Number of steps taken in all.
    stopped : {"steps", "loss", "budget"}
        Why it ended.
    seed : int or None
        Seed of the batches, where the generator knows it.
    corpus_hash : str
        SHA-256 of the corpus, empty where the batches do not tell.
    threads : int
        Number of threads that torch was allowed.
    versions : dict of str to str
        Of porism, Python, torch and numpy.

    Examples
    --------
    >>> one = np.array([1.0])
    >>> FitResult(np.array([9]), one, one, one, 9, "steps", 0, "", 1, {}).history["validation"]
    array([1.])
    """

    step: NDArray[np.int64]
    seconds: NDArray[np.float64]
    train: NDArray[np.float64]
    validation: NDArray[np.float64]
    steps: int
    stopped: str
    seed: int | None
    corpus_hash: str
    threads: int
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def history(self) -> dict[str, NDArray[Any]]:
        """The four columns step, seconds, train and validation."""
        return {name: getattr(self, name) for name in ("step", "seconds", "train", "validation")}

    def plot(self, ax: Any = None) -> Any:
        """Draw both losses against the number of steps.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default new axes.

        Returns
        -------
        Axes
            The axes, with two lines.
        """
        from matplotlib import pyplot

        ax = ax or pyplot.subplots()[1]
        ax.plot(self.step, self.train, label="training")
        ax.plot(self.step, self.validation, label="validation")
        ax.set(xlabel="steps", ylabel="loss")
        ax.legend()
        return ax
