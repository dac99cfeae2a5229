"""The desirability relation of cooperative games and coalitional dominance of a set."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from porism.checks import integer
from porism.kernels.coalition import dominance
from porism.theory.partition._coalitions import members_of
from porism.theory.partition._values import require_complete
from porism.theory.partition.table import UtilityTable

__all__ = ["desirability_matrix", "is_coalitionally_dominant"]

MATRIX_PLAYERS = 16
Counterexample = tuple[int, int, tuple[int, ...]]


def desirability_matrix(table: UtilityTable) -> NDArray[np.bool_]:
    """Which players are at least as desirable as which.

    ``i >= j`` if ``v(S + i) >= v(S + j)`` for every S without i and j; a preorder, in general partial.

    Parameters
    ----------
    table : UtilityTable
        Complete table of at most 16 players.

    Returns
    -------
    bool array, shape (n, n)
        Entry (i, j): i is at least as desirable as j. The diagonal is True.

    Raises
    ------
    ValueError
        If the table has more than 16 players.
    MissingCoalitionsError
        If a coalition has no score.

    Notes
    -----
    n(n-1) scans of 2^(n-2) comparisons that stop at the first contradiction.

    References
    ----------
    Maschler & Peleg (1966), A characterization, existence proof and dimension bounds for the kernel of a
    game (the desirability relation). PR-13 (reconstruction).

    Examples
    --------
    >>> desirability_matrix(UtilityTable.from_array([0, 1, 3, 4])).tolist()
    [[True, False], [True, True]]
    """
    require_complete(table)
    n = table.n_players
    if n > MATRIX_PLAYERS:
        raise ValueError(
            f"table must have at most {MATRIX_PLAYERS} players for the full relation, got {n}; "
            "use is_coalitionally_dominant for one set"
        )
    return np.array([[i == j or dominance(table.scores, i, j) < 0 for j in range(n)] for i in range(n)])


def is_coalitionally_dominant(
    table: UtilityTable, members: Iterable[int]
) -> tuple[bool, Counterexample | None]:
    """Whether every member is at least as desirable as every other player.

    Dominance implies robustness for every semivalue and every increasing transform, and that the set
    maximises v among sets of its size (PR-13); the converse of the first is false.

    Parameters
    ----------
    table : UtilityTable
        Complete table.
    members : iterable of int
        The set, not empty and not everyone.

    Returns
    -------
    (bool, (int, int, tuple of int) or None)
        The answer, and for "no" a member i, an outsider j and an S with ``v(S + i) < v(S + j)``.

    Raises
    ------
    ValueError, TypeError
        If members is not a proper nonempty set of players.
    MissingCoalitionsError
        If a coalition has no score.

    Notes
    -----
    The relation is transitive: with a least desirable member and a most desirable outsider, n-1 scans
    of 2^(n-2) comparisons decide; where they do not exist, all pairs are scanned.

    References
    ----------
    PR-13 (reconstruction); Maschler & Peleg (1966).

    Examples
    --------
    >>> is_coalitionally_dominant(UtilityTable.from_array([0, 2, 5, 6, 0, 5, 1, 7]), [0])
    (False, (0, 1, ()))
    """
    require_complete(table)
    n, scores = table.n_players, table.scores
    inside = sorted({integer("members", player, 0, n - 1) for player in members})
    outside = [player for player in range(n) if player not in inside]
    if not inside or not outside:
        raise ValueError(f"members must be a proper nonempty subset of the players 0..{n - 1}, got {inside}")
    least, most = inside[0], outside[0]
    for player in inside[1:]:
        if dominance(scores, least, player) < 0:
            least = player
    for player in outside[1:]:
        if dominance(scores, player, most) < 0:
            most = player
    extremes = all(dominance(scores, player, least) < 0 for player in inside if player != least) and all(
        dominance(scores, most, player) < 0 for player in outside if player != most
    )
    pairs = [(least, most)] if extremes else [(i, j) for i in inside for j in outside]
    for i, j in pairs:
        mask = dominance(scores, i, j)
        if mask >= 0:
            return False, (i, j, members_of(mask))
    return True, None
