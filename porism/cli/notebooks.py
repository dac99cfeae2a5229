"""`porism notebooks`: percent scripts to executed notebooks without a trace of the machine that ran them."""

import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from porism._files import read_text
from porism.checks import one_of, require, write_atomic
from porism.claims import SCALES
from porism.cli.common import Scale, reason, scrub

__all__ = ["notebooks"]

LIMIT = 1_500_000
"""Bytes a committed notebook may have."""

TIMEOUT = 900
"""Seconds a cell may take."""

PATTERN = re.compile(r"\d+_(\w+)\.py")


def notebooks(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of the scripts; the checkout's by default.")
    ] = None,
    scale: Scale = "paper",
    check: Annotated[
        bool, typer.Option("--check", help="Only compare the pairs; exit 1 if one is out of step.")
    ] = False,
) -> None:
    """Execute notebook scripts and write the paired .ipynb files.

    Example: porism notebooks --check
    """
    from tqdm import tqdm

    one_of("scale", scale, SCALES)
    chosen = find(folder)
    if not chosen:
        raise ValueError("no notebook scripts here; name the notebooks folder of a checkout")
    if check:
        stale = [script.name for script in chosen.values() if not in_step(script)]
        for name in stale:
            typer.echo(f"{name} and its .ipynb are out of step; run `porism notebooks`")
        if stale:
            raise typer.Exit(1)
        return
    raised = require("nbclient", "lab").exceptions
    failed = []
    for script in tqdm(chosen.values(), desc="notebooks", unit="notebook"):
        try:
            write(execute(script, scale), script.with_suffix(".ipynb"))
        except (raised.CellControlSignal, raised.DeadKernelError, ValueError) as problem:  # the others go on
            failed.append(f"failed: {script.name}: {reason(problem)}")
    for line in failed:
        typer.echo(line)
    if failed:
        raise typer.Exit(1)


def find(folder: Path | None = None) -> dict[str, Path]:
    """List the scripts of a folder by name; the checkout's folder is found beside the installed package."""
    import porism

    if folder is None:
        beside = Path(porism.__file__).parents[1] / "notebooks"
        folder = beside if beside.is_dir() else Path("notebooks")
        if not folder.is_dir():
            return {}
    return {match[1]: path for path in sorted(folder.iterdir()) if (match := PATTERN.fullmatch(path.name))}


def module_of(name: str) -> str:
    """Say which module a notebook belongs to: `policies` has policies, policies_tilt, and so on."""
    from porism import sims

    owners = [module for module in sims.modules() if f"{name}_".startswith(f"{module}_")]
    return max(owners, key=len, default=name)


def execute(script: Path, scale: str) -> Any:
    """Run a script as a notebook, in an empty folder, and return it without traces."""
    client = require("nbclient", "lab")
    notebook = _read(script)
    with tempfile.TemporaryDirectory() as empty:
        runner = client.NotebookClient(
            notebook,
            timeout=TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": empty}},
            extra_arguments=["--IPKernelApp.log_level=ERROR"],  # it warns of its own transport on every start
        )
        runner.execute(env={**os.environ, "PORISM_SCALE": scale})
    return _clean(notebook)


def write(notebook: Any, path: Path) -> None:
    """Write a notebook whole or not at all; one that is too large to commit is refused."""
    text = require("nbformat", "lab").writes(notebook) + "\n"
    if len(text.encode()) > LIMIT:
        raise ValueError(
            f"{path.name} must have at most {LIMIT} bytes, got {len(text.encode())}; "
            "draw fewer points or rasterise them"
        )
    write_atomic(path, lambda stream: stream.write(text.encode()))


def in_step(script: Path) -> bool:
    """Whether the paired notebook exists and has the same cells as the script."""
    pair = script.with_suffix(".ipynb")
    if not pair.exists():
        return False
    reads = require("nbformat", "lab").reads
    wanted, text = _sources(_read(script)), read_text(pair)
    try:
        return _sources(reads(text, as_version=4)) == wanted
    except Exception:  # a damaged notebook fails in many ways, and is out of step in each
        return False


def _read(script: Path) -> Any:
    return require("jupytext", "lab").read(script, fmt="py:percent")


def _sources(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def _clean(notebook: Any) -> Any:
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"file_extension": ".py", "name": "python"},
    }
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number:02d}"
        cell.metadata = {"tags": cell.metadata.tags} if "tags" in cell.metadata else {}
        if cell.cell_type == "code":
            # stderr carries progress bars and timings, which differ from run to run
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if "metadata" in output:
                    output.metadata = {}
                if "text" in output:
                    output.text = scrub(output.text)
                for kind in ("text/plain", "text/html"):
                    if kind in output.get("data", {}):
                        output.data[kind] = scrub(output.data[kind])
    return notebook
