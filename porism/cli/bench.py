"""`porism bench`: measure against peers, side by side in one process."""

import importlib
import importlib.util
import platform
from collections.abc import Callable, Mapping
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from porism._pool import one_blas_thread
from porism._show import plain
from porism.checks import one_of, write_atomic
from porism.cli.common import AsJson, Modules, echo_json, scrub, table

__all__ = ["bench"]

HEADS = ("task", "peer", "version", "ours", "peer's", "ratio", "agreement", "note")


def bench(
    modules: Modules = None,
    json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="JSON file to write, row by row.")] = None,
) -> None:
    """Measure our functions beside those of other libraries.

    A library that is not installed is named and left out. The ratio is the peer's over ours: above 1 we need
    less. Both sides have one thread of linear algebra. The exit code is 1 if a task raised.

    Example: porism bench partition --out bench.json
    """
    from tqdm import tqdm

    from porism import sims

    known = sims.modules()
    chosen = [one_of("MODULE", name, known) for name in dict.fromkeys(modules or known)]
    tasks = [
        (name, task)
        for name in chosen
        if importlib.util.find_spec(f"porism.sims.{name}.benchmarks")
        for task in importlib.import_module(f"porism.sims.{name}.benchmarks").BENCHMARKS
    ]
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    rows: list[dict[str, Any]] = []

    def keep() -> None:
        text = dumps(rows, indent=1, ensure_ascii=False, allow_nan=False, default=str)
        if out:
            write_atomic(out, lambda stream: stream.write(text.encode()))

    keep()  # a place that cannot be written shows before the work, not after
    for name, task in tqdm(tasks, desc="bench", unit="task"):
        rows.append({"module": name, **plain(_measure(task)), **machine})
        keep()
    if json:
        echo_json(rows)
    elif rows:
        typer.echo(table([HEADS, *map(_cells, rows)]))
    if any("error" in row for row in rows):
        raise typer.Exit(1)


def _measure(task: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """One row; a task that raises must not cost the others."""
    try:
        with one_blas_thread():
            return dict(task())
    except Exception as problem:
        name = getattr(task, "__name__", "task")
        return {"task": name, "error": scrub(f"{type(problem).__name__}: {problem}".splitlines()[0])}


def _cells(row: Mapping[str, Any]) -> list[Any]:
    """What the table shows of a row: seconds where there are any, else the numbers compared."""
    sides = [row.get(f"{key}_s", row.get(other, "")) for key, other in (("ours", "ours"), ("peer", "theirs"))]
    shown = [
        f"{value:.3g} s" if f"{key}_s" in row else value
        for key, value in zip(("ours", "peer"), sides, strict=True)
    ]
    note = row.get("missing") or row.get("error", "")
    return [
        row["task"],
        *(row.get(key, "") for key in ("peer", "peer_version")),
        *shown,
        row.get("ratio", ""),
        row.get("agreement", ""),
        note,
    ]
