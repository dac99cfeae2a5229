"""Worlds of the spectral flow: factorizations in continuous and discrete time, and LoRA on a small model."""

from porism.sims.spectral_flow.descent import OPTIMIZERS, simulate_descent
from porism.sims.spectral_flow.flow import KINDS, METHODS, simulate_flow
from porism.sims.spectral_flow.starts import aligned_init, lora_init, random_target
from porism.sims.spectral_flow.trajectory import FlowTrajectory

__all__ = [
    "KINDS",
    "METHODS",
    "OPTIMIZERS",
    "FlowTrajectory",
    "aligned_init",
    "lora_init",
    "random_target",
    "simulate_descent",
    "simulate_flow",
]
