"""Half-widths of confidence bands on level differences that hold at all levels and players at once."""

import math

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer, positive, probability

__all__ = ["pair_radius", "permutation_radius", "player_radius", "sequential_delta"]

Floats = NDArray[np.float64]


def pair_radius(n: int, delta: float, with_i: int, with_j: int) -> float:
    """Half-width of the band on ``D_l(i, j)``, uniform over levels and ordered pairs.

    ``sqrt(ln(2n(n-1)/delta) / 2M_ij) + sqrt(ln(2n(n-1)/delta) / 2M_ji)`` with M_ij the rows that hold i
    and not j (Dvoretzky-Kiefer-Wolfowitz-Massart and a union bound, PR-18).

    Parameters
    ----------
    n : int
        Number of players.
    delta : float in (0, 1)
        Error probability.
    with_i, with_j : int
        Rows with i only, and with j only; no rows give an infinite radius.

    Returns
    -------
    float
        Radius in units of probability.

    Examples
    --------
    >>> round(pair_radius(12, 0.05, 1000, 1000), 4)
    0.1309
    """
    delta, n = probability("delta", delta, open=True), integer("n", n, 2)
    if not integer("with_i", with_i, 0) or not integer("with_j", with_j, 0):
        return math.inf
    log = math.log(2 * n * (n - 1) / delta) / 2
    return math.sqrt(log / with_i) + math.sqrt(log / with_j)


def player_radius(n: int, delta: float, m: int, omega: float) -> float:
    """Half-width of the band on ``A_i`` of one player, ``omega sqrt(ln(2n/delta) / 2m)`` (PR-18).

    Parameters
    ----------
    n, m : int
        Players and rows.
    delta : float in (0, 1)
        Error probability.
    omega : float
        ``2 H_{n-1}`` for Shapley sizes, ``1/(w(1-w))`` for the weighted Banzhaf value (4 at w = 1/2).

    Returns
    -------
    float
        Radius; a pair has twice as much.

    Examples
    --------
    >>> round(player_radius(12, 0.05, 20000, 4.0), 4)
    0.0497
    """
    delta, n, m = probability("delta", delta, open=True), integer("n", n, 1), integer("m", m, 1)
    return positive("omega", omega) * math.sqrt(math.log(2 * n / delta) / (2 * m))


def permutation_radius(n: int, delta: float, m: int) -> float:
    """Half-width of the band on one player's level value from m permutations, ``2 sqrt(ln(4n/delta) / 2m)``.

    Parameters
    ----------
    n, m : int
        Players and permutations.
    delta : float in (0, 1)
        Error probability.

    Returns
    -------
    float
        Radius; a pair has twice as much.

    Examples
    --------
    >>> round(permutation_radius(12, 0.05, 1000), 4)
    0.1172
    """
    delta, n, m = probability("delta", delta, open=True), integer("n", n, 1), integer("m", m, 1)
    return 2 * math.sqrt(math.log(4 * n / delta) / (2 * m))


def sequential_delta(look: int, delta: float) -> float:
    """Error probability to spend at look r = 0, 1, 2, ... of a doubling schedule.

    ``delta_r = 6 delta / (pi^2 (r+1)^2)`` (PR-18).

    Parameters
    ----------
    look : int
        Number of the look, at m_0 2^look rows.
    delta : float in (0, 1)
        Error probability of all looks together.

    Returns
    -------
    float
        Share of this look; the shares sum to delta.

    Examples
    --------
    >>> round(sum(sequential_delta(r, 0.05) for r in range(10000)), 4)
    0.05
    """
    return 6 * probability("delta", delta, open=True) / (math.pi**2 * (integer("look", look, 0) + 1) ** 2)
