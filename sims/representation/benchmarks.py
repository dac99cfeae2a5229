"""Benchmarks of the representation module: what a measure says of equal functions, and the canonical form.

Rows on quality hold two numbers over pairs of layers that are the same function: ``ours`` is the lowest
privileged CKA, ``theirs`` the median CKA of the peer; ``agreement`` is the largest difference of the peer's
CKA to ours on the same hidden matrices. Rows on speed compare seconds.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.benchmark import compare, missing_peer, row
from porism.sims.representation._peers import all_pairs, one_by_one, plain_cka
from porism.sims.representation._wide import canonical_memory, wide_layer
from porism.sims.representation.worlds import random_layer, scramble
from porism.theory.representation import Layer, canonicalise, privileged_similarity, similarity

__all__ = ["BENCHMARKS"]

PAIRS = 100
UNITS, INPUTS = 16_000, 256


def _repsim() -> Any:
    import repsim

    return lambda X, Y: float(repsim.cka([X, Y], kernel_type="linear")[0, 1])


def _fooled(peer: str, load: Any) -> Any:
    def benchmark() -> dict[str, Any]:
        task = f"{PAIRS} pairs of scrambled copies: CKA that {peer} gives, privileged CKA"
        if missing := missing_peer(task, peer):
            return {**missing, "missing": f"{peer} is not installed; pip install {peer}"}
        cka, rng = load(), np.random.default_rng(0)
        theirs, ours, apart = [], [], 0.0
        for _ in range(PAIRS):
            net, X = random_layer(12, 5, 3, rng), rng.normal(size=(200, 5))
            a, b = scramble(net, rng), scramble(net, rng)
            hidden = a.hidden(X), b.hidden(X)
            theirs.append(cka(*hidden))
            apart = max(apart, abs(theirs[-1] - similarity(*hidden)))
            ours.append(privileged_similarity(a, b, X))
        return row(task, peer, ours=min(ours), theirs=float(np.median(theirs)), agreement=apart)

    benchmark.__name__ = f"equal functions, {peer}"
    benchmark.__doc__ = (
        f"{PAIRS} pairs of layers that are the same function: CKA of {peer}, and privileged CKA."
    )
    return benchmark


def _directions(net: Layer) -> NDArray[np.float64]:
    W = np.column_stack([net.W_in, net.b])
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def _lines(task: str, peer: Any, units: int, inputs: int, rounds: int) -> Any:
    def benchmark() -> dict[str, Any]:
        net = wide_layer(units, inputs)
        U, tol = _directions(net), 1e-8 * (inputs + 1) ** 0.5
        return compare(
            f"canonical form against lines alone, {units} units, {inputs} inputs; peer: {task}",
            "numpy",
            lambda: canonicalise(net).lines,
            lambda: peer(U, tol),
            lambda a, b: abs(a - b),
            0,
            rounds,
        )

    benchmark.__name__ = f"lines against {task}"
    benchmark.__doc__ = f"Canonical form of {units} units beside finding parallel units by {task}."
    return benchmark


def wide() -> dict[str, Any]:
    """Canonical form of 16,000 units, 256 inputs: seconds and memory, where all pairs need 2 GB."""
    seconds, peak, lines = canonical_memory(UNITS, INPUTS)
    pairs = 8 * UNITS**2 / 1e6
    sizes = f"{UNITS} units, {INPUTS} inputs, {lines} lines: {peak:.0f} MB; all pairs {pairs:.0f}"
    numbers = {"ours_s": seconds, "ratio": pairs / peak, "ours": peak, "theirs": pairs}
    return row(f"canonical form, {sizes}", "numpy", **numbers, agreement=abs(lines - UNITS // 2))


BENCHMARKS = [
    _fooled("numpy", lambda: plain_cka),
    _fooled("repsim", _repsim),
    wide,
    _lines("all pairs at once", all_pairs, 4000, INPUTS, 3),
    _lines("one unit after another", one_by_one, 2000, INPUTS, 1),
]
