"""Partition robustness of semivalues: tables, values, decisions, certificates.

A decision drawn from semivalues (top k, ordered blocks, signs, thresholds) is certified against every
utility of an admissible class. See :func:`certify_partition`; sources and conventions are in its notes.
"""

from porism.theory.partition._coalitions import coalition_name, masks_of, members_of
from porism.theory.partition.bands import pair_radius, permutation_radius, player_radius, sequential_delta
from porism.theory.partition.certificate import Certificate
from porism.theory.partition.certify import certify_partition
from porism.theory.partition.classes import MonotoneClass, SmallCoalitions
from porism.theory.partition.decisions import (
    Decision,
    OrderedPartition,
    RelativeThreshold,
    Sign,
    Threshold,
    TopK,
)
from porism.theory.partition.dominance import desirability_matrix, is_coalitionally_dominant
from porism.theory.partition.errors import (
    BoundaryTieError,
    CertificateMismatch,
    DegenerateUtilityError,
    DuplicateCoalitionError,
    MissingCoalitionsError,
    NotMonotoneError,
    ShiftVariantEstimatorError,
    TooManyPlayersError,
)
from porism.theory.partition.samples import SampledTable
from porism.theory.partition.semivalue import Semivalue, semivalues
from porism.theory.partition.sweeps import robust_ks, value_intervals
from porism.theory.partition.table import UtilityTable
from porism.theory.partition.witness import WitnessUtility

__all__ = [
    "BoundaryTieError",
    "Certificate",
    "CertificateMismatch",
    "Decision",
    "DegenerateUtilityError",
    "DuplicateCoalitionError",
    "MissingCoalitionsError",
    "MonotoneClass",
    "NotMonotoneError",
    "OrderedPartition",
    "RelativeThreshold",
    "SampledTable",
    "Semivalue",
    "ShiftVariantEstimatorError",
    "Sign",
    "SmallCoalitions",
    "Threshold",
    "TooManyPlayersError",
    "TopK",
    "UtilityTable",
    "WitnessUtility",
    "certify_partition",
    "coalition_name",
    "desirability_matrix",
    "is_coalitionally_dominant",
    "masks_of",
    "members_of",
    "pair_radius",
    "permutation_radius",
    "player_radius",
    "robust_ks",
    "semivalues",
    "sequential_delta",
    "value_intervals",
]
