"""Robust fractions and slope radii over many games, as numbers that figures and claims share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer
from porism.sims.partition.games import block_game
from porism.sims.partition.tables import flipped_world, knn_table
from porism.theory.partition import (
    BoundaryTieError,
    Semivalue,
    SmallCoalitions,
    TopK,
    UtilityTable,
    certify_partition,
    robust_ks,
)

__all__ = [
    "RealRadii",
    "cutoff_radii",
    "real_radii",
    "robust_fractions",
    "robust_k_fractions",
]

Floats = NDArray[np.float64]


def robust_fractions(
    noises: ArrayLike,
    kinds: Mapping[str, Semivalue],
    n: int = 10,
    k: int = 5,
    seeds: int = 100,
    rng: np.random.Generator | int | None = None,
) -> Floats:
    """Share of noisy block games whose top k is robust to every increasing transform.

    Parameters
    ----------
    noises : array, shape (a,)
        Widths of the noise in units of one good player, >= 0.
    kinds : mapping of str to Semivalue, of length b
        Semivalues that rank the players.
    n, k : int
        Number of players, and of good ones among them; 1 <= k <= n-1.
    seeds : int
        Number of games a noise, >= 1.
    rng : Generator, int or None
        Source of the games. All noises see the same uniform draws, so that columns are comparable.

    Returns
    -------
    float64 array, shape (a, b)
        Fractions in [0, 1]; a tied boundary counts as not robust.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Notes
    -----
    a b seeds sweeps of O(n 2^n); about 1 ms each at n=10. The standard error is at most 0.5 / sqrt(seeds).

    Examples
    --------
    >>> robust_fractions([0.5], {"Shapley": Semivalue.shapley()}, n=6, k=3, seeds=5, rng=0).tolist()
    [[1.0]]
    """
    widths = finite_array("noises", noises, ndim=1)
    k = integer("k", k, 1, n - 1)
    streams = generator(rng).integers(1 << 63, size=integer("seeds", seeds, 1))
    found = np.zeros((len(widths), len(kinds)))
    for a, noise in enumerate(widths):
        for stream in streams:
            table = block_game(n, k, float(noise), int(stream))
            found[a] += [robust_ks(table, sv)[k - 1] for sv in kinds.values()]
    return found / len(streams)


@dataclass(frozen=True, eq=False)
class RealRadii:
    """Certificates of one selection on many draws from real data.

    Parameters
    ----------
    names : tuple of str, length b
        Semivalues.
    radius : float64 array, shape (seeds, b)
        Slope radius of the selection, 1 to inf; inf: robust; nan: the boundary was tied.
    recall : float64 array, shape (seeds, b)
        Share of the flipped players that are not selected, in [0, 1]; nan at a tie.

    Examples
    --------
    >>> RealRadii(("Shapley",), np.array([[2.0], [np.nan], [np.inf], [3.0]]), np.ones((4, 1))).ties.tolist()
    [1]
    """

    names: tuple[str, ...]
    radius: Floats
    recall: Floats

    @property
    def ties(self) -> NDArray[np.int64]:
        """Number of draws with a tied boundary, shape (b,)."""
        return np.isnan(self.radius).sum(axis=0)

    @property
    def robust(self) -> NDArray[np.int64]:
        """Number of draws with a robust selection, shape (b,)."""
        return np.isposinf(self.radius).sum(axis=0)

    @property
    def median(self) -> Floats:
        """Median radius over the draws without a tie, shape (b,); nan where all are tied."""
        columns = [column[~np.isnan(column)] for column in self.radius.T]
        return np.array([np.median(column) if column.size else np.nan for column in columns])


def real_radii(
    dataset: str,
    metric: str,
    kinds: Mapping[str, Semivalue],
    n: int = 12,
    flips: int = 3,
    n_validation: int = 60,
    k: int = 9,
    neighbours: int = 3,
    seeds: int = 20,
    rng: np.random.Generator | int | None = None,
) -> RealRadii:
    """Slope radius of a data selection on real data with flipped labels.

    The players are n training points, the utility is a nearest-neighbour classifier on validation points, the
    decision keeps the k best players and flags the others.

    Parameters
    ----------
    dataset : {"breast_cancer", "digits01", "wine"}
        Data to draw from.
    metric : {"accuracy", "soft"}
        Score of the classifier, see `knn_table`.
    kinds : mapping of str to Semivalue, of length b
        Semivalues that rank the players.
    n, flips, n_validation, k, neighbours : int
        Players, wrong labels among them, validation points, players kept, neighbours that vote.
    seeds : int
        Number of draws, >= 1.
    rng : Generator, int or None
        Source of the draws.

    Returns
    -------
    RealRadii
        One row a draw.

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed (extra ``data``).
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Scores are multiplied by ``n_validation * lcm(1..neighbours)``, which makes them integers: ties are then
    exact instead of broken by rounding, and the radius does not change (PR-8). About 10 ms a draw at n=12.

    Examples
    --------
    >>> real_radii("wine", "soft", {"Shapley": Semivalue.shapley()}, seeds=3, rng=0).median  # doctest: +SKIP
    """
    streams = generator(rng).integers(1 << 63, size=integer("seeds", seeds, 1))
    radius, recall = np.full((2, len(streams), len(kinds)), np.nan)
    unit = n_validation * math.lcm(*range(1, neighbours + 1))
    for row, stream in enumerate(streams):
        world = flipped_world(dataset, n, flips, n_validation, int(stream))
        table = knn_table(world.X, world.y, world.X_val, world.y_val, neighbours, metric)
        scores = np.array(table.scores)
        scores[1:] = np.rint(scores[1:] * unit)
        scores[0] = 0.0  # moves no comparison between players (PR-1), and need not be a multiple
        whole = UtilityTable.from_array(scores)
        for column, sv in enumerate(kinds.values()):
            try:
                found = certify_partition(whole, sv, TopK(k), radii=("slope",))
            except BoundaryTieError:
                continue
            radius[row, column] = found.slope_radius
            recall[row, column] = 1.0 - np.isin(world.flipped, found.members).mean() if flips else np.nan
    return RealRadii(tuple(kinds), radius, recall)


def cutoff_radii(
    tables: Sequence[UtilityTable], sv: Semivalue, k: int, cutoffs: Sequence[int] | None = None
) -> Floats:
    """Slope radius when coalitions below a size may score anything in the range of the scores.

    The radius of class F3: phi of slope ratio at most kappa, and every coalition of fewer than m players
    anywhere in the range (PR-12). Below 1 the selection fails even with phi fixed.

    Parameters
    ----------
    tables : sequence of UtilityTable, of length t
        Complete tables of n players each.
    sv : Semivalue
        Semivalue that ranks the players.
    k : int
        Number of players selected.
    cutoffs : sequence of int, of length c, optional
        The sizes m; default 1, ..., n (at m=1 only the empty coalition is free, which changes nothing).

    Returns
    -------
    float64 array, shape (t, c)
        Radii from 0 to inf, never increasing in m.

    Raises
    ------
    BoundaryTieError
        If the selection is tied in a table.
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> table = UtilityTable.from_array([0, 1, 1, 1, 4, 5, 5, 6, 4, 5, 5, 6, 9, 10, 10, 11])
    >>> cutoff_radii([table], Semivalue.banzhaf(), 2, [1, 2]).tolist()
    [[inf, 1.5]]
    """
    sizes = range(1, tables[0].n_players + 1) if cutoffs is None else cutoffs
    found = [
        [
            certify_partition(table, sv, TopK(k), small=SmallCoalitions(m), radii=("slope",)).slope_radius
            for m in sizes
        ]
        for table in tables
    ]
    return np.array(found, dtype=np.float64)


def robust_k_fractions(tables: Sequence[UtilityTable], kinds: Mapping[str, Semivalue]) -> Floats:
    """Share of tables whose top k is robust, for every k.

    Parameters
    ----------
    tables : sequence of UtilityTable
        Complete tables of n players each.
    kinds : mapping of str to Semivalue, of length b
        Semivalues that rank the players.

    Returns
    -------
    float64 array, shape (b, n-1)
        Fractions in [0, 1], column k-1 for the top k; a tied boundary counts as not robust.

    Raises
    ------
    MissingCoalitionsError, DegenerateUtilityError
        If a table is incomplete or constant.

    Examples
    --------
    >>> table = UtilityTable.from_array([0, 8, 4, 12, 1, 9, 5, 14])
    >>> robust_k_fractions([table], {"Shapley": Semivalue.shapley()}).tolist()
    [[1.0, 1.0]]
    """
    return np.array([np.mean([robust_ks(table, sv) for table in tables], axis=0) for sv in kinds.values()])
