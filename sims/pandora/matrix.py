"""What routing starts from: realised scores of specialists on queries, with what is known of both."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer
from porism.results import Result

__all__ = ["ScoreMatrix"]

Floats = NDArray[np.float64]
ROWS = ("features", "cheap_features", "costs", "groups", "subset", "split")  # optional, one row a query


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreMatrix(Result):
    """Scores of K specialists on n queries.

    Parameters
    ----------
    scores : float64 array, shape (n, K)
        Realised value; 0 where unknown.
    models : tuple of str
        Names of the K specialists, all different.
    known : bool array, shape (n, K)
        Where a score is known.
    features : float64 array, shape (n, p), optional
        Features of queries for the expensive estimator.
    cheap_features : float64 array, shape (n, p0), optional
        Features for the cheap estimator; `features` where None.
    costs : float64 array, shape (n, K), optional
        Money paid for each answer, NaN where unknown.
    groups : str array, shape (n,), optional
        Rows of one group, such as one prompt asked twice, belong in one fold.
    subset : str array, shape (n,), optional
        Task or data set of each query.
    split : int64 array, shape (n,), optional
        0 for training, 1 for test.
    source : str
        Where it comes from, with the license.

    Raises
    ------
    ValueError
        If shapes do not fit, names repeat, or known scores are not finite.

    Examples
    --------
    >>> matrix = ScoreMatrix(np.array([[1.0, 0.0], [1.0, 1.0]]), ("a", "b"), np.ones((2, 2), bool))
    >>> matrix.means().tolist()
    [1.0, 0.5]
    """

    scores: Floats
    models: tuple[str, ...]
    known: NDArray[np.bool_]
    features: Floats | None = None
    cheap_features: Floats | None = None
    costs: Floats | None = None
    groups: NDArray[np.str_] | None = None
    subset: NDArray[np.str_] | None = None
    split: NDArray[np.int64] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        shape = np.shape(self.scores)
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"scores must have shape (n, K), one row a query, got {shape}")
        if len(self.models) != shape[1]:
            raise ValueError(
                f"models must name the {shape[1]} columns of scores, got {len(self.models)} names"
            )
        twice = sorted({name for name in self.models if self.models.count(name) > 1})
        if twice:
            raise ValueError(f"models must have different names, got {twice[0]!r} more than once; rename one")
        if np.shape(self.known) != shape or np.asarray(self.known).dtype != bool:
            raise ValueError(f"known must be a bool array of the shape of scores {shape}")
        if not np.isfinite(self.scores[self.known]).all():
            raise ValueError("known scores must be finite, got NaN or infinity; mark these as not known")
        for name in ROWS:
            value = getattr(self, name)
            if value is not None and (len(value) != shape[0] or (name == "costs" and value.shape != shape)):
                raise ValueError(f"{name} of shape {np.shape(value)} does not fit scores of shape {shape}")

    def means(self) -> Floats:
        """Mean of the known scores of each specialist.

        Returns
        -------
        float64 array, shape (K,)
            NaN where none is known.
        """
        count = self.known.sum(0)
        total = np.where(self.known, self.scores, 0.0).sum(0)
        return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)

    def rows(self, which: Any) -> "ScoreMatrix":
        """Take some of the queries.

        Parameters
        ----------
        which : bool array (n,), int array or slice
            Rows to keep.

        Returns
        -------
        ScoreMatrix
            In that order.
        """
        parts: dict[str, Any] = {name: getattr(self, name) for name in ("scores", "known", *ROWS)}
        taken: dict[str, Any] = {k: v if v is None else v[which] for k, v in parts.items()}
        return dataclasses.replace(self, **taken)

    def columns(self, models: Sequence[str | int]) -> "ScoreMatrix":
        """Take some of the specialists.

        Parameters
        ----------
        models : sequence of str or int
            Names or column numbers.

        Returns
        -------
        ScoreMatrix
            In that order.

        Raises
        ------
        ValueError
            If there is no such specialist.
        """
        at = [self._place(model) for model in models]
        costs = None if self.costs is None else self.costs[:, at]
        return dataclasses.replace(
            self,
            scores=self.scores[:, at],
            known=self.known[:, at],
            costs=costs,
            models=tuple(self.models[k] for k in at),
        )

    def complete(self) -> "ScoreMatrix":
        """Take the queries whose scores are all known.

        Returns
        -------
        ScoreMatrix
            With `known` true everywhere.
        """
        return self.rows(self.known.all(1))

    def _place(self, model: str | int) -> int:
        if isinstance(model, str):
            if model not in self.models:
                raise ValueError(f"models has no {model!r}; it has {_listed(self.models)}")
            return self.models.index(model)
        return integer("model", model, 0, len(self.models) - 1)

    def __repr__(self) -> str:
        n, K = self.scores.shape
        text = f"ScoreMatrix({n} queries x {K} specialists, mean score {np.nanmean(self.means()):.4f}"
        missing = int((~self.known).sum())
        return text + (f", {missing} missing)" if missing else ")")


def _listed(names: Sequence[str], most: int = 8) -> str:
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"
