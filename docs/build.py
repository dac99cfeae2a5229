"""Build the documentation site from docstrings, notebooks and the ledger: python docs/build.py.

All pages that follow from the code are written anew on every run, so that a new module needs no entry in a
list. Warnings are errors, and nothing is loaded from a network, now or when the site is read.
"""

import argparse
import importlib
import inspect
import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import gather
from reference import api_pages
from rst import first_paragraph, lines, title, tree

from porism import sims

ROOT = Path(__file__).parents[1]
TEXTS = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md"}
GROUPS = {
    "What holds": ("theorem", "statistical", "empirical"),
    "What is refuted": ("refuted",),
    "What is not reproduced": (gather.NOT_REPRODUCED,),
}


def find(name: str) -> ModuleType | None:
    """Import a module of porism where there is one."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def questions() -> dict[str, str]:
    """Say what each module answers: the README's table, or the first line of its docstring."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    written = {name: text for name, text in rows if text.endswith("?")}
    return {name: written.get(name) or first_paragraph(floors(name)[0]) for name in sims.modules()}


def floors(module: str) -> list[ModuleType]:
    """List a module's packages, theory first."""
    return [found for floor in ("theory", "sims") if (found := find(f"porism.{floor}.{module}"))]


def readme_pages(source: Path) -> None:
    """Take over README and CONTRIBUTING."""
    for name, page in TEXTS.items():
        lines(source / page, relink((ROOT / name).read_text()))


def relink(text: str) -> str:
    """Point links of a text of the repository to pages; where there is none, the words stay."""

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match[0]
        return f"[{words}]({TEXTS[target]})" if target in TEXTS else words

    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", link, text)


def module_pages(source: Path) -> None:
    """Write a page a module: the question, what holds, what is refuted, what is not reproduced."""
    asked = questions()
    for module, question in asked.items():
        scope = f".. py:currentmodule:: {floors(module)[0].__name__}\n\n"
        text = [title(module), scope, f"*{question}*\n\n", inspect.getdoc(floors(module)[0]) or "", "\n\n"]
        found = [f":doc:`{part.__name__} </api/{part.__name__}>`" for part in floors(module)]
        found += [f":doc:`notebook </notebooks/{path.stem}>`" for path in gather.notebooks(source, module)]
        text.append(f"Go on with {', '.join(found)}.\n\n")
        kinds = [gather.kind(claim) for claim in sims.ledger(module)]
        counts = (sum(kind in group for kind in kinds) for group in GROUPS.values())
        text.append("{} entries: {} hold, {} refuted, {} not reproduced.\n\n".format(len(kinds), *counts))
        for heading, group in GROUPS.items():
            text.append(title(heading, "-"))
            blocks = [f".. claims:: {module}\n   :kind: {kind}\n\n" for kind in group if kind in kinds]
            if blocks and gather.NOT_REPRODUCED in group:
                text.append("What did come out is stated; the source says what was meant to.\n\n")
            text += blocks or ["No entry of the ledger.\n\n"]
        lines(source / f"modules/{module}.rst", *text)
    lead = (
        "Each page states the module's ledger: what holds, what is false as worded, what was tried and did "
        "not come out. Every entry is a check that runs, with a control on which it fails; the test suite "
        "asserts both, and ``porism check`` runs them on your machine. Numbers come from the "
        "executed notebooks.\n\n"
    )
    pages = tree(*(f"{module}" for module in asked), hidden=False)
    lines(source / "modules/index.rst", title("What holds and what does not"), lead, pages)


def which_page(source: Path) -> None:
    """Complete the page of questions by a table of all modules."""
    rows = [
        ".. list-table::\n   :header-rows: 1\n\n",
        "   * - question\n     - module\n     - reference\n     - notebook\n",
    ]
    for module, question in questions().items():
        shown = " ".join(
            f":doc:`{path.stem} </notebooks/{path.stem}>`" for path in gather.notebooks(source, module)
        )
        parts = " ".join(f":doc:`{p.__name__.split('.')[1]} </api/{p.__name__}>`" for p in floors(module))
        rows.append(f"   * - {question}\n     - :doc:`/modules/{module}`\n     - {parts}\n     - {shown}\n")
    page = (source / "which.rst").read_text()
    assert "..\n   modules" in page
    lines(source / "which.rst", page.replace("..\n   modules", "".join(rows)))


def gallery(source: Path) -> None:
    """Write the figures of the executed notebooks, with their captions."""
    text = [title("Gallery"), "Figures at the scale of the papers, from the executed notebooks.\n\n"]
    for module in sims.modules():
        drawn = sorted(gather.pictures(source, module))
        if not drawn:
            continue
        known = importlib.import_module(f"porism.sims.{module}.figures").FIGURES
        text += [title(module, "-"), ".. container:: gallery\n\n"]
        for name, picture, path in drawn:
            image = source / f"figures/{module}_{name}.png"
            image.parent.mkdir(exist_ok=True)
            image.write_bytes(picture)
            caption = first_paragraph(known[name])
            text.append(
                f"   .. figure:: /figures/{image.name}\n      :alt: {caption}\n      :width: 100%\n"
                f"      :name: figure-{module}-{name}\n\n"
                f"      {name}. {caption} (:doc:`notebook </notebooks/{path.stem}>`)\n\n"
            )
    lines(source / "gallery.rst", *text)


def notebook_pages(source: Path) -> None:
    """Copy the executed notebooks."""
    (source / "notebooks").mkdir()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        shutil.copy(path, source / "notebooks")
    stems = [path.stem for path in sorted((source / "notebooks").glob("*.ipynb"))]
    lines(source / "notebooks/index.rst", title("Notebooks"), tree(*stems, hidden=False))


def command_page(source: Path) -> None:
    """Write the help of every verb."""
    import typer

    from porism.cli import app

    def verbs(command: Any, words: Sequence[str]) -> Iterable[tuple[str, str]]:
        context = typer.Context(command, info_name=" ".join(words), terminal_width=100, max_content_width=100)
        yield " ".join(words), command.get_help(context)
        for name, inner in getattr(command, "commands", {}).items():
            yield from verbs(inner, [*words, name])

    text = [title("Command line")]
    for words, help in verbs(typer.main.get_command(app), ["porism"]):
        shown = "".join(f"   {line}".rstrip() + "\n" for line in help.splitlines())
        text += [title(words, "-"), f".. code-block:: text\n\n{shown}\n"]
    lines(source / "command_line.rst", *text)


def cite_page(source: Path) -> None:
    """Say how to cite, and which source each module follows."""
    import porism

    readme = (ROOT / "README.md").read_text()
    how = re.search(r"^## How to cite\n(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
    entry = f"@software{{porism,\n  title = {{porism}},\n  version = {{{porism.__version__}}}\n}}"
    lines(
        source / "cite.md",
        f"# How to cite\n{relink(how[1]).strip() if how else ''}\n\n```bibtex\n{entry}\n```\n",
    )


def write_sources(source: Path) -> None:
    """Write all pages."""
    for name in ("index.rst", "which.rst"):
        shutil.copy(ROOT / "docs" / name, source)
    notebook_pages(source)
    readme_pages(source)
    (source / "elsewhere.json").write_text(json.dumps(api_pages(source)))
    module_pages(source)
    which_page(source)
    gallery(source)
    command_page(source)
    cite_page(source)


def render(source: Path, out: Path) -> int:
    """Turn the pages into HTML; any warning makes this fail, dead references among them."""
    from sphinx.cmd.build import build_main

    strict = ["-W", "--keep-going", "-n", "-q", "-E"]
    places = ["-c", str(ROOT / "docs"), "-d", str(out / "doctrees"), str(source), str(out / "html")]
    return build_main([*strict, *places])


def main() -> int:
    """Build the site and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="folder of the site")
    out: Path = parser.parse_args().out.absolute()
    for name in ("source", "html"):
        shutil.rmtree(out / name, ignore_errors=True)
    (out / "source").mkdir(parents=True)
    write_sources(out / "source")
    code = render(out / "source", out)
    if not code:
        print(f"open {out / 'html' / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
