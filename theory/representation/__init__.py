"""Parameter symmetries of one-hidden-layer networks, and what they do to measures of representation.

Scaling, duplicating and adding units leaves the function as it was and moves every similarity that reads the
hidden matrix. `similarity` measures, `cka_range` says how far it can be moved, `canonicalise` removes the
symmetries, and `privileged_similarity` compares what is left.
"""

from porism.theory.representation.canonical import CanonicalLayer, canonicalise, privileged_similarity
from porism.theory.representation.layer import Layer, layer_of
from porism.theory.representation.similarity import Range, cka_after_addition, cka_range, similarity
from porism.theory.representation.symmetries import (
    add_cancelling,
    add_linear_null,
    add_null,
    duplicate,
    scale,
)

__all__ = [
    "CanonicalLayer",
    "Layer",
    "Range",
    "add_cancelling",
    "add_linear_null",
    "add_null",
    "canonicalise",
    "cka_after_addition",
    "cka_range",
    "duplicate",
    "layer_of",
    "privileged_similarity",
    "scale",
    "similarity",
]
