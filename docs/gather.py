"""Read what the notebooks measured and drew, and the public names of every module."""

import ast
import base64
import functools
import html.parser
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from porism import sims
from porism.claims import Claim
from porism.cli.notebooks import module_of

NOT_REPRODUCED = "not-reproduced"
FLOORS = ("porism.theory", "porism.sims", "porism.kernels", "porism")
UNSEEN = re.compile(r"porism\.(__main__|cli)(\..*)?|.*\._.*|porism\.kernels\.\w+\.(reference|cpu|triton)")
"""Verbs have a page of their own; a kernel is described by its package."""


def kind(claim: Claim) -> str:
    """Sort a claim: its kind, or that the ledger says that the paper's result did not come out here."""
    return NOT_REPRODUCED if "not reproduced" in f"{claim.source} {claim.statement}" else claim.kind


def notebooks(folder: Path, module: str) -> list[Path]:
    """Find the notebooks of a module; most have one."""
    known = sorted((folder / "notebooks").glob("[0-9]*_*.ipynb"))
    return [path for path in known if module_of(path.stem.partition("_")[2]) == module]


def cells(path: Path) -> list[dict[str, Any]]:
    """Read the code cells of a notebook."""
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


class _Rows(html.parser.HTMLParser):
    """Cells of a table's rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@functools.cache
def ledger_tables(folder: Path, module: str) -> dict[str, dict[str, str]]:
    """Read the rows that a module's executed notebook shows of the ledger, by claim."""
    found = {}
    for cell in (cell for path in notebooks(folder, module) for cell in cells(path)):
        for output in cell.get("outputs", ()):
            reader = _Rows()
            reader.feed("".join(output.get("data", {}).get("text/html", "")))
            heads = reader.rows[0] if reader.rows else []
            if "claim" in heads and "verdict" in heads:
                rows = (
                    dict(zip(heads, (text.strip() for text in row), strict=True)) for row in reader.rows[1:]
                )
                found.update({row["claim"]: row for row in rows})
    return found


def pictures(folder: Path, module: str) -> Iterator[tuple[str, bytes, Path]]:
    """Yield the figures that a module's notebooks show: short name, picture, notebook.

    A cell that draws names its figures as text, in the order in which they come out.
    """
    seen = set()
    known = getattr(importlib.import_module(f"porism.sims.{module}.figures"), "FIGURES", {})
    for path, cell in ((place, cell) for place in notebooks(folder, module) for cell in cells(place)):
        source = "".join(cell["source"])
        if "FIGURES" not in source:
            continue
        words = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant) and n.value in known]
        names = [str(word.value) for word in sorted(words, key=lambda n: (n.lineno, n.col_offset))]
        images = [
            output["data"]["image/png"] for output in cell["outputs"] if "image/png" in output.get("data", {})
        ]
        if len(names) == len(images):
            for name, image in zip(names, images, strict=True):
                if name not in seen:
                    seen.add(name)
                    yield name, base64.b64decode("".join(image)), path


def walk() -> list[str]:
    """Name every public module, floors included."""
    found = {"porism", *FLOORS}
    for floor in FLOORS:
        for entry in pkgutil.walk_packages(importlib.import_module(floor).__path__, f"{floor}."):
            found.add(entry.name)
    return sorted(name for name in found if not UNSEEN.fullmatch(name))


def pages() -> dict[str, list[str]]:
    """Cut the modules into pages: one for each module or package right under a floor, with its submodules."""
    found: dict[str, list[str]] = {}
    for name in walk():
        floor = next(floor for floor in FLOORS if name == floor or name.startswith(f"{floor}."))
        rest = name.removeprefix(floor).strip(".").split(".")[0]
        found.setdefault(f"{floor}.{rest}".strip("."), []).append(name)
    return found


def documented(value: Any) -> bool:
    """Whether autodoc finds the text by itself: functions, classes, cached and compiled functions."""
    return inspect.isroutine(inspect.unwrap(value)) or inspect.isclass(value) or hasattr(value, "py_func")


@functools.cache
def notes(module: str) -> dict[str, str]:
    """Read the strings below a module's constants."""
    tree, found = ast.parse(inspect.getsource(importlib.import_module(module))), {}
    for line, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
            found.update({t.id: str(below.value.value) for t in targets if isinstance(t, ast.Name)})
    return found


def note(module: str, name: str) -> str:
    """Find the string below a constant: in this module, or in a file that stands beside it."""
    package = module if hasattr(importlib.import_module(module), "__path__") else module.rpartition(".")[0]
    beside = [
        entry.name for entry in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    ]
    return next((notes(place)[name] for place in (module, *beside) if name in notes(place)), "")


def owners() -> dict[tuple[str, str], str]:
    """Say under which module each public name is documented, by (module, name).

    That is the shortest public path on the floor where it is defined.
    """
    seen: dict[tuple[str, int], list[str]] = {}
    for module in walk():
        here = importlib.import_module(module)
        for name in here.__all__:
            if not isinstance(getattr(here, name), ModuleType):
                seen.setdefault((name, id(getattr(here, name))), []).append(module)
    chosen = {}
    for (name, _), modules in seen.items():
        home = getattr(getattr(importlib.import_module(modules[0]), name), "__module__", "") or ""
        best = min(modules, key=lambda m: (m.split(".")[:2] != home.split(".")[:2], m.count("."), m))
        chosen.update({(module, name): best for module in modules})
    return chosen


def checks_of_claims() -> dict[int, Claim]:
    """Find the claim of a check function."""
    return {id(claim.check): claim for claim in sims.ledger()}
