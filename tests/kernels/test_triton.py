"""Triton paths without a GPU: all operations interpreted, and all compiled, in a process of its own each."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OPERATIONS = sorted(path.parent.name for path in HERE.glob("*/compiled_triton.py"))


def run_alone(name, cache, **variables):
    """Run files of tests in a fresh process: whether Triton interprets is settled when it is imported."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TRITON_")}
    environment |= variables | {"TRITON_CACHE_DIR": str(cache)}
    files = sorted(map(str, [HERE / name, *HERE.glob(f"*/{name}")]))
    assert len(files) == 9
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=10", *files]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=HERE.parents[1], timeout=1800
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    assert "skipped" not in ended.stdout
    return int(re.search(r"(\d+) passed", ended.stdout)[1])


@pytest.mark.full
def test_interpreted(needs, tmp_path):
    needs("torch"), needs("triton")
    assert run_alone("interpreted_triton.py", tmp_path, TRITON_INTERPRET="1") > 700


@pytest.mark.full
def test_compiled(needs, tmp_path):
    needs("torch"), needs("triton")
    assert run_alone("compiled_triton.py", tmp_path) > 260


@pytest.mark.parametrize("absent", ["torch", "triton"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_extra_is_named_where_a_package_is_missing(operation, absent, monkeypatch):
    from porism.errors import MissingExtraError

    name = f"porism.kernels.{operation}"
    package = importlib.import_module(name)
    if absent == "triton":  # a stand-in, where torch is not installed either
        monkeypatch.setitem(sys.modules, "torch", sys.modules.get("torch", sys))
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.delitem(sys.modules, f"{name}.triton", raising=False)
    monkeypatch.delattr(package, "triton", raising=False)
    with pytest.raises(MissingExtraError, match=rf"{absent} is not installed.*porism\[torch\]"):
        importlib.import_module(f"{name}.triton")


def test_import_loads_no_torch(tmp_path):
    names = ", ".join(f"porism.kernels.{operation}" for operation in OPERATIONS)
    code = f"import sys, {names}; sys.exit(' '.join({{'torch', 'triton'}} & set(sys.modules)) or 0)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
