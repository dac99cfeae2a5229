"""Witnesses: an admissible transform, and scores of the free coalitions, under which a pair is reversed."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.theory.partition._exact import rational
from porism.theory.partition._partitions import partition
from porism.theory.partition._values import exact_semivalues
from porism.theory.partition.decisions import Decision
from porism.theory.partition.semivalue import Semivalue
from porism.theory.partition.table import UtilityTable

__all__ = ["WitnessUtility"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WitnessUtility:
    """A utility of the admissible class that breaks the decision.

    Parameters
    ----------
    level : float
        The level at which the transform jumps (or bends).
    epsilon : Fraction
        Slope of the transform away from the jump; any slope in (0, |D|/d) reverses the pair too.
    pair : tuple of int
        The two players whose order it reverses, or the one player it moves across a threshold.
    transform_points : tuple of (float, float)
        The transform, linear between the points and of slope epsilon beyond.
    decision : Decision
        The decision it breaks.
    completion : tuple of (int, float) or None
        Mask and score of every coalition that the class leaves free.
    decimals : int or None
        Scores are rounded to so many decimals before they are transformed, as the class says.

    References
    ----------
    PR-6 (reconstruction).

    Examples
    --------
    >>> from porism.theory.partition import TopK, certify_partition
    >>> t = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
    >>> w = certify_partition(t, Semivalue.shapley(), TopK(1)).witness
    >>> w.level, w.epsilon, w.check(t, Semivalue.shapley())[2]
    (10.0, Fraction(1, 4), -0.25)
    """

    level: float
    epsilon: Fraction
    pair: tuple[int, ...]
    transform_points: tuple[tuple[float, float], ...]
    decision: Decision
    completion: tuple[tuple[int, float], ...] | None = None
    decimals: int | None = None

    def transform(self, x: ArrayLike) -> Floats:
        """Apply the transform to scores.

        Parameters
        ----------
        x : array
            Scores.

        Returns
        -------
        float64 array
            Transformed scores, of the shape of x.
        """
        values = np.asarray(x, dtype=np.float64)
        px, py = (np.array(column) for column in zip(*self.transform_points, strict=True))
        at = np.clip(np.searchsorted(px, values, side="right") - 1, 0, px.size - 2)
        slope = (py[at + 1] - py[at]) / (px[at + 1] - px[at])
        inside = np.minimum(py[at] + slope * (values - px[at]), py[at + 1])
        steep = float(self.epsilon)
        out = np.where(values < px[0], py[0] + steep * (values - px[0]), inside)
        return np.where(values >= px[-1], py[-1] + steep * (values - px[-1]), out)

    def apply(self, table: UtilityTable) -> UtilityTable:
        """The table under this utility: rounded, free coalitions filled in, then all scores transformed.

        Parameters
        ----------
        table : UtilityTable
            The table that was certified.

        Returns
        -------
        UtilityTable
            Its scores under the witness.
        """
        scores = np.array(table.rounded(self.decimals).scores)
        if self.completion is not None:
            masks = [mask for mask, _ in self.completion]
            scores[masks] = [score for _, score in self.completion]
        return UtilityTable.from_array(self.transform(scores), max_players=table.n_players)

    def check(self, table: UtilityTable, sv: Semivalue) -> tuple[Floats, tuple[int, ...], float]:
        """Values under this utility and the difference that it reverses.

        Parameters
        ----------
        table : UtilityTable
            The table that was certified.
        sv : Semivalue
            The semivalue it was certified for.

        Returns
        -------
        (float64 array, shape (n,), tuple of int, float)
            New values; the pair; its new difference, below 0 where a comparison is reversed (for one
            player: its value minus the threshold, on the wrong side). Each rounded once. Where a bound on
            the slope ratio is above the slope radius by less than rounding, so is the difference from 0.
        """
        values = exact_semivalues(self.apply(table).scores, sv, table.n_players)
        part = partition(self.decision, values, "weak")
        if len(self.pair) == 2:
            gap = values[self.pair[0]] - values[self.pair[1]]
        else:
            (player,) = self.pair
            shift = sum(values, Fraction(0)) / len(values) if part.kind == "mean" else part.tau
            gap = values[player] - shift
        return np.array([float(v) for v in values]), self.pair, float(gap)

    def partition(self, table: UtilityTable, sv: Semivalue) -> tuple[tuple[int, ...], ...]:
        """The decision taken under this utility.

        Parameters
        ----------
        table : UtilityTable
            The table that was certified.
        sv : Semivalue
            The semivalue it was certified for.

        Returns
        -------
        tuple of tuples of int
            The blocks it would choose, best first.
        """
        return partition(
            self.decision, exact_semivalues(self.apply(table).scores, sv, table.n_players), "weak"
        ).blocks

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the decision (the certificate holds it).

        Returns
        -------
        dict
            level, epsilon, pair, transform_points, completion, decimals.
        """
        return {
            "level": self.level,
            "epsilon": str(self.epsilon),
            "pair": list(self.pair),
            "transform_points": [list(point) for point in self.transform_points],
            "completion": None if self.completion is None else [list(item) for item in self.completion],
            "decimals": self.decimals,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], decision: Decision) -> "WitnessUtility":
        """The witness of :meth:`to_dict`.

        Parameters
        ----------
        data : dict
            What to_dict returned.
        decision : Decision
            The decision it breaks.

        Returns
        -------
        WitnessUtility
            The witness.
        """
        completion = data["completion"]
        return cls(
            data["level"],
            rational("epsilon", data["epsilon"]),
            tuple(data["pair"]),
            tuple((x, y) for x, y in data["transform_points"]),
            decision,
            None if completion is None else tuple((int(m), s) for m, s in completion),
            data["decimals"],
        )
