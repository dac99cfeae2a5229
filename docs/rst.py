"""Pieces of reStructuredText."""

import inspect
from pathlib import Path
from typing import Any


def title(text: str, line: str = "=") -> str:
    """Write a heading."""
    return f"{text}\n{line * len(text)}\n\n"


def first_paragraph(thing: Any) -> str:
    """Read the first paragraph of a docstring as one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def lines(path: Path, *parts: str) -> None:
    """Write a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(parts), encoding="utf-8")


def tree(*documents: str, caption: str = "", hidden: bool = True) -> str:
    """List pages that stand below this one."""
    head = [".. toctree::", "   :maxdepth: 1", *(["   :hidden:"] if hidden else [])]
    return (
        "\n".join(
            [*head, *([f"   :caption: {caption}"] if caption else []), "", *(f"   {d}" for d in documents)]
        )
        + "\n\n"
    )
