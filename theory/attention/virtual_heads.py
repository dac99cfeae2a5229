"""Virtual heads: folding them into weights, the guard for rotary positions, and how virtual real heads are.

One place to import from; the parts are in `folding`, `rope`, `rank` and `modules`.
"""

from porism.theory.attention.folding import FoldedProjection, fold, fold_output_mix, fold_query_mix
from porism.theory.attention.modules import fold_into
from porism.theory.attention.rank import VirtualRank, factor_virtual, virtual_rank
from porism.theory.attention.rope import (
    RopeLayout,
    commutant_dimension,
    project_to_commutant,
    rope_commutant_residual,
    rotate,
)

__all__ = [
    "FoldedProjection",
    "RopeLayout",
    "VirtualRank",
    "commutant_dimension",
    "factor_virtual",
    "fold",
    "fold_into",
    "fold_output_mix",
    "fold_query_mix",
    "project_to_commutant",
    "rope_commutant_residual",
    "rotate",
    "virtual_rank",
]
