"""The same table from a real Dask scheduler with two worker processes, one killed in the middle."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from porism import claims, sims
from porism.cli import main
from porism.cli.reproduce import _draw
from porism.sims.sweep import SweepError, sweep

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals"),
]

ITEMS = """
import os, time

def write(line):
    handle = os.open(os.environ["SWEEP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, (line + "\\n").encode())
    os.close(handle)

def held(i, rng):
    write(f"start {i} {os.getpid()}")
    while i == 9 and not os.path.exists(os.environ["SWEEP_LOG"] + ".go"):
        time.sleep(0.01)
    time.sleep(0.01)
    write(f"end {i} {os.getpid()}")
    return {"x": rng.normal(), "name": "ab"[i % 2]}

def plain(i, rng):
    if i == 3:
        raise ValueError("three")
    return rng.normal()

def deadly(i, rng):
    if i == 1:
        os.kill(os.getpid(), 9)
    return i
"""


class Cluster:
    """A scheduler and workers on the loopback, one process each, on ports of their own."""

    def __init__(self, folder, module=""):
        self.folder, self.log, self.processes = folder, folder / "log", []
        (folder / "cluster_items.py").write_text(ITEMS)
        (folder / "preload.py").write_text(module)
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        self.environment = os.environ | {
            "PYTHONPATH": path,
            "SWEEP_LOG": str(self.log),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, program, *words):
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--host", "127.0.0.1", *words]
        with (self.folder / f"{program}-{len(self.processes)}.log").open("w") as log:
            self.processes.append(
                subprocess.Popen(
                    [*command, "--no-dashboard"],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                )
            )
        return self.processes[-1]

    def scheduler(self):
        file = self.folder / "scheduler.json"
        self.start("scheduler", "--port", "0", "--scheduler-file", str(file))
        wait(file.exists)
        wait(lambda: file.read_text().rstrip().endswith("}"))
        return json.loads(file.read_text())["address"]

    def workers(self, address, count=2):
        before = len(self.processes)
        for _ in range(count):
            words = ("--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--preload", "preload.py")
            self.start("worker", address, *words, "--local-directory", str(self.folder))
        logs = [self.folder / f"worker-{before + i}.log" for i in range(count)]
        wait(lambda: all("Registered to" in log.read_text() for log in logs))

    def stop(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def wait(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def lines(cluster):
    text = cluster.log.read_text() if cluster.log.exists() else ""
    return [(word, int(i), int(pid)) for word, i, pid in map(str.split, text.splitlines())]


@pytest.fixture
def cluster(tmp_path, monkeypatch, needs):
    needs("distributed"), needs("pandas"), needs("pyarrow")
    (tmp_path / "cluster").mkdir()
    made = Cluster(
        tmp_path / "cluster", f"from porism import sims\nsims.__path__ += [{str(tmp_path / 'sims')!r}]\n"
    )
    monkeypatch.syspath_prepend(made.folder)
    monkeypatch.setenv("SWEEP_LOG", str(tmp_path / "serial"))
    (tmp_path / "serial.go").touch()
    yield made
    made.stop()
    sys.modules.pop("cluster_items", None)


def test_killed_worker_changes_nothing(cluster, tmp_path):
    import cluster_items

    grid = {"i": range(30)}
    serial = sweep(cluster_items.held, grid)
    address = cluster.scheduler()
    cluster.workers(address)
    by_pid = {process.pid: process for process in cluster.processes}
    killed, problems = [], []

    def kill():
        try:
            wait(lambda: any(line[:2] == ("start", 9) for line in lines(cluster)))
            killed.append(next(pid for word, i, pid in lines(cluster) if (word, i) == ("start", 9)))
            by_pid[killed[0]].kill()
            by_pid[killed[0]].wait()
        except BaseException as problem:
            problems.append(problem)
        finally:
            cluster.log.with_suffix(".go").touch()  # until now item 9 could not end

    killer = threading.Thread(target=kill)
    killer.start()
    table = sweep(cluster_items.held, grid, tmp_path / "out", scheduler=address)
    killer.join()
    assert problems == []
    assert table.equals(serial)
    starts = [pid for word, i, pid in lines(cluster) if (word, i) == ("start", 9)]
    assert len(starts) == 2
    assert starts[0] == killed[0] != starts[1]
    assert {i for word, i, _ in lines(cluster) if word == "end"} == set(range(30))


def test_cluster_and_its_end(cluster, tmp_path):
    """Failures are kept as here; without worker or scheduler it says so; rows outlive the scheduler."""
    import cluster_items
    from distributed import Client

    grid = {"i": range(8)}
    with pytest.raises(SweepError) as local:
        sweep(cluster_items.plain, grid)
    address = cluster.scheduler()
    late = threading.Timer(1.0, cluster.workers, [address])
    late.start()
    with pytest.warns(UserWarning, match=rf"scheduler at {address} has no worker yet") as caught:
        table = sweep(cluster_items.plain, grid, tmp_path / "out", scheduler=address, errors="keep")
    assert caught[0].filename == __file__
    late.join()
    assert table.equals(local.value.table)
    assert table["error"][3] == "ValueError: three"

    with Client(address, set_as_default=False) as client:
        closure = 3
        assert sweep(lambda i, rng: i * closure, grid, scheduler=client)["value"].tolist() == [
            *range(0, 24, 3)
        ]
        assert client.status == "running"

    parts = tmp_path / "held" / "parts"

    def end():  # item 9 never ends on this cluster, so the sweep cannot
        wait(lambda: len(list(parts.glob("[0-9]*.parquet"))) >= 3)
        cluster.processes[0].kill()

    ended = threading.Thread(target=end)
    ended.start()
    with pytest.raises(ConnectionError, match="scheduler went away; what had finished is kept"):
        sweep(cluster_items.held, {"i": range(30)}, tmp_path / "held", scheduler=address)
    ended.join()
    kept = {int(file.stem) for file in parts.iterdir()}
    assert 3 <= len(kept) < 30
    before = len(lines_of(tmp_path / "serial"))
    assert sweep(cluster_items.held, {"i": range(30)}, tmp_path / "held")["i"].tolist() == [*range(30)]
    assert len(lines_of(tmp_path / "serial")) - before == 2 * (30 - len(kept))


def lines_of(file):
    return file.read_text().splitlines() if file.exists() else []


def test_reproduce_on_a_cluster(fake, cluster, tmp_path, capsys, needs):
    needs("nbclient"), needs("jupytext")
    address = cluster.scheduler()
    cluster.workers(address)
    out = tmp_path / "out"
    words = ["reproduce", "fake", "--scale", "smoke", "--notebooks", str(fake), "--out", str(out)]
    assert main([*words, "--scheduler", address]) == 0, capsys.readouterr().out
    here = claims.run(sims.ledger("fake"), "smoke").to_dict()
    there = json.loads((out / "claims.json").read_text())
    for row in here + there:
        row.pop("seconds")
    assert here == there
    assert len(here) == 3
    figure, files = _draw("fake", "F1", "smoke", 0)
    assert figure.error == ""
    for kind, content in files.items():
        assert (out / "figures" / f"fake_F1.{kind}").read_bytes() == content
    assert (out / "notebooks" / "99_fake.ipynb").exists()
    assert (out / "index.html").exists()


def test_claims_that_kill_their_workers_are_told(fake, cluster, tmp_path):
    """Worker after worker dies on one claim: it fails with the reason, the others come out as ever."""
    file = tmp_path / "sims" / "fake" / "claims.py"
    file.write_text(
        file.read_text()
        + "\n\n@claim('FK-3', kind='theorem', source='s', statement='t', control='c')\n"
        + "def deadly(scale, rng, broken=False):\n    import os\n    os.kill(os.getpid(), 9)\n"
    )
    address = cluster.scheduler()
    cluster.workers(address, 5)  # the scheduler gives up after four
    listed = sims.ledger("fake")
    ledger = claims.run(listed, scheduler=address)
    assert [outcome.claim.id for outcome in ledger] == ["FK-1", "FK-2", "FK-3", "FK-10"]
    assert [outcome.ok for outcome in ledger] == [True, True, False, True], [o.error for o in ledger]
    assert ledger[2].error.startswith("not run: KilledWorker: ")
