"""Pattern distance: how far a matrix is from a mask, up to reordering of rows and columns.

One function answers for any mask (:func:`pattern_distance`); bounds, nulls, a low-rank companion and
bandwidth stand beside it. A distance alone says little: see the notes of :func:`pattern_null`.
"""

from porism.theory.pattern import masks
from porism.theory.pattern._spec import MASK_FORMS, parse_mask
from porism.theory.pattern.bandwidth import BandwidthFit, minimize_bandwidth
from porism.theory.pattern.bounds import pattern_lower_bound
from porism.theory.pattern.compare import PatternComparison, compare_patterns
from porism.theory.pattern.distance import pattern_distance
from porism.theory.pattern.errors import UninformativeMaskWarning
from porism.theory.pattern.estimator import PatternReorder
from porism.theory.pattern.fit import PatternFit
from porism.theory.pattern.low_rank import PatternLowRankFit, pattern_plus_low_rank
from porism.theory.pattern.mask import Mask
from porism.theory.pattern.nulls import NullResult, holm, null_moments, pattern_null

__all__ = [
    "MASK_FORMS",
    "BandwidthFit",
    "Mask",
    "NullResult",
    "PatternComparison",
    "PatternFit",
    "PatternLowRankFit",
    "PatternReorder",
    "UninformativeMaskWarning",
    "compare_patterns",
    "holm",
    "masks",
    "minimize_bandwidth",
    "null_moments",
    "parse_mask",
    "pattern_distance",
    "pattern_lower_bound",
    "pattern_null",
    "pattern_plus_low_rank",
]
