"""The adapters against the real libraries, each in an environment of its own: ``pytest -m peer_env``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[3] / "peers"


@pytest.mark.peer_env
@pytest.mark.parametrize("peer", ["pydvl", "opendataval"])
def test_fresh_recordings_pass_the_tests_of_the_committed_ones(peer, tmp_path):
    keep = os.environ.get("PORISM_PEER_ENVS")  # a folder for the environments, to make them only once
    extra = [f"--env={Path(keep) / peer}"] if keep else []
    command = [sys.executable, PEERS / f"record_{peer}.py", tmp_path / peer, *extra]
    subprocess.run(command, check=True)
    tests = Path(__file__).parent / f"test_{peer}.py"
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests],
        env=os.environ | {"PORISM_RECORDED": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout[-3000:]
