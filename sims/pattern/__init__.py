"""Worlds of the pattern module: planted patterns, matrices of real data, attention heads."""

from porism.sims.pattern.attention import default_masks, scan_attention
from porism.sims.pattern.planted import PlantedTruth, planted_pattern, random_softmax
from porism.sims.pattern.records import HeadRecord, HeadRecords
from porism.sims.pattern.sweeps import Sweep, adjusted_rand, noise_sweep, size_sweep
from porism.sims.pattern.worlds import (
    CORRELATIONS,
    GRAPHS,
    load_matrix,
    load_transformer,
    minilm,
    real_text,
)

__all__ = [
    "CORRELATIONS",
    "GRAPHS",
    "HeadRecord",
    "HeadRecords",
    "PlantedTruth",
    "Sweep",
    "adjusted_rand",
    "default_masks",
    "load_matrix",
    "load_transformer",
    "minilm",
    "noise_sweep",
    "planted_pattern",
    "random_softmax",
    "real_text",
    "scan_attention",
    "size_sweep",
]
