"""Estimators of values from features that are saved as plain arrays: ridge, neighbours, forest."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.results import Result

Floats = NDArray[np.float64]


def _standard(X: Floats) -> tuple[Floats, Floats]:
    """Centre and scale of features; one that is constant, but for rounding of its mean, keeps its scale."""
    scale = X.std(0)
    return X.mean(0), np.where(scale <= 1e-12 * np.abs(X).max(0), 1.0, scale)


@dataclasses.dataclass(frozen=True)
class RidgeValues(Result):
    """Ridge regression on standardised features, one column of coefficients a specialist."""

    centre: Floats
    scale: Floats
    slopes: Floats
    intercept: Floats

    @classmethod
    def fit(cls, X: Floats, Y: Floats, seed: int = 0, penalty: float = 1.0) -> "RidgeValues":
        centre, scale = _standard(X)
        Z, intercept = (X - centre) / scale, Y.mean(0)
        slopes = np.linalg.solve(Z.T @ Z + penalty * np.eye(Z.shape[1]), Z.T @ (Y - intercept))
        return cls(centre, scale, slopes, intercept)

    @property
    def width(self) -> int:
        return len(self.centre)

    def predict(self, X: Floats) -> Floats:
        out: Floats = (X - self.centre) / self.scale @ self.slopes + self.intercept
        return out


@dataclasses.dataclass(frozen=True)
class NeighbourValues(Result):
    """Mean value of the nearest training queries in standardised features."""

    centre: Floats
    scale: Floats
    X: Floats
    Y: Floats
    count: int

    @classmethod
    def fit(cls, X: Floats, Y: Floats, seed: int = 0, count: int = 40) -> "NeighbourValues":
        centre, scale = _standard(X)
        return cls(centre, scale, (X - centre) / scale, Y, min(count, len(X)))

    @property
    def width(self) -> int:
        return len(self.centre)

    def predict(self, X: Floats) -> Floats:
        from scipy.spatial import KDTree

        near = KDTree(self.X).query((X - self.centre) / self.scale, self.count)[1]
        out: Floats = self.Y[np.reshape(near, (len(X), self.count))].mean(1)
        return out


@dataclasses.dataclass(frozen=True)
class ForestValues(Result):
    """Extremely randomised trees for all specialists at once, kept as arrays of nodes."""

    roots: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[Any]
    threshold: Floats
    value: Floats
    width: int

    def __post_init__(self) -> None:
        inner = np.flatnonzero(self.left >= 0)
        n = len(self.left)
        below = (
            (self.left[inner] > inner)
            & (self.right[inner] > inner)
            & (self.left[inner] < n)
            & (self.right[inner] < n)
        )
        if (
            not below.all()
            or not len(self.right) == len(self.feature) == len(self.threshold) == len(self.value) == n
        ):
            raise ValueError(
                "the saved forest is damaged: a child does not stand below its parent; fit it again"
            )

    @classmethod
    def fit(cls, X: Floats, Y: Floats, seed: int = 0) -> "ForestValues":
        require("sklearn", "data")
        from sklearn.ensemble import ExtraTreesRegressor

        model = ExtraTreesRegressor(60, min_samples_leaf=4, max_features=0.4, random_state=seed, n_jobs=1)
        Y = Y[:, 0] if Y.shape[1] == 1 else Y  # one column must be flat, or scikit-learn warns
        trees = [tree.tree_ for tree in model.fit(X, Y).estimators_]
        roots = np.cumsum([0, *(tree.node_count for tree in trees)])
        shifted = [
            [np.where(side >= 0, side + start, -1) for side in (tree.children_left, tree.children_right)]
            for tree, start in zip(trees, roots, strict=False)
        ]
        left, right = (np.concatenate(sides).astype(np.int32) for sides in zip(*shifted, strict=True))
        narrow = np.int16 if X.shape[1] <= np.iinfo(np.int16).max else np.int32
        feature = np.concatenate([tree.feature for tree in trees]).astype(narrow)
        value = np.concatenate([tree.value[:, :, 0] for tree in trees])
        threshold = np.concatenate([tree.threshold for tree in trees])
        return cls(roots[:-1], left, right, feature, threshold, value, X.shape[1])

    def predict(self, X: Floats) -> Floats:
        X = X.astype(np.float32)  # as the trees were grown
        total = np.zeros((len(X), self.value.shape[1]))
        for root in self.roots:
            node = np.full(len(X), root, np.int64)
            inner = np.flatnonzero(self.left[node] >= 0)
            while len(inner):
                at = node[inner]
                goes_left = X[inner, self.feature[at]] <= self.threshold[at]
                node[inner] = np.where(goes_left, self.left[at], self.right[at])
                inner = inner[self.left[node[inner]] >= 0]
            total += self.value[node]
        return total / len(self.roots)


class Custom:
    """A scikit-learn regressor of the user: cloned for every fold, not saved."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: Floats, Y: Floats, seed: int = 0) -> "Custom":
        require("sklearn", "data")
        from sklearn.base import clone

        return Custom(clone(self.regressor).fit(X, Y))

    @property
    def width(self) -> int:
        return int(self.regressor.n_features_in_)

    def predict(self, X: Floats) -> Floats:
        return np.reshape(np.asarray(self.regressor.predict(X), float), (len(X), -1))


NAMED: dict[str, Any] = {"ridge": RidgeValues, "knn": NeighbourValues, "trees": ForestValues}


def estimator(name: str, choice: Any) -> Any:
    """The estimator that a user means by a name or a scikit-learn regressor."""
    if isinstance(choice, str):
        if choice not in NAMED:
            raise ValueError(
                f"{name} must be an array of estimates, one of {', '.join(map(repr, NAMED))} "
                f"or a scikit-learn regressor, got {choice!r}"
            )
        return NAMED[choice]
    return Custom(choice)


def cross_fitted(kind: Any, X: Floats, Y: Floats, folds: NDArray[np.int64], seed: int) -> Floats:
    """Predictions for every row by a model that saw none of its fold."""
    out = np.empty_like(Y)
    for fold in np.unique(folds):
        held = folds == fold
        out[held] = kind.fit(X[~held], Y[~held], seed=seed).predict(X[held])
    return out


def assign_folds(n: int, folds: int, groups: Any, seed: int) -> NDArray[np.int64]:
    """Fold of each row; rows of one group share a fold."""
    rng = np.random.default_rng(seed)
    if groups is None:
        fold = rng.integers(0, folds, n)
        if len(np.unique(fold)) < folds:  # few rows: deal them out
            fold = rng.permutation(np.arange(n) % folds)
        return fold
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups must have one label for each of the {n} queries, got shape {labels.shape}")
    try:
        kinds, place = np.unique(labels, return_inverse=True)
    except TypeError:  # such as None beside text
        raise TypeError("groups must be labels of one kind, numbers or text; convert them with str") from None
    if len(kinds) < folds:
        raise ValueError(f"groups must have at least as many labels as folds={folds}, got {len(kinds)}")
    return rng.permutation(np.arange(len(kinds)) % folds)[place]
