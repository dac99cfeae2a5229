"""Side-by-side timing: same work, same process, interleaved rounds, medians, and only where answers agree."""

import importlib.metadata
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

from porism.checks import integer

__all__ = ["compare", "missing_peer"]


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
        The functions; each is called once to warm up and then `rounds` times, alternating.
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
    >>> row = compare("sum of 3", "numpy", lambda: 6, lambda: 6, lambda a, b: abs(a - b), 0.0, rounds=1)
    >>> row["agreement"], row["ratio"] > 0
    (0.0, True)
    """
    apart = float(difference(ours(), theirs()))
    row = {"task": task, "peer": peer, "peer_version": importlib.metadata.version(peer), "agreement": apart}
    if not apart <= tolerance:
        return {**row, "missing": f"no time: answers differ by {apart:.3g}, more than {tolerance:.3g}"}
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(integer("rounds", rounds, 1)):
        for work, spent in zip((ours, theirs), seconds, strict=True):
            start = time.perf_counter()
            work()
            spent.append(time.perf_counter() - start)
    mine, other = (statistics.median(spent) for spent in seconds)
    return {**row, "ours_s": mine, "peer_s": other, "ratio": other / mine}


def missing_peer(task: str, peer: str) -> dict[str, Any] | None:
    """Row for a peer that is not installed, or None where it is.

    Parameters
    ----------
    task : str
        What would be computed.
    peer : str
        Name of the module.

    Returns
    -------
    dict or None
        A row that names the peer as missing.

    Examples
    --------
    >>> missing_peer("sum", "no_such_peer")["missing"]
    "no_such_peer is not installed; pip install 'porism[peers]'"
    """
    if importlib.util.find_spec(peer):
        return None
    note = f"{peer} is not installed; pip install 'porism[peers]'"
    return {"task": task, "peer": peer, "missing": note}
