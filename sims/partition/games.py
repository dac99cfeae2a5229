"""Games with a known truth: tables over all 2^n coalitions, player i at bit i of the mask."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import finite_array, generator, integer, positive
from porism.theory.partition import UtilityTable
from porism.theory.partition.table import MAX_PLAYERS

__all__ = [
    "block_game",
    "modular_game",
    "mtm_game",
    "noisy_symmetric_game",
    "random_game",
    "random_monotone_game",
    "saturating_game",
]


def block_game(n: int, k: int, noise: float, rng: np.random.Generator | int | None = None) -> UtilityTable:
    """Draw a game in which exactly k of n players are good, up to noise on every coalition.

    ``v(S) = |S & {0..k-1}| + noise * U_S`` with independent ``U_S`` uniform on [0, 1).

    Parameters
    ----------
    n : int
        Number of players, 1 to 24; the good ones are 0..k-1.
    k : int
        Number of good players, 0 to n.
    noise : float
        Width of the noise in units of one good player, >= 0.
    rng : Generator, int or None
        Source of the noise; one number a coalition, in mask order.

    Returns
    -------
    UtilityTable
        A complete table; not monotone in inclusion once noise > 0.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Notes
    -----
    For noise <= 1 the good players are coalitionally dominant for every draw, so that their selection is
    robust for every semivalue (PR-13). Beyond that it depends on the draw. O(2^n) time and memory.

    Examples
    --------
    >>> block_game(2, 1, 0.0).scores.tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    n = _players(n)
    good = np.arange(n) < integer("k", k, 0, n)
    return UtilityTable.from_array(_subset_sums(good.astype(np.float64)) + _noise(n, noise, rng))


def modular_game(w: ArrayLike) -> UtilityTable:
    """Build the additive game, in which every semivalue gives back the weights.

    ``v(S) = sum of w_i over i in S``, so that ``psi_i = w_i``.

    Parameters
    ----------
    w : array, shape (n,)
        Weight of each player, in score units, finite; n from 1 to 24.

    Returns
    -------
    UtilityTable
        A complete table.

    Raises
    ------
    TypeError, ValueError
        If the weights are no finite vector of 1 to 24 numbers.

    Notes
    -----
    Sums are taken in the order of the players. Weights that are not short binary fractions can give
    coalitions of equal weight scores that differ by rounding; certify such a table with ``decimals=``
    (PR-21).

    Examples
    --------
    >>> modular_game([4, 3, 2]).scores.tolist()
    [0.0, 4.0, 3.0, 7.0, 2.0, 6.0, 5.0, 9.0]
    """
    return UtilityTable.from_array(_subset_sums(_weights(w)))


def mtm_game(w: ArrayLike, phi: Callable[[NDArray[np.float64]], ArrayLike]) -> UtilityTable:
    """Build a monotonically transformed modular game, dominant for its heaviest players.

    ``v(S) = phi(sum of w_i over i in S)`` with phi nondecreasing.

    Parameters
    ----------
    w : array, shape (n,)
        Weight of each player, finite; n from 1 to 24.
    phi : callable
        Maps the 2^n sums, shape (2**n,), to as many finite scores, and never decreases.

    Returns
    -------
    UtilityTable
        A complete table.

    Raises
    ------
    ValueError
        If phi changes the shape, gives a score that is not finite, or decreases somewhere on the sums.
    TypeError
        If the weights or the scores are not real numbers.

    Notes
    -----
    ``w_i >= w_j`` implies ``v(S+i) >= v(S+j)`` for every S without both, so that any k heaviest players are
    coalitionally dominant and robust (PR-13c). Exact where phi keeps the order after rounding. O(2^n log
    2^n).

    References
    ----------
    Wang et al. (2024), "Rethinking data Shapley for data selection tasks", definition of MTM utilities.

    Examples
    --------
    >>> mtm_game([4, 3, 2, 1], np.square).scores[-1]
    np.float64(100.0)
    """
    sums = _subset_sums(_weights(w))
    scores = finite_array("phi(sums)", phi(sums.copy()))
    if scores.shape != sums.shape:
        raise ValueError(
            f"phi must return one score a sum, shape {sums.shape}, got {scores.shape}; vectorise it"
        )
    order = np.lexsort((scores, sums))
    equal = np.diff(sums[order]) == 0
    steps = np.diff(scores[order])
    bad = np.flatnonzero((steps < 0) | (equal & (steps != 0)))
    if bad.size:
        low, high = order[bad[0]], order[bad[0] + 1]
        raise ValueError(
            f"phi must be a nondecreasing function, got phi({sums[low]}) = {scores[low]} and "
            f"phi({sums[high]}) = {scores[high]}; for another shape use UtilityTable.from_array"
        )
    return UtilityTable.from_array(scores)


def saturating_game(w: ArrayLike, rate: float = 1.0) -> UtilityTable:
    """Build a learning curve with diminishing returns.

    ``v(S) = 1 - exp(-rate * sum of w_i over i in S)``, the chance that at least one of the members succeeds.

    Parameters
    ----------
    w : array, shape (n,)
        Weight of each player, finite and >= 0; n from 1 to 24.
    rate : float, default 1.0
        Speed of saturation per unit of weight, > 0.

    Returns
    -------
    UtilityTable
        A complete table with scores in [0, 1], monotone in inclusion and submodular.

    Raises
    ------
    TypeError, ValueError
        If a weight is negative or rate is not positive.

    Notes
    -----
    A monotone transform of a modular game, hence dominant for its heaviest players. With
    ``a_i = 1 - exp(-rate * w_i)`` the Banzhaf value is ``a_i * prod over j != i of (1 - a_j / 2)``. Where
    ``rate * sum`` exceeds about 36 scores round to 1 and levels merge.

    Examples
    --------
    >>> saturating_game([np.log(2), np.log(2)]).scores.round(12).tolist()
    [0.0, 0.5, 0.5, 0.75]
    """
    weights = _weights(w)
    if (weights < 0).any():
        player = int(np.argmax(weights < 0))
        raise ValueError(
            f"w must be >= 0, got {weights[player]} for player {player}; harmful players need modular_game"
        )
    rate = positive("rate", rate)
    return mtm_game(weights, lambda sums: -np.expm1(-rate * sums))


def random_game(
    n: int, levels: int | None = None, rng: np.random.Generator | int | None = None
) -> UtilityTable:
    """Draw a game without any structure: independent scores.

    ``v(S)`` uniform on {0, ..., levels-1}, or on [0, 1) for levels=None.

    Parameters
    ----------
    n : int
        Number of players, 1 to 24.
    levels : int, optional
        Number of possible scores, >= 2; a small number makes ties and boundary cases.
    rng : Generator, int or None
        Source of the scores, in mask order.

    Returns
    -------
    UtilityTable
        A complete table. The law is the same for every order of the players.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Examples
    --------
    >>> set(random_game(6, 2, rng=0).scores.tolist())
    {0.0, 1.0}
    """
    n, rng = _players(n), generator(rng)
    if levels is None:
        return UtilityTable.from_array(rng.random(1 << n))
    return UtilityTable.from_array(rng.integers(integer("levels", levels, 2), size=1 << n))


def random_monotone_game(
    n: int, levels: int | None = None, rng: np.random.Generator | int | None = None
) -> UtilityTable:
    """Draw a game that never falls when a player joins.

    ``u({}) = 0`` and ``u(S) = max over i in S of u(S - i) + U_S`` with independent ``U_S`` uniform on [0, 1);
    ``v = u``, or with `levels` the rank of u cut into that many groups of equal size, 0 to levels-1.

    Parameters
    ----------
    n : int
        Number of players, 1 to 24.
    levels : int, optional
        Number of distinct scores, 2 to 2**n.
    rng : Generator, int or None
        Source of the increments, in mask order.

    Returns
    -------
    UtilityTable
        A complete table, monotone in inclusion.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Notes
    -----
    The law is the same for every order of the players. O(n 2^n) time, about 25 * 2^n bytes.

    Examples
    --------
    >>> scores = random_monotone_game(3, rng=0).scores
    >>> bool((scores[7] >= scores).all() and scores[0] == 0)
    True
    """
    n, rng = _players(n), generator(rng)
    scores = rng.random(1 << n)
    scores[0] = 0.0
    sizes = _sizes(n)
    by_size = np.argsort(sizes, kind="stable")
    ends = np.searchsorted(sizes[by_size], np.arange(n + 2))
    for size in range(1, n + 1):  # all coalitions of one size at once: their subsets are done
        layer = by_size[ends[size] : ends[size + 1]]
        best = np.zeros(len(layer))
        for player in range(n):
            inside = (layer >> player & 1).astype(bool)
            best[inside] = np.maximum(best[inside], scores[layer[inside] ^ (1 << player)])
        scores[layer] += best
    if levels is not None:
        levels = integer("levels", levels, 2, 1 << n)
        rank = np.empty(1 << n, dtype=np.int64)
        rank[np.lexsort((sizes, scores))] = np.arange(1 << n)  # equal scores: the smaller coalition first
        return UtilityTable.from_array(rank * levels >> n)
    return UtilityTable.from_array(scores)


def noisy_symmetric_game(
    n: int,
    noise: float,
    rng: np.random.Generator | int | None = None,
    curve: ArrayLike | None = None,
) -> UtilityTable:
    """Draw the null world: all players alike, differences are noise.

    ``v(S) = curve[|S|] + noise * U_S`` with independent ``U_S`` uniform on [0, 1).

    Parameters
    ----------
    n : int
        Number of players, 1 to 24.
    noise : float
        Width of the noise in score units, >= 0.
    rng : Generator, int or None
        Source of the noise, in mask order.
    curve : array, shape (n+1,), optional
        Score of each coalition size, finite; default 0, 1, ..., n.

    Returns
    -------
    UtilityTable
        A complete table.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range or the curve has the wrong length.

    Notes
    -----
    The curve moves no difference between players (PR-2), so a selection from this world that is certified is
    robust by chance alone. With noise=0 every pair of players is a permanent tie.

    Examples
    --------
    >>> noisy_symmetric_game(2, 0.0, curve=[0, 5, 7]).scores.tolist()
    [0.0, 5.0, 5.0, 7.0]
    """
    n = _players(n)
    heights = np.arange(n + 1.0) if curve is None else finite_array("curve", curve, ndim=1)
    if heights.shape != (n + 1,):
        raise ValueError(f"curve must have n+1 = {n + 1} entries, one a size 0..n, got {heights.size}")
    return UtilityTable.from_array(heights[_sizes(n)] + _noise(n, noise, rng))


def _players(n: int) -> int:
    return integer("n", n, 1, MAX_PLAYERS)


def _weights(w: ArrayLike) -> NDArray[np.float64]:
    weights = finite_array("w", w, ndim=1)
    integer("len(w)", weights.size, 1, MAX_PLAYERS)
    return weights


def _noise(n: int, noise: float, rng: np.random.Generator | int | None) -> NDArray[np.float64]:
    width = float(finite_array("noise", noise, ndim=0))
    if width < 0:
        raise ValueError(f"noise must be >= 0, got {width}; it is the width of a uniform law")
    return width * generator(rng).random(1 << n)


def _subset_sums(w: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1 << w.size)
    for player, weight in enumerate(w):
        np.add(sums[: 1 << player], weight, out=sums[1 << player : 2 << player])
    return sums


def _sizes(n: int) -> NDArray[np.uint8]:
    return np.bitwise_count(np.arange(1 << n, dtype=np.uint32))
