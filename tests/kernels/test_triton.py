"""Triton paths without a GPU: each operation interpreted and compiled, in a process of its own."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LEAST = {
    "coalition": (60, 16),
    "lap": (60, 14),
    "moments": (80, 30),
    "pattern_cost": (150, 44),
    "polar": (200, 80),
    "position_gram": (55, 25),
    "subset_attention": (105, 45),
    "voi": (100, 35),
}
"""Tests that must have run, interpreted and compiled."""

pytestmark = pytest.mark.parametrize("operation", LEAST)


def run_alone(name, cache, **variables):
    """Run a file of tests in a fresh process: whether Triton interprets is settled when it is imported."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TRITON_")}
    environment |= variables | {"TRITON_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / name)]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=HERE.parents[1], timeout=900
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    assert "skipped" not in ended.stdout
    return int(re.search(r"(\d+) passed", ended.stdout)[1])


@pytest.mark.full
def test_interpreted(operation, needs, tmp_path):
    needs("torch"), needs("triton")
    found = run_alone(f"{operation}/interpreted_triton.py", tmp_path, TRITON_INTERPRET="1")
    assert found >= LEAST[operation][0]


@pytest.mark.full
def test_compiled(operation, needs, tmp_path):
    needs("torch"), needs("triton")
    assert run_alone(f"{operation}/compiled_triton.py", tmp_path) >= LEAST[operation][1]


@pytest.mark.parametrize("absent", ["torch", "triton"])
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


def test_import_loads_no_torch(operation, tmp_path):
    heavy = "{'torch', 'triton'} & set(sys.modules)"
    code = f"import sys, porism.kernels.{operation}; sys.exit(' '.join({heavy}) or 0)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
