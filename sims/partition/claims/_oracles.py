"""Independent oracles for the claims: definitions, linear programs over transforms, random cases."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.claims import Evidence
from porism.theory.partition import (
    Certificate,
    OrderedPartition,
    Semivalue,
    TopK,
    UtilityTable,
    certify_partition,
)

__all__ = [
    "SEMIVALUES",
    "Case",
    "cases",
    "level_differences",
    "lp_minimum",
    "lp_with_free",
    "marginal_coefficients",
    "pair_coefficients",
    "share",
    "values_by_definition",
]

Floats = NDArray[np.float64]

SEMIVALUES = (
    Semivalue.shapley(),
    Semivalue.banzhaf(),
    Semivalue.beta(4, 1),
    Semivalue.beta(1, 4),
    Semivalue.weighted_banzhaf("1/3"),
)


@dataclass(frozen=True)
class Case:
    """A random game with a semivalue and a top-k set that is strict at the game itself."""

    table: UtilityTable
    sv: Semivalue
    k: int
    members: tuple[int, ...]
    values: list[Fraction]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All (member, outsider)."""
        n = self.table.n_players
        return [(i, j) for i in self.members for j in range(n) if j not in self.members]

    @property
    def blocks(self) -> OrderedPartition:
        """The members above the outsiders."""
        return OrderedPartition([self.members, set(range(self.table.n_players)) - set(self.members)])

    def certify(self, **options: Any) -> Certificate:
        """Certificate of the top k, without radii unless asked for."""
        return certify_partition(self.table, self.sv, TopK(self.k), **{"radii": (), **options})


def share(
    hits: int,
    trials: int,
    origin: str,
    quantity: str = "share of verdicts that agree",
    numbers: dict[str, float | int | str] | None = None,
) -> Evidence:
    """Evidence of a check that must come out right in every trial."""
    holds = trials > 0 and hits == trials
    return Evidence(holds, hits / max(trials, 1), 1.0, 0.0, origin, trials, numbers or {}, quantity)


def cases(
    rng: np.random.Generator, count: int, sizes: tuple[int, ...] = (3, 4, 5), levels: int = 7
) -> Iterator[Case]:
    """Random integer games with few levels (many ties between coalitions), half of them near modular."""
    done = 0
    while done < count:
        n = int(rng.choice(sizes))
        scores = rng.integers(0, levels, 1 << n).astype(float)
        if rng.random() < 0.5:
            member = np.arange(1 << n)[:, None] >> np.arange(n) & 1
            scores += 2.0 * (member @ rng.integers(0, 4, n))
        sv = SEMIVALUES[int(rng.integers(len(SEMIVALUES)))]
        values = values_by_definition(scores, sv)
        ranking = sorted(range(n), key=lambda i: (-values[i], i))
        k = int(rng.integers(1, n))
        if scores.min() == scores.max() or values[ranking[k - 1]] == values[ranking[k]]:
            continue
        done += 1
        yield Case(UtilityTable.from_array(scores), sv, k, tuple(sorted(ranking[:k])), values)


def marginal_coefficients(sv: Semivalue, n: int, player: int) -> list[Fraction]:
    """Coefficient of v(S) in the player's value for every mask, from the definition."""
    p = sv.exact_weights(n)
    return [p[m.bit_count() - 1] if m >> player & 1 else -p[m.bit_count()] for m in range(1 << n)]


def pair_coefficients(sv: Semivalue, n: int, i: int, j: int) -> list[Fraction]:
    """Coefficient of v(S) in the difference of two players' values for every mask."""
    a, b = (marginal_coefficients(sv, n, player) for player in (i, j))
    return [x - y for x, y in zip(a, b, strict=True)]


def values_by_definition(scores: Floats, sv: Semivalue) -> list[Fraction]:
    """Semivalues as the sum of weighted marginal contributions, in rationals."""
    n = scores.size.bit_length() - 1
    exact = [Fraction(float(x)) for x in scores]
    return [
        sum((c * x for c, x in zip(marginal_coefficients(sv, n, i), exact, strict=True)), Fraction(0))
        for i in range(n)
    ]


def level_differences(scores: Floats, sv: Semivalue, i: int, j: int) -> list[Fraction]:
    """D_l(i, j) for l = 1..L: difference of values in each level game, by definition."""
    n = scores.size.bit_length() - 1
    c = pair_coefficients(sv, n, i, j)
    return [
        sum((c[m] for m in range(1 << n) if scores[m] >= level), Fraction(0))
        for level in np.unique(scores)[1:]
    ]


def lp_minimum(
    scores: Floats, coefficients: list[Fraction], shape: str = "increasing", ratio: float | None = None
) -> float:
    """Least ``sum_S c(S) phi(v(S))`` over transforms with phi(s_0) = 0 and phi(s_L) = 1."""
    from scipy.optimize import linprog

    sigma, where = np.unique(scores, return_inverse=True)
    size = sigma.size
    objective = np.zeros(size + 1)
    np.add.at(objective, where, [float(c) for c in coefficients])
    slope = np.zeros((size - 1, size + 1))
    for r, gap in enumerate(np.diff(sigma)):
        slope[r, r], slope[r, r + 1] = -1 / gap, 1 / gap
    rows = [-slope]
    if shape != "increasing":
        bend = slope[1:] - slope[:-1]
        rows.append(bend if shape == "concave" else -bend)
    if ratio is not None:  # the last variable is the least slope
        unit = np.zeros_like(slope)
        unit[:, -1] = 1
        rows += [unit - slope, slope - ratio * unit]
    matrix = np.concatenate(rows)
    bounds = [(0, 0), *[(None, None)] * (size - 2), (1, 1), (0, None)]
    found = linprog(objective, matrix, np.zeros(len(matrix)), bounds=bounds, method="highs")
    return float(found.fun)


def lp_with_free(
    scores: Floats,
    coefficients: list[Fraction],
    free: NDArray[np.bool_],
    *,
    ratio: float | None = None,
    monotone: bool = False,
) -> float:
    """The same with free utilities between phi(s_0) and phi(s_L), monotone in inclusion if asked."""
    from scipy.optimize import linprog

    sigma, where = np.unique(scores[~free], return_inverse=True)
    size, count = sigma.size, int(free.sum())
    column = np.empty(scores.size, int)
    column[~free], column[free] = where, size + np.arange(count)
    width = size + count + 1
    objective = np.zeros(width)
    np.add.at(objective, column, [float(c) for c in coefficients])
    gaps = np.diff(sigma)
    rows: list[NDArray[np.float64]] = []

    def row(**entries: float) -> NDArray[np.float64]:
        out = np.zeros(width)
        for name, value in entries.items():
            out[int(name[1:])] += value
        return out

    for r, gap in enumerate(gaps):
        rows.append(row(**{f"_{r}": 1.0, f"_{r + 1}": -1.0}))
        if ratio is not None:
            rows.append(row(**{f"_{r}": 1 / gap, f"_{r + 1}": -1 / gap, f"_{width - 1}": 1.0}))
            rows.append(row(**{f"_{r}": -1 / gap, f"_{r + 1}": 1 / gap, f"_{width - 1}": -ratio}))
    for mask in np.flatnonzero(free):
        rows.append(row(**{"_0": 1.0, f"_{column[mask]}": -1.0}))
        rows.append(row(**{f"_{column[mask]}": 1.0, f"_{size - 1}": -1.0}))
        for other in range(scores.size) if monotone else ():
            if other != mask and other & mask == mask:
                rows.append(row(**{f"_{column[mask]}": 1.0, f"_{column[other]}": -1.0}))
    bounds = [(0, 0), *[(None, None)] * (size - 2), (1, 1), *[(None, None)] * count, (0, None)]
    found = linprog(objective, np.array(rows), np.zeros(len(rows)), bounds=bounds, method="highs")
    return float(found.fun)
