"""What the estimates promise against what they deliver, before anyone routes by them."""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.results import Result

__all__ = ["CalibrationReport", "Chosen", "standard_error"]

Floats = NDArray[np.float64]


def standard_error(values: Floats) -> float:
    """Standard error of the mean of independent numbers.

    ``sd / sqrt(n)`` with the unbiased variance.

    Parameters
    ----------
    values : float array, shape (n,)
        The numbers; for a comparison paired by query, the differences.

    Returns
    -------
    float
        In their unit; infinite for fewer than two.

    Examples
    --------
    >>> standard_error(np.array([1.0, 3.0]))
    1.0
    """
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf


@dataclasses.dataclass(frozen=True)
class Chosen(Result):
    """Predicted and realised value of the specialist that a rule chooses.

    Parameters
    ----------
    rule : str
        "cheap", "exhaustive" or "exhaustive, joint".
    predicted, realised : float
        Means over queries of the estimate by which the specialist was chosen, and of its score.
    gap_se : float
        Standard error of ``predicted - realised``, paired by query.
    gain, gain_se : float
        Realised value over that of the cheap rule, paired by query, and its standard error.
    """

    rule: str
    predicted: float
    realised: float
    gap_se: float
    gain: float
    gain_se: float

    @classmethod
    def judge(cls, rule: str, estimates: Floats, scores: Floats, cheap: Floats) -> "Chosen":
        """Judge the rule that takes the greatest estimate.

        Parameters
        ----------
        rule : str
            Its name.
        estimates, scores : float array, shape (n, K)
            What the rule goes by, and realised values.
        cheap : float array, shape (n,)
            Realised values of the cheap rule on the same queries.

        Returns
        -------
        Chosen
            Means and paired standard errors.
        """
        rows = np.arange(len(scores))
        at = estimates.argmax(1)
        predicted, realised = estimates[rows, at], scores[rows, at]
        gap, gain = predicted - realised, realised - cheap
        means = float(predicted.mean()), float(realised.mean()), float(gain.mean())
        return cls(rule, means[0], means[1], standard_error(gap), means[2], standard_error(gain))


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CalibrationReport(Result):
    """Calibration of the two estimates, a specialist at a time and for the specialist that is chosen.

    Marginal calibration (slope 1 for every specialist) does not make the maximum of the estimates calibrated:
    where signals are dependent, routing on refined estimates can be worse than on cheap ones. The flags say
    so.

    Parameters
    ----------
    names : tuple of str
        Specialists.
    n_queries : int
        Queries whose scores are known for all specialists; the rows below ``chosen`` are means over these.
    slope, intercept : float array, shape (K,)
        Least squares of scores on refined estimates.
    slope_cheap, intercept_cheap : float array, shape (K,)
        The same on cheap estimates.
    nu_cov, nu_var : float array, shape (K,)
        ``sqrt(max(Cov(q - m, V - m), 0))`` and ``sd(q - m)``: equal where refined estimates are calibrated.
    innovation_correlation : float array, shape (K, K)
        Correlation of the innovations q - m between specialists.
    chosen : tuple of Chosen
        Cheap, exhaustive on refined estimates as they are, exhaustive after the joint linear update.
    flags : tuple of str
        ``joint_needed``: mean absolute off-diagonal innovation correlation above 0.1. ``refine_harmful``:
        paired realised gain of exhaustive over cheap below -2 standard errors. ``optimistic``: predicted
        minus realised value of the chosen above 3 standard errors, for cheap or exhaustive.
        ``refinement_never_pays``: every cost is at least nu/sqrt(2 pi). ``nu_zero``, ``nu_clipped``: some
        estimated nu was not positive, or not below s. ``few_rows``: under 30 rows a fold, one nu for all.
        ``in_sample``: estimates that seem to have seen the scores.
    above_cap : int or None
        Where all scores are 0 or 1 and the fit took them for Gaussian: how many gains, of all queries and
        specialists whose cheap estimate is in [0, 1], exceed the largest gain that such a value can have
        (PB-14). ``returns="binary"`` keeps to it.
    """

    names: tuple[str, ...]
    n_queries: int
    slope: Floats
    intercept: Floats
    slope_cheap: Floats
    intercept_cheap: Floats
    nu_cov: Floats
    nu_var: Floats
    innovation_correlation: Floats
    chosen: tuple[Chosen, ...]
    flags: tuple[str, ...] = ()
    above_cap: int | None = None

    @property
    def refine_harmful(self) -> bool:
        """Whether routing on the refined estimates as they are was surely worse than on the cheap ones."""
        return "refine_harmful" in self.flags

    def to_frame(self) -> Any:
        """Show the numbers of each specialist as a pandas table.

        Returns
        -------
        DataFrame
            One row a specialist; ``frame.attrs`` holds the flags and the rules.
        """
        from porism.checks import require

        columns = ("slope", "intercept", "slope_cheap", "intercept_cheap", "nu_cov", "nu_var")
        data = {"specialist": self.names} | {name: getattr(self, name) for name in columns}
        frame = require("pandas", "tables").DataFrame(data)
        frame.attrs.update(flags=self.flags, chosen=[dataclasses.asdict(row) for row in self.chosen])
        return frame

    def summary(self) -> str:
        """Say in a few lines what was found.

        Returns
        -------
        str
            One line a rule, then the flags.
        """
        width = max((len(row.rule) for row in self.chosen), default=0)
        lines = [
            f"{row.rule:{width}}  predicted {row.predicted:.4f}  realised {row.realised:.4f}"
            + (f"  over cheap {row.gain:+.4f} (se {row.gain_se:.4f})" if row.rule != "cheap" else "")
            for row in self.chosen
        ]
        lines.append("flags: " + (", ".join(self.flags) or "none"))
        if self.above_cap:
            lines.append(f"{self.above_cap} gains exceed what scores of 0 or 1 allow; use returns='binary'")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw predicted against realised value of the chosen specialist, a rule a pair of bars.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure if None.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from matplotlib import pyplot

        ax = pyplot.subplots()[1] if ax is None else ax
        at = np.arange(len(self.chosen))
        ax.bar(at - 0.2, [row.predicted for row in self.chosen], 0.4, color="#bbbbbb", label="predicted")
        ax.bar(at + 0.2, [row.realised for row in self.chosen], 0.4, color="#0072b2", label="realised")
        ax.set_xticks(at, [row.rule.replace(", ", ",\n") for row in self.chosen])
        values = [value for row in self.chosen for value in (row.predicted, row.realised)]
        spread = max(max(values) - min(values), 1e-3)
        ax.set_ylim(min(values) - spread / 2, max(values) + 0.6 * spread)
        ax.set_ylabel("value of the chosen specialist")
        ax.legend(loc="upper left", ncols=2)
        return ax

    def __repr__(self) -> str:
        return f"CalibrationReport({self.n_queries} queries, {len(self.names)} specialists)\n{self.summary()}"
