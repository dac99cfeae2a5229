"""Worlds of virtual heads: random mixes, attention with the mixes kept, rounding, and real query heads."""

from porism.sims.attention.worlds import (
    AttentionLayer,
    minilm_queries,
    planted_heads,
    random_mix,
    round_bfloat16,
    sample_layer,
    virtual_attention,
)

__all__ = [
    "AttentionLayer",
    "minilm_queries",
    "planted_heads",
    "random_mix",
    "round_bfloat16",
    "sample_layer",
    "virtual_attention",
]
