"""Tables of text cells, column by column, from csv and parquet."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism._files import csv_rows, read_parquet

Floats = NDArray[np.float64]
Columns = dict[str, list[Any]]

MISSING = {"", "nan", "na", "n/a", "null", "none", "<na>"}
WORDS = {"true": 1.0, "false": 0.0}
WIDEST = 20_000  # columns: more than any set of models, fewer than a file that is no table
LONGEST = 200  # characters of a column's name


def csv_columns(path: str | os.PathLike[str], name: str) -> Columns:
    """Cells of a UTF-8 csv file with a header."""
    lines = csv_rows(path)
    _, header = next(lines, (0, []))
    if not header:
        raise ValueError(f"{name} is empty; the first line must name the columns")
    if len(header) == 1 and (found := next((mark for mark in ";\t" if mark in header[0]), "")):
        raise ValueError(f"{name} must have commas between its columns, got {found!r} in the header")
    check_header(header, name)
    rows = []
    for number, row in lines:
        if len(row) != len(header):
            raise ValueError(
                f"{name} line {number} has {len(row)} cells where the header has {len(header)}; "
                "the file may be cut off, or a text with commas lacks its quotes"
            )
        rows.append(row)
    if not rows:
        raise ValueError(f"{name} has a header and no rows")
    return {key: list(cells) for key, cells in zip(header, zip(*rows, strict=True), strict=True)}


def parquet_columns(path: str | os.PathLike[str], name: str) -> Columns:
    """Columns of a parquet file that hold numbers, booleans or text."""
    table = read_parquet(path)
    check_header(table.column_names, name)
    if not table.num_rows:
        raise ValueError(f"{name} has no rows")
    return {key: table.column(key).to_pylist() for key in table.column_names}


def check_header(header: list[str], name: str) -> None:
    """Refuse headers that name a column twice or are no header."""
    if len(header) > WIDEST:
        raise ValueError(f"{name} has {len(header)} columns, more than {WIDEST}: a row must be a query")
    longest = max(header, key=len)
    if len(longest) > LONGEST:
        raise ValueError(
            f"{name} has a column name of {len(longest)} characters ({longest[:30]!r}...); "
            "the first line must name the columns"
        )
    seen: set[str] = set()
    for column in header:
        if column in seen:
            raise ValueError(f"{name} has the column {column!r} more than once; rename or drop one")
        seen.add(column)


def to_numbers(cells: list[Any]) -> Floats | tuple[int, Any]:
    """Cells as numbers, NaN where missing; or place and text of the first that is none."""
    out = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        if cell is None:
            continue
        if isinstance(cell, str):
            word = cell.strip().lower()
            if word in MISSING:
                continue
            if word in WORDS:
                out[i] = WORDS[word]
                continue
        try:
            out[i] = float(cell)
        except (TypeError, ValueError, OverflowError):
            return i, cell
    return out


def mostly_numbers(cells: list[Any]) -> bool:
    """Whether more than half of the cells that are not missing are numbers: a column of text has few."""
    known = [cell for cell in cells if cell is not None and str(cell).strip().lower() not in MISSING]
    return 2 * sum(isinstance(to_numbers([cell]), np.ndarray) for cell in known) > len(known)


def as_numbers(name: str, column: str, cells: list[Any]) -> Floats:
    """Cells of a column that must be numeric."""
    found = to_numbers(cells)
    if isinstance(found, np.ndarray):
        return found
    text = repr(found[1])
    text = text if len(text) <= 40 else text[:37] + "..."
    raise ValueError(
        f"{name}: column {column!r} must hold numbers, got {text} in row {found[0] + 1}; correct or drop it"
    )
