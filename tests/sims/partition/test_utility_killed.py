"""A run that dies by SIGKILL loses no finished evaluation and redoes none."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import alive, wait

from porism.sims.partition._checkpoint import Checkpoint

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")

N = 7
MODEL = """
import os, time
import numpy as np


class Logged:
    def __init__(self, log, seconds):
        self.log, self.seconds = log, seconds

    def fit(self, X, y):
        mask = sum(1 << int(row) for row in X[:, 0])
        handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, f"{mask} {os.getpid()}\\n".encode())
        os.close(handle)
        time.sleep(self.seconds)
        self.mean = y.mean()

    def score(self, X, y):
        return 1.0 / (1.0 + abs(self.mean - y[0]))
"""
RUN = f"""
import sys
import numpy as np
from logged import Logged
from porism.sims.partition import utility_table

if __name__ == "__main__":
    log, checkpoint, out, n_jobs = sys.argv[1:]
    X = np.column_stack([np.arange({N}.0), np.ones({N})])
    y = np.sqrt(np.arange({N}) + 2.0)
    table = utility_table(Logged(log, 0.01), X, y, X[:1], np.array([1.5]), empty_score=0.25,
                          n_jobs=int(n_jobs), checkpoint=checkpoint or None)
    np.save(out, table.scores)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    (tmp_path / "logged.py").write_text(MODEL)
    (tmp_path / "run.py").write_text(RUN)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    )
    running = []

    def run(checkpoint, n_jobs):
        command = [sys.executable, "run.py", "log", checkpoint, "out.npy", str(n_jobs)]
        with (tmp_path / "errors").open("w") as errors:  # a pipe would stay open in orphaned workers
            running.append(subprocess.Popen(command, cwd=tmp_path, stderr=errors))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait()


def fits(log: Path):
    """Mask and process of every fit so far."""
    return [tuple(map(int, line.split())) for line in log.read_text().splitlines()] if log.exists() else []


def finish(process):
    assert process.wait(timeout=120) == 0


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_killed_run_resumes_without_losing_or_redoing(start, tmp_path, n_jobs):
    log, folder = tmp_path / "log", tmp_path / "c"
    kills, recorded, former = 0, {}, set()
    for fraction in (25, 60):
        victim = start("c", n_jobs)
        wait(lambda: len(fits(log)) >= fraction or victim.poll() is not None)  # noqa: B023
        assert victim.poll() is None, "the run ended before it could be killed"
        victim.send_signal(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL
        kills += 1
        kept = Checkpoint(folder, "reader").read()
        assert recorded.items() <= kept.items()
        done_now = {mask for mask, pid in fits(log) if pid not in former}
        assert not done_now & set(recorded), "a recorded coalition was fitted again"
        pids = {pid for _, pid in fits(log)}
        wait(lambda: not any(map(alive, pids)))  # noqa: B023 - orphaned workers end after the fit they are in
        recorded = Checkpoint(folder, "reader").read()
        former |= pids
        assert fraction - 1 - n_jobs <= len(recorded) < 2**N - 1
    finish(start("c", n_jobs))
    again = [mask for mask, pid in fits(log) if pid not in former]
    assert len(again) == len(set(again))
    assert not set(again) & set(recorded), "a recorded coalition was fitted again"
    assert set(again) | set(recorded) == set(range(1, 2**N))
    assert len(fits(log)) <= 2**N - 1 + kills * n_jobs  # one unfinished fit a process and a kill
    resumed = np.load(tmp_path / "out.npy")
    assert all(resumed[mask] == score for mask, (score, _) in recorded.items())

    finish(start("", 1))
    assert (np.load(tmp_path / "out.npy") == resumed).all()
    y = np.sqrt(np.arange(N) + 2.0)
    means = [y[[i for i in range(N) if mask >> i & 1]].mean() for mask in range(1, 2**N)]
    assert (resumed == [0.25, *(1.0 / (1.0 + abs(mean - 1.5)) for mean in means)]).all()


def test_dead_worker_leaves_its_work(start, tmp_path):
    """A worker killed by the system ends the run with an error; what all workers recorded stays."""
    log, folder = tmp_path / "log", tmp_path / "c"
    run = start("c", 2)
    wait(lambda: len(fits(log)) >= 30)
    os.kill(fits(log)[-1][1], signal.SIGKILL)
    assert run.wait(timeout=120) == 1
    assert "TerminatedWorkerError" in (tmp_path / "errors").read_text()
    former = {pid for _, pid in fits(log)}
    recorded = Checkpoint(folder, "reader").read()
    assert len(recorded) >= 27
    finish(start("c", 2))
    again = [mask for mask, pid in fits(log) if pid not in former]
    assert sorted([*again, *recorded]) == list(range(1, 2**N))


def test_two_runs_at_once_harm_nothing(start, tmp_path):
    runs = [start("c", 1), start("c", 1)]
    for run in runs:
        finish(run)
    shared = np.load(tmp_path / "out.npy")
    finish(start("", 1))
    assert (np.load(tmp_path / "out.npy") == shared).all()
    assert set(Checkpoint(tmp_path / "c", "reader").read()) == set(range(1, 2**N))
