"""`porism reproduce`: run claims, figures and notebooks of modules, and write one page about them."""

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import io
import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from porism import checks
from porism.cli.common import Modules, Scale, Scheduler, Seed, Workers, reason

__all__ = ["reproduce"]


@dataclasses.dataclass(frozen=True)
class Step:
    """A figure or a notebook after its run; `error` is empty where it went well."""

    module: str
    name: str
    caption: str
    seconds: float
    error: str


def reproduce(
    modules: Modules = None,
    scale: Scale = "paper",
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("report"),
    workers: Workers = 1,
    scheduler: Scheduler = None,
    notebooks: Annotated[
        Path | None, typer.Option(help="Folder of notebooks; the checkout's by default.")
    ] = None,
) -> None:
    """Run claims, figures and notebooks and write one report page.

    The page is OUT/index.html, and the exit code 1 if a step failed. Claims go to OUT/claims.json, figures to
    OUT/figures, executed notebooks to OUT/notebooks, each as soon as it is done. With --scheduler, claims and
    figures run on a Dask cluster, notebooks here; only this machine writes.

    Example: porism reproduce partition --scale smoke --out report
    """
    from tqdm import tqdm

    from porism import claims, sims
    from porism._pool import connect, in_order
    from porism.cli import report
    from porism.cli.notebooks import find, module_of

    checks.one_of("scale", scale, claims.SCALES)
    known = sims.modules()
    chosen = [checks.one_of("MODULE", name, known) for name in dict.fromkeys(modules or known)]
    listed = sims.ledger(*chosen)
    owners = {path: module_of(name) for name, path in find(notebooks).items()}
    scripts = {path: module for path, module in owners.items() if module in chosen}
    figures = [(name, key) for name in chosen for key in _figures(name)]
    outcomes: list[claims.Outcome] = []
    steps: dict[str, list[Step]] = {"figures": [], "notebooks": []}
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(connect(scheduler, workers))
        for folder in ("figures", "notebooks"):
            (out / folder).mkdir(parents=True, exist_ok=True)
        total = len(listed) + len(figures) + len(scripts)
        bar = stack.enter_context(tqdm(total=total, desc="reproduce", unit="step"))

        def keep(outcome: claims.Outcome) -> None:
            outcomes.append(outcome)
            text = json.dumps(claims.Ledger(outcomes).to_dict(), indent=1, ensure_ascii=False)
            checks.write_atomic(out / "claims.json", lambda stream: stream.write(text.encode()))
            bar.update()

        claims.run(listed, scale, seed, workers=workers, each=keep, scheduler=client)
        tasks = [(*figure, scale, seed) for figure in figures]
        drawn = stack.enter_context(contextlib.closing(in_order(_draw, tasks, workers, client)))
        for figure, found in zip(figures, drawn, strict=True):
            steps["figures"].append(_keep(*figure, found, out / "figures"))
            bar.update()
        for script, name in scripts.items():
            steps["notebooks"].append(_execute(name, script, scale, out / "notebooks"))
            bar.update()

    page = report.page(chosen, outcomes, steps["figures"], steps["notebooks"], out / "figures", scale, seed)
    checks.write_atomic(out / "index.html", lambda stream: stream.write(page.encode()))
    broken = [f"{s.module}/{s.name}: {s.error}" for part in steps.values() for s in part if s.error]
    broken += [f"{o.claim.id}: {[*o.error.splitlines(), 'not as stated'][0]}" for o in outcomes if not o.ok]
    done = f"{len(outcomes)} claims, {len(figures)} figures, {len(scripts)} notebooks"
    here = "" if owners else " (their folder comes with a checkout; --notebooks names one)"
    typer.echo(f"{out / 'index.html'}: {done}{here}")
    for line in broken:
        typer.echo(f"failed: {line}")
    if broken:
        raise typer.Exit(1)


def _figures(module: str) -> dict[str, Callable]:
    name = f"porism.sims.{module}.figures"
    return importlib.import_module(name).FIGURES if importlib.util.find_spec(name) else {}


def _draw(module: str, name: str, scale: str, seed: int) -> tuple[Step, dict[str, bytes]]:
    """Draw one figure, wherever this is; the caller writes."""
    import matplotlib
    import numpy as np
    from matplotlib import pyplot

    from porism.sims.style import style

    matplotlib.use("agg")  # no window, wherever this runs
    draw = _figures(module)[name]
    files: dict[str, bytes] = {}
    stream = np.random.SeedSequence([seed, zlib.crc32(f"{module}/{name}".encode())])

    def work() -> None:
        try:
            with style():
                figure = draw(scale, np.random.default_rng(stream)).figure
                for kind in ("png", "svg"):
                    metadata = {"Date": None} if kind == "svg" else {}  # the same figure is the same file
                    figure.savefig(file := io.BytesIO(), format=kind, metadata=metadata)
                    files[kind] = file.getvalue()
        finally:
            pyplot.close("all")

    return _step(module, name, (inspect.getdoc(draw) or name).splitlines()[0], work), files


def _keep(module: str, name: str, found: Any, folder: Path) -> Step:
    """Write the files of a figure; an exception in its place tells why a cluster has none."""
    if isinstance(found, Exception):
        return Step(module, name, name, 0.0, reason(found))
    step, files = found
    for kind, content in files.items():
        checks.write_atomic(folder / f"{module}_{name}.{kind}", functools.partial(_put, content))
    return step


def _put(content: bytes, stream: IO[bytes]) -> None:
    stream.write(content)


def _execute(module: str, script: Path, scale: str, folder: Path) -> Step:
    from porism.cli.notebooks import execute, write

    target = folder / script.with_suffix(".ipynb").name
    return _step(module, target.name, "", lambda: write(execute(script, scale), target))


def _step(module: str, name: str, caption: str, work: Callable[[], None]) -> Step:
    start, error = time.perf_counter(), ""
    try:
        work()
    except Exception as problem:  # one failure must not cost the page
        error = reason(problem)
    return Step(module, name, caption, time.perf_counter() - start, error)
