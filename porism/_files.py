"""Reading files that others wrote: no code of theirs runs, and sizes are looked at before memory is taken.

What a file takes in memory may be 4 GiB, but only 256 MiB where that is more than 50 times its size on disk,
or where it is text. PORISM_FILE_LIMIT, a number of bytes, takes the place of both.
"""

import csv
import io
import json
import math
import os
import stat
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from porism.checks import require

__all__ = [
    "PACKED",
    "PLAIN",
    "check_size",
    "csv_rows",
    "read_json",
    "read_npy",
    "read_npz",
    "read_parquet",
    "read_text",
]

PLAIN, PACKED, RATIO = 4 << 30, 256 << 20, 50
_HEAD = 1 << 14
"""Bytes of a member that can be header: numpy accepts one of 10,000 characters."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError)


def check_size(name: str, size: int, held: int = 0) -> None:
    """Refuse what would take more memory than is allowed; held is its size on disk, 0 for text."""
    own = os.environ.get("PORISM_FILE_LIMIT", "")
    if own and not own.isdecimal():
        raise ValueError(f"PORISM_FILE_LIMIT must be a number of bytes, got {own!r}")
    most = int(own) if own else PLAIN if size <= RATIO * held else PACKED
    if size > most:
        raise ValueError(
            f"{name} would take {size} bytes of memory, more than the {most} allowed here; "
            "if you trust it, set PORISM_FILE_LIMIT to a greater number of bytes"
        )


def read_npz(path: str | os.PathLike[str], names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file by name: those of the names that are there, or all."""
    file = Path(path).name
    with _regular(path) as stream:
        held = os.fstat(stream.fileno()).st_size
        try:
            with zipfile.ZipFile(stream) as archive:
                infos = archive.infolist()
        except _DAMAGED:
            raise ValueError(f"{file} is no npz file, or is damaged; write one with numpy.savez") from None
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            key = info.filename.removesuffix(".npy")
            if names is not None and key not in names:
                continue
            if key in members:
                raise ValueError(f"{file}: {_short(key)} is there twice; write the file again")
            members[key] = info
        check_size(file, sum(info.file_size for info in members.values()), held)
        with zipfile.ZipFile(stream) as archive:
            return {key: _member(archive, info, f"{file}: {_short(key)}") for key, info in members.items()}


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of an npy file."""
    name = Path(path).name
    with _regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        check_size(name, size, size)
        _check_header(stream.read(_HEAD), size, name)
        stream.seek(0)
        return _array(stream, name)


def read_text(path: str | os.PathLike[str]) -> str:
    """Text in UTF-8, with or without its mark; a pipe is read to its end."""
    name = Path(path).name
    with open(path, "rb") as stream:
        check_size(name, os.fstat(stream.fileno()).st_size)
        raw = bytearray()
        while part := stream.read(1 << 24):  # a pipe or a device does not tell how much is to come
            raw += part
            check_size(name, len(raw))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def csv_rows(path: str | os.PathLike[str]) -> Iterator[tuple[int, list[str]]]:
    """Lines of a csv file that are not blank, with the number of the line on which each ends."""
    name = Path(path).name
    text = read_text(path)
    if "\0" in text:
        raise ValueError(f"{name} holds zero bytes: it is no text table")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{name} line {reader.line_num} is no csv: {error}") from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds."""
    name = Path(path).name
    try:
        return json.loads(read_text(path))
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply to be read") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{name} is not JSON: {error}") from None


def read_parquet(path: str | os.PathLike[str]) -> Any:
    """An Arrow table of the columns that are not nested, each with its values written out."""
    parquet, arrow = require("pyarrow.parquet", "tables"), require("pyarrow", "tables")
    compute = require("pyarrow.compute", "tables")
    name = Path(path).name
    with _regular(path) as stream:
        held = os.fstat(stream.fileno()).st_size
        try:
            schema = parquet.read_schema(stream)
            flat = [field.name for field in schema if not arrow.types.is_nested(field.type)]
            words = [
                field.name
                for field in schema
                if any(kind(field.type) for kind in (arrow.types.is_string, arrow.types.is_binary))
            ]
            # a value that repeats is one in the file; so it must stay until its size is known
            file = parquet.ParquetFile(stream, read_dictionary=words)
            check_size(name, _declared(file.metadata), held)
            table = file.read(columns=flat)
        except (arrow.ArrowException, OSError, OverflowError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(f"{name} is no parquet file: {reason}") from None
        size = 0
        for column in (table.column(i) for i in range(table.num_columns)):
            for chunk in column.chunks:
                if arrow.types.is_dictionary(chunk.type):
                    lengths = compute.binary_length(chunk.dictionary)
                    size += compute.sum(compute.cast(lengths.take(chunk.indices), "int64")).as_py() or 0
        check_size(name, size, held)
    return table


def _declared(metadata: Any) -> int:
    """Bytes of the numbers and codes of a parquet file, however well they are packed."""
    widths = [max(8, metadata.schema.column(j).length) for j in range(metadata.num_columns)]
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return sum(g.column(j).num_values * w for g in groups for j, w in enumerate(widths))


def _regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file that has a size; opening a pipe would wait for its writer."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(f"{Path(path).name} is a pipe or a device; copy it to a file first")
    return open(path, "rb")


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    try:
        with archive.open(info) as stream:
            head = stream.read(_HEAD)
        _check_header(head, info.file_size, name)
        with archive.open(info) as stream:
            return _array(stream, name)
    except _DAMAGED as error:
        if isinstance(error, ValueError):
            raise
        raise ValueError(f"{name} is damaged; copy the file again, or write it anew") from None


def _check_header(head: bytes, size: int, name: str) -> None:
    stream = io.BytesIO(head)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the parser says of odd text
        try:
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(stream)
        except Exception:  # a damaged header fails in many ways: as text, as Python, as a tuple, as a dtype
            raise ValueError(f"{name} is damaged: it has no valid header of an array") from None
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are not read; save it as numbers or text")
    count = math.prod(shape)
    if stream.tell() + count * dtype.itemsize != size or (count and not dtype.itemsize):
        raise ValueError(
            f"{name} is damaged: its header declares shape {_short(shape)}, which its {size} "
            "bytes do not hold"
        )


def _array(stream: IO[bytes], name: str) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(npy.read_array(stream, allow_pickle=False))
        except (ValueError, TypeError, MemoryError):
            raise ValueError(f"{name} is damaged: it cannot be read as an array") from None


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    text = text if len(text) <= 40 else text[:37] + "..."
    return "".join(c if c.isprintable() else "?" for c in text)
