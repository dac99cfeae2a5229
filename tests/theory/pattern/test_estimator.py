import pickle
import subprocess
import sys

import numpy as np
import pytest

from porism.theory.pattern import masks, pattern_distance
from porism.theory.pattern.estimator import PatternReorder

A = np.random.default_rng(0).normal(size=(6, 8))

DO_NOT_APPLY = {
    "check_methods_subset_invariance": "rows are part of the pattern: transform takes the whole matrix",
    "check_methods_sample_order_invariance": "the order of the rows is what is fitted",
    "check_fit_idempotent": "the check transforms a part of the rows",
}


def halves(m, n):
    return masks.block_diagonal([m // 2, m - m // 2], [n // 2, n - n // 2])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_sklearn_checks(needs):
    check_estimator = needs("sklearn.utils.estimator_checks").check_estimator
    outcomes = check_estimator(
        PatternReorder(random_state=0), expected_failed_checks=DO_NOT_APPLY, on_fail=None
    )
    status = {outcome["check_name"]: outcome["status"] for outcome in outcomes}
    assert {name for name, word in status.items() if word == "failed"} == set()
    assert {name for name, word in status.items() if word == "xfail"} == set(DO_NOT_APPLY)
    assert sum(word == "passed" for word in status.values()) >= 35


def test_agrees_with_the_function():
    model = PatternReorder(halves, random_state=0).fit(A)
    fit = pattern_distance(A, halves(6, 8), random_state=0)
    assert model.mass_outside_ == fit.mass_outside
    assert model.lower_bound_ == fit.lower_bound
    assert model.transform(A).tolist() == fit.reorder(A).tolist()
    assert model.fit_transform(A).tolist() == model.transform(A).tolist()
    assert model.inverse_transform(model.transform(A)).tolist() == A.tolist()
    assert (model.n_features_in_, model.n_iter_ >= 1) == (8, True)


def test_biclusters():
    B = np.zeros((6, 8))
    rows, columns = [0, 3, 4], [1, 2, 5, 7]
    B[np.ix_(rows, columns)] = 1
    B[np.ix_([1, 2, 5], [0, 3, 4, 6])] = 2
    model = PatternReorder("block_diagonal:2", random_state=0).fit(B)
    assert model.mass_outside_ == 0
    assert model.rows_.shape == (2, 6)
    assert model.columns_.shape == (2, 8)
    assert model.biclusters_[0] is model.rows_
    i = int(model.row_labels_[0])
    assert [part.tolist() for part in model.get_indices(i)] == [rows, columns]
    assert model.get_shape(i) == (3, 4)
    assert model.get_submatrix(i, B).tolist() == np.ones((3, 4)).tolist()
    assert model.column_labels_[columns].tolist() == [i] * 4


@pytest.mark.parametrize("mask", [halves, halves(6, 8), "block_diagonal:2", halves(6, 8).S])
def test_clone_and_pickle(mask, needs):
    model = PatternReorder(mask, random_state=0)
    fitted = PatternReorder(mask, random_state=0).fit(A)
    back = pickle.loads(pickle.dumps(fitted))
    assert back.transform(A).tolist() == fitted.transform(A).tolist()
    clone = needs("sklearn.base").clone
    copy = clone(fitted)
    assert not hasattr(copy, "fit_")
    assert copy.fit(A).mass_outside_ == model.fit(A).mass_outside_


@pytest.mark.full
def test_in_a_pipeline(needs):
    pipeline = needs("sklearn.pipeline").make_pipeline(PatternReorder("block_diagonal:2", random_state=0))
    assert pipeline.fit_transform(A).shape == A.shape


def test_params_and_repr():
    model = PatternReorder("band:1", order="common", n_restarts=3)
    assert model.get_params()["n_restarts"] == 3
    assert model.set_params(order="none", mass="abs") is model
    assert repr(model) == "PatternReorder(mask='band:1', order='none', mass='abs', n_restarts=3)"
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        model.set_params(colour=1)


def test_sparse_stays_sparse():
    from scipy import sparse

    X = sparse.random(6, 8, 0.4, random_state=0, format="csr")
    model = PatternReorder("block_diagonal:2", random_state=0).fit(X)
    moved = model.transform(X)
    assert sparse.issparse(moved)
    assert moved.toarray().tolist() == model.transform(X.toarray()).tolist()
    assert model.inverse_transform(moved).toarray().tolist() == X.toarray().tolist()
    rows, columns = model.get_indices(0)
    assert model.get_submatrix(0, X).toarray().tolist() == X.toarray()[np.ix_(rows, columns)].tolist()


@pytest.mark.full
def test_feature_names(needs):
    pandas = needs("pandas")
    frame = pandas.DataFrame(A, columns=list("abcdefgh"))
    model = PatternReorder("block_diagonal:2", random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == list("abcdefgh")
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[list("hgfedcba")])
    model.fit(A)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (A[:, :5], "X has 5 features, but PatternReorder is expecting 8"),
        (A[:4], "X has 4 rows, but PatternReorder was fitted on 6"),
        (A * np.nan, "X contains NaN or infinity"),
        (A[0], "X must be 2-D"),
    ],
)
def test_bad_transform(X, message):
    model = PatternReorder("block_diagonal:2", random_state=0).fit(A)
    with pytest.raises(ValueError, match=message):
        model.transform(X)


def test_not_fitted():
    with pytest.raises(ValueError, match="not fitted yet"):
        PatternReorder().transform(A)


def test_works_without_sklearn(tmp_path):
    code = """
import sys
sys.modules["sklearn"] = None
import numpy as np
from porism.theory.pattern.estimator import PatternReorder
A = np.kron(np.eye(2), np.ones((2, 3)))
model = PatternReorder("block_diagonal:2", random_state=0)
assert model.fit(A).mass_outside_ == 0 and model.transform(A).shape == (4, 6)
try:
    PatternReorder().transform(A)
except ValueError as error:
    assert "not fitted" in str(error)
else:
    raise SystemExit("no error")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
