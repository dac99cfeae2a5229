"""Sampled tables: coalitions drawn from the designs whose error bands are known, up to 10^4 players."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, one_of, probability
from porism.theory.partition import UtilityTable, masks_of

__all__ = [
    "SAMPLED_DESIGNS",
    "draw_coalitions",
    "modular_utility",
    "sample_table",
    "shapley_size_law",
    "threshold_utility",
]

SAMPLED_DESIGNS = ("msr", "permutation", "shapley-size", "uniform")
CELLS = 1 << 22  # players times coalitions held unpacked at a time: 4 MB as bool, 32 MB as float64

Utility = Callable[[NDArray[np.bool_]], ArrayLike]


def sample_table(
    utility: Utility | UtilityTable,
    m: int,
    *,
    design: str = "uniform",
    n: int | None = None,
    w: float | None = None,
    score_range: tuple[float, float] | None = None,
    rng: np.random.Generator | int | None = None,
) -> UtilityTable:
    """Draw coalitions from a design and score them.

    Parameters
    ----------
    utility : callable or UtilityTable
        ``utility(members)`` maps a bool matrix (c, n) of c coalitions to c finite scores and treats each row
        alone. Or a complete table, whose scores are looked up.
    m : int
        Number of independent units, >= 1: rows, or permutations of n+1 rows each.
    design : {"uniform", "msr", "shapley-size", "permutation"}
        Law of the coalitions, see `draw_coalitions`.
    n : int, optional
        Number of players; needed where `utility` is a callable.
    w : float, optional
        Inclusion probability of design "msr".
    score_range : (float, float), optional
        Interval that holds every possible score, for population verdicts; not the range observed.
    rng : Generator, int or None
        Source of the coalitions.

    Returns
    -------
    UtilityTable
        Rows with design and unit under ``sampled``.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range or the utility gives no vector of finite scores.

    Notes
    -----
    Memory: m n/8 bytes for the packed rows plus about 40 MB; the members are unpacked a few million cells at
    a time, so the callable sees chunks of several rows and its result must not depend on how rows are
    chunked.

    Examples
    --------
    >>> table = sample_table(modular_utility([3, 2, 1]), 5, design="shapley-size", n=3, rng=0)
    >>> table.sampled.design, table.sampled.n_rows
    ('shapley-size', 5)
    """
    if isinstance(utility, UtilityTable):
        if not utility.is_complete:
            raise ValueError(
                f"utility must be a complete table or a callable, got {utility!r}; evaluate all coalitions"
            )
        if n is not None and n != utility.n_players:
            raise ValueError(f"n must be {utility.n_players} as in the table, got {n}; leave it out")
        n = utility.n_players
    elif not callable(utility):
        raise TypeError(f"utility must be a callable or a UtilityTable, got {type(utility).__name__}")
    elif n is None:
        raise ValueError("n must be given where utility is a callable, got None; it is the number of players")
    packed, unit = draw_coalitions(n, m, design=design, w=w, rng=rng)
    scores = np.empty(len(packed))
    step = max(1, CELLS // n)
    for start in range(0, len(packed), step):
        rows = packed[start : start + step]
        if isinstance(utility, UtilityTable):
            scores[start : start + step] = utility.scores[masks_of(rows).astype(np.int64)]
            continue
        members = np.unpackbits(rows, axis=1, count=n, bitorder="little").astype(bool)
        values = finite_array("utility(members)", utility(members))
        if values.shape != (len(rows),):
            raise ValueError(
                f"utility must return one score a row, shape ({len(rows)},), got {values.shape}; vectorise it"
            )
        scores[start : start + step] = values
    return UtilityTable.from_samples(
        packed, scores, n=n, design=design, unit=unit, score_range=score_range, inclusion=w
    )


def draw_coalitions(
    n: int,
    m: int,
    *,
    design: str = "uniform",
    w: float | None = None,
    rng: np.random.Generator | int | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Draw coalitions without scoring them.

    - ``uniform``: every coalition with probability 2^-n; pairs follow the Banzhaf value.
    - ``msr``: every player is in with probability w; pairs follow the weighted Banzhaf value of the same w.
    - ``shapley-size``: size s with probability proportional to ``1 / (s (n - s))``, 1 <= s <= n-1, then a
      uniform set of that size; pairs follow the Shapley value.
    - ``permutation``: the n+1 prefixes, from empty to full, of a uniform permutation.

    Parameters
    ----------
    n : int
        Number of players, >= 1; >= 2 for "shapley-size".
    m : int
        Number of independent units, >= 1: rows, or permutations.
    design : {"uniform", "msr", "shapley-size", "permutation"}
        The law.
    w : float, optional
        Inclusion probability in (0, 1), for "msr" and only there.
    rng : Generator, int or None
        Source of the coalitions.

    Returns
    -------
    members : uint8 array, shape (rows, ceil(n/8))
        Packed rows, player i is bit ``i % 8`` of byte ``i // 8``.
    unit : int32 array, shape (rows,)
        Number of the row, or of the permutation it is a prefix of.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or w is missing or misplaced.

    Notes
    -----
    Given that i is in and j is not, the rest of the coalition has the law mu of the pair identity, which is
    what the error bands of PR-18 rest on. Prefixes of one permutation depend on each other: the unit is the
    permutation.

    References
    ----------
    Wang & Jia (2023), "Data Banzhaf", maximum sample reuse. Kolpaczki et al. (2024), "Approximating the
    Shapley value without marginal contributions", size-stratified sampling.

    Examples
    --------
    >>> members, unit = draw_coalitions(3, 2, design="permutation", rng=0)
    >>> unit.tolist(), np.bitwise_count(members[:, 0]).tolist()
    ([0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2, 3])
    """
    n = integer("n", n, 2 if one_of("design", design, SAMPLED_DESIGNS) == "shapley-size" else 1)
    m, rng = integer("m", m, 1), generator(rng)
    if (w is None) == (design == "msr"):
        raise ValueError(f"w must be given for design='msr' and only there, got w={w} and design={design!r}")
    if design == "permutation":
        return _prefixes(n, m, rng), np.repeat(np.arange(m, dtype=np.int32), n + 1)
    inside = probability("w", w, open=True) if design == "msr" else 0.5
    sizes = rng.choice(np.arange(1, n), size=m, p=shapley_size_law(n)) if design == "shapley-size" else None
    packed = np.empty((m, (n + 7) // 8), dtype=np.uint8)
    step = max(1, CELLS // n)
    for start in range(0, m, step):
        rows = min(step, m - start)
        if design == "uniform":
            packed[start : start + rows] = _random_bits(n, rows, rng)
            continue
        if sizes is None:
            members = rng.random((rows, n)) < inside
        else:
            members = _random_sets(n, sizes[start : start + rows], rng)
        packed[start : start + rows] = np.packbits(members, axis=1, bitorder="little")
    return packed, np.arange(m, dtype=np.int32)


def shapley_size_law(n: int) -> NDArray[np.float64]:
    """Law of the coalition size under design "shapley-size".

    ``r_s = n / (2 H_{n-1} s (n - s))`` for s = 1..n-1, H the harmonic number.

    Parameters
    ----------
    n : int
        Number of players, >= 2.

    Returns
    -------
    float64 array, shape (n-1,)
        Probability of the sizes 1 to n-1; sums to 1.

    Raises
    ------
    TypeError, ValueError
        If n is no int >= 2.

    Notes
    -----
    With the Shapley pair weights q_s, ``q_s C(n, s) / r_s = 2 H_{n-1}`` for every s: each row has the same
    weight.

    Examples
    --------
    >>> shapley_size_law(4).round(4).tolist()
    [0.3636, 0.2727, 0.3636]
    """
    size = np.arange(1, integer("n", n, 2), dtype=np.float64)
    law = 1.0 / (size * size[::-1])
    result: NDArray[np.float64] = law / law.sum()
    return result


def modular_utility(w: ArrayLike) -> Utility:
    """Additive utility for any number of players.

    ``u(S) = sum of w_i over i in S``, as a callable on member matrices.

    Parameters
    ----------
    w : array, shape (n,)
        Weight of each player, in score units, finite.

    Returns
    -------
    callable
        Maps a bool matrix (c, n) to c scores.

    Raises
    ------
    TypeError, ValueError
        If the weights are no finite vector.

    Notes
    -----
    Each row is summed alone, so that equal coalitions get equal bits whatever the chunk; a matrix product
    would not promise that, and would split levels. Uses 8 c n bytes.

    Examples
    --------
    >>> modular_utility([3, 2, 1])(np.array([[True, False, True]])).tolist()
    [4.0]
    """
    weights = finite_array("w", w, ndim=1)

    def utility(members: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.where(members, weights, 0.0).sum(axis=1)

    return utility


def threshold_utility(w: ArrayLike, quota: float) -> Utility:
    """Weighted majority game for any number of players.

    ``u(S) = 1`` if ``sum of w_i over i in S >= quota``, else 0, as a callable on member matrices.

    Parameters
    ----------
    w : array, shape (n,)
        Weight of each player, finite.
    quota : float
        Weight that wins, in the unit of w.

    Returns
    -------
    callable
        Maps a bool matrix (c, n) to c scores, each 0 or 1.

    Raises
    ------
    TypeError, ValueError
        If weights or quota are not finite numbers.

    Examples
    --------
    >>> threshold_utility([3, 2, 1], 4)(np.array([[True, False, True], [False, True, True]])).tolist()
    [1.0, 0.0]
    """
    total, bar = modular_utility(w), float(finite_array("quota", quota, ndim=0))
    return lambda members: (np.asarray(total(members)) >= bar).astype(np.float64)


def _random_bits(n: int, rows: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    words = rng.integers(0, 1 << 64, size=(rows, (n + 63) // 64), dtype=np.uint64)
    packed = words.astype("<u8").view(np.uint8)[:, : (n + 7) // 8].copy()
    if n % 8:
        packed[:, -1] &= (1 << n % 8) - 1
    return packed


def _random_sets(n: int, sizes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Uniform sets of given sizes: the players with the smallest random keys."""
    order = np.argsort(rng.random((len(sizes), n)), axis=1)
    members = np.empty((len(sizes), n), dtype=bool)
    np.put_along_axis(members, order, np.arange(n) < sizes[:, None], axis=1)
    return members


def _prefixes(n: int, m: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    packed = np.empty((m * (n + 1), (n + 7) // 8), dtype=np.uint8)
    for number in range(m):
        place = np.empty(n, dtype=np.int64)
        place[rng.permutation(n)] = np.arange(n)
        step = max(1, CELLS // n)
        for start in range(0, n + 1, step):
            sizes = np.arange(start, min(start + step, n + 1))
            row = number * (n + 1) + start
            packed[row : row + len(sizes)] = np.packbits(place < sizes[:, None], axis=1, bitorder="little")
    return packed
