"""What several verbs share: options, the choice of claims, plain tables, text without traces of a machine."""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from porism._show import show

if TYPE_CHECKING:
    from porism.claims import Claim

__all__ = [
    "AsJson",
    "Modules",
    "Names",
    "Scale",
    "Scheduler",
    "Seed",
    "Workers",
    "echo_json",
    "scrub",
    "select",
    "table",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Modules = Annotated[list[str] | None, typer.Argument(metavar="MODULE", help="Modules; all by default.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="ID|MODULE", help="Claims or modules; all by default.")
]
Scale = Annotated[str, typer.Option(help="smoke (seconds) or paper (minutes).")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers run it, such as tcp://host:8786."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random stream.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes on this machine.")]


def select(names: Sequence[str] | None) -> "list[Claim]":
    """Find the claims that ids and modules name; all of them where nothing is named."""
    from porism import sims

    every = sims.ledger()
    known = {claim.id for claim in every} | set(sims.modules())
    for name in names or ():
        if name not in known:
            folded = {word.casefold(): word for word in sorted(known)}
            near = [folded[word] for word in difflib.get_close_matches(name.casefold(), folded, cutoff=0.5)]
            hint = f"near it: {', '.join(near)}" if near else "`porism claims` lists them"
            raise ValueError(f"no claim or module {name!r}; {hint}")
    return [claim for claim in every if not names or claim.id in names or claim.module in names]


def echo_json(value: Any) -> None:
    """Print JSON that every parser reads: no NaN, no infinity."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def table(rows: Iterable[Sequence[Any]]) -> str:
    """Align rows in columns two blanks apart."""
    cells = [[show(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


def scrub(text: str) -> str:
    """Cut folders off absolute paths, and memory addresses off reprs."""
    text = re.sub(r"(?<![\w.:/])(?:/[\w.@+~-]+)+/(?=[\w.@+~-])", "", text)
    return re.sub(r"\b0x[0-9a-f]{6,}\b", "0x0", text)
