"""What several verbs share: options, the choice of claims, plain tables, text without traces of a machine."""

import difflib
import errno
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import OptionInfo

from porism._show import show
from porism.checks import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from porism.claims import Claim

__all__ = [
    "AsJson",
    "Modules",
    "Names",
    "Scale",
    "Scheduler",
    "Seed",
    "Workers",
    "as_options",
    "check_outputs",
    "check_picture",
    "draw",
    "echo_json",
    "reason",
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


def check_outputs(*paths: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse, before any work, to write over an input or another output, or where nothing can be written."""
    seen: set[str] = set()
    for path in paths:
        if path is None or (path.exists() and not path.is_file() and not path.is_dir()):
            continue  # a pipe or a device takes what it takes
        if (place := os.path.realpath(path)) in seen:
            raise ValueError(f"{path} is asked for twice; give each output a name of its own")
        seen.add(place)
        for given in inputs:
            if given is not None and path.exists() and given.exists() and path.samefile(given):
                raise ValueError(f"{path} is an input, and would be overwritten; choose another name")
        code = errno.EISDIR if path.is_dir() else 0
        if not path.parent.is_dir():
            code = errno.ENOENT
        elif not os.access(path.parent, os.W_OK):
            code = errno.EACCES
        if code:
            raise OSError(code, os.strerror(code), str(path))


def check_picture(path: Path | None) -> None:
    """Refuse, before any work, a name for a picture that says no format we draw."""
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--plot must end in .png, .svg or .pdf, got {path.name!r}")


def draw(path: Path, work: Callable[["Figure"], object]) -> None:
    """Let `work` fill a figure in our style, and write it whole or not at all."""
    from matplotlib.figure import Figure

    from porism.sims.style import style

    with style():
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        work(figure)
        kind = path.suffix.lstrip(".").lower()
        write_atomic(path, lambda stream: figure.savefig(stream, format=kind, dpi=150))


def as_options(text: str, verb: Callable[..., object], words: Mapping[str, str] | None = None) -> str:
    """A message of the library in the words of the command line.

    ``missing='range'`` becomes ``--missing range``, ``Names(masks=True)`` ``--masks``, and ``max_rank must``
    ``--max-rank must``, where these are options of `verb`; `words` adds what the library calls an option
    otherwise, such as ``{"tau": "--threshold", "Sign": "--sign"}``. A quoted name stays.
    """
    options = {
        name: f"--{name.replace('_', '-')}"
        for name, parameter in inspect.signature(verb).parameters.items()
        if any(isinstance(x, OptionInfo) for x in getattr(parameter.annotation, "__metadata__", ()))
    } | dict(words or {})

    def given(match: re.Match[str]) -> str:
        option, value = options[match[1]], re.sub(r"""['"()\s]""", "", match[2])
        if value in ("None", "False"):
            return f"no {option}"
        return option if value in ("True", "...") else f"{option} {value}"

    free, group = r"""(?<![\w'"./-])""", r"\([^()]*\)"
    text = re.sub(rf"{free}(?:\w+=)?[A-Z]\w*\((\w+=(?:[^()]|{group})*)\)", r"\1", text)  # Class(name=value)
    known = "|".join(sorted(options, key=len, reverse=True))
    text = re.sub(rf"{free}({known})=('[^']*'|{group}|\.\.\.|[\w./+-]*\w)", given, text)

    def bare(match: re.Match[str]) -> str:  # where it cannot be a word of the sentence
        name, rest = match[1], match[2] or ""
        return options[name] + rest if rest or "_" in name or not name.islower() else name

    return re.sub(rf"{free}({known})\b( must\b)?", bare, text)


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


def reason(problem: BaseException) -> str:
    """Say in one line what went wrong; of a failed notebook cell, what it raised."""
    kind = getattr(problem, "ename", type(problem).__name__)  # nbclient's; its message is the whole cell
    lines = [line for line in str(getattr(problem, "evalue", problem)).splitlines() if line.strip()]
    return scrub(f"{kind}: {lines[0]}" if lines else kind)
