"""How numbers and tables are written, in notebooks, reports and terminals."""

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

__all__ = ["html_table", "plain", "show"]


def show(value: Any) -> str:
    """Write a number with at most four digits, and anything else as it is."""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def plain(value: Any) -> Any:
    """Turn NumPy scalars into Python numbers, and what JSON lacks (infinity, NaN) into strings."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def html_table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Make a table for a notebook."""
    left = "style='text-align:left'"
    head = "".join(f"<th {left}>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td {left}>{escape(show(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
