"""Warnings of the pattern module."""

from porism.errors import NumericalWarning

__all__ = ["UninformativeMaskWarning"]


class UninformativeMaskWarning(NumericalWarning):
    """Every order gives the same distance for this matrix and mask, so the number is no finding."""
