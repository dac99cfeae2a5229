"""Claims on patterns plus low rank: PD-14, PD-15, PD-16."""

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence, claim
from porism.sims.pattern._oracles import (
    EXACT,
    any_order,
    enumerated,
    family,
    least,
    masses,
    orders,
    rectangles,
)
from porism.sims.pattern.planted import planted_pattern
from porism.sims.pattern.worlds import load_matrix
from porism.theory.pattern import Mask, masks, pattern_distance, pattern_lower_bound
from porism.theory.pattern.low_rank import PatternLowRankFit, pattern_plus_low_rank

__all__ = ["bounded_by_both", "budget", "rank_separation"]

Floats = NDArray[np.float64]


@claim(
    "PD-14",
    kind="theorem",
    source="abstract (a); reconstruction (b, c)",
    statement="With free orders a pattern plus rank r leaves (a) no more than the better of both alone and "
    "(b) at most (1 - |S| / (m n)) of what rank r alone leaves; (c) reordering the residual and completing "
    "the rest at rank r in turn never raises the error. More rank never hurts. Neither is the best answer "
    "unique, nor need there be one: the low-rank part may have to grow without limit.",
    control="one common order, and an empty diagonal",
)
def bounded_by_both(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    order, worst, rise, off, total = "common" if broken else "independent", -1.0, 0.0, 0.0, 0
    for _ in range(1 if scale == "smoke" else 2):
        library = [*family(4, rng), *(family(5, rng) if scale == "paper" else [])]
        library += [] if broken else rectangles(rng)
        for mask in library:
            if not mask.binary or mask.density == 1:
                continue
            A = rng.standard_normal(mask.shape)
            if broken:
                np.fill_diagonal(A, 0.0)
            r = int(rng.integers(1, 3))
            fit = pattern_plus_low_rank(A, mask, r, order=order, random_state=int(rng.integers(2**31)))
            alone = _tails(A)
            ceiling = (1 - mask.density) * alone[: r + 1]
            worst = max(worst, float((fit.path - ceiling).max()), fit.error - least(A, mask, order))
            worst = max(worst, float(np.diff(fit.path).max()))
            off = max(off, abs(_left(A, fit) - fit.error))
            rise = max(rise, float(np.diff(_alternation(A, mask, r, order)).max()))
            total += 1
    # two answers without error: rank one inside the mask, or none
    diagonal, corner = np.diag(rng.standard_normal(4)), np.outer(np.eye(4)[0], np.eye(4)[0])
    apart = ~np.eye(4, dtype=bool)
    twice = max(float(((diagonal - L)[apart] ** 2).sum()) for L in (corner, 0 * corner))
    # no rank-one matrix has the cells 1, 1, 0 beside a free one, but these come as close as one likes
    grow = [_beside_free(np.outer([t, 1.0], [1.0, 1 / t])) for t in (1e0, 1e1, 1e2, 1e3)]
    limit = float(np.abs(np.array(grow) * [2e0, 2e2, 2e4, 2e6] - 1).max())
    return Evidence(
        max(worst, rise, off, twice, limit) <= 1e-9,
        worst,
        "<= 0",
        1e-9,
        "singular values and least squares, relative to the mass of A",
        total,
        {
            "largest rise of the alternation": rise,
            "error told against error recomputed": off,
            "left by a growing sequence without limit": grow[-1],
        },
        quantity="largest excess over a bound",
    )


@claim(
    "PD-15",
    kind="theorem",
    source="abstract; our reconstruction",
    statement="Shuffled generic square blocks have full rank, so every smaller rank leaves an error, while "
    "the block pattern leaves none.",
    control="blocks of rank one",
)
def rank_separation(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    b, least_rank, left = 4 if scale == "smoke" else 16, np.inf, 0.0
    numbers: dict[str, float | int | str] = {}
    mask = masks.block_diagonal([b] * 4)
    n, trials = 4 * b, 4 if scale == "smoke" else 3
    for _ in range(trials):
        blocks = np.zeros((n, n))
        for k in range(4):
            cut = slice(k * b, (k + 1) * b)
            blocks[cut, cut] = (
                np.outer(*rng.standard_normal((2, b))) if broken else rng.standard_normal((b, b))
            )
        A = any_order(blocks, "independent", rng)
        left = max(left, pattern_distance(A, mask, random_state=0).mass_outside)
        least_rank = min(least_rank, int(np.linalg.matrix_rank(A)))
        free = np.flatnonzero(np.arange(n + 1) * (2 * n - np.arange(n + 1)) >= mask.S.sum())[0]
        numbers = {"rank with as many parameters": int(free), "which leaves": float(_tails(A)[free])}
    numbers["pattern leaves"] = left
    if scale == "paper" and not broken:
        A, _ = planted_pattern(mask, low_rank=2, random_state=rng)
        fit = pattern_plus_low_rank(A, mask, 2, random_state=0)
        numbers |= {"pattern plus rank 2, with rank 2 added": fit.error, "rank 2 alone": fit.svd_error}
    return Evidence(
        least_rank == n and left <= 8 * EXACT,
        float(least_rank),
        float(n),
        8 * EXACT,
        "numerical rank at numpy's default threshold; mass outside up to rounding",
        trials,
        numbers,
        quantity="smallest rank",
    )


@claim(
    "PD-16",
    kind="refuted",
    source="abstract; our reconstruction",
    statement="A pattern plus low rank approximates better than plain low rank. (True at equal rank; false "
    "at equal numbers of parameters, since the mask's free values count.)",
    control="the mask's free values left out of the budget, so that ranks are equal",
)
def budget(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    trials, losses, margins = 12 if scale == "smoke" else 120, 0, []
    for number in range(trials):
        n = 8 + 2 * (number % 4)
        half = n // 2
        mask = [masks.block_diagonal([half, half]), masks.band(n, 1), masks.lower_triangular(n)][number % 3]
        low = 1 + number % 2
        A = rng.standard_normal((n, low)) @ rng.standard_normal((low, n))
        # no search is involved: the pattern leaves at least the bound, whatever the order
        least_left = max(pattern_lower_bound(A, mask, kinds=["R", "T", "P"]).values())
        rank = 0 if broken else _rank_of(int(mask.S.sum()), n)
        rival = float(_tails(A)[rank])
        margins.append(least_left - rival)
        losses += least_left > rival + 1e-9
    numbers: dict[str, float | int | str] = {"smallest margin": min(margins)}
    agree = True
    for name, sizes, win in _real(scale):
        A, _ = load_matrix(name)
        fit = pattern_plus_low_rank(A, masks.block_diagonal(sizes), 1, order="common", random_state=0)
        numbers |= {f"{name}: pattern": fit.error, f"{name}: equal parameters": fit.matched_svd_error}
        agree &= fit.beats_equal_rank and fit.beats_equal_parameters == win
    return Evidence(
        losses == trials and agree,
        losses / trials,
        1.0,
        1e-9,
        "lower bound of the pattern against singular values, rounding",
        trials,
        numbers,
        quantity="share of matrices on which the pattern loses",
    )


def _real(scale: str) -> list[tuple[str, list[int], bool]]:
    """Correlations, three blocks, and whether the pattern wins at equal parameters."""
    if scale == "smoke":
        return []
    return [("wine", [5, 4, 4], True), ("breast_cancer", [10, 10, 10], False)]


def _tails(A: Floats) -> Floats:
    """Share of the mass beyond each rank 0..min(m, n)."""
    squares = np.linalg.svd(A, compute_uv=False) ** 2
    return np.append(np.cumsum(squares[::-1])[::-1], 0.0) / squares.sum()


def _rank_of(parameters: int, n: int) -> int:
    """Least rank of an n x n matrix with so many parameters."""
    return next(rank for rank in range(n + 1) if rank * (2 * n - rank) >= parameters)


def _left(A: Floats, fit: PatternLowRankFit) -> float:
    """What a fit leaves, from its parts: values on the mask, and factors of the rank."""
    S, r = fit.mask.S == 1, fit.left.shape[1]
    if fit.values.size != S.sum() or fit.right.shape[0] != r:
        return float("inf")
    pattern = np.zeros(S.shape)
    pattern[S] = fit.values
    back = np.ix_(np.argsort(fit.row_order), np.argsort(fit.col_order))
    rest = A - pattern[back] - fit.left @ fit.right
    return float((rest**2).sum() / (A**2).sum())


def _beside_free(L: Floats) -> float:
    """Error of L on [[*, 1], [1, 0]], where the corner is free."""
    return float(((np.array([[0.0, 1.0], [1.0, 0.0]]) - L).ravel()[1:] ** 2).sum()) / 2


def _alternation(A: Floats, mask: Mask, r: int, order: str) -> list[float]:
    """Errors of the two steps in turn, the order by trying all and the rank by singular values."""
    m, n = mask.shape
    A = A / np.linalg.norm(A)
    L, errors = np.zeros((m, n)), []
    for _ in range(5):
        rest = A - L
        if float((rest**2).sum()) <= 1e-24:
            break
        values = enumerated(masses(rest), 1 - mask.S, order)
        if order == "common":
            p = q = orders(m)[int(values.argmin())]
        else:
            i, j = np.unravel_index(int(values.argmin()), values.shape)
            p, q = orders(m)[i], orders(n)[j]
        outside = np.empty((m, n), dtype=bool)
        outside[np.ix_(p, q)] = mask.S == 0
        errors.append(float((rest[outside] ** 2).sum()))
        u, s, vt = np.linalg.svd(np.where(outside, A, L))
        L = (u[:, :r] * s[:r]) @ vt[:r]
        errors.append(float(((A - L)[outside] ** 2).sum()))
    return [*errors, errors[-1]]
