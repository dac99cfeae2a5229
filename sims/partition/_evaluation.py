"""One evaluation of a coalition: copy the model, fit, score, and what to do where that fails."""

import contextlib
import copy
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import finite_array, integer, require
from porism.sims.partition._checkpoint import CONSTANT, FAILED, FITTED
from porism.theory.partition import coalition_name, members_of

__all__ = ["EvaluationError", "Job", "Scorer"]

Scorer = Callable[[Any, Any, Any], Any]


class EvaluationError(RuntimeError):
    """A coalition could not be evaluated; the message names it and the cause."""


@dataclass(frozen=True, eq=False)
class Job:
    """All that a process needs to evaluate any coalition of one problem.

    Parameters
    ----------
    model : object
        Has ``fit(X, y)``; copied for each evaluation.
    X, X_val : array, DataFrame, sparse matrix or list
        Inputs.
    y, y_val : array
        Targets.
    groups : list of int64 array
        Rows of each player, in increasing order.
    scorer : callable
        ``scorer(model, X_val, y_val)``.
    kind : {"classifier", "regressor", "other"}
        What scikit-learn takes the model for.
    error_score : float or None
        Score of a coalition that fails; None: raise.
    """

    model: Any
    X: Any
    y: NDArray[Any]
    X_val: Any
    y_val: NDArray[Any]
    groups: list[NDArray[np.int64]]
    scorer: Scorer
    kind: str
    error_score: float | None

    @classmethod
    def make(
        cls, model: Any, X: Any, y: Any, X_val: Any, y_val: Any, players: Any, scoring: Any, error_score: Any
    ) -> "Job":
        """Check the arguments of `utility_table` and bundle them.

        Parameters
        ----------
        model, X, y, X_val, y_val, players, scoring, error_score
            As for `utility_table`.

        Returns
        -------
        Job
            The problem.

        Raises
        ------
        TypeError, ValueError
            If an argument is no such thing.
        """
        groups = _groups(players, _length("X", X))
        _check_lengths(X, y, X_val, y_val)
        scorer = _scorer(model, scoring)
        if isinstance(error_score, str):
            if error_score != "raise":
                raise ValueError(f"error_score must be 'raise' or a number, got {error_score!r}")
            error_score = None
        else:
            error_score = float(finite_array("error_score", error_score, ndim=0))
        return cls(
            model, X, np.asarray(y), X_val, np.asarray(y_val), groups, scorer, _kind(model), error_score
        )

    def evaluate(self, mask: int) -> tuple[float, int]:
        """Fit and score one coalition.

        Parameters
        ----------
        mask : int
            The coalition, not empty; player i at bit i.

        Returns
        -------
        score : float
            Its score, finite.
        flag : int
            FITTED, CONSTANT or FAILED.

        Raises
        ------
        EvaluationError
            If it fails and ``error_score`` is None.
        """
        rows = np.sort(np.concatenate([self.groups[player] for player in members_of(mask)]))
        y = self.y[rows]
        try:
            fitted = _fresh(self.model)
            fitted.fit(_take(self.X, rows), y)
            return self._score(fitted, mask), FITTED
        except Exception as error:
            if self.kind == "classifier" and len(classes := np.unique(y)) == 1:
                with contextlib.suppress(Exception):
                    return self._score(self._constant(classes[0]), mask), CONSTANT
            if self.error_score is not None:
                return self.error_score, FAILED
            raise EvaluationError(
                f"coalition {coalition_name(mask)} ({len(rows)} rows) failed with "
                f"{type(error).__name__}: {error}; fix the model or pass a number as error_score"
            ) from error

    def empty(self, empty_score: float | None) -> float:
        """Score the empty coalition.

        Parameters
        ----------
        empty_score : float or None
            The score, or None for that of a constant prediction.

        Returns
        -------
        float
            The score.

        Raises
        ------
        ValueError
            If there is no constant prediction or it cannot be scored.
        """
        if empty_score is not None:
            return float(finite_array("empty_score", empty_score, ndim=0))
        if self.kind == "other":
            raise ValueError(
                f"empty_score must be given, for {type(self.model).__name__} is neither a classifier nor a "
                "regressor of scikit-learn's kind; pass the score of having no data"
            )
        labels = np.unique(self.y) if self.kind == "classifier" else [self.y.mean(axis=0)]
        try:
            return float(np.mean([self._score(self._constant(label), 0) for label in labels]))
        except Exception as error:
            raise ValueError(
                f"empty_score must be given, for scoring a constant prediction failed with "
                f"{type(error).__name__}: {error}; pass the score of having no data"
            ) from error

    def _score(self, fitted: Any, mask: int) -> float:
        inputs = self.X_val.copy() if hasattr(self.X_val, "copy") else self.X_val  # a model may work in place
        value = self.scorer(fitted, inputs, self.y_val.copy())
        if not isinstance(value, numbers.Real):
            raise TypeError(f"scoring must return a number, got {type(value).__name__}")
        if not np.isfinite(float(value)):
            raise ValueError(f"score of coalition {coalition_name(mask)} is {float(value)}")
        return float(value)

    def _constant(self, label: Any) -> Any:
        from sklearn.dummy import DummyClassifier, DummyRegressor

        if self.kind == "regressor":
            return DummyRegressor(strategy="constant", constant=label).fit(np.zeros((len(self.y), 1)), self.y)
        classes = np.unique(self.y)
        return DummyClassifier(strategy="constant", constant=label).fit(np.zeros((len(classes), 1)), classes)


def _scorer(model: Any, scoring: Any) -> Scorer:
    if isinstance(model, type):
        raise TypeError(
            f"model must be an instance, got the class {model.__name__}; call it with its parameters"
        )
    if not callable(getattr(model, "fit", None)):
        raise TypeError(
            f"model must have a method fit(X, y), got {type(model).__name__}; wrap it in a class that has"
        )
    if scoring is None and not callable(getattr(model, "score", None)):
        raise TypeError(
            f"scoring must be given, for {type(model).__name__} has no method score; pass a callable "
            "scoring(model, X_val, y_val)"
        )
    if isinstance(scoring, str):
        return require("sklearn.metrics", "data").get_scorer(scoring)
    if scoring is not None and not callable(scoring):
        raise TypeError(f"scoring must be None, a string or a callable, got {type(scoring).__name__}")
    return scoring or _own_score


def _own_score(model: Any, X_val: Any, y_val: Any) -> Any:
    return model.score(X_val, y_val)


def _fresh(model: Any) -> Any:
    if hasattr(model, "get_params"):
        with contextlib.suppress(ImportError):
            from sklearn.base import clone

            return clone(model)
    return copy.deepcopy(model)


def _kind(model: Any) -> str:
    if not hasattr(model, "get_params"):
        return "other"
    try:
        from sklearn.base import is_classifier, is_regressor

        return "classifier" if is_classifier(model) else "regressor" if is_regressor(model) else "other"
    except (ImportError, AttributeError):  # not installed, or a look-alike without tags
        return "other"


def _groups(players: Any, rows: int) -> list[NDArray[np.int64]]:
    """Row numbers of each player, in increasing order."""
    if players is None:
        return list(np.arange(rows)[:, None])
    if isinstance(players, numbers.Number):
        count = integer("players", players, 1, rows)
        return [np.arange(player, rows, count) for player in range(count)]
    owner = np.full(rows, -1)
    groups = []
    for player, group in enumerate(players):
        index = np.atleast_1d(np.asarray(group))
        if index.ndim != 1 or index.dtype.kind not in "iu" or not index.size:
            raise TypeError(
                f"players: player {player} must be a non-empty vector of row numbers, got dtype "
                f"{index.dtype} and shape {index.shape}; use np.flatnonzero on a mask"
            )
        if index.min() < 0 or index.max() >= rows:
            raise ValueError(
                f"players: player {player} has row {index.min() if index.min() < 0 else index.max()}, but "
                f"rows are 0..{rows - 1}; count from zero"
            )
        taken = owner[index] >= 0
        if taken.any() or len(np.unique(index)) < len(index):
            other = int(owner[index][taken][0]) if taken.any() else player
            raise ValueError(
                f"players: a row of player {player} also belongs to player {other}; make them disjoint"
            )
        owner[index] = player
        groups.append(np.sort(index).astype(np.int64))
    if not groups:
        raise ValueError("players must not be empty, got no group; use None for one player a row")
    return groups


def _check_lengths(X: Any, y: Any, X_val: Any, y_val: Any) -> None:
    """Refuse data whose inputs and targets differ in length."""
    for name, inputs, other, targets in (("y", X, "X", y), ("y_val", X_val, "X_val", y_val)):
        if _length(other, inputs) != _length(name, targets):
            raise ValueError(
                f"{name} must have one entry a row of {other} ({_length(other, inputs)}), got "
                f"{_length(name, targets)}; did two arguments change places?"
            )


def _length(name: str, value: Any) -> int:
    """Number of rows of any kind of data."""
    shape = getattr(value, "shape", None)
    try:
        length = int(shape[0]) if shape is not None else len(value)
    except (TypeError, IndexError):
        raise TypeError(
            f"{name} must hold rows, got {type(value).__name__}; pass an array, a table or a list"
        ) from None
    if not length:
        raise ValueError(f"{name} must not be empty, got 0 rows")
    return length


def _take(X: Any, index: NDArray[np.int64]) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[index]
    return [X[row] for row in index] if isinstance(X, list | tuple) else X[index]
