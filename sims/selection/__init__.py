"""Worlds of dual scores: small nets with a validation loss, exact effects of a step, score matrices."""

from porism.sims.selection.matrices import biclique_matrix, draw_matrix, random_starts
from porism.sims.selection.worlds import (
    ScoreWorld,
    attention_world,
    centred_world,
    improvement,
    linear_world,
    removal_effects,
    tanh_world,
)

__all__ = [
    "ScoreWorld",
    "attention_world",
    "biclique_matrix",
    "centred_world",
    "draw_matrix",
    "improvement",
    "linear_world",
    "random_starts",
    "removal_effects",
    "tanh_world",
]
