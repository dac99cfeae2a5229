"""Sentences or token ids from a file, and batches of them."""

import csv
import dataclasses
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism._files import read_npz, read_text
from porism.checks import require

__all__ = ["Batches", "Data", "batches_of", "is_words", "opened", "read"]

FORMATS = (".txt", ".csv", ".npz")


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """What a file holds: words or ids, and a class each where it has them."""

    words: list[str] | None
    ids: NDArray[np.int64] | None
    mask: NDArray[np.int64] | None
    labels: Any


def read(path: str | os.PathLike[str], labels: str | os.PathLike[str] | None = None) -> Data:
    """Read a file; labels name a column of a csv, or a second file with one class a line."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"data must end in {', '.join(FORMATS)}, got {path.name!r}; rename or convert it")
    if not path.is_file():
        raise ValueError(f"data file {path.name!r} is not there or is no file; check the path")
    rows = _rows(path) if suffix == ".csv" else [[]]
    name = "label" if labels is None else os.fspath(labels)
    column = name if name in rows[0] else None
    if labels is not None and column is None and not Path(labels).is_file():
        where = "no column of the csv and no file" if suffix == ".csv" else "no file"
        raise ValueError(f"labels {os.fspath(labels)!r} is {where}; name a file with one class a line")
    if suffix == ".npz":
        data = _ids(path)
    elif suffix == ".csv":
        data = _table(path.name, rows, column)
    else:
        data = Data(_lines(path), None, None, None)
    if labels is not None and column is None:
        data = dataclasses.replace(data, labels=_classes(_lines(Path(labels))))
    return data


class Batches:
    """Batches of so many rows, each made when it is asked for by the numbers of its first and last row."""

    def __init__(self, rows: int, size: int, make: Callable[[int, int], dict[str, Any]]) -> None:
        self.rows, self.size, self.make = rows, size, make

    def __len__(self) -> int:
        return -(-self.rows // self.size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self.make(i, min(i + self.size, self.rows)) for i in range(0, self.rows, self.size))


def padded(rows: list[list[int]], pad: int, side: str) -> dict[str, Any]:
    """Ids and mask of rows of different length."""
    import torch

    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for i, row in enumerate(rows):
        where = slice(longest - len(row), None) if side == "left" else slice(len(row))
        ids[i, where], mask[i, where] = row, 1
    return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}


def room(model: Any, tokenizer: Any, most: int) -> int:
    """Longest row that the user, the model and the tokenizer allow."""
    config = getattr(model, "config", None)
    limits = [
        most,
        getattr(config, "max_position_embeddings", None),
        getattr(tokenizer, "model_max_length", None),
    ]
    return min(int(limit) for limit in limits if isinstance(limit, (int, float)) and limit > 0)


def _lines(path: Path) -> list[str]:
    lines = [line.strip() for line in io.StringIO(read_text(path), newline=None)]
    lines = [line for line in lines if line]
    if not lines:
        raise ValueError(f"{path.name} must not be empty; write one line a sample")
    return lines


def _classes(values: list[str]) -> Any:
    """Ints where all are, names else."""
    try:
        return np.array([int(value) for value in values])
    except ValueError:
        return np.array(values)


def _rows(path: Path) -> list[list[str]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(read_text(path), newline="")) if any(row)]
    except csv.Error as error:
        raise ValueError(f"{path.name} cannot be read as csv: {error}") from None
    if len(rows) < 2:
        raise ValueError(f"{path.name} must have a line of names and at least one row; got {len(rows)} lines")
    return [[name.strip() for name in rows[0]], *rows[1:]]


def _table(file: str, rows: list[list[str]], column: str | None) -> Data:
    heads, *rows = rows
    if "text" not in heads:
        raise ValueError(f"{file} must have a column 'text', got {', '.join(heads[:5])}; name one so")
    wanted = ["text"] + ([column] if column else [])
    for number, row in enumerate(rows, 2):
        if len(row) != len(heads):
            raise ValueError(f"row {number} of {file} has {len(row)} cells, not {len(heads)}; quote commas")
        for name in wanted:
            if not row[heads.index(name)].strip():
                raise ValueError(f"row {number} of {file} has an empty {name!r}; fill or drop it")
    words, *classes = ([row[heads.index(name)].strip() for row in rows] for name in wanted)
    return Data(words, None, None, _classes(classes[0]) if classes else None)


def _ids(path: Path) -> Data:
    try:
        stored = read_npz(path)
        names = list(stored)
        wanted = "input_ids" if "input_ids" in names or len(names) != 1 else names[0]
        if wanted not in names:
            raise ValueError(f"it must hold 'input_ids', got {', '.join(names[:5]) or 'none'}")
        ids, mask, labels = stored[wanted], stored.get("attention_mask"), stored.get("labels")
    except (ValueError, OSError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"{path.name} cannot be read as token ids: {lines[0]}") from None
    if ids.dtype.kind not in "iu" or ids.ndim != 2 or not ids.size:
        raise ValueError(f"{path.name} must hold ints of shape (N, T), got {ids.dtype} of shape {ids.shape}")
    if mask is not None and mask.shape != ids.shape:
        raise ValueError(f"attention_mask of {path.name} must have shape {ids.shape}, got {mask.shape}")
    if labels is not None and labels.ndim > 1:  # one label a token: no class of the sample
        labels = None
    mask = np.ones(ids.shape, dtype=bool) if mask is None else mask != 0
    return Data(None, ids.astype(np.int64), mask.astype(np.int64), labels)


def opened(batches: Any, labels: Any) -> tuple[Any, Any]:
    """Batches and labels, read where they are named by a path."""
    path = labels if isinstance(labels, (str, os.PathLike)) else None
    if isinstance(batches, (str, os.PathLike)):
        source = read(batches, path)
        return source, source.labels if labels is None or path is not None else labels
    if getattr(getattr(batches, "dtype", None), "kind", "") in ("U", "O", "T"):  # arrays or columns of words
        batches = list(batches)
    if path is None:
        return batches, labels
    if not Path(path).is_file():
        raise ValueError(f"labels {os.fspath(path)!r} is no file; pass classes, or a file with one a line")
    return batches, _classes(_lines(Path(path)))


def batches_of(source: Any, model: Any, tokenizer: Any, size: int, longest: int) -> Batches:
    """Batches of a file's ids, or of sentences, padded on the tokenizer's side."""
    torch = require("torch", "torch")
    if isinstance(source, Data) and source.ids is not None:
        arrays: dict[str, Any] = {"input_ids": source.ids, "attention_mask": source.mask}
        positions = getattr(getattr(model, "config", None), "max_position_embeddings", None)
        if isinstance(positions, int) and 0 < positions < source.ids.shape[1]:
            raise ValueError(
                f"input_ids must have rows of at most {positions} tokens, the model's positions, got "
                f"{source.ids.shape[1]}; cut them"
            )

        def stored(first: int, stop: int) -> dict[str, Any]:
            return {name: torch.tensor(array[first:stop]) for name, array in arrays.items()}

        return Batches(len(source.ids), size, stored)
    words: Any = source.words if isinstance(source, Data) else source
    most, pad = room(model, tokenizer, longest), getattr(tokenizer, "pad_token_id", None) or 0
    side = getattr(tokenizer, "padding_side", "right")

    def tokenized(first: int, stop: int) -> dict[str, Any]:
        rows = tokenizer(list(words[first:stop]), truncation=True, max_length=most)["input_ids"]
        for i, row in enumerate(rows, first):
            if not row:
                raise ValueError(f"sentence {i} gives no tokens; leave it out")
        return padded(rows, pad, side)

    return Batches(len(words), size, tokenized)


def is_words(source: Any) -> bool:
    """Whether batches are sentences, which a tokenizer has to turn into ids."""
    if isinstance(source, Data):
        return source.words is not None
    return isinstance(source, (list, tuple)) and bool(source) and all(isinstance(s, str) for s in source)
