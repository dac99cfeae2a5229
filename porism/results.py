"""Results are frozen dataclasses that save to one plain file and show themselves as a table."""

import dataclasses
import json
import os
from typing import Any, ClassVar, Self

import numpy as np

from porism import _files, checks
from porism._show import html_table

__all__ = ["FORMAT", "Result"]

FORMAT = 1
"""Version of the file layout; a reader accepts its own and every earlier one."""


class Result:
    """Mixin for frozen dataclasses of arrays, numbers, strings, containers of these, and further results.

    `save` writes one ``.npz`` that holds each array under its place in the result and one JSON string for
    everything else, without pickle. `load` accepts every earlier layout; a field it lacks takes its default.

    Notes
    -----
    Values come back equal and of the same type: tuples stay tuples, keys of dicts keep their type, NaN and
    infinity survive. NumPy scalars come back as Python numbers.

    Examples
    --------
    >>> import tempfile
    >>> Fit = dataclasses.make_dataclass("Fit", ["slope", "residuals"], bases=(Result,), frozen=True)
    >>> file = tempfile.mkdtemp() + "/fit.npz"
    >>> Fit(2.0, np.array([0.1, -0.1])).save(file)
    >>> Fit.load(file).residuals
    array([ 0.1, -0.1])
    """

    _kinds: ClassVar[dict[str, type["Result"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Result._kinds[cls.__name__] = cls

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to one file, whole or not at all.

        Parameters
        ----------
        path : path
            File to create or replace, by custom named ``.npz``.

        Raises
        ------
        TypeError
            If a field holds something other than arrays, numbers, strings, containers of these, or results.
        """
        import porism

        arrays: dict[str, np.ndarray] = {}
        tree = _encode(self, "", arrays)
        header = json.dumps({"format": FORMAT, "porism": porism.__version__, "tree": tree})
        content: dict[str, Any] = {"porism": np.array(header)} | {
            f"a/{key}": value for key, value in arrays.items()
        }
        checks.write_atomic(path, lambda stream: np.savez_compressed(stream, allow_pickle=False, **content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a result back.

        Parameters
        ----------
        path : path
            File written by `save`, of this or an earlier version.

        Returns
        -------
        Result
            An instance of the class it is called on; `Result.load` accepts every result.

        Raises
        ------
        ValueError
            If the file is no saved result, holds another class, or comes from a later version; or if it would
            take more memory than 4 GiB, or than 256 MiB where it is packed more than 50 times smaller. The
            environment variable PORISM_FILE_LIMIT, a number of bytes, takes the place of both.

        Notes
        -----
        Nothing in the file is run: classes are looked up among those derived from `Result`.
        """
        try:
            content = _files.read_npz(path)
            header = json.loads(str(content["porism"]))
            version, tree = int(header["format"]), header["tree"]
        except OSError:
            raise
        except Exception as error:
            why = f" ({error})" if isinstance(error, ValueError) and "PORISM_FILE_LIMIT" in str(error) else ""
            raise ValueError(
                f"{os.fspath(path)} is not a saved porism result{why}; write one with .save(path)"
            ) from None
        if version > FORMAT:
            raise ValueError(
                f"{os.fspath(path)} has format {version}, written by porism {header['porism']}; "
                f"this version reads up to {FORMAT}: update porism"
            )
        try:
            result = _decode(tree, content)
        except (ValueError, MemoryError):
            raise
        except Exception:  # parts are missing, or are something else
            raise ValueError(
                f"{os.fspath(path)} is a damaged result: its parts do not fit together; write it again with "
                ".save(path)"
            ) from None
        if not isinstance(result, cls):
            raise ValueError(
                f"{os.fspath(path)} holds a {type(result).__name__}, not a {cls.__name__}; "
                f"read it with {type(result).__name__}.load"
            )
        return result

    def to_frame(self) -> Any:
        """Show the result as a pandas table.

        Returns
        -------
        DataFrame
            One row an entry where the result has one-dimensional arrays (those of the greatest length are the
            columns, every other field is in ``frame.attrs``), else one row a field.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = checks.require("pandas", "tables")
        fields = _fields(self)
        columns = {
            name: value for name, value in fields.items() if isinstance(value, np.ndarray) and value.ndim == 1
        }
        if not columns:
            return pandas.DataFrame({"field": list(fields), "value": list(fields.values())})
        length = max(len(value) for value in columns.values())
        columns = {name: value for name, value in columns.items() if len(value) == length}
        frame = pandas.DataFrame(columns)
        frame.attrs.update({name: value for name, value in fields.items() if name not in columns})
        return frame

    def _repr_html_(self) -> str:
        rows = ((name, _brief(value)) for name, value in _fields(self).items())
        return html_table((type(self).__name__, ""), rows)


def _fields(result: Any) -> dict[str, Any]:
    return {field.name: getattr(result, field.name) for field in dataclasses.fields(result) if field.init}


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 12:
        return f"{value.dtype} array of shape {value.shape}"
    text = str(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _encode(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcUS":
        arrays[place] = value
        return {"$array": place}
    if isinstance(value, Result) and dataclasses.is_dataclass(value):
        fields = {
            name: _encode(item, f"{place}.{name}".lstrip("."), arrays)
            for name, item in _fields(value).items()
        }
        return {"$result": type(value).__name__, "fields": fields}
    if isinstance(value, dict):
        return {
            "$dict": [
                [_encode(part, f"{place}.{i}", arrays) for part in pair]
                for i, pair in enumerate(value.items())
            ]
        }
    if isinstance(value, (list, tuple, frozenset)):
        items = sorted(value) if isinstance(value, frozenset) else value
        encoded = [_encode(item, f"{place}.{i}", arrays) for i, item in enumerate(items)]
        return encoded if isinstance(value, list) else {f"${type(value).__name__}": encoded}
    raise TypeError(
        f"{place} must be an array, a number, a string, a container or a Result, got {type(value).__name__}"
    )


def _decode(node: Any, content: dict[str, np.ndarray]) -> Any:
    if isinstance(node, list):
        return [_decode(item, content) for item in node]
    if not isinstance(node, dict):
        return node
    tag = next(iter(node))
    body = node[tag]
    if tag == "$array":
        return content[f"a/{body}"]
    if tag == "$dict":
        return {_decode(key, content): _decode(value, content) for key, value in body}
    if tag == "$tuple":
        return tuple(_decode(item, content) for item in body)
    if tag == "$frozenset":
        return frozenset(_decode(item, content) for item in body)
    if body not in Result._kinds:
        raise ValueError(
            f"the file holds a {body}, which is not loaded; import the module that defines it first"
        )
    return Result._kinds[body](**{name: _decode(value, content) for name, value in node["fields"].items()})
