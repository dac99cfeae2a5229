"""Exact values of complete scores, and the check that a table is complete."""

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from porism.theory.partition._coalitions import coalition_name
from porism.theory.partition._exact import size_sums
from porism.theory.partition.errors import MissingCoalitionsError
from porism.theory.partition.table import UtilityTable

if TYPE_CHECKING:
    from porism.theory.partition.semivalue import Semivalue

__all__ = ["exact_semivalues", "missing_error", "require_complete"]


def exact_semivalues(scores: NDArray[np.float64], sv: "Semivalue", n: int) -> list[Fraction]:
    """Semivalues in exact rationals from complete dense scores."""
    with_player, everyone = size_sums(scores, n)
    p = sv.exact_weights(n)
    q = [p[0], *(p[s - 1] + p[s] for s in range(1, n)), p[n - 1]]
    constant = sum((p[s] * everyone[s] for s in range(n)), Fraction(0))
    return [
        sum((q[s] * with_player[i][s] for s in range(1, n + 1)), Fraction(0)) - constant for i in range(n)
    ]


def require_complete(table: UtilityTable) -> None:
    """Refuse what is no table, and a table without the scores of all coalitions."""
    if not isinstance(table, UtilityTable):
        raise TypeError(
            f"table must be a UtilityTable, got {type(table).__name__}; make one with UtilityTable.from_array"
        )
    if not table.is_complete:
        raise missing_error(np.flatnonzero(np.isnan(table.scores)), table.scores.size)


def missing_error(masks: NDArray[np.int64], total: int) -> MissingCoalitionsError:
    """The error that names coalitions without a score."""
    names = ", ".join(coalition_name(int(mask)) for mask in masks[:10])
    return MissingCoalitionsError(
        f"table lacks {masks.size} of {total} coalitions: {names}{', …' if masks.size > 10 else ''}; "
        "evaluate them, or use missing='range' or target='estimate'"
    )
