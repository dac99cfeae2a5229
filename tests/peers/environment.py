"""An environment of its own for a library that cannot share ours, and the step into it."""

import argparse
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["make", "run_inside"]

ROOT = Path(__file__).parents[2]


def make(
    folder: Path, requirements: Sequence[str], alone: Sequence[str] = (), pip: Sequence[str] = ()
) -> Path:
    """Make a virtual environment with the requirements, some of them without their dependencies, and porism.

    porism goes in with ``--no-deps``, since it asks for numpy>=2 and the adapters do not. Returns the
    interpreter. A folder that was finished before is used as it is, with porism installed again.
    """
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = folder / "finished"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        call = [str(python), "-m", "pip", "install", "--quiet", *pip]
        subprocess.run([*call, *requirements], check=True)
        if alone:
            subprocess.run([*call, "--no-deps", *alone], check=True)
        subprocess.run([*call, "setuptools>=77"], check=True)
        done.write_text("\n".join([*requirements, *alone, ""]))
    with tempfile.TemporaryDirectory() as scratch:
        install = ["--no-deps", "--no-build-isolation", "--force-reinstall", _copy(Path(scratch))]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *install], check=True)
    return python


def run_inside(
    script: str, write: Callable[[Path], None], requirements: Sequence[str], alone: Sequence[str] = ()
) -> None:
    """Command line of a recording script: make the environment, and run the script again in it."""
    parser = argparse.ArgumentParser(description=(sys.modules["__main__"].__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path, help="folder to write the recordings to")
    parser.add_argument("--env", type=Path, help="folder of the environment, kept; default: temporary")
    parser.add_argument("--here", action="store_true", help="use this interpreter: make no environment")
    parser.add_argument("--pip", action="append", default=[], help="option for pip, as --pip=--index-url=…")
    given = parser.parse_args()
    if given.here:
        given.out.mkdir(parents=True, exist_ok=True)
        write(given.out)
        return
    with tempfile.TemporaryDirectory() as scratch:
        python = make(given.env or Path(scratch) / "env", requirements, alone, given.pip)
        # isolated: no checkout on the path, porism is the installed one
        subprocess.run([str(python), "-I", script, str(given.out.absolute()), "--here"], check=True)


def _copy(scratch: Path) -> str:
    """The sources, copied: a build leaves folders beside them."""
    for name in ("porism", "theory", "sims", "kernels"):
        shutil.copytree(ROOT / name, scratch / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, scratch / name)
    return str(scratch)
