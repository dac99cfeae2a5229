"""The Triton path of assignment: interpreted and compiled without a GPU, each in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run_alone(name, cache, **variables):
    """Run a file of tests in a fresh process: whether Triton interprets is settled when it is imported."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TRITON_")}
    environment |= variables | {"TRITON_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / name)]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=HERE.parents[2], timeout=600
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    assert "skipped" not in ended.stdout
    return int(re.search(r"(\d+) passed", ended.stdout)[1])


@pytest.mark.full
def test_interpreted(needs, tmp_path):
    needs("torch"), needs("triton")
    assert run_alone("interpreted_triton.py", tmp_path, TRITON_INTERPRET="1") >= 60


@pytest.mark.full
def test_compiled(needs, tmp_path):
    needs("torch"), needs("triton")
    assert run_alone("compiled_triton.py", tmp_path) >= 14


@pytest.mark.parametrize("absent", ["torch", "triton"])
def test_the_extra_is_named_where_a_package_is_missing(absent, monkeypatch):
    import importlib

    from porism.errors import MissingExtraError
    from porism.kernels import lap

    if absent == "triton":  # a stand-in, where torch is not installed either
        monkeypatch.setitem(sys.modules, "torch", sys.modules.get("torch", sys))
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.delitem(sys.modules, "porism.kernels.lap.triton", raising=False)
    monkeypatch.delattr(lap, "triton", raising=False)
    with pytest.raises(MissingExtraError, match=rf"{absent} is not installed.*porism\[torch\]"):
        importlib.import_module("porism.kernels.lap.triton")
