"""Many calls of one function, on this machine or on a Dask cluster; results come as they finish."""

import contextlib
import functools
import gc
import itertools
import os
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from porism.checks import integer, require

__all__ = ["blas_pools", "completed", "connect", "in_order", "level_of_caller", "one_blas_thread"]

TIMEOUT = 5.0
"""Seconds in which a scheduler must answer."""

_ALONE = threading.Lock()


def blas_pools() -> Any:
    """The linear algebra libraries that are loaded now, or None where threadpoolctl is not installed."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


def one_blas_thread(pools: Any = None) -> contextlib.AbstractContextManager[Any]:
    """One thread of linear algebra inside the block; `pools` where finding them takes too long."""
    found = pools or blas_pools()
    return found.limit(limits=1, user_api="blas") if found else contextlib.nullcontext()


@contextlib.contextmanager
def connect(scheduler: Any, workers: int = 1) -> Iterator[Any]:
    """Yield a client of a scheduler, or None where there is none; close it if it was opened here."""
    integer("workers", workers, low=1)
    if scheduler is None:
        yield None
        return
    if workers > 1:
        raise ValueError(
            f"workers must be 1 beside a scheduler, got {workers}; the cluster has its own: "
            "leave one of them out"
        )
    distributed = require("distributed", "cluster")
    if isinstance(scheduler, distributed.Client):
        _look(scheduler)
        yield scheduler
        return
    if not isinstance(scheduler, str):
        raise TypeError(
            "scheduler must be an address such as 'tcp://127.0.0.1:8786' or a distributed.Client, "
            f"got {type(scheduler).__name__}; pass one of them"
        )
    client, why = None, ""
    try:
        client = distributed.Client(scheduler, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # no answer, no such host, no address at all
        why = str(error)
    if client is None:
        gc.collect()  # what is left closes itself; later that could block the start of another client
        raise ConnectionError(
            f"scheduler must be the address of a running one, got {scheduler!r}: {why}; "
            "start one with `dask scheduler`, which prints its address"
        )
    with client:
        _look(client)
        yield client


def completed(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], workers: int = 1, client: Any = None
) -> Generator[tuple[int, Any], None, None]:
    """Yield (position, result) of ``function(*task)`` as calls finish; close it to stop the rest.

    On a cluster, a call whose worker dies is made again elsewhere; an exception of a call, or a call on which
    worker after worker died, comes as the result. Here, exceptions are raised: let `function` catch its own.
    """
    if client is not None:
        yield from _remote(function, tasks, client)
    elif workers == 1 or len(tasks) < 2:
        for i, task in enumerate(tasks):
            yield i, function(*task)
    else:
        yield from _local(function, tasks, workers)


def in_order(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], workers: int = 1, client: Any = None
) -> Generator[Any, None, None]:
    """Yield the results of `completed` in the order of the tasks, each once those before it are there."""
    early: dict[int, Any] = {}
    wanted = 0
    with contextlib.closing(completed(function, tasks, workers, client)) as found:
        for i, result in found:
            early[i] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1


def _local(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], workers: int
) -> Generator[tuple[int, Any], None, None]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    # one call a message: a result is here as soon as it exists, not when a batch of them does
    pool = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    calls = (delayed(_numbered)(function, i, task, os.getpid()) for i, task in enumerate(tasks))
    try:
        yield from pool(calls)
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "a worker process died, often for want of memory; what had finished is kept: call again, "
            "with fewer workers if memory is short"
        ) from error


def _numbered(function: Callable[..., Any], i: int, task: tuple[Any, ...], main: int) -> tuple[int, Any]:
    _watch(main)
    return i, function(*task)


@functools.cache
def _watch(main: int) -> None:
    """End this worker soon after its main process was killed: it would work on beside the restart."""

    def look() -> None:
        while os.getppid() == main:
            time.sleep(0.5)
        os._exit(1)

    if os.getppid() == main:  # not in a thread of the main process, nor under another kind of pool
        threading.Thread(target=look, daemon=True).start()


def _remote(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], client: Any
) -> Generator[tuple[int, Any], None, None]:
    from concurrent.futures import CancelledError

    distributed = require("distributed", "cluster")
    # sealed, as the scheduler would open it and need the modules of the workers
    dumps = require("distributed.protocol.pickle", "cluster").dumps
    sealed = dumps(function)
    token, todo, waiting = uuid.uuid4().hex, iter(range(len(tasks))), {}

    def submit(count: int) -> list[Any]:
        new = {
            client.submit(_alone, sealed, dumps(tasks[i]), key=f"porism-{token}-{i}", pure=False): i
            for i in itertools.islice(todo, count)
        }
        waiting.update(new)
        return list(new)

    try:
        # a bounded number at the scheduler, however long the list; enough to keep every worker busy
        done = distributed.as_completed(submit(_width(client)), loop=client.loop)
        for future in done:
            error = future.exception()
            result = future.result() if error is None else error
            i = waiting.pop(future)
            del future  # the scheduler forgets what nobody holds
            yield i, result
            done.update(submit(_width(client) - len(waiting)))
    except (CancelledError, OSError) as problem:
        raise ConnectionError(
            "the scheduler went away; what had finished is kept: start a scheduler and call again"
        ) from problem
    finally:
        if waiting and client.status == "running":
            client.cancel(list(waiting))


def _width(client: Any) -> int:
    return max(16, 2 * sum(client.nthreads().values()))


def _look(client: Any) -> None:
    if not client.nthreads():
        warnings.warn(
            f"the scheduler at {client.scheduler.address} has no worker yet, and nothing runs "
            "until one comes; start some with `dask worker ADDRESS --nthreads 1`",
            UserWarning,
            stacklevel=level_of_caller(),
        )


def level_of_caller() -> int:
    """Stack level, for a warning, of the line outside this package that led here."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in ("porism", "contextlib"):
        level, frame = level + 1, frame.f_back
    return level


def _alone(function: bytes, task: bytes) -> Any:
    loads = require("distributed.protocol.pickle", "cluster").loads
    # a worker with several threads: pyplot, style sheets, warning filters are one for the process
    with _ALONE:
        return loads(function)(*loads(task))
