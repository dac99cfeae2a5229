"""Attention with virtual heads: queries and outputs mixed across heads, and the weights that hide the mix.

Each group of heads that shares keys and values has P physical query heads, mixed to G virtual ones, ``q'_i =
sum_j M_ij q_j``; outputs are mixed by ``I + A B'`` across heads. Reconstruction: no paper was available.
"""

from porism.theory.attention.cost import AttentionConfig, Cost, cost_model
from porism.theory.attention.reference import Attention, attend
from porism.theory.attention.virtual_heads import (
    FoldedProjection,
    RopeLayout,
    VirtualRank,
    commutant_dimension,
    factor_virtual,
    fold,
    fold_into,
    fold_output_mix,
    fold_query_mix,
    project_to_commutant,
    rope_commutant_residual,
    rotate,
    virtual_rank,
)

__all__ = [
    "Attention",
    "AttentionConfig",
    "Cost",
    "FoldedProjection",
    "RopeLayout",
    "VirtualRank",
    "attend",
    "commutant_dimension",
    "cost_model",
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
