"""Worlds of latent reuse: pairs of latents with given angles, sampled scores, laws with few atoms, digits."""

from porism.sims.subspace.atoms import FewAtoms, few_atoms
from porism.sims.subspace.worlds import (
    ScoreError,
    digits_by_class,
    latent_covariance,
    sample_pair,
    score_error_monte_carlo,
)

__all__ = [
    "FewAtoms",
    "ScoreError",
    "digits_by_class",
    "few_atoms",
    "latent_covariance",
    "sample_pair",
    "score_error_monte_carlo",
]
