"""Sentences or token ids from a file, and batches of them."""

import csv
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism._files import read_npz, read_text
from porism.checks import require

__all__ = ["Data", "Ids", "Words", "read"]

FORMATS = (".txt", ".csv", ".npz")


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """What a file holds: words or ids, and a class each where it has them."""

    words: list[str] | None
    ids: NDArray[np.int64] | None
    mask: NDArray[np.bool_] | None
    labels: Any


def read(path: str | os.PathLike[str], labels: str | os.PathLike[str] | None = None) -> Data:
    """Read a file; labels name a column of a csv, or a second file with one class a line."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"data must end in {', '.join(FORMATS)}, got {path.name!r}; rename or convert it")
    if not path.is_file():
        raise ValueError(f"data file {path.name!r} is not there or is no file; check the path")
    column = None
    if suffix == ".csv":
        column = _column(path, labels)
    if labels is not None and column is None and not Path(labels).is_file():
        where = "no column of the csv and no file" if suffix == ".csv" else "no file"
        raise ValueError(f"labels {os.fspath(labels)!r} is {where}; name a file with one class a line")
    if suffix == ".npz":
        data = _ids(path)
    elif suffix == ".csv":
        data = _table(path, column)
    else:
        data = Data(_lines(path), None, None, None)
    if labels is not None and column is None:
        data = dataclasses.replace(data, labels=_classes(_lines(Path(labels))))
    return data


class Words:
    """Batches of sentences, turned into ids one batch at a time and padded on the tokenizer's side."""

    def __init__(self, words: Sequence[str], tokenizer: Any, size: int, longest: int) -> None:
        self.words, self.tokenizer, self.size, self.longest = words, tokenizer, size, longest

    def __len__(self) -> int:
        return -(-len(self.words) // self.size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        pad = self.tokenizer.pad_token_id or 0
        side = getattr(self.tokenizer, "padding_side", "right")
        for first in range(0, len(self.words), self.size):
            part = list(self.words[first : first + self.size])
            rows = self.tokenizer(part, truncation=True, max_length=self.longest)["input_ids"]
            for i, row in enumerate(rows):
                if not row:
                    raise ValueError(f"sentence {first + i} gives no tokens; leave it out")
            yield padded(rows, pad, side)


class Ids:
    """Batches of token ids."""

    def __init__(self, ids: NDArray[np.int64], mask: NDArray[np.bool_] | None, size: int) -> None:
        self.ids, self.mask, self.size = ids, mask, size

    def __len__(self) -> int:
        return -(-len(self.ids) // self.size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        import torch

        for first in range(0, len(self.ids), self.size):
            ids = self.ids[first : first + self.size]
            mask = (
                np.ones(ids.shape, dtype=bool) if self.mask is None else self.mask[first : first + self.size]
            )
            yield {"input_ids": torch.from_numpy(ids.copy()), "attention_mask": torch.from_numpy(mask).long()}


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


def check_ids(model: Any, ids: NDArray[np.int64]) -> None:
    """Say so where ids do not fit the model, before an index error says it."""
    longest = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if isinstance(longest, int) and 0 < longest < ids.shape[1]:
        raise ValueError(
            f"input_ids must have rows of at most {longest} tokens, the model's positions, got "
            f"{ids.shape[1]}; cut them"
        )
    embed = getattr(model, "get_input_embeddings", lambda: None)()
    size = getattr(embed, "num_embeddings", None)
    if size is None:
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= size:
        worst = low if low < 0 else high
        raise ValueError(
            f"input_ids must be in 0..{size - 1}, the model's vocabulary, got {worst}; "
            "use the tokenizer of this model"
        )


def _lines(path: Path) -> list[str]:
    lines = [line.strip() for line in read_text(path).splitlines()]
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
        rows = [row for row in csv.reader(read_text(path).splitlines(keepends=True)) if any(row)]
    except csv.Error as error:
        raise ValueError(f"{path.name} cannot be read as csv: {error}") from None
    if len(rows) < 2:
        raise ValueError(f"{path.name} must have a line of names and at least one row; got {len(rows)} lines")
    return rows


def _column(path: Path, labels: Any) -> str | None:
    heads = [name.strip() for name in _rows(path)[0]]
    if labels is None:
        return "label" if "label" in heads else None
    return str(labels) if str(labels) in heads else None


def _table(path: Path, column: str | None) -> Data:
    heads, *rows = _rows(path)
    heads = [name.strip() for name in heads]
    if "text" not in heads:
        raise ValueError(f"{path.name} must have a column 'text', got {', '.join(heads[:5])}; name one so")
    wanted = ["text"] + ([column] if column else [])
    for number, row in enumerate(rows, 2):
        if len(row) != len(heads):
            raise ValueError(
                f"row {number} of {path.name} has {len(row)} cells, not {len(heads)}; quote commas"
            )
        for name in wanted:
            if not row[heads.index(name)].strip():
                raise ValueError(f"row {number} of {path.name} has an empty {name!r}; fill or drop it")
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
    return Data(None, ids.astype(np.int64), None if mask is None else mask != 0, labels)


def opened(batches: Any, labels: Any) -> tuple[Any, Any]:
    """Batches and labels, read where they are named by a path."""
    path = labels if isinstance(labels, (str, os.PathLike)) else None
    if isinstance(batches, (str, os.PathLike)):
        source = read(batches, path)
        return source, source.labels if labels is None or path is not None else labels
    if path is None:
        return batches, labels
    if not Path(path).is_file():
        raise ValueError(f"labels {os.fspath(path)!r} is no file; pass classes, or a file with one a line")
    return batches, _classes(_lines(Path(path)))


def batches_of(source: Any, model: Any, tokenizer: Any, size: int, longest: int) -> Any:
    """Batches from words or from a file's ids; anything else is batches already."""
    require("torch", "torch")
    if isinstance(source, Data) and source.ids is not None:
        check_ids(model, source.ids)
        return Ids(source.ids, source.mask, size)
    words: Any = source.words if isinstance(source, Data) else source
    return Words(words, tokenizer, size, room(model, tokenizer, longest))


def is_words(source: Any) -> bool:
    """Whether batches are sentences, which a tokenizer has to turn into ids."""
    if isinstance(source, Data):
        return source.words is not None
    return isinstance(source, (list, tuple)) and bool(source) and all(isinstance(s, str) for s in source)
