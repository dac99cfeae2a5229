"""Alignment at work: features and reports of real models, LoRA starts and pivots, and worlds to test them in.

`collect_features`, `alignment_report`, `init_pivot_lora`, `pivot_` and `PivotCallback` take a user's own
model; the coefficient itself is re-exported from `porism.theory.alignment`. The rest are simulators.
"""

import importlib.util
from typing import TYPE_CHECKING

from porism._lazy import submodules
from porism.sims.alignment.comparison import PivotComparison, compare_pivots
from porism.sims.alignment.encoder import (
    ENCODER_METHODS,
    ENCODER_TASKS,
    EncoderRun,
    compare_encoder_starts,
)
from porism.sims.alignment.energy import ModuleEnergy, measure_energy
from porism.sims.alignment.features import Features, collect_features
from porism.sims.alignment.fewshot import (
    FEWSHOT_OPTIMIZERS,
    STARTS,
    LinearPivot,
    LoraPath,
    lora_start,
    random_head,
    train_lora,
)
from porism.sims.alignment.init import InitReport, init_pivot_lora
from porism.sims.alignment.pivot import PivotReport, pivot_
from porism.sims.alignment.regime import RegimeSweep, sweep_regime
from porism.sims.alignment.report import AlignmentReport, AlignmentRow, alignment_report
from porism.sims.alignment.spiked import ClassTask, SpikedSample, sample_class_task, sample_spiked
from porism.sims.alignment.tracking import PANELS, PREDICTORS, Tracking, track_gains
from porism.sims.alignment.trajectories import (
    Conservation,
    PivotPaths,
    measure_conservation,
    pivot_paths,
)
from porism.theory.alignment import (
    AlignmentResult,
    Subspace,
    alignment_coefficient,
    predicted_accuracy_gain,
    principal_angles,
    principal_subspace,
)

if TYPE_CHECKING:
    from porism.sims.alignment.callback import PivotCallback

__all__ = [
    "ENCODER_METHODS",
    "ENCODER_TASKS",
    "FEWSHOT_OPTIMIZERS",
    "PANELS",
    "PREDICTORS",
    "STARTS",
    "AlignmentReport",
    "AlignmentResult",
    "AlignmentRow",
    "ClassTask",
    "Conservation",
    "EncoderRun",
    "Features",
    "InitReport",
    "LinearPivot",
    "LoraPath",
    "ModuleEnergy",
    "PivotComparison",
    "PivotPaths",
    "PivotReport",
    "RegimeSweep",
    "SpikedSample",
    "Subspace",
    "Tracking",
    "alignment_coefficient",
    "alignment_report",
    "collect_features",
    "compare_encoder_starts",
    "compare_pivots",
    "init_pivot_lora",
    "lora_start",
    "measure_conservation",
    "measure_energy",
    "pivot_",
    "pivot_paths",
    "predicted_accuracy_gain",
    "principal_angles",
    "principal_subspace",
    "random_head",
    "sample_class_task",
    "sample_spiked",
    "sweep_regime",
    "track_gains",
    "train_lora",
]
if TYPE_CHECKING or importlib.util.find_spec("transformers"):  # it is a subclass of one of theirs
    __all__ += ["PivotCallback"]

__getattr__ = submodules(__name__, {"callback": ["PivotCallback"]})
