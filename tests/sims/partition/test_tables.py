"""Tables of real data against scikit-learn's own fits on every coalition."""

import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism import errors
from porism.sims.partition import DATASETS, flipped_world, knn_table, logistic_table


def members(mask, n):
    return [i for i in range(n) if mask >> i & 1]


def world(seed=0, n=6, classes=3, m=17):
    rng = np.random.default_rng(seed)
    y, y_val = rng.integers(classes, size=n), rng.integers(classes, size=m)
    y[:classes] = np.arange(classes)
    return rng.normal(size=(n, 4)) + y[:, None], y, rng.normal(size=(m, 4)) + y_val[:, None], y_val


def relabel(scores, order):
    masks = np.arange(len(scores))
    return scores[sum((masks >> new & 1) << player for new, player in enumerate(order))]


@pytest.mark.full
@pytest.mark.parametrize("K", [1, 2, 3, 9])
@pytest.mark.parametrize("seed", range(3))
def test_knn_table_is_scikit_learn_on_every_coalition(needs, K, seed):
    needs("sklearn")
    from sklearn.neighbors import KNeighborsClassifier

    X, y, X_val, y_val = world(seed)
    accuracy, soft = (knn_table(X, y, X_val, y_val, K, metric).scores for metric in ("accuracy", "soft"))
    for mask in range(1, 64):
        rows = members(mask, 6)
        model = KNeighborsClassifier(min(K, len(rows)), algorithm="brute").fit(X[rows], y[rows])
        assert accuracy[mask] == model.score(X_val, y_val)
        seen = np.searchsorted(model.classes_, y_val).clip(0, len(model.classes_) - 1)
        right = model.predict_proba(X_val)[np.arange(17), seen] * (model.classes_[seen] == y_val)
        assert soft[mask] == pytest.approx(right.mean(), abs=1e-15)
    assert accuracy[0] == soft[0] == pytest.approx(1 / 3)


def test_knn_ties_go_to_the_smaller_player_and_label():
    X, y = [[1.0], [-1.0], [1.0]], ["b", "a", "c"]
    nearest = knn_table(X, y, [[0.0]], ["b"], K=1).scores
    assert nearest[[0b011, 0b101, 0b110]].tolist() == [1.0, 1.0, 0.0]
    vote = knn_table(X, y, [[0.0]], ["a"], K=2).scores
    assert vote[[0b011, 0b110, 0b101]].tolist() == [1.0, 1.0, 0.0]


def test_knn_labels_that_nobody_has_are_never_right():
    scores = knn_table([[0.0], [1.0]], [5, 7], [[0.0], [0.0]], [5, 6], K=1, metric="soft").scores
    assert scores.tolist() == [0.25, 0.5, 0.0, 0.5]


def test_knn_table_of_more_coalitions_than_a_chunk(monkeypatch):
    from porism.sims.partition import tables

    X, y, X_val, y_val = world(1, n=9)
    whole = [knn_table(X, y, X_val, y_val, 2, metric).scores for metric in ("accuracy", "soft")]
    monkeypatch.setattr(tables, "CHUNK", 48)
    parts = [knn_table(X, y, X_val, y_val, 2, metric).scores for metric in ("accuracy", "soft")]
    assert (np.array(whole) == np.array(parts)).all()


def test_knn_table_of_twelve_players_is_fast():
    X, y, X_val, y_val = world(0, n=12, classes=2, m=60)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        knn_table(X, y, X_val, y_val, 3)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1


@pytest.mark.full
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_logistic_table_is_scikit_learn_on_every_coalition(needs, C):
    needs("sklearn")
    from sklearn.linear_model import LogisticRegression

    X, y, X_val, y_val = world(4, n=7, classes=2)
    accuracy, soft = (logistic_table(X, y, X_val, y_val, C, metric).scores for metric in ("accuracy", "soft"))
    for mask in range(1, 128):
        rows = members(mask, 7)
        if len(set(y[rows])) == 1:
            assert accuracy[mask] == soft[mask] == np.mean(y_val == y[rows[0]])
            continue
        model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000)
        model.fit(X[rows], y[rows])
        assert accuracy[mask] == model.score(X_val, y_val)
        right = model.predict_proba(X_val)[np.arange(17), y_val].mean()
        assert soft[mask] == pytest.approx(right, abs=1e-8)  # both stop at a gradient of about 1e-12
    assert accuracy[0] == soft[0] == 0.5


def test_logistic_table_finds_stationary_points():
    """The gradient of the objective vanishes at the fit."""
    from porism.sims.partition.tables import _logistic_fits

    rng = np.random.default_rng(0)
    points = np.column_stack([rng.normal(size=(6, 3)), np.ones(6)])
    signs = np.array([1.0, -1, 1, -1, 1, -1])
    masks = np.array([0b111111, 0b000011, 0b110110])
    inside = (masks[:, None] >> np.arange(6) & 1).astype(float)
    for theta, member in zip(_logistic_fits(points, signs, inside, 2.0), inside, strict=True):
        slope = member / (1 + np.exp(signs * (points @ theta)))
        gradient = theta * [1, 1, 1, 0] - 2.0 * (slope * signs) @ points
        assert np.abs(gradient).max() < 1e-10


def test_logistic_table_does_not_see_rotations_or_idle_features():
    X, y, X_val, y_val = world(2, n=6, classes=2)
    plain = logistic_table(X, y, X_val, y_val, metric="soft").scores
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    wide, wide_val = np.pad(X @ turn, ((0, 0), (0, 9))), np.pad(X_val @ turn, ((0, 0), (0, 9)))
    # rotated fits agree up to the stopping rule
    np.testing.assert_allclose(
        logistic_table(wide, y, wide_val, y_val, metric="soft").scores, plain, atol=1e-9
    )


@pytest.mark.parametrize("table", [knn_table, logistic_table])
@given(order=st.permutations(range(5)), metric=st.sampled_from(["accuracy", "soft"]))
@settings(max_examples=20, deadline=None)
def test_tables_follow_relabelling(table, order, metric):
    X, y, X_val, y_val = world(3, n=5, classes=2)
    plain = table(X, y, X_val, y_val, metric=metric).scores
    moved = table(X[order], y[order], X_val, y_val, metric=metric).scores
    np.testing.assert_allclose(moved, relabel(plain, order), atol=1e-9)


def test_flipped_labels_cost_accuracy():
    """A leave-one-in check that labels matter: the clean table is better on average."""
    X, y, X_val, y_val = world(5, n=10, classes=2, m=60)
    wrong = y.copy()
    wrong[:5] = 1 - wrong[:5]
    assert knn_table(X, y, X_val, y_val).scores.mean() > knn_table(X, wrong, X_val, y_val).scores.mean() + 0.1


@pytest.mark.full
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("seed", range(5))
def test_flipped_world(needs, dataset, seed):
    datasets = needs("sklearn.datasets")
    drawn = flipped_world(dataset, n=13, flips=3, n_validation=60, rng=seed)
    assert drawn.X.shape[0] == 13
    assert drawn.X_val.shape == (60, drawn.X.shape[1])
    assert np.flatnonzero(drawn.y != drawn.y_clean).tolist() == drawn.flipped.tolist()
    assert len(drawn.flipped) == 3
    counts = np.unique(drawn.y_clean, return_counts=True)[1]
    assert counts.max() - counts.min() <= 1
    assert set(drawn.y) <= set(drawn.y_clean)
    load = {"digits01": lambda: datasets.load_digits(n_class=2)}.get(dataset)
    data = load() if load else getattr(datasets, f"load_{dataset}")()
    scaled = (data.data - data.data.mean(0)) / np.maximum(data.data.std(0), 1e-300)
    rows = []
    for point, label in zip([*drawn.X, *drawn.X_val], [*drawn.y_clean, *drawn.y_val], strict=True):
        (row,) = np.flatnonzero(np.isclose(scaled, point, atol=1e-9).all(axis=1))[:1]
        assert data.target[row] == label
        rows.append(row)
    if dataset != "digits01":
        assert len(set(rows)) == 73  # training and validation are disjoint


@pytest.mark.full
def test_flipped_world_is_its_seed(needs):
    needs("sklearn")
    a, b, c = (flipped_world("wine", 12, 3, 60, rng) for rng in (1, np.random.default_rng(1), 2))
    assert (a.X == b.X).all()
    assert (a.flipped == b.flipped).all()
    assert (a.X != c.X).any()


def test_flipped_world_names_the_extra(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="sklearn")

    monkeypatch.setattr("porism.checks.importlib.import_module", absent)
    with pytest.raises(errors.MissingExtraError, match=r"porism\[data\]"):
        flipped_world("wine", 12, 3, 60)


GOOD = ([[0.0], [1.0]], [0, 1], [[0.5]], [1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: knn_table(*GOOD, K=0), ValueError, r"K must be >= 1, got 0"),
        (lambda: knn_table(*GOOD, metric="f1"), ValueError, r"metric must be one of 'accuracy', 'soft'"),
        (
            lambda: knn_table([[0.0]] * 21, [0] * 21, *GOOD[2:]),
            ValueError,
            r"len\(X\) must be in 1..20, got 21",
        ),
        (lambda: knn_table([0.0, 1.0], *GOOD[1:]), ValueError, r"X must have 2 axes"),
        (lambda: knn_table([[np.nan], [1.0]], *GOOD[1:]), ValueError, r"X must be finite"),
        (
            lambda: knn_table(*GOOD[:2], [[0.5, 1.0]], [1]),
            ValueError,
            r"X_val must have 1 columns as X, got 2",
        ),
        (
            lambda: knn_table(GOOD[0], [0], *GOOD[2:]),
            ValueError,
            r"y must have one label a row, shape \(2,\)",
        ),
        (lambda: knn_table(*GOOD[:3], [1, 1]), ValueError, r"y_val must have one label a row, shape \(1,\)"),
        (lambda: knn_table(*GOOD[:2], np.empty((0, 1)), []), ValueError, r"len\(X_val\) must be >= 1, got 0"),
        (
            lambda: logistic_table(GOOD[0], [1, 1], *GOOD[2:]),
            ValueError,
            r"y must have exactly two classes, got 1",
        ),
        (lambda: logistic_table(*GOOD, C=0.0), ValueError, r"C must be finite and > 0"),
        (lambda: flipped_world("iris", 9, 1, 9), ValueError, r"dataset must be one of 'breast_cancer'"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wine", 2, 1, 60), r"n must be in 3..177, got 2"),
        (("wine", 12, 13, 60), r"flips must be in 0..12, got 13"),
        (("wine", 12, 3, 167), r"n_validation must be in 1..166, got 167"),
        (("wine", 170, 3, 2), r"n must leave equal class counts, got n=170"),
    ],
)
def test_bad_worlds(needs, arguments, message):
    needs("sklearn")
    with pytest.raises(ValueError, match=message):
        flipped_world(*arguments)


def test_inputs_stay_as_they_are():
    X, y, X_val, y_val = world(0, classes=2)
    before = [np.copy(part) for part in (X, y, X_val, y_val)]
    for part in (X, y, X_val, y_val):
        part.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knn_table(X, y, X_val, y_val)
        logistic_table(X[::1], y, X_val, y_val)
    assert all((a == b).all() for a, b in zip(before, (X, y, X_val, y_val), strict=True))
