"""Arrays of an npz file, without pickle and without trusting its headers."""

import math
import os
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

READ = (
    "score", "scores", "models", "features", "cheap_features", "mask", "missing", "cost_usd", "costs",
    "groups", "prompt_sha1", "subset", "category", "split", "pred", "answer", "output_chars", "prompt_chars",
)  # fmt: skip


def arrays(path: str | os.PathLike[str], name: str) -> dict[str, NDArray[Any]]:
    """The arrays that this package knows by name."""
    with open(path, "rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                return {key: _array(archive, members[key], key, name) for key in READ if key in members}
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError):
            raise ValueError(f"{name} is no npz file, or is damaged; write one with numpy.savez") from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, key: str, name: str) -> NDArray[Any]:
    with archive.open(info) as stream:
        try:
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(stream)
        except Exception:  # a damaged header fails in many ways: as text, as Python, as a tuple, as a dtype
            raise ValueError(f"{name}: {key} is damaged: it has no valid header of an array") from None
        if dtype.hasobject:
            raise ValueError(
                f"{name}: {key} holds Python objects, which are not read; save it as numbers or text"
            )
        if stream.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
            raise ValueError(f"{name}: {key} is damaged: its header declares shape {_shape(shape)}, "
                             f"which its {info.file_size} bytes do not hold")  # fmt: skip
    with archive.open(info) as stream:
        try:
            return np.asarray(npy.read_array(stream, allow_pickle=False))
        except (ValueError, MemoryError):
            raise ValueError(f"{name}: {key} is damaged: it cannot be read as an array") from None


def _shape(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 40 else text[:37] + "..."
