"""Every verb that reads a file, on damaged and hostile ones: an answer, or exit 2 and one line."""

import json
import os

import numpy as np
import pytest
from conftest import find_module
from hostile import call, check, hostile, tree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porism.theory.pandora import Router, fit_router
from porism.theory.partition import UtilityTable

rng = np.random.default_rng(0)
A = rng.random((5, 5)).round(3)
X = rng.normal(size=(100, 3)).round(3)
Y = (0.5 + 0.3 * X @ rng.normal(size=(3, 3)) + 0.1 * rng.normal(size=(100, 3))).round(3)
NAMES = ("ant", "bee", "cat")

SCAN = ["--mask", "band:1", "--order", "common", "--n-null", "2", "--time-budget", "0.05"]
CERTIFY = ["--top-k", "1", "--max-players", "6", "--missing", "range"]
READ = {
    "matrix.npy": ["scan", "FILE", *SCAN],
    "matrix.npz": ["scan", "FILE", *SCAN],
    "sparse.npz": ["scan", "FILE", *SCAN],
    "matrix.mtx": ["scan", "FILE", *SCAN],
    "matrix.csv": ["scan", "FILE", *SCAN],
    "table.npz": ["certify", "FILE", *CERTIFY],
    "pairs.npz": ["certify", "FILE", *CERTIFY],
    "samples.npz": ["certify", "FILE", *CERTIFY[:4], "--target", "estimate"],
    "table.csv": ["certify", "FILE", *CERTIFY],
    "table.json": ["certify", "FILE", *CERTIFY],
    "table.parquet": ["certify", "FILE", *CERTIFY],
    "scores.npz": ["route", "fit", "FILE", "--expensive", "ridge", "--folds", "2", "--out", "OUT"],
    "given.npz": ["route", "fit", "FILE", "--folds", "2", "--out", "OUT"],
    "scores.csv": [
        "route",
        "fit",
        "FILE",
        "--features",
        "features.csv",
        "--expensive",
        "ridge",
        "--out",
        "OUT",
    ],
    "scores.parquet": ["route", "eval", "router.npz", "FILE", "--policies", "cheap,kg"],
    "features.csv": [
        "route",
        "fit",
        "scores.csv",
        "--features",
        "FILE",
        "--expensive",
        "ridge",
        "--out",
        "OUT",
    ],
    "router.npz": ["route", "certify", "FILE"],
    "saved.npz": ["route", "run", "FILE", "--cost", "0.01"],
    "queries.jsonl": ["route", "certify", "router.npz", "--query", "FILE"],
}
"""Files by name, and a command that reads each."""

LINE = b'{"cheap": [0.1, 0.2, 0.3]}\n'


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a valid file of each kind."""
    from scipy import sparse
    from scipy.io import mmwrite

    folder = tmp_path_factory.mktemp("valid")
    np.save(folder / "matrix.npy", A)
    np.savez_compressed(folder / "matrix.npz", A)
    sparse.save_npz(folder / "sparse.npz", sparse.csr_array(A * (A > 0.5)))
    mmwrite(folder / "matrix.mtx", sparse.coo_array(A * (A > 0.5)))
    np.savetxt(folder / "matrix.csv", A, delimiter=",", fmt="%.3f", header="a,b,c,d,e", comments="")
    table = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
    pairs = UtilityTable.from_pairs([0, 1, 3, 7, 6, 5], [0, 5, 7, 12, 10, 8], n=3)
    chosen = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1]], bool)
    samples = UtilityTable.from_samples(chosen, [5.0, 10.0, 7.0, 0.0], n=3, design="unknown")
    for name in ("table.npz", "table.csv", "table.json"):
        table.save(folder / name)
    pairs.save(folder / "pairs.npz")
    samples.save(folder / "samples.npz")
    np.savez_compressed(folder / "scores.npz", scores=Y, features=X, models=NAMES)
    np.savez_compressed(folder / "given.npz", scores=Y, cheap=Y + 0.1, refined=Y, models=NAMES)
    lines = [",".join(map(str, row)) for row in Y.tolist()]
    (folder / "scores.csv").write_text(
        "\n".join(["query,ant,bee,cat", *(f"q{i},{x}" for i, x in enumerate(lines))])
    )
    (folder / "features.csv").write_text("\n".join(["u,v,w", *(",".join(map(str, x)) for x in X.tolist())]))
    fitted = fit_router(Y, "ridge", "ridge", X, names=NAMES, folds=2)
    fitted.save(folder / "router.npz")
    Router(fitted, 0.01).save(folder / "saved.npz")
    queries = [{"id": 1, "cheap": [0.1, 0.2, 0.3]}, {"features": [0.1, 0.2, 0.3], "refined": {"ant": None}}]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)) + "\n")
    return folder


def words_for(name, file, files, out):
    places = {"FILE": file, "OUT": out}
    return [str(places.get(word, files / word if word in READ else word)) for word in READ[name]]


@pytest.fixture(scope="module")
def parquet(files):
    """Parquet files too, where the extra is installed."""
    arrow, writer = find_module("pyarrow"), find_module("pyarrow.parquet")
    names = ["", "0", "1", "0 1", "2", "0 2", "1 2", "0 1 2"]
    table = arrow.table({"coalition": names, "score": [0.0, 5, 0, 7, 0, 7, 10, 12]})
    writer.write_table(table, files / "table.parquet")
    columns = dict(zip(NAMES, Y.T.tolist(), strict=True))
    writer.write_table(
        arrow.table({"query": list(map(str, range(100))), **columns}), files / "scores.parquet"
    )
    return files


@pytest.fixture
def folder(request, files):
    """The folder, with parquet files where one is asked for."""
    if request.node.callspec.params["name"].endswith("parquet"):
        request.getfixturevalue("parquet")
    return files


NAMED = pytest.mark.parametrize("name", READ)
SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


@NAMED
def test_the_valid_file_is_read(folder, tmp_path, name):
    words = words_for(name, folder / name, folder, tmp_path / "out.npz")
    code, out, err = call(words, LINE)
    assert code in (0, 1, 3), err
    assert out


def fuzz(name, folder, tmp_path, data):
    file = tmp_path / "in" / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data.draw(hostile(name, (folder / name).read_bytes())))
    before = tree(tmp_path / "in"), tree(folder)
    words = words_for(name, file, folder, tmp_path / "out.npz")
    check(words, *call(words, LINE))
    assert (tree(tmp_path / "in"), tree(folder)) == before
    assert set(os.listdir(tmp_path)) <= {"in", "out.npz"}


@NAMED
@settings(SETTINGS, max_examples=8)
@given(data=st.data())
def test_hostile_twins(folder, tmp_path, name, data):
    fuzz(name, folder, tmp_path, data)


@pytest.mark.full
@NAMED
@settings(SETTINGS, max_examples=60)
@given(data=st.data())
def test_more_hostile_twins(folder, tmp_path, name, data):
    fuzz(name, folder, tmp_path, data)
