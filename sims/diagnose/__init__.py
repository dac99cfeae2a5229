"""A model's diagnosis out of forward passes: capacity, heads, ranks, alignment and adapters in one pass."""

from porism.sims.diagnose.capacity import LayerCapacity
from porism.sims.diagnose.ranks import HiddenRanks
from porism.sims.diagnose.result import Diagnosis
from porism.sims.diagnose.stream import ASPECTS, diagnose

__all__ = ["ASPECTS", "Diagnosis", "HiddenRanks", "LayerCapacity", "diagnose"]
