"""Files of records: one line an evaluation, one append-only file a process and thread."""

import os
import re
import shutil
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path

from porism.errors import AssumptionError

__all__ = ["Folder", "read_records"]

LINE = re.compile(rb"([0-9a-f]+) (\S+) ([01])")

_names: dict[tuple[str, int, int], str] = {}  # (folder, process, thread) -> file; forks and workers find none


class Folder:
    """Where records go; a temporary folder goes with its last owner."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="porism-") if path is None else path).absolute()
        self.path.mkdir(parents=True, exist_ok=True)
        if path is None:
            weakref.finalize(self, _remove, str(self.path), os.getpid())

    def append(self, line: str) -> None:
        key = (str(self.path), os.getpid(), threading.get_ident())
        if key not in _names:
            _names[key] = f"{key[1]}-{uuid.uuid4().hex[:12]}.rec"
        with open(self.path / _names[key], "ab", buffering=0) as file:
            file.write(line.encode())

    def players(self, n: int) -> None:
        note = self.path / "players"
        if note.exists() and int(note.read_text()) != n:
            raise AssumptionError(
                f"data must have {note.read_text().strip()} points as the records in the folder have, got "
                f"{n}; use a new RecordingUtility, or another directory, for another game"
            )
        if not note.exists():
            note.write_text(f"{n}\n")


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked worker inherits the finalizer, not the folder
        shutil.rmtree(path, ignore_errors=True)


def read_records(folder: Path) -> Iterator[list[tuple[int, float, bool]]]:
    for path in sorted(folder.glob("*.rec")):
        lines = path.read_bytes().split(b"\n")[:-1]  # what follows the last newline is a torn record
        rows = []
        for number, line in enumerate(lines, start=1):
            match = LINE.fullmatch(line)
            try:
                if match is None:
                    raise ValueError
                rows.append((int(match[1], 16), float(match[2]), match[3] == b"1"))
            except ValueError:
                raise ValueError(
                    f"directory: line {number} of {path.name} must be '<hex mask> <score> <0 or 1>', got "
                    f"{line[:60]!r}; remove the line to go on without it"
                ) from None
        yield rows
