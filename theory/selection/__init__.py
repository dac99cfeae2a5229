"""Dual scores: what each training sample and each parameter adds to one step's gain on a validation loss.

``G_ij = d_j l_i(theta) v_j`` with v the gradient of the validation loss. Rows summed over parameters value
samples, columns summed over samples value parameters, and both totals are the same number. No entry of G is
ever stored: all rows are one forward-mode derivative, all columns one backward pass. Reconstruction: only the
abstract was available.
"""

from porism.theory.selection.dual_scores import DualScores, dual_scores
from porism.theory.selection.joint import JointSelection, joint_select
from porism.theory.selection.oracle import ScoreOracle, column_mask, score_oracle
from porism.theory.selection.per_sample import per_sample_gradients

__all__ = [
    "DualScores",
    "JointSelection",
    "ScoreOracle",
    "column_mask",
    "dual_scores",
    "joint_select",
    "per_sample_gradients",
    "score_oracle",
]
