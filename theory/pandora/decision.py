"""Where one query goes."""

import dataclasses
from typing import Any

from porism.results import Result

__all__ = ["Decision"]


@dataclasses.dataclass(frozen=True)
class Decision(Result):
    """Where one query goes, and how that was found out.

    Parameters
    ----------
    choice : int
        Specialist, -1 for the outside option.
    name : str
        Its name; "outside" for -1.
    refined : dict of int to float
        Refined estimates by specialist, in the order in which they came.
    value : float
        Mean value of the chosen given all that was refined, before prices; the outside value for -1.
    spend : float
        Money: costs of the refinements that gave a value, plus the price of the chosen.
    trace : tuple of dict
        One entry a refinement tried: ``specialist``, ``name``, ``status`` ("ok", "failed" or "timeout"),
        ``value`` (NaN if there is none) and ``best``, the best usable net mean afterwards.
    """

    choice: int
    name: str
    refined: dict[int, float]
    value: float
    spend: float
    trace: tuple[dict[str, Any], ...]
