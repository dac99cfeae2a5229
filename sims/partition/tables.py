"""Utility tables of real data: nearest neighbours and logistic regression, flipped labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of, positive, require
from porism.theory.partition import UtilityTable

__all__ = ["DATASETS", "FlippedWorld", "flipped_world", "knn_table", "logistic_table"]

DATASETS = ("breast_cancer", "digits01", "wine")
MAX_PLAYERS = 20
METRICS = ("accuracy", "soft")
CHUNK = 1 << 15  # coalitions at a time: one uint8 vector of this length stays in cache


@dataclass(frozen=True, eq=False)
class FlippedWorld:
    """Training points, some with a wrong label, and clean validation points.

    The truth that a data valuation should find: ``y[flipped] != y_clean[flipped]``, all others equal.

    Parameters
    ----------
    dataset : str
        Name of the data.
    X : float64 array, shape (n, d)
        Training points (players), standardised features.
    y : int64 array, shape (n,)
        Labels as the learner sees them.
    X_val : float64 array, shape (n_validation, d)
        Validation points, disjoint from the training points.
    y_val : int64 array, shape (n_validation,)
        Their true labels.
    flipped : int64 array, shape (flips,)
        Players with a wrong label, in increasing order.
    y_clean : int64 array, shape (n,)
        True labels of the training points.

    Examples
    --------
    >>> points, labels = np.array([[0.0], [1.0]]), np.array([0, 1])
    >>> world = FlippedWorld("toy", points, labels[::-1], points, labels, np.arange(2), labels)
    >>> (world.y != world.y_clean)[world.flipped].tolist()
    [True, True]
    """

    dataset: str
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    X_val: NDArray[np.float64]
    y_val: NDArray[np.int64]
    flipped: NDArray[np.int64]
    y_clean: NDArray[np.int64]


def flipped_world(
    dataset: str, n: int, flips: int, n_validation: int, rng: np.random.Generator | int | None = None
) -> FlippedWorld:
    """Draw a small training set with wrong labels from data that scikit-learn brings along.

    Parameters
    ----------
    dataset : {"breast_cancer", "digits01", "wine"}
        Data to draw from (569, 360 and 178 points; 2, 2 and 3 classes; digits01 holds the zeros and ones).
    n : int
        Number of training points, at least the number of classes.
    flips : int
        How many of them get a wrong label, 0 to n.
    n_validation : int
        Number of validation points, >= 1.
    rng : Generator, int or None
        Source of the choice of points and labels.

    Returns
    -------
    FlippedWorld
        The world with its truth.

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed (extra ``data``).
    TypeError, ValueError
        If a number is out of range or the data has too few points.

    Notes
    -----
    Features are standardised with mean and deviation of the whole data, constant ones stay zero. Training
    points are drawn with equal class counts, up to one; the classes that get one more are random. Validation
    points are uniform among the rest. Flipped players are uniform; a wrong label is uniform among the other
    classes, so that flips can leave a class without a point.

    Examples
    --------
    >>> world = flipped_world("wine", n=12, flips=3, n_validation=60, rng=0)  # doctest: +SKIP
    >>> flipped_world("iris", n=12, flips=3, n_validation=60)
    Traceback (most recent call last):
    ValueError: dataset must be one of 'breast_cancer', 'digits01', 'wine', got str 'iris'
    """
    one_of("dataset", dataset, DATASETS)
    loaders, rng = require("sklearn.datasets", "data"), generator(rng)
    if dataset == "digits01":
        X, y = loaders.load_digits(n_class=2, return_X_y=True)
    else:
        X, y = getattr(loaders, f"load_{dataset}")(return_X_y=True)
    classes = np.unique(y)
    n = integer("n", n, len(classes), len(y) - 1)
    flips = integer("flips", flips, 0, n)
    n_validation = integer("n_validation", n_validation, 1, len(y) - n)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    quota = np.full(len(classes), n // len(classes))
    quota[rng.permutation(len(classes))[: n % len(classes)]] += 1
    pools = [rng.permutation(np.flatnonzero(y == label)) for label in classes]
    short = [
        int(label) for label, pool, count in zip(classes, pools, quota, strict=True) if len(pool) < count
    ]
    if short:
        raise ValueError(
            f"n must leave equal class counts, got n={n}: class {short[0]} has too few points; take less"
        )
    train = rng.permutation(np.concatenate([pool[:count] for pool, count in zip(pools, quota, strict=True)]))
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), train))[:n_validation]
    clean = y[train].astype(np.int64)
    flipped = np.sort(rng.permutation(n)[:flips])
    labels = clean.copy()
    position = np.searchsorted(classes, clean[flipped])
    labels[flipped] = classes[(position + rng.integers(1, len(classes), size=flips)) % len(classes)]
    return FlippedWorld(dataset, X[train], labels, X[rest], y[rest].astype(np.int64), flipped, clean)


def knn_table(
    X: ArrayLike, y: ArrayLike, X_val: ArrayLike, y_val: ArrayLike, K: int = 3, metric: str = "accuracy"
) -> UtilityTable:
    """Score every coalition of training points as a K-nearest-neighbour classifier.

    Let ``N(x)`` be the ``min(K, |S|)`` members of S nearest to the validation point x.

    - ``accuracy``: share of validation points whose majority vote among N(x) is right.
    - ``soft``: mean over validation points of the share of N(x) with the right label, the predicted
      probability of the true class.

    Parameters
    ----------
    X : array, shape (n, d)
        Training points, one a player, finite; n from 1 to 20.
    y : array, shape (n,)
        Their labels, of any type that sorts.
    X_val : array, shape (m, d)
        Validation points, finite, m >= 1.
    y_val : array, shape (m,)
        Their labels; a label that y does not have is never predicted.
    K : int, default 3
        Number of neighbours, >= 1.
    metric : {"accuracy", "soft"}
        What is scored.

    Returns
    -------
    UtilityTable
        A complete table with scores in [0, 1].

    Raises
    ------
    TypeError, ValueError
        If shapes do not match or a number is out of range.

    Notes
    -----
    Euclidean distance; equal distances go to the smaller player, an equal vote to the smaller label. The
    empty coalition guesses uniformly among the C classes of y, in both metrics: ``1/C`` for each validation
    label that y has, 0 for the others. A coalition of one class predicts it, which needs no rule of its own.

    Time O(m n 2^n) on bytes; memory 8 * 2^n bytes and a few megabytes. Scores are multiples of 1/m (accuracy)
    or of 1/(m s), s = 1..K, each rounded once.

    References
    ----------
    Jia et al. (2019), "Efficient task-specific data valuation for nearest neighbor algorithms". Their utility
    divides by K also where |S| < K; this one divides by min(K, |S|).

    Examples
    --------
    >>> knn_table([[0.0], [1.0]], ["a", "b"], [[0.2], [0.9]], ["a", "b"], K=1).scores.tolist()
    [0.5, 0.5, 0.5, 1.0]
    """
    X, labels, X_val, truth, classes = _data(X, y, X_val, y_val)
    K = min(integer("K", K, 1), len(X))
    soft = one_of("metric", metric, METRICS) == "soft"
    distance = np.stack([((X_val - point) ** 2).sum(axis=1) for point in X], axis=1)
    order = np.argsort(distance, axis=1, kind="stable")
    total = 1 << len(X)
    scores = np.empty(total)
    for start in range(0, total, CHUNK):
        masks = np.arange(start, min(start + CHUNK, total))
        members = (masks >> np.arange(len(X))[:, None] & 1).astype(np.uint8)
        scores[masks] = _knn_chunk(members, order, labels, truth, classes, K, soft)
    scores[0] = np.mean(truth >= 0) / classes
    return UtilityTable.from_array(scores)


def _knn_chunk(
    members: NDArray[np.uint8],
    order: NDArray[np.int64],
    labels: NDArray[np.int64],
    truth: NDArray[np.int64],
    classes: int,
    K: int,
    soft: bool,
) -> NDArray[np.float64]:
    hits = np.zeros(members.shape[1], dtype=np.int64)
    for nearest, target in zip(order, truth, strict=True):
        votes = np.zeros((classes, members.shape[1]), dtype=np.uint8)
        found = np.zeros(members.shape[1], dtype=np.uint8)
        for player in nearest:
            taken = members[player] & (found < K)
            votes[labels[player]] += taken
            found += taken
        if target >= 0:
            hits += votes[target] if soft else votes.argmax(axis=0) == target
    used = np.minimum(members.sum(axis=0), K) if soft else np.ones(1)
    return hits / (len(truth) * np.maximum(used, 1.0))


def logistic_table(
    X: ArrayLike, y: ArrayLike, X_val: ArrayLike, y_val: ArrayLike, C: float = 1.0, metric: str = "accuracy"
) -> UtilityTable:
    """Score every coalition of training points as a logistic regression with two classes.

    Each coalition minimises ``|w|^2 / 2 + C * sum over i in S of log(1 + exp(-t_i (x_i . w + b)))``, t_i = -1
    or 1.

    - ``accuracy``: share of validation points on the right side (a tie counts for the smaller label).
    - ``soft``: mean predicted probability of the true label.

    Parameters
    ----------
    X : array, shape (n, d)
        Training points, one a player, finite; n from 2 to 20 (2^10 fits take well below a second).
    y : array, shape (n,)
        Their labels; exactly two classes.
    X_val : array, shape (m, d)
        Validation points, finite, m >= 1.
    y_val : array, shape (m,)
        Their labels; a label that y does not have is never predicted.
    C : float, default 1.0
        Inverse strength of the penalty, > 0; the intercept is not penalised.
    metric : {"accuracy", "soft"}
        What is scored.

    Returns
    -------
    UtilityTable
        A complete table with scores in [0, 1].

    Raises
    ------
    TypeError, ValueError
        If shapes do not match, y has not two classes, or a number is out of range.

    Notes
    -----
    A coalition of one class has no minimiser (b runs to infinity): it predicts its class with probability 1,
    the limit. The empty coalition guesses: 1/2 for each validation label that y has, in both metrics.

    Newton steps with halving, for a batch of coalitions at once, until the gradient is below 1e-12 of its
    scale. The penalty does not see rotations, so the features are first rotated into the at most n dimensions
    that the training points span: O(2^n n^3) time for any d.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The elements of statistical learning", sections 4.4.1 and 18.3.5.

    Examples
    --------
    >>> logistic_table([[0.0], [1.0]], [0, 1], [[-1.0], [2.0]], [0, 1]).scores.tolist()
    [0.5, 0.5, 0.5, 1.0]
    """
    X, labels, X_val, truth, classes = _data(X, y, X_val, y_val)
    if classes != 2:
        raise ValueError(f"y must have exactly two classes, got {classes}; use knn_table or utility_table")
    C = positive("C", C)
    soft = one_of("metric", metric, METRICS) == "soft"
    basis, triangle = np.linalg.qr(X.T)  # X = triangle.T @ basis.T
    points = np.column_stack([triangle.T, np.ones(len(X))])
    inputs = np.column_stack([X_val @ basis, np.ones(len(X_val))])
    signs = np.where(labels == 1, 1.0, -1.0)
    total = 1 << len(X)
    scores = np.empty(total)
    for start in range(0, total, 1 << 10):
        masks = np.arange(start, min(start + (1 << 10), total))
        members = (masks[:, None] >> np.arange(len(X)) & 1).astype(np.float64)
        ones = members @ labels
        mixed = (ones > 0) & (ones < members.sum(axis=1))
        margins = np.where(ones > 0, np.inf, -np.inf)[:, None].repeat(len(truth), axis=1)
        margins[mixed] = _logistic_fits(points, signs, members[mixed], C) @ inputs.T
        side = _sigmoid(margins) if soft else (margins > 0).astype(np.float64)
        right = np.where(truth == 1, side, np.where(truth == 0, 1.0 - side, 0.0))
        scores[masks] = right.mean(axis=1)
    scores[0] = np.mean(truth >= 0) / 2
    return UtilityTable.from_array(scores)


def _logistic_fits(
    points: NDArray[np.float64], signs: NDArray[np.float64], members: NDArray[np.float64], C: float
) -> NDArray[np.float64]:
    penalty = np.ones(points.shape[1])
    penalty[-1] = 0.0
    theta = np.zeros((len(members), points.shape[1]))
    scale = 1.0 + C * np.abs(points).sum()
    loss = _logistic_loss(theta, points, signs, members, C, penalty)
    active = np.arange(len(members))
    for _ in range(200):
        slope = C * members[active] * _sigmoid(-signs * (theta[active] @ points.T))
        gradient = penalty * theta[active] - (slope * signs) @ points
        curved = np.abs(gradient).max(axis=1) > 1e-12 * scale
        active, gradient, slope = active[curved], gradient[curved], slope[curved]
        if not active.size:
            return theta
        weight = slope * (1.0 - slope / np.maximum(C * members[active], 1e-300))
        hessian = np.einsum("bi,ij,ik->bjk", weight, points, points, optimize=True) + np.diag(penalty + 1e-12)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        decrease = (step * gradient).sum(axis=1)
        length = np.ones(len(active))
        for _ in range(40):
            trial = theta[active] - length[:, None] * step
            value = _logistic_loss(trial, points, signs, members[active], C, penalty)
            worse = value > loss[active] - 1e-4 * length * decrease + 1e-14 * (1.0 + loss[active])
            if not worse.any():
                break
            length[worse] /= 2
        theta[active], loss[active] = trial, value
    raise RuntimeError(  # the objective is convex: only absurd scales of X or C lead here
        f"logistic_table did not converge for {active.size} coalitions, C={C}; standardise X or lower C"
    )


def _logistic_loss(
    theta: NDArray[np.float64],
    points: NDArray[np.float64],
    signs: NDArray[np.float64],
    members: NDArray[np.float64],
    C: float,
    penalty: NDArray[np.float64],
) -> NDArray[np.float64]:
    log_terms = np.logaddexp(0.0, -signs * (theta @ points.T))
    result: NDArray[np.float64] = (penalty * theta**2).sum(axis=1) / 2 + C * (members * log_terms).sum(axis=1)
    return result


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(x / 2))
    return result


def _data(
    X: ArrayLike, y: ArrayLike, X_val: ArrayLike, y_val: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], int]:
    points, inputs = finite_array("X", X, ndim=2), finite_array("X_val", X_val, ndim=2)
    integer("len(X)", len(points), 1, MAX_PLAYERS)
    integer("len(X_val)", len(inputs), 1)
    if points.shape[1] != inputs.shape[1]:
        raise ValueError(
            f"X_val must have {points.shape[1]} columns as X, got {inputs.shape[1]}; use the same features"
        )
    labels, truth = np.asarray(y), np.asarray(y_val)
    for name, values, rows in (("y", labels, len(points)), ("y_val", truth, len(inputs))):
        if values.shape != (rows,):
            raise ValueError(
                f"{name} must have one label a row, shape ({rows},), got {values.shape}; pass a flat vector"
            )
    classes, codes = np.unique(labels, return_inverse=True)
    place = np.searchsorted(classes, truth).clip(0, len(classes) - 1)
    return points, codes, inputs, np.where(classes[place] == truth, place, -1), len(classes)
