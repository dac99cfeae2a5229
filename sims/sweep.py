"""One function over a grid: a random stream an item, rows on disk as they finish, a table in the end."""

import contextlib
import functools
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import porism
from porism._pool import completed, connect, one_blas_thread
from porism.checks import integer, one_of, require
from porism.sims._sweep_grid import Grid, accepts, items_of, key, name_of, plain, source_of, stream
from porism.sims._sweep_store import FORMAT, Store, SweepMismatchError, to_table

__all__ = ["SweepError", "SweepMismatchError", "item_rng", "sweep"]


class SweepError(RuntimeError):
    """Some items failed; all others are done, and on disk where a folder was given.

    Parameters
    ----------
    message : str
        How many failed, and the first of them.
    table : DataFrame
        The whole table, failed items with their message in the column ``error``.
    failed : sequence of int
        Positions of the failed items in the grid.
    """

    def __init__(self, message: str, table: Any = None, failed: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.table, self.failed = table, tuple(failed)


def sweep(
    function: Callable[..., Any],
    grid: Grid,
    folder: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    workers: int = 1,
    scheduler: Any = None,
    errors: str = "raise",
    progress: bool = False,
) -> Any:
    """Call a function on every item of a grid and collect the rows, on one core, many, or a Dask cluster.

    Row i of the table is ``{**item_i, **function(**item_i, rng=item_rng(item_i, seed))}``.

    Parameters
    ----------
    function : callable
        ``function(rng=Generator, **item)`` returns a mapping of column names to values, or one number, which
        becomes the column ``value``. Values are numbers, text, bools, None, or lists and arrays of them.
    grid : mapping or sequence of mappings
        A mapping of names to lists stands for their product, the last name running fastest; a sequence lists
        the items one by one. Values are numbers, text, bools, None, or lists of them. An item that occurs
        twice is a repetition with a stream of its own.
    folder : path, optional
        Folder that receives every row as soon as it is finished. A later call with the same arguments
        computes only what is missing or failed, also after ``kill -9``, with other `workers` or `scheduler`.
        At the end ``folder/table.parquet`` is the whole table.
    seed : int, default 0
        Root of all random streams, >= 0.
    workers : int, default 1
        Number of processes on this machine (joblib), >= 1.
    scheduler : str or distributed.Client, optional
        Address of a Dask scheduler such as ``"tcp://127.0.0.1:8786"``, or a client of one; items run on its
        workers. Only this process writes to `folder`: workers need no common disk.
    errors : {"raise", "keep"}, default "raise"
        What follows once every item has been tried and some have failed: an error, or the table with their
        messages in the column ``error``.
    progress : bool, default False
        Whether to show a bar on stderr.

    Returns
    -------
    pandas.DataFrame
        One row an item in the order of the grid: its parameters, the columns that `function` returned, and
        ``error``, null where the item went well. It depends on none of `folder`, `workers`, `scheduler`.

    Raises
    ------
    SweepError
        If items failed and ``errors="raise"``. A RuntimeError with the attributes `table` and `failed`.
    SweepMismatchError
        If the folder belongs to another function, grid or seed, is in use, or is damaged. A ValueError.
    ConnectionError
        If the scheduler does not answer within 5 s, or goes away; rows stay.
    ChildProcessError
        If a process of joblib dies; rows stay.
    MissingExtraError
        If pandas and pyarrow (extra ``tables``) or distributed (extra ``cluster``) are missing.
    TypeError, ValueError
        If an argument is no such thing.

    Warns
    -----
    UserWarning
        If the source of `function` has changed since the folder was begun, or the cluster has no worker yet.

    Notes
    -----
    Rows reach the folder one by one, each by an atomic rename; a kill can cost the items at work, no more. A
    row that is there is never computed again, and never in the table twice, even where a cluster runs an
    item again because its worker died. A cluster gives an item up as failed after four dead workers. Ctrl-C
    keeps all finished rows.

    The folder knows `function` by its name and by the bound arguments of a `functools.partial`, not by what
    it calls. BLAS runs on one thread an item where threadpoolctl is installed, so that the number of workers
    does not change the last bits; for torch, set the number of threads in `function`. A Dask worker runs one
    item at a time however many threads it has: start one process a core with ``--nthreads 1``. Functions of
    modules must be importable on the workers, functions of a script or a notebook travel by value.

    Tuples and arrays in the grid reach `function` as lists. A column that mixes kinds, such as numbers and
    text, becomes text. Overhead: about 2 ms an item, and 6 ms more with a folder; memory: the table.

    References
    ----------
    J. Salmon et al. (2011), Parallel random numbers: as easy as 1, 2, 3, doi:10.1145/2063384.2063405, for
    streams by key in place of streams by order.

    Examples
    --------
    >>> import pandas
    >>> def noise(size, scale, rng):
    ...     return {"mean": scale * rng.normal(size=size).mean()}
    >>> table = sweep(noise, {"size": [10, 1000], "scale": [1.0, 5.0]})
    >>> table[["size", "scale"]].values.tolist()
    [[10.0, 1.0], [10.0, 5.0], [1000.0, 1.0], [1000.0, 5.0]]
    """
    require("pandas", "tables")
    items = items_of(grid)
    accepts(function, items)
    seed = integer("seed", seed, low=0)
    one_of("errors", errors, ("raise", "keep"))
    integer("workers", workers, low=1)
    keys = [key(item) for item in items]
    streams, seen = [], Counter[str]()
    for text in keys:
        streams.append(stream(text, seed, seen[text]))
        seen[text] += 1
    with contextlib.ExitStack() as stack:
        store, rows, client = None, {}, None
        begun = folder is not None and (Path(folder) / "sweep.json").exists()
        if not begun:  # a wrong scheduler must leave no folder behind
            client = stack.enter_context(connect(scheduler, workers))
        if folder is not None:
            manifest = {
                "format": FORMAT,
                "porism": porism.__version__,
                "function": name_of(function),
                "source": source_of(function),
                "grid": hashlib.sha256(json.dumps(keys).encode()).hexdigest(),
                "items": len(items),
                "seed": seed,
            }
            store = stack.enter_context(Store.open(Path(folder), manifest))
            rows = {i: row for i, row in store.rows(len(items)).items() if row["error"] is None}
        todo = [i for i in range(len(items)) if i not in rows]
        if todo:
            if begun:
                client = stack.enter_context(connect(scheduler, workers))
            call = functools.partial(_call, function)
            tasks = [(items[i], streams[i]) for i in todo]
            found = completed(call, tasks, workers, client)
            stack.enter_context(contextlib.closing(found))
            bar = stack.enter_context(_bar(len(items), len(rows), progress))
            failed = 0
            for position, outcome in found:
                i = todo[position]
                rows[i] = _fitting(items[i], outcome)
                if store is not None:
                    store.add(i, rows[i])
                failed += rows[i]["error"] is not None
                if failed:
                    bar.set_postfix(failed=failed, refresh=False)
                bar.update()
        table = to_table([rows[i] for i in range(len(items))])
        wrong = [i for i in range(len(items)) if rows[i]["error"] is not None]
        if store is not None and todo:
            store.finish(table, complete=not wrong)
    frame = table.to_pandas()
    if wrong and errors == "raise":
        shown = ", ".join(f"{name}={value!r}" for name, value in items[wrong[0]].items())
        again = (
            "all others are kept in the folder: call again to try these again"
            if store
            else "pass folder= to keep the others, so that a later call tries only these again"
        )
        raise SweepError(
            f"{len(wrong)} of {len(items)} items failed, the first at {shown}: {rows[wrong[0]]['error']}; "
            f"{again}, or pass errors='keep' for the table as it is",
            frame,
            wrong,
        )
    return frame


def item_rng(item: Mapping[str, Any], seed: int = 0, repetition: int = 0) -> np.random.Generator:
    """Random stream that `sweep` hands to an item, to run a single one again by hand.

    A child of ``SeedSequence(seed)`` whose spawn key is the SHA-256 digest of the item.

    Parameters
    ----------
    item : mapping
        Parameters of the item; their order does not matter.
    seed : int, default 0
        Seed of the sweep, >= 0.
    repetition : int, default 0
        How many equal items come before it in the grid.

    Returns
    -------
    Generator
        The same for the same arguments, whatever else is in the grid.

    Examples
    --------
    >>> one, other = (item_rng({"size": 10}, seed).integers(1000) for seed in (0, 0))
    >>> bool(one == other)
    True
    """
    (clean,) = items_of([item])
    repetition = integer("repetition", repetition, low=0)
    return np.random.default_rng(stream(key(clean), integer("seed", seed, low=0), repetition))


def _call(function: Callable[..., Any], item: dict[str, Any], stream: np.random.SeedSequence) -> Any:
    """Run one item, wherever this is: its columns, or what was raised."""
    try:
        with one_blas_thread():
            found = function(**item, rng=np.random.default_rng(stream))
        columns = found if isinstance(found, Mapping) else {"value": found}
        return {str(name): plain(f"column {name!r}", value) for name, value in columns.items()}
    except Exception as error:  # one item must not cost the others
        return f"{type(error).__name__}: {error}"


def _fitting(item: dict[str, Any], outcome: Any) -> dict[str, Any]:
    """Row of an item; an outcome that fits no table counts as failed."""
    import pyarrow as pa

    if isinstance(outcome, dict):
        if taken := (item.keys() | {"error"}) & outcome.keys():
            outcome = (
                f"ValueError: function must not return {min(taken)!r}, a column that is there; rename it"
            )
        else:
            row = {**item, **outcome, "error": None}
            try:
                return pa.Table.from_pylist([row]).to_pylist()[0]  # as it comes back from disk
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                outcome = f"{type(error).__name__}: {error}"
    elif isinstance(outcome, Exception):
        outcome = f"{type(outcome).__name__}: {outcome}"
    return {**item, "error": outcome}


def _bar(total: int, done: int, progress: bool) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, initial=done, desc="sweep", unit="item", file=sys.stderr, disable=not progress)
