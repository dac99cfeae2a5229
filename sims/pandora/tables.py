"""Score matrices from files: plain npz, csv with a column a model, and the layouts of public routing sets.

No reader executes anything from a file. A file that is not what it should be gives one ValueError that says
what is wrong and where; a file that is not there gives the OSError of the system.
"""

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism import _files
from porism.checks import one_of
from porism.sims.pandora._csv import (
    Columns,
    as_numbers,
    csv_columns,
    mostly_numbers,
    parquet_columns,
    to_numbers,
)
from porism.sims.pandora.matrix import ScoreMatrix

__all__ = ["read_csv", "read_npz", "read_routellm", "read_routerbench", "read_scores"]

Floats = NDArray[np.float64]
Paths = str | os.PathLike[str]

COST = "|total_cost"
NOT_MODELS = ("", "id", "index", "query", "query_id", "sample_id", "question_id", "prompt", "eval_name")
LAYOUTS = ("npz", "csv", "routerbench", "routellm")
ARRAYS = (
    "score", "scores", "models", "features", "cheap_features", "mask", "missing", "cost_usd", "costs",
    "groups", "prompt_sha1", "subset", "category", "split",
)  # fmt: skip


def read_scores(path: Paths, layout: str | None = None, groups: str | None = None) -> ScoreMatrix:
    """Read a score matrix, choosing the reader by the file.

    Parameters
    ----------
    path : path
        ``.npz``, ``.csv`` or ``.parquet``.
    layout : {"npz", "csv", "routerbench", "routellm"}, optional
        The reader. By default that of npz for ``.npz``, of RouterBench for ``.parquet`` and for tables with a
        column ``<model>|total_cost``, that of RouteLLM for tables with a column ``prompt``, else of csv.
    groups : str, optional
        Column (or array of `read_npz`) whose equal cells make a group, in place of the layout's own.

    Returns
    -------
    ScoreMatrix
        What the file holds.

    Raises
    ------
    ValueError
        If the file is damaged, holds no score matrix, or lacks the column of groups.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> _ = Path("scores.csv").write_text("query,a,b" + chr(10) + "first,1,0" + chr(10) + "second,,1")
    >>> read_scores("scores.csv").known.tolist()
    [[True, True], [False, True]]
    """
    if layout is not None:
        one_of("layout", layout, LAYOUTS)
    name, suffix = _name(path), Path(path).suffix.lower()
    if layout is None and suffix not in (".npz", ".csv", ".parquet"):
        raise ValueError(f"{name} must end in .npz, .csv or .parquet, or say layout=")
    if layout == "npz" or (layout is None and suffix == ".npz"):
        table: dict[str, Any] = _files.read_npz(path, ARRAYS)
        matrix = _npz(name, table)
        table = {key: cells for key, cells in table.items() if cells.shape == matrix.scores.shape[:1]}
    else:
        table = _columns(path)
        if layout is None:
            layout = "routerbench" if any(key.endswith(COST) for key in table) else "csv"
            layout = "routellm" if layout == "csv" and "prompt" in table else layout
        if layout == "csv":
            matrix = _csv(name, table, None)
        else:
            matrix = _routerbench(name, table) if layout == "routerbench" else _routellm([(name, table)])
    if groups is None:
        return matrix
    if groups not in table:
        raise ValueError(f"{name} has no column {groups!r}; it has {_some(table) or 'none'}")
    return dataclasses.replace(matrix, groups=np.array(table[groups], str))


def read_npz(path: Paths) -> ScoreMatrix:
    """Read a score matrix from an npz file.

    Parameters
    ----------
    path : path
        Holds ``score`` or ``scores`` (n, K), numbers with NaN for unknown, and optionally ``models`` (K,),
        ``features`` (n, p), ``cheap_features`` (n, p0), ``mask`` (true where known) or ``missing`` (true
        where not), ``cost_usd`` or ``costs`` (n, K), ``groups`` or ``prompt_sha1`` (n,), ``subset`` or
        ``category`` (n,), ``split`` (n,). Other arrays are left unread.

    Returns
    -------
    ScoreMatrix
        Specialists without names are called ``specialist 0`` and so on.

    Raises
    ------
    ValueError
        If it is no npz file, is truncated, holds Python objects, or shapes do not fit.
    OSError
        If it cannot be opened.

    Notes
    -----
    Read without pickle. An array whose header declares more than the file holds is refused before memory is
    taken.

    Examples
    --------
    >>> np.savez("scores.npz", score=[[1.0, np.nan], [0.0, 1.0]], models=["a", "b"])
    >>> read_npz("scores.npz").known.tolist()
    [[True, False], [True, True]]
    """
    return _npz(_name(path), _files.read_npz(path, ARRAYS))


def read_csv(path: Paths, models: Sequence[str] | None = None) -> ScoreMatrix:
    """Read a table with one row a query and one column a model.

    Parameters
    ----------
    path : path
        UTF-8 csv with a header. A cell is a number, ``true`` or ``false``, or missing: empty, ``nan``,
        ``na``, ``null``, ``none``.
    models : sequence of str, optional
        Columns to read; by default all whose cells are numbers, without those called ``id``, ``index``,
        ``query`` and the like. A text in a column that is mostly numbers is an error.

    Returns
    -------
    ScoreMatrix
        Missing cells are not known.

    Raises
    ------
    ValueError
        If it is not UTF-8, a row is longer or shorter than the header, a column comes twice, a named column
        is not there or not numeric, or no column is left.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> _ = Path("scores.csv").write_text("query,a,b" + chr(10) + "first,true,.5" + chr(10) + "second,,1")
    >>> read_csv("scores.csv").scores.tolist()
    [[1.0, 0.5], [0.0, 1.0]]
    """
    return _csv(_name(path), _columns(path), models)


def read_routerbench(path: Paths) -> ScoreMatrix:
    """Read the wide table of RouterBench: a column a model, and its cost in ``<model>|total_cost``.

    Parameters
    ----------
    path : path
        csv or parquet (extra ``tables``) with ``<model>`` and ``<model>|total_cost`` for every model;
        ``sample_id``, ``prompt`` and ``eval_name`` are used where they stand.

    Returns
    -------
    ScoreMatrix
        `costs` in the table's dollars, `subset` from ``eval_name``, `groups` a hash of ``prompt`` or else
        ``sample_id``.

    Raises
    ------
    ValueError
        If no cost column is there, or one lacks its scores, or a cell is not a number.
    OSError
        If it cannot be opened.
    MissingExtraError
        If the file is parquet and pandas or pyarrow is not installed.

    Notes
    -----
    The published file is a pickle, which is never read here; write it as parquet where you trust it.

    References
    ----------
    Hu et al. (2024), RouterBench, arXiv:2403.12031.

    Examples
    --------
    >>> text = "sample_id,eval_name,a,a|total_cost" + chr(10) + "q1,mmlu,1,0.002"
    >>> _ = Path("wide.csv").write_text(text)
    >>> read_routerbench("wide.csv").costs.tolist()
    [[0.002]]
    """
    return _routerbench(_name(path), _columns(path))


def read_routellm(*paths: Paths) -> ScoreMatrix:
    """Read answers of RouteLLM: ``prompt`` and a column of true and false for each model.

    Parameters
    ----------
    *paths : path
        One or more csv files with the same models, such as ``mmlu_anatomy.csv`` and ``gsm8k_responses.csv``;
        columns of text are left out.

    Returns
    -------
    ScoreMatrix
        Files one below the other; `subset` is the name of the file, `groups` a hash of the
        prompt.

    Raises
    ------
    ValueError
        If there is no file, a file has no prompt or no score, or the models differ.
    OSError
        If a file cannot be opened.

    References
    ----------
    Ong et al. (2024), RouteLLM, arXiv:2406.18665; the files lie in its repository under ``routellm/evals``.

    Examples
    --------
    >>> _ = Path("mmlu_law.csv").write_text("prompt,weak,strong" + chr(10) + "Is it?,False,True")
    >>> read_routellm("mmlu_law.csv").scores.tolist()
    [[0.0, 1.0]]
    """
    if not paths:
        raise ValueError("read_routellm needs at least one file")
    return _routellm([(_name(path), _columns(path)) for path in paths])


def _npz(name: str, held: dict[str, NDArray]) -> ScoreMatrix:
    raw = _first(held, "score", "scores")
    if raw is None:
        raise ValueError(f"{name} has no array score or scores; it has {', '.join(held) or 'none'}")
    if raw.ndim != 2 or 0 in raw.shape:
        raise ValueError(f"{name}: score must have shape (n, K), one row a query, got {raw.shape}")
    scores = _real(name, "score", raw)
    known = ~np.isnan(scores)
    for key, sign in (("mask", True), ("missing", False)):
        if key in held:
            if held[key].shape != scores.shape or held[key].dtype.kind not in "bu":
                raise ValueError(f"{name}: {key} must be a bool array of shape {scores.shape}")
            known &= held[key].astype(bool) == sign
    found = {
        key: None if (value := _first(held, *keys)) is None else _real(name, keys[0], value)
        for key, keys in {
            "features": ("features",),
            "cheap_features": ("cheap_features",),
            "costs": ("cost_usd", "costs"),
        }.items()
    }
    for key in ("features", "cheap_features"):
        value = found[key]
        if value is not None and (value.ndim != 2 or not np.isfinite(value).all()):
            raise ValueError(f"{name}: {key} must be finite and have shape (n, p), got shape {value.shape}")
    split = held.get("split")
    if split is not None and split.dtype.kind not in "biu":
        raise ValueError(f"{name}: split must be whole numbers, got dtype {split.dtype}")
    K = scores.shape[1]
    labels = held.get("models")
    if labels is not None and labels.shape != (K,):
        raise ValueError(f"{name}: models must have shape ({K},), a name a column, got {labels.shape}")
    models = [f"specialist {k}" for k in range(K)] if labels is None else [str(label) for label in labels]
    return _matrix(
        name,
        scores,
        models,
        known,
        **found,
        groups=_words(_first(held, "groups", "prompt_sha1")),
        subset=_words(_first(held, "subset", "category")),
        split=None if split is None else split.astype(np.int64),
    )


def _columns(path: Paths) -> Columns:
    read = parquet_columns if Path(path).suffix.lower() == ".parquet" else csv_columns
    return read(path, _name(path))


def _csv(name: str, table: Columns, models: Sequence[str] | None) -> ScoreMatrix:
    if models is None:
        found = {key: to_numbers(cells) for key, cells in table.items() if key.lower() not in NOT_MODELS}
        for key, value in found.items():
            if not isinstance(value, np.ndarray) and mostly_numbers(table[key]):
                as_numbers(name, key, table[key])  # a slip in a cell must not take a model away
        columns = {key: value for key, value in found.items() if isinstance(value, np.ndarray)}
        if not columns:
            raise ValueError(f"{name} has no column of numbers; name the models in the header, one a column")
    else:
        absent = [model for model in models if model not in table]
        if absent:
            raise ValueError(f"{name} has no column {absent[0]!r}; it has {_some(table)}")
        if len(set(models)) < len(models):
            raise ValueError(f"models must have different names, got {', '.join(models)}")
        columns = {model: as_numbers(name, model, table[model]) for model in models}
    scores = np.column_stack(list(columns.values()))
    return _matrix(name, scores, list(columns), ~np.isnan(scores))


def _routerbench(name: str, table: Columns) -> ScoreMatrix:
    models = [key.removesuffix(COST) for key in table if key.endswith(COST)]
    if not models:
        raise ValueError(f"{name} has no column '<model>{COST}'; read other tables with read_csv")
    absent = [model for model in models if model not in table]
    if absent:
        raise ValueError(f"{name} has costs of {absent[0]!r}, but no column {absent[0]!r} with its scores")
    scores = np.column_stack([as_numbers(name, model, table[model]) for model in models])
    costs = np.column_stack([as_numbers(name, model + COST, table[model + COST]) for model in models])
    if (costs < 0).any():
        raise ValueError(f"{name}: costs must be >= 0; got min {np.nanmin(costs):g}")
    prompts, samples, tasks = (table.get(key) for key in ("prompt", "sample_id", "eval_name"))
    groups = samples if prompts is None else _hashes(prompts)
    words = {
        "groups": None if groups is None else np.array(groups, str),
        "subset": None if tasks is None else np.array(tasks, str),
    }
    return _matrix(name, scores, models, ~np.isnan(scores), costs=costs, **words)


def _routellm(tables: Sequence[tuple[str, Columns]]) -> ScoreMatrix:
    parts: list[ScoreMatrix] = []
    for name, table in tables:
        if "prompt" not in table:
            raise ValueError(f"{name} has no column 'prompt'; it has {_some(table)}")
        parts.append(_csv(name, table, None))
        if set(parts[-1].models) != set(parts[0].models):
            raise ValueError(
                f"{name} has other models than {tables[0][0]}: {', '.join(parts[-1].models)}; "
                "read files with the same models together"
            )
    models = parts[0].models
    parts = [part.columns(models) for part in parts]
    words = {
        "subset": np.concatenate([[Path(name).stem] * len(table["prompt"]) for name, table in tables]),
        "groups": np.concatenate([_hashes(table["prompt"]) for _, table in tables]),
    }
    scores = np.concatenate([part.scores for part in parts])
    known = np.concatenate([part.known for part in parts])
    return _matrix(", ".join(name for name, _ in tables), scores, models, known, **words)


def _matrix(
    name: str, scores: Floats, models: Sequence[str], known: NDArray[np.bool_], **rest: Any
) -> ScoreMatrix:
    empty = [model for model, column in zip(models, known.T, strict=True) if not column.any()]
    if empty:
        raise ValueError(f"{name}: {empty[0]!r} has no known score; leave its column out")
    if np.isinf(scores[known]).any():
        raise ValueError(f"{name}: scores must be finite, got infinity; leave the cell empty if unknown")
    try:
        return ScoreMatrix(np.where(known, scores, 0.0), tuple(models), known, source=name, **rest)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _first(held: dict[str, NDArray], *keys: str) -> NDArray | None:
    return next((held[key] for key in keys if key in held), None)


def _real(name: str, key: str, value: NDArray) -> Floats:
    if value.dtype.kind not in "biuf":
        raise ValueError(f"{name}: {key} must hold real numbers, got dtype {value.dtype}")
    return value.astype(np.float64)


def _hashes(prompts: Sequence[Any]) -> NDArray[np.str_]:
    """Marks of equal texts that take little memory: 12 hex digits of SHA-1."""
    texts = (str(prompt).encode("utf-8", "surrogatepass") for prompt in prompts)
    return np.array([hashlib.sha1(text, usedforsecurity=False).hexdigest()[:12] for text in texts])


def _words(value: NDArray | None) -> NDArray[np.str_] | None:
    return None if value is None else value.astype(str)


def _some(table: Columns, most: int = 8) -> str:
    names = [repr(name if len(name) <= 40 else name[:37] + "...") for name in list(table)[:most]]
    return ", ".join(names) + (f" and {len(table) - most} more" if len(table) > most else "")


def _name(path: Paths) -> str:
    return Path(path).name or os.fspath(path)
