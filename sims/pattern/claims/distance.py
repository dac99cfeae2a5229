"""Claims on the value itself: PD-1, PD-4, PD-5, PD-6, PD-7."""

import warnings

import numpy as np

from porism.claims import Evidence, claim
from porism.sims.pattern._oracles import (
    EXACT,
    KINDS,
    ROUNDING,
    any_matrix,
    any_order,
    enumerated,
    family,
    least,
    masses,
    modes,
    rectangles,
    small,
    solve,
)
from porism.theory.pattern import UninformativeMaskWarning, masks, pattern_distance

__all__ = ["averages", "constant_value", "decoupling", "invariances", "one_step_classes"]

SOURCE = "abstract; our reconstruction"


@claim(
    "PD-1",
    kind="theorem",
    source=SOURCE,
    statement="The mass outside lies in [0, 1] and does not change when the matrix is scaled, given other "
    "signs, or reordered in the mode of the distance; for a 0/1 mask it is 0 iff some order has all "
    "non-zero entries inside.",
    control="rows and columns reordered apart where the distance moves them together",
)
def invariances(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, vanish, total, zeros = 0.0, 0, 0, 0
    for _ in range(2 if scale == "smoke" else 20):
        for number, mask in enumerate(small(rng)):
            m, n = mask.shape
            A = any_matrix(mask, KINDS[number % 4], rng)
            sparse = A * (rng.random((m, n)) < 0.3)
            sparse[0, -1] = 1.0
            for order in modes(mask):
                value = solve(A, mask, order, rng).mass_outside
                other = A * rng.choice([-1.0, 1.0], (m, n)) * float(rng.choice([-1e-9, 3.0, 1e12]))
                other = any_order(other, "independent" if broken else order, rng)
                again = solve(other, mask, order, rng).mass_outside
                truth = least(A, mask, order)
                worst = max(worst, abs(again - value), abs(value - truth), -value, value - 1)
                if mask.binary:
                    outside = enumerated((sparse != 0).astype(float), 1 - mask.S, order)
                    fits = bool((outside == 0).any())
                    vanish += fits == (solve(sparse, mask, order, rng).mass_outside == 0)
                    zeros += fits
                    total += 1
    return Evidence(
        worst <= 8 * EXACT and vanish == total,
        worst,
        0.0,
        8 * EXACT,
        ROUNDING,
        total,
        {"zero iff it fits": f"{vanish} of {total}", "of these zero": zeros},
        quantity="largest change of d²",
    )


@claim(
    "PD-4",
    kind="theorem",
    source="reconstruction",
    statement="Free rows and columns: if all rows (or all columns) of the penalty are equal, sorting the "
    "column (row) masses is optimal, so that k sinks leave all but the k heaviest columns; if the mask is a "
    "permutation matrix, one assignment is. For sinks a common order does as well. The solver knows and says "
    "exact.",
    control="one row of the mask rolled by a column, so that its rows are no longer equal",
)
def one_step_classes(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    from scipy.optimize import linear_sum_assignment

    worst, exact, total = 0.0, 0, 0
    for number in range(24 if scale == "smoke" else 120):
        small = bool(number % 2)
        m, n = rng.integers(3, 6, 2) if small else rng.integers(8, 20, 2)
        A = rng.standard_normal((m, n))
        weights = rng.random(n) if number % 4 < 2 else (np.arange(n) < rng.integers(1, n)).astype(float)
        S = np.broadcast_to(weights, (m, n)).copy()
        if broken:
            S[0] = np.roll(S[0], 1)
        sums = np.sort(masses(A).sum(axis=0))
        # the heaviest column meets the smallest penalty
        formula = float(sums @ np.sort((1 - weights) ** 2)[::-1])
        cases = [(A, S, "independent", formula), (A.T, S.T, "independent", formula)]
        square = rng.standard_normal((n, n))
        picked = np.eye(n)[rng.permutation(n)]
        best = float(masses(square)[linear_sum_assignment(masses(square), maximize=True)].sum())
        cases.append((square, picked, "independent", 1 - best))
        k = int(rng.integers(1, n))
        heavy = float(np.sort(masses(square).sum(axis=0))[n - k :].sum())
        cases.append((square, masks.sink(int(n), int(n), k).S, "common", 1 - heavy))
        for matrix, mask, order, value in cases:
            fit = solve(matrix, masks.from_array(mask), order, rng)
            worst = max(worst, abs(fit.mass_outside - value))
            if small:
                worst = max(worst, abs(least(matrix, masks.from_array(mask), order) - value))
            exact += fit.exact
            total += 1
    return Evidence(
        worst <= 8 * EXACT and exact == total,
        worst,
        0.0,
        8 * EXACT,
        ROUNDING,
        total,
        {"share said to be exact": exact / total},
        quantity="largest error of the formula",
    )


@claim(
    "PD-5",
    kind="theorem",
    source="reconstruction",
    statement="Over all free orders the mass outside is mean(W) on average, hence at most that at best; over "
    "common orders it is mean(diag W) tr B + mean(off-diagonal W) times the rest of B.",
    control="mean(W) taken for common orders too",
)
def averages(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, above, total = 0.0, -1.0, 0
    sizes = (3, 4, 5) if scale == "smoke" else (1, 2, 3, 4, 5, 6)
    for n in sizes:
        library = [*family(n, rng), *rectangles(rng)] if n >= 4 else [masks.from_array(rng.random((n, n)))]
        for number, mask in enumerate(library):
            A = any_matrix(mask, KINDS[number % 4], rng)
            B, W = masses(A), mask.penalty
            for order in modes(mask):
                mean = float(W.mean())
                if order == "common" and not broken:
                    size, trace = len(W), float(np.trace(B))
                    apart = W[~np.eye(size, dtype=bool)]
                    mean = float(np.diag(W).mean()) * trace
                    mean += float(apart.mean()) * (1 - trace) if size > 1 else 0.0
                worst = max(worst, abs(float(enumerated(B, W, order).mean()) - mean))
                above = max(above, solve(A, mask, order, rng).mass_outside - mean)
                total += 1
    return Evidence(
        worst <= 8 * EXACT and above <= 8 * EXACT,
        worst,
        0.0,
        8 * EXACT,
        ROUNDING,
        total,
        {"largest excess of a solution over its mean": above},
        quantity="largest error of the mean",
    )


@claim(
    "PD-6",
    kind="theorem",
    source="reconstruction",
    statement="Free orders leave no more mass outside than a common order, and the gap can be the whole "
    "range: a permutation that moves every element has distance 0 from the diagonal with free orders and 1 "
    "with a common one.",
    control="a permutation that keeps an element in place",
)
def decoupling(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    excess, gap, total = -1.0, 1.0, 0
    for _ in range(2 if scale == "smoke" else 20):
        for number, mask in enumerate([*family(4, rng), *family(5, rng)]):
            A = any_matrix(mask, KINDS[number % 4], rng)
            free, tied = least(A, mask, "independent"), least(A, mask, "common")
            excess = max(excess, free - tied)
            excess = max(excess, abs(solve(A, mask, "independent", rng).mass_outside - free))
            total += 1
        for n in (2, 3, 5, 9, 30):
            moved = np.roll(np.arange(n), 1)
            if broken:  # the others still move, where there are others
                moved = np.append(np.roll(np.arange(n - 1), 1), n - 1)
            A = any_order(np.eye(n)[moved] * rng.standard_normal(n), "common", rng)
            found = [solve(A, masks.band(n, 0), order, rng) for order in ("independent", "common")]
            gap = min(gap, found[1].mass_outside - found[0].mass_outside)
            total += 1
    return Evidence(
        excess <= 8 * EXACT and gap >= 1 - 8 * EXACT,
        gap,
        1.0,
        8 * EXACT,
        ROUNDING,
        total,
        {"largest excess of free over common": excess},
        quantity="smallest gap of a permutation",
    )


@claim(
    "PD-7",
    kind="theorem",
    source="reconstruction",
    statement="If |A| is symmetric, W + W' constant off the diagonal and diag W constant, all common orders "
    "have the same value; for a triangle with its diagonal it is (1 - tr B / sum B) / 2. The solver warns.",
    control="a matrix that is not symmetric",
)
def constant_value(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    worst, warned, total = 0.0, 0, 0
    sizes = (4, 5, 6) if scale == "smoke" else (4, 5, 6, 7)
    for n in sizes:
        for number in range(8 if scale == "smoke" else 40):
            A = rng.standard_normal((n, n))
            if not broken:
                A = (A + A.T) * np.where(np.tri(n), 1, rng.choice([-1, 1], (n, n)))
            W = 1 - np.tri(n)
            if number % 4 == 1:  # a tournament
                above = np.triu(rng.random((n, n)) < 0.5, 1)
                W = (above + np.tril(~above.T, -1)).astype(float)
            elif number % 4 == 2:  # weights that add up, and a diagonal of its own
                above = np.triu(rng.random((n, n)) * 0.7, 1)
                W = above + np.tril(0.7 - above.T, -1) + 0.2 * np.eye(n)
            elif number % 4 == 3:
                W = 1 - np.eye(n)
            B = masses(A)
            trace, pair = float(np.trace(B)), float(W[0, 1] + W[1, 0])
            formula = W[0, 0] * trace + pair * (1 - trace) / 2
            values = enumerated(B, W, "common")
            worst = max(worst, float(np.abs(values - formula).max()))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fit = pattern_distance(A, masks.from_array(1 - np.sqrt(W)), order="common", random_state=0)
            worst = max(worst, abs(fit.mass_outside - formula))
            said = any(issubclass(w.category, UninformativeMaskWarning) for w in caught)
            warned += said and bool(fit.reason)
            total += 1
    return Evidence(
        worst <= 8 * EXACT and warned == total,
        worst,
        0.0,
        8 * EXACT,
        ROUNDING,
        total,
        {"share warned": warned / total},
        quantity="largest distance from the formula over all orders",
    )
