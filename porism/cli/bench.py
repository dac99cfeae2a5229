"""`porism bench`: measure against peers, side by side in one process."""

import importlib.util

import typer

from porism.cli.common import AsJson, Modules, echo_json, table

__all__ = ["bench"]

COLUMNS = ("task", "peer", "peer_version", "ours_s", "peer_s", "ratio", "agreement", "missing")


def bench(modules: Modules = None, json: AsJson = False) -> None:
    """Time our functions beside those of other libraries.

    A library that is not installed is named and left out.

    Example: porism bench partition
    """
    from tqdm import tqdm

    from porism import checks, sims

    known = sims.modules()
    chosen = [checks.one_of("MODULE", name, known) for name in modules or known]
    tasks = [
        task
        for name in chosen
        if importlib.util.find_spec(f"porism.sims.{name}.benchmarks")
        for task in importlib.import_module(f"porism.sims.{name}.benchmarks").BENCHMARKS
    ]
    rows = [task() for task in tqdm(tasks, desc="bench", unit="task")]
    if json:
        echo_json(rows)
    elif rows:
        typer.echo(table([COLUMNS, *([row.get(column, "") for column in COLUMNS] for row in rows)]))
