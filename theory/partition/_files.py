"""Reading and writing utility tables: .npz, .csv, .parquet, .json."""

import csv
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism._files import csv_rows, read_json, read_npz, read_parquet
from porism.checks import require, write_atomic
from porism.theory.partition._coalitions import members_of
from porism.theory.partition.table import MAX_PLAYERS, UtilityTable

__all__ = ["read_table", "write_table"]

FORMATS = (".npz", ".csv", ".parquet", ".json")


def read_table(
    path: str | os.PathLike[str],
    *,
    n: int | None = None,
    masks: bool = False,
    on_duplicate: str = "raise",
    max_players: int = MAX_PLAYERS,
) -> UtilityTable:
    """Read a table; :meth:`UtilityTable.load` is the public door.

    npz: ``coalitions`` (bool or uint8 (m, n), or integer masks (m,)) with ``scores``, or ``scores`` alone in
    mask order, or shapiq's ``coalitions``, ``values``, ``n_players``. csv and parquet: columns ``coalition``
    ("0 3 7", "" for the empty one, or a mask) and ``score``. json: the keys of npz, coalitions as lists.
    """
    file = Path(path)
    readers = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet, ".json": _read_json}
    if file.suffix.lower() not in readers:
        raise ValueError(f"table file must end in one of {', '.join(FORMATS)}, got {file.name!r}")
    try:
        data = readers[file.suffix.lower()](file, masks)
    except ValueError as error:
        raise ValueError(f"table {file.name!r} cannot be read as {file.suffix}: {error}") from None
    if "packed" in data:
        return UtilityTable.from_samples(**data["packed"])
    players = n if n is not None else data.get("n")
    if data["coalitions"] is None:
        table = UtilityTable.from_array(data["scores"], max_players=max_players)
        if players not in (None, table.n_players):
            raise ValueError(
                f"n must be {table.n_players}, as table {file.name!r} has 2**{table.n_players} scores and no "
                f"coalitions, got n={players}"
            )
        return table
    return UtilityTable.from_pairs(
        data["coalitions"], data["scores"], players, on_duplicate, max_players=max_players
    )


def write_table(table: UtilityTable, path: str | os.PathLike[str]) -> None:
    """Write a table through a temporary file; :meth:`UtilityTable.save` is the public door."""
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"table file must end in one of {', '.join(FORMATS)}, got {file.name!r}")
    if not table.is_dense and suffix != ".npz":
        raise ValueError(f"a sampled table is saved as .npz only, got {file.name!r}")
    if suffix == ".npz":
        arrays: Any = _npz_arrays(table)
        write_atomic(file, lambda out: np.savez_compressed(out, **arrays))
        return
    known = np.flatnonzero(~np.isnan(table.scores))
    names = [" ".join(map(str, members_of(int(mask)))) for mask in known]
    scores = table.scores[known].tolist()
    if suffix == ".json":
        body = json.dumps(
            {
                "n_players": table.n_players,
                "coalitions": [members_of(int(m)) for m in known],
                "scores": scores,
            }
        )
        write_atomic(file, lambda out: out.write(body.encode()))
    elif suffix == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["coalition", "score"])
        writer.writerows(zip(names, (repr(x) for x in scores), strict=True))
        write_atomic(file, lambda out: out.write(text.getvalue().encode()))
    else:
        frame = require("pandas", "tables").DataFrame({"coalition": names, "score": scores})
        require("pyarrow", "tables")
        write_atomic(file, lambda out: frame.to_parquet(out, index=False))


def _npz_arrays(table: UtilityTable) -> dict[str, NDArray[Any]]:
    if table.is_complete:
        return {"scores": table.scores}
    if table.is_dense:
        known = np.flatnonzero(~np.isnan(table.scores))
        return {
            "coalitions": known.astype(np.uint64),
            "scores": table.scores[known],
            "n_players": np.array(table.n_players),
        }
    rows = table.sampled
    assert rows is not None
    span = [] if rows.score_range is None else list(rows.score_range)
    return {
        "members": rows.members,
        "scores": rows.scores,
        "unit": rows.unit,
        "n_players": np.array(rows.n_players),
        "design": np.array(rows.design),
        "truncated": np.array(rows.truncated),
        "score_range": np.array(span),
        "inclusion": np.array([] if rows.inclusion is None else [rows.inclusion]),
    }


def _read_npz(file: Path, masks: bool) -> dict[str, Any]:
    data = read_npz(file)
    names = set(data)
    try:
        n = int(data["n_players"]) if "n_players" in names else None
        if {"members", "scores", "design"} <= names:
            return {"packed": _packed(data, n), "n": n}
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"its arrays are not those of a table ({error!r:.80})") from None
    scores = "scores" if "scores" in names else "values"
    if scores not in names or (scores == "values" and "coalitions" not in names):
        raise ValueError(f"it must hold 'scores' (and 'coalitions'), got keys {sorted(names)[:8]}")
    return {"coalitions": data.get("coalitions"), "scores": data[scores], "n": n}


def _packed(data: dict[str, NDArray[Any]], n: int | None) -> dict[str, Any]:
    span = data["score_range"]
    return {
        "n": n,
        "members": data["members"],
        "scores": data["scores"],
        "unit": data["unit"],
        "design": str(data["design"]),
        "truncated": bool(data["truncated"]),
        "score_range": tuple(span.tolist()) if span.size else None,
        "inclusion": float(data["inclusion"][0]) if data.get("inclusion", span[:0]).size else None,
    }


def _read_csv(file: Path, masks: bool) -> dict[str, Any]:
    rows = list(csv_rows(file))
    names = rows[0][1] if rows else []
    if [names.count("coalition"), names.count("score")] != [1, 1]:
        raise ValueError(f"it must have the columns coalition and score, once each, got {names[:8]}")
    at, score = names.index("coalition"), names.index("score")
    for number, (line, row) in enumerate(rows[1:]):
        if len(row) != len(names):
            raise ValueError(
                f"row {number} (line {line}) must have {len(names)} cells like the header, got {len(row)}; "
                "separate players by spaces, such as '0 3 7'"
            )
    return _text_columns([row[at] for _, row in rows[1:]], [row[score] for _, row in rows[1:]], masks)


def _read_parquet(file: Path, masks: bool) -> dict[str, Any]:
    table = read_parquet(file)
    if not {"coalition", "score"} <= set(table.column_names):
        raise ValueError(f"it must have the columns coalition and score, got {table.column_names[:8]}")
    return _text_columns(table["coalition"].to_pylist(), table["score"].to_pylist(), masks)


def _read_json(file: Path, masks: bool) -> dict[str, Any]:
    data = read_json(file)
    scores = data.get("scores", data.get("values")) if isinstance(data, dict) else None
    if not isinstance(scores, list):
        raise ValueError("it must be an object with a list 'scores' (and 'coalitions')")
    return {"coalitions": data.get("coalitions"), "scores": scores, "n": data.get("n_players")}


def _text_columns(names: Iterable[Any], scores: Iterable[Any], masks: bool) -> dict[str, Any]:
    coalitions: list[Any] = []
    values: list[float] = []
    for number, (name, score) in enumerate(zip(names, scores, strict=True)):
        try:
            values.append(float(_plain(score)))
        except (TypeError, ValueError):
            raise ValueError(f"row {number} has no number as score, got {score!r}") from None
        try:
            if masks:
                coalitions.append(int(_plain(name)))
            else:
                coalitions.append([int(p) for p in str("" if name is None else _plain(name)).split()])
        except (TypeError, ValueError):
            kind = "an integer mask" if masks else "players such as '0 3 7'"
            raise ValueError(f"row {number} must name a coalition by {kind}, got {name!r}") from None
    return {"coalitions": coalitions, "scores": values}


def _plain(cell: Any) -> Any:
    """The cell, unless it holds an underscore: Python would read the players of 0_1 as the player 1."""
    if "_" in str(cell):
        raise ValueError
    return cell
