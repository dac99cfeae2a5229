"""Limits of latent reuse: what a score costs that is exact in a frozen latent, and in no other direction.

Target ``x0 ~ N(0, signal U_t U_t' + noise I)`` in R^D, seen as ``x = alpha x0 + h z``. The reused score is
exact in the frozen source latent ``U_s`` and ``-x / h^2`` outside of it. Reconstruction: only the abstract
was available.
"""

from porism.theory.subspace.angles import (
    ReuseError,
    crossover_angle,
    mixture_spectrum,
    reuse_error,
    shared_dimension,
)
from porism.theory.subspace.frames import lost_energy, off_latent_error, reuse_error_general
from porism.theory.subspace.report import ReuseReport, reuse_report

__all__ = [
    "ReuseError",
    "ReuseReport",
    "crossover_angle",
    "lost_energy",
    "mixture_spectrum",
    "off_latent_error",
    "reuse_error",
    "reuse_error_general",
    "reuse_report",
    "shared_dimension",
]
