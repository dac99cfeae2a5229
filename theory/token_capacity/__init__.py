"""Token capacity: what each position of a sequence can add to a gradient, and how many positions it takes.

The tangent kernel of a linear map splits by position (:func:`position_ntk`); bounds and counts say how much
one position can hold (:func:`capacity_bound`, :func:`interchange_bound`, :func:`prefix_count`); coverage says
how many positions are needed, from forward passes alone (:class:`HiddenStateMoments`,
:func:`choose_positions`).
"""

from porism.theory.token_capacity.capacity import (
    CapacityBound,
    GreedyPositions,
    InterchangeBound,
    capacity_bound,
    greedy_positions,
    interchange_bound,
    logdet_capacity,
)
from porism.theory.token_capacity.choose import PositionChoice, choose_positions
from porism.theory.token_capacity.coverage import coverage, min_positions
from porism.theory.token_capacity.moments import HiddenStateMoments, PositionMoments
from porism.theory.token_capacity.ntk import position_ntk
from porism.theory.token_capacity.prefixes import prefix_count
from porism.theory.token_capacity.rank import effective_rank

__all__ = [
    "CapacityBound",
    "GreedyPositions",
    "HiddenStateMoments",
    "InterchangeBound",
    "PositionChoice",
    "PositionMoments",
    "capacity_bound",
    "choose_positions",
    "coverage",
    "effective_rank",
    "greedy_positions",
    "interchange_bound",
    "logdet_capacity",
    "min_positions",
    "position_ntk",
    "prefix_count",
]
