"""Recovery, hit rates and tightness of bounds, as numbers that figures and claims share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer, one_of
from porism.sims.pattern.planted import planted_pattern
from porism.sims.pattern.sweeps import _labels, adjusted_rand
from porism.theory.pattern import Mask, masks, pattern_distance
from porism.theory.pattern._enumerate import enumerate_optimum
from porism.theory.pattern._problem import prepare

__all__ = [
    "agreement",
    "bound_tightness",
    "hit_rates",
    "recovery",
]

Floats = NDArray[np.float64]
Solver = Callable[[Floats, Mask], Any]
Worlds = Sequence[tuple[Mask, float]]


def recovery(
    worlds: Worlds,
    solvers: Mapping[str, Solver],
    *,
    order: str = "common",
    trials: int = 8,
    rng: np.random.Generator | int | None = None,
) -> Floats:
    """Share of planted matrices whose order each solver finds again, up to symmetries of the mask.

    Parameters
    ----------
    worlds : sequence of (Mask, float), of length w
        Pattern, and standard deviation of the noise on its random signs.
    solvers : mapping of str to callable, of length s
        Each takes a matrix and the mask and returns row and column orders; one named "ours" is added.
    order : {"common", "independent"}
        How matrices are shuffled, and what our solver may move.
    trials : int, default 8
        Matrices a world, >= 1; all solvers see the same ones.
    rng : Generator, int or None
        Source of the matrices.

    Returns
    -------
    float64 array, shape (w, 1 + s)
        Shares in [0, 1], ours first.

    Raises
    ------
    TypeError, ValueError
        If an option is out of range.

    Notes
    -----
    The planted order need not be the best one under noise (PD-12), so that a share below 1 is no fault of a
    solver by itself.

    Examples
    --------
    >>> recovery([(masks.band(8, 1), 0.0)], {}, trials=2, rng=0).tolist()
    [[1.0]]
    """

    def ours(A: Floats, mask: Mask) -> Any:
        fit = pattern_distance(A, mask, order=order, random_state=0)
        return fit.row_order, fit.col_order

    def score(found: Any, truth: Any) -> float:
        placed = np.empty(truth.mask.S.shape)
        placed[np.ix_(*found)] = truth.mask.S
        return float(np.array_equal(placed, truth.source_mask()))

    return _scores(worlds, {"ours": ours, **solvers}, score, order, trials, rng)


def agreement(
    worlds: Worlds,
    methods: Sequence[str] = ("SpectralBiclustering", "SpectralCoclustering"),
    *,
    trials: int = 4,
    rng: np.random.Generator | int | None = None,
) -> Floats:
    """Adjusted Rand index of planted blocks, rows and columns free: ours and spectral clusterings.

    Parameters
    ----------
    worlds : sequence of (Mask, float), of length w
        Block-diagonal masks, and standard deviation of the noise.
    methods : sequence of str, of length s
        Classes of ``sklearn.cluster``. They are told the number of blocks, ours their sizes.
    trials : int, default 4
        Matrices a world, >= 1.
    rng : Generator, int or None
        Source of the matrices.

    Returns
    -------
    float64 array, shape (w, 1 + s)
        Means over trials, rows and columns, ours first; at most 1, about 0 by chance.

    Raises
    ------
    MissingExtraError
        If scikit-learn is needed and not installed (extra ``data``).
    TypeError, ValueError
        If an option is out of range.

    Examples
    --------
    >>> agreement([(masks.block_diagonal([3, 3]), 0.0)], [], trials=1, rng=0).tolist()
    [[1.0]]
    """

    def ours(A: Floats, mask: Mask) -> Any:
        return pattern_distance(A, mask, random_state=0).labels()

    def score(found: Any, truth: Any) -> float:
        return float(np.mean([adjusted_rand(a, b) for a, b in zip(found, _labels(truth), strict=True)]))

    peers = {name: _spectral(name) for name in methods}
    return _scores(worlds, {"ours": ours, **peers}, score, "independent", trials, rng)


def hit_rates(
    sizes: Sequence[int],
    restarts: Sequence[int | str],
    *,
    order: str = "common",
    matrices: int = 10,
    rng: np.random.Generator | int | None = None,
) -> tuple[Floats, Floats]:
    """How often the search without enumeration finds the optimum that brute force knows, and what it misses.

    Parameters
    ----------
    sizes : sequence of int, of length s
        Rows and columns, each from 3 to 8.
    restarts : sequence of int or "auto", of length r
        Budgets of the search, as `n_restarts` of :func:`pattern_distance`.
    order : {"common", "independent"}
        What moves.
    matrices : int, default 10
        Gaussian matrices for each size and each of the masks band, blocks, arrowhead and lower triangular.
    rng : Generator, int or None
        Source of the matrices.

    Returns
    -------
    (float64 array, float64 array), each of shape (s, r)
        Share of optima found, and largest relative excess over an optimum.

    Raises
    ------
    TypeError, ValueError
        If an option is out of range.

    Examples
    --------
    >>> hit_rates([4], ["auto"], matrices=2, rng=0)[0].tolist()
    [[1.0]]
    """
    one_of("order", order, ("common", "independent"))
    rng = generator(rng)
    shares, excess = np.zeros((2, len(sizes), len(restarts)))
    for row, n in enumerate(sizes):
        integer("sizes", n, 3, 8)
        blocks = masks.block_diagonal([n // 2, n - n // 2])
        library = [masks.band(n, 1), blocks, masks.arrowhead(n, 1), masks.lower_triangular(n)]
        cases = [
            (rng.standard_normal((n, n)), mask)
            for mask in library
            for _ in range(integer("matrices", matrices, 1))
        ]
        for A, mask in cases:
            problem = prepare(A, mask, order)
            best = enumerate_optimum(problem.B, problem.W, order)[0]
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
    """Each lower bound over the best value found, on Gaussian matrices against four equal blocks.

    Parameters
    ----------
    sizes : sequence of int, of length s
        Rows and columns, multiples of 4.
    order : {"independent", "common"}
        What moves.
    matrices : int, default 2
        Matrices a size, >= 1.
    rng : Generator, int or None
        Source of the matrices.

    Returns
    -------
    dict of str to float64 array, shape (s,)
        Mean ratios in [0, 1] for R, T, P, and G where the order is common.

    Raises
    ------
    TypeError, ValueError
        If an option is out of range.

    Notes
    -----
    The value found is an upper bound itself beyond small n, so that the ratios are at most what is shown by
    the true optimum. Few restarts are made above n = 64, which lowers ratios by about one part in 100.

    Examples
    --------
    >>> sorted(bound_tightness([8], order="common", matrices=1, rng=0))
    ['G', 'P', 'R', 'T']
    """
    rng = generator(rng)
    kinds = "RTPG" if one_of("order", order, ("independent", "common")) == "common" else "RTP"
    found = {kind: np.zeros(len(sizes)) for kind in kinds}
    for at, n in enumerate(sizes):
        mask = masks.block_diagonal([integer("sizes", n, 4) // 4] * 4)
        for _ in range(integer("matrices", matrices, 1)):
            A = rng.standard_normal((n, n))
            count = 4 if n <= 64 else 0
            fit = pattern_distance(A, mask, order=order, n_restarts=count, random_state=0)
            for kind in kinds:
                found[kind][at] += fit.bounds[kind] / fit.mass_outside / matrices
    return found


def _scores(
    worlds: Worlds,
    methods: Mapping[str, Solver],
    score: Callable[[Any, Any], float],
    order: str,
    trials: int,
    rng: np.random.Generator | int | None,
) -> Floats:
    rng, out = generator(rng), np.zeros((len(worlds), len(methods)))
    for row, (mask, noise) in enumerate(worlds):
        for _ in range(integer("trials", trials, 1)):
            A, truth = planted_pattern(mask, signal="sign", noise=noise, order=order, random_state=rng)
            out[row] += [score(method(A, mask), truth) for method in methods.values()]
    return out / trials


def _spectral(name: str) -> Solver:
    def run(A: Floats, mask: Mask) -> Any:
        from sklearn import cluster

        model = getattr(cluster, name)(n_clusters=len(mask.params["row_sizes"]), random_state=0)
        return (fitted := model.fit(A**2)).row_labels_, fitted.column_labels_

    return run
