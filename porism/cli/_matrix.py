"""A matrix from a file, for `porism scan`."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from porism._files import check_size, csv_rows, read_npy, read_npz, read_text

__all__ = ["FORMATS", "read_matrix"]

FORMATS = (".npy", ".npz", ".csv", ".mtx")

_SYMMETRIES = {"general": 0, "symmetric": 1, "skew-symmetric": -1}


def read_matrix(path: Path) -> Any:
    """The matrix in a file, without running code of the file; written out, it may take what a file may."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"FILE must end in {', '.join(FORMATS)}, got {path.name!r}")
    if not path.is_file():
        raise ValueError(f"FILE {path.name!r} is not there or is no file; check the path")
    readers = {".npy": read_npy, ".npz": _read_npz, ".mtx": _read_mtx, ".csv": _read_csv}
    try:
        A = readers[suffix](path)
        if len(A.shape) == 2:
            check_size(path.name, 8 * A.shape[0] * A.shape[1], path.stat().st_size)
    except KeyError as error:
        raise ValueError(f"{path.name} cannot be read as a matrix: it holds no {error}") from None
    except (ValueError, TypeError, OverflowError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"{path.name} cannot be read as a matrix: {lines[0]}") from None
    if len(A.shape) != 2:
        raise ValueError(f"{path.name} must hold a matrix with 2 axes, got shape {A.shape}")
    return A


def _read_npz(path: Path) -> Any:
    """The one array of a file, or the matrix of scipy.sparse.save_npz."""
    stored = read_npz(path)
    if "format" not in stored or "shape" not in stored:
        if len(stored) != 1:
            raise ValueError(f"it must hold one array, got {', '.join(list(stored)[:5]) or 'none'}")
        return next(iter(stored.values()))
    from scipy import sparse

    kind = stored["format"].item()
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    shape = tuple(stored["shape"].tolist())
    if kind == "coo":
        return sparse.coo_array((stored["data"], (stored["row"], stored["col"])), shape)
    if kind == "dia":
        return sparse.dia_array((stored["data"], stored["offsets"]), shape)
    makers = {"csr": sparse.csr_array, "csc": sparse.csc_array, "bsr": sparse.bsr_array}
    if kind not in makers:
        raise ValueError(f"its sparse format must be coo, dia, {', '.join(makers)}, got {kind[:20]!r}")
    matrix = makers[kind]((stored["data"], stored["indices"], stored["indptr"]), shape)
    matrix.check_format(full_check=True)  # compiled code would follow wrong indices anywhere
    return matrix


def _read_mtx(path: Path) -> Any:
    """A Matrix Market file of real numbers; scipy's compiled reader crashes on a zero byte."""
    from scipy import sparse

    first, _, text = read_text(path).partition("\n")
    head = first.lower().split()
    if len(head) != 5 or head[:2] != ["%%matrixmarket", "matrix"] or head[2] not in ("array", "coordinate"):
        raise ValueError("its first line must be %%MatrixMarket matrix array|coordinate FIELD SYMMETRY")
    layout, field, symmetry = head[2:]
    if field not in ("real", "double", "integer", "pattern") or symmetry not in _SYMMETRIES:
        raise ValueError(
            f"it must hold real numbers, {', '.join(_SYMMETRIES)}, got {field[:20]} {symmetry[:20]}"
        )
    words = " ".join(line for line in text.splitlines() if not line.startswith("%")).split()
    size = 2 + (layout == "coordinate")
    if len(words) < size:
        raise ValueError(f"it must give {size} numbers for its size, got {len(words)}")
    rows, columns, *count = map(int, words[:size])
    body = words[size:]
    sign = _SYMMETRIES[symmetry]
    if min(rows, columns) < 1 or (sign and rows != columns):
        raise ValueError(
            f"it must have rows and columns, as many where it is {symmetry}, got {rows} x {columns}"
        )
    if layout == "array":
        expected = math.comb(rows + (sign == 1), 2) if sign else rows * columns
        if len(body) != expected:
            raise ValueError(f"it announces {expected} numbers and has {len(body)}")
        values = np.array(body, np.float64)
        if not sign:
            return values.reshape(columns, rows).T
        check_size(path.name, 8 * rows * rows, path.stat().st_size)
        A = np.zeros((rows, rows))
        A.T[np.triu_indices(rows, int(sign < 0))] = values  # the lower triangle, column by column
        return A + sign * np.tril(A, -1).T
    width = 2 + (field != "pattern")
    if len(body) != width * count[0]:
        raise ValueError(f"it announces {count[0]} entries of {width} numbers and has {len(body)} numbers")
    i, j = (np.array(body[k::width], np.int64) - 1 for k in range(2))
    values = np.array(body[2::width], np.float64) if width == 3 else np.ones(len(i))
    if sign:
        off = i != j
        i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        values = np.concatenate([values, sign * values[off]])
    return sparse.coo_array((values, (i, j)), (rows, columns))


def _read_csv(path: Path) -> Any:
    """Comma-separated numbers, with or without a line of names, and a column of names or of row numbers.

    A column of numbers is one of row numbers where the line of names leaves it blank, as R and pandas write;
    so are both where both count, as pandas writes a matrix without names.
    """
    rows = [row for _, row in csv_rows(path) if any(cell.strip() for cell in row)]
    if not rows:
        raise ValueError("it is empty")
    if len({len(row) for row in rows}) > 1:
        raise ValueError("its lines have different numbers of cells")

    def number(cell: str) -> bool:
        try:
            float(cell)
        except ValueError:
            return False
        return "_" not in cell

    def counted(cells: list[str]) -> bool:
        begin, words = int(cells[0].strip() != "0"), [cell.strip() for cell in cells]
        return len(words) > 1 and words == [str(k) for k in range(begin, begin + len(words))]

    head, blank = rows[0], not rows[0][0].strip()
    if not number(head[0]):  # names of the columns, or a name of the row
        labelled = not any(number(row[0]) for row in rows[1:])
        named = any(cell.strip() and not number(cell) for cell in head[1:] or head)  # a blank is a gap
        numbered = len(rows) > 1 < len(head) and counted(head[1:]) and counted([row[0] for row in rows[1:]])
        if len(rows) > 1 and (named or numbered or (blank and labelled)):
            rows = rows[1:]
        if len(head) > 1 and (labelled or numbered or (named and blank)):
            rows = [row[1:] for row in rows]
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            if not number(cell):
                alone = len(row) == 1 and len(cell.replace(";", " ").split()) > 1
                hint = "; separate cells by commas" if alone else ""
                raise ValueError(f"{cell[:20]!r} in row {i}, column {j} is no number{hint}")
    return np.array(rows, dtype=np.float64)
