"""Read single tensors of a safetensors file: no pickle, no torch, no byte of tensors not asked for."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__: list[str] = []

_SIZES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_MAX_HEADER = 100_000_000  # bytes, the limit of the format's own reader


@dataclass(frozen=True)
class Entry:
    """Where a tensor stands in the file, in bytes from its start."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def index(path: Path) -> dict[str, Entry]:
    """List the tensors of a file, having checked that every one of them is there in full."""
    size = path.stat().st_size
    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, _MAX_HEADER):
            raise _broken(path, f"its {size} bytes are too few for its header")
        text = stream.read(length)
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        entries = {str(name): _entry(value, 8 + length) for name, value in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _broken(path, "its header is no list of tensors") from None
    place = 8 + length
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        bits = np.dtype(_SIZES[entry.dtype]).itemsize if entry.dtype in _SIZES else None
        if entry.start != place or (
            bits is not None and entry.end - entry.start != bits * math.prod(entry.shape)
        ):
            raise _broken(path, f"the tensor {name} is not where its header says")
        place = entry.end
    if place != size:
        raise _broken(path, f"its header announces {place} bytes, the file has {size}")
    return entries


def read(path: Path, name: str, entry: Entry) -> NDArray[np.float64]:
    """Read one tensor as float64."""
    if entry.dtype not in _SIZES:
        raise ValueError(
            f"the tensor {name} of {path} must be one of {', '.join(_SIZES)}, got {entry.dtype}; "
            "save the adapter in one of these types"
        )
    with open(path, "rb") as stream:
        stream.seek(entry.start)
        raw = np.frombuffer(stream.read(entry.end - entry.start), dtype=_SIZES[entry.dtype])
    if entry.dtype == "BF16":
        raw = (raw.astype(np.uint32) << 16).view(np.float32)  # bfloat16 is the upper half of a float32
    return raw.reshape(entry.shape).astype(np.float64)


def _entry(value: Any, base: int) -> Entry:
    start, end = value["data_offsets"]
    numbers = [start, end, *value["shape"]]
    if not all(type(n) is int and n >= 0 for n in numbers) or end < start or type(value["dtype"]) is not str:
        raise ValueError
    return Entry(value["dtype"], tuple(value["shape"]), base + start, base + end)


def _broken(path: Path, why: str) -> ValueError:
    return ValueError(f"{path} is not a whole safetensors file: {why}; copy or save the adapter again")
