"""Every verb that writes: interrupted, on a full disk, where nothing can be written; the old file stays."""

import errno
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from hostile import call, check, tree

from porism import checks
from porism.theory.pandora import fit_router
from porism.theory.partition import UtilityTable

WRITERS = {
    "certify": ["certify", "table.csv", "--top-k", "1", "--json", "OUT.json"],
    "certify-plot": ["certify", "table.csv", "--top-k", "1", "--plot", "OUT.png"],
    "scan-plot": ["scan", "a.npy", "--mask", "band:1", "--n-null", "1", "--plot", "OUT.svg"],
    "fit": ["route", "fit", "scores.npz", "--expensive", "ridge", "--folds", "2", "--out", "OUT.npz"],
    "eval-plot": ["route", "eval", "r.npz", "scores.npz", "--policies", "cheap,kg", "--plot", "OUT.pdf"],
    "bidder-plot": ["route", "bidder", "--sweep", "omega=0:1:3", "--plot", "OUT.png"],
    "bench": ["bench", "fake", "--out", "OUT.json"],
    "reproduce": ["reproduce", "fake", "--scale", "smoke", "--notebooks", "empty", "--out", "OUT.d"],
    "notebooks": ["notebooks", "scripts", "--scale", "smoke"],
}
"""Commands, and the file that each writes."""

PLOTS = [pytest.param(name, marks=pytest.mark.full) for name in WRITERS if name.endswith("-plot")]
SMALL = ["certify", "fit", "bench"]
LAB = [pytest.param(name, marks=pytest.mark.full) for name in ("reproduce", "notebooks")]


@pytest.fixture
def here(tmp_path, monkeypatch, fake):
    """A folder with what the commands read, and the made-up module of the tests."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    scores, features = rng.random((80, 3)), rng.random((80, 2))
    UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12]).save("table.csv")
    np.save("a.npy", rng.random((4, 4)))
    np.savez("scores.npz", scores=scores, features=features)
    fit_router(scores, "ridge", "ridge", features, folds=2).save("r.npz")
    os.mkdir("empty")
    os.mkdir("scripts")
    (folder / "scripts" / "99_fake.py").write_text("# %%\n1 + 1\n")
    return folder


def words_of(name, out):
    return [word.replace("OUT", out) for word in WRITERS[name]]


def target_of(name, out="out"):
    """The file that a command writes last or only."""
    if name == "notebooks":
        return "scripts/99_fake.ipynb"
    place = words_of(name, out)[-1]
    return f"{place}/index.html" if name == "reproduce" else place


def put_old(here, name):
    file = here / target_of(name)
    file.parent.mkdir(exist_ok=True)
    file.write_text("old")
    return file


def failing(monkeypatch, error, part=""):
    """Let the last step of every write fail, of files whose temporary name holds `part`."""
    real = os.fsync

    def fsync(handle):
        if part in os.readlink(f"/proc/self/fd/{handle}"):
            raise error
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@linux
@pytest.mark.parametrize("name", [*SMALL, *PLOTS, *LAB])
@pytest.mark.parametrize("problem", [KeyboardInterrupt(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))])
def test_a_write_that_fails_at_its_end(here, monkeypatch, needs, name, problem):
    if name in ("reproduce", "notebooks"):
        needs("nbclient")
    file = put_old(here, name)
    words = words_of(name, "out")
    failing(monkeypatch, problem, file.name)
    code, _, err = call(words)
    assert file.read_text() == "old"
    assert not [path for path in tree(here) if path.name.startswith(".")]
    if isinstance(problem, KeyboardInterrupt):
        assert code == 130
        assert "Traceback" not in err
    else:
        assert code == 2
        assert err.splitlines()[-1].endswith(f"No space left on device: '{target_of(name)}'")
        assert "Traceback" not in err


class Full:
    """A stream on a disk that takes so many bytes more."""

    def __init__(self, stream, room):
        self.stream, self.room = stream, room

    def write(self, data):
        data = memoryview(data).cast("B")
        if len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)
        return self.stream.write(data)

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.stream.close()


@pytest.mark.parametrize("name", [*SMALL, *PLOTS])
@pytest.mark.parametrize("room", [0, 200])
def test_a_disk_that_fills_up(here, monkeypatch, name, room):
    file = put_old(here, name)
    real = os.fdopen
    monkeypatch.setattr(checks.os, "fdopen", lambda handle, mode: Full(real(handle, mode), room))
    words = words_of(name, "out")
    code, out, err = call(words)
    if name == "bench" and room:  # its first write is the empty list, which fits
        assert code == 2
    else:
        check(words, code, out, err, refused=True)
    assert err.splitlines()[-1].endswith(f"No space left on device: '{file.name}'")
    monkeypatch.undo()
    if name != "bench":
        assert file.read_text() == "old"
    assert not [path for path in tree(here) if path.name.startswith(".")]


@pytest.mark.parametrize("name", [*SMALL, *PLOTS, *LAB[:1]])
@pytest.mark.parametrize("place", ["nowhere/out", "a.npy/out", "/proc/out", "loop"])
def test_places_where_nothing_can_be_written(here, name, place):
    """Also for root, whom permissions do not bind."""
    if name == "reproduce" and place == "nowhere/out":
        pytest.skip("it makes its folder")
    suffix = words_of(name, "")[-1] if name != "notebooks" else ""
    os.symlink(f"loop{suffix}", f"loop{suffix}")
    words = words_of(name, place)
    before = tree(here)
    code, out, err = call(words)
    if place == "loop" and code != 2:  # a link to itself may be replaced: there is nothing to lose
        return
    check(words, code, out, err, refused=True)
    assert f"{place}{suffix}" in err
    assert tree(here) == before


@linux
@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="nothing binds root here")
@pytest.mark.parametrize("name", [*SMALL, *PLOTS[-1:], *LAB])
def test_a_folder_that_may_only_be_read(here, tmp_path, needs, name):
    """A process of its own, which permissions bind also where the tests run as root."""
    if name in ("reproduce", "notebooks"):
        needs("nbclient")
    (here / "locked").mkdir()
    folder = here / ("scripts" if name == "notebooks" else "locked")
    words = words_of(name, "locked/out")
    code = FAKE.format(place=str(tmp_path / "sims")) + RUN
    command = [sys.executable, "-c", code, *words]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--", *command]
    before = tree(here)
    folder.chmod(0o555)
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        folder.chmod(0o755)
    check(words, done.returncode, "", done.stderr.splitlines()[-1] + "\n", refused=True)
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(here) == before


@pytest.mark.parametrize("name", [*SMALL, *PLOTS])
def test_a_folder_in_place_of_the_file(here, name):
    words = words_of(name, "out")
    os.mkdir(words[-1])
    result = call(words)
    check(words, *result, refused=True)
    assert f"Is a directory: '{words[-1]}'" in result[2]
    assert os.listdir(words[-1]) == []


def test_a_link_stays_a_link(here):
    """And what is no file is written to, not replaced: as root, /dev/null could be lost for everybody."""
    os.symlink("real.json", "link.json")
    assert call(words_of("certify", "link"))[0] == 1
    assert os.path.islink("link.json")
    assert (here / "real.json").read_text().startswith("{")
    checks.write_atomic(os.devnull, lambda stream: stream.write(b"x"))
    assert not os.path.isfile(os.devnull)
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    checks.write_atomic("pipe", lambda stream: stream.write(b"through"))
    assert os.read(reader, 99) == b"through"
    os.close(reader)


@linux
@pytest.mark.parametrize("place", ["/dev/full"])
def test_a_full_device(here, place):
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        checks.write_atomic(place, lambda stream: stream.write(b"x"))


@linux
@pytest.mark.parametrize("words", [["claims", "partition"], ["route", "bidder", "--json"]])
def test_an_answer_that_cannot_be_printed(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "porism", *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    check(words, done.returncode, "", done.stderr, refused=True)
    assert "No space left on device" in done.stderr


def test_an_interrupt_just_after_the_file_was_renamed(tmp_path, monkeypatch):
    """The temporary file is gone by then; its absence must not hide the interrupt."""
    real = os.replace

    def replace(source, target):
        real(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        checks.write_atomic(tmp_path / "a", lambda stream: stream.write(b"new"))
    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_long_names(tmp_path):
    """The temporary name must not be too long where the name itself is not."""
    file = tmp_path / ("ä" * 100 + "x" * 55)
    checks.write_atomic(file, lambda stream: stream.write(b"new"))
    assert os.listdir(tmp_path) == [file.name]


WAIT = """
import os, sys, time

def fsync(handle):
    print("writing", flush=True)
    time.sleep(60)

os.fsync = fsync
{before}
"""
FAKE = """
from porism import sims
sims.__path__ = [*sims.__path__, {place!r}]
"""


RUN = """
import sys
from porism.cli import main
sys.exit(main(sys.argv[1:]))
"""


def restore():  # a job that runs in the background hands on that interrupts are ignored
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    "name", [*SMALL[:2], *PLOTS[-1:], pytest.param("bench", marks=pytest.mark.full), *LAB]
)
def test_an_interrupt_in_the_middle_of_a_write(here, tmp_path, needs, name):
    """A true signal to a true process, which has written all of a file but not named it yet."""
    if name in ("reproduce", "notebooks"):
        needs("nbclient")
    file = put_old(here, name)
    before = tree(here)
    code = WAIT.format(before=FAKE.format(place=str(tmp_path / "sims"))) + RUN
    command = [sys.executable, "-c", code, *words_of(name, "out")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, preexec_fn=restore, **pipes) as program:
        assert program.stdout.readline() == b"writing\n"
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
        said = program.stderr.read().decode()
    assert "Traceback" not in said
    if name in SMALL:
        assert said.strip() == "" or name == "bench"
    assert file.read_text() == "old"
    assert tree(here) == before
