"""All k in one sweep, and the range of values over all increasing transforms."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition._boxes import Boxes
from porism.theory.partition._certifier import Certifier
from porism.theory.partition._levels import Levels, make_program
from porism.theory.partition._partitions import Partition
from porism.theory.partition.classes import MonotoneClass
from porism.theory.partition.decisions import TopK
from porism.theory.partition.errors import DegenerateUtilityError
from porism.theory.partition.semivalue import Semivalue, semivalues
from porism.theory.partition.table import UtilityTable

__all__ = ["robust_ks", "value_intervals"]


def robust_ks(table: UtilityTable, sv: Semivalue) -> NDArray[np.bool_]:
    """Which top-k selections are robust to every increasing transform, for all k in one sweep.

    Parameters
    ----------
    table : UtilityTable
        Complete table.
    sv : Semivalue
        Semivalue that ranks the players.

    Returns
    -------
    bool array, shape (n-1,)
        Entry k-1 for the top k; False where the boundary is tied.

    Raises
    ------
    MissingCoalitionsError, DegenerateUtilityError
        If the table is incomplete or constant.

    Notes
    -----
    O(n) a level by prefix minima and suffix maxima of the integer counts.

    References
    ----------
    PR-11 (reconstruction).

    Examples
    --------
    >>> robust_ks(UtilityTable.from_array([0, 8, 4, 12, 1, 9, 5, 14]), Semivalue.shapley()).tolist()
    [True, True]
    """
    values = _complete_values(table, sv)
    n = table.n_players
    if n < 2:
        raise ValueError("table must have at least 2 players, got 1: there is no boundary to certify")
    ranking = sorted(range(n), key=lambda i: (-values[i], i))
    untied = np.array([values[a] > values[b] for a, b in pairwise(ranking)], dtype=bool)
    whole = sv.integer_pair_weights(n)
    if whole is not None:
        from porism.kernels.coalition import level_margins_all

        return untied & (level_margins_all(table.scores, whole[0], np.array(ranking)) >= 0)
    margins = [
        Certifier(table, sv, TopK(k), MonotoneClass(), None, "raise", "weak", "increasing")
        for k in range(1, n)
    ]
    return untied & np.array([one.levels(one.boxes).margin()[0] >= 0 for one in margins])


def value_intervals(table: UtilityTable, sv: Semivalue) -> NDArray[np.float64]:
    """Range of each player's value over all increasing transforms that keep the range of the scores.

    ``[R min_l psi_i^(l), R max_l psi_i^(l)]`` with ``R = s_L - s_0``, the closure of the attainable set.

    Parameters
    ----------
    table : UtilityTable
        Complete table.
    sv : Semivalue
        Semivalue.

    Returns
    -------
    float64 array, shape (n, 2)
        Lower and upper end of each player, in units of the score.

    Raises
    ------
    MissingCoalitionsError, DegenerateUtilityError
        If the table is incomplete or constant.

    References
    ----------
    PR-10 (reconstruction).

    Examples
    --------
    >>> t = UtilityTable.from_array([2, 3, 0, 4, 2, 5, 1, 6])
    >>> value_intervals(t, Semivalue.shapley()).tolist()
    [[1.0, 6.0], [-3.0, 2.0], [0.0, 3.0]]
    """
    _complete_values(table, sv)
    n = table.n_players
    rows = [(i, n) for i in range(n)] + [(n, i) for i in range(n)]
    part = Partition("sign", n, ((), ()), rows, [Fraction(0)] * (2 * n))
    boxes = Boxes(table.scores, table.scores, table.scores)
    levels = Levels(boxes, make_program(part, sv, 0, Fraction(1)), "increasing")
    span = Fraction(float(table.scores.max())) - Fraction(float(table.scores.min()))
    ends = [Fraction(levels.program.integer(x), levels.program.scale) * span for x in levels.sweep[0]]
    return np.array([[float(ends[i]), float(-ends[n + i]) + 0.0] for i in range(n)])


def _complete_values(table: UtilityTable, sv: Semivalue) -> list[Fraction]:
    values = semivalues(table, sv, exact=True)
    if table.scores.min() == table.scores.max():
        raise DegenerateUtilityError(
            "table holds a constant utility: every partition is a tie; check the scorer"
        )
    return values
