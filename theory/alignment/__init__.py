"""Whether a LoRA start is aligned with what the labels ask for, and what that buys.

Bounds and laws of principal subspaces, the alignment coefficient rho of features with their labels, and the
first steps of a low-rank adapter.
"""

from porism.theory.alignment.bounds import SubspaceBounds, WedinBound, davis_kahan_bound, wedin_bound
from porism.theory.alignment.coefficient import AlignmentResult, alignment_coefficient
from porism.theory.alignment.first_step import (
    FirstStep,
    first_step,
    haar_moments,
    head_gradient,
    random_energy,
    token_energy,
)
from porism.theory.alignment.gains import (
    frozen_a_risk,
    head_start,
    linear_drop,
    predicted_accuracy,
    predicted_accuracy_gain,
    residual_variance,
)
from porism.theory.alignment.grouped import grouped_coefficient, sample_means
from porism.theory.alignment.spiked import (
    bbp_threshold,
    certificate_threshold,
    covariance_error,
    spike_eigenvalue,
    spike_overlap,
    subcritical_enrichment,
)
from porism.theory.alignment.subspace import Subspace, is_constant, principal_angles, principal_subspace

__all__ = [
    "AlignmentResult",
    "FirstStep",
    "Subspace",
    "SubspaceBounds",
    "WedinBound",
    "alignment_coefficient",
    "bbp_threshold",
    "certificate_threshold",
    "covariance_error",
    "davis_kahan_bound",
    "first_step",
    "frozen_a_risk",
    "grouped_coefficient",
    "haar_moments",
    "head_gradient",
    "head_start",
    "is_constant",
    "linear_drop",
    "predicted_accuracy",
    "predicted_accuracy_gain",
    "principal_angles",
    "principal_subspace",
    "random_energy",
    "residual_variance",
    "sample_means",
    "spike_eigenvalue",
    "spike_overlap",
    "subcritical_enrichment",
    "token_energy",
    "wedin_bound",
]
