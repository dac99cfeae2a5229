"""Admissible changes of a utility: which transforms of the score, and what small coalitions may do."""

import math
import numbers
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from porism.checks import integer, one_of

__all__ = ["MonotoneClass", "SmallCoalitions"]

SHAPES = ("increasing", "concave", "convex")
SMALL = ("range", "monotone", "size-only", "free")


@dataclass(frozen=True)
class MonotoneClass:
    """Strictly increasing transforms phi of the score, possibly of one shape or of bounded slopes.

    Parameters
    ----------
    shape : {"increasing", "concave", "convex"}
        Shape of phi on the levels.
    max_slope_ratio : float >= 1
        Largest ratio of two slopes of phi between adjacent levels; inf: no bound, 1: phi is affine.
    range_normalised : bool
        phi keeps the lowest and the highest level, which a threshold other than 0 needs.
    decimals : int in [-308, 308], optional
        Scores are rounded to so many decimals first; the certificate is about the rounded table.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range.

    References
    ----------
    PR-3, PR-7b, PR-8, PR-10, PR-21 (reconstruction).

    Examples
    --------
    >>> MonotoneClass(shape="concave", max_slope_ratio=10).max_slope_ratio
    10.0
    """

    shape: str = "increasing"
    max_slope_ratio: float = math.inf
    range_normalised: bool = False
    decimals: int | None = None

    def __post_init__(self) -> None:
        one_of("shape", self.shape, SHAPES)
        if isinstance(self.max_slope_ratio, bool) or not isinstance(self.max_slope_ratio, numbers.Real):
            raise TypeError(
                f"max_slope_ratio must be a number, got {self.max_slope_ratio!r}; inf means no bound"
            )
        ratio = float(self.max_slope_ratio)
        if not ratio >= 1:
            raise ValueError(
                f"max_slope_ratio must be at least 1, got {self.max_slope_ratio}; 1 keeps phi affine"
            )
        object.__setattr__(self, "max_slope_ratio", ratio)
        if not isinstance(self.range_normalised, bool | np.bool_):
            raise TypeError(f"range_normalised must be a bool, got {self.range_normalised!r}")
        object.__setattr__(self, "range_normalised", bool(self.range_normalised))
        if self.decimals is not None:  # 10^308 is the last power of ten in float64
            object.__setattr__(self, "decimals", integer("decimals", self.decimals, -308, 308))

    @property
    def exact_ratio(self) -> Fraction | None:
        """The slope bound as a rational, None where there is none."""
        return Fraction(self.max_slope_ratio) if math.isfinite(self.max_slope_ratio) else None

    def to_dict(self) -> dict[str, Any]:
        """The class as plain data.

        Returns
        -------
        dict
            One key an argument.
        """
        ratio = self.max_slope_ratio
        return {
            "shape": self.shape,
            "max_slope_ratio": ratio if math.isfinite(ratio) else "inf",
            "range_normalised": self.range_normalised,
            "decimals": self.decimals,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "MonotoneClass":
        """The class of :meth:`to_dict`.

        Parameters
        ----------
        data : dict
            What to_dict returned.

        Returns
        -------
        MonotoneClass
            The class.
        """
        return cls(**{**data, "max_slope_ratio": float(data["max_slope_ratio"])})


@dataclass(frozen=True)
class SmallCoalitions:
    """What the utilities of coalitions of fewer than ``below`` players may be.

    Parameters
    ----------
    below : int
        Coalitions with |S| < below are free, 1 <= below <= n.
    values : {"range", "monotone", "size-only", "free"}
        ``range``: anywhere in the bounds; ``monotone``: also monotone in inclusion; ``size-only``: a
        function of |S|; ``free``: unbounded.
    bounds : (float, float), optional
        Interval of the free scores; default: the range of the scores present.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range.

    References
    ----------
    PR-12, classes F0 to F5 (reconstruction).

    Examples
    --------
    >>> SmallCoalitions(below=2).values
    'range'
    """

    below: int
    values: str = "range"
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "below", integer("below", self.below, 1))
        one_of("values", self.values, SMALL)
        if self.bounds is None:
            return
        if self.values in ("size-only", "free"):
            raise ValueError(f"bounds must be left out for values={self.values!r}; use values='range'")
        try:
            low, high = map(float, self.bounds)
        except (TypeError, ValueError):
            low = high = math.nan
        if not (low <= high and math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"bounds must be finite (lo, hi) with lo <= hi, got {self.bounds}")
        object.__setattr__(self, "bounds", (low, high))

    def to_dict(self) -> dict[str, Any]:
        """The assumption as plain data.

        Returns
        -------
        dict
            One key an argument.
        """
        return {
            "below": self.below,
            "values": self.values,
            "bounds": list(self.bounds) if self.bounds else None,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any] | None) -> "SmallCoalitions | None":
        """The assumption of :meth:`to_dict`.

        Parameters
        ----------
        data : dict or None
            What to_dict returned.

        Returns
        -------
        SmallCoalitions or None
            The assumption.
        """
        if data is None:
            return None
        return cls(data["below"], data["values"], tuple(data["bounds"]) if data["bounds"] else None)
