"""Benchmarks of the pattern module: mass outside against that of other orderings, on the same matrices.

``ratio`` is the peer's mass outside over ours, so 1 is a draw and more is better for us; both are given in
units of the planted order, with the CPU seconds of one matrix. The last row compares two orientations.
"""

import functools
import importlib.metadata
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.sims.benchmark import compare
from porism.sims.pattern._peers import PEERS, has_seriation, two_sided
from porism.sims.pattern.planted import planted_pattern
from porism.theory.pattern import Mask, masks, pattern_distance

__all__ = ["BENCHMARKS", "CELLS", "OPEN"]

MATRICES = 3
"""Matrices a cell; values and CPU seconds are means."""

CELLS: dict[str, tuple[Callable[[], Mask], float]] = {
    f"{name} σ={noise}": (build, noise)
    for noise in (0.1, 0.5)
    for name, build in {
        "band 3": lambda: masks.band(48, 3),
        "circulant 3": lambda: masks.circulant_band(48, 3),
        "arrow 3": lambda: masks.arrowhead(48, 3),
        "4 blocks": lambda: masks.block_diagonal([12] * 4),
    }.items()
}
"""Cells of the table: 48 rows, planted signs, one order for both sides."""

OPEN: dict[str, tuple[Callable[[], Mask], float]] = {
    f"band 4 of 128 σ={noise}": (lambda: masks.band(128, 4), noise) for noise in (0.3, 0.5)
}
"""Bands at moderate noise, where a value within 1.05 of the planted one was an open target."""

TWO_SIDED: dict[str, tuple[Callable[[], Mask], float]] = {
    f"{name} σ={noise}": (build, noise)
    for noise in (0.6, 0.9)
    for name, build in {
        "4 blocks 20 x 15": lambda: masks.block_diagonal([20] * 4, [15] * 4),
        "4 unequal blocks": lambda: masks.block_diagonal([8, 16, 24, 32], [6, 12, 18, 24]),
    }.items()
}
"""Rows and columns free; we are told the sizes of the blocks, the peers only their number."""


@functools.cache
def _matrices(build: Callable[[], Mask], noise: float, order: str) -> Any:
    mask = build()
    drawn = [
        planted_pattern(mask, signal="sign", noise=noise, order=order, random_state=seed)
        for seed in range(MATRICES)
    ]
    return mask, [(A, truth.mass_outside) for A, truth in drawn]


def _measured(run: Callable[[NDArray[np.float64], Mask], Any], mask: Mask, drawn: Any) -> tuple[float, float]:
    """Mean mass outside over the planted one, and mean CPU seconds: a busy machine does not count."""
    values, seconds = [], []
    for A, truth in drawn:
        begun = time.process_time()
        p, q = run(A, mask)
        seconds.append(time.process_time() - begun)
        values.append((mask.penalty * A[np.ix_(p, q)] ** 2).sum() / (A**2).sum() / truth)
    return float(np.mean(values)), float(np.mean(seconds))


@functools.cache
def _ours(build: Callable[[], Mask], noise: float, order: str) -> tuple[float, float]:
    def run(A: NDArray[np.float64], mask: Mask) -> Any:
        fit = pattern_distance(A, mask, order=order, random_state=0)
        return fit.row_order, fit.col_order

    rng = np.random.default_rng(0)
    run(rng.normal(size=(9, 9)), masks.band(9, 1))  # compiled before the clock starts
    return _measured(run, *_matrices(build, noise, order))


def _against(cell: str, build: Any, noise: float, order: str, peer: str, package: str, run: Any) -> Any:
    def benchmark() -> dict[str, Any]:
        row = {"task": f"mass outside / planted, {cell}", "peer": peer}
        here = has_seriation() if package == "R" else importlib.util.find_spec(package) is not None
        if not here:
            return {**row, "missing": f"{package} is not installed"}
        ours, ours_s = _ours(build, noise, order)
        theirs, peer_s = _measured(run, *_matrices(build, noise, order))
        version = (
            "" if package == "R" else importlib.metadata.version(package.replace("sklearn", "scikit-learn"))
        )
        row["task"] += f": {ours:.4f} against {theirs:.4f}"
        return {
            **row,
            "peer_version": version,
            "ours_s": ours_s,
            "peer_s": peer_s,
            "ratio": theirs / ours,
            "ours": ours,
            "theirs": theirs,
            "cell": cell,
        }

    benchmark.__name__ = f"{cell} against {peer}"
    benchmark.__doc__ = f"Mass outside on {cell} beside that of {peer}."
    return benchmark


def orientation() -> dict[str, Any]:
    """Assignment for a block mask with sources on rows, against positions on rows."""
    from scipy.optimize import linear_sum_assignment

    n = 1024
    A, truth = planted_pattern(masks.block_diagonal([n // 4] * 4), signal="sign", noise=0.5, random_state=0)
    cost = A[:, np.random.default_rng(0).permutation(n)] ** 2 @ truth.mask.penalty.T
    turned = np.ascontiguousarray(cost.T)
    return compare(
        f"assignment on 4 blocks, n={n}; peer: positions on rows",
        "scipy",
        lambda: cost[linear_sum_assignment(cost)].sum(),
        lambda: turned[linear_sum_assignment(turned)].sum(),
        lambda a, b: abs(a - b) / abs(a),
        1e-12,
        rounds=3,
    )


BENCHMARKS = [
    _against(cell, build, noise, "common", peer, package, run)
    for cell, (build, noise) in CELLS.items()
    for peer, (package, run) in PEERS.items()
]
BENCHMARKS += [
    _against(cell, build, noise, "common", peer, *PEERS[peer])
    for cell, (build, noise) in OPEN.items()
    for peer in ("FAQ x10", "RCM of the top entries", "Fiedler")
]
BENCHMARKS += [
    _against(cell, build, noise, "independent", name, "sklearn", two_sided(name))
    for cell, (build, noise) in TWO_SIDED.items()
    for name in ("SpectralCoclustering", "SpectralBiclustering")
]
BENCHMARKS += [orientation]
