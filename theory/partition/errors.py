"""Errors of the partition module: what is wrong with a table, a decision or an estimator."""

from porism.errors import AssumptionError

__all__ = [
    "BoundaryTieError",
    "CertificateMismatch",
    "DegenerateUtilityError",
    "DuplicateCoalitionError",
    "MissingCoalitionsError",
    "NotMonotoneError",
    "ShiftVariantEstimatorError",
    "TooManyPlayersError",
]


class MissingCoalitionsError(ValueError):
    """An exact certificate was asked of a table that lacks coalitions."""


class DuplicateCoalitionError(ValueError):
    """One coalition came with two different scores."""


class TooManyPlayersError(ValueError):
    """The exact table of 2^n scores would not fit; the message says how many bytes it needs."""


class DegenerateUtilityError(AssumptionError):
    """All scores are equal, so that every partition is a tie."""


class BoundaryTieError(AssumptionError):
    """Two players on different sides of the decision have exactly the same value."""


class NotMonotoneError(AssumptionError):
    """Monotone bounds were asked of a table in which a subset scores more than its superset."""


class ShiftVariantEstimatorError(AssumptionError):
    """The estimator's ranking changes when a constant is added to all scores."""


class CertificateMismatch(RuntimeError):
    """A certificate does not follow from the table it is checked against."""
