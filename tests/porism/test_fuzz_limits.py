"""What a file would take in memory is known before it is taken, and nothing in a file runs."""

import json
import os
import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hostile import archive, bomb, call, check, npy

from porism._files import PACKED, read_json, read_npy, read_npz, read_text
from porism.results import Result

SCAN = ["--mask", "band:1", "--n-null", "1"]
READERS = {
    "npz": (
        ["certify", "FILE", "--top-k", "1"],
        ["scan", "FILE", *SCAN],
        ["route", "fit", "FILE", "--out", "out.npz"],
        ["route", "certify", "FILE"],
        ["route", "run", "FILE", "--cost", "1"],
    ),
    "npy": (["scan", "FILE", *SCAN],),
    "csv": (
        ["certify", "FILE", "--top-k", "1"],
        ["scan", "FILE", *SCAN],
        ["route", "fit", "FILE", "--out", "o.npz"],
    ),
    "json": (["certify", "FILE", "--top-k", "1"],),
    "mtx": (["scan", "FILE", *SCAN],),
    "parquet": (["certify", "FILE", "--top-k", "1"], ["route", "fit", "FILE", "--out", "o.npz"]),
}
"""Verbs that read a format."""

CASES = [(suffix, words) for suffix, verbs in READERS.items() for words in verbs]
IDS = [f"{suffix}-{'-'.join(words[:2] if words[0] == 'route' else words[:1])}" for suffix, words in CASES]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def needed(request, needs):
    """The packages of a format."""
    if request.node.callspec.params["suffix"] == "parquet":
        needs("pyarrow")


def refuse(words, file):
    words = [file if word == "FILE" else word for word in words]
    result = call(words)
    check(words, *result, refused=True)
    return result[2]


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    file = tmp_path_factory.mktemp("bombs") / "bomb.npz"
    file.write_bytes(bomb(PACKED + (1 << 20)))
    assert file.stat().st_size < 1 << 19
    return file


@pytest.mark.parametrize("words", READERS["npz"], ids=lambda words: "-".join(words[:2]))
def test_a_bomb_is_refused_before_it_unpacks(here, bombs, words):
    """The peak is measured: reading the array would take 257 MiB."""
    tracemalloc.start()
    try:
        message = refuse(words, bombs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 << 20  # the file itself is small; the rest is what importing the verb takes
    assert "bomb.npz would take" in message
    assert f" bytes of memory, more than the {PACKED} allowed here" in message


def test_the_limit_is_the_users(here, monkeypatch):
    np.savez("a.npz", np.zeros(1000))
    assert read_npz("a.npz")["arr_0"].shape == (1000,)
    for own, message in (
        (
            "8127",
            "a.npz would take 8128 bytes of memory, more than the 8127 allowed here; if you trust it, set",
        ),
        ("many", "PORISM_FILE_LIMIT must be a number of bytes, got 'many'"),
    ):
        monkeypatch.setenv("PORISM_FILE_LIMIT", own)
        with pytest.raises(ValueError, match=message):
            read_npz("a.npz")
    monkeypatch.setenv("PORISM_FILE_LIMIT", "8128")
    assert read_npz("a.npz")["arr_0"].shape == (1000,)


def test_what_is_not_asked_for_is_not_unpacked(bombs, here):
    members = [("scores.npy", npy((2,), body=np.ones(2).tobytes())), ("other.npy", b"no array")]
    (here / "a.npz").write_bytes(archive(members))
    assert read_npz("a.npz", ("scores",))["scores"].tolist() == [1, 1]
    assert read_npz(bombs, ("models",)) == {}
    with pytest.raises(ValueError, match=r"a\.npz: other is damaged: it has no valid header"):
        read_npz("a.npz")


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (2**62, 2), (-1,), (-2, -1)])
@pytest.mark.parametrize("descr", ["<f8", "<U0", "|V0"])
def test_headers_that_promise_too_much(here, shape, descr):
    """Among them arrays whose items have no size, so that any number of them fits the file."""
    for name, content in (
        ("a.npy", npy(shape, descr)),
        ("a.npz", archive([("a.npy", npy(shape, descr))])),
    ):
        (here / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"^{name}.* is damaged"):
            (read_npy if name == "a.npy" else read_npz)(name)


def test_files_with_holes(here, monkeypatch):
    """Sizes of files are looked at, not only those in headers."""
    for name, content, size, read in (
        ("a.npy", npy((5 << 27,)), 5 << 30, read_npy),
        ("a.csv", b"", PACKED + 1, read_text),
        ("a.json", b"{", PACKED + 1, read_json),
    ):
        with open(name, "wb") as file:
            file.write(content)
            file.truncate(size)
        with pytest.raises(ValueError, match=f"{name} would take {size} bytes"):
            read(name)
        os.unlink(name)
    monkeypatch.setenv("PORISM_FILE_LIMIT", str(1 << 20))
    with pytest.raises(ValueError, match=r"zero would take .* more than the 1048576 allowed"):
        read_text("/dev/zero")  # a device that never ends and does not say so


@pytest.mark.parametrize(
    "text",
    [
        "%%MatrixMarket matrix coordinate real general\n1000000000 1000000000 1\n1 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1000000000000\n1 1 1.0\n",
        "%%MatrixMarket matrix array real general\n1000000 1000000\n1\n",
        "%%MatrixMarket matrix array real symmetric\n1000000 1000000\n1\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n-2 -2 1\n1 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n1 2\0",
        "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1.0 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n",
    ],
)
def test_a_matrix_market_file_that_announces_more(here, text):
    (here / "a.mtx").write_text(text)
    assert "a.mtx" in refuse(READERS["mtx"][0], "a.mtx")


@pytest.mark.parametrize(
    "change",
    [
        {"indices": np.array([0, 10**6])},
        {"indices": np.array([-1, 0])},
        {"indptr": np.array([0, 2, 1])},
        {"indptr": np.array([0, 1, 10**9])},
        {"shape": np.array([10**9, 10**9])},
        {"format": np.array("lil")},
        {"format": np.array(["csr", "csr"])},
    ],
)
def test_sparse_indices_are_checked(here, change):
    """SciPy's own reader would let compiled code follow them."""
    good = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
    np.savez("a.npz", **({"format": np.array("csr"), "shape": np.array([2, 2])} | good | change))
    assert "a.npz" in refuse(READERS["npz"][1], "a.npz")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "coalition,score\n0,1\n10000000000,2\n"),
        ("a.csv", "coalition,score\n0,1\n" + "9" * 400 + ",2\n"),
        ("a.json", '{"scores": [1, 2], "coalitions": [[0], [1]], "n_players": 1000000000000}'),
        ("a.json", '{"scores": [1, 2], "coalitions": [0, 1], "n_players": 1000000000000}'),
        ("a.json", '{"scores": [1, 2], "coalitions": [0, 1], "n_players": ' + "9" * 400 + "}"),
    ],
)
def test_a_player_beyond_all_bounds(here, name, text):
    (here / name).write_text(text)
    assert "coalitions: 2 rows of n=" in refuse(["certify", "FILE", "--top-k", "1"], name)


@pytest.mark.parametrize("text", ["1e999999999", "1/1e9", "-1e-9999999"])
def test_numbers_that_would_be_written_out(here, text):
    (here / "a.csv").write_text("coalition,score\n,0\n0,1\n")
    assert "--threshold must be" in refuse(["certify", "FILE", f"--threshold={text}"], "a.csv")


@pytest.mark.full
def test_parquet_that_repeats_itself(here, needs, monkeypatch):
    """A column of one value is a few bytes on disk, whatever its length."""
    arrow, parquet = needs("pyarrow"), needs("pyarrow.parquet")
    rows = 200_000
    parquet.write_table(arrow.table({"coalition": ["0"] * rows, "score": [1.0] * rows}), "rows.parquet")
    parquet.write_table(
        arrow.table({"coalition": ["0" * 9000] * 1000, "score": [1.0] * 1000}), "long.parquet"
    )
    monkeypatch.setenv("PORISM_FILE_LIMIT", str(1 << 20))
    for name in ("rows.parquet", "long.parquet"):
        assert os.path.getsize(name) < 1 << 16
        for words in READERS["parquet"]:
            assert f"{name} would take" in refuse(words, name)


PEAK = """
import sys
from porism.cli import main
code = main(sys.argv[1:])
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(line.split()[1])
sys.exit(code)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_memory_of_a_whole_process(here):
    """A true gigabyte of zeros, as the system counts memory."""
    (here / "bomb.npz").write_bytes(bomb(9 << 27))
    words = ["certify", "bomb.npz", "--top-k", "1"]
    done = subprocess.run([sys.executable, "-c", PEAK, *words], capture_output=True, text=True, check=False)
    check(words, done.returncode, "", done.stderr, refused=True)
    assert int(done.stdout) < 300 << 10  # KiB; numpy and scipy alone take about 100 MiB


# --- nothing in a file runs


class Payload:
    def __reduce__(self):
        return open, ("ran", "w")


def test_the_payload_would_run(here):
    """The control of the tests below."""
    pickle.loads(pickle.dumps(Payload())).close()
    assert (here / "ran").exists()


def poisoned(suffix):
    """Contents that a reader which unpickles would run."""
    plain = pickle.dumps(Payload())
    yield plain
    objects = npy((2,), "|O", body=pickle.dumps(np.array([Payload(), 1], object)))
    if suffix == "npy":
        yield objects
    if suffix == "npz":
        for key in ("scores", "score", "porism", "coalitions", "cheap", "models", "a/nu", "format", "data"):
            yield archive([(f"{key}.npy", objects)])
            yield archive([(f"{key}.npy", plain), ("scores", plain)])
            good = [
                ("scores.npy", npy((2, 2), body=np.ones(4).tobytes())),
                ("shape.npy", npy((), body=bytes(8))),
            ]
            yield archive([*good, (f"{key}.npy", objects)])


@pytest.mark.usefixtures("needed")
@pytest.mark.parametrize(("suffix", "words"), CASES, ids=IDS)
def test_no_reader_unpickles(here, suffix, words):
    for content in poisoned(suffix):
        (here / f"a.{suffix}").write_bytes(content)
        refuse(words, f"a.{suffix}")
    assert os.listdir(here) == [f"a.{suffix}"]


def test_results_are_built_from_results_only(here):
    """Names in a saved result are looked up among results, and arrays among members of the file."""
    for tree in (
        {"$result": "Popen", "fields": {"args": ["touch", "ran"]}},
        {"$result": "os.system", "fields": {"command": "touch ran"}},
        {"$result": "__class__", "fields": {}},
        {"$result": ["Result"], "fields": {}},
        {"$array": "../../../etc/passwd"},
        {"$array": "/etc/passwd"},
        {"$unknown": 1},
        {},
        {"$dict": [[{"$dict": []}, 1]]},
    ):
        header = json.dumps({"format": 1, "porism": "0", "tree": tree})
        np.savez("a.npz", porism=np.array(header))
        with pytest.raises(ValueError, match=r"a\.npz|is not loaded"):
            Result.load("a.npz")
    nested = '{"format": 1, "porism": "0", "tree": ' + '{"$tuple": [' * 10_000 + "]}" * 10_000 + "}"
    np.savez("a.npz", porism=np.array(nested))
    with pytest.raises(ValueError, match=r"a\.npz"):
        Result.load("a.npz")
    assert os.listdir(here) == ["a.npz"]


# --- what is no file


@pytest.mark.usefixtures("needed")
@pytest.mark.parametrize(("suffix", "words"), CASES, ids=IDS)
def test_what_is_no_file(here, suffix, words):
    (here / f"folder.{suffix}").mkdir()
    os.symlink(f"loop.{suffix}", f"loop.{suffix}")
    (here / f"empty.{suffix}").touch()
    for name in ("folder", "loop", "empty", "none", "none/below", "empty.npz/below"):
        assert suffix in refuse(words, f"{name}.{suffix}")
    if suffix in ("npz", "npy", "parquet"):  # text may come through a pipe
        os.mkfifo(f"pipe.{suffix}")
        assert f"pipe.{suffix}" in refuse(words, f"pipe.{suffix}")
    before = {f"folder.{suffix}", f"loop.{suffix}", f"empty.{suffix}", f"pipe.{suffix}"}
    assert set(os.listdir(here)) <= before
