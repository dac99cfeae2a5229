"""Benchmarks of dual scores: time and memory beside gradients of each sample.

One process and one thread, float32, the same model and data, interleaved rounds, medians; ``ratio`` is the
peer's seconds over ours. Rows of both sides are held against float64 by their root mean square error: peers
add up products of all parameters in float32, and are the less exact side. Central differences agree to about
1e-3 only, by design. Peaks count tensors alive at once, parameters and data left out; they are of a CPU.

Forward mode does not win on time for a transformer: tangents of attention cost more than the gradients of a
small model. What it wins there is memory. Central differences take about the time of vmap, as written or
told to leave fused attention alone ("plain"): ratios of 0.93 to 1.20 over runs on a busy machine. ``chunk``
lowers the peak further at no cost in time.
"""

import functools
from collections.abc import Callable
from typing import Any

from porism.sims._peak import peak_bytes
from porism.sims.benchmark import beside, missing_peer, one_thread, row
from porism.sims.selection import _models

__all__ = ["BENCHMARKS", "ROUNDS"]

ROUNDS = 5
"""Rounds counted, after one that is not."""

MIB = 2**20
CLOSE, PEER, DIFFERENCES = 1e-6, 5e-6, 2e-3
"""Rounding of float32 in a pass; in a product of 4e5 terms, which the peers add up; central differences."""

Make = Callable[[int], _models.Work]


def _apart(ours: Any, theirs: Any) -> float:
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


@functools.cache
def _exact(make: Make, n: int) -> Any:
    """Scores in float64 from gradients of one sample at a time."""
    return make(n).double().ours(method="per_sample", chunk=16)


def _beside(model: str, make: Make, method: str, peer: str, n: int = 256, **options: Any) -> Any:
    words = f"{method}{''.join(f', {k}={v}' for k, v in options.items())}"

    def benchmark() -> dict[str, Any]:
        task = f"dual scores by {words}, {model}, n={n}; peer: {peer}"
        if missing := missing_peer(task, "torch"):
            return missing

        with one_thread():
            work = make(n)
            ours: Callable[[], Any] = functools.partial(work.ours, method=method, **options)
            theirs: Callable[[], Any] = functools.partial(work.peer, peer)
            exact, (rows, columns) = _exact(make, n), theirs()
            found = ours()
            agreement, peers = _apart(found.rows, exact.rows), _apart(rows, exact.rows)
            sides = max(_apart(found.columns[name], value) for name, value in columns.items())
            numbers = {"agreement": agreement, "peer_apart": peers, "columns_apart": sides}
            entry = row(f"{task}, P={work.size:,}", "torch", **numbers)
            del found, rows, columns
            close = DIFFERENCES if method == "central" else CLOSE
            if not (agreement <= close and peers <= PEER and sides <= PEER):
                return {**entry, "missing": f"no time: off by {agreement:.3g}, {peers:.3g} and {sides:.3g}"}
            peaks = [peak_bytes(one, *work.known) for one in (ours, theirs)]
            times = beside(ours, theirs, ROUNDS)
        entry["task"] += f": peak {peaks[0] / MIB:.1f} against {peaks[1] / MIB:.1f} MiB"
        return {**entry, **times, "peaks": peaks}

    benchmark.__name__ = f"{model.split()[0]}, {words} against {peer}"
    benchmark.__doc__ = f"Seconds and peak of dual scores by {words} on a {model}, beside {peer}."
    return benchmark


def digits(n: int = 64) -> dict[str, Any]:
    """Relative errors of rows in float32 against float64: ours, and those of gradients of each sample."""
    task = f"digits of the rows in float32, perceptron, n={n}: relative errors; peer: vmap"
    if missing := missing_peer(task, "torch"):
        return missing
    with one_thread():
        work, exact = _models.perceptron(n), _exact(_models.perceptron, n).rows
        errors = [_apart(rows, exact) for rows in (work.ours().rows, work.peer()[0])]
    return {
        "task": task,
        "peer": "torch",
        "ratio": errors[1] / errors[0],
        "ours": errors[0],
        "theirs": errors[1],
    }


MLP = "perceptron 256-512-512-10"
NET = "transformer of 3 layers, 48 tokens"

BENCHMARKS = [
    _beside(MLP, _models.perceptron, "jvp", "vmap"),
    _beside(MLP, _models.perceptron, "jvp", "loop"),
    _beside(MLP, _models.perceptron, "double_backward", "vmap"),
    _beside(MLP, _models.perceptron, "central", "vmap"),
    _beside(NET, _models.transformer, "jvp", "vmap"),
    _beside(NET, _models.transformer, "central", "vmap"),
    _beside(NET, _models.transformer, "central", "loop"),
    _beside(NET, _models.transformer, "central", "plain"),
    _beside(NET, _models.transformer, "jvp", "vmap", chunk=32),
    _beside(NET, _models.transformer, "central", "vmap", chunk=32),
    digits,
]
