"""Sweeps in processes of their own, which are killed or interrupted: no row is lost, none computed again."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from helpers import alive, wait

from porism.sims.sweep import item_rng

pytestmark = [
    pytest.mark.full,  # tables need the extra of that name
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals"),
]

SLOW = """
import os, sys, time

def slow(i, rng):
    write(f"start {i} {os.getpid()}")
    time.sleep(0.04)
    write(f"end {i} {os.getpid()}")
    return {"x": rng.normal(), "root": i**0.5}

def write(line):
    handle = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, (line + "\\n").encode())
    os.close(handle)

def deadly(i, rng):
    if i == 5 and not os.path.exists("spared"):
        os.kill(os.getpid(), 9)
    return i
"""
RUN = """
import sys
import slow_items
from porism.sims.sweep import sweep

if __name__ == "__main__":
    function, count, workers = sys.argv[1:]
    sweep(getattr(slow_items, function), {"i": range(int(count))}, "out", workers=int(workers))
"""


@pytest.fixture
def start(tmp_path, monkeypatch, needs):
    needs("pandas"), needs("pyarrow")
    (tmp_path / "slow_items.py").write_text(SLOW)
    (tmp_path / "run.py").write_text(RUN)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    )
    running = []

    def run(function, count, workers):
        command = [sys.executable, "run.py", function, str(count), str(workers)]
        # a session of its own, so that an interrupt can reach all of its processes as Ctrl-C does
        with (tmp_path / "errors").open("w") as errors:
            process = subprocess.Popen(command, cwd=tmp_path, stderr=errors, start_new_session=True)
        running.append(process)
        return process

    yield run
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def log(tmp_path, word):
    """Item and process of every line that begins with a word."""
    file = tmp_path / "log"
    lines = file.read_text().splitlines() if file.exists() else []
    return [tuple(map(int, line.split()[1:])) for line in lines if line.startswith(word)]


def pids(tmp_path):
    return {pid for _, pid in log(tmp_path, "start")}


def recorded(tmp_path):
    return {int(file.stem) for file in (tmp_path / "out" / "parts").glob("[0-9]*.parquet")}


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_run_goes_on(start, tmp_path, workers, needs):
    count, former = 40, set()
    for share in (10, 25):
        victim = start("slow", count, workers)
        wait(lambda: len(recorded(tmp_path)) >= share or victim.poll() is not None)  # noqa: B023
        assert victim.poll() is None, "the run ended before it could be killed"
        victim.kill()
        victim.wait()
        kept, former = recorded(tmp_path), former | pids(tmp_path)
        wait(lambda: not any(map(alive, former)))  # noqa: B023 - orphaned workers end soon
        assert share <= len(kept) < count
        assert kept <= {i for i, _ in log(tmp_path, "end")}
    assert start("slow", count, workers).wait(timeout=60) == 0
    again = [i for i, pid in log(tmp_path, "end") if pid not in former]
    assert sorted([*again, *kept]) == list(range(count)), "an item was lost or computed again"
    table = needs("pandas").read_parquet(tmp_path / "out" / "table.parquet")
    assert table["i"].tolist() == list(range(count))
    assert table["root"].tolist() == [i**0.5 for i in range(count)]
    assert table["x"].tolist() == [item_rng({"i": i}).normal() for i in range(count)]
    assert not list((tmp_path / "out" / "parts").iterdir())


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_run_keeps_its_rows(start, tmp_path, workers):
    run = start("slow", 200, workers)
    wait(lambda: len(recorded(tmp_path)) >= 8)
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(timeout=30) != 0
    assert "KeyboardInterrupt" in (tmp_path / "errors").read_text()
    assert 8 <= len(recorded(tmp_path)) < 200
    assert not list((tmp_path / "out" / "parts").glob(".*"))
    assert not (tmp_path / "out" / "table.parquet").exists()


def test_dead_process_is_told_and_costs_one_item(start, tmp_path, needs):
    assert start("deadly", 12, 2).wait(timeout=60) == 1
    assert "ChildProcessError: a worker process died" in (tmp_path / "errors").read_text()
    assert 5 not in recorded(tmp_path)
    (tmp_path / "spared").touch()
    assert start("deadly", 12, 2).wait(timeout=60) == 0
    table = needs("pandas").read_parquet(tmp_path / "out" / "table.parquet")
    assert table["value"].tolist() == list(range(12))
