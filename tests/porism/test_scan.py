import functools
import json

import numpy as np
import pytest

from porism.theory.pattern import masks, pattern_distance
from porism.theory.pattern.nulls import pattern_null

A = np.kron(np.eye(2), np.ones((3, 3)))[[0, 3, 1, 4, 2, 5]][:, [0, 3, 1, 4, 2, 5]] + 0.01


@pytest.fixture
def call(shell):
    np.save("a.npy", A)
    return functools.partial(shell, "scan")


def test_json_is_the_library(call):
    code, out, err = call(
        "a.npy", "--mask", "block_diagonal:2", "--order", "common", "--n-null", "19", "--json"
    )
    assert (code, err) == (0, "")
    (row,) = json.loads(out)
    fit = pattern_distance(A, masks.block_diagonal([3, 3]), order="common", random_state=0)
    assert row["mass_outside"] == pytest.approx(fit.mass_outside, abs=1e-12)
    assert (row["mask"], row["order"], row["null"], row["n_null"]) == (
        "block_diagonal:2",
        "common",
        "rows",
        19,
    )
    assert row["certified"]
    order = np.array(row["row_order"])
    assert {frozenset(order[:3].tolist()), frozenset(order[3:].tolist())} == {
        frozenset({0, 2, 4}),
        frozenset({1, 3, 5}),
    }
    assert row["p_value"] == 0.05


def test_table_is_sorted_and_seeded(call):
    words = ("a.npy", "--mask", "sink:1", "--mask", "block_diagonal:2", "--order", "common", "--n-null", "19")
    code, out, _ = call(*words, "--seed", "3")
    assert code == 0
    lines = out.splitlines()
    assert lines[1].startswith("block_diagonal:2")
    assert lines[-1] == "order common, null 'rows' of 19"
    assert call(*words, "--seed", "3")[1] == out


def test_null_and_mass_are_passed_on(call):
    out = call(
        "a.npy", "--mask", "band:1", "--order", "none", "--null", "entries", "--mass", "abs", "--json"
    )[1]
    (row,) = json.loads(out)
    expected = pattern_null(A, masks.band(6, 1), null="entries", mass="abs", order="none")
    assert (row["null"], row["mass"], row["n_null"]) == ("entries", "abs", 99)
    assert row["mass_outside"] == pytest.approx(expected.observed)
    assert row["null_mean"] == pytest.approx(expected.moments[0], abs=5 * (expected.moments[1] / 99) ** 0.5)


def test_every_format(call, tmp_path):
    from scipy import sparse
    from scipy.io import mmwrite

    np.savez("b.npz", matrix=A)
    sparse.save_npz("c.npz", sparse.csr_matrix(A))
    mmwrite("d.mtx", sparse.csr_matrix(A))
    np.savetxt("e.csv", A, delimiter=",")
    names = ",".join(f"n{i}" for i in range(6))
    body = "\n".join(f"r{i}," + ",".join(map(str, row)) for i, row in enumerate(A))
    (tmp_path / "f.csv").write_text(f"name,{names}\n{body}\n\n")
    (tmp_path / "g.csv").write_text(names + "\n" + "\n".join(",".join(map(str, row)) for row in A))
    options = ("--mask", "band:1", "--order", "none", "--n-null", "3", "--json")
    values = []
    for file in ("a.npy", "b.npz", "c.npz", "d.mtx", "e.csv", "f.csv", "g.csv"):
        code, out, err = call(file, *options)
        assert (code, err) == (0, ""), file
        values.append(json.loads(out)[0]["mass_outside"])
    assert values == pytest.approx([values[0]] * 7, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4",
        "\ufeff1, 2\n3, 4\n\n",
        "a,b\n1,2\n3,4",
        ",a,b\n0,1,2\n1,3,4",  # pandas numbers its rows, R counts from 1
        '"","V1","V2"\n"1",1,2\n"2",3,4',
        ",a,b\nx,1,2\ny,3,4",
        "name,a,7\nx,1,2\ny,3,4",
        ",5,7\nx,1,2\ny,3,4",
        "x,1,2\ny,3,4",
        ",0,1\n0,1,2\n1,3,4",  # pandas without names
        "node,1,2\n1,1,2\n2,3,4",
    ],
)
def test_names_and_row_numbers_of_a_csv_are_no_data(tmp_path, text):
    from porism.cli._matrix import read_matrix

    (tmp_path / "a.csv").write_text(text)
    assert read_matrix(tmp_path / "a.csv").tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("write", ["array", "coordinate", "pattern"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
def test_matrix_market_is_read_as_scipy_reads_it(tmp_path, write, symmetry):
    from scipy import sparse
    from scipy.io import mmread, mmwrite

    from porism.cli._matrix import read_matrix

    B = np.random.default_rng(0).normal(size=(4, 4)).round(2)
    B = {"general": B[:3], "symmetric": B + B.T, "skew-symmetric": B - B.T}[symmetry]
    if write == "pattern":
        B = B > 0 if symmetry == "general" else np.eye(4) > 0
    options = {"symmetry": "symmetric" if write == "pattern" and symmetry != "general" else symmetry}
    field = {"field": "pattern"} if write == "pattern" else {}
    mmwrite(tmp_path / "b.mtx", B if write == "array" else sparse.coo_array(B), **options, **field)
    ours, theirs = read_matrix(tmp_path / "b.mtx"), mmread(tmp_path / "b.mtx")
    if write != "array":
        ours, theirs = ours.toarray(), theirs.toarray()
    assert np.array_equal(ours, theirs)
    assert np.array_equal(ours, B)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr"])
def test_sparse_matrices_of_every_kind(tmp_path, kind):
    from scipy import sparse

    from porism.cli._matrix import read_matrix

    sparse.save_npz(tmp_path / "b.npz", sparse.csr_array(A * (A > 0.5)).asformat(kind))
    assert np.array_equal(read_matrix(tmp_path / "b.npz").toarray(), A * (A > 0.5))


def test_warning_of_uninformative_masks(call):
    np.save("s.npy", A + A.T)
    code, out, err = call("s.npy", "--mask", "lower_triangular", "--order", "common", "--n-null", "3")
    assert code == 0
    assert err.startswith("porism scan: warning: |A| is symmetric")
    assert err.count("\n") == 1
    assert "says nothing" in out


@pytest.mark.full
def test_plot(call, needs, tmp_path):
    needs("matplotlib")
    for name, head in (("x.png", b"\x89PNG"), ("x.pdf", b"%PDF"), ("x.svg", b"<?xml")):
        code, _, err = call("a.npy", "--mask", "band:1", "--order", "none", "--n-null", "3", "--plot", name)
        assert (code, err) == (0, "")
        assert (tmp_path / name).read_bytes().startswith(head)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give either FILE or --model FOLDER, got neither"),
        (["a.npy", "--model", "x"], "give either FILE or --model FOLDER, got both"),
        (["a.npy"], "give at least one --mask"),
        (["a.npy", "--mask", "bnd:4"], "mask must be one of band, circulant_band"),
        (["a.npy", "--mask", "band:99"], "bandwidth w must be in 0..n-1"),
        (["a.npy", "--mask", "band:1", "--order", "both"], "order must be one of"),
        (["a.npy", "--mask", "band:1", "--null", "both"], "null must be one of"),
        (["a.npy", "--mask", "band:1", "--n-null", "0"], "Invalid value for '--n-null'"),
        (["a.npy", "--mask", "band:1", "--plot", "x.gif"], "--plot must end in"),
        (["a.npy", "--mask", "band:1", "--plot", "no/x.png"], "No such file or directory: 'no/x.png'"),
        (["a.npy", "--mask", "band:1", "--restarts", "-1"], "--restarts must be"),
        (
            ["a.npy", "--mask", "band:1", "--strip-sinks", "2"],
            "--strip-sinks goes only with --model FOLDER; leave it out",
        ),
        (["no.npy", "--mask", "band:1"], "FILE 'no.npy' is not there"),
        (["a.txt", "--mask", "band:1"], "FILE must end in .npy, .npz, .csv, .mtx"),
        (["two.npz", "--mask", "band:1"], "must hold one array, got a, b"),
        (["bad.npy", "--mask", "band:1"], "bad.npy cannot be read as a matrix"),
        (["bad.npz", "--mask", "band:1"], "bad.npz cannot be read as a matrix"),
        (["bad.mtx", "--mask", "band:1"], "bad.mtx cannot be read as a matrix"),
        (["bad.csv", "--mask", "band:1"], "'x' in row 1, column 0 is no number"),
        (["ragged.csv", "--mask", "band:1"], "different numbers of cells"),
        (["empty.csv", "--mask", "band:1"], "it is empty"),
        (["object.npy", "--mask", "band:1"], "object.npy cannot be read as a matrix"),
        (["cube.npy", "--mask", "band:1"], "cube.npy must hold a matrix with 2 axes, got shape (2, 2, 2)"),
        (["nan.npy", "--mask", "band:1"], "A contains NaN or infinity at [1, 0]"),
        (["a.npy", "--mask", "band:1", "--alpha", "7"], "--alpha must be in [0, 1], got 7.0"),
        (["a.npy", "--mask", "band:1", "--alpha", "0.1", "--max-tokens", "9"], "--max-tokens and --alpha"),
        (["hole.csv", "--mask", "band:1"], "'' in row 0, column 1 is no number"),
        (["typo.csv", "--mask", "band:1"], "'2x' in row 0, column 1 is no number"),
        (["gap.csv", "--mask", "band:1"], "'' in row 0, column 0 is no number"),
        (["semicolons.csv", "--mask", "band:1"], "is no number; separate cells by commas"),
        (["size.mtx", "--mask", "band:1"], "it must give 3 numbers for its size, got 2"),
        (["part.npz", "--mask", "band:1"], "part.npz cannot be read as a matrix: it holds no 'data'"),
        (["--model", "."], "--model needs --text FILE"),
        (["--model", ".", "--restarts", "1", "--workers", "2"], "--restarts and --workers go only with a"),
        (["--model", ".", "--text", "no.txt"], "No such file"),
        (["--model", ".", "--text", "t.txt", "--order", "independent"], "use --order none or common"),
        (["--model", ".", "--text", "empty.csv"], "--text must not be empty"),
        (["--model", ".", "--text", "t.txt"], "model must be a folder with a config.json"),
    ],
)
def test_one_line_for_bad_input(call, tmp_path, words, message):
    np.savez("two.npz", a=np.eye(2), b=np.eye(2))
    np.save("object.npy", np.array([{}, 1], dtype=object))
    np.save("cube.npy", np.zeros((2, 2, 2)))
    np.save("nan.npy", np.array([[1, 2], [np.nan, 4]]))
    files = {
        "bad.npy": "x",
        "bad.npz": "x",
        "bad.mtx": "x",
        "bad.csv": "1,2\nx,4",
        "ragged.csv": "1,2\n3",
        "empty.csv": "",
        "hole.csv": "1,,2\n3,4,5\n6,7,8",
        "typo.csv": "1,2x\n3,4",
        "gap.csv": ",2,3\n2,5,6\n3,6,9",
        "semicolons.csv": "1;2\n3;4",
        "size.mtx": "%%MatrixMarket matrix coordinate real general\n2 2",
    }
    np.savez("part.npz", format=np.array("csr"), shape=np.array([2, 2]))
    for name, text in {**files, "t.txt": "a b", "a.txt": "1"}.items():
        (tmp_path / name).write_text(text)
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert err.startswith("porism scan: ")
    assert err.count("\n") == 1
    assert message in err
    assert str(tmp_path) not in err


@pytest.mark.full
def test_model(call, needs, tmp_path, capsys):
    transformers, tokenizers = needs("transformers"), needs("tokenizers")
    config = transformers.GPT2Config(
        vocab_size=4, n_layer=2, n_head=2, n_embd=8, n_positions=12, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2Model(config).save_pretrained(tmp_path / "m")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(
        tmp_path / "m"
    )
    (tmp_path / "t.txt").write_text("a b c " * 20)
    capsys.readouterr()  # what saving wrote
    code, out, err = call("--model", "m", "--text", "t.txt", "--n-null", "9", "--json", "--plot", "h.png")
    assert (code, err) == (
        0,
        "porism scan: warning: --n-null 9 allows no p-value below 1/10, so no head passes --alpha 0.01; "
        "raise one of them\n",
    )
    found = json.loads(out)
    assert (found["n_tokens"], found["causal"]) == ([12], True)  # no longer than the model's positions
    assert len(found["records"]) == 2 * 2 * 3
    assert sum(found["counts"].values()) == 4
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = call(
        "--model",
        "m",
        "--text",
        "t.txt",
        "--max-tokens",
        "9",
        "--mask",
        "band:1",
        "--n-null",
        "9",
        "--alpha",
        "0.1",
    )
    assert (code, err) == (0, "")
    assert out.startswith("4 heads in 2 layers, 9 tokens, causal, null 'rows' of 9")
    code, _, err = call("--model", "m", "--text", "t.txt", "--order", "independent")
    assert code == 2
    assert "independent reordering of an attention map is not interpretable" in err
