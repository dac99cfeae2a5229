"""Spectra of the same modules at several steps of training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.results import Result
from porism.theory.lora_spectrum._layout import statistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SpectrumHistory"]


@dataclass(frozen=True, eq=False)
class SpectrumHistory(Result):
    """Singular values of every adapted module along training.

    Parameters
    ----------
    steps : int64 array, shape (T,)
        Steps, increasing.
    spectra : dict of str to float64 array, shape (T, r)
        Singular values by module name, each row descending; a row is NaN where the factors were not finite.

    Examples
    --------
    >>> SpectrumHistory(np.array([0, 10]), {"q": np.array([[0.0, 0.0], [2.0, 1.0]])}).modules
    ('q',)
    """

    steps: NDArray[np.int64]
    spectra: dict[str, NDArray[np.float64]]

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules."""
        return tuple(self.spectra)

    def to_frame(self) -> Any:
        """Long table of the singular values.

        Returns
        -------
        DataFrame
            Columns step, module, index (0 is the largest), singular_value, and by step and module stable_rank
            and effective_rank.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        if not self.spectra:
            names = ("step", "module", "index", "singular_value", "stable_rank", "effective_rank")
            return pandas.DataFrame({name: [] for name in names})
        T, sizes = len(self.steps), [rows.shape[1] for rows in self.spectra.values()]
        numbers = [statistics(rows) for rows in self.spectra.values()]
        columns: dict[str, Any] = {
            "step": np.repeat(self.steps, sum(sizes)),
            "module": np.tile(np.repeat(np.array(self.modules, dtype=object), sizes), T),
            "index": np.tile(np.concatenate([np.arange(size) for size in sizes]), T),
            "singular_value": np.concatenate(list(self.spectra.values()), axis=1).ravel(),
        }
        for name in ("stable_rank", "effective_rank"):
            by_step = np.stack([number[name] for number in numbers], axis=1)  # (T, modules)
            columns[name] = np.repeat(by_step, sizes, axis=1).ravel()
        return pandas.DataFrame(columns)

    def plot(self, ax: "Axes | None" = None, module: str | None = None) -> "Axes":
        """Draw the roots of the singular values against the step: equal growth makes them parallel lines.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.
        module : str, optional
            The only module to draw; all of them without it.

        Returns
        -------
        Axes
            The axes drawn on.

        Raises
        ------
        KeyError
            If there is no such module.
        """
        from matplotlib import pyplot

        if module is not None and module not in self.spectra:
            raise KeyError(f"module must be one of {list(self.spectra)}, got {module!r}")
        ax = ax if ax is not None else pyplot.subplots()[1]
        shown = self.spectra if module is None else {module: self.spectra[module]}
        colors = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
        for k, rows in enumerate(shown.values()):
            ax.plot(self.steps, np.sqrt(rows), color=colors[k % len(colors)], lw=1, alpha=0.7)
        title = module if module is not None else f"{len(shown)} adapted modules"
        ax.set(xlabel="step", ylabel="root of singular value", title=title)
        return ax
