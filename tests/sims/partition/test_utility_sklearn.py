"""Utility tables of scikit-learn models: constant predictions, scorers, containers, pipelines."""

import numpy as np
import pytest

from porism.sims.partition import EvaluationError, flipped_world, knn_table, logistic_table, utility_table
from porism.theory.partition import Semivalue, semivalues

pytestmark = pytest.mark.full


@pytest.fixture
def world(needs):
    needs("sklearn")
    return flipped_world("wine", n=7, flips=1, n_validation=25, rng=3)


@pytest.fixture
def pair(needs):
    needs("sklearn")
    return flipped_world("breast_cancer", n=6, flips=1, n_validation=25, rng=0)


def data(world):
    return world.X, world.y, world.X_val, world.y_val


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_one_neighbour_is_the_vectorised_table(world, n_jobs):
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(1, algorithm="brute")
    table = utility_table(model, *data(world), n_jobs=n_jobs)
    assert (table.scores == knn_table(*data(world), K=1).scores).all()
    assert not hasattr(model, "classes_")


def test_classes_alone_get_a_constant_prediction(pair):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(solver="newton-cholesky", tol=1e-10)
    with pytest.raises(ValueError, match="class"):
        model.fit(pair.X[:1], pair.y[:1])
    table = utility_table(model, *data(pair))
    assert (table.scores == logistic_table(*data(pair)).scores).all()
    assert table.scores[1] == np.mean(pair.y_val == pair.y[0])
    proper = utility_table(model, *data(pair), scoring="neg_log_loss")
    assert proper.scores[1] < -5  # certain and wrong on some point
    ranked = utility_table(model, *data(pair), scoring="roc_auc")
    assert ranked.scores[[0, 1]].tolist() == [0.5, 0.5]


def test_empty_coalition_of_a_regressor_is_the_mean(needs):
    needs("sklearn")
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X, y, X_val, y_val = (
        rng.normal(size=(5, 2)),
        rng.normal(size=5),
        rng.normal(size=(9, 2)),
        rng.normal(size=9),
    )
    table = utility_table(Ridge(), X, y, X_val, y_val)
    expected = 1 - np.mean((y_val - y.mean()) ** 2) / np.var(y_val)
    assert table.scores[0] == pytest.approx(expected, abs=1e-12)
    assert utility_table(Ridge(), X, y, X_val, y_val, empty_score=0).scores[0] == 0.0


def test_frames_sparse_matrices_and_lists_give_the_same_table(world, needs, tmp_path):
    pandas, sparse = needs("pandas"), needs("scipy.sparse")
    from sklearn.tree import DecisionTreeClassifier

    model = DecisionTreeClassifier(random_state=0)
    X, y, X_val, y_val = data(world)
    plain = utility_table(model, X, y, X_val, y_val).scores
    names = [f"x{i}" for i in range(X.shape[1])]
    frames = [pandas.DataFrame(part, columns=names, index=np.arange(len(part))[::-1]) for part in (X, X_val)]
    framed = (frames[0], pandas.Series(y), frames[1], pandas.Series(y_val))
    for _ in range(2):  # the second time from the checkpoint
        scores = utility_table(model, *framed, n_jobs=2, checkpoint=tmp_path / "frames").scores
        assert (scores == plain).all()
    thin = (sparse.csr_array(X), y, sparse.csr_array(X_val), y_val)
    for _ in range(2):
        assert (utility_table(model, *thin, checkpoint=tmp_path / "sparse").scores == plain).all()
    assert (
        utility_table(model, X.tolist(), y.tolist(), X_val.tolist(), y_val.tolist()).scores == plain
    ).all()


def test_text_and_string_labels(needs):
    needs("sklearn")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    texts, labels = ["good film", "bad film", "good fun", "bad plot"], ["pro", "con", "pro", "con"]
    model = make_pipeline(CountVectorizer(), MultinomialNB())
    table = utility_table(model, texts, labels, ["good", "bad"], ["pro", "con"])
    assert table.scores[[0, 1, 2, 3, 15]].tolist() == [0.5, 0.5, 0.5, 1.0, 1.0]


def test_in_place_pipelines_do_not_reach_the_data(world):
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, _, X_val, _ = data(world)
    before = X.copy(), X_val.copy()
    rude = make_pipeline(StandardScaler(copy=False), RidgeClassifier())
    polite = make_pipeline(StandardScaler(), RidgeClassifier())
    assert (utility_table(rude, *data(world)).scores == utility_table(polite, *data(world)).scores).all()
    assert (before[0] == X).all()
    assert (before[1] == X_val).all()


def test_random_models_with_a_seed_do_not_depend_on_the_workers(world):
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(3, max_depth=2, random_state=4)
    coalitions = [[0, 1, 2, i] for i in range(3, 7)] + [[i, 6] for i in range(6)]
    tables = [
        utility_table(model, *data(world), n_jobs=jobs, coalitions=coalitions).scores for jobs in (1, 2, -1)
    ]
    assert np.array_equal(tables[0], tables[1], equal_nan=True)
    assert np.array_equal(tables[0], tables[2], equal_nan=True)


def test_scorer_that_fails_on_several_classes_raises(world):
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(EvaluationError, match=r"pass a number as error_score"):
        utility_table(KNeighborsClassifier(1), *data(world), scoring="average_precision", empty_score=0)


def test_grouped_rows_reach_the_values(needs):
    """From model and data to values in two lines: the group with wrong labels is worth least."""
    needs("sklearn")
    from sklearn.neighbors import KNeighborsClassifier

    big = flipped_world("breast_cancer", n=40, flips=0, n_validation=80, rng=1)
    labels = big.y.copy()
    labels[4::5] = 1 - labels[4::5]
    table = utility_table(KNeighborsClassifier(3), big.X, labels, big.X_val, big.y_val, players=5)
    assert semivalues(table, Semivalue.shapley()).argmin() == 4
