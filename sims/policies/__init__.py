"""Worlds of the policies module: tilted experts, token trees, trainers, a bandit under group advantages."""

from typing import TYPE_CHECKING

from porism._lazy import submodules

if TYPE_CHECKING:
    from porism.sims.policies.bandit import BanditRun, mean_field, run_bandit
    from porism.sims.policies.invariants import Invariants, invariant_table
    from porism.sims.policies.training import TrainingRun, mirror_descent, policy_gradient
    from porism.sims.policies.worlds import PrefixTree, TiltWorld, tilt_world, token_world

__all__ = [
    "BanditRun",
    "Invariants",
    "PrefixTree",
    "TiltWorld",
    "TrainingRun",
    "invariant_table",
    "mean_field",
    "mirror_descent",
    "policy_gradient",
    "run_bandit",
    "tilt_world",
    "token_world",
]

_LATER = {
    "bandit": ("BanditRun", "mean_field", "run_bandit"),
    "invariants": ("Invariants", "invariant_table"),
    "training": ("TrainingRun", "mirror_descent", "policy_gradient"),
    "worlds": ("PrefixTree", "TiltWorld", "tilt_world", "token_world"),
}
__getattr__ = submodules(__name__, _LATER)
