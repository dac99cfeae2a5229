"""Evaluations on disk: append-only files that survive a killed process, and the fingerprint of a problem."""

import functools
import json
import os
import platform
import struct
import types
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from porism._files import read_json
from porism.checks import write_atomic

__all__ = ["CONSTANT", "FAILED", "FITTED", "Checkpoint", "CheckpointMismatchError", "digest"]

FITTED, CONSTANT, FAILED = 0, 1, 2  # flags: a fitted model, a constant prediction, an error score
FORMAT = 1
_RECORD = struct.Struct("<QdI")  # mask, score, flag; followed by the CRC-32 of these 20 bytes
_DTYPE = np.dtype([("mask", "<u8"), ("score", "<f8"), ("flag", "<u4"), ("crc", "<u4")])


class CheckpointMismatchError(ValueError):
    """The folder holds evaluations of another problem, or no evaluations at all."""


@dataclass(frozen=True)
class Checkpoint:
    """Folder with the evaluations of one problem, written by any number of processes at once.

    ``meta.json`` holds the fingerprint; each process appends records (mask uint64, score float64, flag
    uint32, CRC-32) to a file of its own, one `os.write` an evaluation. A torn or damaged record is as if
    never written.

    Parameters
    ----------
    folder : Path
        Where the files lie.
    token : str
        Unique to one run, part of the names of the files it writes.

    Notes
    -----
    What was appended survives the death of the process at any moment, also by SIGKILL. It is not forced to
    the disk, so a power failure can lose the last seconds; these evaluations are then done again.

    Examples
    --------
    >>> import tempfile
    >>> log = Checkpoint.open(tempfile.mkdtemp(), {"data": "a1"}, 2)
    >>> log.append(3, 0.5, 0)
    >>> log.read()
    {3: (0.5, 0)}
    """

    folder: Path
    token: str

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], fingerprint: dict[str, str], n_players: int
    ) -> "Checkpoint":
        """Create the folder, or accept it if it belongs to the same problem.

        Parameters
        ----------
        folder : path
            Folder to create or continue.
        fingerprint : dict
            Digest of each part of the problem.
        n_players : int
            Number of players.

        Returns
        -------
        Checkpoint
            Ready to read and append.

        Raises
        ------
        CheckpointMismatchError
            If the folder belongs to another problem; the message names the parts that differ.
        """
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise CheckpointMismatchError(
                f"checkpoint must be a folder, got the file {str(folder)!r}; name another"
            )
        path.mkdir(parents=True, exist_ok=True)
        meta = {"format": FORMAT, "n_players": n_players, "fingerprint": fingerprint}
        file = path / "meta.json"
        if file.exists():
            _compare(str(folder), file, meta)
        elif any(path.glob("part-*.bin")):
            raise CheckpointMismatchError(
                f"checkpoint {str(folder)!r} has evaluations but no meta.json to say of which problem; "
                "name another folder"
            )
        else:
            write_atomic(file, lambda stream: stream.write(json.dumps(meta, indent=1).encode()))
        return cls(path, uuid.uuid4().hex[:12])

    def append(self, mask: int, score: float, flag: int) -> None:
        """Record one evaluation; when this returns, killing the process cannot lose it.

        Parameters
        ----------
        mask : int
            Coalition, player i at bit i, below 2**64.
        score : float
            Its score.
        flag : int
            How the score came about: FITTED, CONSTANT or FAILED.

        Raises
        ------
        OSError
            If the disk is full; the file stays readable.
        """
        body = _RECORD.pack(mask, score, flag)
        record = body + zlib.crc32(body).to_bytes(4, "little")
        host = zlib.crc32(platform.node().encode())
        file = self.folder / f"part-{self.token}-{host:08x}-{os.getpid()}.bin"
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        try:
            written = os.write(handle, record)
            if written != len(record):  # keep later records aligned
                os.ftruncate(handle, os.fstat(handle).st_size - written)
                raise OSError(
                    "checkpoint: the disk took only a part of a record; free some space and start again"
                )
        finally:
            os.close(handle)

    def read(self) -> dict[int, tuple[float, int]]:
        """Collect what all processes of all runs have recorded.

        Returns
        -------
        dict
            Mask to (score, flag). Of several records of one mask the first that did not fail counts, in order
            of file names.
        """
        found: dict[int, tuple[float, int]] = {}
        for file in sorted(self.folder.glob("part-*.bin")):
            content = file.read_bytes()
            whole = len(content) // _DTYPE.itemsize
            for row, record in enumerate(np.frombuffer(content, dtype=_DTYPE, count=whole).tolist()):
                start = row * _DTYPE.itemsize
                mask, score, flag, crc = record
                if zlib.crc32(content[start : start + _RECORD.size]) != crc:
                    continue
                if mask not in found or (found[mask][1] == FAILED and flag != FAILED):
                    found[mask] = (score, flag)
        return found


def _compare(name: str, file: Path, meta: dict[str, Any]) -> None:
    try:
        old = read_json(file)
        version, theirs, players = int(old["format"]), dict(old["fingerprint"]), old["n_players"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointMismatchError(
            f"checkpoint {name!r}: meta.json is not readable; name another folder"
        ) from None
    if version != FORMAT:
        raise CheckpointMismatchError(
            f"checkpoint {name!r} has format {version}, this version reads {FORMAT}; name another folder"
        )
    parts = [part for part, value in meta["fingerprint"].items() if theirs.get(part) != value]
    if players != meta["n_players"] or parts:
        raise CheckpointMismatchError(
            f"checkpoint {name!r} belongs to another problem: different {', '.join(parts) or 'n_players'} "
            f"(it has {players} players, this one {meta['n_players']}); name another folder"
        )


def digest(value: Any) -> str:
    """Hash of a value that stays the same from one process to the next.

    Parameters
    ----------
    value : object
        Arrays, tables, numbers, containers, functions (by their code), estimators (by class and parameters).

    Returns
    -------
    str
        32 hexadecimal digits.

    Raises
    ------
    TypeError
        If the value cannot be hashed by content.

    Notes
    -----
    A function counts by its code, defaults and captured values, not by what it calls; a class by its name.
    Change those and the digest stays the same.

    Examples
    --------
    >>> digest([1, "a"]) == digest([1, "a"]) != digest([1, "b"])
    True
    """
    import joblib

    try:
        return str(joblib.hash(_canonical(value)))
    except Exception as error:
        raise TypeError(
            f"checkpoint: cannot identify the {type(value).__name__} ({type(error).__name__}: {error}); "
            "use checkpoint=None, or give it a picklable state"
        ) from error


def _canonical(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if isinstance(value, np.ndarray):
        return (
            "array",
            value.dtype.str,
            value.shape,
            value.tolist() if value.dtype.hasobject else value.tobytes(),
        )
    if hasattr(value, "iloc"):  # a pandas table or column; its index does not matter
        columns = [value[name] for name in value.columns] if hasattr(value, "columns") else [value]
        return (
            "frame",
            [str(column.name) for column in columns],
            [_canonical(np.asarray(c)) for c in columns],
        )
    if hasattr(value, "tocsr"):
        sparse = value.tocsr()
        return (
            "sparse",
            sparse.shape,
            [_canonical(part) for part in (sparse.data, sparse.indices, sparse.indptr)],
        )
    if isinstance(value, list | tuple):
        return (type(value).__name__, [_canonical(item) for item in value])
    if isinstance(value, dict):
        return ("dict", sorted((repr(key), digest(item)) for key, item in value.items()))
    if isinstance(value, functools.partial):
        return ("partial", [_canonical(part) for part in (value.func, value.args, value.keywords)])
    if isinstance(value, types.FunctionType):
        cells = [_canonical(cell.cell_contents) for cell in value.__closure__ or ()]
        return (
            "function",
            _code(value.__code__),
            cells,
            _canonical([value.__defaults__, value.__kwdefaults__]),
        )
    if isinstance(value, types.MethodType):
        return ("method", _canonical(value.__func__), _canonical(value.__self__))
    if hasattr(value, "get_params") and not isinstance(value, type):
        return (type(value).__module__, type(value).__qualname__, _canonical(value.get_params(deep=False)))
    return _state(value)


def _state(value: Any) -> Any:
    import joblib

    try:
        return ("object", type(value).__qualname__, joblib.hash(value))
    except Exception:  # it holds a lambda, a lock, a local class, ...: each is refused in its own way
        if not hasattr(value, "__dict__"):
            raise
        return (type(value).__module__, type(value).__qualname__, _canonical(vars(value)))


def _code(code: types.CodeType) -> Any:
    constants = [_code(item) if isinstance(item, types.CodeType) else repr(item) for item in code.co_consts]
    return (code.co_code, code.co_names, constants)
