"""Pandora routing: when a better estimate of a specialist is worth its price."""

from porism.theory.pandora import baselines
from porism.theory.pandora.baselines import cheap, exhaustive, margin_threshold, oracle, random, single_best
from porism.theory.pandora.bidder import Bid, bidder_decision, bidder_sign_map, bidder_statics
from porism.theory.pandora.bounds import GainBounds, voi_binary, voi_bounds
from porism.theory.pandora.correlated import signal_slopes, voi_correlated
from porism.theory.pandora.curves import (
    CostQualityCurve,
    aiq,
    apgr,
    arena_score,
    cost_quality_curve,
    nondecreasing_hull,
)
from porism.theory.pandora.decide import certify_decision
from porism.theory.pandora.decision import Decision
from porism.theory.pandora.fit import FittedRouter, fit_router
from porism.theory.pandora.index import inspection_halfwidth, preposterior_sd, reservation_index
from porism.theory.pandora.innovation import Innovation
from porism.theory.pandora.levels import Draws, best_draws, pooled_sd
from porism.theory.pandora.obligatory import obligatory_value
from porism.theory.pandora.optimal import DPResult, optimal_value
from porism.theory.pandora.policies import (
    POLICIES,
    compare_policies,
    evaluate_policy,
    first_action,
    policy_value,
)
from porism.theory.pandora.psi import log_psi, psi, psi_inv, psi_inv_log
from porism.theory.pandora.report import CalibrationReport, Chosen
from porism.theory.pandora.router import Router
from porism.theory.pandora.routes import Routes, route_batch
from porism.theory.pandora.value import log_voi, voi, voi_net
from porism.theory.pandora.wedge import small_signal_change, wedge_threshold

__all__ = [
    "POLICIES",
    "Bid",
    "CalibrationReport",
    "Chosen",
    "CostQualityCurve",
    "DPResult",
    "Decision",
    "Draws",
    "FittedRouter",
    "GainBounds",
    "Innovation",
    "Router",
    "Routes",
    "aiq",
    "apgr",
    "arena_score",
    "baselines",
    "best_draws",
    "bidder_decision",
    "bidder_sign_map",
    "bidder_statics",
    "certify_decision",
    "cheap",
    "compare_policies",
    "cost_quality_curve",
    "evaluate_policy",
    "exhaustive",
    "first_action",
    "fit_router",
    "inspection_halfwidth",
    "log_psi",
    "log_voi",
    "margin_threshold",
    "nondecreasing_hull",
    "obligatory_value",
    "optimal_value",
    "oracle",
    "policy_value",
    "pooled_sd",
    "preposterior_sd",
    "psi",
    "psi_inv",
    "psi_inv_log",
    "random",
    "reservation_index",
    "route_batch",
    "signal_slopes",
    "single_best",
    "small_signal_change",
    "voi",
    "voi_binary",
    "voi_bounds",
    "voi_correlated",
    "voi_net",
    "wedge_threshold",
]
