"""Worlds of the partition module: games with a known truth, tables of real data, sampled tables."""

from porism.sims.partition.games import (
    block_game,
    modular_game,
    mtm_game,
    noisy_symmetric_game,
    random_game,
    random_monotone_game,
    saturating_game,
)
from porism.sims.partition.sampling import (
    SAMPLED_DESIGNS,
    draw_coalitions,
    modular_utility,
    sample_table,
    shapley_size_law,
    threshold_utility,
)
from porism.sims.partition.tables import DATASETS, FlippedWorld, flipped_world, knn_table, logistic_table
from porism.sims.partition.utility import CheckpointMismatchError, EvaluationError, utility_table

__all__ = [
    "DATASETS",
    "SAMPLED_DESIGNS",
    "CheckpointMismatchError",
    "EvaluationError",
    "FlippedWorld",
    "block_game",
    "draw_coalitions",
    "flipped_world",
    "knn_table",
    "logistic_table",
    "modular_game",
    "modular_utility",
    "mtm_game",
    "noisy_symmetric_game",
    "random_game",
    "random_monotone_game",
    "sample_table",
    "saturating_game",
    "shapley_size_law",
    "threshold_utility",
    "utility_table",
]
