"""Score matrices made offline: a dozen scikit-learn classifiers, each at home with a few classes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of, require
from porism.sims.pandora.matrix import ScoreMatrix

__all__ = ["CLASSIFIERS", "DATA_SETS", "classifier_matrix"]

Floats = NDArray[np.float64]

CLASSIFIERS = (
    "logistic", "ridge", "bayes", "neighbour", "neighbours", "svm", "linear svm", "tree", "stump", "forest",
    "extra trees", "discriminant",
)  # fmt: skip
"""Specialists of `classifier_matrix`, in column order."""

DATA_SETS = ("digits", "breast_cancer")
"""Data sets that scikit-learn brings along: 1,797 images of 10 digits, 569 samples of 2 kinds."""


def classifier_matrix(
    dataset: str = "digits",
    *,
    train: float = 1 / 3,
    home: float = 0.4,
    strangers: int = 3,
    cheap: int = 3,
    seed: int | np.random.Generator | None = 0,
) -> ScoreMatrix:
    """Right and wrong answers of twelve classifiers, trained on different classes, to held-out samples.

    Classifier k sees all training samples of its home classes and a handful of the others, so that it is good
    at home and poor elsewhere. Cheap features of a query are its first principal components, the features for
    the expensive estimator all of its standardised features.

    Parameters
    ----------
    dataset : {"digits", "breast_cancer"}, default "digits"
        Bundled data set (extra ``data``).
    train : float, default 1/3
        Share of samples that classifiers are trained on, in (0, 1); the others are the queries.
    home : float, default 0.4
        Share of classes at home, in (0, 1].
    strangers : int, default 3
        Training samples of each other class, >= 2.
    cheap : int, default 3
        Principal components that the cheap estimator sees, >= 1.
    seed : int, Generator or None, default 0
        Randomness of the split and of the classifiers.

    Returns
    -------
    ScoreMatrix
        Scores 0 and 1; `subset` is the true class.

    Raises
    ------
    ValueError
        If the data set is unknown or a share is out of range.
    MissingExtraError
        If scikit-learn is not installed.

    Notes
    -----
    Standardisation and components come from the training samples alone. Under a second on one core.

    Examples
    --------
    >>> classifier_matrix("digits").scores.shape  # doctest: +SKIP
    (1198, 12)
    """
    one_of("dataset", dataset, DATA_SETS)
    strangers, cheap = integer("strangers", strangers, low=2), integer("cheap", cheap, low=1)
    for name, share in (("train", train), ("home", home)):
        if not 0 < share <= 1 or (name == "train" and share == 1):
            raise ValueError(f"{name} must be a share between 0 and 1, got {share!r}")
    rng = generator(seed, "seed")
    data = getattr(require("sklearn.datasets", "data"), f"load_{dataset}")()
    X, y = np.asarray(data.data, float), np.asarray(data.target)
    order = rng.permutation(len(y))
    count = round(train * len(y))
    taught, asked = order[:count], order[count:]
    centre, scale = X[taught].mean(0), X[taught].std(0)
    X = (X - centre) / np.where(scale > 0, scale, 1.0)
    classes = np.unique(y)
    at_home = max(round(home * len(classes)), 1)
    columns = []
    for k, model in enumerate(_classifiers(int(rng.integers(2**31)))):
        own = np.roll(classes, -k)[:at_home]
        few = [taught[y[taught] == label][:strangers] for label in classes if label not in own]
        seen = np.concatenate([taught[np.isin(y[taught], own)], *few])
        columns.append(model.fit(X[seen], y[seen]).predict(X[asked]) == y[asked])
    axes = np.linalg.svd(X[taught], full_matrices=False)[2][:cheap]
    scores = np.column_stack(columns).astype(np.float64)
    return ScoreMatrix(
        scores,
        CLASSIFIERS,
        np.ones(scores.shape, bool),
        features=X[asked],
        cheap_features=X[asked] @ axes.T,
        subset=y[asked].astype(str),
        source=f"scikit-learn's {dataset}, twelve of its classifiers",
    )


def _classifiers(seed: int) -> list[Any]:
    """The specialists, in the order of their names."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    return [
        LogisticRegression(C=0.1, max_iter=1000), RidgeClassifier(10.0), GaussianNB(var_smoothing=0.1),
        KNeighborsClassifier(1), KNeighborsClassifier(5, weights="distance"), SVC(), SVC(kernel="linear"),
        DecisionTreeClassifier(random_state=seed), DecisionTreeClassifier(max_depth=4, random_state=seed),
        RandomForestClassifier(20, random_state=seed), ExtraTreesClassifier(20, random_state=seed),
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3),
    ]  # fmt: skip
