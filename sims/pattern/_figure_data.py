"""Recovery, hit rates and tightness of bounds: the numbers that figures draw."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator
from porism.kernels import lap
from porism.sims.pattern._oracles import enumerated, masses, orders
from porism.sims.pattern._peers import spectral_labels
from porism.sims.pattern.planted import PlantedTruth, planted_pattern
from porism.sims.pattern.sweeps import adjusted_rand
from porism.theory.pattern import Mask, masks, pattern_distance

__all__ = ["agreement", "bound_tightness", "hit_rates", "recovery"]

Floats = NDArray[np.float64]
Solver = Callable[[Floats, Mask], Any]
Worlds = Sequence[tuple[Mask, float]]


def recovery(
    worlds: Worlds,
    solvers: Mapping[str, Solver],
    *,
    trials: int = 8,
    rng: np.random.Generator | int | None = None,
) -> Floats:
    """Share of planted matrices whose common order a solver finds, up to symmetries: (w, 1 + s), ours first.

    A world is a pattern and the noise on its random signs; a solver takes a matrix and the mask and returns
    row and column orders. The planted order need not be the best one under noise (PD-12), so that a share
    below 1 is no fault of a solver by itself.
    """

    def ours(A: Floats, mask: Mask) -> Any:
        fit = pattern_distance(A, mask, order="common", random_state=0)
        return fit.row_order, fit.col_order

    def score(found: Any, truth: PlantedTruth) -> float:
        rows, columns = found
        return float(truth.equivalent(dataclasses.replace(truth, row_order=rows, col_order=columns)))

    return _scores(worlds, {"ours": ours, **solvers}, score, "common", trials, rng)


def agreement(
    worlds: Worlds,
    methods: Sequence[str],
    *,
    trials: int = 4,
    rng: np.random.Generator | int | None = None,
) -> Floats:
    """Adjusted Rand index of planted blocks, mean of rows, columns and trials: (w, 1 + s), ours first.

    Rows and columns are free. The others are classes of ``sklearn.cluster``, told the number of blocks, ours
    their sizes.
    """

    def ours(A: Floats, mask: Mask) -> Any:
        return pattern_distance(A, mask, random_state=0).labels()

    def score(found: Any, truth: PlantedTruth) -> float:
        return float(np.mean(list(map(adjusted_rand, found, truth.labels()))))

    peers = {name: spectral_labels(name) for name in methods}
    return _scores(worlds, {"ours": ours, **peers}, score, "independent", trials, rng)


def hit_rates(
    sizes: Sequence[int],
    restarts: Sequence[int | str],
    *,
    order: str = "common",
    matrices: int = 10,
    rng: np.random.Generator | int | None = None,
) -> tuple[Floats, Floats]:
    """Share of optima found by the search without enumeration, and its largest relative excess: (s, r) each.

    Gaussian matrices of each size, 3 to 8, for each of the masks band, blocks, arrowhead and triangle; all
    orders are tried for the truth. `restarts` are budgets of the search.
    """
    rng = generator(rng)
    shares, excess = np.zeros((2, len(sizes), len(restarts)))
    for row, n in enumerate(sizes):
        blocks = masks.block_diagonal([n // 2, n - n // 2])
        library = [masks.band(n, 1), blocks, masks.arrowhead(n, 1), masks.lower_triangular(n)]
        cases = [(rng.standard_normal((n, n)), mask) for mask in library for _ in range(matrices)]
        for A, mask in cases:
            best = _optimum(A, mask, order)
            for column, count in enumerate(restarts):
                fit = pattern_distance(A, mask, order=order, exact=False, n_restarts=count, random_state=0)
                over = (fit.mass_outside - best) / best
                shares[row, column] += (over < 1e-9) / len(cases)
                excess[row, column] = max(excess[row, column], over)
    return shares, np.maximum(excess, 0.0)


def bound_tightness(
    sizes: Sequence[int],
    *,
    order: str = "independent",
    matrices: int = 2,
    rng: np.random.Generator | int | None = None,
) -> dict[str, Floats]:
    """Mean of each lower bound over the best value found (s,): Gaussian matrices, four equal blocks.

    The value found is an upper bound itself beyond small n, so that the ratios are at most what is shown by
    the true optimum. Few restarts are made above n = 64, which lowers ratios by about one part in 100.
    """
    rng = generator(rng)
    kinds = "RTPG" if order == "common" else "RTP"
    found = {kind: np.zeros(len(sizes)) for kind in kinds}
    for at, n in enumerate(sizes):
        mask = masks.block_diagonal([n // 4] * 4)
        for _ in range(matrices):
            A = rng.standard_normal((n, n))
            count = 4 if n <= 64 else 0
            fit = pattern_distance(A, mask, order=order, n_restarts=count, random_state=0)
            for kind in kinds:
                found[kind][at] += fit.bounds[kind] / fit.mass_outside / matrices
    return found


def _scores(
    worlds: Worlds,
    methods: Mapping[str, Solver],
    score: Callable[[Any, PlantedTruth], float],
    order: str,
    trials: int,
    rng: np.random.Generator | int | None,
) -> Floats:
    rng, out = generator(rng), np.zeros((len(worlds), len(methods)))
    for row, (mask, noise) in enumerate(worlds):
        for _ in range(trials):
            A, truth = planted_pattern(mask, signal="sign", noise=noise, order=order, random_state=rng)
            out[row] += [score(method(A, mask), truth) for method in methods.values()]
    return out / trials


def _optimum(A: Floats, mask: Mask, order: str) -> float:
    """The least mass outside: all orders of the rows, the columns with them or by one assignment each."""
    B, W, rows = masses(A), mask.penalty, orders(len(A))
    if order == "common":
        return float(enumerated(B, W, order).min())
    costs = np.einsum("kic,ij->kcj", B[rows], W, optimize=True)
    columns = lap.batched(costs)[:, None]
    return float(np.take_along_axis(costs, columns, axis=1).sum(axis=(1, 2)).min())
