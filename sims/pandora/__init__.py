"""Worlds of the pandora module: simulators, score matrices from files and classifiers, experiments.

Fitting and routing themselves are re-exported from `porism.theory.pandora`.
"""

from typing import TYPE_CHECKING

from porism._lazy import submodules

if TYPE_CHECKING:
    from porism.sims.pandora.agreement import AgreementEstimates, Answers, agreement_estimates
    from porism.sims.pandora.classifiers import CLASSIFIERS, DATA_SETS, classifier_matrix
    from porism.sims.pandora.experiments import (
        COSTS,
        MARGINS,
        average_curves,
        cross_fit,
        curve_over_seeds,
        refinement_curve,
    )
    from porism.sims.pandora.matrix import ScoreMatrix
    from porism.sims.pandora.real import (
        MMLU_PRO_REFERENCES,
        SOURCES,
        Source,
        has_data,
        load_dc9,
        load_mmlu_pro,
        load_routellm,
        load_routerarena,
    )
    from porism.sims.pandora.refinement import RefinementCurve
    from porism.sims.pandora.simulators import binary_irt, gaussian, levels, market
    from porism.sims.pandora.sweeps import BudgetRun, DependenceSweep, budget_run, dependence_sweep
    from porism.sims.pandora.tables import read_csv, read_npz, read_routellm, read_routerbench, read_scores
    from porism.sims.pandora.worlds import LevelsWorld, MarketChange, MarketWorld, World
    from porism.theory.pandora import (
        CostQualityCurve,
        Router,
        aiq,
        apgr,
        arena_score,
        baselines,
        cheap,
        cost_quality_curve,
        exhaustive,
        fit_router,
        margin_threshold,
        nondecreasing_hull,
        oracle,
        random,
        route_batch,
        single_best,
    )

__all__ = [
    "CLASSIFIERS",
    "COSTS",
    "DATA_SETS",
    "MARGINS",
    "MMLU_PRO_REFERENCES",
    "SOURCES",
    "AgreementEstimates",
    "Answers",
    "BudgetRun",
    "CostQualityCurve",
    "DependenceSweep",
    "LevelsWorld",
    "MarketChange",
    "MarketWorld",
    "RefinementCurve",
    "Router",
    "ScoreMatrix",
    "Source",
    "World",
    "agreement_estimates",
    "aiq",
    "apgr",
    "arena_score",
    "average_curves",
    "baselines",
    "binary_irt",
    "budget_run",
    "cheap",
    "classifier_matrix",
    "cost_quality_curve",
    "cross_fit",
    "curve_over_seeds",
    "dependence_sweep",
    "exhaustive",
    "fit_router",
    "gaussian",
    "has_data",
    "levels",
    "load_dc9",
    "load_mmlu_pro",
    "load_routellm",
    "load_routerarena",
    "margin_threshold",
    "market",
    "nondecreasing_hull",
    "oracle",
    "random",
    "read_csv",
    "read_npz",
    "read_routellm",
    "read_routerbench",
    "read_scores",
    "refinement_curve",
    "route_batch",
    "single_best",
]

_LATER: dict[str, tuple[str, ...]] = {
    "agreement": ("AgreementEstimates", "Answers", "agreement_estimates"),
    "classifiers": ("CLASSIFIERS", "DATA_SETS", "classifier_matrix"),
    "experiments": (
        "COSTS", "MARGINS", "average_curves", "cross_fit", "curve_over_seeds", "refinement_curve",
    ),
    "matrix": ("ScoreMatrix",),
    "real": (
        "MMLU_PRO_REFERENCES", "SOURCES", "Source", "has_data", "load_dc9", "load_mmlu_pro", "load_routellm",
        "load_routerarena",
    ),
    "refinement": ("RefinementCurve",),
    "simulators": ("binary_irt", "gaussian", "levels", "market"),
    "sweeps": ("BudgetRun", "DependenceSweep", "budget_run", "dependence_sweep"),
    "tables": ("read_csv", "read_npz", "read_routellm", "read_routerbench", "read_scores"),
    "worlds": ("LevelsWorld", "MarketChange", "MarketWorld", "World"),
}  # fmt: skip
_LATER["porism.theory.pandora"] = tuple({*__all__}.difference(*_LATER.values()))

__getattr__ = submodules(__name__, _LATER)
