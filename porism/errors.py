"""Errors and warnings of the toolkit; everything else is a plain ValueError or TypeError."""

__all__ = ["AssumptionError", "MissingExtraError", "NumericalWarning", "UndecidedError"]


class MissingExtraError(ImportError):
    """A function needs a package of an extra that is not installed; the message names the extra."""


class AssumptionError(ValueError):
    """The input violates a hypothesis of the theorem behind a function, so the answer would mean nothing."""


class UndecidedError(RuntimeError):
    """A caller asked for yes or no where the evidence at hand supports neither."""


class NumericalWarning(UserWarning):
    """A number may be off by more than rounding: a gap close to zero, no convergence, a deficient rank."""
