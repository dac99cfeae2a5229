import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from porism.results import Result
from porism.sims.pandora import (
    ScoreMatrix,
    read_csv,
    read_npz,
    read_routellm,
    read_routerbench,
    read_scores,
)

SCORES = np.array([[1.0, 0.0, np.nan], [0.5, np.nan, 1.0]])


@pytest.fixture
def write(tmp_path):
    def put(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


@pytest.fixture
def npz(tmp_path):
    def put(**arrays):
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return path

    return put


def attempt(read, path):
    """What a reader gives, and its one kind of refusal."""
    try:
        return read(path), None
    except ValueError as error:
        return None, error


def same(matrix, scores, models):
    assert matrix.models == tuple(models)
    assert np.array_equal(matrix.known, ~np.isnan(scores))
    assert np.array_equal(matrix.scores, np.nan_to_num(scores))


# npz


def test_npz_with_everything(npz):
    path = npz(score=SCORES, models=["a", "b", "c"], features=np.ones((2, 4), np.float16), split=[0, 1],
               cheap_features=np.zeros((2, 1)), cost_usd=SCORES, prompt_sha1=["x", "y"], subset=["s", "t"],
               other=np.zeros(7))  # fmt: skip
    for matrix in (read_npz(path), read_scores(path)):
        same(matrix, SCORES, "abc")
        assert matrix.features.shape == (2, 4)
        assert matrix.features.dtype == np.float64
        assert matrix.cheap_features.shape == (2, 1)
        assert matrix.split.tolist() == [0, 1]
        assert matrix.groups.tolist() == ["x", "y"]
        assert matrix.subset.tolist() == ["s", "t"]
        assert np.array_equal(matrix.costs, SCORES, equal_nan=True)
        assert matrix.source == "data.npz"


def test_npz_bare_and_masked(npz):
    matrix = read_npz(npz(scores=np.eye(2, dtype=np.uint8)))
    assert matrix.models == ("specialist 0", "specialist 1")
    assert matrix.known.all()
    missing = np.array([[True, False], [False, False]])
    for key, flag in (("missing", missing), ("mask", ~missing)):
        assert np.array_equal(read_npz(npz(score=np.eye(2), **{key: flag})).known, ~missing)


def test_npz_ignores_objects_it_does_not_read(npz):
    path = npz(score=np.eye(2), note=np.array([{"a": 1}], object))
    assert read_npz(path).scores.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"score": np.array([[1, None]], object)}, "score holds Python objects, which are not read"),
        ({"score": np.eye(2), "models": np.array(["a", 1], object)}, "models holds Python objects"),
        ({"values": np.eye(2)}, "has no array score or scores; it has none"),
        ({"score": np.ones(3)}, r"score must have shape \(n, K\), one row a query, got \(3,\)"),
        ({"score": np.ones((0, 3))}, "score must have shape"),
        ({"score": np.array([["1", "2"]])}, "score must hold real numbers, got dtype <U1"),
        ({"score": np.eye(2) * 1j}, "score must hold real numbers"),
        ({"score": np.eye(2), "models": ["a", "a"]}, "different names, got 'a' more than once"),
        ({"score": np.eye(2), "models": ["a"]}, r"models must have shape \(2,\), a name a column"),
        ({"score": np.eye(2), "features": np.ones((3, 1))}, r"features of shape \(3, 1\) does not fit"),
        ({"score": np.eye(2), "features": np.full((2, 1), np.nan)}, "features must be finite"),
        ({"score": np.eye(2), "mask": np.ones(2)}, r"mask must be a bool array of shape \(2, 2\)"),
        ({"score": np.eye(2), "costs": np.ones((2, 1))}, r"costs of shape \(2, 1\) does not fit"),
        ({"score": np.eye(2), "split": np.ones(2)}, "split must be whole numbers"),
        ({"score": np.eye(2), "groups": ["a"]}, r"groups of shape \(1,\) does not fit"),
        ({"score": [[1.0, np.nan]]}, "'specialist 1' has no known score; leave its column out"),
        ({"score": [[1.0, np.inf]]}, "scores must be finite, got infinity"),
    ],
)  # fmt: skip
def test_wrong_npz(npz, arrays, message):
    with pytest.raises(ValueError, match="^data.npz.*" + message):
        read_npz(npz(**arrays))


def test_npz_truncated_anywhere(npz, write):
    content = npz(score=np.random.default_rng(0).random((40, 3)), models=["a", "b", "c"]).read_bytes()
    for cut in (0, 1, 10, 100, len(content) // 2, len(content) - 1):
        with pytest.raises(ValueError, match=r"^cut\.npz"):
            read_npz(write("cut.npz", content[:cut]))


def member(header, body=b"", magic=b"\x93NUMPY\x01\x00"):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("score.npy", magic + struct.pack("<H", len(header)) + header + body)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)}", b"\0" * 31), "declares shape"),
        (member(b" " * 60000), "no valid header"),
        (member(b"{'descr': ((((" * 20), "no valid header"),
        (member(b"__import__('os').getcwd()\n"), "no valid header"),
        (member(b"{}", magic=b"\x93NUMPY\x09\x00"), "no valid header"),
        (member(b"{}", magic=b"NOTNUMPY"), "no valid header"),
    ],
)  # fmt: skip
def test_npz_with_a_wrong_header(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_npz(write("x.npz", content))


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_npz_with_one_byte_changed(place, byte, tmp_path_factory):
    stream = io.BytesIO()
    np.savez(stream, score=np.eye(3), models=["a", "b", "c"])
    content = bytearray(stream.getvalue())
    content[place % len(content)] = byte
    path = tmp_path_factory.getbasetemp() / "byte.npz"
    path.write_bytes(content)
    matrix, error = attempt(read_npz, path)
    assert matrix is None or matrix.scores.shape == (3, 3)
    assert error is None or "byte.npz" in str(error)


# csv


def test_csv(write):
    text = 'query,a,b,c,note\nq1,1,false,,x\nq2,.5,NA,TRUE,"y, z"\n\n'
    for matrix in (read_csv(write("t.csv", text)), read_scores(write("t.csv", text))):
        same(matrix, SCORES, "abc")
    same(read_csv(write("t.csv", "\ufeff" + text), models=["c", "a"]), SCORES[:, [2, 0]], "ca")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; the first line must name the columns"),
        (b"\n\n", "is empty|first line"),
        (b"a,b\n", "has a header and no rows"),
        (b"a,b\n1,2\n3\n", "line 3 has 1 cells where the header has 2; the file may be cut off"),
        (b"a,b\n1,2,3\n", "line 2 has 3 cells"),
        (b'a,b\n1,"2\n', "line 2 is no csv: unexpected end of data"),
        (b"a,b\n1,2\n\xff\xfe,1\n", "is not UTF-8 at byte 8; save it as UTF-8"),
        ("a,b\n1,é\n".encode("latin-1"), "is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "is not UTF-8|zero bytes"),
        (b"a,b\n1,\x00\n", "holds zero bytes"),
        (b"a;b\n1;2\n", "must have commas between its columns, got ';' in the header"),
        (b"a\tb\n1\t2\n", r"must have commas between its columns, got '\\t' in the header"),
        (b"a,b,a\n1,2,3\n", "has the column 'a' more than once; rename or drop one"),
        (b"t,a\nx,1\n2,oops\nz,3\n", "column 'a' must hold numbers, got 'oops' in row 2; correct or drop it"),
        (b"query,text\nq,hello\n", "has no column of numbers; name the models in the header"),
        (b"a,b\n1,\n2,nan\n", "'b' has no known score; leave its column out"),
        (b"a,b\n1,inf\n", "scores must be finite, got infinity"),
        (b"x" * 500 + b",b\n1,2\n", "has a column name of 500 characters"),
        (",".join(f"m{i}" for i in range(30000)).encode() + b"\n1\n", "has 30000 columns, more than 20000"),
        (b"a,b\n1," + b"9" * 200000 + b"\n", "line 2 is no csv: field larger than field limit"),
    ],
)
def test_wrong_csv(write, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_csv(write("t.csv", content))
    assert str(caught.value).startswith("t.csv")
    assert len(str(caught.value)) < 300


def test_named_columns(write):
    path = write("t.csv", "a,b\n1,2\n3,x\n")
    with pytest.raises(ValueError, match="column 'b' must hold numbers, got 'x' in row 2"):
        read_csv(path, models=["a", "b"])
    with pytest.raises(ValueError, match="has no column 'c'; it has 'a', 'b'"):
        read_csv(path, models=["c"])
    with pytest.raises(ValueError, match="different names"):
        read_csv(path, models=["a", "a", "a"])
    assert read_csv(path).models == ("a",)


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=80) | st.text(',\n"ab1. nu', max_size=60).map(str.encode))
@example(content=b"a\n1")
def test_any_bytes_give_a_table_or_one_error(content, tmp_path_factory):
    for name, read in (("any.csv", read_scores), ("any.npz", read_npz), ("any.csv", read_routerbench)):
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(content)
        matrix, error = attempt(read, path)
        assert matrix is None or matrix.known.any(0).all()
        assert error is None or name in str(error)


# layouts

WIDE = (
    "sample_id,prompt,eval_name,m/a,m/a|model_response,m/a|total_cost,b,b|total_cost,oracle_model_to_route_to\n"
    "q1,p,mmlu,1.0,text,0.001,0,0.002,m/a\n"
    "q2,p,gsm8k,,text,,0.25,0.003,b\n"
)


def check_wide(matrix):
    same(matrix, np.array([[1.0, 0.0], [np.nan, 0.25]]), ("m/a", "b"))
    assert np.array_equal(matrix.costs, [[0.001, 0.002], [np.nan, 0.003]], equal_nan=True)
    assert matrix.subset.tolist() == ["mmlu", "gsm8k"]
    assert matrix.groups[0] == matrix.groups[1]  # one prompt


def test_routerbench(write):
    path = write("wide.csv", WIDE)
    check_wide(read_routerbench(path))
    check_wide(read_scores(path))


def test_routerbench_parquet(write, needs, tmp_path):
    pandas = needs("pandas")
    needs("pyarrow")
    pandas.read_csv(write("wide.csv", WIDE)).to_parquet(tmp_path / "wide.parquet")
    check_wide(read_scores(tmp_path / "wide.parquet"))
    content = (tmp_path / "wide.parquet").read_bytes()
    for damaged in (b"", content[:50], content[:-20], b"PAR1" + b"\0" * 40 + b"PAR1"):
        with pytest.raises(ValueError, match=r"bad\.parquet is no parquet file"):
            read_scores(write("bad.parquet", damaged))
    pandas.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "plain.parquet")
    with pytest.raises(ValueError, match="has no column '<model>"):
        read_routerbench(tmp_path / "plain.parquet")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "has no column '<model>.total_cost'; read other tables with read_csv"),
        ("a|total_cost\n1\n", "has costs of 'a', but no column 'a' with its scores"),
        ("a,a|total_cost\n1,-1\n", "costs must be >= 0; got min -1"),
        (
            "a,a|total_cost\n1,free\n",
            "column 'a|total_cost' must hold numbers, got 'free' in row 1".replace("|", "."),
        ),
    ],
)
def test_wrong_routerbench(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_routerbench(write("wide.csv", text))


def test_routellm(write):
    law = write("mmlu_law.csv", 'prompt,weak,strong\n"Is it, or\nnot?",False,True\nWhy?,True,True\n')
    math = write("gsm8k.csv", "prompt,strong,weak,weak_response\nWhy?,False,True,because\n")
    matrix = read_routellm(law, math)
    same(matrix, np.array([[0.0, 1.0], [1, 1], [1, 0]]), ("weak", "strong"))
    assert matrix.subset.tolist() == ["mmlu_law", "mmlu_law", "gsm8k"]
    assert matrix.groups[1] == matrix.groups[2] != matrix.groups[0]
    assert np.array_equal(read_scores(law).scores, matrix.scores[:2])
    other = write("other.csv", "prompt,weak,third\nWhy?,1,1\n")
    with pytest.raises(ValueError, match=r"other.csv has other models than mmlu_law.csv: weak, third"):
        read_routellm(law, other)
    with pytest.raises(ValueError, match="has no column 'prompt'; it has 'a'"):
        read_routellm(write("t.csv", "a\n1\n"))
    with pytest.raises(ValueError, match="at least one file"):
        read_routellm()


def test_choice_of_reader(write, tmp_path):
    with pytest.raises(ValueError, match=r"t\.txt must end in \.npz, \.csv or \.parquet, or say layout="):
        read_scores(write("t.txt", "a\n1\n"))
    assert read_scores(write("t.txt", "a\n1\n"), layout="csv").models == ("a",)
    with pytest.raises(ValueError, match="layout must be one of"):
        read_scores(tmp_path / "t.csv", layout="pickle")
    for name in ("none.npz", "none.csv", "none.parquet"):
        with pytest.raises(FileNotFoundError):
            read_scores(tmp_path / name) if name != "none.parquet" else read_csv(tmp_path / "none.csv")


def test_groups_by_any_column(write, npz):
    text = "query,a,b,task\nq1,1,0,x\nq2,0,1,y\nq3,1,1,x\n"
    path = write("t.csv", text)
    assert read_scores(path).groups is None
    assert read_scores(path, groups="task").groups.tolist() == ["x", "y", "x"]
    with pytest.raises(ValueError, match=r"t\.csv has no column 'kind'; it has 'query', 'a', 'b', 'task'"):
        read_scores(path, groups="kind")
    by_prompt = write("mmlu.csv", "prompt,a,level\np,1,2\np,0,3\n")  # the layout has groups of its own
    assert len(set(read_scores(by_prompt).groups)) == 1
    assert read_scores(by_prompt, groups="level").groups.tolist() == ["2", "3"]
    path = npz(score=np.eye(2), groups=["g", "g"], subset=["s", "t"])
    assert read_scores(path).groups.tolist() == ["g", "g"]
    assert read_scores(path, groups="subset").groups.tolist() == ["s", "t"]
    with pytest.raises(ValueError, match=r"data\.npz has no column 'score'; it has 'groups', 'subset'"):
        read_scores(path, groups="score")
    with pytest.raises(ValueError, match="it has none"):
        read_scores(npz(score=np.eye(2)), groups="task")


# the matrix itself


def matrix():
    rng = np.random.default_rng(0)
    known = np.array([[True, True], [True, False], [True, True]])
    return ScoreMatrix(rng.random((3, 2)), ("a", "b"), known, features=np.arange(6.0).reshape(3, 2),
                       costs=rng.random((3, 2)), subset=np.array(["x", "y", "z"]))  # fmt: skip


def test_rows_columns_complete(tmp_path):
    whole = matrix()
    kept = whole.complete()
    assert kept.subset.tolist() == ["x", "z"]
    assert kept.features.tolist() == [[0, 1], [4, 5]]
    assert whole.means()[1] == pytest.approx(whole.scores[[0, 2], 1].mean())
    turned = whole.columns(["b", 0])
    assert turned.models == ("b", "a")
    assert np.array_equal(turned.costs, whole.costs[:, ::-1])
    assert np.isnan(whole.rows([1]).means()[1])
    assert "1 missing" in repr(whole)
    whole.save(tmp_path / "m.npz")
    again = Result.load(tmp_path / "m.npz")
    assert np.array_equal(again.known, whole.known)
    assert again.models == whole.models
    with pytest.raises(ValueError, match="models has no 'c'; it has a, b"):
        whole.columns(["c"])
    with pytest.raises(ValueError, match=r"model must be in 0\.\.1, got 2"):
        whole.columns([2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.ones(3)}, "scores must have shape"),
        ({"models": ("a",)}, "models must name the 2 columns"),
        ({"models": ("a", "a")}, "different names"),
        ({"known": np.ones((3, 2))}, "known must be a bool array"),
        ({"scores": np.full((3, 2), np.nan)}, "known scores must be finite"),
        ({"subset": np.array(["x"])}, "subset of shape"),
        ({"costs": np.ones((3, 1))}, "costs of shape"),
    ],
)
def test_matrix_checks_itself(change, message):
    import dataclasses

    with pytest.raises(ValueError, match=message):
        dataclasses.replace(matrix(), **change)
