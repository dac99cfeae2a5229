"""The folder of a sweep: what it belongs to, the rows that are done, and the table in the end."""

import contextlib
import json
import re
import uuid
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from porism._files import read_json
from porism._pool import level_of_caller
from porism.checks import require, write_atomic

__all__ = ["FORMAT", "Store", "SweepMismatchError", "to_table"]

FORMAT = 1
MERGE = 500
"""Number of parts with one row each that are merged into one file."""
POSITION = "__item__"
_SINGLE = re.compile(r"\d+\.parquet")
_PART = re.compile(r"(\d+|merged-[0-9a-f]+)\.parquet")


class SweepMismatchError(ValueError):
    """The folder holds another sweep, or cannot be read as one."""


class Store:
    """Rows of one sweep on disk; only the process that called `sweep` writes.

    ``sweep.json`` says which sweep it is, ``parts/`` holds the finished rows, each written whole or not at
    all, ``table.parquet`` the whole table. Parts go when every item has its row.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.parts, self.file = folder, folder / "parts", folder / "table.parquet"
        self.count = 0

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, manifest: dict[str, Any]) -> Iterator["Store"]:
        """Create the folder, or accept it if it holds the same sweep; meanwhile it is this one's alone."""
        if folder.exists() and not folder.is_dir():
            raise SweepMismatchError(f"folder must be a folder, got the file {folder.name!r}; name another")
        store = cls(folder)
        store.parts.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("ab") as lock:
            _claim(lock, folder)
            store._agree(manifest)
            for pattern in ("parts/.*.parquet.*", ".table.parquet.*", ".sweep.json.*"):
                for left in folder.glob(pattern):  # of a process killed while it wrote
                    left.unlink()
            yield store

    def _agree(self, manifest: dict[str, Any]) -> None:
        file = self.folder / "sweep.json"
        if not file.exists():
            if self.file.exists() or any(self.parts.iterdir()):
                raise SweepMismatchError(
                    f"folder {self.folder.name!r} has rows but no sweep.json to say of which sweep; "
                    "name another"
                )
            write_atomic(file, lambda stream: stream.write(json.dumps(manifest, indent=1).encode()))
            return
        try:
            old = dict(read_json(file))
        except (ValueError, TypeError):
            raise SweepMismatchError(
                f"folder {self.folder.name!r}: sweep.json cannot be read; name another folder"
            ) from None
        if old.get("format") != FORMAT:
            raise SweepMismatchError(
                f"folder {self.folder.name!r} has format {old.get('format')!r}, this version reads {FORMAT}; "
                "name another folder"
            )
        wrong = [
            f"{name} {_short(old.get(name))}, now {_short(manifest[name])}"
            for name in ("function", "grid", "items", "seed")
            if old.get(name) != manifest[name]
        ]
        if wrong:
            raise SweepMismatchError(
                f"folder {self.folder.name!r} holds another sweep: {'; '.join(wrong)}; name another folder"
            )
        if old.get("source") != manifest["source"]:
            warnings.warn(
                f"the source of {manifest['function']} has changed since folder {self.folder.name!r} was "
                "begun; its finished rows stay as they are: name another folder to compute all of them anew",
                UserWarning,
                stacklevel=level_of_caller(),
            )

    def rows(self, items: int) -> dict[int, dict[str, Any]]:
        """Read what is done: position to row; damaged parts are as if never written."""
        import pyarrow as pa

        parquet = require("pyarrow.parquet", "tables")
        done: dict[int, dict[str, Any]] = {}
        if self.file.exists():
            try:
                found = parquet.ParquetFile(self.file).read().to_pylist()
            except (pa.ArrowInvalid, OSError):
                found = []
            if len(found) == items and all(row.get("error") is None for row in found):
                return dict(enumerate(found))  # parts that are still there are left from a kill
            if not any(self.parts.iterdir()):
                raise SweepMismatchError(
                    f"folder {self.folder.name!r}: table.parquet is damaged; delete it to compute all "
                    "rows again"
                )
        for part in self.parts.iterdir():
            if not _PART.fullmatch(part.name):
                continue
            try:
                read = parquet.ParquetFile(part).read().to_pylist()
            except (pa.ArrowInvalid, OSError):
                continue
            for row in read:
                done[row.pop(POSITION)] = (
                    row  # an item has two only after a kill while merging, and equal ones
                )
        self.count = len(done)
        return done

    def add(self, i: int, row: dict[str, Any]) -> None:
        """Write one row; when this returns, killing the process cannot lose it."""
        import pyarrow as pa

        _write(self.parts / f"{i:08d}.parquet", pa.Table.from_pylist([{POSITION: i, **row}]))
        self.count += 1
        if self.count % MERGE == 0:
            self._merge()

    def _merge(self) -> None:
        """Put rows of one schema, which lose nothing by it, into one file each."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        alike: dict[str, list[tuple[Path, Any]]] = {}
        for part in sorted(self.parts.iterdir()):
            if _SINGLE.fullmatch(part.name):
                table = parquet.ParquetFile(part).read()
                if table["error"][0].as_py() is None:  # others are tried again
                    alike.setdefault(str(table.schema), []).append((part, table))
        for group in alike.values():
            if len(group) > 1:
                merged = pa.concat_tables([table for _, table in group])
                _write(self.parts / f"merged-{uuid.uuid4().hex}.parquet", merged)
                for part, _ in group:
                    part.unlink()

    def finish(self, table: Any, complete: bool) -> None:
        """Write the whole table, and drop the parts where nothing is left to do."""
        _write(self.file, table)
        if complete:
            for part in self.parts.iterdir():
                if _PART.fullmatch(part.name):
                    part.unlink()


def to_table(rows: Sequence[dict[str, Any]]) -> Any:
    """Arrow table of rows; a column that mixes kinds which no number type holds becomes text."""
    pa = require("pyarrow", "tables")
    names = dict.fromkeys(name for row in rows for name in row if name != "error")
    columns: dict[str, Any] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.array([None if value is None else str(value) for value in values], pa.string())
    columns["error"] = pa.array([row.get("error") for row in rows], pa.string())
    return pa.table(columns)


def _write(file: Path, table: Any) -> None:
    import pyarrow.parquet as parquet

    def writer(stream: IO[bytes]) -> None:
        parquet.write_table(table, stream)

    write_atomic(file, writer)


def _claim(lock: IO[bytes], folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SweepMismatchError(
            f"folder {folder.name!r} is in use by another sweep; wait for it, or name another folder"
        ) from None
    except OSError:  # a file system without locks
        return


def _short(value: Any) -> str:
    text = str(value)
    return f"{text[:8]}…" if re.fullmatch("[0-9a-f]{64}", text) else text
